//! `berth deploy`, `berth status` and `berth deployment`.

use std::collections::{BTreeMap, BTreeSet};
use std::process::ExitCode;

use berth_api::deployment::{
    DeploymentBypassNew, DeploymentNew, StageRetry, StageRollback, StepResolution, WireDeployment,
};
use berth_api::pipeline::ReasonBody;
use clap_complete::ArgValueCandidates;
use serde_json::Value;

use super::artifacts::{self, DownloadArgs};
use super::commit::resolve_commit;
use super::reference::{resolve_deployment_id, resolve_exact_deployment};
use super::soak;
use super::watch;
use crate::client::{ApiClient, ApiReply, ClientError, RemoteArgs, percent_encode};
use crate::complete;
use crate::output::time::{format_ago, format_elapsed};
use crate::output::{CommandOutput, commit_title, or_dash, strip_control_chars, wire_word};

#[derive(clap::Args)]
pub(crate) struct DeployArgs {
    #[command(flatten)]
    remote: RemoteArgs,
    /// Pipeline slug or id
    #[arg(env = "BERTH_PIPELINE", add = ArgValueCandidates::new(complete::pipelines))]
    pipeline: String,
    /// Commit; HEAD is resolved in your local git repository [default: head of the tracked branch]
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
pub(crate) struct StatusArgs {
    #[command(flatten)]
    remote: RemoteArgs,
    /// Deployment (id or PIPELINE#NUMBER), or a pipeline for its latest deployment
    #[arg(add = ArgValueCandidates::new(complete::deployments_or_pipelines))]
    which: String,
    /// Watch until it finishes; the exit code is 1 if it does not succeed
    #[arg(long, short)]
    watch: bool,
}

#[derive(clap::Args)]
pub(crate) struct DeploymentArgs {
    #[command(flatten)]
    remote: RemoteArgs,
    #[command(subcommand)]
    command: DeploymentCommand,
}

#[derive(clap::Subcommand)]
enum DeploymentCommand {
    /// List deployments, newest first
    List {
        /// Only deployments of this pipeline
        #[arg(long, short, env = "BERTH_PIPELINE", add = ArgValueCandidates::new(complete::pipelines))]
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
        /// Deployment: id, PIPELINE#NUMBER or PIPELINE/ENVIRONMENT#NUMBER
        #[arg(value_name = "DEPLOYMENT", add = ArgValueCandidates::new(complete::deployments))]
        id: String,
    },
    /// Cancel a deployment or one of its stages
    Cancel {
        /// Deployment: id, PIPELINE#NUMBER or PIPELINE/ENVIRONMENT#NUMBER
        #[arg(value_name = "DEPLOYMENT", add = ArgValueCandidates::new(complete::deployments))]
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
        /// Deployment: id, PIPELINE#NUMBER or PIPELINE/ENVIRONMENT#NUMBER
        #[arg(value_name = "DEPLOYMENT", add = ArgValueCandidates::new(complete::deployments))]
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
        /// Deployment to replace: id or PIPELINE#NUMBER
        #[arg(value_name = "DEPLOYMENT", add = ArgValueCandidates::new(complete::deployments))]
        id: String,
        /// Stage to roll back
        stage: String,
        /// Deployment to roll back to [default: the last successful one]
        #[arg(long, value_name = "DEPLOYMENT", add = ArgValueCandidates::new(complete::deployments))]
        to: Option<String>,
        /// Reason, shown with the deployment
        #[arg(long, short = 'm')]
        why: Option<String>,
        /// Do not wait for the deployment to finish
        #[arg(long)]
        detach: bool,
    },
    /// List the artifacts of a deployment
    Artifacts {
        /// Deployment: id, PIPELINE#NUMBER or PIPELINE/ENVIRONMENT#NUMBER
        #[arg(value_name = "DEPLOYMENT", add = ArgValueCandidates::new(complete::deployments))]
        id: String,
    },
    /// Download an artifact as a .tar.zst archive
    Download(DownloadArgs),
    /// End a soak early; the deployment continues
    EndSoak {
        /// Deployment: id, PIPELINE#NUMBER or PIPELINE/ENVIRONMENT#NUMBER
        #[arg(value_name = "DEPLOYMENT", add = ArgValueCandidates::new(complete::deployments))]
        id: String,
        /// Step id or name [default: the step that soaks]
        step: Option<String>,
        /// Reason, recorded in the audit log
        #[arg(long, short = 'm')]
        why: Option<String>,
    },
    /// Reject a soak: the step fails
    RejectSoak {
        /// Deployment: id, PIPELINE#NUMBER or PIPELINE/ENVIRONMENT#NUMBER
        #[arg(value_name = "DEPLOYMENT", add = ArgValueCandidates::new(complete::deployments))]
        id: String,
        /// Step id or name [default: the step that soaks]
        step: Option<String>,
        /// Reason, recorded in the audit log
        #[arg(long, short = 'm')]
        why: Option<String>,
    },
    /// Resolve a step whose outcome is unknown
    Resolve {
        /// Deployment: id, PIPELINE#NUMBER or PIPELINE/ENVIRONMENT#NUMBER
        #[arg(value_name = "DEPLOYMENT", add = ArgValueCandidates::new(complete::deployments))]
        id: String,
        /// Step id (stp_…)
        step: String,
        /// Outcome of the step
        outcome: ResolveOutcome,
    },
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum ResolveOutcome {
    /// The step took effect; continue
    Ran,
    /// Run the step again
    Retry,
    /// The step failed
    Fail,
}

pub(crate) fn run_deploy(args: &DeployArgs) -> anyhow::Result<ExitCode> {
    let client = args.remote.client()?;
    let out = args.remote.output();
    let body = DeploymentNew {
        commit_id: args.commit.as_deref().map(resolve_commit).transpose()?,
        reference: args.reference.clone(),
        reason: args.why.clone(),
        bypass: args.bypass.clone().map(|reason| DeploymentBypassNew { reason }),
    };
    let started = client.post::<WireDeployment>(
        &format!("/pipelines/{}/deployments", percent_encode(&args.pipeline)),
        &body,
    )?;
    print_or_watch(&client, &out, &started, args.detach)
}

fn print_or_watch(
    client: &ApiClient,
    out: &CommandOutput,
    started: &ApiReply<WireDeployment>,
    detach: bool,
) -> anyhow::Result<ExitCode> {
    if detach {
        out.print_reply(&started.raw, || watch::summary_line(client, &started.data))?;
        return Ok(ExitCode::SUCCESS);
    }
    watch::watch_to_end(client, out, &started.data.id)
}

pub(crate) fn run_status(args: &StatusArgs) -> anyhow::Result<ExitCode> {
    let client = args.remote.client()?;
    let out = args.remote.output();
    let id = resolve_deployment_id(&client, &args.which)?;
    if args.watch {
        watch::watch_to_end(&client, &out, &id)
    } else {
        watch::print_deployment(&client, &out, &id)
    }
}

pub(crate) fn run(args: &DeploymentArgs) -> anyhow::Result<ExitCode> {
    let client = args.remote.client()?;
    let out = args.remote.output();
    match &args.command {
        DeploymentCommand::List { pipeline, status, limit } => {
            return list_deployments(
                &client,
                &out,
                pipeline.as_deref(),
                status.as_deref(),
                usize::from(*limit),
            );
        }
        DeploymentCommand::Show { id } => {
            return watch::print_deployment(&client, &out, &resolve_exact_deployment(&client, id)?);
        }
        DeploymentCommand::Cancel { id, stage, why } => {
            let id = &resolve_exact_deployment(&client, id)?;
            let of =
                stage.as_ref().map_or_else(String::new, |stage| format!("/stages/{}", percent_encode(stage)));
            post_change(&client, &out, id, &format!("{of}/cancel"), &ReasonBody { reason: why.clone() })
        }
        DeploymentCommand::Retry { id, stage, from_start } => {
            let id = &resolve_exact_deployment(&client, id)?;
            let stage = match stage {
                Some(stage) => stage.clone(),
                None => find_failed_stage(&client, id)?,
            };
            let from = from_start.then(|| "start".to_owned());
            post_change(
                &client,
                &out,
                id,
                &format!("/stages/{}/retry", percent_encode(&stage)),
                &StageRetry { from },
            )
        }
        DeploymentCommand::Rollback { id, stage, to, why, detach } => {
            let id = &resolve_exact_deployment(&client, id)?;
            let to = to.as_ref().map(|to| resolve_exact_deployment(&client, to)).transpose()?;
            let body = StageRollback { to, reason: why.clone() };
            let path = format!("{}/stages/{}/rollback", watch::deployment_path(id), percent_encode(stage));
            return print_or_watch(&client, &out, &client.post(&path, &body)?, *detach);
        }
        DeploymentCommand::Artifacts { id } => {
            artifacts::list_artifacts(&client, &out, &resolve_exact_deployment(&client, id)?)
        }
        DeploymentCommand::Download(args) => artifacts::download(&client, args),
        DeploymentCommand::EndSoak { id, step, why } => {
            let id = &resolve_exact_deployment(&client, id)?;
            let step = soak::find_soak(&client, id, step.as_deref())?;
            let what = format!("/steps/{}/end-soak", percent_encode(&step));
            post_change(&client, &out, id, &what, &ReasonBody { reason: why.clone() })
        }
        DeploymentCommand::RejectSoak { id, step, why } => {
            let id = &resolve_exact_deployment(&client, id)?;
            let step = soak::find_soak(&client, id, step.as_deref())?;
            let what = format!("/steps/{}/reject-soak", percent_encode(&step));
            post_change(&client, &out, id, &what, &ReasonBody { reason: why.clone() })
        }
        DeploymentCommand::Resolve { id, step, outcome } => {
            let id = &resolve_exact_deployment(&client, id)?;
            let outcome = match outcome {
                ResolveOutcome::Ran => "ran",
                ResolveOutcome::Retry => "retry",
                ResolveOutcome::Fail => "fail",
            };
            let body = StepResolution { outcome: outcome.to_owned() };
            post_change(&client, &out, id, &format!("/steps/{}/resolve", percent_encode(step)), &body)
        }
    }?;
    Ok(ExitCode::SUCCESS)
}

fn post_change(
    client: &ApiClient,
    out: &CommandOutput,
    id: &str,
    what: &str,
    body: &impl serde::Serialize,
) -> anyhow::Result<()> {
    let changed = client.post::<WireDeployment>(&format!("{}{what}", watch::deployment_path(id)), body)?;
    out.print_reply(&changed.raw, || watch::summary_line(client, &changed.data))
}

fn find_failed_stage(client: &ApiClient, id: &str) -> anyhow::Result<String> {
    let found: WireDeployment = client.get(&watch::deployment_path(id))?.data;
    let failed = found.stages.into_iter().find(|it| it.status == berth_api::deployment::StageStatus::Failed);
    Ok(failed
        .ok_or_else(|| {
            ClientError::Usage("no stage of this deployment failed; choose one with --stage".into())
        })?
        .name)
}

/// Loads the slugs of the deployments' pipelines, by pipeline id. Deleted pipelines are missing from the map.
fn load_pipeline_slugs(client: &ApiClient, of: &[WireDeployment]) -> BTreeMap<String, String> {
    let ids: BTreeSet<&str> = of.iter().map(|it| it.pipeline_id.as_str()).collect();
    ids.into_iter().filter_map(|id| Some((id.to_owned(), watch::load_pipeline_slug(client, id)?))).collect()
}

fn list_deployments(
    client: &ApiClient,
    out: &CommandOutput,
    pipeline: Option<&str>,
    status: Option<&str>,
    count: usize,
) -> anyhow::Result<ExitCode> {
    let of = pipeline.map_or_else(String::new, |it| format!("/pipelines/{}", percent_encode(it)));
    let filter = status.map_or_else(String::new, |it| format!("?status={}", percent_encode(it)));
    let found = client.list::<WireDeployment>(&format!("{of}/deployments{filter}"), count)?;
    let slugs = if out.json { BTreeMap::new() } else { load_pipeline_slugs(client, &found.data) };
    let name = |it: &WireDeployment| watch::display_name(slugs.get(&it.pipeline_id).map(String::as_str), it);
    let by = |it: &WireDeployment| strip_control_chars(&it.actor.name);
    let took = |it: &WireDeployment| {
        or_dash(format_elapsed(it.started_at.as_deref(), it.finished_at.as_deref()).as_deref())
    };
    if out.is_terminal {
        // A narrow terminal drops the id first, because the first column also names the deployment, then the last columns.
        let row = |(it, raw): (&WireDeployment, &Value)| {
            let commit = commit_title(raw, &it.commit_id);
            let created = format_ago(&it.created_at);
            vec![name(it), wire_word(it.status), commit, created, by(it), took(it), it.id.clone()]
        };
        let raws = found.raw["data"].as_array().into_iter().flatten();
        let rows: Vec<_> = found.data.iter().zip(raws).map(row).collect();
        let heading = ["deployment", "status", "commit", "created", "by", "duration", "deployment id"];
        let empty = "No deployments. Start one with `berth deploy PIPELINE`.";
        out.print_table(&found.raw, &heading, &rows, empty)?;
    } else {
        let row = |it: &WireDeployment| {
            let commit = strip_control_chars(&it.commit_id);
            let created = format_ago(&it.created_at);
            vec![name(it), wire_word(it.status), commit, by(it), created, took(it), it.id.clone()]
        };
        let rows: Vec<_> = found.data.iter().map(row).collect();
        out.print_table(&found.raw, &[], &rows, "")?;
    }
    Ok(ExitCode::SUCCESS)
}
