//! The demo. `berth serve --demo` runs a server, the sites it deploys to and a scripted scenario. `berth demo` works
//! with a demo that is already running.

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

pub(crate) use supervisor::run_demo;

#[derive(clap::Subcommand)]
pub(crate) enum DemoCommand {
    /// Kill the demo's server during a deployment and watch it recover
    Crash(crash::CrashArgs),
    /// Send a page to a demo site
    #[command(hide = true)]
    Send(send::SendArgs),
}

pub(crate) fn run(command: &DemoCommand) -> anyhow::Result<ExitCode> {
    match command {
        DemoCommand::Crash(args) => crash::run(args),
        DemoCommand::Send(args) => send::run(args),
    }
}
