//! `berth env claim` and `berth env take-over`.

use std::io::{BufRead as _, IsTerminal as _, Write as _};
use std::process::ExitCode;
use std::time::Duration;

use berth_api::environment::Lock;
use berth_api::session::{
    Claimed, EtaBasis, ForceClaim, ForceMode, Session, SessionNew, Ticket, TicketStatus,
};

use super::exec::{self, Undo};
use super::target::{Named, Place};
use super::terminal;
use crate::client::{Client, Failure, Reply, exit_code};
use crate::cmd::commit::commit_id;
use crate::cmd::watch;
use crate::output::time::{ago, ahead, clock, length, seconds};
use crate::output::{Live, Output, harmless};

const LOOK_AGAIN: Duration = Duration::from_secs(2);

#[derive(clap::Args)]
pub(super) struct Claim {
    #[command(flatten)]
    named: Named,
    /// Commit to deploy once you hold the environment; HEAD is the one of your git repository
    #[arg(long)]
    commit: Option<String>,
    /// Reason, visible to everyone
    #[arg(long, short = 'm')]
    why: Option<String>,
    /// Expire after this long, for example 2h [default: the environment's ttl]
    #[arg(long, value_parser = seconds, conflicts_with = "command")]
    ttl: Option<i64>,
    /// Wait in the queue if the environment is held
    #[arg(long)]
    queue: bool,
    /// How long to wait in the queue, for example 30m [default: 1h]
    #[arg(long, value_parser = seconds, requires = "queue")]
    wait: Option<i64>,
    /// Record the commit without deploying it
    #[arg(long, requires = "commit")]
    no_deploy: bool,
    /// Return immediately; keep the queue ticket
    #[arg(long, conflicts_with = "command")]
    detach: bool,
    /// Hold the environment only while this command runs
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<String>,
}

#[derive(clap::Args)]
pub(super) struct TakeOver {
    #[command(flatten)]
    named: Named,
    /// Commit to deploy once you hold the environment; HEAD is the one of your git repository
    #[arg(long)]
    commit: Option<String>,
    /// Reason, shown to the current holder
    #[arg(long, short = 'm', visible_alias = "reason")]
    why: Option<String>,
    /// Expire after this long, for example 2h [default: the environment's ttl]
    #[arg(long, value_parser = seconds)]
    ttl: Option<i64>,
    /// Wait until the running deployment has finished
    #[arg(long, conflicts_with = "grace")]
    after_current: bool,
    /// Wait this long before taking over, for example 5m
    #[arg(long, value_parser = seconds)]
    grace: Option<i64>,
    /// Record the commit without deploying it
    #[arg(long, requires = "commit")]
    no_deploy: bool,
    /// Do not ask for confirmation
    #[arg(long, short)]
    yes: bool,
}

pub(super) fn claim(client: &Client, out: &Output, args: &Claim) -> anyhow::Result<ExitCode> {
    let place = args.named.find(client)?;
    let body = SessionNew {
        commit_id: args.commit.as_deref().map(commit_id).transpose()?,
        context: args.why.clone(),
        ttl_seconds: if args.command.is_empty() { args.ttl } else { Some(exec::TTL_S) },
        deploy: args.no_deploy.then_some(false),
        queue: Some(args.queue),
        wait_seconds: args.wait,
    };
    if !args.command.is_empty() {
        terminal::hear_no_stop()?;
    }
    let undo = Undo::listen(client)?;
    let claimed = client.post::<Claimed>(&format!("{}/sessions", place.path()), &body);
    let session = match claimed.map_err(|error| told(error, &place))? {
        Reply { data: Claimed::Session(session), raw, .. } => Reply { data: *session, raw, etag: None },
        Reply { data: Claimed::Ticket(ticket), raw, .. } if args.detach => {
            out.told(&raw, || waiting(&place, &ticket))?;
            return Ok(ExitCode::SUCCESS);
        }
        Reply { data: Claimed::Ticket(ticket), .. } => {
            undo.set(ticket_path(&place, &ticket));
            in_line(client, &place, *ticket).inspect_err(|_| undo.now())?
        }
    };
    undo.set(place.session(&session.data.session_id));
    if args.command.is_empty() {
        undo.forget();
        return settled(client, out, &place, &session, args.detach);
    }
    exec::run(client, &place, &session.data, &undo, &args.command)
}

/// Waits in the queue until the ticket is granted.
fn in_line(client: &Client, place: &Place, mut ticket: Ticket) -> anyhow::Result<Reply<Session>> {
    let path = ticket_path(place, &ticket);
    let mut live = Live::new();
    let mut etag = String::new();
    while ticket.status == TicketStatus::Waiting {
        live.show(&waiting(place, &ticket));
        match client.changed::<Ticket>(&path, &etag) {
            Ok(Some(news)) => (etag, ticket) = (news.etag.unwrap_or_default(), news.data),
            Ok(None) => {}
            // The ticket survives a restart of the server.
            Err(error) if Failure::passes(&error) => std::thread::sleep(LOOK_AGAIN),
            Err(error) => return Err(error),
        }
    }
    live.clear();
    match (ticket.status, ticket.session_id) {
        (TicketStatus::Granted, Some(session)) => client.get(&place.session(&session)),
        (TicketStatus::Expired, _) => {
            anyhow::bail!("timed out waiting in the queue for {}; wait longer with --wait", place.name)
        }
        (_, _) => {
            let cause = ticket.cause.map_or_else(String::new, |cause| format!(": {cause}"));
            anyhow::bail!("the queue ticket for {} was cancelled{cause}", place.name)
        }
    }
}

fn ticket_path(place: &Place, ticket: &Ticket) -> String {
    format!("{}/queue/{}", place.path(), ticket.ticket_id)
}

fn waiting(place: &Place, ticket: &Ticket) -> String {
    let position =
        ticket.position.map_or_else(String::new, |position| format!(", position {position} in the queue"));
    let eta = ticket.eta_seconds.map_or_else(String::new, |eta| match ticket.eta_basis {
        Some(EtaBasis::Expiry) => format!(", in at most {}", length(eta)),
        _ => format!(", in about {}", length(eta)),
    });
    let takeover =
        ticket.takeover_at.as_ref().map_or_else(String::new, |at| format!(", takeover {}", ahead(at)));
    format!("waiting for {}{position}{eta}{takeover} ({})", place.name, ticket.ticket_id)
}

/// Prints the session and watches its first deployment.
fn settled(
    client: &Client,
    out: &Output,
    place: &Place,
    session: &Reply<Session>,
    detach: bool,
) -> anyhow::Result<ExitCode> {
    out.told(&session.raw, || {
        let until = session.data.expires_at.as_ref().map_or_else(
            || "until you release it".to_owned(),
            |at| format!("until {} ({})", clock(at), ahead(at)),
        );
        format!("Claimed {} {until}, fence {}.\n{}", place.name, session.data.fence, place.page(client))
    })?;
    let first = session.data.deployment_history.first().map(|it| it.id.clone());
    match session.data.deployment_id.clone().or(first) {
        Some(id) if !detach && !out.json => watch::to_the_end(client, out, &id),
        _ => Ok(ExitCode::SUCCESS),
    }
}

pub(super) fn take_over(client: &Client, out: &Output, args: &TakeOver) -> anyhow::Result<ExitCode> {
    let place = args.named.find(client)?;
    let seen = place.view(client)?;
    if let Some(lock) = &seen.data.lock
        && !args.yes
        && !is_meant(&place, lock)?
    {
        return Ok(ExitCode::from(exit_code::INTERRUPTED));
    }
    let body = ForceClaim {
        commit_id: args.commit.as_deref().map(commit_id).transpose()?,
        context: args.why.clone(),
        reason: args.why.clone(),
        ttl_seconds: args.ttl,
        deploy: args.no_deploy.then_some(false),
        mode: match (args.after_current, args.grace) {
            (true, _) => Some(ForceMode::AfterCurrentDeployment),
            (_, Some(_)) => Some(ForceMode::Grace),
            _ => None,
        },
        grace_seconds: args.grace,
    };
    // Take over only the session that the user has seen; fail if the holder has changed since.
    let etag = seen.data.lock.as_ref().and(seen.etag.as_deref());
    match client.post_if::<Claimed>(&format!("{}/force-claim", place.path()), &body, etag)? {
        Reply { data: Claimed::Session(session), raw, .. } => {
            settled(client, out, &place, &Reply { data: *session, raw, etag: None }, false)
        }
        Reply { data: Claimed::Ticket(ticket), raw, .. } => {
            out.told(&raw, || waiting(&place, &ticket))?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

/// Asks for confirmation on a terminal; scripts are not asked.
fn is_meant(place: &Place, lock: &Lock) -> anyhow::Result<bool> {
    if !std::io::stdin().is_terminal() || !std::io::stderr().is_terminal() {
        return Ok(true);
    }
    let why = lock.context.as_ref().map_or_else(String::new, |why| format!(" (“{}”)", harmless(why)));
    let mut err = std::io::stderr();
    write!(
        err,
        "{} has held {} since {} ({}){why}. Take it over and stop their running deployment? [y/N] ",
        harmless(&lock.holder.name),
        place.name,
        clock(&lock.claimed_at),
        ago(&lock.claimed_at)
    )?;
    err.flush()?;
    let mut answer = String::new();
    std::io::stdin().lock().read_line(&mut answer)?;
    Ok(["y", "yes"].contains(&answer.trim().to_lowercase().as_str()))
}

/// Adds advice to the error for a held environment.
fn told(error: anyhow::Error, place: &Place) -> anyhow::Error {
    match error.downcast::<Failure>() {
        Ok(failure) if failure.code() == Some("environment_locked") => {
            let name = format!("{}/{}", place.pipeline, place.name);
            let hint = if failure.is_own() {
                format!(
                    "Deploy with `berth env deploy {name} COMMIT`, or release it with `berth env release {name}`"
                )
            } else {
                format!("Wait in the queue with --queue, or take over with `berth env take-over {name}`")
            };
            failure.with_hint(hint).into()
        }
        Ok(failure) => failure.into(),
        Err(error) => error,
    }
}
