//! Compares a pull request with its sessions, tickets and deployments, and acts. One transaction per pipeline.

use berth_core::environment::{Lock, Session, SessionEndReason, TicketCause, TicketState};
use berth_core::forge::{PullRequest, PullRequestClaim, PullRequestStatus};
use berth_core::id::PipelineId;
use berth_core::pipeline::model::ReleaseCondition;
use berth_core::pipeline::state::PipelineActivity;
use berth_store::tables::{environment, pipeline, pull_request, pull_request_claim, session};
use berth_store::{Tx, TxContext};

use super::account::load_account;
use super::operate::{self, PipelineScope, is_wanted, list_tickets, list_wanted};
use super::{PullRequestJob, ReconcileContext};
use crate::error::AppError;

/// Maximum number of pipelines read per repository, including retired ones.
const PIPELINES_MAX: i64 = 2_000;

/// Whether the head may run: it is in the repository itself, or a member approved exactly this commit of a fork.
pub(super) fn is_trusted(pull_request: &PullRequest) -> bool {
    let seen = &pull_request.seen;
    !seen.is_fork || pull_request.approved_head.as_deref() == Some(seen.head.as_str())
}

/// Acts for all pipelines of the repository. Returns the first thing that went wrong.
pub(super) async fn act_on_pipelines(
    job: &PullRequestJob,
    context: &ReconcileContext<'_>,
) -> Result<Option<String>, AppError> {
    let key = context.key;
    let read = job.services.store.read(Some(key.org), move |db| {
        let all = pipeline::list_of_repository(db, key.repository, PIPELINES_MAX)?;
        let claims = pull_request_claim::list_of(db, key.repository, key.number)?;
        Ok::<_, AppError>((all, claims))
    });
    let (all, claims) = read.await?;
    let of_repository = all.iter().filter(|it| it.retired_at.is_none()).map(|it| it.id);
    let mut ids: Vec<PipelineId> = of_repository.collect();
    // A claim outlives its pipeline's definition file.
    ids.extend(
        claims
            .iter()
            .map(|claim| claim.pipeline)
            .filter(|id| all.iter().all(|it| it.id != *id || it.retired_at.is_some())),
    );
    let mut problem = None;
    for id in ids {
        let connection = context.connection.clone();
        let done = job.services.store.transact(TxContext::system(Some(key.org)), move |tx| {
            let Some(found) = pull_request::by_number(tx, key.repository, key.number)? else {
                return Ok(Ok(()));
            };
            let Some(pipeline) = pipeline::by_id(tx, id)? else {
                pull_request_claim::delete(tx, key.repository, key.number, id)?;
                return Ok(Ok(()));
            };
            let account = match load_account(tx, key.org, &connection)? {
                Ok(account) => account,
                Err(problem) => return Ok(Err(problem)),
            };
            tx.set_actor(account.holder.actor());
            let claims = pull_request_claim::list_of(tx, key.repository, key.number)?;
            let row = claims.into_iter().find(|claim| claim.pipeline == id);
            let scope = PipelineScope { pull_request: &found, pipeline: &pipeline, account: &account };
            match row {
                None => start(tx, &scope),
                Some(row) => follow(tx, &scope, row),
            }
        });
        problem = problem.or(done.await?.err());
    }
    Ok(problem)
}

type ActResult = Result<Result<(), String>, AppError>;

/// Claims an environment if a trigger matches.
fn start(tx: &mut Tx<'_>, scope: &PipelineScope<'_>) -> ActResult {
    let locks = list_wanted(tx, scope.pull_request, scope.pipeline)?;
    let is_stopped = matches!(scope.pipeline.status, PipelineActivity::Stopped { .. });
    if locks.is_empty() || is_stopped || !is_trusted(scope.pull_request) {
        return Ok(Ok(()));
    }
    Ok(operate::claim(tx, scope, locks)?.map(drop))
}

/// Continues an existing claim.
fn follow(tx: &mut Tx<'_>, scope: &PipelineScope<'_>, mut row: PullRequestClaim) -> ActResult {
    let is_open = scope.pull_request.seen.status == PullRequestStatus::Open;
    if row.is_stopped {
        if !is_open {
            delete(tx, &row)?;
        }
        return Ok(Ok(()));
    }
    if row.session.is_none() {
        match follow_ticket(tx, scope, &mut row)? {
            TicketProgress::Granted => {}
            TicketProgress::Done(result) => return Ok(result),
            TicketProgress::Restart => return restart(tx, scope, &row),
        }
    }
    let found = row.session.map(|id| session::by_id(tx, id)).transpose()?.flatten();
    let lock = environment::by_id(tx, row.environment)?;
    let (Some(found), Some(lock)) = (found, lock) else { return restart(tx, scope, &row) };
    match &found.end {
        None => follow_session(tx, scope, row, &lock, &found),
        Some(_) if !is_open => delete(tx, &row).map(Ok),
        Some(end) => match end.reason {
            SessionEndReason::Released
            | SessionEndReason::HandedOver
            | SessionEndReason::AgentsStopped
            | SessionEndReason::Overridden => {
                row.is_stopped = true;
                pull_request_claim::put(tx, &row)?;
                Ok(Ok(()))
            }
            // A timeout is meant to free the environment, so only a new head claims one again.
            SessionEndReason::Expired | SessionEndReason::Idle | SessionEndReason::Lease => {
                match row.commit.as_deref() == Some(scope.pull_request.seen.head.as_str()) {
                    true => Ok(Ok(())),
                    false => restart(tx, scope, &row),
                }
            }
            SessionEndReason::EnvironmentDeleted | SessionEndReason::Restored => restart(tx, scope, &row),
        },
    }
}

enum TicketProgress {
    /// The row now has a session.
    Granted,
    Done(Result<(), String>),
    /// No ticket is left, and a new claim may be made.
    Restart,
}

fn follow_ticket(
    tx: &mut Tx<'_>,
    scope: &PipelineScope<'_>,
    row: &mut PullRequestClaim,
) -> Result<TicketProgress, AppError> {
    let tickets = list_tickets(tx, row)?;
    for ticket in &tickets {
        if let TicketState::Granted { session, deployment, .. } = ticket.status {
            (row.environment, row.session, row.deployment) = (ticket.environment, Some(session), deployment);
            row.commit = ticket.terms.commit.as_ref().map(ToString::to_string);
            row.ticket = None;
            pull_request_claim::put(tx, row)?;
            return Ok(TicketProgress::Granted);
        }
    }
    let is_waiting = |it: &&berth_core::environment::Ticket| it.status == TicketState::Waiting;
    let waiting: Vec<_> = tickets.iter().filter(is_waiting).cloned().collect();
    let Some(first) = waiting.first() else {
        let was_left = tickets
            .iter()
            .any(|it| matches!(it.status, TicketState::Cancelled { cause: TicketCause::Requested, .. }));
        if !was_left {
            return Ok(TicketProgress::Restart);
        }
        row.is_stopped = true;
        pull_request_claim::put(tx, row)?;
        return Ok(TicketProgress::Done(Ok(())));
    };
    let is_wanted = !list_wanted(tx, scope.pull_request, scope.pipeline)?.is_empty();
    if !is_wanted || !is_trusted(scope.pull_request) {
        let left = operate::leave_queue(tx, &waiting, &scope.account.holder)?;
        if left.is_ok() {
            delete(tx, row)?;
        }
        return Ok(TicketProgress::Done(left));
    }
    if waiting.iter().all(|it| Some(it.id) != row.ticket) {
        (row.ticket, row.environment) = (Some(first.id), first.environment);
        pull_request_claim::put(tx, row)?;
    }
    if row.commit.as_deref() != Some(scope.pull_request.seen.head.as_str()) {
        return Ok(TicketProgress::Done(operate::change_ticket_commit(tx, scope, row, &waiting)?));
    }
    Ok(TicketProgress::Done(Ok(())))
}

fn follow_session(
    tx: &mut Tx<'_>,
    scope: &PipelineScope<'_>,
    mut row: PullRequestClaim,
    lock: &Lock,
    session: &Session,
) -> ActResult {
    if scope.pipeline.retired_at.is_some() || !is_wanted(lock, scope.pull_request) {
        // Without this condition, the session stays until it times out or a person releases it.
        if !lock.environment.configuration.release.contains(&ReleaseCondition::PrClosed) {
            return Ok(Ok(()));
        }
        let released = operate::release_session(tx, lock, session, &scope.account.holder)?;
        if released.is_ok() {
            delete(tx, &row)?;
        }
        return Ok(released);
    }
    let is_current = row.commit.as_deref() == Some(scope.pull_request.seen.head.as_str());
    if is_current || !is_trusted(scope.pull_request) {
        return Ok(Ok(()));
    }
    operate::deploy_head(tx, scope, &mut row, lock, session)
}

fn restart(tx: &mut Tx<'_>, scope: &PipelineScope<'_>, row: &PullRequestClaim) -> ActResult {
    delete(tx, row)?;
    start(tx, scope)
}

fn delete(tx: &mut Tx<'_>, row: &PullRequestClaim) -> Result<(), AppError> {
    Ok(pull_request_claim::delete(tx, row.repository, row.number, row.pipeline)?)
}
