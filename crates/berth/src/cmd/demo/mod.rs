//! The demo: `berth serve --demo` keeps a server, the sites it deploys to and the people who use it; `berth demo` is for
//! one that runs.

mod announcement;
mod crash;
mod members;
mod organizations;
mod repository;
mod running;
mod scenario;
mod send;
mod server;
mod sites;
mod supervisor;

use std::process::ExitCode;

pub(crate) use supervisor::keep;

#[derive(clap::Subcommand)]
pub(crate) enum Command {
    /// Kill its server with -9 in the middle of a deployment, and watch it come back
    Crash(crash::Args),
    /// Send a page to a site, as the sample repository does
    #[command(hide = true)]
    Send(send::Args),
}

pub(crate) fn run(command: &Command) -> anyhow::Result<ExitCode> {
    match command {
        Command::Crash(args) => crash::run(args),
        Command::Send(args) => send::run(args),
    }
}
