//! Results of commands, in a form that can be compared and is short enough to read.

use std::fmt;

use berth_core::decision::{CommandRefusal, RefusableDecision, RuleDecision};
use berth_core::deployment::EnvironmentDeployment;
use berth_core::deployment::environment::report::RunnerOrder;
use berth_core::environment::claim::ClaimOutcome;
use berth_core::environment::release::ReleaseOutcome;
use berth_core::environment::{Session, Ticket};

/// The result of a request.
#[derive(Debug, Clone, PartialEq)]
pub enum LockAnswer {
    Claimed(Box<ClaimOutcome>),
    Released(Box<ReleaseOutcome>),
    Session(Box<Session>),
    Ticket(Box<Ticket>),
    Deployment(Box<EnvironmentDeployment>),
    Order(RunnerOrder),
    Done,
    Refused(CommandRefusal),
    /// The command names a record that does not exist, so it has no result.
    Nothing,
}

impl fmt::Display for LockAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LockAnswer::Claimed(claimed) => match claimed.as_ref() {
                ClaimOutcome::Session(opened) => {
                    write_session(f, &opened.session)?;
                    if opened.deployment.is_some() { write!(f, ", deploys") } else { Ok(()) }
                }
                ClaimOutcome::Ticket(it) => write_ticket(f, it),
            },
            LockAnswer::Released(it) => {
                write_session(f, &it.session)?;
                write!(f, ", released: {}", it.released)
            }
            LockAnswer::Session(it) => write_session(f, it),
            LockAnswer::Ticket(it) => write_ticket(f, it),
            LockAnswer::Deployment(it) => write!(f, "deployment {} {}", it.number, it.status.as_str()),
            LockAnswer::Order(order) => write!(f, "{order:?}"),
            LockAnswer::Done => f.write_str("done"),
            LockAnswer::Refused(refusal) => write!(f, "no: {refusal}"),
            LockAnswer::Nothing => f.write_str("no such record"),
        }
    }
}

fn write_session(f: &mut fmt::Formatter<'_>, session: &Session) -> fmt::Result {
    let Session { number, fence, holder, .. } = session;
    write!(f, "session {number} of {} at fence {fence}, {}", holder.name, session.status().as_str())
}

fn write_ticket(f: &mut fmt::Formatter<'_>, ticket: &Ticket) -> fmt::Result {
    write!(f, "ticket {} of {}, {}", ticket.number, ticket.holder.name, ticket.status.as_str())
}

pub(super) fn ignore_answer<A>(decision: RuleDecision<A>) -> RuleDecision<LockAnswer> {
    map_answer(decision, |_| LockAnswer::Done)
}

pub(super) fn ruling_answer<A>(
    ruling: RefusableDecision<A>,
    answer: impl FnOnce(A) -> LockAnswer,
) -> RuleDecision<LockAnswer> {
    map_answer(ruling, |result: Result<A, CommandRefusal>| result.map_or_else(LockAnswer::Refused, answer))
}

pub(super) fn map_answer<A>(
    decision: RuleDecision<A>,
    answer: impl FnOnce(A) -> LockAnswer,
) -> RuleDecision<LockAnswer> {
    let RuleDecision { changes, events, effects, answer: given } = decision;
    RuleDecision { changes, events, effects, answer: answer(given) }
}
