//! Operations on a session: view, deploy, extend, release, hand over.

use berth_api::deployment::WireDeployment;
use berth_api::session as wire;
use berth_core::access::{Action, permit};
use berth_core::environment::deploy::{self, ConflictMode, DeployCommand};
use berth_core::environment::fence::Fence;
use berth_core::environment::release::{self, ReleaseCommand};
use berth_core::environment::{
    ClaimTerms, Environment, Lock, LockHolder, NamedSession, Session, extend, hand_over, lease,
};
use berth_core::event::ActorType;
use berth_core::id::{SessionId, UserId};
use berth_core::name::{CommitId, Email, Reason};
use berth_store::idempotency::IdempotencyKey;
use berth_store::tables::{deployment, member, session, user};
use berth_store::{StoreRead, Tx};

use super::session_token::refuse_session_token;
use super::view::with_environment_tag;
use super::{EnvironmentPath, holder, location, response};
use crate::app::commit_details::fill_deployments;
use crate::app::pull_requests::{find_link, with_link_tag};
use crate::app::resource_access::{may_on_environment, require_on_environment};
use crate::app::{ApiResponse, App, IdempotentResponse, RuleOutcome, agents, deployments};
use crate::auth::authorize::{AuthorizedCaller, load_member_access};
use crate::config::AppConfig;
use crate::error::AppError;

/// Maximum number of deployments included in a session response.
const SESSION_DEPLOYMENTS_MAX: i64 = 100;

pub struct DeployRequest {
    pub commit: CommitId,
    pub context: Option<Reason>,
    pub on_conflict: ConflictMode,
    pub override_drain: Option<Reason>,
}

impl App {
    pub async fn view_session(
        &self,
        who: &AuthorizedCaller<permit::EnvironmentsRead>,
        place: EnvironmentPath,
        id: String,
    ) -> Result<ApiResponse<wire::WireSession>, AppError> {
        let (org, access, config) = (who.org(), who.access().clone(), self.config.clone());
        self.read(who, move |db| {
            let lock = place.find_any(db, &access, Action::EnvironmentsRead)?;
            let found = find(db, &lock, &id)?;
            let deployments = list_deployments(db, &found, &lock, &config)?;
            let mut body = response::session_to_wire(&found, org, &lock, deployments);
            body.pull_request = find_link(db, Some(found.id))?;
            Ok(build_response(body, &found, &lock))
        })
        .await
    }

    pub async fn deploy(
        &self,
        who: &AuthorizedCaller<permit::EnvironmentsClaim>,
        place: EnvironmentPath,
        id: String,
        asked: DeployRequest,
        expected: Option<Fence>,
        once: Option<IdempotencyKey>,
    ) -> Result<IdempotentResponse<WireDeployment>, AppError> {
        let (org, by, caller) = (who.org(), holder(who.principal()), who.principal().clone());
        let doubt =
            self.check_commit_ambiguity(org, &place.pipeline, Some(&asked.commit), "/commitId").await?;
        let reads = place.reads(who.principal());
        self.run_environment_rule(who, once, reads, move |change, tx, standing| {
            let lock = place.find_any(tx, &standing.access, Action::EnvironmentsClaim)?;
            if asked.override_drain.is_some() {
                require_on_environment(tx, &standing.access, Action::DrainOverride, &lock.environment)?;
            }
            let found = find(tx, &lock, &id)?;
            doubt.map_or(Ok(()), Err)?;
            let agent = agents::admit_deployment(tx, &caller)?;
            let named = NamedSession { session: &found, expected };
            let DeployRequest { commit, context, on_conflict, override_drain } = asked;
            let is_untrusted = false;
            let cmd = DeployCommand { by, commit, context, on_conflict, override_drain, is_untrusted };
            let (after, deployed) =
                change.decide(tx, &lock, |lock, moment| deploy::deploy(lock, &named, &cmd, moment))?;
            Ok(match deployed {
                Ok(deployment) => {
                    agents::count_deployment(tx, agent.as_ref())?;
                    let location = Some(deployments::location(org, deployment.id));
                    RuleOutcome::Yes(ApiResponse {
                        status: 202,
                        location,
                        ..deployments::build_response(&deployment, &after)
                    })
                }
                Err(refusal) => RuleOutcome::No(response::refusal_error(refusal, org, &after, tx.now())),
            })
        })
        .await
    }

    pub async fn extend_session(
        &self,
        who: &AuthorizedCaller<permit::EnvironmentsClaim>,
        place: EnvironmentPath,
        id: String,
        ttl_seconds: Option<i64>,
        expected: Option<Fence>,
        once: Option<IdempotencyKey>,
    ) -> Result<IdempotentResponse<wire::WireSession>, AppError> {
        let (org, by, config) = (who.org(), holder(who.principal()), self.config.clone());
        let reads = place.reads(who.principal());
        self.run_environment_rule(who, once, reads, move |change, tx, standing| {
            let lock = place.find_any(tx, &standing.access, Action::EnvironmentsClaim)?;
            let found = find(tx, &lock, &id)?;
            let named = NamedSession { session: &found, expected };
            let (after, extended) = change
                .decide(tx, &lock, |lock, moment| extend::extend(lock, &named, &by, ttl_seconds, moment))?;
            match extended {
                Ok(session) => Ok(RuleOutcome::Yes(full_response(tx, &session, &after, &config)?)),
                Err(refusal) => Ok(RuleOutcome::No(response::refusal_error(refusal, org, &after, tx.now()))),
            }
        })
        .await
    }

    /// Renews the lease of a session. Takes no idempotency key: repeating a heartbeat is harmless, and a stored response
    /// would not renew the lease.
    pub async fn renew_session_lease(
        &self,
        who: &AuthorizedCaller<permit::EnvironmentsClaim>,
        place: EnvironmentPath,
        id: String,
        expected: Option<Fence>,
    ) -> Result<IdempotentResponse<wire::WireSession>, AppError> {
        let (org, by, config) = (who.org(), holder(who.principal()), self.config.clone());
        let reads = place.reads(who.principal());
        self.run_environment_rule(who, None, reads, move |change, tx, standing| {
            let lock = place.find_any(tx, &standing.access, Action::EnvironmentsClaim)?;
            let found = find(tx, &lock, &id)?;
            let named = NamedSession { session: &found, expected };
            let (mut after, renewed) =
                change.decide(tx, &lock, |lock, moment| lease::renew_lease(lock, &named, &by, moment))?;
            match renewed {
                Ok(session) => {
                    session::renew_lease(tx, &session)?;
                    after.session = Some(session.clone());
                    Ok(RuleOutcome::Yes(full_response(tx, &session, &after, &config)?))
                }
                Err(refusal) => Ok(RuleOutcome::No(response::refusal_error(refusal, org, &after, tx.now()))),
            }
        })
        .await
    }

    pub async fn release_session(
        &self,
        who: &AuthorizedCaller<permit::EnvironmentsClaim>,
        place: EnvironmentPath,
        id: String,
        expected: Option<Fence>,
    ) -> Result<IdempotentResponse<wire::WireSession>, AppError> {
        let (org, by, config) = (who.org(), holder(who.principal()), self.config.clone());
        let reads = place.reads(who.principal());
        self.run_environment_rule(who, None, reads, move |change, tx, standing| {
            let lock = place.find_any(tx, &standing.access, Action::EnvironmentsClaim)?;
            let found = find(tx, &lock, &id)?;
            let named = NamedSession { session: &found, expected };
            let others = Action::EnvironmentsReleaseOthers;
            let may_force = may_on_environment(tx, &standing.access, others, &lock.environment)?;
            let cmd = ReleaseCommand { by, may_force };
            let (after, released) =
                change.decide(tx, &lock, |lock, moment| release::release(lock, &named, &cmd, moment))?;
            match released {
                Ok(done) => {
                    let mut answer = full_response(tx, &done.session, &after, &config)?;
                    answer.body.released = Some(done.released);
                    Ok(RuleOutcome::Yes(answer))
                }
                Err(refusal) => Ok(RuleOutcome::No(response::refusal_error(refusal, org, &after, tx.now()))),
            }
        })
        .await
    }

    /// Hands the session over. `to` is the id or email address of a member who may claim.
    pub async fn hand_over_session(
        &self,
        who: &AuthorizedCaller<permit::EnvironmentsClaim>,
        place: EnvironmentPath,
        id: String,
        to: String,
        expected: Option<Fence>,
        once: Option<IdempotencyKey>,
    ) -> Result<IdempotentResponse<wire::WireSession>, AppError> {
        refuse_session_token(who.principal())?;
        let (org, by, config) = (who.org(), holder(who.principal()), self.config.clone());
        let reads = place.reads(who.principal());
        self.run_environment_rule(who, once, reads, move |change, tx, standing| {
            let lock = place.find_any(tx, &standing.access, Action::EnvironmentsClaim)?;
            let found = find(tx, &lock, &id)?;
            let mut to = find_receiver(tx, &to, &lock.environment)?;
            agents::admit_claim(tx, &mut to, &ClaimTerms::default())?;
            let named = NamedSession { session: &found, expected };
            let (after, opened) = change
                .decide(tx, &lock, |lock, moment| hand_over::hand_over(lock, &named, &by, &to, moment))?;
            match opened {
                Ok(session) => {
                    let mut answer = full_response(tx, &session, &after, &config)?;
                    answer.location = Some(format!("{}/sessions/{}", location(org, &after), session.id));
                    Ok(RuleOutcome::Yes(answer))
                }
                Err(refusal) => Ok(RuleOutcome::No(response::refusal_error(refusal, org, &after, tx.now()))),
            }
        })
        .await
    }
}

/// Finds a session of this environment. The id of another environment's session is a 404.
fn find(db: &mut impl StoreRead, lock: &Lock, id: &str) -> Result<Session, AppError> {
    let missing = || AppError::not_found("session");
    let id: SessionId = id.parse().map_err(|_| missing())?;
    if let Some(active) = lock.session.as_ref().filter(|active| active.id == id) {
        return Ok(active.clone());
    }
    session::by_id(db, id)?.filter(|found| found.environment == lock.environment.id).ok_or_else(missing)
}

fn list_deployments(
    db: &mut impl StoreRead,
    session: &Session,
    lock: &Lock,
    config: &AppConfig,
) -> Result<Vec<WireDeployment>, AppError> {
    if session.deployments == 0 {
        return Ok(Vec::new());
    }
    let found = deployment::list_of_session(db, session.id, SESSION_DEPLOYMENTS_MAX)?;
    let mut bodies: Vec<_> =
        found.iter().map(|deployment| deployments::to_summary(deployment, Some(lock))).collect();
    fill_deployments(db, &config.forges, &mut bodies)?;
    Ok(bodies)
}

fn full_response(
    tx: &mut Tx<'_>,
    session: &Session,
    lock: &Lock,
    config: &AppConfig,
) -> Result<ApiResponse<wire::WireSession>, AppError> {
    let deployments = list_deployments(tx, session, lock, config)?;
    let mut body = response::session_to_wire(session, tx.org()?, lock, deployments);
    body.pull_request = find_link(tx, Some(session.id))?;
    Ok(build_response(body, session, lock))
}

/// Builds the response. Its `ETag` starts with the session's own fence, which holders send in `If-Match`.
fn build_response(body: wire::WireSession, session: &Session, lock: &Lock) -> ApiResponse<wire::WireSession> {
    let link = body.pull_request.clone();
    let answer = with_link_tag(with_environment_tag(ApiResponse::ok(body), lock), link.as_ref());
    ApiResponse { version: Some(session.fence.number()), ..answer }
}

fn find_receiver(tx: &mut Tx<'_>, to: &str, of: &Environment) -> Result<LockHolder, AppError> {
    let refused = |text: &str| AppError::invalid_member("/to", text);
    let id = match (to.parse::<UserId>(), Email::parse(to)) {
        (Ok(id), _) => Some(id),
        (_, Ok(email)) => user::by_email(tx, &email)?.map(|user| user.id),
        _ => return Err(refused("must be the id or the e-mail address of a member")),
    };
    let member = id.map(|id| member::find_view(tx, id)).transpose()?.flatten();
    let member = member.ok_or_else(|| refused("is not a member of this organization"))?;
    let access = load_member_access(tx, member.user)?;
    let access = access.ok_or_else(|| refused("is not a member of this organization"))?;
    if !may_on_environment(tx, &access, Action::EnvironmentsClaim, of)? {
        return Err(refused("may not claim this environment; they need the role tester or higher"));
    }
    let kind = if member.is_service { ActorType::Service } else { ActorType::User };
    Ok(LockHolder { kind, id: member.user, name: member.name.to_string(), session_token: None, agent: None })
}
