//! `berth env`: shared environments, held by one session at a time.

mod claim;
mod exec;
mod session;
mod target;
mod terminal;
mod view;

use std::process::ExitCode;

use crate::client::Remote;
use crate::output::time::seconds;

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    remote: Remote,
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    /// List environments with their holders
    List {
        /// Only environments of this pipeline
        #[arg(long, short, env = "BERTH_PIPELINE")]
        pipeline: Option<String>,
    },
    /// Show an environment, its holder and its queue length
    Show(target::Named),
    /// Claim an environment; with -- COMMAND, only while the command runs
    ///
    /// With a command, the environment is claimed, the commit is deployed and then the command runs. Its session is
    /// renewed while it runs and released when it ends. If the environment is taken over, the command is stopped.
    #[command(
        after_help = "Examples:\n  berth env claim qa-1 --commit HEAD --why \"load test\"\n  berth env claim qa-1 --commit HEAD --queue -- ./run-tests.sh"
    )]
    Claim(claim::Claim),
    /// Deploy a commit to an environment you hold
    Deploy(session::Deploy),
    /// Extend your session
    Extend {
        #[command(flatten)]
        named: target::Named,
        /// New time to live from now on, for example 2h [default: as claimed]
        #[arg(long, value_parser = seconds)]
        ttl: Option<i64>,
    },
    /// Hand your session over to another member
    HandOver {
        #[command(flatten)]
        named: target::Named,
        /// Email address or id of a member
        to: String,
    },
    /// Release an environment; the next in the queue gets it
    Release(target::Named),
    /// Take over an environment from its holder and stop their running deployment
    TakeOver(claim::TakeOver),
    /// List past sessions, newest first
    History {
        #[command(flatten)]
        named: target::Named,
        /// Page number
        #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
        page: u32,
    },
    /// List the queue of an environment
    Queue {
        #[command(flatten)]
        named: target::Named,
        /// Leave the queue
        #[arg(long, value_name = "TICKET")]
        leave: Option<String>,
    },
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let client = args.remote.client()?;
    let out = args.remote.output();
    match &args.command {
        Command::List { pipeline } => view::list(&client, &out, pipeline.as_deref()),
        Command::Show(named) => view::show(&client, &out, &named.find(&client)?),
        Command::History { named, page } => view::history(&client, &out, &named.find(&client)?, *page),
        Command::Queue { named, leave: None } => view::queue(&client, &out, &named.find(&client)?),
        Command::Queue { named, leave: Some(ticket) } => {
            session::leave(&client, &out, &named.find(&client)?, ticket)
        }
        Command::Claim(args) => claim::claim(&client, &out, args),
        Command::TakeOver(args) => claim::take_over(&client, &out, args),
        Command::Deploy(args) => session::deploy(&client, &out, args),
        Command::Extend { named, ttl } => session::extend(&client, &out, &named.find(&client)?, *ttl),
        Command::HandOver { named, to } => session::hand_over(&client, &out, &named.find(&client)?, to),
        Command::Release(named) => session::release(&client, &out, &named.find(&client)?),
    }
}
