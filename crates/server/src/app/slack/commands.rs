//! Slash commands on environments, with the same rules as in the API.

use berth_core::access::Action;
use berth_core::chat::command::{EnvironmentCommand, EnvironmentName};
use berth_core::environment::claim::{self, ClaimCommand, ClaimOutcome};
use berth_core::environment::deploy::{self, ConflictMode, DeployCommand};
use berth_core::environment::limits::WAIT_S_MAX;
use berth_core::environment::release::{self, ReleaseCommand};
use berth_core::environment::{ClaimTerms, Lock, NamedSession, Session, Ticket, extend};
use berth_core::name::{CommitId, Slug};
use berth_core::time::Timestamp;
use berth_store::pagination::PageStart;
use berth_store::tables::pipeline::{self, PipelineFilter};
use berth_store::tables::{environment, session};
use berth_store::{StoreRead, Tx};

use crate::error::AppError;
use crate::jobs::pull_requests::account::ActingMember;
use crate::jobs::pull_requests::operate::{leave_queue, refusal_text};

/// Maximum number of pipelines that are searched for an environment without its pipeline's name.
const PIPELINES_MAX: i64 = 200;
/// Maximum number of environments that `status` lists.
const LISTED_MAX: usize = 30;

/// An environment that the member may see.
pub(super) struct FoundEnvironment {
    pub(super) pipeline: Slug,
    lock: Lock,
}

/// What a command did, or why it was refused.
type CommandAnswer = Result<Result<String, String>, AppError>;

impl FoundEnvironment {
    fn name(&self) -> String {
        format!("{}/{}", self.pipeline, self.lock.environment.name)
    }

    /// The member's own session.
    fn own_session(
        &self,
        db: &mut impl StoreRead,
        member: &ActingMember,
    ) -> Result<Option<Session>, AppError> {
        let own = self.lock.session.as_ref().filter(|held| held.holder.is_same(&member.holder));
        Ok(own.map(|held| session::by_id(db, held.id)).transpose()?.flatten())
    }

    fn describe(&self) -> String {
        let waiting = match self.lock.tickets.len() {
            0 => String::new(),
            count => format!(", {count} waiting"),
        };
        match &self.lock.session {
            None => format!("{} is free{waiting}", self.name()),
            Some(held) => {
                let until = held.expires_at.map(|at| format!(" until {}", format_time(at)));
                let until = until.unwrap_or_default();
                format!("{} is held by {}{until}{waiting}", self.name(), held.holder.name)
            }
        }
    }
}

/// Finds the environment that a command names among those that the member may see.
pub(super) fn find_environment(
    db: &mut impl StoreRead,
    member: &ActingMember,
    wanted: &EnvironmentName,
) -> Result<Result<FoundEnvironment, String>, AppError> {
    let mut all = match &wanted.pipeline {
        Some(slug) => match pipeline::by_slug(db, slug)? {
            Some(found) => list_visible(db, member, found.id, &found.slug)?,
            None => Vec::new(),
        },
        None => list_all_visible(db, member)?,
    };
    all.retain(|it| it.lock.environment.name == wanted.name);
    let names: Vec<String> = all.iter().map(FoundEnvironment::name).collect();
    let found = all.pop().filter(|_| names.len() == 1);
    Ok(found.ok_or_else(|| match names.is_empty() {
        true => format!("there is no environment {} that you may see", wanted.name),
        false => format!("several pipelines have it; write one of {}", names.join(", ")),
    }))
}

/// Describes the environments that the member may see.
pub(super) fn status_of_all(db: &mut impl StoreRead, member: &ActingMember) -> Result<String, AppError> {
    let all = list_all_visible(db, member)?;
    let mut lines: Vec<String> = all.iter().take(LISTED_MAX).map(FoundEnvironment::describe).collect();
    if all.len() > LISTED_MAX {
        lines.push(format!("and {} more", all.len() - LISTED_MAX));
    }
    Ok(if lines.is_empty() {
        "There are no environments that you may see.".to_owned()
    } else {
        lines.join("\n")
    })
}

fn list_all_visible(
    db: &mut impl StoreRead,
    member: &ActingMember,
) -> Result<Vec<FoundEnvironment>, AppError> {
    let mut all = Vec::new();
    let filter = PipelineFilter::default();
    for found in pipeline::list(db, &filter, &PageStart::Offset(0), PIPELINES_MAX)?.items {
        all.extend(list_visible(db, member, found.id, &found.slug)?);
    }
    Ok(all)
}

fn list_visible(
    db: &mut impl StoreRead,
    member: &ActingMember,
    id: berth_core::id::PipelineId,
    slug: &Slug,
) -> Result<Vec<FoundEnvironment>, AppError> {
    let locks = environment::list_of_pipeline(db, id)?.into_iter();
    let visible = locks.filter(|lock| {
        (lock.environment.is_declared || lock.session.is_some())
            && member.may(Action::EnvironmentsRead, slug, &lock.environment)
    });
    Ok(visible.map(|lock| FoundEnvironment { pipeline: slug.clone(), lock }).collect())
}

/// Carries out a command on an environment.
pub(super) fn operate(
    tx: &mut Tx<'_>,
    member: &ActingMember,
    found: &FoundEnvironment,
    command: EnvironmentCommand,
) -> CommandAnswer {
    if command == EnvironmentCommand::Status {
        return Ok(Ok(found.describe()));
    }
    if !member.may(Action::EnvironmentsClaim, &found.pipeline, &found.lock.environment) {
        return Ok(Err(format!(
            "you may not use {}: it needs the permission environments:claim",
            found.name()
        )));
    }
    if let EnvironmentCommand::Claim { commit, queue } = command {
        return claim(tx, member, found, commit, queue);
    }
    let own = found.own_session(tx, member)?;
    let Some(own) = own else {
        let waiting: Vec<Ticket> =
            found.lock.tickets.iter().filter(|it| it.holder.is_same(&member.holder)).cloned().collect();
        if command == EnvironmentCommand::Release && !waiting.is_empty() {
            let left = leave_queue(tx, &waiting, &member.holder)?;
            return Ok(left.map(|()| format!("You left the queue for {}.", found.name())));
        }
        return Ok(Err(format!("you do not hold it: {}", found.describe())));
    };
    match command {
        EnvironmentCommand::Release => release(tx, member, found, &own),
        EnvironmentCommand::Extend { seconds } => extend(tx, member, found, &own, seconds),
        EnvironmentCommand::Deploy { commit } => deploy(tx, member, found, &own, commit),
        EnvironmentCommand::Status | EnvironmentCommand::Claim { .. } => {
            Err(AppError::bug("a command that is carried out above"))
        }
    }
}

fn claim(
    tx: &mut Tx<'_>,
    member: &ActingMember,
    found: &FoundEnvironment,
    commit: Option<CommitId>,
    queue: bool,
) -> CommandAnswer {
    if !found.lock.environment.is_declared {
        return Ok(Err(format!("{} was removed from the definition", found.name())));
    }
    let deploy = commit.is_some();
    let terms = ClaimTerms {
        commit,
        context: None,
        contact: None,
        ttl_seconds: None,
        lease_seconds: None,
        deploy,
        is_untrusted: false,
    };
    let wait_seconds = queue.then_some(WAIT_S_MAX);
    let cmd = ClaimCommand { by: member.holder.clone(), token: None, terms, wait_seconds };
    let ruling = claim::claim(&found.lock, &cmd, &tx.moment()?);
    Ok(match tx.commit(ruling)? {
        Ok(ClaimOutcome::Session(opened)) => {
            let until = opened.session.expires_at.map(|at| format!(" until {}", format_time(at)));
            Ok(format!("You hold {}{}.", found.name(), until.unwrap_or_default()))
        }
        Ok(ClaimOutcome::Ticket(_)) => Ok(format!("You are in the queue for {}.", found.name())),
        Err(refusal) => Err(refusal_text(refusal)),
    })
}

fn release(tx: &mut Tx<'_>, member: &ActingMember, found: &FoundEnvironment, own: &Session) -> CommandAnswer {
    let named = NamedSession { session: own, expected: None };
    let cmd = ReleaseCommand { by: member.holder.clone(), may_force: false };
    let ruling = release::release(&found.lock, &named, &cmd, &tx.moment()?);
    let done = tx.commit(ruling)?;
    Ok(done.map(|_| format!("You released {}.", found.name())).map_err(refusal_text))
}

fn extend(
    tx: &mut Tx<'_>,
    member: &ActingMember,
    found: &FoundEnvironment,
    own: &Session,
    seconds: Option<i64>,
) -> CommandAnswer {
    let named = NamedSession { session: own, expected: None };
    let ruling = extend::extend(&found.lock, &named, &member.holder, seconds, &tx.moment()?);
    Ok(match tx.commit(ruling)? {
        Ok(Session { expires_at: Some(at), .. }) => {
            Ok(format!("You hold {} until {}.", found.name(), format_time(at)))
        }
        Ok(_) => {
            Ok(format!("Your session in {} does not expire; its idle timer was restarted.", found.name()))
        }
        Err(refusal) => Err(refusal_text(refusal)),
    })
}

fn deploy(
    tx: &mut Tx<'_>,
    member: &ActingMember,
    found: &FoundEnvironment,
    own: &Session,
    commit: CommitId,
) -> CommandAnswer {
    let named = NamedSession { session: own, expected: None };
    let text = format!("Deploying {commit} to {}.", found.name());
    let cmd = DeployCommand {
        by: member.holder.clone(),
        commit,
        context: None,
        on_conflict: ConflictMode::Supersede,
        override_drain: None,
        is_untrusted: false,
    };
    let ruling = deploy::deploy(&found.lock, &named, &cmd, &tx.moment()?);
    let done = tx.commit(ruling)?;
    Ok(done.map(|_| text).map_err(refusal_text))
}

/// A time such as `2026-11-15 09:30 UTC`.
fn format_time(at: Timestamp) -> String {
    let text = at.to_string();
    let (day, time) = text.split_once('T').unwrap_or((&text, ""));
    format!("{day} {} UTC", time.get(..5).unwrap_or_default())
}
