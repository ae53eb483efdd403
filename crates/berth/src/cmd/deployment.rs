//! `berth deploy`, `berth status` and `berth deployment`.

use std::collections::{BTreeMap, BTreeSet};
use std::process::ExitCode;

use berth_api::deployment::{BypassNew, Deployment, New, Resolve, Retry, RollbackNew};
use berth_api::pipeline::Because;

use super::commit::commit_id;
use super::watch;
use crate::client::{Client, Failure, Remote, Reply, escaped};
use crate::output::time::{ago, between};
use crate::output::{Output, harmless, or_dash, word};

#[derive(clap::Args)]
pub(crate) struct Deploy {
    #[command(flatten)]
    remote: Remote,
    /// Pipeline slug or id
    #[arg(env = "BERTH_PIPELINE")]
    pipeline: String,
    /// Commit; HEAD is the one of your git repository [default: head of the tracked branch]
    commit: Option<String>,
    /// Branch or tag to deploy instead of a commit
    #[arg(long = "ref", conflicts_with = "commit", value_name = "REF")]
    reference: Option<String>,
    /// Reason, shown with the deployment
    #[arg(long, short = 'm')]
    why: Option<String>,
    /// Skip deployment windows, approvals and pauses; the reason is recorded
    #[arg(long, value_name = "REASON")]
    bypass: Option<String>,
    /// Do not wait for the deployment to finish
    #[arg(long)]
    detach: bool,
}

#[derive(clap::Args)]
pub(crate) struct Status {
    #[command(flatten)]
    remote: Remote,
    /// Deployment id, or a pipeline for its latest deployment
    which: String,
    /// Watch until it finishes; the exit code is 1 if it does not succeed
    #[arg(long, short)]
    watch: bool,
}

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    remote: Remote,
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    /// List deployments, newest first
    List {
        /// Only deployments of this pipeline
        #[arg(long, short, env = "BERTH_PIPELINE")]
        pipeline: Option<String>,
        /// Only deployments with this status, for example running
        #[arg(long)]
        status: Option<String>,
        /// Maximum number of deployments
        #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u16).range(1..=2000))]
        limit: u16,
    },
    /// Show the stages and steps of a deployment and what it is waiting for
    Show {
        /// Deployment id
        id: String,
    },
    /// Cancel a deployment or one of its stages
    Cancel {
        /// Deployment id
        id: String,
        /// Cancel only this stage
        #[arg(long)]
        stage: Option<String>,
        /// Reason, shown with the deployment
        #[arg(long, short = 'm')]
        why: Option<String>,
    },
    /// Retry a failed stage
    Retry {
        /// Deployment id
        id: String,
        /// Stage to retry [default: the failed stage]
        #[arg(long)]
        stage: Option<String>,
        /// Also run steps again that succeeded
        #[arg(long)]
        from_start: bool,
    },
    /// Roll a stage back to an earlier deployment
    Rollback {
        /// Id of the deployment to replace
        id: String,
        /// Stage to roll back
        stage: String,
        /// Deployment to roll back to [default: the last successful one]
        #[arg(long, value_name = "ID")]
        to: Option<String>,
        /// Reason, shown with the deployment
        #[arg(long, short = 'm')]
        why: Option<String>,
        /// Do not wait for the deployment to finish
        #[arg(long)]
        detach: bool,
    },
    /// Resolve a step whose outcome is unknown
    Resolve {
        /// Deployment id
        id: String,
        /// Step id (stp_…)
        step: String,
        /// Outcome of the step
        outcome: Outcome,
    },
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Outcome {
    /// The step took effect; continue
    Ran,
    /// Run the step again
    Retry,
    /// The step failed
    Fail,
}

pub(crate) fn deploy(args: &Deploy) -> anyhow::Result<ExitCode> {
    let client = args.remote.client()?;
    let out = args.remote.output();
    let body = New {
        commit_id: args.commit.as_deref().map(commit_id).transpose()?,
        reference: args.reference.clone(),
        reason: args.why.clone(),
        bypass: args.bypass.clone().map(|reason| BypassNew { reason }),
    };
    let started =
        client.post::<Deployment>(&format!("/pipelines/{}/deployments", escaped(&args.pipeline)), &body)?;
    followed(&client, &out, &started, args.detach)
}

fn followed(
    client: &Client,
    out: &Output,
    started: &Reply<Deployment>,
    detach: bool,
) -> anyhow::Result<ExitCode> {
    if detach {
        out.told(&started.raw, || watch::line(client, &started.data))?;
        return Ok(ExitCode::SUCCESS);
    }
    watch::to_the_end(client, out, &started.data.id)
}

pub(crate) fn status(args: &Status) -> anyhow::Result<ExitCode> {
    let client = args.remote.client()?;
    let out = args.remote.output();
    let id = newest(&client, &args.which)?;
    if args.watch { watch::to_the_end(&client, &out, &id) } else { watch::show(&client, &out, &id) }
}

/// Returns a deployment id unchanged; for a pipeline, the id of its latest deployment.
pub(super) fn newest(client: &Client, which: &str) -> anyhow::Result<String> {
    if which.starts_with("dep_") {
        return Ok(which.to_owned());
    }
    let found: Vec<Deployment> = client.list(&format!("/pipelines/{}/deployments", escaped(which)), 1)?.data;
    let newest = found.into_iter().next();
    Ok(newest.ok_or_else(|| Failure::NotFound(format!("no deployments in {which} yet")))?.id)
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let client = args.remote.client()?;
    let out = args.remote.output();
    match &args.command {
        Command::List { pipeline, status, limit } => {
            return list(&client, &out, pipeline.as_deref(), status.as_deref(), usize::from(*limit));
        }
        Command::Show { id } => return watch::show(&client, &out, id),
        Command::Cancel { id, stage, why } => {
            let of = stage.as_ref().map_or_else(String::new, |stage| format!("/stages/{}", escaped(stage)));
            change(&client, &out, id, &format!("{of}/cancel"), &Because { reason: why.clone() })
        }
        Command::Retry { id, stage, from_start } => {
            let stage = match stage {
                Some(stage) => stage.clone(),
                None => failed_stage(&client, id)?,
            };
            let from = from_start.then(|| "start".to_owned());
            change(&client, &out, id, &format!("/stages/{}/retry", escaped(&stage)), &Retry { from })
        }
        Command::Rollback { id, stage, to, why, detach } => {
            let body = RollbackNew { to: to.clone(), reason: why.clone() };
            let path = format!("{}/stages/{}/rollback", watch::path(id), escaped(stage));
            return followed(&client, &out, &client.post(&path, &body)?, *detach);
        }
        Command::Resolve { id, step, outcome } => {
            let outcome = match outcome {
                Outcome::Ran => "ran",
                Outcome::Retry => "retry",
                Outcome::Fail => "fail",
            };
            let body = Resolve { outcome: outcome.to_owned() };
            change(&client, &out, id, &format!("/steps/{}/resolve", escaped(step)), &body)
        }
    }?;
    Ok(ExitCode::SUCCESS)
}

fn change(
    client: &Client,
    out: &Output,
    id: &str,
    what: &str,
    body: &impl serde::Serialize,
) -> anyhow::Result<()> {
    let changed = client.post::<Deployment>(&format!("{}{what}", watch::path(id)), body)?;
    out.told(&changed.raw, || watch::line(client, &changed.data))
}

fn failed_stage(client: &Client, id: &str) -> anyhow::Result<String> {
    let found: Deployment = client.get(&watch::path(id))?.data;
    let failed = found.stages.into_iter().find(|it| it.status == berth_api::deployment::StageStatus::Failed);
    Ok(failed
        .ok_or_else(|| {
            Failure::Unclear("no stage of this deployment failed; choose one with --stage".into())
        })?
        .name)
}

/// Loads pipeline slugs by id; deleted pipelines are left out.
fn slugs(client: &Client, of: &[Deployment]) -> BTreeMap<String, String> {
    let ids: BTreeSet<&str> = of.iter().map(|it| it.pipeline_id.as_str()).collect();
    ids.into_iter().filter_map(|id| Some((id.to_owned(), watch::slug(client, id)?))).collect()
}

fn list(
    client: &Client,
    out: &Output,
    pipeline: Option<&str>,
    status: Option<&str>,
    count: usize,
) -> anyhow::Result<ExitCode> {
    let of = pipeline.map_or_else(String::new, |it| format!("/pipelines/{}", escaped(it)));
    let filter = status.map_or_else(String::new, |it| format!("?status={}", escaped(it)));
    let found = client.list::<Deployment>(&format!("{of}/deployments{filter}"), count)?;
    let slugs = if out.json { BTreeMap::new() } else { slugs(client, &found.data) };
    let row = |it: &Deployment| {
        vec![
            watch::numbered(slugs.get(&it.pipeline_id).map(String::as_str), it),
            word(it.status),
            harmless(&it.commit_id),
            harmless(&it.actor.name),
            ago(&it.created_at),
            or_dash(between(it.started_at.as_deref(), it.finished_at.as_deref()).as_deref()),
            it.id.clone(),
        ]
    };
    let rows: Vec<_> = found.data.iter().map(row).collect();
    let heading = ["deployment", "status", "commit", "by", "created", "duration", "id"];
    out.table(&found.raw, &heading, &rows, "No deployments. Start one with `berth deploy PIPELINE`.")?;
    Ok(ExitCode::SUCCESS)
}
