//! The `berth` program.

mod builder;
mod client;
mod cmd;
mod config;
mod embedded;
mod logging;
mod output;

use std::fmt::Write as _;
use std::process::ExitCode;

use clap::{CommandFactory as _, FromArgMatches as _, Parser, Subcommand};

use client::Failure;
use cmd::approval::Answer;

/// Faster than the system allocator for small allocations that move between threads.
#[global_allocator]
static MEMORY: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Continuous delivery in one binary
#[derive(Parser)]
#[command(name = "berth", version, arg_required_else_help = true, disable_help_subcommand = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Create an organization, its owner and an API token
    Init(cmd::init::Args),
    /// Run the server
    Serve(cmd::serve::Args),
    /// Run steps for a server on another machine
    Runner(cmd::runner::Args),
    /// Work with a running demo
    #[command(subcommand)]
    Demo(cmd::demo::Command),
    /// Administer an installation
    #[command(subcommand)]
    Admin(cmd::admin::Command),

    /// Log in to a server
    Login(cmd::login::Args),
    /// Log out
    Logout,
    /// Claim, deploy to, release and take over environments
    Env(cmd::env::Args),
    /// Deploy a commit through the stages of a pipeline
    Deploy(cmd::deployment::Deploy),
    /// Show the status of a deployment
    Status(cmd::deployment::Status),
    /// Print the log of a step
    Logs(cmd::logs::Args),
    /// Approve a deployment, or list pending approvals
    Approve(cmd::approval::Args),
    /// Reject a deployment
    Reject(cmd::approval::Args),
    /// Explain a failed step and suggest a fix
    Analyze(cmd::analyze::Args),
    /// List, show, cancel, retry and roll back deployments
    Deployment(cmd::deployment::Args),
    /// Manage pipelines and validate definitions
    Pipeline(cmd::pipeline::Args),
    /// Run a stage locally, without a server
    Run(cmd::run::Args),
    /// Manage repositories with pipeline definitions
    Repo(cmd::repo::Args),
    /// Manage secrets
    Secret(cmd::secret::Args),
    /// List, follow, export and verify the audit log
    Event(cmd::event::Args),
    /// Develop and manage custom steps
    Registry(cmd::registry::Args),
    /// Manage API tokens
    Token(cmd::token::Args),
    /// Open a dashboard page in the browser
    Open(cmd::open::Args),
    /// Print shell completions
    Completion(cmd::shell::Completion),
    /// Write man pages
    Man(cmd::shell::Man),
}

/// The commands in `berth --help`, grouped by task.
const COMMAND_GROUPS: &[(&str, &[&str])] = &[
    (
        "Environments and deployments",
        &["env", "deploy", "status", "logs", "approve", "reject", "analyze", "deployment", "open"],
    ),
    ("Pipelines and settings", &["pipeline", "run", "repo", "secret", "registry", "event", "token"]),
    ("Client setup", &["login", "logout", "completion", "man"]),
    ("Server", &["init", "serve", "runner", "admin", "demo"]),
];

/// Returns the parser of the command line, with grouped help.
fn cli() -> clap::Command {
    let cli = Cli::command();
    let (header, literal) = (*cli.get_styles().get_header(), *cli.get_styles().get_literal());
    let mut help = "{about}\n\n{usage-heading} {usage}\n".to_owned();
    for (heading, names) in COMMAND_GROUPS {
        let _ = write!(help, "\n{header}{heading}:{header:#}\n");
        for name in *names {
            let about = cli.find_subcommand(name).and_then(clap::Command::get_about);
            let about = about.map(ToString::to_string).unwrap_or_default();
            let _ = writeln!(help, "  {literal}{name:<10}{literal:#}  {about}");
        }
    }
    let _ = write!(help, "\n{header}Options:{header:#}\n{{options}}");
    cli.help_template(help)
}

fn main() -> ExitCode {
    let command = match Cli::from_arg_matches(&cli().get_matches()) {
        Ok(cli) => cli.command,
        Err(error) => error.exit(),
    };
    // These commands print credentials only once, so a failed write is an error.
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
        // The reader has closed the pipe, as `head` does.
        let is_read = |it: &std::io::Error| it.kind() == std::io::ErrorKind::BrokenPipe;
        if !must_be_read && error.chain().any(|it| it.downcast_ref().is_some_and(is_read)) {
            return ExitCode::FAILURE;
        }
        output::note(&format!("error: {error:#}"));
        error
            .chain()
            .find_map(|it| it.downcast_ref::<Failure>())
            .map_or(ExitCode::FAILURE, |failure| ExitCode::from(failure.exit_code()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn help_lists_every_command_once() {
        let mut listed: Vec<&str> =
            COMMAND_GROUPS.iter().flat_map(|(_, names)| names.iter().copied()).collect();
        let cli = Cli::command();
        let mut commands: Vec<&str> = cli.get_subcommands().map(clap::Command::get_name).collect();
        listed.sort_unstable();
        commands.sort_unstable();
        assert_eq!(listed, commands);
    }
}
