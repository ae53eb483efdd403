//! Commands for the holder of an environment: deploy, extend, hand over, release, leave the queue.

use std::process::ExitCode;

use berth_api::deployment::Deployment;
use berth_api::session::{DeployNew, Extend, HandOver, OnConflict, OverrideDrain, Session, Ticket};

use super::target::{Named, Place};
use crate::client::{Client, escaped};
use crate::cmd::commit::commit_id;
use crate::cmd::watch;
use crate::output::time::{ahead, clock};
use crate::output::{Output, harmless, word};

#[derive(clap::Args)]
pub(super) struct Deploy {
    #[command(flatten)]
    named: Named,
    /// Commit, branch or tag; HEAD is the one of your git repository
    commit: String,
    /// Reason, shown with the deployment
    #[arg(long, short = 'm')]
    why: Option<String>,
    /// What to do if earlier deployments have not finished
    #[arg(long, value_enum, default_value = "queue")]
    on_conflict: Conflict,
    /// Do not wait for deployments of previous sessions to stop; the reason is recorded
    #[arg(long, value_name = "REASON")]
    override_drain: Option<String>,
    /// Do not wait for the deployment to finish
    #[arg(long)]
    detach: bool,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Conflict {
    /// Start after them
    Queue,
    /// Replace those that have not started
    Supersede,
    /// Fail
    Reject,
}

pub(super) fn deploy(client: &Client, out: &Output, args: &Deploy) -> anyhow::Result<ExitCode> {
    let place = args.named.find(client)?;
    let body = DeployNew {
        commit_id: commit_id(&args.commit)?,
        context: args.why.clone(),
        on_conflict: Some(match args.on_conflict {
            Conflict::Queue => OnConflict::Queue,
            Conflict::Supersede => OnConflict::Supersede,
            Conflict::Reject => OnConflict::Reject,
        }),
        override_drain: args.override_drain.clone().map(|reason| OverrideDrain { reason }),
    };
    let session = place.held(client)?;
    let started = client.post::<Deployment>(&format!("{}/deploy", place.session(&session)), &body)?;
    if args.detach {
        out.told(&started.raw, || watch::line(client, &started.data))?;
        return Ok(ExitCode::SUCCESS);
    }
    watch::to_the_end(client, out, &started.data.id)
}

pub(super) fn extend(
    client: &Client,
    out: &Output,
    place: &Place,
    ttl_seconds: Option<i64>,
) -> anyhow::Result<ExitCode> {
    let path = format!("{}/extend", place.session(&place.held(client)?));
    let session = client.post::<Session>(&path, &Extend { ttl_seconds })?;
    out.told(&session.raw, || match &session.data.expires_at {
        Some(at) => format!("Extended {} until {} ({}).", place.name, clock(at), ahead(at)),
        None => format!("Extended {} until you release it.", place.name),
    })?;
    Ok(ExitCode::SUCCESS)
}

pub(super) fn hand_over(client: &Client, out: &Output, place: &Place, to: &str) -> anyhow::Result<ExitCode> {
    let path = format!("{}/hand-over", place.session(&place.held(client)?));
    let session = client.post::<Session>(&path, &HandOver { to: to.to_owned() })?;
    out.told(&session.raw, || {
        format!(
            "Handed {} over to {}, fence {}.",
            place.name,
            harmless(&session.data.holder.name),
            session.data.fence
        )
    })?;
    Ok(ExitCode::SUCCESS)
}

pub(super) fn release(client: &Client, out: &Output, place: &Place) -> anyhow::Result<ExitCode> {
    let session = client.delete::<Session>(&place.session(&place.held(client)?))?;
    out.told(&session.raw, || match (session.data.released, &session.data.environment.lock) {
        (Some(true), None) => format!("Released {}.", place.name),
        (Some(true), Some(lock)) => {
            format!(
                "Released {}; {} was next in the queue and holds it now.",
                place.name,
                harmless(&lock.holder.name)
            )
        }
        _ => format!("The session had already ended: {}.", word(session.data.status)),
    })?;
    Ok(ExitCode::SUCCESS)
}

pub(super) fn leave(client: &Client, out: &Output, place: &Place, ticket: &str) -> anyhow::Result<ExitCode> {
    let left = client.delete::<Ticket>(&format!("{}/queue/{}", place.path(), escaped(ticket)))?;
    out.told(&left.raw, || {
        format!("Left the queue for {} (ticket {}).", place.name, word(left.data.status))
    })?;
    Ok(ExitCode::SUCCESS)
}
