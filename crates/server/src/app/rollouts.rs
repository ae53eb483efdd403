//! Deployments of a pipeline's stages: what begins one.

use berth_core::event::Actor;
use berth_core::id::DeploymentId;
use berth_core::name::{CommitId, Reason};
use berth_core::pipeline::state::Pipeline;
use berth_store::Tx;

use crate::error::AppError;

pub(crate) struct Asked {
    pub(crate) commit: CommitId,
    pub(crate) cause: Cause,
    pub(crate) by: Actor,
    pub(crate) reason: Option<Reason>,
}

pub(crate) enum Cause {
    /// A branch has a new head.
    Push { branch: String },
    #[expect(dead_code, reason = "deployments of stages cannot be asked for yet")]
    Api,
}

/// Starts a deployment of a commit through the stages, in the caller's transaction.
pub(crate) fn start(
    _tx: &mut Tx<'_>,
    pipeline: &Pipeline,
    asked: Asked,
) -> Result<Option<DeploymentId>, AppError> {
    let Asked { commit, cause, by, reason } = asked;
    let cause = match cause {
        Cause::Push { branch } => branch,
        Cause::Api => "api".to_owned(),
    };
    let reason = reason.map(|reason| reason.to_string());
    tracing::debug!(pipeline = %pipeline.id, %commit, cause, by = by.name, reason, "a deployment was asked for");
    Ok(None)
}
