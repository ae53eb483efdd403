//! The `berth` program: one binary, several commands.

mod builder;
mod cmd;
mod config;
mod embedded;
mod logging;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Threads hand each other small things all the time; the system's allocator is slow at that.
#[global_allocator]
static MEMORY: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Continuous delivery in one binary.
#[derive(Parser)]
#[command(name = "berth", version, arg_required_else_help = true, disable_help_subcommand = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Make an organization, its owner and a first API token
    Init(cmd::init::Args),
    /// Run the server
    Serve(cmd::serve::Args),
    /// Execute steps on this machine for a server elsewhere
    Runner(cmd::runner::Args),
    /// Look after an installation
    #[command(subcommand)]
    Admin(cmd::admin::Command),
    /// Work with pipeline definitions
    #[command(subcommand)]
    Pipeline(cmd::pipeline::Command),
    /// Write custom steps
    #[command(subcommand)]
    Registry(cmd::registry::Command),
    /// Work with the history
    #[command(subcommand)]
    Event(cmd::event::Command),
}

fn main() -> ExitCode {
    let done = match Cli::parse().command {
        Command::Init(args) => cmd::init::run(&args),
        Command::Serve(args) => cmd::serve::run(&args),
        Command::Runner(args) => cmd::runner::run(&args),
        Command::Admin(command) => cmd::admin::run(&command),
        Command::Pipeline(command) => cmd::pipeline::run(&command),
        Command::Registry(command) => cmd::registry::run(&command),
        Command::Event(command) => cmd::event::run(&command),
    };
    done.unwrap_or_else(|error| {
        eprintln!("berth: {error:#}");
        ExitCode::FAILURE
    })
}
