//! The `berth` program.

mod builder;
mod client;
mod cmd;
mod complete;
mod config;
mod embedded;
mod help;
mod logging;
mod output;
mod words;

use std::process::ExitCode;

use clap::{CommandFactory as _, FromArgMatches as _, Parser, Subcommand};
use clap_complete::CompleteEnv;

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
    /// Run steps for a server on this machine, or manage runners
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
    /// Show the account, organization and server that you use
    Whoami(cmd::whoami::WhoamiArgs),
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
    /// List your notifications, and mark them as read
    Inbox(cmd::inbox::InboxArgs),
    /// Explain a failed step and suggest a fix
    Analyze(cmd::analyze::AnalyzeArgs),
    /// List, show, cancel, retry and roll back deployments
    Deployment(cmd::deployment::DeploymentArgs),
    /// Manage pipelines and validate definitions
    Pipeline(cmd::pipeline::PipelineArgs),
    /// List, show and approve pull requests
    Pr(cmd::pull_request::PullRequestArgs),
    /// Run a stage locally, without a server
    Run(cmd::run::RunArgs),
    /// Manage repositories with pipeline definitions
    Repo(cmd::repo::RepoArgs),
    /// Manage secrets
    Secret(cmd::secret::SecretArgs),
    /// List, follow, export and verify the audit log
    Event(cmd::event::EventArgs),
    /// Manage webhooks and redeliver their events
    Webhook(cmd::webhook::WebhookArgs),
    /// Send notifications to Slack and Microsoft Teams
    Chat(cmd::chat::ChatArgs),
    /// Show how often, how fast and how safely you deploy
    Insights(cmd::insights::InsightsArgs),
    /// Develop and manage custom steps
    Registry(cmd::registry::RegistryArgs),
    /// Invite, list and change members, and show what they may do
    Member(cmd::member::MemberArgs),
    /// Create agents, and stop and resume all of them
    Agents(cmd::agents::AgentsArgs),
    /// Manage teams
    Team(cmd::team::TeamArgs),
    /// Give members and teams roles on parts of the organization
    Grant(cmd::grant::GrantArgs),
    /// Create, rename and delete organizations
    Org(cmd::org::OrgArgs),
    /// Manage API tokens
    Token(cmd::token::TokenArgs),
    /// Serve tools for coding agents (Model Context Protocol)
    Mcp(cmd::mcp::McpArgs),
    /// Open a dashboard page in the browser
    Open(cmd::open::OpenArgs),
    /// Check whether this version can serve a database
    Upgrade(cmd::upgrade::UpgradeArgs),
    /// Print shell completions
    Completion(cmd::shell::CompletionArgs),
    /// Write man pages
    Man(cmd::shell::ManArgs),
}

/// Returns the parser of the command line, with grouped help and examples.
fn command_line() -> clap::Command {
    help::describe_commands(Cli::command())
}

fn main() -> ExitCode {
    CompleteEnv::with_factory(command_line).var(cmd::shell::COMPLETION_VARIABLE).complete();
    let parsed = words::parse_words(&command_line, std::env::args_os().collect());
    let command = match parsed.and_then(|matches| Cli::from_arg_matches(&matches)) {
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
        CliCommand::Whoami(args) => cmd::whoami::run(&args),
        CliCommand::Env(args) => cmd::env::run(&args),
        CliCommand::Deploy(args) => cmd::deployment::run_deploy(&args),
        CliCommand::Status(args) => cmd::deployment::run_status(&args),
        CliCommand::Logs(args) => cmd::logs::run(&args),
        CliCommand::Approve(args) => cmd::approval::run(&args, ApprovalDecision::Approve),
        CliCommand::Reject(args) => cmd::approval::run(&args, ApprovalDecision::Reject),
        CliCommand::Inbox(args) => cmd::inbox::run(&args),
        CliCommand::Analyze(args) => cmd::analyze::run(&args),
        CliCommand::Deployment(args) => cmd::deployment::run(&args),
        CliCommand::Pipeline(args) => cmd::pipeline::run(&args),
        CliCommand::Pr(args) => cmd::pull_request::run(&args),
        CliCommand::Run(args) => cmd::run::run(&args),
        CliCommand::Repo(args) => cmd::repo::run(&args),
        CliCommand::Secret(args) => cmd::secret::run(&args),
        CliCommand::Event(args) => cmd::event::run(&args),
        CliCommand::Webhook(args) => cmd::webhook::run(&args),
        CliCommand::Chat(args) => cmd::chat::run(&args),
        CliCommand::Insights(args) => cmd::insights::run(&args),
        CliCommand::Registry(args) => cmd::registry::run(&args),
        CliCommand::Member(args) => cmd::member::run(&args),
        CliCommand::Agents(args) => cmd::agents::run(&args),
        CliCommand::Team(args) => cmd::team::run(&args),
        CliCommand::Grant(args) => cmd::grant::run(&args),
        CliCommand::Org(args) => cmd::org::run(&args),
        CliCommand::Token(args) => cmd::token::run(&args),
        CliCommand::Mcp(args) => cmd::mcp::run(&args),
        CliCommand::Open(args) => cmd::open::run(&args),
        CliCommand::Upgrade(args) => cmd::upgrade::run(&args),
        CliCommand::Completion(args) => cmd::shell::print_completion(&args),
        CliCommand::Man(args) => cmd::shell::write_man_pages(&args, command_line()),
    };
    done.unwrap_or_else(|error| {
        // The reader closed the pipe early, as `head` does.
        let is_read = |it: &std::io::Error| it.kind() == std::io::ErrorKind::BrokenPipe;
        if !must_be_read && error.chain().any(|it| it.downcast_ref().is_some_and(is_read)) {
            return ExitCode::FAILURE;
        }
        output::print_error(&format!("error: {error:#}"));
        error
            .chain()
            .find_map(|it| it.downcast_ref::<ClientError>())
            .map_or(ExitCode::FAILURE, |failure| ExitCode::from(failure.exit_code()))
    })
}
