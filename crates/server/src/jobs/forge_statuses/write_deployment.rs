//! Writes deployments to forges that have them.

use std::sync::Arc;

use berth_core::forge_deployment::ForgeDeploymentRecord;
use berth_core::id::{OrgId, RepositoryId};
use berth_core::name::Slug;
use berth_core::pipeline::state::Pipeline;
use berth_store::TxContext;
use berth_store::tables::{deployment, forge_deployment, organization, pipeline, repository};

use super::StatusWriter;
use super::outcome::WriteOutcome;
use crate::error::AppError;
use crate::integrations::forges::{
    DeploymentApi, DeploymentDraft, DeploymentUpdate, ForgeClient, ForgeError, client_of, run_on_thread,
};

/// Maximum number of repositories with due deployments that are read per turn.
const DUE_BATCH_MAX: i64 = 100;

/// Writes one due deployment. Returns `false` if there is none that may be written now.
pub(super) async fn write_next(job: &StatusWriter) -> Result<bool, AppError> {
    let due =
        job.services.store.read(None, |db| Ok::<_, AppError>(forge_deployment::list_due(db, DUE_BATCH_MAX)?));
    let Some(permit) = job.enter_first(due.await?) else { return Ok(false) };
    let written = write_deployment(job, permit.org, permit.repository);
    // If the server stops, the deployment remains due.
    let written = job.services.shutdown.run_until_cancelled(written).await.transpose()?;
    Ok(written.unwrap_or(false))
}

/// Writes the next deployment of a repository and records the result. Returns `false` if there is none.
async fn write_deployment(job: &StatusWriter, org: OrgId, id: RepositoryId) -> Result<bool, AppError> {
    let next = job.services.store.read(Some(org), move |db| {
        let Some(record) = forge_deployment::find_next(db, id)? else { return Ok(None) };
        let found = deployment::by_id(db, record.deployment)?;
        let pipeline = found.map(|it| pipeline::by_id(db, it.pipeline)).transpose()?.flatten();
        let (repository, organization) = (repository::by_id(db, id)?, organization::by_id(db, org)?);
        Ok::<_, AppError>(Some((record, pipeline, repository, organization.map(|it| it.slug))))
    });
    let Some((record, pipeline, repository, Some(slug))) = next.await? else { return Ok(false) };
    let client = match &repository {
        Some(repository) => client_of(&job.services, &job.config.forges, org, repository).await?,
        None => None,
    };
    let Some(client) = client else {
        store_outcome(job, org, record, WriteOutcome::without_client()).await?;
        return Ok(true);
    };
    let update = describe_update(job.config.public_url.as_deref(), &slug, &record, pipeline.as_ref());
    let permission = client.forge.deployments().map(<dyn DeploymentApi>::permission);
    let (record, sent) = send(job, org, Arc::new(client), record, update).await?;
    let outcome = match (sent, permission) {
        // Some forges respond with 404 instead of 403. The repository exists, because its commits have statuses.
        (Err(ForgeError::NotAllowed | ForgeError::NotFound), Some(permission)) => {
            WriteOutcome::not_permitted(format!(
                "the forge does not accept deployments with the repository's credential; it needs {permission}"
            ))
        }
        (sent, _) => WriteOutcome::new(sent, record.write.failures),
    };
    store_outcome(job, org, record, outcome).await.map(|()| true)
}

/// Creates the deployment if it has no id yet, and sets its state. The id is stored in between, so that the deployment
/// is created once.
async fn send(
    job: &StatusWriter,
    org: OrgId,
    client: Arc<ForgeClient>,
    record: ForgeDeploymentRecord,
    update: DeploymentUpdate,
) -> Result<(ForgeDeploymentRecord, Result<(), ForgeError>), AppError> {
    let record = match record.forge_id {
        Some(_) => record,
        None => {
            let draft = DeploymentDraft {
                deployment: record.deployment.to_string(),
                environment: record.environment.clone(),
                commit: record.commit.clone(),
                is_transient: record.is_transient,
            };
            let (opener, progress) = (client.clone(), record.progress);
            match run_on_thread(move || opener.open_deployment(&draft, progress)).await? {
                Ok(Some(forge_id)) => store_forge_id(job, org, record, forge_id).await?,
                Ok(None) => return Ok((record, Ok(()))),
                Err(error) => return Ok((record, Err(error))),
            }
        }
    };
    let Some(forge_id) = record.forge_id.clone() else { return Ok((record, Ok(()))) };
    let sent = run_on_thread(move || client.set_deployment_state(&forge_id, &update)).await?;
    Ok((record, sent))
}

fn describe_update(
    base: Option<&str>,
    org: &Slug,
    record: &ForgeDeploymentRecord,
    pipeline: Option<&Pipeline>,
) -> DeploymentUpdate {
    let base = base.map(|base| format!("{base}/o/{org}"));
    let name = record.environment.rsplit('/').next().unwrap_or_default();
    let page = base.as_ref().zip(pipeline).map(|(base, pipeline)| match record.is_transient {
        true => format!("{base}/environments/{}/{name}", pipeline.id),
        false => format!("{base}/pipelines/{}", pipeline.id),
    });
    DeploymentUpdate {
        progress: record.progress,
        description: record.description.clone(),
        log_url: base.map(|base| format!("{base}/deployments/{}", record.deployment)),
        environment_url: page,
    }
}

/// Stores the id of a deployment that was created, so that it is not created again.
async fn store_forge_id(
    job: &StatusWriter,
    org: OrgId,
    record: ForgeDeploymentRecord,
    forge_id: String,
) -> Result<ForgeDeploymentRecord, AppError> {
    let stored = job.services.store.transact(TxContext::system(Some(org)), move |tx| {
        let current =
            forge_deployment::by_key(tx, record.repository, record.deployment, &record.environment)?;
        if let Some(current) = current {
            let forge_id = Some(forge_id.clone());
            forge_deployment::put(tx, &ForgeDeploymentRecord { forge_id, ..current })?;
        }
        Ok::<_, AppError>(ForgeDeploymentRecord { forge_id: Some(forge_id), ..record })
    });
    stored.await
}

async fn store_outcome(
    job: &StatusWriter,
    org: OrgId,
    sent: ForgeDeploymentRecord,
    outcome: WriteOutcome,
) -> Result<(), AppError> {
    let stored = job.services.store.transact(TxContext::system(Some(org)), move |tx| {
        let now = tx.now();
        let current = forge_deployment::by_key(tx, sent.repository, sent.deployment, &sent.environment)?;
        let Some(current) = current else { return Ok::<_, AppError>(None) };
        let write = current.write.after_attempt(sent.write.version, &outcome.result, now);
        let after = ForgeDeploymentRecord { write, ..current };
        forge_deployment::put(tx, &after)?;
        if let Some(pause_s) = outcome.pause_s {
            forge_deployment::pause(tx, sent.repository, now.plus_seconds(pause_s))?;
        }
        Ok(Some(after))
    });
    if let Some(after) = stored.await?
        && let Some(error) = &after.write.error
    {
        let (repository, environment, failures) =
            (after.repository, &after.environment, after.write.failures);
        match after.write.due_at {
            Some(_) => {
                tracing::info!(%error, %repository, %environment, failures, "cannot write forge deployment; retrying");
            }
            None => {
                tracing::warn!(%error, %repository, %environment, failures, "gave up writing forge deployment");
            }
        }
    }
    Ok(())
}
