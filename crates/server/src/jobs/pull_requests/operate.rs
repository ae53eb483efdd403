//! Operations on the environment of a pull request: claim, deploy, release, leave the queue. Each writes the record of
//! the claim in the same transaction.

use berth_core::access::Action;
use berth_core::decision::CommandRefusal;
use berth_core::deployment::environment::cancel::cancel;
use berth_core::deployment::{DeploymentPurpose, DeploymentState};
use berth_core::environment::claim::{ClaimCommand, ClaimOutcome};
use berth_core::environment::deploy::{self, ConflictMode, DeployCommand};
use berth_core::environment::limits::WAIT_S_MAX;
use berth_core::environment::release::{self, ReleaseCommand};
use berth_core::environment::{
    ClaimTerms, Lock, LockHolder, NamedSession, Session, Ticket, TicketState, queue,
};
use berth_core::forge::{PullRequest, PullRequestClaim, matches};
use berth_core::name::{CONTACT_CHARS_MAX, CommitId, Contact, Reason};
use berth_core::pipeline::state::Pipeline;
use berth_engine::claim_any::{AnyClaimOutcome, claim_any};
use berth_engine::error::EngineError;
use berth_store::tables::{environment, pull_request_claim, ticket};
use berth_store::{StoreRead, Tx};

use super::account::ActingMember;
use crate::error::AppError;

/// A pull request, a pipeline of its repository, and the service account that acts for it.
pub(super) struct PipelineScope<'a> {
    pub(super) pull_request: &'a PullRequest,
    pub(super) pipeline: &'a Pipeline,
    pub(super) account: &'a ActingMember,
}

/// Whether a trigger of the environment matches the pull request.
pub(super) fn is_wanted(lock: &Lock, pull_request: &PullRequest) -> bool {
    let environment = &lock.environment;
    environment.is_declared
        && environment.configuration.triggers.iter().any(|trigger| matches(trigger, &pull_request.seen))
}

/// The environments of the pipeline that the pull request may use.
pub(super) fn list_wanted(
    db: &mut impl StoreRead,
    pull_request: &PullRequest,
    pipeline: &Pipeline,
) -> Result<Vec<Lock>, AppError> {
    if pipeline.retired_at.is_some() {
        return Ok(Vec::new());
    }
    let mut locks = environment::list_of_pipeline(db, pipeline.id)?;
    locks.retain(|lock| is_wanted(lock, pull_request));
    Ok(locks)
}

/// Claims one of these environments, or joins their queues. The inner error says why neither was possible.
pub(super) fn claim(
    tx: &mut Tx<'_>,
    scope: &PipelineScope<'_>,
    mut locks: Vec<Lock>,
) -> Result<Result<PullRequestClaim, String>, AppError> {
    let account = scope.account;
    let names: Vec<_> = locks.iter().map(|lock| lock.environment.name.to_string()).collect();
    locks.retain(|lock| account.may(Action::EnvironmentsClaim, &scope.pipeline.slug, &lock.environment));
    if locks.is_empty() {
        let text = format!("the service account {} may not claim {}", account.holder.name, names.join(", "));
        return Ok(Err(text));
    }
    let terms = match claim_terms(scope.pull_request) {
        Ok(terms) => terms,
        Err(problem) => return Ok(Err(problem)),
    };
    let cmd = ClaimCommand { by: account.holder.clone(), token: None, terms, wait_seconds: Some(WAIT_S_MAX) };
    let claimed = match claim_any(tx, locks, &cmd)?.outcome {
        AnyClaimOutcome::Claimed(claimed, after) => (*claimed, after.environment.id),
        AnyClaimOutcome::Refused(refusal, _) => return Ok(Err(refusal_text(refusal))),
        AnyClaimOutcome::AllHeld(_) => return Err(AppError::bug("a claim that waits did not wait")),
    };
    let mut row = new_row(tx, scope, claimed.1);
    record_outcome(&mut row, claimed.0);
    pull_request_claim::put(tx, &row)?;
    Ok(Ok(row))
}

/// The record of a claim that has neither a ticket nor a session yet.
pub(super) fn new_row(
    tx: &Tx<'_>,
    scope: &PipelineScope<'_>,
    environment: berth_core::id::EnvironmentId,
) -> PullRequestClaim {
    PullRequestClaim {
        repository: scope.pull_request.repository,
        number: scope.pull_request.number,
        pipeline: scope.pipeline.id,
        environment,
        ticket: None,
        session: None,
        deployment: None,
        commit: Some(scope.pull_request.seen.head.clone()),
        is_stopped: false,
        created_at: tx.now(),
    }
}

pub(super) fn record_outcome(row: &mut PullRequestClaim, claimed: ClaimOutcome) {
    match claimed {
        ClaimOutcome::Session(opened) => {
            (row.session, row.deployment) = (Some(opened.session.id), opened.deployment);
        }
        ClaimOutcome::Ticket(ticket) => row.ticket = Some(ticket.id),
    }
}

/// What a claim for the pull request asks for. The head of a fork is not trusted.
pub(super) fn claim_terms(pull_request: &PullRequest) -> Result<ClaimTerms, String> {
    let seen = &pull_request.seen;
    Ok(ClaimTerms {
        commit: Some(head_commit(pull_request)?),
        context: Reason::parse(&format!("pull request #{}", pull_request.number)).ok(),
        contact: contact(pull_request),
        ttl_seconds: None,
        lease_seconds: None,
        deploy: true,
        is_untrusted: seen.is_fork,
    })
}

fn contact(pull_request: &PullRequest) -> Option<Contact> {
    let number = format!(" #{}", pull_request.number);
    let name: String = pull_request.seen.author.name.chars().take(CONTACT_CHARS_MAX - number.len()).collect();
    Contact::parse(&format!("{name}{number}")).or_else(|_| Contact::parse(number.trim())).ok()
}

pub(super) fn head_commit(pull_request: &PullRequest) -> Result<CommitId, String> {
    let head = &pull_request.seen.head;
    let is_hash = berth_engine::git::is_whole_hash(head);
    let commit = CommitId::parse(head).ok().filter(|_| is_hash);
    commit.ok_or_else(|| "the forge reports a head that is not a commit".to_owned())
}

/// Deploys the head in the active session of the claim. Cancels the deployments of older heads.
pub(super) fn deploy_head(
    tx: &mut Tx<'_>,
    scope: &PipelineScope<'_>,
    row: &mut PullRequestClaim,
    lock: &Lock,
    session: &Session,
) -> Result<Result<(), String>, AppError> {
    let commit = match head_commit(scope.pull_request) {
        Ok(commit) => commit,
        Err(problem) => return Ok(Err(problem)),
    };
    let mut lock = lock.clone();
    let by = &scope.account.holder;
    if !session.holder.is_same(by) {
        return Ok(Err(
            "the session belongs to an earlier connection; release it, then comment `/berth claim`".into(),
        ));
    }
    let is_running = |it: &&berth_core::deployment::EnvironmentDeployment| {
        it.target.purpose == DeploymentPurpose::Session(session.id) && it.status == DeploymentState::Running
    };
    let running: Vec<_> = lock.deployments.iter().filter(is_running).cloned().collect();
    for deployment in running {
        let reason = Reason::parse("the pull request has a newer head").ok();
        let ruling = cancel(&lock, &deployment, by.actor(), reason, &tx.moment()?);
        lock = lock.after(&ruling);
        if let Err(refusal) = tx.commit(ruling)? {
            return Ok(Err(refusal_text(refusal)));
        }
    }
    let cmd = DeployCommand {
        by: by.clone(),
        commit,
        context: Reason::parse(&format!("pull request #{}", scope.pull_request.number)).ok(),
        on_conflict: ConflictMode::Supersede,
        override_drain: None,
        is_untrusted: scope.pull_request.seen.is_fork,
    };
    let named = NamedSession { session, expected: None };
    let ruling = deploy::deploy(&lock, &named, &cmd, &tx.moment()?);
    match tx.commit(ruling)? {
        Ok(deployment) => {
            row.deployment = Some(deployment.id);
            row.commit = Some(scope.pull_request.seen.head.clone());
            pull_request_claim::put(tx, row)?;
            Ok(Ok(()))
        }
        Err(refusal) => Ok(Err(refusal_text(refusal))),
    }
}

/// Releases a session. `by` is the holder or a member who may release it.
pub(super) fn release_session(
    tx: &mut Tx<'_>,
    lock: &Lock,
    session: &Session,
    by: &LockHolder,
) -> Result<Result<(), String>, AppError> {
    let named = NamedSession { session, expected: None };
    let cmd = ReleaseCommand { by: by.clone(), may_force: true };
    let ruling = release::release(lock, &named, &cmd, &tx.moment()?);
    Ok(tx.commit(ruling)?.map(drop).map_err(refusal_text))
}

/// Takes the claim's tickets out of all queues.
pub(crate) fn leave_queue(
    tx: &mut Tx<'_>,
    waiting: &[Ticket],
    by: &LockHolder,
) -> Result<Result<(), String>, AppError> {
    for waiting in waiting {
        // The first one that leaves withdraws the others of its group.
        let found = ticket::by_id(tx, waiting.id)?.filter(|it| it.status == TicketState::Waiting);
        let Some(found) = found else { continue };
        let Some(lock) = environment::by_id(tx, found.environment)? else { continue };
        let ruling = queue::leave_queue(&lock, &found, by, true, &tx.moment()?);
        if let Err(refusal) = tx.commit(ruling)? {
            return Ok(Err(refusal_text(refusal)));
        }
    }
    Ok(Ok(()))
}

/// Changes the commit of the claim's waiting tickets to the head.
pub(super) fn change_ticket_commit(
    tx: &mut Tx<'_>,
    scope: &PipelineScope<'_>,
    row: &mut PullRequestClaim,
    waiting: &[Ticket],
) -> Result<Result<(), String>, AppError> {
    let commit = match head_commit(scope.pull_request) {
        Ok(commit) => commit,
        Err(problem) => return Ok(Err(problem)),
    };
    for ticket in waiting {
        let Some(lock) = environment::by_id(tx, ticket.environment)? else { continue };
        let by = &scope.account.holder;
        let ruling = queue::change_commit(&lock, ticket, by, &commit, &tx.moment()?);
        if let Err(refusal) = tx.commit(ruling)? {
            return Ok(Err(refusal_text(refusal)));
        }
    }
    row.commit = Some(commit.to_string());
    pull_request_claim::put(tx, row)?;
    Ok(Ok(()))
}

/// The tickets of a claim, in all states.
pub(super) fn list_tickets(db: &mut impl StoreRead, row: &PullRequestClaim) -> Result<Vec<Ticket>, AppError> {
    let Some(id) = row.ticket else { return Ok(Vec::new()) };
    Ok(match ticket::by_id(db, id)? {
        Some(Ticket { group: Some(group), .. }) => ticket::list_of_group(db, group)?,
        Some(ticket) => vec![ticket],
        None => Vec::new(),
    })
}

/// Why a rule refused, in words for people.
pub(crate) fn refusal_text(refusal: CommandRefusal) -> String {
    match EngineError::from(refusal) {
        EngineError::Problem(problem) => problem.detail,
        EngineError::Fault(text) => text,
        EngineError::Store(error) => error.to_string(),
    }
}
