//! Ephemeral environments: list, view, claim, force-claim, queue, history, and operations on a session.

mod claim;
mod history;
mod queue;
mod remote_lock;
pub(super) mod response;
mod session;
mod session_token;
mod view;

pub use claim::{ClaimRequest, ForceClaimRequest};
pub use history::NumberedPage;
pub use remote_lock::{LockableEnvironment, RemoteLock, RemoteLockEnd, RemoteLockKey, RemoteLockState};
pub(super) use response::{refusal_error, session_not_active};
pub use session::DeployRequest;
pub(super) use session_token::refuse_session_token;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use berth_api::ReplayableBody;
use berth_core::access::{Action, ActionPermit, EffectiveAccess};
use berth_core::decision::{CommandRefusal, RefusableDecision};
use berth_core::environment::{DecisionContext, Lock, LockHolder};
use berth_core::event::ActorType;
use berth_core::id::OrgId;
use berth_core::name::EnvName;
use berth_store::idempotency::IdempotencyKey;
use berth_store::sql::BoundRead;
use berth_store::tables::{agent, environment};
use berth_store::{StoreRead, Tx};

use super::resource_access::require_on_environment;
use super::{App, IdempotentResponse, RuleOutcome};
use crate::auth::authorize::{AuthorizedCaller, CurrentAccess, Principal};
use crate::error::AppError;

/// The pipeline and environment named in a URL.
#[derive(Debug, Clone)]
pub struct EnvironmentPath {
    /// Id or slug.
    pub pipeline: String,
    pub env_name: String,
}

impl EnvironmentPath {
    /// What a rule about the environment reads first.
    fn reads(&self, who: &Principal) -> Vec<BoundRead> {
        let name = EnvName::parse(&self.env_name).ok();
        let found = name.and_then(|name| environment::read_of_find(&self.pipeline, &name));
        found.into_iter().chain(who.is_service.then(|| agent::read_of_user(who.user))).collect()
    }

    /// Finds an environment that is in the definition or still held, and checks the permission on it. An environment
    /// that was removed from the definition can be found only until its session ends.
    fn find(
        &self,
        db: &mut impl StoreRead,
        access: &EffectiveAccess,
        action: Action,
    ) -> Result<Lock, AppError> {
        let lock = self.find_any(db, access, action)?;
        let is_there = lock.environment.is_declared || lock.session.is_some();
        if is_there { Ok(lock) } else { Err(AppError::not_found("environment")) }
    }

    /// Finds an environment even if it was removed from the definition, because its sessions stay readable. Checks the
    /// permission on it.
    fn find_any(
        &self,
        db: &mut impl StoreRead,
        access: &EffectiveAccess,
        action: Action,
    ) -> Result<Lock, AppError> {
        let name = EnvName::parse(&self.env_name).map_err(|_| AppError::not_found("environment"))?;
        let lock = environment::find(db, &self.pipeline, &name)?;
        let lock = lock.ok_or_else(|| AppError::not_found("environment"))?;
        require_on_environment(db, access, action, &lock.environment)?;
        Ok(lock)
    }
}

/// Returns the URL path of an environment.
fn location(org: OrgId, lock: &Lock) -> String {
    let environment = &lock.environment;
    format!(
        "/api/v1/organizations/{org}/pipelines/{}/ephemeral-environments/{}",
        environment.pipeline, environment.name
    )
}

pub(super) fn holder(who: &Principal) -> LockHolder {
    let kind = if who.is_service { ActorType::Service } else { ActorType::User };
    LockHolder {
        kind,
        id: who.user,
        name: who.name.to_string(),
        session_token: who.session_token(),
        agent: None,
    }
}

/// Tracks whether a transaction on an environment affects the engine.
#[derive(Debug, Clone, Default)]
struct EnvironmentChange {
    /// Whether there was an unfinished deployment before or after the change. Most claims and releases involve no
    /// deployment, and the engine is not woken for them.
    has_deployment: Arc<AtomicBool>,
}

impl EnvironmentChange {
    fn note_deployment(&self, has_deployment: bool) {
        self.has_deployment.fetch_or(has_deployment, Ordering::Relaxed);
    }

    /// Applies `rule`, writes the decision and returns the lock as it is afterwards.
    fn decide<A>(
        &self,
        tx: &mut Tx<'_>,
        lock: &Lock,
        rule: impl FnOnce(&Lock, &DecisionContext) -> RefusableDecision<A>,
    ) -> Result<(Lock, Result<A, CommandRefusal>), AppError> {
        let ruling = rule(lock, &tx.moment()?);
        let after = lock.after(&ruling);
        if !lock.deployments.is_empty() || !after.deployments.is_empty() {
            self.has_deployment.store(true, Ordering::Relaxed);
        }
        Ok((after, tx.commit(ruling)?))
    }
}

impl App {
    /// Like [`App::run_rule_after`], but wakes the engine only if a deployment is involved.
    async fn run_environment_rule<P, T>(
        &self,
        who: &AuthorizedCaller<P>,
        once: Option<IdempotencyKey>,
        reads: Vec<BoundRead>,
        work: impl FnOnce(&EnvironmentChange, &mut Tx<'_>, &CurrentAccess) -> Result<RuleOutcome<T>, AppError>
        + Send
        + 'static,
    ) -> Result<IdempotentResponse<T>, AppError>
    where
        P: ActionPermit,
        T: ReplayableBody + Send + 'static,
    {
        let change = EnvironmentChange::default();
        let within = change.clone();
        let done =
            self.run_rule_after(who, once, reads, move |tx, standing| work(&within, tx, standing)).await;
        // After a store error, the transaction may still have been committed.
        let may_stand = matches!(&done, Err(AppError::Store(_)));
        if may_stand || change.has_deployment.load(Ordering::Relaxed) {
            self.services.wake_engine();
        }
        done
    }
}
