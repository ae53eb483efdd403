//! Actions that messages offer, done as a member who acts without a login: by a link in an email, or a button in Slack.

use berth_api::problem::Code;
use berth_core::access::Action;
use berth_core::approval::ApprovalChoice;
use berth_core::environment::release::{self, ReleaseCommand};
use berth_core::environment::{Lock, NamedSession, Session, extend};
use berth_core::id::SessionId;
use berth_core::notification::LinkAction;
use berth_engine::RunCache;
use berth_store::Tx;
use berth_store::tables::{environment, session};

use super::approvals::{VoteCaller, cast_vote};
use super::resource_access::require_on_environment;
use crate::error::AppError;
use crate::jobs::pull_requests::account::ActingMember;

/// Performs an action on the approval or session with this id, under the same rules as in the dashboard. Returns what was
/// done, or the refusal by a rule, which is committed as well, because the rule may have applied changes that were due.
pub(super) fn perform(
    tx: &mut Tx<'_>,
    plans: &RunCache,
    member: &ActingMember,
    action: LinkAction,
    id: &str,
) -> Result<Result<&'static str, AppError>, AppError> {
    let vote = |tx: &mut Tx<'_>, choice| {
        let caller =
            VoteCaller { by: member.holder.actor(), account: member.holder.id, access: &member.access };
        cast_vote(tx, plans, caller, id, choice, None)
    };
    Ok(match action {
        LinkAction::Approve => vote(tx, ApprovalChoice::Approve)?.map(|_| "You approved it."),
        LinkAction::Reject => vote(tx, ApprovalChoice::Reject)?.map(|_| "You rejected it."),
        LinkAction::Extend => {
            let (lock, found) = load_session(tx, member, id)?;
            let named = NamedSession { session: &found, expected: None };
            let ruling = extend::extend(&lock, &named, &member.holder, None, &tx.moment()?);
            tx.commit(ruling)?.map(|_| "Your session was extended.").map_err(AppError::from)
        }
        LinkAction::Yield | LinkAction::Release => {
            let (lock, found) = load_session(tx, member, id)?;
            if action == LinkAction::Yield && found.end.is_none() && lock.tickets.is_empty() {
                let text = "no member waits for the environment any more, so you keep it";
                return Ok(Err(AppError::new(Code::InvalidState, text)));
            }
            let named = NamedSession { session: &found, expected: None };
            let cmd = ReleaseCommand { by: member.holder.clone(), may_force: false };
            let ruling = release::release(&lock, &named, &cmd, &tx.moment()?);
            let done = tx.commit(ruling)?.map_err(AppError::from);
            done.map(|done| match done.released {
                true => "Your session was released.",
                false => "Your session had ended already.",
            })
        }
    })
}

/// Loads a session, and checks that the member may still operate sessions in its environment.
fn load_session(tx: &mut Tx<'_>, member: &ActingMember, id: &str) -> Result<(Lock, Session), AppError> {
    let missing = || AppError::not_found("session");
    let id: SessionId = id.parse().map_err(|_| missing())?;
    let found = session::by_id(tx, id)?.ok_or_else(missing)?;
    let lock = environment::by_id(tx, found.environment)?.ok_or_else(missing)?;
    require_on_environment(tx, &member.access, Action::EnvironmentsClaim, &lock.environment)?;
    Ok((lock, found))
}
