//! The `berth` program: one binary, several commands.

mod builder;
mod client;
mod cmd;
mod config;
mod embedded;
mod logging;
mod output;

use std::process::ExitCode;

use clap::{CommandFactory as _, Parser, Subcommand};

use client::Failure;
use cmd::approval::Answer;

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
    /// A running demo
    #[command(subcommand)]
    Demo(cmd::demo::Command),
    /// Look after an installation
    #[command(subcommand)]
    Admin(cmd::admin::Command),

    /// Say which server to ask, and as whom
    Login(cmd::login::Args),
    /// Forget what `login` kept
    Logout,
    /// Shared environments: hold, deploy, extend, hand over, release, take over
    Env(cmd::env::Args),
    /// Deploy a commit through the stages of a pipeline
    Deploy(cmd::deployment::Deploy),
    /// How a deployment stands
    Status(cmd::deployment::Status),
    /// What a step printed
    Logs(cmd::logs::Args),
    /// Approve what waits for it
    Approve(cmd::approval::Args),
    /// Reject what waits for an approval
    Reject(cmd::approval::Args),
    /// Why a step failed, and what would mend it
    Analyze(cmd::analyze::Args),
    /// Deployments: list, show, cancel, retry, roll back
    Deployment(cmd::deployment::Args),
    /// Pipelines and their definitions
    Pipeline(cmd::pipeline::Args),
    /// Run a stage on this machine, without a server
    Run(cmd::run::Args),
    /// Repositories with definitions
    Repo(cmd::repo::Args),
    /// Secrets
    Secret(cmd::secret::Args),
    /// The history
    Event(cmd::event::Args),
    /// Custom steps
    Registry(cmd::registry::Args),
    /// API tokens
    Token(cmd::token::Args),
    /// Open a page of the dashboard
    Open(cmd::open::Args),
    /// Print completions for a shell
    Completion(cmd::shell::Completion),
    /// Write manual pages
    Man(cmd::shell::Man),
}

fn main() -> ExitCode {
    let command = Cli::parse().command;
    // What these print is shown once: it must not get lost in silence.
    let must_be_read = matches!(command, Command::Init(_) | Command::Serve(_) | Command::Admin(_));
    let done = match command {
        Command::Init(args) => cmd::init::run(&args),
        Command::Serve(args) => cmd::serve::run(&args),
        Command::Runner(args) => cmd::runner::run(&args),
        Command::Demo(command) => cmd::demo::run(&command),
        Command::Admin(command) => cmd::admin::run(&command),
        Command::Login(args) => cmd::login::run(&args),
        Command::Logout => cmd::login::log_out(),
        Command::Env(args) => cmd::env::run(&args),
        Command::Deploy(args) => cmd::deployment::deploy(&args),
        Command::Status(args) => cmd::deployment::status(&args),
        Command::Logs(args) => cmd::logs::run(&args),
        Command::Approve(args) => cmd::approval::run(&args, Answer::Approve),
        Command::Reject(args) => cmd::approval::run(&args, Answer::Reject),
        Command::Analyze(args) => cmd::analyze::run(&args),
        Command::Deployment(args) => cmd::deployment::run(&args),
        Command::Pipeline(args) => cmd::pipeline::run(&args),
        Command::Run(args) => cmd::run::run(&args),
        Command::Repo(args) => cmd::repo::run(&args),
        Command::Secret(args) => cmd::secret::run(&args),
        Command::Event(args) => cmd::event::run(&args),
        Command::Registry(args) => cmd::registry::run(&args),
        Command::Token(args) => cmd::token::run(&args),
        Command::Open(args) => cmd::open::run(&args),
        Command::Completion(args) => cmd::shell::completion(&args, Cli::command()),
        Command::Man(args) => cmd::shell::man(&args, Cli::command()),
    };
    done.unwrap_or_else(|error| {
        // Whoever read has seen enough, as `head` does.
        let is_read = |it: &std::io::Error| it.kind() == std::io::ErrorKind::BrokenPipe;
        if !must_be_read && error.chain().any(|it| it.downcast_ref().is_some_and(is_read)) {
            return ExitCode::FAILURE;
        }
        output::note(&format!("berth: {error:#}"));
        error
            .chain()
            .find_map(|it| it.downcast_ref::<Failure>())
            .map_or(ExitCode::FAILURE, |failure| ExitCode::from(failure.exit_code()))
    })
}
