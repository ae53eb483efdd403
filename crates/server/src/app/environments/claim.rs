//! Claims and force-claims of an environment, and claims of any environment with a given label.

use berth_api::problem::{Code, ProblemDetails};
use berth_api::session::ClaimResult;
use berth_core::access::{Action, permit};
use berth_core::decision::CommandRefusal;
use berth_core::environment::claim::{self, ClaimCommand, ClaimOutcome, OpenedSession};
use berth_core::environment::fence::Fence;
use berth_core::environment::force::{self, ForceClaimCommand, TakeoverMode};
use berth_core::environment::{ClaimTerms, Lock, LockHolder};
use berth_core::id::{EnvironmentId, OrgId};
use berth_core::name::Reason;
use berth_engine::claim_any::{AnyClaimOutcome, claim_any, session_lengths};
use berth_store::Tx;
use berth_store::idempotency::IdempotencyKey;

use super::queue::with_ticket_tag;
use super::remote_lock::list_claimable;
use super::session_token::{issue_session_token, new_token_id, refuse_session_token};
use super::view::with_environment_tag;
use super::{EnvironmentPath, holder, location, response};
use crate::app::{ApiResponse, App, IdempotentResponse, RuleOutcome, agents, deployments};
use crate::auth::authorize::AuthorizedCaller;
use crate::error::AppError;

#[derive(Debug, Clone)]
pub struct ClaimRequest {
    pub wish: ClaimTerms,
    pub wait_seconds: Option<i64>,
    /// Whether the session belongs to a token of its own.
    pub session_token: bool,
}

#[derive(Debug, Clone)]
pub struct ForceClaimRequest {
    pub wish: ClaimTerms,
    pub why: Option<Reason>,
    pub mode: TakeoverMode,
    pub expected: Option<Fence>,
}

impl App {
    pub async fn claim_session(
        &self,
        who: &AuthorizedCaller<permit::EnvironmentsClaim>,
        place: EnvironmentPath,
        asked: ClaimRequest,
        once: Option<IdempotencyKey>,
    ) -> Result<IdempotentResponse<ClaimResult>, AppError> {
        refuse_session_token(who.principal())?;
        let own_token = asked.session_token;
        let (org, mut cmd) = (who.org(), claim_command(who, asked));
        let doubt =
            self.check_commit_ambiguity(org, &place.pipeline, cmd.terms.commit.as_ref(), "/commitId").await?;
        let reads = place.reads(who.principal());
        self.run_environment_rule(who, once, reads, move |change, tx, standing| {
            let lock = place.find_any(tx, &standing.access, Action::EnvironmentsClaim)?;
            let lock = require_declared(lock)?;
            doubt.map_or(Ok(()), Err)?;
            if own_token {
                cmd.by.session_token = Some(new_token_id(tx)?);
            }
            let agent = agents::admit_claim(tx, &mut cmd.by, &cmd.terms)?;
            let (after, claimed) =
                change.decide(tx, &lock, |lock, moment| claim::claim(lock, &cmd, moment))?;
            if claimed.is_ok() {
                agents::count_claim(tx, agent.as_ref(), &cmd.terms)?;
            }
            let outcome = to_rule_outcome(tx, claimed, org, &after)?;
            add_session_token(tx, outcome, &cmd.by, lock.environment.id)
        })
        .await
    }

    pub async fn force_claim(
        &self,
        who: &AuthorizedCaller<permit::EnvironmentsForceClaim>,
        place: EnvironmentPath,
        asked: ForceClaimRequest,
        once: Option<IdempotencyKey>,
    ) -> Result<IdempotentResponse<ClaimResult>, AppError> {
        let org = who.org();
        let mut cmd = ForceClaimCommand {
            by: holder(who.principal()),
            token: who.principal().token(),
            terms: asked.wish,
            why: asked.why,
            mode: asked.mode,
            expected: asked.expected,
        };
        let doubt =
            self.check_commit_ambiguity(org, &place.pipeline, cmd.terms.commit.as_ref(), "/commitId").await?;
        let reads = place.reads(who.principal());
        self.run_environment_rule(who, once, reads, move |change, tx, standing| {
            let lock = place.find_any(tx, &standing.access, Action::EnvironmentsForceClaim)?;
            let lock = require_declared(lock)?;
            doubt.map_or(Ok(()), Err)?;
            let agent = agents::admit_force_claim(tx, &mut cmd.by, &cmd.terms, &lock)?;
            let (after, claimed) =
                change.decide(tx, &lock, |lock, moment| force::force_claim(lock, &cmd, moment))?;
            if claimed.is_ok() {
                agents::count_claim(tx, agent.as_ref(), &cmd.terms)?;
            }
            to_rule_outcome(tx, claimed, org, &after)
        })
        .await
    }

    /// Claims a free environment that has the label, preferring the shortest queue, then the first name in alphabetical
    /// order. If none is free and the caller agreed to wait, adds a ticket to the queue of each environment with the
    /// label.
    pub async fn claim_any(
        &self,
        who: &AuthorizedCaller<permit::EnvironmentsClaim>,
        key: String,
        label: String,
        asked: ClaimRequest,
        once: Option<IdempotencyKey>,
    ) -> Result<IdempotentResponse<ClaimResult>, AppError> {
        refuse_session_token(who.principal())?;
        let (org, mut cmd) = (who.org(), claim_command(who, asked));
        let doubt = self.check_commit_ambiguity(org, &key, cmd.terms.commit.as_ref(), "/commitId").await?;
        self.run_environment_rule(who, once, Vec::new(), move |change, tx, standing| {
            let locks = list_claimable(tx, &standing.access, &key, &label)?;
            doubt.map_or(Ok(()), Err)?;
            if locks.is_empty() {
                let text = "is not the label of an environment of this pipeline that you may claim";
                return Ok(RuleOutcome::No(AppError::invalid_member("/label", text)));
            }
            let agent = agents::admit_claim(tx, &mut cmd.by, &cmd.terms)?;
            let claimed = claim_any(tx, locks, &cmd)?;
            if matches!(claimed.outcome, AnyClaimOutcome::Claimed(..)) {
                agents::count_claim(tx, agent.as_ref(), &cmd.terms)?;
            }
            change.note_deployment(claimed.has_deployment);
            Ok(match claimed.outcome {
                AnyClaimOutcome::Claimed(claimed, after) => {
                    RuleOutcome::Yes(claim_response(tx, *claimed, org, &after)?)
                }
                AnyClaimOutcome::AllHeld(held) => RuleOutcome::No(all_held_error(&held, &label)),
                AnyClaimOutcome::Refused(refusal, after) => {
                    RuleOutcome::No(response::refusal_error(refusal, org, &after, tx.now()))
                }
            })
        })
        .await
    }
}

fn claim_command(who: &AuthorizedCaller<permit::EnvironmentsClaim>, asked: ClaimRequest) -> ClaimCommand {
    let (by, token) = (holder(who.principal()), who.principal().token());
    ClaimCommand { by, token, terms: asked.wish, wait_seconds: asked.wait_seconds }
}

/// Refuses claims of an environment that was removed from the definition.
fn require_declared(lock: Lock) -> Result<Lock, AppError> {
    if lock.environment.is_declared { Ok(lock) } else { Err(AppError::not_found("environment")) }
}

fn to_rule_outcome(
    tx: &mut Tx<'_>,
    claimed: Result<ClaimOutcome, CommandRefusal>,
    org: OrgId,
    after: &Lock,
) -> Result<RuleOutcome<ClaimResult>, AppError> {
    match claimed {
        Ok(claimed) => Ok(RuleOutcome::Yes(claim_response(tx, claimed, org, after)?)),
        Err(refusal) => Ok(RuleOutcome::No(response::refusal_error(refusal, org, after, tx.now()))),
    }
}

/// Issues the session token that the claim asked for, and adds it to the response.
fn add_session_token(
    tx: &mut Tx<'_>,
    outcome: RuleOutcome<ClaimResult>,
    holder: &LockHolder,
    environment: EnvironmentId,
) -> Result<RuleOutcome<ClaimResult>, AppError> {
    let Some(id) = holder.session_token else { return Ok(outcome) };
    let mut answer = match outcome {
        RuleOutcome::Yes(answer) => answer,
        RuleOutcome::No(refusal) => return Ok(RuleOutcome::No(refusal)),
    };
    let token = issue_session_token(tx, holder, id, environment)?;
    answer.body.set_session_token(token.reveal());
    Ok(RuleOutcome::Yes(answer))
}

fn claim_response(
    tx: &mut Tx<'_>,
    claimed: ClaimOutcome,
    org: OrgId,
    after: &Lock,
) -> Result<ApiResponse<ClaimResult>, AppError> {
    let base = location(org, after);
    Ok(match claimed {
        ClaimOutcome::Session(OpenedSession { session, deployment }) => {
            let deployments = deployments::list_of_session(after, session.id);
            let mut body = response::session_to_wire(&session, org, after, deployments);
            body.deployment_id = deployment.map(|id| id.to_string());
            let at = format!("{base}/sessions/{}", session.id);
            with_environment_tag(ApiResponse::created(at, ClaimResult::Session(Box::new(body))), after)
        }
        ClaimOutcome::Ticket(ticket) => {
            let body = response::ticket_to_wire(&ticket, after, &session_lengths(tx, after)?, tx.now());
            let at = format!("{base}/queue/{}", ticket.id);
            with_ticket_tag(ApiResponse::accepted(at, ClaimResult::Ticket(Box::new(body))), &ticket, after)
        }
    })
}

fn all_held_error(locks: &[Lock], label: &str) -> AppError {
    let held = locks.iter().filter_map(|lock| {
        let session = lock.session.as_ref()?;
        let mut held = serde_json::json!({
            "envName": lock.environment.name.as_str(),
            "holder": response::holder_to_wire(&session.holder),
            "since": session.claimed_at.to_string(),
            "queueLength": lock.tickets.len(),
        });
        if let Some(contact) = &session.contact {
            held["contact"] = contact.as_str().into();
        }
        Some(held)
    });
    let text = format!("all {} environments with the label \"{label}\" are held", locks.len());
    ProblemDetails::new(Code::EnvironmentLocked, text)
        .with_member("environments", held.collect::<Vec<_>>())
        .into()
}
