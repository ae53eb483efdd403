//! `berth pipeline`: local definitions, and pipelines on a server.

pub(super) mod local;
mod plan_text;
mod remote;

use std::path::PathBuf;
use std::process::ExitCode;

use berth_core::name::{CommitId, EnvName};
use berth_server::app::PlanFacts;
use clap_complete::ArgValueCandidates;

use crate::client::RemoteArgs;
use crate::complete;

#[derive(clap::Args)]
pub(crate) struct PipelineArgs {
    #[command(flatten)]
    remote: RemoteArgs,
    #[command(subcommand)]
    command: PipelineCommand,
}

#[derive(clap::Subcommand)]
enum PipelineCommand {
    /// Validate a definition locally
    Validate {
        /// Definition file, for example .berth/shop/pipeline.yaml
        file: PathBuf,
    },
    /// Show the steps a definition would run, locally
    Plan {
        /// Definition file, for example .berth/shop/pipeline.yaml
        file: PathBuf,
        /// Plan for this environment [default: all stages]
        #[arg(long, value_name = "NAME", value_parser = local::parse_environment)]
        environment: Option<EnvName>,
        /// Commit to plan for
        #[arg(long, value_name = "ID", value_parser = local::parse_commit)]
        commit: Option<CommitId>,
    },
    /// Print the JSON Schema of definitions, for editors
    Schema,
    /// List pipelines with their deployed commits
    List {
        /// Part of a slug or name
        search: Option<String>,
    },
    /// Show a pipeline, its environments and the commits deployed in its stages
    Show {
        /// Pipeline slug or id
        #[arg(add = ArgValueCandidates::new(complete::pipelines))]
        pipeline: String,
    },
    /// Create or update a pipeline from a definition
    Apply {
        /// Definition file, for example .berth/shop/pipeline.yaml
        file: PathBuf,
        /// Slug [default: the name of the file's directory in .berth, otherwise of the file]
        #[arg(long)]
        slug: Option<String>,
    },
    /// Pause new deployments; running steps finish
    Stop {
        /// Pipeline slug or id
        #[arg(add = ArgValueCandidates::new(complete::pipelines))]
        pipeline: String,
        /// Reason, shown with the pipeline
        #[arg(long, short = 'm')]
        why: Option<String>,
    },
    /// Resume paused deployments
    Resume {
        /// Pipeline slug or id
        #[arg(add = ArgValueCandidates::new(complete::pipelines))]
        pipeline: String,
        /// Reason, shown with the pipeline
        #[arg(long, short = 'm')]
        why: Option<String>,
    },
    /// Remove a pipeline; its events are kept
    Rm {
        /// Pipeline slug or id
        #[arg(add = ArgValueCandidates::new(complete::pipelines))]
        pipeline: String,
        /// Remove it even if its environments are held
        #[arg(long)]
        force: bool,
    },
}

pub(crate) fn run(args: &PipelineArgs) -> anyhow::Result<ExitCode> {
    let out = args.remote.output();
    match &args.command {
        PipelineCommand::Validate { file } => return local::validate(file, &out),
        PipelineCommand::Plan { file, environment, commit } => {
            let known = PlanFacts { commit: commit.clone(), ..PlanFacts::default() };
            return local::print_plan(file, environment.as_ref(), known, &out);
        }
        PipelineCommand::Schema => return local::print_schema(),
        _ => {}
    }
    let client = args.remote.client()?;
    match &args.command {
        PipelineCommand::Validate { .. } | PipelineCommand::Plan { .. } | PipelineCommand::Schema => Ok(()),
        PipelineCommand::List { search } => remote::list_pipelines(&client, &out, search.as_deref()),
        PipelineCommand::Show { pipeline } => remote::print_pipeline(&client, &out, pipeline),
        PipelineCommand::Apply { file, slug } => {
            return remote::apply_definition(&client, &out, file, slug.as_deref());
        }
        PipelineCommand::Stop { pipeline, why } => {
            remote::post_change(&client, &out, pipeline, "stop", why.clone())
        }
        PipelineCommand::Resume { pipeline, why } => {
            remote::post_change(&client, &out, pipeline, "resume", why.clone())
        }
        PipelineCommand::Rm { pipeline, force } => remote::remove_pipeline(&client, &out, pipeline, *force),
    }?;
    Ok(ExitCode::SUCCESS)
}
