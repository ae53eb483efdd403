//! Roll a stage back.

use berth_api::deployment as wire;
use berth_core::access::permit;
use berth_core::decision::Refusal;
use berth_core::deployment::StagesDeployment;
use berth_core::deployment::run::StageKind;
use berth_core::id::DeploymentId;
use berth_core::name::Reason;
use berth_engine::{RollbackPlan, RollbackRequest};
use berth_store::Read;
use berth_store::idempotency::OnceKey;
use berth_store::query::runs;
use berth_store::records::run;

use super::operate::SINCE_MAX;
use super::{changed, find, location};
use crate::app::{Answer, App, Outcome};
use crate::auth::authorize::Authorized;
use crate::error::AppError;

pub struct NewRollback {
    /// `None`: the last good one.
    pub to: Option<DeploymentId>,
    pub reason: Option<Reason>,
}

impl App {
    /// The stage gets back what it had before this deployment; promotion into it is paused.
    pub async fn rollback_stage(
        &self,
        who: &Authorized<permit::DeploymentsOperate>,
        id: String,
        stage: String,
        new: NewRollback,
        once: Option<OnceKey>,
    ) -> Result<Outcome<wire::Deployment>, AppError> {
        let (org, by) = (who.org(), who.principal().actor());
        let (plans, labels) = (self.services.engine.plans().clone(), self.config.runner_labels.clone());
        let done = self.change(who, once, move |tx, _| {
            let of = match find(tx, &id)?.into_environment() {
                Err(of) => of,
                Ok(it) if it.target.name.as_str() != stage => {
                    return Err(Refusal::NoSuchStage.into());
                }
                Ok(_) => {
                    let text = "environments cannot be rolled back; deploy the earlier commit there instead";
                    return Err(Refusal::InvalidState(text.into()).into());
                }
            };
            check_is_latest(tx, &of, &stage)?;
            let NewRollback { to, reason } = new;
            let asked = RollbackRequest { pipeline: of.pipeline, stage, of: of.id, to, by, reason };
            let started = RollbackPlan::find(tx, asked)?.start(tx)?;
            let answer = changed(tx, &plans, started.id, labels.as_deref())?;
            Ok(Answer { status: 202, location: Some(location(org, started.id)), ..answer })
        });
        let done = done.await;
        self.services.nudge();
        done
    }
}

/// Whoever takes a deployment back means what is in the stage now: it must be the last that was let in.
fn check_is_latest(db: &mut impl Read, of: &StagesDeployment, stage: &str) -> Result<(), AppError> {
    let stages = run::stages(db, of.id)?;
    let found = stages.iter().find(|it| it.kind == StageKind::Stage && it.name == stage);
    let found = found.ok_or(Refusal::NoSuchStage)?;
    if found.tries == 0 {
        let text = "this deployment was not in the stage; there is nothing to roll back";
        return Err(Refusal::InvalidState(text.into()).into());
    }
    match runs::entered_since(db, of, &stages, stage, SINCE_MAX)? {
        None => Ok(()),
        Some(other) => {
            let text = format!("#{other} has since been deployed to this stage; roll back that one instead");
            Err(Refusal::InvalidState(text).into())
        }
    }
}
