//! Claims of an environment, force-claims, and claims of any environment with a label.

use berth_api::problem::{Code, Problem};
use berth_api::session::Claimed as Wire;
use berth_core::access::permit;
use berth_core::decision::CommandRefusal;
use berth_core::environment::claim::{self, ClaimCommand, ClaimOutcome, OpenedSession};
use berth_core::environment::fence::Fence;
use berth_core::environment::force::{self, ForceClaimCommand, TakeoverMode};
use berth_core::environment::{Lock, ClaimTerms, eta};
use berth_core::id::{EnvironmentId, OrgId, TicketGroupId};
use berth_core::name::Reason;
use berth_store::Tx;
use berth_store::idempotency::OnceKey;
use berth_store::tables::{environment, pipeline};

use super::queue::{lengths, tagged_as};
use super::view::tagged;
use super::{Change, Place, holder, location, shown};
use crate::app::{Answer, App, Outcome, Ruled, deployments};
use crate::auth::authorize::Authorized;
use crate::error::AppError;

/// Parameters of a claim.
#[derive(Debug, Clone)]
pub struct ClaimAsked {
    pub wish: ClaimTerms,
    pub wait_seconds: Option<i64>,
}

#[derive(Debug, Clone)]
pub struct ForceAsked {
    pub wish: ClaimTerms,
    pub why: Option<Reason>,
    pub mode: TakeoverMode,
    pub expected: Option<Fence>,
}

impl App {
    pub async fn claim_session(
        &self,
        who: &Authorized<permit::EnvironmentsClaim>,
        place: Place,
        asked: ClaimAsked,
        once: Option<OnceKey>,
    ) -> Result<Outcome<Wire>, AppError> {
        let (org, cmd) = (who.org(), command(who, asked));
        let doubt = self.ambiguity(org, &place.pipeline, cmd.terms.commit.as_ref(), "/commitId").await?;
        self.rule_in(who, once, move |change, tx, _| {
            let lock = declared(place.find_any(tx)?)?;
            doubt.map_or(Ok(()), Err)?;
            let (after, claimed) =
                change.decide(tx, &lock, |lock, moment| claim::claim(lock, &cmd, moment))?;
            ruled(tx, claimed, org, &after)
        })
        .await
    }

    pub async fn force_claim(
        &self,
        who: &Authorized<permit::EnvironmentsForceClaim>,
        place: Place,
        asked: ForceAsked,
        once: Option<OnceKey>,
    ) -> Result<Outcome<Wire>, AppError> {
        let org = who.org();
        let cmd = ForceClaimCommand {
            by: holder(who.principal()),
            token: who.principal().token(),
            terms: asked.wish,
            why: asked.why,
            mode: asked.mode,
            expected: asked.expected,
        };
        let doubt = self.ambiguity(org, &place.pipeline, cmd.terms.commit.as_ref(), "/commitId").await?;
        self.rule_in(who, once, move |change, tx, _| {
            let lock = declared(place.find_any(tx)?)?;
            doubt.map_or(Ok(()), Err)?;
            let (after, claimed) =
                change.decide(tx, &lock, |lock, moment| force::force_claim(lock, &cmd, moment))?;
            ruled(tx, claimed, org, &after)
        })
        .await
    }

    /// Claims a free environment with the label: the one with the shortest queue, then the first by name. If none is
    /// free and the caller agreed to wait, adds a ticket to the queue of each.
    pub async fn claim_any(
        &self,
        who: &Authorized<permit::EnvironmentsClaim>,
        key: String,
        label: String,
        asked: ClaimAsked,
        once: Option<OnceKey>,
    ) -> Result<Outcome<Wire>, AppError> {
        let (org, cmd) = (who.org(), command(who, asked));
        let doubt = self.ambiguity(org, &key, cmd.terms.commit.as_ref(), "/commitId").await?;
        self.rule_in(who, once, move |change, tx, _| {
            let found = pipeline::find(tx, &key)?.ok_or_else(|| AppError::not_found("pipeline"))?;
            doubt.map_or(Ok(()), Err)?;
            let mut locks = environment::of_pipeline(tx, found.id)?;
            locks.retain(|lock| {
                let labels = &lock.environment.configuration.labels;
                lock.environment.is_declared && labels.iter().any(|it| it.as_str() == label)
            });
            if locks.is_empty() {
                let text = "is not the label of any environment of this pipeline";
                return Ok(Ruled::No(AppError::invalid_member("/label", text)));
            }
            locks.sort_by_key(|lock| lock.tickets.len());
            let ids: Vec<_> = locks.iter().map(|lock| lock.environment.id).collect();
            let eager = ClaimCommand { wait_seconds: None, ..cmd.clone() };
            let mut held = Vec::with_capacity(ids.len());
            for id in &ids {
                let lock = loaded(tx, *id)?;
                let (after, claimed) =
                    change.decide(tx, &lock, |lock, moment| claim::claim(lock, &eager, moment))?;
                if let Ok(claimed) = claimed {
                    return Ok(Ruled::Yes(answered(tx, claimed, org, &after)?));
                }
                held.push(after);
            }
            if cmd.wait_seconds.is_none() {
                return Ok(Ruled::No(all_held(&held, &label)));
            }
            join_all(change, tx, &ids, &cmd, org)
        })
        .await
    }
}

/// Adds a ticket to each queue that is not full. Returns the ticket with the earliest estimated start.
fn join_all(
    change: &Change,
    tx: &mut Tx<'_>,
    ids: &[EnvironmentId],
    cmd: &ClaimCommand,
    org: OrgId,
) -> Result<Ruled<Wire>, AppError> {
    let group = TicketGroupId::from_parts(tx.now(), tx.entropy()?);
    let mut first: Option<(i64, ClaimOutcome, Lock)> = None;
    let mut full = None;
    for id in ids {
        let lock = loaded(tx, *id)?;
        let (after, joined) =
            change.decide(tx, &lock, |lock, moment| claim::claim_in_group(lock, cmd, group, moment))?;
        match joined {
            Ok(ClaimOutcome::Ticket(ticket)) => {
                let eta = eta::estimate_wait(&after, ticket.id, &lengths(tx, &after)?, tx.now());
                let seconds = eta.and_then(|eta| eta.seconds).unwrap_or(i64::MAX);
                if first.as_ref().is_none_or(|(best, ..)| seconds < *best) {
                    first = Some((seconds, ClaimOutcome::Ticket(ticket), after));
                }
            }
            Ok(ClaimOutcome::Session(_)) => return Err(AppError::bug("a held environment was free after all")),
            Err(refusal) => full = Some((refusal, after)),
        }
    }
    match (first, full) {
        (Some((_, ticket, after)), _) => Ok(Ruled::Yes(answered(tx, ticket, org, &after)?)),
        (None, Some((refusal, after))) => Ok(Ruled::No(shown::refused(refusal, org, &after, tx.now()))),
        (None, None) => Err(AppError::bug("no environment to wait for")),
    }
}

/// Reloads an environment: a decision about another environment may have removed a ticket from its queue.
fn loaded(tx: &mut Tx<'_>, id: EnvironmentId) -> Result<Lock, AppError> {
    environment::by_id(tx, id)?.ok_or_else(|| AppError::bug("an environment went away"))
}

fn command(who: &Authorized<permit::EnvironmentsClaim>, asked: ClaimAsked) -> ClaimCommand {
    let (by, token) = (holder(who.principal()), who.principal().token());
    ClaimCommand { by, token, terms: asked.wish, wait_seconds: asked.wait_seconds }
}

/// Refuses claims of an environment that was removed from the definition.
fn declared(lock: Lock) -> Result<Lock, AppError> {
    if lock.environment.is_declared { Ok(lock) } else { Err(AppError::not_found("environment")) }
}

fn ruled(
    tx: &mut Tx<'_>,
    claimed: Result<ClaimOutcome, CommandRefusal>,
    org: OrgId,
    after: &Lock,
) -> Result<Ruled<Wire>, AppError> {
    match claimed {
        Ok(claimed) => Ok(Ruled::Yes(answered(tx, claimed, org, after)?)),
        Err(refusal) => Ok(Ruled::No(shown::refused(refusal, org, after, tx.now()))),
    }
}

fn answered(tx: &mut Tx<'_>, claimed: ClaimOutcome, org: OrgId, after: &Lock) -> Result<Answer<Wire>, AppError> {
    let base = location(org, after);
    Ok(match claimed {
        ClaimOutcome::Session(OpenedSession { session, deployment }) => {
            let deployments = deployments::of_lock(after, session.id);
            let mut body = shown::session(&session, org, after, deployments);
            body.deployment_id = deployment.map(|id| id.to_string());
            let at = format!("{base}/sessions/{}", session.id);
            tagged(Answer::created(at, Wire::Session(Box::new(body))), after)
        }
        ClaimOutcome::Ticket(ticket) => {
            let body = shown::ticket(&ticket, after, &lengths(tx, after)?, tx.now());
            let at = format!("{base}/queue/{}", ticket.id);
            tagged_as(Answer::accepted(at, Wire::Ticket(Box::new(body))), &ticket, after)
        }
    })
}

fn all_held(locks: &[Lock], label: &str) -> AppError {
    let held = locks.iter().filter_map(|lock| {
        let session = lock.session.as_ref()?;
        Some(serde_json::json!({
            "envName": lock.environment.name.as_str(),
            "holder": shown::holder(&session.holder),
            "since": session.claimed_at.to_string(),
            "queueLength": lock.tickets.len(),
        }))
    });
    let text = format!("all {} environments with the label \"{label}\" are held", locks.len());
    Problem::new(Code::EnvironmentLocked, text).with("environments", held.collect::<Vec<_>>()).into()
}
