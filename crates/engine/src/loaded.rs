//! A deployment together with the state that decides whether it may proceed: the lock of its environment, or its
//! pipeline.

use berth_core::deployment::environment::report::{self, RunnerOrder};
use berth_core::deployment::{CancelRequest, DeploymentState, EnvironmentDeployment, StagesDeployment};
use berth_core::environment::Lock;
use berth_core::id::{DeploymentId, PipelineId};
use berth_core::name::CommitId;
use berth_core::pipeline::state::{Pipeline, PipelineActivity};
use berth_store::StoreRead;
use berth_store::tables::{deployment, environment, pipeline};

use crate::error::EngineError;
use crate::run_cache::RunCache;

pub enum LoadedDeployment {
    Environment { lock: Box<Lock>, deployment: Box<EnvironmentDeployment> },
    Stages { deployment: Box<StagesDeployment>, is_paused: bool },
}

/// Evaluates `$body` with the deployment, whichever variant it is.
macro_rules! with_deployment {
    ($self:expr, $deployment:ident => $body:expr) => {
        match $self {
            LoadedDeployment::Environment { deployment: $deployment, .. } => $body,
            LoadedDeployment::Stages { deployment: $deployment, .. } => $body,
        }
    };
}

impl LoadedDeployment {
    /// Loads the deployment. If its environment is cached, this takes a single read: the environment's lock, which is
    /// needed in any case, includes the unfinished deployments.
    pub(super) fn load_cached(
        db: &mut impl StoreRead,
        plans: &RunCache,
        id: DeploymentId,
    ) -> Result<Option<Self>, EngineError> {
        if let Some(environment) = plans.environment_of(id)
            && let Some(lock) = environment::by_id(db, environment)?
            && let Some(deployment) = lock.deployment(id).cloned()
        {
            return Ok(Some(Self::Environment { lock: Box::new(lock), deployment: Box::new(deployment) }));
        }
        let loaded = Self::load(db, id)?;
        if let Some(Self::Environment { deployment, .. }) = &loaded {
            plans.cache_environment(deployment.target.environment, id);
        }
        Ok(loaded)
    }

    pub fn load(db: &mut impl StoreRead, id: DeploymentId) -> Result<Option<Self>, EngineError> {
        let Some(found) = deployment::by_id(db, id)? else { return Ok(None) };
        Ok(Some(match found.into_environment() {
            Ok(deployment) => {
                let lock = environment::by_id(db, deployment.target.environment)?;
                let lock = lock.ok_or_else(|| EngineError::bug("a deployment without an environment"))?;
                Self::Environment { lock: Box::new(lock), deployment: Box::new(deployment) }
            }
            Err(deployment) => {
                let found = pipeline::by_id(db, deployment.pipeline)?;
                let has_bypass = deployment.target.bypass.is_some();
                let is_stopped = |it: Pipeline| matches!(it.status, PipelineActivity::Stopped { .. });
                // If the pipeline was deleted, no further step starts.
                let is_paused = found.is_none_or(|it| is_stopped(it) && !has_bypass);
                Self::Stages { deployment, is_paused }
            }
        }))
    }

    pub(super) fn order(&self) -> RunnerOrder {
        match self {
            Self::Environment { lock, deployment } => match deployment.attempt() {
                Some(attempt) => report::order(lock, deployment.id, &attempt.nonce),
                None => RunnerOrder::Stale,
            },
            Self::Stages { deployment, .. } => match deployment.status {
                DeploymentState::Running | DeploymentState::Waiting => RunnerOrder::Continue,
                DeploymentState::Cancelling(_) => RunnerOrder::Cancel,
                _ => RunnerOrder::Stale,
            },
        }
    }

    /// Whether the commit comes from a fork. Its steps get no secrets and no ID tokens, and its builds are not shared.
    pub fn is_untrusted(&self) -> bool {
        match self {
            Self::Environment { deployment, .. } => deployment.target.is_untrusted,
            Self::Stages { .. } => false,
        }
    }

    pub fn id(&self) -> DeploymentId {
        with_deployment!(self, it => it.id)
    }

    pub fn pipeline(&self) -> PipelineId {
        with_deployment!(self, it => it.pipeline)
    }

    pub fn number(&self) -> i64 {
        with_deployment!(self, it => it.number)
    }

    /// Returns the commit and the hash of the definition that the deployment uses.
    pub(super) fn source(&self) -> (&CommitId, &str) {
        with_deployment!(self, it => (&it.commit, &it.definition_hash))
    }

    /// Whether the deployment bypasses time windows, approvals and pauses.
    pub fn has_bypass(&self) -> bool {
        matches!(self, Self::Stages { deployment, .. } if deployment.target.bypass.is_some())
    }

    pub fn is_paused(&self) -> bool {
        match self {
            Self::Environment { lock, .. } => lock.is_paused,
            Self::Stages { is_paused, .. } => *is_paused,
        }
    }

    /// Returns the cancellation request while the deployment is being cancelled.
    pub(super) fn cancel(&self) -> Option<&CancelRequest> {
        let status = match self {
            Self::Environment { lock, deployment } => {
                &lock.deployment(deployment.id).unwrap_or(deployment).status
            }
            Self::Stages { deployment, .. } => &deployment.status,
        };
        match status {
            DeploymentState::Cancelling(cancel) => Some(cancel),
            _ => None,
        }
    }
}
