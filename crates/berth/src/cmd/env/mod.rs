//! `berth env`: shared environments, held by one session at a time.

mod claim;
mod confirm;
mod exec;
mod guard;
mod keep;
mod session;
mod target;
mod terminal;
mod view;

use std::process::ExitCode;

use clap_complete::ArgValueCandidates;

use crate::client::RemoteArgs;
use crate::complete;
use crate::output::time::parse_seconds;

#[derive(clap::Args)]
pub(crate) struct EnvArgs {
    #[command(flatten)]
    remote: RemoteArgs,
    #[command(subcommand)]
    command: EnvCommand,
}

#[derive(clap::Subcommand)]
enum EnvCommand {
    /// List environments with their holders
    List {
        /// Only environments of this pipeline
        #[arg(long, short, env = "BERTH_PIPELINE", add = ArgValueCandidates::new(complete::pipelines))]
        pipeline: Option<String>,
    },
    /// Show an environment, its holder and its queue length
    Show(target::EnvironmentArgs),
    /// Claim an environment; with -- COMMAND, only while the command runs
    ///
    /// With a command, the environment is claimed, the commit is deployed and then the command runs. Its session is
    /// renewed while it runs (with --lease: by heartbeats) and released when it ends. If the environment is taken over, the command is stopped.
    ///
    /// With --keep-on-failure, the session stays after a failed deployment or command, so that you can examine the
    /// environment. An interrupt or a termination signal always releases it.
    Claim(claim::ClaimArgs),
    /// Deploy a commit to an environment you hold
    Deploy(session::EnvDeployArgs),
    /// Extend your session
    Extend {
        #[command(flatten)]
        named: target::EnvironmentArgs,
        /// New time to live from now on, for example 2h [default: as claimed]
        #[arg(long, value_parser = parse_seconds)]
        ttl: Option<i64>,
    },
    /// Send a heartbeat for your session, which renews its lease
    Heartbeat(target::EnvironmentArgs),
    /// Hand your session over to another member
    HandOver {
        #[command(flatten)]
        named: target::EnvironmentArgs,
        /// Email address or id of a member
        #[arg(add = ArgValueCandidates::new(complete::members))]
        to: String,
    },
    /// Release an environment; the next in the queue gets it
    ///
    /// Releasing a session of another member ends it and cancels its deployments. It asks for confirmation on a
    /// terminal, and requires --yes in a script.
    Release(session::ReleaseArgs),
    /// Take over an environment from its holder and stop their running deployment
    TakeOver(claim::TakeOverArgs),
    /// List past sessions, newest first
    History {
        #[command(flatten)]
        named: target::EnvironmentArgs,
        /// Page number
        #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
        page: u32,
    },
    /// List the queue of an environment
    Queue {
        #[command(flatten)]
        named: target::EnvironmentArgs,
        /// Leave the queue [default ticket: yours]
        #[arg(long, value_name = "TICKET")]
        leave: Option<Option<String>>,
    },
}

pub(crate) fn run(args: &EnvArgs) -> anyhow::Result<ExitCode> {
    let client = args.remote.client()?;
    let out = args.remote.output();
    match &args.command {
        EnvCommand::List { pipeline } => view::list_environments(&client, &out, pipeline.as_deref()),
        EnvCommand::Show(named) => view::print_environment(&client, &out, &named.resolve(&client)?),
        EnvCommand::History { named, page } => {
            view::list_history(&client, &out, &named.resolve(&client)?, *page)
        }
        EnvCommand::Queue { named, leave: None } => view::list_queue(&client, &out, &named.resolve(&client)?),
        EnvCommand::Queue { named, leave: Some(ticket) } => {
            session::leave_queue(&client, &out, &named.resolve(&client)?, ticket.as_deref())
        }
        EnvCommand::Claim(args) => claim::claim(&client, &out, args),
        EnvCommand::TakeOver(args) => claim::take_over(&client, &out, args),
        EnvCommand::Deploy(args) => session::deploy(&client, &out, args),
        EnvCommand::Extend { named, ttl } => session::extend(&client, &out, &named.resolve(&client)?, *ttl),
        EnvCommand::Heartbeat(named) => session::heartbeat(&client, &out, &named.resolve(&client)?),
        EnvCommand::HandOver { named, to } => session::hand_over(&client, &out, &named.resolve(&client)?, to),
        EnvCommand::Release(args) => session::release(&client, &out, args),
    }
}
