//! `berth pipeline`: definitions on this machine, and pipelines on a server.

pub(super) mod local;
mod plan_text;
mod remote;

use std::path::PathBuf;
use std::process::ExitCode;

use berth_core::name::{CommitId, EnvName};
use berth_server::app::PlanFacts;

use crate::client::Remote;

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    remote: Remote,
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    /// Check a definition without a server: every error, where it is, and what to write instead
    Validate {
        /// The file, for example .berth/shop/pipeline.yaml
        file: PathBuf,
    },
    /// Show what a definition would do without a server: stages, steps, and what they are given
    Plan {
        /// The file, for example .berth/shop/pipeline.yaml
        file: PathBuf,
        /// One of its environments; through all stages when left out
        #[arg(long, value_name = "NAME", value_parser = local::environment)]
        environment: Option<EnvName>,
        /// What the plan is for
        #[arg(long, value_name = "ID", value_parser = local::commit)]
        commit: Option<CommitId>,
    },
    /// Print the JSON Schema of a definition, for editors
    Schema,
    /// What is where
    List {
        /// Part of a name
        search: Option<String>,
    },
    /// One pipeline: its stages, its environments, and what is deployed in them
    Show {
        /// Id or slug
        pipeline: String,
    },
    /// Make a pipeline of a definition, or give it a new one
    Apply {
        /// The file, for example .berth/shop/pipeline.yaml
        file: PathBuf,
        /// [default: the name of the file's directory below .berth, else of the file]
        #[arg(long)]
        slug: Option<String>,
    },
    /// Pause new deployments; what runs goes on to the end of its step
    Stop {
        /// Id or slug
        pipeline: String,
        #[arg(long, short = 'm')]
        why: Option<String>,
    },
    /// Let deployments go on
    Resume {
        /// Id or slug
        pipeline: String,
        #[arg(long, short = 'm')]
        why: Option<String>,
    },
    /// Remove a pipeline; its history stays
    Rm {
        /// Id or slug
        pipeline: String,
        /// Also while its environments are held
        #[arg(long)]
        force: bool,
    },
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let json = args.remote.json;
    match &args.command {
        Command::Validate { file } => return local::validate(file, json),
        Command::Plan { file, environment, commit } => {
            let known = PlanFacts { commit: commit.clone(), ..PlanFacts::default() };
            return local::plan(file, environment.as_ref(), known, json);
        }
        Command::Schema => return local::print_schema(),
        _ => {}
    }
    let client = args.remote.client()?;
    let out = args.remote.output();
    match &args.command {
        Command::Validate { .. } | Command::Plan { .. } | Command::Schema => Ok(()),
        Command::List { search } => remote::list(&client, &out, search.as_deref()),
        Command::Show { pipeline } => remote::show(&client, &out, pipeline),
        Command::Apply { file, slug } => return remote::apply(&client, &out, file, slug.as_deref()),
        Command::Stop { pipeline, why } => remote::change(&client, &out, pipeline, "stop", why.clone()),
        Command::Resume { pipeline, why } => remote::change(&client, &out, pipeline, "resume", why.clone()),
        Command::Rm { pipeline, force } => remote::remove(&client, &out, pipeline, *force),
    }?;
    Ok(ExitCode::SUCCESS)
}
