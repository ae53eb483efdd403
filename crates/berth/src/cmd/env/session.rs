//! Commands for members who hold an environment or wait for one: deploy, extend, hand over, release, leave the queue.

use std::process::ExitCode;

use berth_api::auth::CurrentUser;
use berth_api::deployment::WireDeployment;
use berth_api::session::{
    DeployNew, ExtendRequest, HandOver, OnConflict, OverrideDrain, WireSession, WireTicket,
};

use super::confirm;
use super::target::{EnvironmentArgs, EnvironmentRef};
use super::view::{describe_holder, holder_label};
use crate::client::{ApiClient, ClientError, exit_code, percent_encode};
use crate::cmd::commit::resolve_commit;
use crate::cmd::watch;
use crate::output::time::{format_clock, format_time_left};
use crate::output::{CommandOutput, strip_control_chars, wire_word};

#[derive(clap::Args)]
pub(super) struct EnvDeployArgs {
    #[command(flatten)]
    named: EnvironmentArgs,
    /// Commit, branch or tag; HEAD is resolved in your local git repository
    commit: String,
    /// Reason, shown with the deployment
    #[arg(long, short = 'm')]
    why: Option<String>,
    /// What to do if earlier deployments have not finished
    #[arg(long, value_enum, default_value = "queue")]
    on_conflict: ConflictPolicy,
    /// Do not wait for deployments of previous sessions to stop; the reason is recorded
    #[arg(long, value_name = "REASON")]
    override_drain: Option<String>,
    /// Do not wait for the deployment to finish
    #[arg(long)]
    detach: bool,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum ConflictPolicy {
    /// Start after them
    Queue,
    /// Replace those that have not started
    Supersede,
    /// Fail
    Reject,
}

pub(super) fn deploy(
    client: &ApiClient,
    out: &CommandOutput,
    args: &EnvDeployArgs,
) -> anyhow::Result<ExitCode> {
    let place = args.named.resolve(client)?;
    let body = DeployNew {
        commit_id: resolve_commit(&args.commit)?,
        context: args.why.clone(),
        on_conflict: Some(match args.on_conflict {
            ConflictPolicy::Queue => OnConflict::Queue,
            ConflictPolicy::Supersede => OnConflict::Supersede,
            ConflictPolicy::Reject => OnConflict::Reject,
        }),
        override_drain: args.override_drain.clone().map(|reason| OverrideDrain { reason }),
    };
    let session = place.active_session_id(client)?;
    let started =
        client.post::<WireDeployment>(&format!("{}/deploy", place.session_path(&session)), &body)?;
    if args.detach {
        out.print_reply(&started.raw, || watch::summary_line(client, &started.data))?;
        return Ok(ExitCode::SUCCESS);
    }
    watch::watch_to_end(client, out, &started.data.id)
}

#[derive(clap::Args)]
pub(super) struct ReleaseArgs {
    #[command(flatten)]
    named: EnvironmentArgs,
    /// End the session of another member without asking
    #[arg(long, short)]
    yes: bool,
}

pub(super) fn extend(
    client: &ApiClient,
    out: &CommandOutput,
    place: &EnvironmentRef,
    ttl_seconds: Option<i64>,
) -> anyhow::Result<ExitCode> {
    let lock = place.active_lock(client)?;
    let path = format!("{}/extend", place.session_path(&lock.session_id));
    let session = client.post::<WireSession>(&path, &ExtendRequest { ttl_seconds })?;
    out.print_reply(&session.raw, || match &session.data.expires_at {
        Some(at) if lock.expires_at.as_ref() == Some(at) => format!(
            "You already hold {} until {} ({}), and extending never shortens a session.",
            place.name,
            format_clock(at),
            format_time_left(at)
        ),
        Some(at) => format!("Extended {} until {} ({}).", place.name, format_clock(at), format_time_left(at)),
        None => format!("Extended {} until you release it.", place.name),
    })?;
    Ok(ExitCode::SUCCESS)
}

pub(super) fn heartbeat(
    client: &ApiClient,
    out: &CommandOutput,
    place: &EnvironmentRef,
) -> anyhow::Result<ExitCode> {
    let path = format!("{}/heartbeat", place.session_path(&place.active_session_id(client)?));
    let session = client.post::<WireSession>(&path, &serde_json::json!({}))?;
    out.print_reply(&session.raw, || {
        let left = session.data.lease_expires_at.as_deref().map(format_time_left).unwrap_or_default();
        format!("Renewed the lease of {}: it ends {left} without another heartbeat.", place.name)
    })?;
    Ok(ExitCode::SUCCESS)
}

pub(super) fn hand_over(
    client: &ApiClient,
    out: &CommandOutput,
    place: &EnvironmentRef,
    to: &str,
) -> anyhow::Result<ExitCode> {
    let path = format!("{}/hand-over", place.session_path(&place.active_session_id(client)?));
    let session = client.post::<WireSession>(&path, &HandOver { to: to.to_owned() })?;
    out.print_reply(&session.raw, || {
        format!(
            "Handed {} over to {}, fence {}.",
            place.name,
            strip_control_chars(&session.data.holder.name),
            session.data.fence
        )
    })?;
    Ok(ExitCode::SUCCESS)
}

pub(super) fn release(
    client: &ApiClient,
    out: &CommandOutput,
    args: &ReleaseArgs,
) -> anyhow::Result<ExitCode> {
    let place = args.named.resolve(client)?;
    let lock = place.active_lock(client)?;
    let is_own = load_own_id(client)?.is_none_or(|id| id == lock.holder.id);
    if !is_own && !args.yes {
        let held = describe_holder(&place.name, &lock);
        if !confirm::is_interactive() {
            let hint = "pass --yes to end their session and cancel its deployments";
            return Err(ClientError::Usage(format!("{held}; {hint}")).into());
        }
        if !confirm::ask(&format!("{held}. End their session and cancel its deployments?"))? {
            return Ok(ExitCode::from(exit_code::INTERRUPTED));
        }
    }
    let session = client.delete::<WireSession>(&place.session_path(&lock.session_id))?;
    let of = if is_own {
        String::new()
    } else {
        format!(", held by {}", holder_label(&lock.holder, lock.contact.as_deref()))
    };
    out.print_reply(&session.raw, || match (session.data.released, &session.data.environment.lock) {
        (Some(true), None) => format!("Released {}{of}.", place.name),
        (Some(true), Some(lock)) => {
            format!(
                "Released {}{of}; {} was next in the queue and holds it now.",
                place.name,
                holder_label(&lock.holder, lock.contact.as_deref())
            )
        }
        _ => format!("The session had already ended: {}.", wire_word(session.data.status)),
    })?;
    Ok(ExitCode::SUCCESS)
}

/// Returns the caller's user id. `None` with a session token, which can read only its own session.
fn load_own_id(client: &ApiClient) -> anyhow::Result<Option<String>> {
    match client.get::<CurrentUser>("/api/v1/me") {
        Ok(me) => Ok(Some(me.data.user.id)),
        Err(error) => match error.downcast_ref::<ClientError>() {
            Some(refused) if refused.exit_code() == exit_code::NOT_ALLOWED => Ok(None),
            _ => Err(error),
        },
    }
}

/// Leaves the queue with this ticket; by default, with the caller's only one.
pub(super) fn leave_queue(
    client: &ApiClient,
    out: &CommandOutput,
    place: &EnvironmentRef,
    ticket: Option<&str>,
) -> anyhow::Result<ExitCode> {
    let ticket = match ticket {
        Some(ticket) => ticket.to_owned(),
        None => find_own_ticket(client, place)?,
    };
    let left = client.delete::<WireTicket>(&format!("{}/queue/{}", place.path(), percent_encode(&ticket)))?;
    out.print_reply(&left.raw, || {
        format!("Left the queue for {} (ticket {}).", place.name, wire_word(left.data.status))
    })?;
    Ok(ExitCode::SUCCESS)
}

/// Returns the caller's ticket. Several may belong to different jobs with the caller's token, so one must be named.
fn find_own_ticket(client: &ApiClient, place: &EnvironmentRef) -> anyhow::Result<String> {
    let own_id = load_own_id(client)?;
    let queue = client.get::<Vec<WireTicket>>(&format!("{}/queue", place.path()))?.data;
    let own: Vec<_> = queue.iter().filter(|it| own_id.as_ref() == Some(&it.holder.id)).collect();
    match own.as_slice() {
        [ticket] => Ok(ticket.ticket_id.clone()),
        [] => Err(ClientError::NotFound(format!("you are not in the queue for {}", place.name)).into()),
        several => {
            let ids: Vec<_> = several.iter().map(|it| it.ticket_id.as_str()).collect();
            let text = format!("you have several tickets for {}; name one: {}", place.name, ids.join(" or "));
            Err(ClientError::Usage(text).into())
        }
    }
}
