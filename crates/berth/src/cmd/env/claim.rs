//! `berth env claim` and `berth env take-over`.

use std::process::ExitCode;
use std::time::Duration;

use berth_api::session::{
    AnySessionNew, ClaimResult, EtaBasis, ForceClaim, ForceMode, SessionNew, TicketStatus, WireSession,
    WireTicket,
};
use berth_core::environment::limits::{LEASE_S_MAX, LEASE_S_MIN};

use super::confirm;
use super::exec;
use super::guard::SessionGuard;
use super::keep::parse_keep_seconds;
use super::target::{ClaimTarget, ClaimTargetArgs, EnvironmentArgs, EnvironmentRef};
use super::terminal;
use super::view::describe_holder;
use crate::client::{ApiClient, ApiReply, ClientError, exit_code, percent_encode};
use crate::cmd::commit::resolve_commit;
use crate::cmd::watch;
use crate::output::time::{format_clock, format_duration, format_time_left, parse_seconds};
use crate::output::{CommandOutput, LiveDisplay, print_note};

const RETRY_INTERVAL: Duration = Duration::from_secs(2);

#[derive(clap::Args)]
pub(super) struct ClaimArgs {
    #[command(flatten)]
    target: ClaimTargetArgs,
    /// Commit to deploy once you hold the environment; HEAD is resolved in your local git repository
    #[arg(long)]
    commit: Option<String>,
    /// Reason, visible to everyone
    #[arg(long, short = 'm')]
    why: Option<String>,
    /// Whom to ask about the session, for example an e-mail address; shown next to the holder
    #[arg(long = "for", value_name = "CONTACT")]
    contact: Option<String>,
    /// Expire after this long, for example 2h [default: the environment's ttl]
    ///
    /// With a command, it requires --lease: otherwise the session lasts for as long as the command runs.
    #[arg(long, value_parser = parse_seconds)]
    ttl: Option<i64>,
    /// End the session if no heartbeat arrives for this long, from 15s to 10m
    ///
    /// A command's session gets heartbeats while the command runs; otherwise send them with `berth env heartbeat`.
    #[arg(long, value_name = "TIME", value_parser = parse_lease_seconds, conflicts_with = "keep_on_failure")]
    lease: Option<i64>,
    /// Wait in the queue if the environment is held
    #[arg(long)]
    queue: bool,
    /// How long to wait in the queue, for example 30m [default: 1h]
    #[arg(long, value_parser = parse_seconds, requires = "queue")]
    wait: Option<i64>,
    /// Record the commit without deploying it
    #[arg(long, requires = "commit")]
    no_deploy: bool,
    /// Return immediately; keep the queue ticket
    #[arg(long, conflicts_with = "command")]
    detach: bool,
    /// Give the session a token of its own, so that other jobs with your token are not its holder
    #[arg(long, conflicts_with = "label")]
    session_token: bool,
    /// Keep the environment for this long if the deployment or the command fails, for example 2h
    #[arg(long, value_name = "TIME", value_parser = parse_keep_seconds, requires = "command")]
    keep_on_failure: Option<i64>,
    /// Hold the environment only while this command runs
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<String>,
}

#[derive(clap::Args)]
pub(super) struct TakeOverArgs {
    #[command(flatten)]
    named: EnvironmentArgs,
    /// Commit to deploy once you hold the environment; HEAD is resolved in your local git repository
    #[arg(long)]
    commit: Option<String>,
    /// Reason, shown to the current holder
    #[arg(long, short = 'm', visible_alias = "reason")]
    why: Option<String>,
    /// Whom to ask about the session, for example an e-mail address; shown next to the holder
    #[arg(long = "for", value_name = "CONTACT")]
    contact: Option<String>,
    /// Expire after this long, for example 2h [default: the environment's ttl]
    #[arg(long, value_parser = parse_seconds)]
    ttl: Option<i64>,
    /// Wait until the running deployment has finished
    #[arg(long, conflicts_with = "grace")]
    after_current: bool,
    /// Wait this long before taking over, for example 5m
    #[arg(long, value_parser = parse_seconds)]
    grace: Option<i64>,
    /// Record the commit without deploying it
    #[arg(long, requires = "commit")]
    no_deploy: bool,
    /// Do not ask for confirmation
    #[arg(long, short)]
    yes: bool,
}

pub(super) fn claim(client: &ApiClient, out: &CommandOutput, args: &ClaimArgs) -> anyhow::Result<ExitCode> {
    let target = args.target.resolve(client)?;
    let has_own_ttl = args.command.is_empty() || args.lease.is_some();
    if args.ttl.is_some() && !has_own_ttl {
        let text =
            "--ttl with a command requires --lease; without it, the session lasts as long as the command";
        return Err(ClientError::Usage(text.to_owned()).into());
    }
    let body = SessionNew {
        commit_id: args.commit.as_deref().map(resolve_commit).transpose()?,
        context: args.why.clone(),
        contact: args.contact.clone(),
        ttl_seconds: if has_own_ttl { args.ttl } else { Some(exec::TTL_S) },
        lease_seconds: args.lease,
        deploy: args.no_deploy.then_some(false),
        queue: Some(args.queue),
        wait_seconds: args.wait,
        session_token: args.session_token.then_some(true),
    };
    if !args.command.is_empty() {
        terminal::block_stop_signals()?;
    }
    let undo = SessionGuard::listen(client)?;
    let claimed = post_claim(client, &target, body).map_err(|error| add_lock_hint(error, &target))?;
    // Only the session token may use the session or ticket from here on.
    let session_token = claimed.data.session_token().map(str::to_owned);
    let own_client = session_token.as_deref().map(|token| client.with_token(token));
    let client = own_client.as_ref().unwrap_or(client);
    undo.set_client(client);
    let mut session = match claimed {
        ApiReply { data: ClaimResult::Session(session), raw, .. } => {
            ApiReply { data: *session, raw, etag: None }
        }
        ApiReply { data: ClaimResult::Ticket(ticket), raw, .. } if args.detach => {
            out.print_reply(&raw, || queue_status(&target.to_string(), &ticket))?;
            return Ok(ExitCode::SUCCESS);
        }
        ApiReply { data: ClaimResult::Ticket(ticket), .. } => {
            undo.arm(ticket_path(&target, &ticket));
            wait_in_queue(client, &target, *ticket).inspect_err(|_| undo.release_now())?
        }
    };
    let place = target.environment(&session.data.env_name);
    if let Some(token) = session_token {
        // The session of a granted ticket is loaded separately, without the token.
        session.raw["sessionToken"] = token.clone().into();
        session.data.session_token = Some(token);
    }
    undo.arm(place.session_path(&session.data.session_id));
    if args.command.is_empty() {
        undo.disarm(keep_note(&place));
        return report_session(client, out, &place, &session, args.detach);
    }
    exec::run_command(client, &place, &session.data, &undo, &args.command, args.keep_on_failure)
}

/// What an interrupt means while the first deployment of the session is watched.
fn keep_note(place: &EnvironmentRef) -> String {
    let EnvironmentRef { pipeline, name } = place;
    format!(
        "You still hold {name}, and its deployment continues. Watch it with `berth status {pipeline} --watch`, release \
         {name} with `berth env release {pipeline}/{name}`."
    )
}

fn parse_lease_seconds(text: &str) -> Result<i64, String> {
    let seconds = parse_seconds(text)?;
    if (LEASE_S_MIN..=LEASE_S_MAX).contains(&seconds) {
        return Ok(seconds);
    }
    Err(format!("must be from {} to {}", format_duration(LEASE_S_MIN), format_duration(LEASE_S_MAX)))
}

fn post_claim(
    client: &ApiClient,
    target: &ClaimTarget,
    body: SessionNew,
) -> anyhow::Result<ApiReply<ClaimResult>> {
    let label = match target {
        ClaimTarget::Named(place) => return client.post(&format!("{}/sessions", place.path()), &body),
        ClaimTarget::Any { label, .. } => label.clone(),
    };
    let body = AnySessionNew {
        label,
        commit_id: body.commit_id,
        context: body.context,
        contact: body.contact,
        ttl_seconds: body.ttl_seconds,
        lease_seconds: body.lease_seconds,
        deploy: body.deploy,
        queue: body.queue,
        wait_seconds: body.wait_seconds,
    };
    client.post(&format!("/pipelines/{}/claim-any", percent_encode(target.pipeline())), &body)
}

/// Waits in the queue until the ticket is granted.
fn wait_in_queue(
    client: &ApiClient,
    target: &ClaimTarget,
    mut ticket: WireTicket,
) -> anyhow::Result<ApiReply<WireSession>> {
    let path = ticket_path(target, &ticket);
    let mut live = LiveDisplay::new();
    let mut etag = String::new();
    while ticket.status == TicketStatus::Waiting {
        live.show(&queue_status(&target.to_string(), &ticket));
        match client.get_if_changed::<WireTicket>(&path, &etag) {
            Ok(Some(news)) => (etag, ticket) = (news.etag.unwrap_or_default(), news.data),
            Ok(None) => {}
            // Keep waiting: the ticket survives a server restart.
            Err(error) if ClientError::is_transient_error(&error) => std::thread::sleep(RETRY_INTERVAL),
            Err(error) => return Err(error),
        }
    }
    live.clear();
    match (ticket.status, ticket.session_id) {
        // A ticket for any environment with a label may have been granted in another environment than it was for.
        (TicketStatus::Granted, Some(session)) => {
            client.get(&target.environment(&ticket.env_name).session_path(&session))
        }
        (TicketStatus::Expired, _) => {
            anyhow::bail!("timed out waiting in the queue for {target}; wait longer with --wait")
        }
        (_, _) => {
            let cause = ticket.cause.map_or_else(String::new, |cause| format!(": {cause}"));
            anyhow::bail!("the queue ticket for {target} was cancelled{cause}")
        }
    }
}

fn ticket_path(target: &ClaimTarget, ticket: &WireTicket) -> String {
    format!("{}/queue/{}", target.environment(&ticket.env_name).path(), ticket.ticket_id)
}

fn queue_status(target: &str, ticket: &WireTicket) -> String {
    let position =
        ticket.position.map_or_else(String::new, |position| format!(", position {position} in the queue"));
    let eta = ticket.eta_seconds.map_or_else(String::new, |eta| match ticket.eta_basis {
        Some(EtaBasis::Expiry) => format!(", in at most {}", format_duration(eta)),
        _ => format!(", in about {}", format_duration(eta)),
    });
    let takeover = ticket
        .takeover_at
        .as_ref()
        .map_or_else(String::new, |at| format!(", takeover {}", format_time_left(at)));
    format!("waiting for {target}{position}{eta}{takeover} ({})", ticket.ticket_id)
}

/// Prints the session and watches its first deployment.
fn report_session(
    client: &ApiClient,
    out: &CommandOutput,
    place: &EnvironmentRef,
    session: &ApiReply<WireSession>,
    detach: bool,
) -> anyhow::Result<ExitCode> {
    out.print_reply(&session.raw, || {
        let until = session.data.expires_at.as_ref().map_or_else(
            || "until you release it".to_owned(),
            |at| format!("until {} ({})", format_clock(at), format_time_left(at)),
        );
        let lease = session.data.lease_seconds.map_or_else(String::new, |seconds| {
            let every = format_duration(seconds / 3);
            format!("Send a heartbeat every {every}: berth env heartbeat {}/{}\n", place.pipeline, place.name)
        });
        let token = session
            .data
            .session_token
            .as_ref()
            .map_or_else(String::new, |token| format!("Session token, shown only once: {token}\n"));
        format!(
            "Claimed {} {until}, fence {}.\n{lease}{token}{}",
            place.name,
            session.data.fence,
            place.dashboard_page(client)
        )
    })?;
    let EnvironmentRef { pipeline, name } = place;
    out.print_hint(&format!(
        "Deploy to it: berth env deploy {pipeline}/{name} COMMIT    Release it: berth env release {pipeline}/{name}"
    ));
    let first = session.data.deployment_history.first().map(|it| it.id.clone());
    match session.data.deployment_id.clone().or(first) {
        Some(id) if !detach && !out.json => watch::follow_to_end(client, out, &id),
        _ => Ok(ExitCode::SUCCESS),
    }
}

pub(super) fn take_over(
    client: &ApiClient,
    out: &CommandOutput,
    args: &TakeOverArgs,
) -> anyhow::Result<ExitCode> {
    let place = args.named.resolve(client)?;
    let seen = place.load(client)?;
    // Scripts are not asked: naming this command is explicit enough.
    if let Some(lock) = &seen.data.lock
        && !args.yes
        && confirm::is_interactive()
        && !confirm::ask(&format!(
            "{}. Take it over and stop their running deployment?",
            describe_holder(&place.name, lock)
        ))?
    {
        return Ok(ExitCode::from(exit_code::INTERRUPTED));
    }
    let body = ForceClaim {
        commit_id: args.commit.as_deref().map(resolve_commit).transpose()?,
        context: args.why.clone(),
        contact: args.contact.clone(),
        reason: args.why.clone(),
        ttl_seconds: args.ttl,
        lease_seconds: None,
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
    let taken = client.post_if::<ClaimResult>(&format!("{}/force-claim", place.path()), &body, etag)?;
    // Other jobs with the token of a script may be in the queue.
    if confirm::is_interactive() {
        leave_queue(client, &place, &taken.data);
    }
    match taken {
        ApiReply { data: ClaimResult::Session(session), raw, .. } => {
            watch::note_on_interrupt(keep_note(&place))?;
            report_session(client, out, &place, &ApiReply { data: *session, raw, etag: None }, false)
        }
        ApiReply { data: ClaimResult::Ticket(ticket), raw, .. } => {
            out.print_reply(&raw, || queue_status(&place.name, &ticket))?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

/// Leaves the queue with the tickets that the member got before the takeover. A ticket of a claim for any of several
/// environments stays, because it may be granted elsewhere.
fn leave_queue(client: &ApiClient, place: &EnvironmentRef, taken: &ClaimResult) {
    let (member, takeover) = match taken {
        ClaimResult::Session(session) => (&session.holder.id, None),
        ClaimResult::Ticket(ticket) => (&ticket.holder.id, Some(&ticket.ticket_id)),
    };
    let path = format!("{}/queue", place.path());
    let queue = client.get::<Vec<WireTicket>>(&path).map(|found| found.data).unwrap_or_default();
    let is_earlier = |it: &&WireTicket| {
        it.holder.id == *member && it.group_id.is_none() && Some(&it.ticket_id) != takeover
    };
    for WireTicket { ticket_id, .. } in queue.iter().filter(is_earlier) {
        // The environment has been taken over, so a ticket that remains is no failure of the command.
        match client.delete::<WireTicket>(&format!("{path}/{}", percent_encode(ticket_id))) {
            Ok(_) => print_note(&format!("Left the queue for {}.", place.name)),
            Err(_) => print_note(&format!(
                "You are still in the queue for {0}; leave it with `berth env queue {0} --leave {ticket_id}`.",
                place.name
            )),
        }
    }
}

/// Adds advice to the error that the environment is held by another member.
fn add_lock_hint(error: anyhow::Error, target: &ClaimTarget) -> anyhow::Error {
    match error.downcast::<ClientError>() {
        Ok(failure) if failure.code() == Some("environment_locked") => {
            let ClaimTarget::Named(EnvironmentRef { pipeline, name }) = target else {
                return failure.with_hint("Wait in the queue with --queue".to_owned()).into();
            };
            let name = format!("{pipeline}/{name}");
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
