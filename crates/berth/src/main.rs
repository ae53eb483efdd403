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

use client::ClientError;
use cmd::approval::ApprovalDecision;

/// Used because it is faster than the system allocator for small allocations that move between threads.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Continuous delivery in one binary
#[derive(Parser)]
#[command(name = "berth", version, arg_required_else_help = true, disable_help_subcommand = true)]
struct Cli {
    #[command(subcommand)]
    command: CliCommand,
}

#[derive(Subcommand)]
enum CliCommand {
    /// Create an organization, its owner and an API token
    Init(cmd::init::InitArgs),
    /// Run the server
    Serve(cmd::serve::ServeArgs),
    /// Run steps for a server on another machine
    Runner(cmd::runner::RunnerArgs),
    /// Work with a running demo
    #[command(subcommand)]
    Demo(cmd::demo::DemoCommand),
    /// Administer an installation
    #[command(subcommand)]
    Admin(cmd::admin::AdminCommand),

    /// Log in to a server
    Login(cmd::login::LoginArgs),
    /// Log out and revoke the token of this login
    Logout(cmd::login::LogoutArgs),
    /// Claim, deploy to, release and take over environments
    Env(cmd::env::EnvArgs),
    /// Deploy a commit through the stages of a pipeline
    Deploy(cmd::deployment::DeployArgs),
    /// Show the status of a deployment
    Status(cmd::deployment::StatusArgs),
    /// Print the log of a step
    Logs(cmd::logs::LogsArgs),
    /// Approve a deployment, or list pending approvals
    Approve(cmd::approval::ApprovalArgs),
    /// Reject a deployment
    Reject(cmd::approval::ApprovalArgs),
    /// Explain a failed step and suggest a fix
    Analyze(cmd::analyze::AnalyzeArgs),
    /// List, show, cancel, retry and roll back deployments
    Deployment(cmd::deployment::DeploymentArgs),
    /// Manage pipelines and validate definitions
    Pipeline(cmd::pipeline::PipelineArgs),
    /// List and show pull requests and their environments
    Pr(cmd::pull_request::PullRequestArgs),
    /// Run a stage locally, without a server
    Run(cmd::run::RunArgs),
    /// Manage repositories with pipeline definitions
    Repo(cmd::repo::RepoArgs),
    /// Manage secrets
    Secret(cmd::secret::SecretArgs),
    /// List, follow, export and verify the audit log
    Event(cmd::event::EventArgs),
    /// Develop and manage custom steps
    Registry(cmd::registry::RegistryArgs),
    /// List members and show what they may do
    Member(cmd::member::MemberArgs),
    /// Manage teams
    Team(cmd::team::TeamArgs),
    /// Give members and teams roles on parts of the organization
    Grant(cmd::grant::GrantArgs),
    /// Create, rename and delete organizations
    Org(cmd::org::OrgArgs),
    /// Manage API tokens
    Token(cmd::token::TokenArgs),
    /// Open a dashboard page in the browser
    Open(cmd::open::OpenArgs),
    /// Check whether this version can serve a database
    Upgrade(cmd::upgrade::UpgradeArgs),
    /// Print shell completions
    Completion(cmd::shell::CompletionArgs),
    /// Write man pages
    Man(cmd::shell::ManArgs),
}

/// The commands in `berth --help`, grouped by task.
const COMMAND_GROUPS: &[(&str, &[&str])] = &[
    (
        "Environments and deployments",
        &["env", "deploy", "status", "logs", "approve", "reject", "analyze", "deployment", "pr", "open"],
    ),
    ("Pipelines and settings", &["pipeline", "run", "repo", "secret", "registry", "event"]),
    ("Login and access", &["login", "logout", "member", "team", "grant", "org", "token"]),
    ("Server and setup", &["init", "serve", "runner", "admin", "upgrade", "demo", "completion", "man"]),
];

/// Returns the parser of the command line, with grouped help.
fn cli() -> clap::Command {
    let cli = Cli::command();
    let (header, literal) = (*cli.get_styles().get_header(), *cli.get_styles().get_literal());
    let mut help = "{about}\n{usage-heading} {usage}\n".to_owned();
    for (heading, names) in COMMAND_GROUPS {
        let _ = write!(help, "\n{header}{heading}:{header:#}\n");
        for name in *names {
            let about = cli.find_subcommand(name).and_then(clap::Command::get_about);
            let about = about.map(ToString::to_string).unwrap_or_default();
            let _ = writeln!(help, "  {literal}{name:<10}{literal:#}  {about}");
        }
    }
    let _ = writeln!(
        help,
        "\n{header}Options:{header:#} {literal}-h{literal:#}, {literal}--help{literal:#} and {literal}-V{literal:#}, {literal}--version{literal:#}"
    );
    cli.help_template(help)
}

fn main() -> ExitCode {
    let command = match Cli::from_arg_matches(&cli().get_matches()) {
        Ok(cli) => cli.command,
        Err(error) => error.exit(),
    };
    // These commands print credentials that are never shown again, so a failed write is an error.
    let must_be_read = matches!(command, CliCommand::Init(_) | CliCommand::Serve(_) | CliCommand::Admin(_));
    let done = match command {
        CliCommand::Init(args) => cmd::init::run(&args),
        CliCommand::Serve(args) => cmd::serve::run(&args),
        CliCommand::Runner(args) => cmd::runner::run(&args),
        CliCommand::Demo(command) => cmd::demo::run(&command),
        CliCommand::Admin(command) => cmd::admin::run(&command),
        CliCommand::Login(args) => cmd::login::run(&args),
        CliCommand::Logout(args) => cmd::login::log_out(&args),
        CliCommand::Env(args) => cmd::env::run(&args),
        CliCommand::Deploy(args) => cmd::deployment::run_deploy(&args),
        CliCommand::Status(args) => cmd::deployment::run_status(&args),
        CliCommand::Logs(args) => cmd::logs::run(&args),
        CliCommand::Approve(args) => cmd::approval::run(&args, ApprovalDecision::Approve),
        CliCommand::Reject(args) => cmd::approval::run(&args, ApprovalDecision::Reject),
        CliCommand::Analyze(args) => cmd::analyze::run(&args),
        CliCommand::Deployment(args) => cmd::deployment::run(&args),
        CliCommand::Pipeline(args) => cmd::pipeline::run(&args),
        CliCommand::Pr(args) => cmd::pull_request::run(&args),
        CliCommand::Run(args) => cmd::run::run(&args),
        CliCommand::Repo(args) => cmd::repo::run(&args),
        CliCommand::Secret(args) => cmd::secret::run(&args),
        CliCommand::Event(args) => cmd::event::run(&args),
        CliCommand::Registry(args) => cmd::registry::run(&args),
        CliCommand::Member(args) => cmd::member::run(&args),
        CliCommand::Team(args) => cmd::team::run(&args),
        CliCommand::Grant(args) => cmd::grant::run(&args),
        CliCommand::Org(args) => cmd::org::run(&args),
        CliCommand::Token(args) => cmd::token::run(&args),
        CliCommand::Open(args) => cmd::open::run(&args),
        CliCommand::Upgrade(args) => cmd::upgrade::run(&args),
        CliCommand::Completion(args) => cmd::shell::print_completion(&args, Cli::command()),
        CliCommand::Man(args) => cmd::shell::write_man_pages(&args, Cli::command()),
    };
    done.unwrap_or_else(|error| {
        // The reader closed the pipe early, as `head` does.
        let is_read = |it: &std::io::Error| it.kind() == std::io::ErrorKind::BrokenPipe;
        if !must_be_read && error.chain().any(|it| it.downcast_ref().is_some_and(is_read)) {
            return ExitCode::FAILURE;
        }
        output::print_note(&format!("error: {error:#}"));
        error
            .chain()
            .find_map(|it| it.downcast_ref::<ClientError>())
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
