//! What approving would change in its stage or environment: commits, files, definition and secrets.
//!
//! Commits and files are read from the server's mirror of the repository on each request. If that is not possible, the
//! response says so with nulls.

use std::collections::BTreeMap;
use std::time::Duration;

use berth_api::approval_changes::{ApprovalChanges, FileChangeCount, SecretChangeKind, SecretVersionChange};
use berth_api::commit::WireCommit;
use berth_core::access::{AccessTarget, Action, EffectiveAccess, permit};
use berth_core::deployment::Deployment;
use berth_core::deployment::run::{PinnedSecret, Plan};
use berth_core::id::{DeploymentId, RepositoryId};
use berth_core::pipeline::grammar::SecretName;
use berth_core::repository::RemoteUrl;
use berth_engine::git::{ChangedFiles, CommitDescription, CommitHash, GitError, GitMirror};
use berth_store::StoreRead;
use berth_store::tables::commit::{self, DeployedCommit};
use berth_store::tables::{deployment, pipeline, plan, repository};

use super::commit_details::{commit_to_wire, compare_url};
use super::line_count::count_changed_lines;
use super::resource_access::{require_everywhere, require_on_pipeline, require_whole_pipeline};
use super::{ApiResponse, App, approvals};
use crate::auth::authorize::AuthorizedCaller;
use crate::error::AppError;
use crate::integrations::forges::ForgeHost;

/// Maximum number of commits and files in a response.
const COMMITS_MAX: usize = 50;
const FILES_MAX: usize = 100;
/// Timeout of one git process, and of all of them together.
const GIT_TIME_MAX: Duration = Duration::from_secs(4);
const READ_TIME_MAX: Duration = Duration::from_secs(8);

/// Both sides of the comparison, from the database.
struct Compared {
    from: Option<DeployedCommit>,
    to: Option<DeployedCommit>,
    source: Option<ComparedSource>,
    /// The source texts of both definitions, if they differ.
    definitions: Option<(String, String)>,
    /// `None` if the caller may not read secrets of the pipeline.
    secrets: Option<Vec<SecretVersionChange>>,
    /// Whether the caller may read the pipeline itself. A grant on a stage shows only its name and state.
    is_pipeline_readable: bool,
}

/// The repository and the commits to read from its mirror.
struct ComparedSource {
    repository: RepositoryId,
    url: RemoteUrl,
    from: Option<String>,
    to: String,
}

/// What was read from the mirror. Parts that could not be read are `None`.
#[derive(Default)]
struct MirrorChanges {
    to: Option<CommitDescription>,
    from: Option<CommitDescription>,
    commits: Option<Vec<CommitDescription>>,
    commit_count: Option<u64>,
    files: Option<ChangedFiles>,
}

impl App {
    /// Shows what approving would change. Requires permission to read the approval and its pipeline.
    pub async fn view_approval_changes(
        &self,
        who: &AuthorizedCaller<permit::ApprovalsRead>,
        id: String,
    ) -> Result<ApiResponse<ApprovalChanges>, AppError> {
        let (org, access) = (who.org(), who.access().clone());
        let compared = self.read(who, move |db| load_compared(db, &access, &id)).await?;
        let Compared { from, to, source, definitions, secrets, is_pipeline_readable } = compared;
        let mut read = MirrorChanges::default();
        if let Some(source) = &source
            && let Some(head) = CommitHash::parse(&source.to)
        {
            let mirror = self.services.git.mirror(org, source.repository).with_time_limit(GIT_TIME_MAX);
            let base = source.from.clone();
            let reading = self.services.git.run(org, move || read_changes(&mirror, base.as_deref(), &head));
            // Processes that still run at the timeout end by themselves.
            match tokio::time::timeout(READ_TIME_MAX, reading).await {
                Ok(done) => read = done?,
                Err(_) => tracing::info!(repository = %source.repository, "reading changes timed out"),
            }
        }
        let definition = match definitions {
            Some((before, after)) => {
                Some(self.parsing.run(org, move || count_changed_lines(&before, &after)).await?)
            }
            None => None,
        };
        let forges = &self.config.forges;
        let shown = |found: Option<&DeployedCommit>, described: Option<CommitDescription>| match found {
            Some(found) => Some(commit_to_wire(found, forges)),
            None => Some(described_to_wire(source.as_ref()?, described?, forges)),
        };
        let base = source.as_ref().and_then(|it| it.from.as_deref());
        let files = read.files.filter(|_| is_pipeline_readable).map(|found| (found.files, found.count));
        Ok(ApiResponse::ok(ApprovalChanges {
            compare_url: to.as_ref().and_then(|it| compare_url(it, base, forges)),
            from: shown(from.as_ref(), read.from),
            to: shown(to.as_ref(), read.to),
            commits: source.as_ref().zip(read.commits).map(|(source, all)| {
                all.into_iter().map(|it| described_to_wire(source, it, forges)).collect()
            }),
            commit_count: read.commit_count,
            file_count: files.as_ref().map(|(_, count)| *count),
            files: files.map(|(files, _)| {
                let files = files.into_iter();
                files
                    .map(|it| FileChangeCount { path: it.path, added: it.added, removed: it.removed })
                    .collect()
            }),
            definition,
            secrets,
        }))
    }
}

fn load_compared(db: &mut impl StoreRead, access: &EffectiveAccess, id: &str) -> Result<Compared, AppError> {
    let approval = approvals::find(db, access, Action::ApprovalsRead, id)?;
    let (target, is_pipeline_readable) = match pipeline::find_slug(db, approval.pipeline)? {
        Some(slug) => {
            require_on_pipeline(access, Action::PipelinesRead, &slug)?;
            let is_readable = require_whole_pipeline(access, &slug).is_ok();
            (AccessTarget::Pipeline(slug.to_string()), is_readable)
        }
        None => {
            require_everywhere(access, Action::PipelinesRead)?;
            (AccessTarget::Organization, true)
        }
    };
    let head = deployment::by_id(db, approval.deployment)?;
    let head = head.ok_or_else(|| AppError::bug("an approval without a deployment"))?;
    let base = commit::list_approval_bases(db, &[approval.id])?.remove(&approval.id);
    let base = base.map(|it| it.deployment);
    let ids: Vec<DeploymentId> = [Some(head.id), base].into_iter().flatten().collect();
    let mut commits = commit::list_of_deployments(db, &ids)?;
    let head_plan = plan::by_id(db, head.id)?;
    let (base, base_plan) = match base {
        Some(id) => (deployment::by_id(db, id)?, plan::by_id(db, id)?),
        None => (None, None),
    };
    let (from, to) = (base.as_ref().and_then(|it| commits.remove(&it.id)), commits.remove(&head.id));
    Ok(Compared {
        source: load_source(db, head_plan.as_ref(), base.as_ref())?,
        definitions: match is_pipeline_readable {
            true => load_definitions(db, base.as_ref(), &head)?,
            false => None,
        },
        secrets: access.may(Action::SecretsRead, &target).then(|| {
            compare_secrets(
                pinned_secrets(base_plan.as_ref(), &approval.stage),
                pinned_secrets(head_plan.as_ref(), &approval.stage),
            )
        }),
        from,
        to,
        is_pipeline_readable,
    })
}

fn load_source(
    db: &mut impl StoreRead,
    plan: Option<&Plan>,
    base: Option<&Deployment>,
) -> Result<Option<ComparedSource>, AppError> {
    let Some(source) = plan.and_then(|it| it.source.as_ref()) else { return Ok(None) };
    let found = repository::by_id(db, source.repository)?;
    Ok(found.map(|it| ComparedSource {
        repository: it.id,
        url: it.url,
        from: base.and_then(|it| it.resolved_commit.clone()),
        to: source.commit.clone(),
    }))
}

/// Loads the definitions of two deployments. `None` if they are the same.
fn load_definitions(
    db: &mut impl StoreRead,
    base: Option<&Deployment>,
    head: &Deployment,
) -> Result<Option<(String, String)>, AppError> {
    let Some(base) = base.filter(|base| base.definition_hash != head.definition_hash) else {
        return Ok(None);
    };
    let before = pipeline::load_definition(db, &base.definition_hash)?;
    Ok(before.zip(pipeline::load_definition(db, &head.definition_hash)?))
}

/// The pinned secrets of a stage.
fn pinned_secrets<'a>(plan: Option<&'a Plan>, stage: &str) -> Option<&'a BTreeMap<SecretName, PinnedSecret>> {
    plan?.stages.iter().find(|it| it.name == stage).map(|it| &it.secrets)
}

/// Compares pinned secrets. Without a plan on one side, there is nothing to compare with, and all secrets of the other
/// side are new or removed.
fn compare_secrets(
    before: Option<&BTreeMap<SecretName, PinnedSecret>>,
    after: Option<&BTreeMap<SecretName, PinnedSecret>>,
) -> Vec<SecretVersionChange> {
    let none = BTreeMap::new();
    let (before, after) = (before.unwrap_or(&none), after.unwrap_or(&none));
    let mut changes = BTreeMap::new();
    for (name, pinned) in after {
        match before.get(name) {
            None => changes.insert(name, SecretChangeKind::Added),
            Some(known) if known != pinned => changes.insert(name, SecretChangeKind::Updated),
            Some(_) => None,
        };
    }
    let removed = before.keys().filter(|name| !after.contains_key(*name));
    changes.extend(removed.map(|name| (name, SecretChangeKind::Removed)));
    changes.into_iter().map(|(name, change)| SecretVersionChange { name: name.to_string(), change }).collect()
}

fn read_changes(mirror: &GitMirror, base: Option<&str>, head: &CommitHash) -> MirrorChanges {
    let parsed = base.and_then(CommitHash::parse);
    let from = parsed.as_ref().and_then(|commit| readable(mirror.describe(commit)));
    let mut found = MirrorChanges { to: readable(mirror.describe(head)), from, ..MirrorChanges::default() };
    // A base that is not in the mirror cannot be compared with. Without a base, the most recent commits are shown.
    if found.to.is_none() || (base.is_some() && found.from.is_none()) {
        return found;
    }
    found.commits = readable(mirror.describe_range(parsed.as_ref(), head, COMMITS_MAX));
    found.commit_count = readable(mirror.count_range(parsed.as_ref(), head));
    found.files = parsed.and_then(|base| readable(mirror.changed_files(&base, head, FILES_MAX)));
    found
}

fn readable<T>(read: Result<T, GitError>) -> Option<T> {
    read.inspect_err(|error| tracing::debug!(%error, "reading changes failed")).ok()
}

fn described_to_wire(source: &ComparedSource, it: CommitDescription, forges: &[ForgeHost]) -> WireCommit {
    let record = it.into_record(source.repository);
    commit_to_wire(&DeployedCommit { record, url: source.url.clone(), base: None }, forges)
}
