//! `berth login` and `berth logout`.

mod active;
mod approval;
mod callback;

use std::io::{BufRead as _, IsTerminal as _, Write as _};
use std::process::ExitCode;

use anyhow::Context as _;
use berth_api::login::{LoginsEnded, LogoutEverywhere};
use berth_api::token::ApiToken;
use rustix::termios::{LocalModes, OptionalActions, tcgetattr, tcsetattr};
use serde_json::json;

use self::active::ActiveLoginCommand;
use self::approval::ApprovalChannel;
use crate::client::{ApiClient, ClientError, ServerLogin, percent_encode};
use crate::output::{JsonArgs, dim, print_line, print_note};

#[derive(clap::Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(crate) struct LoginArgs {
    /// Server URL, for example https://berth.acme.test
    #[arg(env = "BERTH_SERVER", value_name = "URL", required = true)]
    server: Option<String>,
    /// Read an API token from standard input
    #[arg(long, conflicts_with = "device")]
    with_token: bool,
    /// Show a code that you enter in a browser on any device
    #[arg(long)]
    device: bool,
    #[command(flatten)]
    json: JsonArgs,
    #[command(subcommand)]
    command: Option<ActiveLoginCommand>,
}

#[derive(clap::Args)]
pub(crate) struct LogoutArgs {
    /// Also log out of every browser
    #[arg(long)]
    everywhere: bool,
    /// Also revoke all your API tokens, in every organization
    #[arg(long, requires = "everywhere")]
    revoke_tokens: bool,
}

pub(crate) fn run(args: &LoginArgs) -> anyhow::Result<ExitCode> {
    if let Some(command) = &args.command {
        return active::run(command);
    }
    let server = args.server.as_deref().context("no server given")?;
    // A token is not an argument, because other processes can read command lines.
    let from_environment = std::env::var("BERTH_TOKEN").ok().filter(|it| !it.is_empty() && !args.device);
    let login = match from_environment {
        Some(token) => ServerLogin::from_token(server, token.trim().to_owned())?,
        None if args.with_token => ServerLogin::from_token(server, read_token(server)?.trim().to_owned())?,
        None => approval::log_in(server, choose_channel(args.device)?)?,
    };
    let path = login.save()?;
    let raw = json!({ "server": login.server, "organization": login.organization });
    args.json.output().print_reply(&raw, || {
        format!(
            "Logged in to {}, organization {}.\n{}",
            login.server,
            login.organization,
            dim(&format!("saved in {}", path.display()))
        )
    })?;
    Ok(ExitCode::SUCCESS)
}

/// Deletes the saved login, and revokes its token if `berth login` created it.
pub(crate) fn log_out(args: &LogoutArgs) -> anyhow::Result<ExitCode> {
    let Some(login) = ServerLogin::load()? else {
        if args.everywhere {
            return Err(ClientError::NotLoggedIn.into());
        }
        print_line("Not logged in.")?;
        return Ok(ExitCode::SUCCESS);
    };
    let client = ApiClient::new(login.clone());
    if args.everywhere {
        let body = LogoutEverywhere { keep_current: false, revoke_tokens: args.revoke_tokens };
        let ended = client.post::<LoginsEnded>("/api/v1/auth/logout-everywhere", &body)?.data;
        print_line(&format!("Logged out of {} browsers.", ended.logins_ended))?;
        if args.revoke_tokens {
            print_line(&format!("Revoked {} API tokens.", ended.tokens_revoked))?;
        }
    }
    let revoked = match &login.token_id {
        Some(_) if args.revoke_tokens => Ok(true),
        Some(id) => client.delete::<ApiToken>(&format!("/api-tokens/{}", percent_encode(id))).map(|_| true),
        None => Ok(args.revoke_tokens),
    };
    ServerLogin::delete()?;
    match revoked {
        Ok(true) => print_line("Logged out.")?,
        Ok(false) => {
            print_line("Logged out. The token stays valid; revoke it with `berth token revoke`.")?;
        }
        Err(error) => {
            print_line("Logged out.")?;
            print_note(&format!("The token was not revoked: {error:#}. Revoke it in the dashboard."));
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Chooses how the person approves the login: in a browser on this machine if there is one, otherwise with a code.
fn choose_channel(device: bool) -> anyhow::Result<ApprovalChannel> {
    let is_set = |name: &str| std::env::var_os(name).is_some_and(|it| !it.is_empty());
    if device {
        return Ok(ApprovalChannel::Code);
    }
    if is_set("BROWSER") {
        return Ok(ApprovalChannel::Browser);
    }
    if !std::io::stdin().is_terminal() {
        let text =
            "standard input is not a terminal; use --with-token to read an API token from it, or --device";
        return Err(ClientError::Usage(text.to_owned()).into());
    }
    let is_remote = is_set("SSH_CONNECTION");
    let has_display = cfg!(target_os = "macos") || is_set("DISPLAY") || is_set("WAYLAND_DISPLAY");
    Ok(if has_display && !is_remote { ApprovalChannel::Browser } else { ApprovalChannel::Code })
}

fn read_token(server: &str) -> anyhow::Result<String> {
    let stdin = std::io::stdin();
    let mut token = String::new();
    if !stdin.is_terminal() {
        stdin.lock().read_line(&mut token).context("cannot read the token")?;
        return Ok(token);
    }
    eprint!("API token (create one in the dashboard at {}): ", server.trim_end_matches('/'));
    std::io::stderr().flush().ok();
    let before = tcgetattr(&stdin)?;
    let mut silent = before.clone();
    silent.local_modes.remove(LocalModes::ECHO);
    tcsetattr(&stdin, OptionalActions::Now, &silent)?;
    let read = stdin.lock().read_line(&mut token);
    tcsetattr(&stdin, OptionalActions::Now, &before)?;
    print_note("");
    read.context("cannot read the token")?;
    Ok(token)
}
