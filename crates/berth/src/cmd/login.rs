//! `berth login` and `berth logout`.

use std::io::{BufRead as _, IsTerminal as _, Write as _};
use std::process::ExitCode;

use anyhow::Context as _;
use rustix::termios::{LocalModes, OptionalActions, tcgetattr, tcsetattr};
use serde_json::json;

use crate::client::ServerLogin;
use crate::output::{CommandOutput, dim, print_note};

#[derive(clap::Args)]
pub(crate) struct LoginArgs {
    /// Server URL, for example https://berth.acme.test
    #[arg(env = "BERTH_SERVER", value_name = "URL")]
    server: String,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Reads the token from BERTH_TOKEN or standard input. It is not an argument, because other processes can read command
/// lines.
pub(crate) fn run(args: &LoginArgs) -> anyhow::Result<ExitCode> {
    let token = match std::env::var("BERTH_TOKEN") {
        Ok(token) if !token.is_empty() => token,
        _ => read_token(&args.server)?,
    };
    let login = ServerLogin::from_token(&args.server, token.trim().to_owned())?;
    let path = login.save()?;
    let raw = json!({ "server": login.server, "organization": login.organization });
    CommandOutput::new(args.json).print_reply(&raw, || {
        format!(
            "Logged in to {}, organization {}.\n{}",
            login.server,
            login.organization,
            dim(&format!("saved in {}", path.display()))
        )
    })?;
    Ok(ExitCode::SUCCESS)
}

pub(crate) fn log_out() -> anyhow::Result<ExitCode> {
    let was = ServerLogin::delete()?;
    crate::output::print_line(if was {
        "Logged out. The token stays valid; revoke it with `berth token revoke`."
    } else {
        "Not logged in."
    })?;
    Ok(ExitCode::SUCCESS)
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
