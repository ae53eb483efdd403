//! Reads events, stores the statuses and deployments that they change, and advances the cursor in the same transaction.

use std::collections::{BTreeMap, BTreeSet};
use std::str::FromStr;

use berth_core::commit_status::CommitStatusRecord;
use berth_core::event::Event;
use berth_core::forge::progress::{deployed_commit, list_progress};
use berth_core::id::{DeploymentId, EnvironmentId, PipelineId};
use berth_core::pipeline::state::Pipeline;
use berth_core::repository::Repository;
use berth_store::tables::commit_status::{self, LaggingStatuses};
use berth_store::tables::{approval, deployment, event, forge_connection, pipeline, repository, run};
use berth_store::{StoreRead, Tx, TxContext};

use super::StatusFanOut;
use super::deployments::{self, DeploymentScope};
use crate::config::AppConfig;
use crate::error::AppError;
use crate::integrations::forges::ForgeRepository;

/// Maximum number of organizations read per query.
const ORGANIZATIONS_PAGE: i64 = 1_000;
/// Maximum number of events read per query.
const EVENTS_BATCH_MAX: i64 = 200;
/// How many events the in-memory cursor may be ahead of the stored cursor. After a crash, at most this many events are
/// read again.
const UNWRITTEN_MAX: i64 = 1_000;
/// Beginnings of the kinds of events that can change a status.
const KINDS: [&str; 3] = ["deployment_", "stage_", "approval_"];
/// Kinds of events after which what was deployed in a session is not in use any more.
const SESSION_ENDS: [&str; 3] = ["session_released", "session_overridden", "session_expired"];

/// Reads one batch of events for each organization that has new ones. Returns whether there are more.
pub(super) async fn read_events(job: &StatusFanOut) -> Result<bool, AppError> {
    let (mut has_more, mut after) = (false, None);
    loop {
        let found = job.services.store.read(None, move |db| {
            Ok::<_, AppError>(commit_status::list_lagging(db, after, ORGANIZATIONS_PAGE)?)
        });
        let page = found.await?;
        after = page.last().map(|it| it.org);
        let is_last = i64::try_from(page.len()).is_ok_and(|count| count < ORGANIZATIONS_PAGE);
        for lagging in page {
            let position = job.positions.lock().get(&lagging.org).copied().unwrap_or(0);
            let position = position.max(lagging.sequence);
            if position < lagging.head {
                has_more |= read_batch(job, lagging, position).await?;
            }
        }
        if is_last || job.services.shutdown.is_cancelled() {
            return Ok(has_more);
        }
    }
}

/// Processes one batch of an organization's events. Returns whether there are more.
async fn read_batch(job: &StatusFanOut, lagging: LaggingStatuses, position: i64) -> Result<bool, AppError> {
    let (org, config) = (lagging.org, job.config.clone());
    let read = job.services.store.read(Some(org), move |db| {
        let happened = event::list_after(db, position, i64::MAX, EVENTS_BATCH_MAX)?;
        let mut changes = StatusChanges::default();
        for event in &happened {
            changes.add(db, &config, event)?;
        }
        Ok::<_, AppError>((happened.last().map(|last| last.sequence), happened.len(), changes))
    });
    let (Some(to), count, changes) = read.await? else { return Ok(false) };
    let has_more = i64::try_from(count).is_ok_and(|count| count >= EVENTS_BATCH_MAX);
    if changes.is_empty() && to - lagging.sequence < UNWRITTEN_MAX {
        job.positions.lock().insert(org, to);
        return Ok(has_more);
    }
    let config = job.config.clone();
    let written = job.services.store.transact(TxContext::system(Some(org)), move |tx| {
        if !commit_status::move_cursor(tx, lagging.sequence, to)? {
            return Ok::<_, AppError>(false);
        }
        for id in changes.deployments {
            store_statuses(tx, &config, id)?;
        }
        for id in changes.environments {
            deployments::deactivate_released(tx, &config, id)?;
        }
        Ok(true)
    });
    if written.await? {
        job.positions.lock().insert(org, to);
    }
    Ok(has_more)
}

/// What a batch of events can change on forges. Most batches change nothing, and then need no transaction.
#[derive(Default)]
struct StatusChanges {
    deployments: BTreeSet<DeploymentId>,
    /// Environments whose session has ended.
    environments: BTreeSet<EnvironmentId>,
    /// Whether the pipelines of these events have statuses.
    pipelines: BTreeMap<PipelineId, bool>,
}

impl StatusChanges {
    fn is_empty(&self) -> bool {
        self.deployments.is_empty() && self.environments.is_empty()
    }

    fn add(&mut self, db: &mut impl StoreRead, config: &AppConfig, event: &Event) -> Result<(), AppError> {
        let (deployment, environment) = (changed_deployment(event), released_environment(event));
        if deployment.is_none() && environment.is_none() || !self.can_have_statuses(db, config, event)? {
            return Ok(());
        }
        self.deployments.extend(deployment);
        self.environments.extend(environment);
        Ok(())
    }

    /// Whether the event's pipeline has statuses. Assumed for events that name no pipeline.
    fn can_have_statuses(
        &mut self,
        db: &mut impl StoreRead,
        config: &AppConfig,
        event: &Event,
    ) -> Result<bool, AppError> {
        let Some(pipeline) = find_subject::<PipelineId>(event, "pipeline") else { return Ok(true) };
        if let Some(known) = self.pipelines.get(&pipeline) {
            return Ok(*known);
        }
        let found = pipeline::by_id(db, pipeline)?;
        let has_statuses = match found {
            Some(found) => find_status_repository(db, config, &found)?.is_some(),
            None => false,
        };
        self.pipelines.insert(pipeline, has_statuses);
        Ok(has_statuses)
    }
}

fn find_subject<T: FromStr>(event: &Event, kind: &str) -> Option<T> {
    event.subjects.iter().find(|subject| subject.kind == kind)?.id.parse().ok()
}

/// Returns the deployment that an event is about, if the event can change its statuses.
fn changed_deployment(event: &Event) -> Option<DeploymentId> {
    let is_relevant = KINDS.iter().any(|kind| event.kind.starts_with(kind));
    is_relevant.then(|| find_subject(event, "deployment")).flatten()
}

/// Returns the environment whose session ended with this event.
fn released_environment(event: &Event) -> Option<EnvironmentId> {
    let is_relevant = SESSION_ENDS.contains(&event.kind.as_str());
    is_relevant.then(|| find_subject(event, "environment")).flatten()
}

/// Stores the statuses that the present state of the deployment calls for.
fn store_statuses(tx: &mut Tx<'_>, config: &AppConfig, id: DeploymentId) -> Result<(), AppError> {
    let Some(deployment) = deployment::by_id(tx, id)? else { return Ok(()) };
    let Some(commit) = deployed_commit(&deployment) else { return Ok(()) };
    let Some(pipeline) = pipeline::by_id(tx, deployment.pipeline)? else { return Ok(()) };
    let Some(repository) = find_status_repository(tx, config, &pipeline)? else { return Ok(()) };
    let stages = run::list_stages(tx, id)?;
    let waiting: Vec<String> = approval::list_pending(tx, id)?.into_iter().map(|it| it.stage).collect();
    let now = tx.now();
    let scope = DeploymentScope::load(tx, config, &repository, &pipeline)?;
    for wanted in list_progress(&deployment, &stages, &pipeline.outline.stages, &waiting) {
        let context = format!("berth/{}/{}", pipeline.slug, wanted.name);
        let current = commit_status::by_context(tx, repository.id, commit, &context)?;
        let key = (repository.id, commit, context.as_str());
        if let Some(changed) = CommitStatusRecord::apply(current.as_ref(), key, id, &wanted, now) {
            commit_status::put(tx, &changed)?;
        }
        if let Some(scope) = &scope {
            scope.store(tx, &deployment, commit, &wanted)?;
        }
    }
    Ok(())
}

/// Returns the pipeline's repository if statuses can be written for it: it is on a known forge and has a credential, or
/// is connected.
pub(super) fn find_status_repository(
    db: &mut impl StoreRead,
    config: &AppConfig,
    pipeline: &Pipeline,
) -> Result<Option<Repository>, AppError> {
    let Some(origin) = &pipeline.origin else { return Ok(None) };
    let Some(repository) = repository::by_id(db, origin.repository)? else { return Ok(None) };
    if ForgeRepository::locate(&repository.url, &config.forges).is_none() {
        return Ok(None);
    }
    let has_access =
        repository.credential.is_some() || forge_connection::by_repository(db, repository.id)?.is_some();
    Ok(has_access.then_some(repository))
}
