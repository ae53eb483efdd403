//! Claims any of several environments. Used by the API and by the job that claims environments for pull requests.

use berth_core::decision::CommandRefusal;
use berth_core::environment::claim::{self, ClaimCommand, ClaimOutcome};
use berth_core::environment::eta::{self, SESSIONS_MAX};
use berth_core::environment::{DecisionContext, Lock, Session, SessionEndReason};
use berth_core::id::{EnvironmentId, TicketGroupId};
use berth_store::tables::{environment, session};
use berth_store::{StoreRead, Tx};

use crate::error::EngineError;

/// The result of [`claim_any`].
pub struct AnyClaim {
    pub outcome: AnyClaimOutcome,
    /// Whether one of the environments has an unfinished deployment, so that the engine must be woken.
    pub has_deployment: bool,
}

pub enum AnyClaimOutcome {
    /// A session, or the ticket with the earliest estimated start, and the lock of its environment.
    Claimed(Box<ClaimOutcome>, Box<Lock>),
    /// All are held, and the caller does not wait.
    AllHeld(Vec<Lock>),
    /// No queue accepts another ticket.
    Refused(CommandRefusal, Box<Lock>),
}

/// Claims a free environment, preferring the shortest queue. If none is free and the command waits, adds a ticket to
/// the queue of each environment; only one of the tickets is granted. `locks` must not be empty.
pub fn claim_any(tx: &mut Tx<'_>, mut locks: Vec<Lock>, cmd: &ClaimCommand) -> Result<AnyClaim, EngineError> {
    locks.sort_by_key(|lock| lock.tickets.len());
    let ids: Vec<_> = locks.iter().map(|lock| lock.environment.id).collect();
    let eager = ClaimCommand { wait_seconds: None, ..cmd.clone() };
    let mut claims = ClaimAttempts { has_deployment: false };
    let mut held = Vec::with_capacity(ids.len());
    for id in &ids {
        let (after, claimed) = claims.decide(tx, *id, |lock, moment| claim::claim(lock, &eager, moment))?;
        match claimed {
            Ok(claimed) => {
                return Ok(claims.finish(AnyClaimOutcome::Claimed(Box::new(claimed), Box::new(after))));
            }
            Err(_) => held.push(after),
        }
    }
    if cmd.wait_seconds.is_none() {
        return Ok(claims.finish(AnyClaimOutcome::AllHeld(held)));
    }
    let outcome = claims.join_all(tx, &ids, cmd)?;
    Ok(claims.finish(outcome))
}

struct ClaimAttempts {
    has_deployment: bool,
}

impl ClaimAttempts {
    fn finish(self, outcome: AnyClaimOutcome) -> AnyClaim {
        AnyClaim { outcome, has_deployment: self.has_deployment }
    }

    /// Decides about one environment and writes the decision. Loads the environment again, because a decision about
    /// another one may have removed a ticket from this one's queue.
    fn decide(
        &mut self,
        tx: &mut Tx<'_>,
        id: EnvironmentId,
        rule: impl FnOnce(&Lock, &DecisionContext) -> berth_core::decision::RefusableDecision<ClaimOutcome>,
    ) -> Result<(Lock, Result<ClaimOutcome, CommandRefusal>), EngineError> {
        let lock = environment::by_id(tx, id)?.ok_or_else(|| EngineError::bug("an environment went away"))?;
        let ruling = rule(&lock, &tx.moment()?);
        let after = lock.after(&ruling);
        self.has_deployment |= !lock.deployments.is_empty() || !after.deployments.is_empty();
        Ok((after, tx.commit(ruling)?))
    }

    /// Adds a ticket to each queue that is not full. Returns the ticket with the earliest estimated start.
    fn join_all(
        &mut self,
        tx: &mut Tx<'_>,
        ids: &[EnvironmentId],
        cmd: &ClaimCommand,
    ) -> Result<AnyClaimOutcome, EngineError> {
        let group = TicketGroupId::from_parts(tx.now(), tx.entropy()?);
        let mut first: Option<(i64, ClaimOutcome, Lock)> = None;
        let mut full = None;
        for id in ids {
            let (after, joined) =
                self.decide(tx, *id, |lock, moment| claim::claim_in_group(lock, cmd, group, moment))?;
            match joined {
                Ok(ClaimOutcome::Ticket(ticket)) => {
                    let eta = eta::estimate_wait(&after, ticket.id, &session_lengths(tx, &after)?, tx.now());
                    let seconds = eta.and_then(|eta| eta.seconds).unwrap_or(i64::MAX);
                    if first.as_ref().is_none_or(|(best, ..)| seconds < *best) {
                        first = Some((seconds, ClaimOutcome::Ticket(ticket), after));
                    }
                }
                Ok(ClaimOutcome::Session(_)) => {
                    return Err(EngineError::bug("a held environment was free after all"));
                }
                Err(refusal) => full = Some((refusal, after)),
            }
        }
        match (first, full) {
            (Some((_, ticket, after)), _) => Ok(AnyClaimOutcome::Claimed(Box::new(ticket), Box::new(after))),
            (None, Some((refusal, after))) => Ok(AnyClaimOutcome::Refused(refusal, Box::new(after))),
            (None, None) => Err(EngineError::bug("no environment to wait for")),
        }
    }
}

/// Returns the durations of recent sessions in seconds, for wait estimates. Empty if no ticket is waiting.
pub fn session_lengths(db: &mut impl StoreRead, lock: &Lock) -> Result<Vec<i64>, EngineError> {
    if lock.tickets.is_empty() {
        return Ok(Vec::new());
    }
    let environment = &lock.environment;
    let sessions = session::list_before(db, environment.id, environment.sessions, SESSIONS_MAX)?;
    let length = |session: &Session| {
        let end = session.end.as_ref().filter(|end| end.reason != SessionEndReason::Restored)?;
        Some(end.at.seconds_since(session.claimed_at).max(0))
    };
    Ok(sessions.iter().filter_map(length).collect())
}
