//! Deployments: view and cancel.

use berth_api::deployment as wire;
use berth_core::access::permit;
use berth_core::deployment::{Blocked, Deployment, Status, Work, cancel, obstacles};
use berth_core::environment::Lock;
use berth_core::id::{DeploymentId, OrgId, SessionId};
use berth_core::name::Reason;
use berth_store::Read;
use berth_store::idempotency::OnceKey;
use berth_store::records::{deployment, environment};

use super::wire::actor;
use super::{Answer, App, Outcome};
use crate::access::Authorized;
use crate::error::AppError;

impl App {
    pub async fn view_deployment(
        &self,
        who: &Authorized<permit::DeploymentsRead>,
        id: String,
    ) -> Result<Answer<wire::Deployment>, AppError> {
        self.read(who, move |db| {
            let (found, lock) = find(db, &id)?;
            Ok(answer(&found, &lock))
        })
        .await
    }

    /// What has not started never will; what runs is told to stop. Again is calm.
    pub async fn cancel_deployment(
        &self,
        who: &Authorized<permit::DeploymentsOperate>,
        id: String,
        reason: Option<Reason>,
        once: Option<OnceKey>,
    ) -> Result<Outcome<wire::Deployment>, AppError> {
        let by = who.principal().actor();
        let done = self.change(who, once, move |tx, _| {
            let (found, lock) = find(tx, &id)?;
            let ruling = cancel::cancel(&lock, &found, by, reason, &tx.moment()?);
            let after = lock.after(&ruling);
            let cancelled = tx.commit(ruling)??;
            Ok(answer(&cancelled, &after))
        });
        let done = done.await;
        self.nudge();
        done
    }
}

fn find(db: &mut impl Read, id: &str) -> Result<(Deployment, Lock), AppError> {
    let missing = || AppError::not_found("deployment");
    let id: DeploymentId = id.parse().map_err(|_| missing())?;
    let found = deployment::by_id(db, id)?.ok_or_else(missing)?;
    let lock = environment::by_id(db, found.environment)?;
    Ok((found, lock.ok_or_else(|| AppError::bug("a deployment without an environment"))?))
}

pub(super) fn location(org: OrgId, id: DeploymentId) -> String {
    format!("/api/v1/organizations/{org}/deployments/{id}")
}

pub(super) fn answer(it: &Deployment, lock: &Lock) -> Answer<wire::Deployment> {
    let answer = Answer::ok(shown(it, Some(lock))).at_version(lock.environment.version);
    if lock.is_paused && !it.status.is_final() { answer.varying_by("stopped") } else { answer }
}

/// Those of a session that have not ended, newest first.
pub(super) fn of_lock(lock: &Lock, session: SessionId) -> Vec<wire::Deployment> {
    let ours = lock.deployments.iter().filter(|it| it.work == Work::Session(session));
    ours.rev().map(|it| shown(it, Some(lock))).collect()
}

pub(super) fn shown(it: &Deployment, lock: Option<&Lock>) -> wire::Deployment {
    let status = match &it.status {
        Status::Queued => wire::DeploymentStatus::Queued,
        Status::Running(_) => wire::DeploymentStatus::Running,
        Status::Cancelling { .. } => wire::DeploymentStatus::Cancelling,
        Status::Succeeded => wire::DeploymentStatus::Succeeded,
        Status::Failed(_) => wire::DeploymentStatus::Failed,
        Status::Cancelled(_) => wire::DeploymentStatus::Cancelled,
        Status::Superseded { .. } => wire::DeploymentStatus::Superseded,
    };
    let cancel = match &it.status {
        Status::Cancelling { cancel, .. } | Status::Cancelled(cancel) => Some(cancel),
        _ => None,
    };
    let (cause, detail) = match (&it.status, cancel) {
        (Status::Failed(failure), _) => (Some(failure.cause.as_str()), Some(failure.detail.clone())),
        (_, Some(cancel)) => (Some(cancel.cause.as_str()), cancel.reason.as_ref().map(ToString::to_string)),
        _ => (None, None),
    };
    let (session, trigger) = match it.work {
        Work::Session(session) => (Some(session), wire::Trigger::Session),
        Work::Reset => (None, wire::Trigger::Reset),
    };
    let waits = lock.filter(|_| it.status == Status::Queued);
    wire::Deployment {
        id: it.id.to_string(),
        deployment_id: it.id.to_string(),
        number: it.number,
        pipeline_id: it.pipeline.to_string(),
        environment_id: it.environment.to_string(),
        env_name: it.stage.to_string(),
        session_id: session.map(|id| id.to_string()),
        fence: it.fence.number(),
        commit_id: it.commit.to_string(),
        resolved_commit_id: None,
        definition_hash: it.definition_hash.clone(),
        trigger,
        actor: actor(&it.requested_by),
        status,
        cause: cause.map(str::to_owned),
        detail,
        cancelled_by: cancel.map(|cancel| actor(&cancel.by)),
        superseded_by: match &it.status {
            Status::Superseded { by } => Some(by.to_string()),
            _ => None,
        },
        created_at: it.created_at.to_string(),
        started_at: it.started_at.map(|at| at.to_string()),
        finished_at: it.finished_at.map(|at| at.to_string()),
        blocked_by: waits.map(|lock| blocked_by(lock, it)).unwrap_or_default(),
        stages: vec![wire::Stage { name: it.stage.to_string(), kind: wire::StageKind::Environment, status }],
    }
}

fn blocked_by(lock: &Lock, it: &Deployment) -> Vec<wire::BlockedBy> {
    let deadline =
        lock.session.as_ref().and_then(|session| session.drain.as_ref()).map(|drain| drain.deadline);
    let shown = |blocked: Blocked| match blocked {
        Blocked::PipelineStopped => wire::BlockedBy {
            kind: wire::BlockedKind::PipelineStopped,
            detail: "the pipeline is stopped".into(),
            cleared_by: Some("resuming the pipeline".into()),
            clears_at: None,
        },
        Blocked::EnvironmentContested { pending } => wire::BlockedBy {
            kind: wire::BlockedKind::EnvironmentContested,
            detail: format!(
                "waits until {} of a former session is known to have stopped",
                if pending.len() == 1 {
                    "a deployment".to_owned()
                } else {
                    format!("{} deployments", pending.len())
                }
            ),
            cleared_by: pending.first().map(|id| format!("the end of {id}")),
            clears_at: deadline.map(|at| at.to_string()),
        },
        Blocked::EnvironmentResetting { reset } => wire::BlockedBy {
            kind: wire::BlockedKind::EnvironmentResetting,
            detail: "waits until the environment has been reset".into(),
            cleared_by: Some(format!("the end of {reset}")),
            clears_at: None,
        },
        Blocked::Queue { behind } => wire::BlockedBy {
            kind: wire::BlockedKind::Queue,
            detail: "waits for an earlier deployment of the same session".into(),
            cleared_by: Some(format!("the end of {behind}")),
            clears_at: None,
        },
    };
    obstacles(lock, it).into_iter().map(shown).collect()
}
