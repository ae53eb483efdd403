//! The demo. `berth serve --demo` runs a server, sites it deploys to and a scenario; `berth demo` works with a running
//! demo.

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
    /// Kill the demo's server during a deployment and watch it recover
    Crash(crash::Args),
    /// Send a page to a demo site
    #[command(hide = true)]
    Send(send::Args),
}

pub(crate) fn run(command: &Command) -> anyhow::Result<ExitCode> {
    match command {
        Command::Crash(args) => crash::run(args),
        Command::Send(args) => send::run(args),
    }
}
