//! Pull requests: list and view, with the environments that they use or wait for.
//!
//! A pull request is visible to callers who may see a pipeline of its repository. Its claims show the current state of
//! sessions and tickets, which the record of a claim may lag behind.

use std::collections::HashMap;

use berth_api::pull_request as wire;
use berth_core::access::{AccessTarget, Action, EffectiveAccess, permit};
use berth_core::deployment::{Deployment, DeploymentPurpose, DeploymentTarget};
use berth_core::environment::{Lock, Session, Ticket, TicketState, ends_at, eta};
use berth_core::forge::{PullRequest, PullRequestClaim, PullRequestStatus};
use berth_core::id::{RepositoryId, SessionId};
use berth_core::pipeline::state::Pipeline;
use berth_engine::claim_any::session_lengths;
use berth_store::StoreRead;
use berth_store::pagination::PageStart;
use berth_store::tables::pull_request::{self, PullRequestCursor};
use berth_store::tables::{deployment, environment, pipeline, pull_request_claim, session, ticket};

pub use berth_store::tables::pull_request::PullRequestFilter;

use super::deployments::status_to_wire;
use super::repositories::PIPELINES_LISTED_MAX;
use super::resource_access::{environment_in, may_read, visible_page};
use super::{ApiResponse, App, ResponsePage};
use crate::auth::authorize::AuthorizedCaller;
use crate::error::AppError;

impl App {
    /// Lists pull requests, newest first.
    pub async fn list_pull_requests(
        &self,
        who: &AuthorizedCaller<permit::PipelinesRead>,
        filter: PullRequestFilter,
        from: PageStart,
        limit: i64,
    ) -> Result<ResponsePage<wire::WirePullRequest>, AppError> {
        let access = who.access().clone();
        self.read(who, move |db| {
            let page = if access.may_everywhere(Action::PipelinesRead) {
                pull_request::list(db, filter, &from, limit, true)?
            } else {
                let mut seen = HashMap::new();
                visible_page(
                    db,
                    (&from, limit),
                    |db, start, rows| pull_request::list(db, filter, start, rows, false),
                    |it| PullRequestCursor::of(it).to_string(),
                    |db, it| match seen.get(&it.repository) {
                        Some(is_visible) => Ok(*is_visible),
                        None => {
                            let is_visible = is_repository_visible(db, &access, it.repository)?;
                            seen.insert(it.repository, is_visible);
                            Ok(is_visible)
                        }
                    },
                )?
            };
            let last = page.items.last().map(|it| PullRequestCursor::of(it).to_string());
            let items = page.items.iter().map(|it| to_response(db, &access, it)).collect::<Result<_, _>>()?;
            Ok(ResponsePage { items, total: page.total, has_more: page.has_more, last })
        })
        .await
    }

    pub async fn view_pull_request(
        &self,
        who: &AuthorizedCaller<permit::PipelinesRead>,
        repository: String,
        number: String,
    ) -> Result<ApiResponse<wire::WirePullRequest>, AppError> {
        let access = who.access().clone();
        self.read(who, move |db| {
            let found = find(db, &access, &repository, &number)?;
            let body = to_response(db, &access, &found)?;
            // The response shows several records, so the `ETag` is a hash of the body.
            let hash = crc32fast::hash(&serde_json::to_vec(&body).unwrap_or_default());
            Ok(ApiResponse::ok(body).with_version(i64::from(hash)))
        })
        .await
    }
}

/// Finds a pull request by the parts of its URL. One that the caller may not see is a 404.
pub(super) fn find(
    db: &mut impl StoreRead,
    access: &EffectiveAccess,
    repository: &str,
    number: &str,
) -> Result<PullRequest, AppError> {
    let missing = || AppError::not_found("pull request");
    let repository: RepositoryId = repository.parse().map_err(|_| missing())?;
    let number: i64 = number.parse().map_err(|_| missing())?;
    if !is_repository_visible(db, access, repository)? {
        return Err(missing());
    }
    pull_request::by_number(db, repository, number)?.ok_or_else(missing)
}

/// Whether the caller may see one of the pipelines that are defined in a repository.
pub(super) fn is_repository_visible(
    db: &mut impl StoreRead,
    access: &EffectiveAccess,
    repository: RepositoryId,
) -> Result<bool, AppError> {
    let pipelines = pipeline::list_of_repository(db, repository, PIPELINES_LISTED_MAX)?;
    Ok(pipelines.iter().any(|it| is_pipeline_visible(access, it)))
}

fn is_pipeline_visible(access: &EffectiveAccess, pipeline: &Pipeline) -> bool {
    access.may(Action::PipelinesRead, &AccessTarget::Pipeline(pipeline.slug.to_string()))
}

/// Finds the pull request that a session belongs to.
pub(super) fn find_link(
    db: &mut impl StoreRead,
    session: Option<SessionId>,
) -> Result<Option<wire::PullRequestLink>, AppError> {
    let Some(session) = session else { return Ok(None) };
    let found = pull_request_claim::find_pull_request(db, session)?;
    Ok(found.map(|it| wire::PullRequestLink {
        repository_id: it.repository.to_string(),
        number: it.number,
        title: it.title,
        url: it.url,
        author: it.author,
    }))
}

/// Finds the pull request that the session of a deployment belongs to.
pub(super) fn find_link_of_deployment(
    db: &mut impl StoreRead,
    deployment: &Deployment,
) -> Result<Option<wire::PullRequestLink>, AppError> {
    match &deployment.target {
        DeploymentTarget::Environment(target) => match target.purpose {
            DeploymentPurpose::Session(session) => find_link(db, Some(session)),
            DeploymentPurpose::Reset => Ok(None),
        },
        DeploymentTarget::Stages(_) => Ok(None),
    }
}

/// Returns the part of the `ETag` that covers a link. Forges change titles without changing the records of Berth.
pub(super) fn link_variant(link: &wire::PullRequestLink) -> String {
    format!("p{}", crc32fast::hash(&serde_json::to_vec(link).unwrap_or_default()))
}

/// Adds a link to the `ETag` of a response that shows it.
pub(super) fn with_link_tag<T>(
    answer: ApiResponse<T>,
    link: Option<&wire::PullRequestLink>,
) -> ApiResponse<T> {
    let Some(link) = link.map(link_variant) else { return answer };
    let variant = answer.variant.as_ref().map_or_else(|| link.clone(), |it| format!("{it}.{link}"));
    answer.with_variant(variant)
}

fn to_response(
    db: &mut impl StoreRead,
    access: &EffectiveAccess,
    it: &PullRequest,
) -> Result<wire::WirePullRequest, AppError> {
    let mut claims = Vec::new();
    for claim in pull_request_claim::list_of(db, it.repository, it.number)? {
        claims.extend(claim_to_response(db, access, &claim)?);
    }
    let seen = &it.seen;
    Ok(wire::WirePullRequest {
        repository_id: it.repository.to_string(),
        number: it.number,
        title: seen.title.clone(),
        url: seen.url.clone(),
        author: wire::ForgeAuthor { id: seen.author.id.clone(), name: seen.author.name.clone() },
        head: seen.head.clone(),
        head_branch: seen.head_branch.clone(),
        base_branch: seen.base_branch.clone(),
        is_fork: seen.is_fork,
        draft: seen.is_draft,
        labels: seen.labels.clone(),
        state: match seen.status {
            PullRequestStatus::Open => wire::PullRequestState::Open,
            PullRequestStatus::Closed => wire::PullRequestState::Closed,
            PullRequestStatus::Merged => wire::PullRequestState::Merged,
        },
        needs_approval: needs_approval(it),
        claims,
        error: it.error.clone(),
        created_at: it.created_at.to_string(),
        updated_at: seen.changed_at.to_string(),
    })
}

fn needs_approval(it: &PullRequest) -> bool {
    let is_open = it.seen.status == PullRequestStatus::Open;
    is_open && it.seen.is_fork && it.approved_head.as_deref() != Some(it.seen.head.as_str())
}

/// What became of a claim.
enum ClaimProgress {
    Held(Box<Lock>, Box<Session>),
    /// The tickets that still wait, one per environment.
    Queued(Vec<(Lock, Ticket)>),
    Stopped,
}

/// Converts a claim. Returns `None` if the caller may not see its environment.
fn claim_to_response(
    db: &mut impl StoreRead,
    access: &EffectiveAccess,
    claim: &PullRequestClaim,
) -> Result<Option<wire::WirePullRequestClaim>, AppError> {
    let Some(pipeline) = pipeline::by_id(db, claim.pipeline)? else { return Ok(None) };
    if !is_pipeline_visible(access, &pipeline) {
        return Ok(None);
    }
    let is_visible = |lock: &Lock| {
        access.may(Action::EnvironmentsRead, &environment_in(&pipeline.slug, &lock.environment))
    };
    let (mut state, mut position, mut eta_seconds) = (wire::PullRequestClaimState::Stopped, None, None);
    let mut held = None;
    let lock = match load_progress(db, claim)? {
        ClaimProgress::Held(lock, session) => {
            state = wire::PullRequestClaimState::Held;
            held = Some(*session);
            Some(*lock)
        }
        ClaimProgress::Queued(tickets) => {
            let mut waits = Vec::new();
            for (lock, ticket) in tickets.into_iter().filter(|(lock, _)| is_visible(lock)) {
                let lengths = session_lengths(db, &lock)?;
                let seconds =
                    eta::estimate_wait(&lock, ticket.id, &lengths, db.now()).and_then(|it| it.seconds);
                waits.push((seconds, lock.position(ticket.id), lock));
            }
            // The shortest wait; unknown ones last.
            let next = waits.into_iter().min_by_key(|(seconds, at, _)| (seconds.unwrap_or(i64::MAX), *at));
            state = wire::PullRequestClaimState::Queued;
            next.map(|(seconds, at, lock)| {
                (position, eta_seconds) = (at, seconds);
                lock
            })
        }
        ClaimProgress::Stopped => environment::by_id(db, claim.environment)?,
    };
    let Some(lock) = lock.filter(|lock| is_visible(lock)) else { return Ok(None) };
    Ok(Some(wire::WirePullRequestClaim {
        pipeline: wire::ClaimedPipeline {
            id: pipeline.id.to_string(),
            slug: pipeline.slug.to_string(),
            name: pipeline.name.to_string(),
        },
        environment: wire::ClaimedEnvironment {
            id: lock.environment.id.to_string(),
            name: lock.environment.name.to_string(),
        },
        state,
        position,
        eta_seconds,
        session_id: held.as_ref().map(|session| session.id.to_string()),
        fence: held.as_ref().map(|session| session.fence.number()),
        expires_at: held.as_ref().and_then(|_| ends_at(&lock)).map(|(at, _)| at.to_string()),
        deployment: load_deployment(db, access, claim)?,
    }))
}

fn load_progress(db: &mut impl StoreRead, claim: &PullRequestClaim) -> Result<ClaimProgress, AppError> {
    let tickets = match claim.ticket.filter(|_| claim.session.is_none()) {
        Some(id) => match ticket::by_id(db, id)? {
            Some(Ticket { group: Some(group), .. }) => ticket::list_of_group(db, group)?,
            found => found.into_iter().collect(),
        },
        None => Vec::new(),
    };
    let granted = tickets.iter().find_map(|ticket| match ticket.status {
        TicketState::Granted { session, .. } => Some(session),
        _ => None,
    });
    if let Some(id) = claim.session.or(granted) {
        let Some(session) = session::by_id(db, id)? else { return Ok(ClaimProgress::Stopped) };
        let lock = environment::by_id(db, session.environment)?;
        let is_active = |lock: &Lock| lock.session.as_ref().is_some_and(|active| active.id == id);
        return Ok(match lock.filter(is_active) {
            Some(lock) => ClaimProgress::Held(Box::new(lock), Box::new(session)),
            None => ClaimProgress::Stopped,
        });
    }
    let mut waiting = Vec::new();
    for ticket in tickets.into_iter().filter(|ticket| matches!(ticket.status, TicketState::Waiting)) {
        waiting.extend(environment::by_id(db, ticket.environment)?.map(|lock| (lock, ticket)));
    }
    Ok(if waiting.is_empty() { ClaimProgress::Stopped } else { ClaimProgress::Queued(waiting) })
}

fn load_deployment(
    db: &mut impl StoreRead,
    access: &EffectiveAccess,
    claim: &PullRequestClaim,
) -> Result<Option<wire::ClaimDeployment>, AppError> {
    let Some(id) = claim.deployment else { return Ok(None) };
    let Some(found) = deployment::by_id(db, id)? else { return Ok(None) };
    if !may_read(db, access, Action::DeploymentsRead, &found)? {
        return Ok(None);
    }
    Ok(Some(wire::ClaimDeployment {
        id: found.id.to_string(),
        state: status_to_wire(&found.status),
        commit_id: claim.commit.clone().unwrap_or_else(|| found.commit.to_string()),
    }))
}
