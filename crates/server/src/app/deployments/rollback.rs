//! Rollback of a stage.

use berth_api::deployment as wire;
use berth_core::access::permit;
use berth_core::decision::CommandRefusal;
use berth_core::deployment::StagesDeployment;
use berth_core::deployment::run::StageType;
use berth_core::id::DeploymentId;
use berth_core::name::Reason;
use berth_engine::{RollbackPlan, RollbackRequest};
use berth_store::StoreRead;
use berth_store::idempotency::IdempotencyKey;
use berth_store::tables::{run, schedule};

use super::operate::SINCE_MAX;
use super::{find, load_full_response, location};
use crate::app::resource_access::{AffectedStages, require_operable};
use crate::app::{ApiResponse, App, IdempotentResponse, agents};
use crate::auth::authorize::AuthorizedCaller;
use crate::error::AppError;

pub struct NewRollback {
    /// The deployment to roll back to. `None` means the last other deployment that succeeded in the stage.
    pub to: Option<DeploymentId>,
    pub reason: Option<Reason>,
}

impl App {
    /// Starts a deployment that restores what was in the stage before this deployment, and pauses promotion into the
    /// stage.
    pub async fn rollback_stage(
        &self,
        who: &AuthorizedCaller<permit::StagesDeploy>,
        id: String,
        stage: String,
        new: NewRollback,
        once: Option<IdempotencyKey>,
    ) -> Result<IdempotentResponse<wire::WireDeployment>, AppError> {
        let (org, by, caller) = (who.org(), who.principal().actor(), who.principal().clone());
        let (plans, config) = (self.services.engine.run_cache().clone(), self.config.clone());
        let done = self.change(who, once, move |tx, standing| {
            let found = find(tx, &id)?;
            require_operable(tx, &standing.access, &found, AffectedStages::One(&stage))?;
            let of = match found.into_environment() {
                Err(of) => of,
                Ok(it) if it.target.name.as_str() != stage => {
                    return Err(CommandRefusal::NoSuchStage.into());
                }
                Ok(_) => {
                    let text = "environments cannot be rolled back; deploy the earlier commit there instead";
                    return Err(CommandRefusal::InvalidState(text.into()).into());
                }
            };
            check_is_latest(tx, &of, &stage)?;
            let NewRollback { to, reason } = new;
            let asked = RollbackRequest { pipeline: of.pipeline, stage, rolled_back: of.id, to, by, reason };
            let agent = agents::admit_deployment(tx, &caller)?;
            let started = RollbackPlan::find(tx, asked)?.start(tx)?;
            agents::count_deployment(tx, agent.as_ref())?;
            let answer = load_full_response(tx, &plans, started.id, &config)?;
            Ok(ApiResponse { status: 202, location: Some(location(org, started.id)), ..answer })
        });
        let done = done.await;
        self.services.wake_engine();
        done
    }
}

/// Refuses a rollback unless this deployment was the last to enter the stage, because the caller intends to replace
/// what is in the stage now.
fn check_is_latest(db: &mut impl StoreRead, of: &StagesDeployment, stage: &str) -> Result<(), AppError> {
    let stages = run::list_stages(db, of.id)?;
    let found = stages.iter().find(|it| it.kind == StageType::Stage && it.name == stage);
    let found = found.ok_or(CommandRefusal::NoSuchStage)?;
    if found.tries == 0 {
        let text = "this deployment was not in the stage; there is nothing to roll back";
        return Err(CommandRefusal::InvalidState(text.into()).into());
    }
    match schedule::find_entered_since(db, of, &stages, stage, SINCE_MAX)? {
        None => Ok(()),
        Some(other) => {
            let text = format!("#{other} has since been deployed to this stage; roll back that one instead");
            Err(CommandRefusal::InvalidState(text).into())
        }
    }
}
