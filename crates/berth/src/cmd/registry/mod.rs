//! `berth registry`: develops custom steps and manages registries on a server.

mod copy;
mod hints;
mod interrupt;
mod progress;
mod remote;
mod scaffold;
mod test;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;

use berth_core::pipeline::seconds::DurationSeconds;
use berth_core::registry::RegistryName;
use serde_json::{Map, Value};

use crate::client::RemoteArgs;
use crate::config::SandboxLevel;

#[derive(clap::Args)]
pub(crate) struct RegistryArgs {
    #[command(flatten)]
    remote: RemoteArgs,
    #[command(subcommand)]
    command: RegistryCommand,
}

#[derive(clap::Subcommand)]
enum RegistryCommand {
    /// Create a directory with a working example registry
    New {
        /// Name of the directory and the registry
        #[arg(value_parser = parse_name)]
        name: RegistryName,
        /// Programming language
        #[arg(long, value_enum, default_value_t = ScaffoldLanguage::Typescript)]
        lang: ScaffoldLanguage,
    },
    /// Build a registry locally and call its steps, without a server
    Test(RegistryTestArgs),
    /// List registries
    List,
    /// Register a registry; its steps are built and can be used in pipelines
    Add {
        /// Name, used before the slash in definitions
        #[arg(value_parser = parse_name)]
        name: RegistryName,
        /// URL of the git repository
        url: String,
        /// Branch, tag or commit [default: the default branch]
        #[arg(long = "ref", value_name = "REF")]
        reference: Option<String>,
        /// Name of the secret with the repository's credential
        #[arg(long)]
        credential: Option<String>,
    },
    /// Fetch the repository and build new commits
    Sync {
        /// Registry name or id
        registry: String,
    },
    /// Remove a registry
    Rm {
        /// Registry name or id
        registry: String,
        /// Remove it even if pipelines use its steps
        #[arg(long)]
        force: bool,
    },
}

#[derive(Clone, Copy, clap::ValueEnum)]
pub(crate) enum ScaffoldLanguage {
    Typescript,
    Shell,
}

#[derive(clap::Args)]
pub(crate) struct RegistryTestArgs {
    /// Directory of the registry
    #[arg(default_value = ".")]
    dir: PathBuf,
    /// Step to call
    #[arg(long, value_name = "TYPE")]
    step: Option<String>,
    /// Params of the step: a JSON object, or @FILE
    #[arg(long, value_name = "JSON|@FILE", requires = "step", value_parser = parse_params)]
    params: Option<StepParams>,
    /// Approve when the step asks for it
    #[arg(long, requires = "step")]
    approve: bool,
    /// Environment variable for the step; can be repeated
    #[arg(long, value_name = "NAME=VALUE", requires = "step", value_parser = parse_variable)]
    env: Vec<(String, String)>,
    /// Timeout for the step, including all its calls
    #[arg(long, value_name = "DURATION", default_value = "10m", value_parser = parse_duration)]
    timeout: DurationSeconds,
    /// Sandbox for the registry
    #[arg(long, value_name = "LEVEL", default_value = "auto")]
    sandbox: SandboxLevel,
}

#[derive(Clone)]
pub(crate) struct StepParams(Map<String, Value>);

pub(crate) fn run(args: &RegistryArgs) -> anyhow::Result<ExitCode> {
    match &args.command {
        RegistryCommand::New { name, lang } => return scaffold::run(name, *lang),
        RegistryCommand::Test(args) => return test::run(args),
        _ => {}
    }
    let client = args.remote.client()?;
    let out = args.remote.output();
    match &args.command {
        RegistryCommand::New { .. } | RegistryCommand::Test(_) => Ok(()),
        RegistryCommand::List => remote::list_registries(&client, &out),
        RegistryCommand::Add { name, url, reference, credential } => {
            remote::add_registry(&client, &out, name.as_str(), url, reference.clone(), credential.clone())
        }
        RegistryCommand::Sync { registry } => remote::sync_registry(&client, &out, registry),
        RegistryCommand::Rm { registry, force } => remote::remove_registry(&client, &out, registry, *force),
    }?;
    Ok(ExitCode::SUCCESS)
}

impl RegistryTestArgs {
    fn variables(&self) -> BTreeMap<String, String> {
        self.env.iter().cloned().collect()
    }
}

fn parse_name(text: &str) -> Result<RegistryName, String> {
    RegistryName::parse(text).map_err(|error| error.to_string())
}

fn parse_duration(text: &str) -> Result<DurationSeconds, String> {
    DurationSeconds::parse(text).map_err(|error| error.to_string())
}

fn parse_params(text: &str) -> Result<StepParams, String> {
    let text = match text.strip_prefix('@') {
        Some(file) => {
            std::fs::read_to_string(file).map_err(|error| format!("cannot read {file}: {error}"))?
        }
        None => text.to_owned(),
    };
    match serde_json::from_str(&text) {
        Ok(Value::Object(params)) => Ok(StepParams(params)),
        Ok(_) => Err("params must be a JSON object, for example '{\"who\": \"world\"}'".into()),
        Err(error) => Err(format!("invalid JSON: {error}")),
    }
}

fn parse_variable(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("expected NAME=VALUE".into()),
    }
}
