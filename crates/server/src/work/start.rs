//! Start: what may start is granted to this process and executed, as long as there are places.

use std::sync::Arc;

use berth_core::deployment::{Grant, grant};
use berth_core::id::{DeploymentId, EnvironmentId, OrgId};
use berth_store::query::environments;

use super::attempt::Attempt;
use super::{decide, runner};
use crate::app::App;
use crate::credential::random_base62;
use crate::error::AppError;

/// Looked up at once, more than there are places: some may be refused.
const STARTABLE_MAX: i64 = 256;
const NONCE_CHARS: usize = 22;

pub(super) async fn start(app: &Arc<App>) -> Result<(), AppError> {
    if !app.runner.has_place() {
        return Ok(());
    }
    let found =
        app.store.read(None, |db| Ok::<_, AppError>(environments::startable(db, STARTABLE_MAX)?)).await?;
    for (org, environment, deployment) in found {
        if app.shutdown.is_cancelled() {
            break;
        }
        let Some(place) = app.runner.place() else { break };
        match granted(app, org, environment, deployment).await {
            Ok(Some(attempt)) => runner::begin(app, attempt, place),
            Ok(None) => {}
            Err(error) => tracing::error!(?error, %deployment, "a deployment could not be started"),
        }
    }
    Ok(())
}

/// `None`: something came in between.
async fn granted(
    app: &App,
    org: OrgId,
    environment: EnvironmentId,
    deployment: DeploymentId,
) -> Result<Option<Attempt>, AppError> {
    let nonce = random_base62(NONCE_CHARS);
    let cmd = Grant { deployment, runner: app.runner.boot().to_owned(), nonce: nonce.clone() };
    match decide(app, org, environment, move |lock, moment| grant::grant(lock, &cmd, moment)).await? {
        Some(Ok(granted)) => {
            tracing::info!(%deployment, environment = %granted.stage, fence = granted.fence.number(), "deployment started");
            Ok(Some(Attempt::new(org, granted, nonce, &app.shutdown)))
        }
        Some(Err(refusal)) => {
            tracing::debug!(%deployment, %refusal, "a deployment does not start after all");
            Ok(None)
        }
        None => Ok(None),
    }
}
