//! Endpoints for sessions: claim, force-claim, deploy, extend, hand over, release.

use std::sync::Arc;

use axum::extract::{Path, State};
use berth_api::Data;
use berth_api::deployment::WireDeployment;
use berth_api::session::{
    AnySessionNew, ClaimResult, DeployNew, ExtendRequest, ForceClaim, ForceMode, HandOver, OnConflict,
    SessionNew, SessionStatus, WireSession, WireTicket,
};
use berth_core::access::{ActionPermit, permit};
use berth_core::environment::ClaimTerms;
use berth_core::environment::deploy;
use berth_core::environment::fence::Fence;
use berth_core::environment::force::TakeoverMode;
use berth_core::environment::limits::{
    GRACE_S_DEFAULT, GRACE_S_MAX, GRACE_S_MIN, LEASE_S_MAX, LEASE_S_MIN, TTL_S_MAX, TTL_S_MIN,
    WAIT_S_DEFAULT, WAIT_S_MAX, WAIT_S_MIN,
};
use berth_core::name::{CommitId, Contact, Reason};
use http::header::{self, HeaderMap};

use super::auth::EmptyBody;
use super::deployments::is_final;
use crate::app::{
    ApiResponse, App, ClaimRequest, DeployRequest, EnvironmentPath, ForceClaimRequest, IdempotentResponse,
    LongPoll,
};
use crate::auth::authorize::AuthorizedCaller;
use crate::error::AppError;
use crate::http::access_control::RequirePermit;
use crate::http::body::{JsonBody, PostBody};
use crate::http::input_checker::InputChecker;
use crate::http::query::{IfMatch, QueryParams};

/// Path parameters: organization, pipeline, environment, and the id of a session or ticket of that environment.
pub(super) type EnvironmentItemPath = (String, String, String, String);

/// Claim an environment. If it is held, responds with 409 and names the holder; with `queue`, responds
/// with 202 and a ticket.
#[utoipa::path(post,
    path = "/api/v1/organizations/{orgId}/pipelines/{pipelineId}/ephemeral-environments/{envName}/sessions",
    tag = "environments", request_body = Option<SessionNew>,
    params(("wait" = Option<i64>, Query, minimum = 0, maximum = 50, description = "Seconds to wait for the deployment to finish, at most 50")),
    responses((status = 201, body = Data<WireSession>), (status = 202, body = Data<WireTicket>)))]
pub(crate) async fn claim_session(
    State(app): State<Arc<App>>,
    RequirePermit(who): RequirePermit<permit::EnvironmentsClaim>,
    Path((_, pipeline, env_name)): Path<(String, String, String)>,
    params: QueryParams,
    posted: PostBody<SessionNew>,
) -> Result<IdempotentResponse<ClaimResult>, AppError> {
    let (wait, body) = (params.wait()?, posted.body);
    let mut check = InputChecker::default();
    let wish = parse_wish(
        &mut check,
        body.commit_id.as_deref(),
        body.context.as_deref(),
        body.contact.as_deref(),
        body.ttl_seconds,
        body.lease_seconds,
        body.deploy,
    );
    let wait_seconds = parse_queue_wait(&mut check, body.queue, body.wait_seconds);
    let asked = check.finish(Some(ClaimRequest {
        wish,
        wait_seconds,
        session_token: body.session_token.unwrap_or(false),
    }))?;
    let place = EnvironmentPath { pipeline, env_name };
    let waiting = app.begin_long_poll(&who, wait)?;
    let claimed = app.claim_session(&who, place, asked, posted.idempotency_key).await?;
    Ok(wait_for_deployment(&app, &who, waiting, claimed).await)
}

/// Claim any free environment with a label. If all are held and `queue` is true, joins all their queues. The first that
/// becomes free is granted and the other tickets are cancelled; each of them then returns the granted ticket.
#[utoipa::path(post, operation_id = "claimAnySession", path = "/api/v1/organizations/{orgId}/pipelines/{pipelineId}/claim-any", tag = "environments",
    request_body = AnySessionNew,
    params(("wait" = Option<i64>, Query, minimum = 0, maximum = 50, description = "Seconds to wait for the deployment to finish, at most 50")),
    responses((status = 201, body = Data<WireSession>), (status = 202, body = Data<WireTicket>)))]
pub(crate) async fn claim_any(
    State(app): State<Arc<App>>,
    RequirePermit(who): RequirePermit<permit::EnvironmentsClaim>,
    Path((_, pipeline)): Path<(String, String)>,
    params: QueryParams,
    posted: PostBody<AnySessionNew>,
) -> Result<IdempotentResponse<ClaimResult>, AppError> {
    let (wait, body) = (params.wait()?, posted.body);
    let mut check = InputChecker::default();
    let wish = parse_wish(
        &mut check,
        body.commit_id.as_deref(),
        body.context.as_deref(),
        body.contact.as_deref(),
        body.ttl_seconds,
        body.lease_seconds,
        body.deploy,
    );
    let wait_seconds = parse_queue_wait(&mut check, body.queue, body.wait_seconds);
    let asked = check.finish(Some(ClaimRequest { wish, wait_seconds, session_token: false }))?;
    let waiting = app.begin_long_poll(&who, wait)?;
    let claimed = app.claim_any(&who, pipeline, body.label, asked, posted.idempotency_key).await?;
    Ok(wait_for_deployment(&app, &who, waiting, claimed).await)
}

/// Take over an environment. Ends the active session and claims the environment. Send the environment's ETag in
/// `If-Match` to take over only from the holder you have seen.
#[utoipa::path(post,
    path = "/api/v1/organizations/{orgId}/pipelines/{pipelineId}/ephemeral-environments/{envName}/force-claim",
    tag = "environments", request_body = Option<ForceClaim>,
    params(("wait" = Option<i64>, Query, minimum = 0, maximum = 50, description = "Seconds to wait for the deployment to finish, at most 50")),
    responses((status = 201, body = Data<WireSession>), (status = 202, body = Data<WireTicket>)))]
pub(crate) async fn force_claim(
    State(app): State<Arc<App>>,
    RequirePermit(who): RequirePermit<permit::EnvironmentsForceClaim>,
    Path((_, pipeline, env_name)): Path<(String, String, String)>,
    IfMatch(expected): IfMatch,
    params: QueryParams,
    posted: PostBody<ForceClaim>,
) -> Result<IdempotentResponse<ClaimResult>, AppError> {
    let (wait, body) = (params.wait()?, posted.body);
    let mut check = InputChecker::default();
    let wish = parse_wish(
        &mut check,
        body.commit_id.as_deref(),
        body.context.as_deref(),
        body.contact.as_deref(),
        body.ttl_seconds,
        body.lease_seconds,
        body.deploy,
    );
    let why = check.optional("/reason", body.reason.as_deref(), Reason::parse);
    let grace = check_range(&mut check, "/graceSeconds", body.grace_seconds, GRACE_S_MIN, GRACE_S_MAX);
    let mode = match body.mode {
        Some(ForceMode::Grace) => TakeoverMode::Grace { seconds: grace.unwrap_or(GRACE_S_DEFAULT) },
        Some(ForceMode::AfterCurrentDeployment) => TakeoverMode::AfterCurrentDeployment,
        None | Some(ForceMode::Now) => TakeoverMode::Now,
    };
    if grace.is_some() && body.mode != Some(ForceMode::Grace) {
        check.require::<(), _>("/graceSeconds", Err("requires \"mode\": \"grace\""));
    }
    let expected = expected.map(Fence::from_number);
    let asked = check.finish(Some(ForceClaimRequest { wish, why, mode, expected }))?;
    let waiting = app.begin_long_poll(&who, wait)?;
    let claimed =
        app.force_claim(&who, EnvironmentPath { pipeline, env_name }, asked, posted.idempotency_key).await?;
    Ok(wait_for_deployment(&app, &who, waiting, claimed).await)
}

/// Get a session. Returns its lock status, its deployments, and whether it was overridden.
#[utoipa::path(get,
    path = "/api/v1/organizations/{orgId}/pipelines/{pipelineId}/ephemeral-environments/{envName}/sessions/{sessionId}",
    tag = "environments",
    params(("wait" = Option<i64>, Query, minimum = 0, maximum = 50, description = "Seconds to wait for a change, at most 50")),
    responses((status = 200, body = Data<WireSession>)))]
pub(crate) async fn view_session(
    State(app): State<Arc<App>>,
    RequirePermit(who): RequirePermit<permit::EnvironmentsRead>,
    Path((_, pipeline, env_name, id)): Path<EnvironmentItemPath>,
    headers: HeaderMap,
    params: QueryParams,
) -> Result<ApiResponse<WireSession>, AppError> {
    let place = EnvironmentPath { pipeline, env_name };
    let mut waiting = app.begin_long_poll(&who, params.wait()?)?;
    // A long poll that starts while the session is draining returns when the drain completes.
    let mut was_draining = false;
    loop {
        let seen = app.view_session(&who, place.clone(), id.clone()).await?;
        let drains = seen.body.drain.as_ref().is_some_and(|drain| drain.completed_at.is_none());
        let is_over = seen.body.status != SessionStatus::Active || (was_draining && !drains);
        was_draining |= drains;
        if !waiting.wait_for_change(has_news(&headers, &seen, is_over)).await {
            return Ok(seen);
        }
    }
}

/// Deploy a commit in your active session.
#[utoipa::path(post,
    path = "/api/v1/organizations/{orgId}/pipelines/{pipelineId}/ephemeral-environments/{envName}/sessions/{sessionId}/deploy",
    tag = "environments", request_body = DeployNew,
    params(("wait" = Option<i64>, Query, minimum = 0, maximum = 50, description = "Seconds to wait for the deployment to finish, at most 50")),
    responses((status = 202, body = Data<WireDeployment>)))]
pub(crate) async fn deploy_commit(
    State(app): State<Arc<App>>,
    RequirePermit(who): RequirePermit<permit::EnvironmentsClaim>,
    Path((_, pipeline, env_name, id)): Path<EnvironmentItemPath>,
    IfMatch(expected): IfMatch,
    params: QueryParams,
    posted: PostBody<DeployNew>,
) -> Result<IdempotentResponse<WireDeployment>, AppError> {
    let (wait, body) = (params.wait()?, posted.body);
    let mut check = InputChecker::default();
    let commit = check.require("/commitId", CommitId::parse(&body.commit_id));
    let context = check.optional("/context", body.context.as_deref(), Reason::parse);
    let overrides = body.override_drain.as_ref().map(|given| given.reason.as_str());
    let override_drain =
        overrides.and_then(|text| check.require("/overrideDrain/reason", parse_required_reason(text)));
    let on_conflict = match body.on_conflict {
        None | Some(OnConflict::Queue) => deploy::ConflictMode::Queue,
        Some(OnConflict::Supersede) => deploy::ConflictMode::Supersede,
        Some(OnConflict::Reject) => deploy::ConflictMode::Reject,
    };
    let commit = check.finish(commit)?;
    let asked = DeployRequest { commit, context, on_conflict, override_drain };
    let place = EnvironmentPath { pipeline, env_name };
    let expected = expected.map(Fence::from_number);
    let mut waiting = app.begin_long_poll(&who, wait)?;
    let outcome = app.deploy(&who, place, id, asked, expected, posted.idempotency_key).await?;
    let IdempotentResponse::Fresh(mut answer) = outcome else { return Ok(outcome) };
    let Ok(may_read) = who.authorize_also() else { return Ok(IdempotentResponse::Fresh(answer)) };
    while waiting.wait_for_change(is_final(answer.body.status)).await {
        let Ok(seen) = app.view_deployment(&may_read, answer.body.id.clone()).await else { break };
        answer = ApiResponse { status: answer.status, location: answer.location, ..seen };
    }
    Ok(IdempotentResponse::Fresh(answer))
}

/// Extend a session. Postpones its expiry.
#[utoipa::path(post,
    path = "/api/v1/organizations/{orgId}/pipelines/{pipelineId}/ephemeral-environments/{envName}/sessions/{sessionId}/extend",
    tag = "environments", request_body = Option<ExtendRequest>, responses((status = 200, body = Data<WireSession>)))]
pub(crate) async fn extend_session(
    State(app): State<Arc<App>>,
    RequirePermit(who): RequirePermit<permit::EnvironmentsClaim>,
    Path((_, pipeline, env_name, id)): Path<EnvironmentItemPath>,
    IfMatch(expected): IfMatch,
    posted: PostBody<ExtendRequest>,
) -> Result<IdempotentResponse<WireSession>, AppError> {
    let mut check = InputChecker::default();
    let ttl = check_range(&mut check, "/ttlSeconds", posted.body.ttl_seconds, TTL_S_MIN, TTL_S_MAX);
    let ttl = check.finish(Some(ttl))?;
    let expected = expected.map(Fence::from_number);
    app.extend_session(
        &who,
        EnvironmentPath { pipeline, env_name },
        id,
        ttl,
        expected,
        posted.idempotency_key,
    )
    .await
}

/// Send a heartbeat. Renews the lease of your session for `leaseSeconds`; send it at least every third of that time.
/// `expiresAt` stays the same.
#[utoipa::path(post, operation_id = "heartbeatSession",
    path = "/api/v1/organizations/{orgId}/pipelines/{pipelineId}/ephemeral-environments/{envName}/sessions/{sessionId}/heartbeat",
    tag = "environments", responses((status = 200, body = Data<WireSession>)))]
pub(crate) async fn renew_session_lease(
    State(app): State<Arc<App>>,
    RequirePermit(who): RequirePermit<permit::EnvironmentsClaim>,
    Path((_, pipeline, env_name, id)): Path<EnvironmentItemPath>,
    IfMatch(expected): IfMatch,
    _: JsonBody<EmptyBody>,
) -> Result<IdempotentResponse<WireSession>, AppError> {
    let expected = expected.map(Fence::from_number);
    app.renew_session_lease(&who, EnvironmentPath { pipeline, env_name }, id, expected).await
}

/// Hand over an environment to another member. Returns their new session.
#[utoipa::path(post,
    path = "/api/v1/organizations/{orgId}/pipelines/{pipelineId}/ephemeral-environments/{envName}/sessions/{sessionId}/hand-over",
    tag = "environments", request_body = HandOver, responses((status = 200, body = Data<WireSession>)))]
pub(crate) async fn hand_over_session(
    State(app): State<Arc<App>>,
    RequirePermit(who): RequirePermit<permit::EnvironmentsClaim>,
    Path((_, pipeline, env_name, id)): Path<EnvironmentItemPath>,
    IfMatch(expected): IfMatch,
    posted: PostBody<HandOver>,
) -> Result<IdempotentResponse<WireSession>, AppError> {
    let expected = expected.map(Fence::from_number);
    let place = EnvironmentPath { pipeline, env_name };
    app.hand_over_session(&who, place, id, posted.body.to, expected, posted.idempotency_key).await
}

/// Release a session. Releasing a session that has ended has no effect and returns how it ended.
#[utoipa::path(delete,
    path = "/api/v1/organizations/{orgId}/pipelines/{pipelineId}/ephemeral-environments/{envName}/sessions/{sessionId}",
    tag = "environments", responses((status = 200, body = Data<WireSession>)))]
pub(crate) async fn release_session(
    State(app): State<Arc<App>>,
    RequirePermit(who): RequirePermit<permit::EnvironmentsClaim>,
    Path((_, pipeline, env_name, id)): Path<EnvironmentItemPath>,
    IfMatch(expected): IfMatch,
) -> Result<IdempotentResponse<WireSession>, AppError> {
    let expected = expected.map(Fence::from_number);
    app.release_session(&who, EnvironmentPath { pipeline, env_name }, id, expected).await
}

/// Whether a long poll can return. With `If-None-Match`, it returns when the `ETag` differs; without that header, when
/// no further change is expected.
pub(super) fn has_news<T>(headers: &HeaderMap, seen: &ApiResponse<T>, is_over: bool) -> bool {
    match headers.get(header::IF_NONE_MATCH).and_then(|value| value.to_str().ok()) {
        Some(known) => seen.etag().is_none_or(|tag| !known.contains(&tag)),
        None => is_over,
    }
}

/// With `wait`, delays the response to a claim until the claim's deployment has ended. The claim has already succeeded,
/// so errors while waiting do not fail the request.
async fn wait_for_deployment<P: ActionPermit>(
    app: &App,
    who: &AuthorizedCaller<P>,
    mut waiting: LongPoll<P>,
    claimed: IdempotentResponse<ClaimResult>,
) -> IdempotentResponse<ClaimResult> {
    let IdempotentResponse::Fresh(mut answer) = claimed else { return claimed };
    let ClaimResult::Session(session) = &answer.body else { return IdempotentResponse::Fresh(answer) };
    let (Some(deployment), Ok(may_read)) = (session.deployment_id.clone(), who.authorize_also()) else {
        return IdempotentResponse::Fresh(answer);
    };
    let place = EnvironmentPath { pipeline: session.pipeline_id.clone(), env_name: session.env_name.clone() };
    let id = session.session_id.clone();
    let mut is_over = false;
    while waiting.wait_for_change(is_over).await {
        let Ok(mut seen) = app.view_session(&may_read, place.clone(), id.clone()).await else { break };
        is_over = seen.body.deployments.iter().any(|it| it.id == deployment && is_final(it.status));
        seen.body.deployment_id = Some(deployment.clone());
        let body = ClaimResult::Session(Box::new(seen.body));
        let ApiResponse { status, location, .. } = answer;
        answer = ApiResponse {
            status,
            location,
            version: seen.version,
            variant: seen.variant,
            ..ApiResponse::ok(body)
        };
    }
    IdempotentResponse::Fresh(answer)
}

fn parse_wish(
    check: &mut InputChecker,
    commit: Option<&str>,
    context: Option<&str>,
    contact: Option<&str>,
    ttl_seconds: Option<i64>,
    lease_seconds: Option<i64>,
    deploy: Option<bool>,
) -> ClaimTerms {
    ClaimTerms {
        commit: check.optional("/commitId", commit, CommitId::parse),
        context: check.optional("/context", context, Reason::parse),
        contact: contact.and_then(|text| check.require("/contact", Contact::parse(text))),
        ttl_seconds: check_range(check, "/ttlSeconds", ttl_seconds, TTL_S_MIN, TTL_S_MAX),
        lease_seconds: check_range(check, "/leaseSeconds", lease_seconds, LEASE_S_MIN, LEASE_S_MAX),
        deploy: deploy.unwrap_or(true),
        is_untrusted: false,
    }
}

/// Returns how long the caller will wait in the queue. `None` if the caller does not want to wait.
fn parse_queue_wait(check: &mut InputChecker, queue: Option<bool>, wait_seconds: Option<i64>) -> Option<i64> {
    let seconds = check_range(check, "/waitSeconds", wait_seconds, WAIT_S_MIN, WAIT_S_MAX);
    let waits = queue.unwrap_or(false);
    if seconds.is_some() && !waits {
        check.require::<(), _>("/waitSeconds", Err("requires \"queue\": true"));
    }
    waits.then(|| seconds.unwrap_or(WAIT_S_DEFAULT))
}

pub(super) fn check_range(
    check: &mut InputChecker,
    pointer: &str,
    given: Option<i64>,
    least: i64,
    most: i64,
) -> Option<i64> {
    let value = given?;
    let is_in_range = (least..=most).contains(&value);
    let wanted = || format!("must be a whole number from {least} to {most}");
    check.require(pointer, is_in_range.then_some(value).ok_or_else(wanted))
}

/// Parses a reason that must not be empty.
pub(super) fn parse_required_reason(text: &str) -> Result<Reason, String> {
    let reason = Reason::parse(text).map_err(|error| error.to_string())?;
    if reason.as_str().is_empty() { Err("must not be empty".into()) } else { Ok(reason) }
}
