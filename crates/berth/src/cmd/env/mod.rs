//! `berth env`: shared environments, held by one at a time.

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
    /// Who holds what, since when, why and until when
    List {
        /// Of this pipeline alone
        #[arg(long, short, env = "BERTH_PIPELINE")]
        pipeline: Option<String>,
    },
    /// One environment: its holder, its state, and who waits
    Show(target::Named),
    /// Hold an environment; with a command behind `--`, only while that runs
    ///
    /// With a command the lock is short and kept alive: the command starts when the environment is yours and the
    /// commit is deployed, it is stopped if somebody takes the environment over, and the lock is released at its end,
    /// whatever happens.
    Claim(claim::Claim),
    /// Deploy a commit in an environment you hold
    Deploy(session::Deploy),
    /// Hold it longer
    Extend {
        #[command(flatten)]
        named: target::Named,
        /// From now on, for example 2h [default: as long as it was claimed for]
        #[arg(long, value_parser = seconds)]
        ttl: Option<i64>,
    },
    /// Give it to somebody else
    HandOver {
        #[command(flatten)]
        named: target::Named,
        /// E-mail address or id of a member
        to: String,
    },
    /// Let it go; whoever waits first gets it
    Release(target::Named),
    /// Take it from whoever holds it; their running work is stopped
    TakeOver(claim::TakeOver),
    /// Who held it, newest first
    History {
        #[command(flatten)]
        named: target::Named,
        #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
        page: u32,
    },
    /// Who waits for it
    Queue {
        #[command(flatten)]
        named: target::Named,
        /// Leave the line
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
