//! Carries out commands in comments, each once. They act with the present permissions of the member to whom the
//! author's account on the forge is linked.

use berth_core::access::Action;
use berth_core::environment::force::{self, ForceClaimCommand, TakeoverMode};
use berth_core::environment::{Lock, NamedSession, Session, SessionState, TicketState, extend};
use berth_core::forge::command::{COMMANDS_HELP, CommentCommand, parse};
use berth_core::forge::{PullRequest, PullRequestClaim, PullRequestCommand, PullRequestStatus};
use berth_core::id::OrgId;
use berth_core::name::{EnvName, Reason};
use berth_core::pipeline::state::Pipeline;
use berth_core::repository::Repository;
use berth_store::tables::{
    agent, environment, forge_account, forge_connection, pipeline, pull_request, pull_request_claim,
    pull_request_command, repository, session,
};
use berth_store::{Tx, TxContext};

use super::account::{ActingMember, load_account, load_member};
use super::act::is_trusted;
use super::approval::{ApprovalRefusal, Approver, approve};
use super::comment_text::format_time;
use super::linked_accounts::connect_account;
use super::operate::{self, PipelineScope, list_tickets, list_wanted};
use super::{PullRequestJob, ReconcileContext, forge_host};
use crate::error::AppError;

/// Maximum number of commands carried out per turn. The next turn continues.
const COMMANDS_MAX: i64 = 20;
/// Maximum number of pipelines read per repository.
const PIPELINES_MAX: i64 = 2_000;
const NOT_CONNECTED: &str =
    "your account is not connected to Berth; create a code in Berth, and comment /berth connect CODE";
const NOT_OPEN: &str = "the pull request is not open";
const NOT_APPROVED: &str = "the head comes from a fork and is not approved";

/// Carries out all commands that were not answered yet, oldest first.
pub(super) async fn carry_out_all(
    job: &PullRequestJob,
    context: &ReconcileContext<'_>,
) -> Result<(), AppError> {
    let key = context.key;
    let read = job.services.store.read(Some(key.org), move |db| {
        let (repository, number) = (key.repository, key.number);
        Ok::<_, AppError>(pull_request_command::list_unanswered(db, repository, number, COMMANDS_MAX)?)
    });
    for command in read.await? {
        let done = job
            .services
            .store
            .transact(TxContext::system(Some(key.org)), move |tx| carry_out(tx, key.org, &command));
        done.await?;
    }
    Ok(())
}

/// Carries out one command and marks it as answered, in one transaction.
fn carry_out(tx: &mut Tx<'_>, org: OrgId, command: &PullRequestCommand) -> Result<(), AppError> {
    let answer = match parse(&command.text) {
        Ok(parsed) => {
            execute(tx, org, command, parsed)?.unwrap_or_else(|refused| format!("refused ({refused})"))
        }
        Err(wrong) => format!("refused ({wrong})"),
    };
    if !pull_request_command::mark_answered(tx, command.repository, &command.comment, &answer)? {
        return Err(AppError::bug("a command was carried out by two servers"));
    }
    Ok(())
}

/// What the command did, or why it was refused.
type CommandAnswer = Result<Result<String, String>, AppError>;

fn execute(
    tx: &mut Tx<'_>,
    org: OrgId,
    command: &PullRequestCommand,
    parsed: CommentCommand,
) -> CommandAnswer {
    let found = pull_request::by_number(tx, command.repository, command.number)?;
    let (Some(found), Some(repository)) = (found, repository::by_id(tx, command.repository)?) else {
        return Ok(Err("the repository was removed".into()));
    };
    let host = forge_host(&repository);
    match &parsed {
        CommentCommand::Help => return Ok(Ok(format!("the commands are {COMMANDS_HELP}"))),
        CommentCommand::Connect { code } => {
            return connect_account(tx, org, &host, command.author.clone(), code);
        }
        _ => {}
    }
    let linked = forge_account::find_member(tx, &host, &command.author.id)?;
    let Some(linked) = linked else { return Ok(Err(NOT_CONNECTED.into())) };
    let Some(member) = load_member(tx, org, linked)? else {
        return Ok(Err("your Berth account may not act at the moment".into()));
    };
    // The limits of agents, and the switch that stops them, do not apply to comments.
    if agent::by_user(tx, linked)?.is_some() {
        return Ok(Err("agents cannot give commands in comments".into()));
    }
    tx.set_actor(member.holder.actor());
    if let CommentCommand::Approve { commit } = &parsed {
        let approver = Approver { user: linked, access: &member.access };
        let approved = approve(tx, &repository, found, &approver, commit)?;
        return Ok(approved.map(|_| format!("approved {commit}")).map_err(ApprovalRefusal::into_text));
    }
    let Some(connection) = forge_connection::by_repository(tx, repository.id)? else {
        return Ok(Err("the repository is not connected".into()));
    };
    let account = match load_account(tx, org, &connection)? {
        Ok(account) => account,
        Err(problem) => return Ok(Err(problem)),
    };
    let is_author = command.author.id == found.seen.author.id;
    let operator = CommandOperator { repository: &repository, found: &found, member, account, is_author };
    operator.operate(tx, parsed)
}

/// A member who operates the environments of a pull request by a comment.
struct CommandOperator<'a> {
    repository: &'a Repository,
    found: &'a PullRequest,
    member: ActingMember,
    /// The service account that holds the sessions.
    account: ActingMember,
    /// Whether the member's linked account is the author of the pull request.
    is_author: bool,
}

/// A claim whose environment can be operated.
struct OperatedClaim {
    row: PullRequestClaim,
    pipeline: Pipeline,
    lock: Lock,
    /// The active session.
    session: Option<Session>,
}

impl CommandOperator<'_> {
    fn operate(&self, tx: &mut Tx<'_>, parsed: CommentCommand) -> CommandAnswer {
        match parsed {
            CommentCommand::Claim(name) => self.claim(tx, name.as_ref()),
            CommentCommand::TakeOver { environment, reason } => self.take_over(tx, &environment, &reason),
            CommentCommand::Queue => self.describe_queue(tx),
            CommentCommand::Release => self.for_each_claim(tx, |tx, claim| self.release(tx, claim)),
            CommentCommand::Deploy => self.for_each_claim(tx, |tx, claim| self.deploy(tx, claim)),
            CommentCommand::Extend { seconds } => {
                self.for_each_claim(tx, |tx, claim| self.extend(tx, &claim, seconds))
            }
            CommentCommand::Approve { .. } | CommentCommand::Connect { .. } | CommentCommand::Help => {
                Err(AppError::bug("a command that is carried out elsewhere"))
            }
        }
    }

    /// Whether the member may operate the session of the pull request: like its holder if the member is the author, and
    /// otherwise like the session of another member.
    fn may_operate(&self, pipeline: &Pipeline, lock: &Lock) -> bool {
        let may = |action| self.member.may(action, &pipeline.slug, &lock.environment);
        may(Action::EnvironmentsClaim) && (self.is_author || may(Action::EnvironmentsReleaseOthers))
    }

    fn pipelines(&self, tx: &mut Tx<'_>) -> Result<Vec<Pipeline>, AppError> {
        let mut all = pipeline::list_of_repository(tx, self.repository.id, PIPELINES_MAX)?;
        all.retain(|it| it.retired_at.is_none());
        Ok(all)
    }

    fn list_claims(&self, tx: &mut Tx<'_>) -> Result<Vec<OperatedClaim>, AppError> {
        let mut claims = Vec::new();
        for row in pull_request_claim::list_of(tx, self.found.repository, self.found.number)? {
            let (pipeline, lock) =
                (pipeline::by_id(tx, row.pipeline)?, environment::by_id(tx, row.environment)?);
            let (Some(pipeline), Some(lock)) = (pipeline, lock) else { continue };
            let session = row.session.map(|id| session::by_id(tx, id)).transpose()?.flatten();
            let session = session.filter(|it| it.status() == SessionState::Active);
            claims.push(OperatedClaim { row, pipeline, lock, session });
        }
        Ok(claims)
    }

    /// Runs an operation on each claim that the member may operate, and joins the answers.
    fn for_each_claim(
        &self,
        tx: &mut Tx<'_>,
        operation: impl Fn(&mut Tx<'_>, OperatedClaim) -> CommandAnswer,
    ) -> CommandAnswer {
        let mut answers = Vec::new();
        for claim in self.list_claims(tx)? {
            if !self.may_operate(&claim.pipeline, &claim.lock) {
                let name = &claim.lock.environment.name;
                return Ok(Err(format!("you may not operate {name} for this pull request")));
            }
            match operation(tx, claim)? {
                Ok(answer) => answers.push(answer),
                Err(refused) => return Ok(Err(refused)),
            }
        }
        match answers.is_empty() {
            true => Ok(Err("the pull request uses no environment".into())),
            false => Ok(Ok(answers.join("; "))),
        }
    }

    fn release(&self, tx: &mut Tx<'_>, claim: OperatedClaim) -> CommandAnswer {
        let name = claim.lock.environment.name.clone();
        let waiting = list_waiting(tx, &claim.row)?;
        let done = match &claim.session {
            Some(session) => operate::release_session(tx, &claim.lock, session, &self.member.holder)?,
            None if !waiting.is_empty() => operate::leave_queue(tx, &waiting, &self.member.holder)?,
            None => return Ok(Ok(format!("{name} was not in use"))),
        };
        if let Err(refused) = done {
            return Ok(Err(refused));
        }
        pull_request_claim::put(tx, &PullRequestClaim { is_stopped: true, ..claim.row })?;
        let is_session = claim.session.is_some();
        Ok(Ok(if is_session { format!("released {name}") } else { format!("left the queue for {name}") }))
    }

    fn deploy(&self, tx: &mut Tx<'_>, mut claim: OperatedClaim) -> CommandAnswer {
        let name = claim.lock.environment.name.clone();
        let Some(session) = &claim.session else {
            return Ok(Err(format!("{name} is not held; claim it first")));
        };
        if let Err(refused) = self.check_runnable() {
            return Ok(Err(refused));
        }
        let scope =
            PipelineScope { pull_request: self.found, pipeline: &claim.pipeline, account: &self.account };
        let deployed = operate::deploy_head(tx, &scope, &mut claim.row, &claim.lock, session)?;
        Ok(deployed.map(|()| format!("deploying {} to {name}", self.found.seen.head)))
    }

    fn extend(&self, tx: &mut Tx<'_>, claim: &OperatedClaim, seconds: i64) -> CommandAnswer {
        let name = &claim.lock.environment.name;
        let Some(session) = &claim.session else { return Ok(Err(format!("{name} is not held"))) };
        let named = NamedSession { session, expected: None };
        let ruling = extend::extend(&claim.lock, &named, &self.account.holder, Some(seconds), &tx.moment()?);
        Ok(match tx.commit(ruling)? {
            Ok(Session { expires_at: Some(at), .. }) => {
                Ok(format!("extended {name} until {}", format_time(at)))
            }
            Ok(_) => Ok(format!("the session in {name} does not expire; its idle timer was restarted")),
            Err(refusal) => Err(operate::refusal_text(refusal)),
        })
    }

    /// Claims environments for the pipelines in which the pull request has none.
    fn claim(&self, tx: &mut Tx<'_>, name: Option<&EnvName>) -> CommandAnswer {
        if let Err(refused) = self.check_runnable() {
            return Ok(Err(refused));
        }
        let used = self.list_claims(tx)?;
        let mut answers = Vec::new();
        let mut refused = None;
        for pipeline in self.pipelines(tx)? {
            let mut locks = list_wanted(tx, self.found, &pipeline)?;
            locks.retain(|lock| name.is_none_or(|name| lock.environment.name == *name));
            if locks.is_empty() {
                continue;
            }
            let row = used.iter().find(|claim| claim.row.pipeline == pipeline.id);
            if let Some(claim) = row
                && (claim.session.is_some() || !list_waiting(tx, &claim.row)?.is_empty())
            {
                refused = Some(format!("it already uses or waits for {}", claim.lock.environment.name));
                continue;
            }
            locks
                .retain(|lock| self.member.may(Action::EnvironmentsClaim, &pipeline.slug, &lock.environment));
            if locks.is_empty() {
                refused = Some(format!("you may not claim environments of {}", pipeline.slug));
                continue;
            }
            let scope =
                PipelineScope { pull_request: self.found, pipeline: &pipeline, account: &self.account };
            match operate::claim(tx, &scope, locks)? {
                Ok(row) => answers.push(describe_claim(tx, &row)?),
                Err(problem) => refused = Some(problem),
            }
        }
        Ok(match (answers.is_empty(), refused) {
            (false, _) => Ok(answers.join("; ")),
            (true, Some(refused)) => Err(refused),
            (true, None) => Err("no such environment is declared for this pull request".into()),
        })
    }

    fn take_over(&self, tx: &mut Tx<'_>, name: &EnvName, reason: &Reason) -> CommandAnswer {
        if let Err(refused) = self.check_runnable() {
            return Ok(Err(refused));
        }
        let used = self.list_claims(tx)?;
        for pipeline in self.pipelines(tx)? {
            let locks = list_wanted(tx, self.found, &pipeline)?;
            let Some(lock) = locks.into_iter().find(|lock| lock.environment.name == *name) else { continue };
            let may = |member: &ActingMember, action| member.may(action, &pipeline.slug, &lock.environment);
            let is_allowed = may(&self.member, Action::EnvironmentsForceClaim)
                && may(&self.account, Action::EnvironmentsClaim);
            if !is_allowed {
                return Ok(Err(format!("you may not take {name} over")));
            }
            let row = used.iter().find(|claim| claim.row.pipeline == pipeline.id);
            if row.is_some_and(|claim| claim.session.is_some()) {
                return Ok(Err("the pull request already holds an environment; release it first".into()));
            }
            if let Some(claim) = row {
                let waiting = list_waiting(tx, &claim.row)?;
                if let Err(refused) = operate::leave_queue(tx, &waiting, &self.account.holder)? {
                    return Ok(Err(refused));
                }
            }
            let terms = match operate::claim_terms(self.found) {
                Ok(terms) => terms,
                Err(problem) => return Ok(Err(problem)),
            };
            let why = Reason::parse(&format!("{reason} (asked by {})", self.member.holder.name)).ok();
            let why = why.or_else(|| Some(reason.clone()));
            let (by, mode) = (self.account.holder.clone(), TakeoverMode::Now);
            let cmd = ForceClaimCommand { by, token: None, terms, why, mode, expected: None };
            let lock = environment::by_id(tx, lock.environment.id)?
                .ok_or_else(|| AppError::bug("an environment went away"))?;
            let ruling = force::force_claim(&lock, &cmd, &tx.moment()?);
            let claimed = match tx.commit(ruling)? {
                Ok(claimed) => claimed,
                Err(refusal) => return Ok(Err(operate::refusal_text(refusal))),
            };
            let scope =
                PipelineScope { pull_request: self.found, pipeline: &pipeline, account: &self.account };
            let mut row = operate::new_row(tx, &scope, lock.environment.id);
            operate::record_outcome(&mut row, claimed);
            pull_request_claim::put(tx, &row)?;
            return Ok(Ok(format!("took {name} over")));
        }
        Ok(Err("no such environment is declared for this pull request".into()))
    }

    fn describe_queue(&self, tx: &mut Tx<'_>) -> CommandAnswer {
        let mut answers = Vec::new();
        for pipeline in self.pipelines(tx)? {
            for lock in list_wanted(tx, self.found, &pipeline)? {
                if self.member.may(Action::EnvironmentsRead, &pipeline.slug, &lock.environment) {
                    let state = if lock.session.is_some() { "held" } else { "free" };
                    let (name, waiting) = (&lock.environment.name, lock.tickets.len());
                    answers.push(format!("{name} is {state}, {waiting} waiting"));
                }
            }
        }
        Ok(match answers.is_empty() {
            true => Err("there is no environment for this pull request that you may see".into()),
            false => Ok(answers.join("; ")),
        })
    }

    /// Whether the head may be deployed at all.
    fn check_runnable(&self) -> Result<(), String> {
        match self.found.seen.status {
            PullRequestStatus::Open if is_trusted(self.found) => Ok(()),
            PullRequestStatus::Open => Err(NOT_APPROVED.into()),
            PullRequestStatus::Closed | PullRequestStatus::Merged => Err(NOT_OPEN.into()),
        }
    }
}

fn list_waiting(
    tx: &mut Tx<'_>,
    row: &PullRequestClaim,
) -> Result<Vec<berth_core::environment::Ticket>, AppError> {
    let mut tickets = list_tickets(tx, row)?;
    tickets.retain(|it| it.status == TicketState::Waiting);
    Ok(tickets)
}

fn describe_claim(tx: &mut Tx<'_>, row: &PullRequestClaim) -> Result<String, AppError> {
    let lock = environment::by_id(tx, row.environment)?;
    let name = lock.map(|lock| lock.environment.name.to_string()).unwrap_or_default();
    Ok(if row.session.is_some() { format!("claimed {name}") } else { format!("joined the queue for {name}") })
}
