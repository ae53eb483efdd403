//! `berth login list` and `berth login end`: browsers in which you are logged in.

use std::process::ExitCode;

use berth_api::login::ActiveLogin;

use crate::client::{RECORDS_MAX, RemoteArgs, percent_encode};
use crate::output::time::format_ago;
use crate::output::{or_dash, strip_control_chars};

#[derive(clap::Subcommand)]
pub(crate) enum ActiveLoginCommand {
    /// List the browsers in which you are logged in
    List {
        #[command(flatten)]
        remote: RemoteArgs,
    },
    /// Log out of one browser
    End {
        #[command(flatten)]
        remote: RemoteArgs,
        /// Login id (sgn_…)
        id: String,
    },
}

pub(super) fn run(command: &ActiveLoginCommand) -> anyhow::Result<ExitCode> {
    match command {
        ActiveLoginCommand::List { remote } => {
            let found = remote.client()?.list::<ActiveLogin>("/api/v1/me/logins", RECORDS_MAX)?;
            let row = |it: &ActiveLogin| {
                vec![
                    or_dash(it.client.as_deref().map(strip_control_chars).as_deref()),
                    strip_control_chars(&it.address),
                    format_ago(&it.last_seen_at),
                    format_ago(&it.created_at),
                    it.id.clone(),
                ]
            };
            let rows: Vec<_> = found.data.iter().map(row).collect();
            remote.output().print_table(
                &found.raw,
                &["client", "address", "last seen", "created", "id"],
                &rows,
                "No browser is logged in.",
            )?;
        }
        ActiveLoginCommand::End { remote, id } => {
            let path = format!("/api/v1/me/logins/{}", percent_encode(id));
            let ended = remote.client()?.delete::<ActiveLogin>(&path)?;
            remote.output().print_reply(&ended.raw, || {
                let client = ended.data.client.as_deref().unwrap_or("a browser");
                format!("Logged out of {}.", strip_control_chars(client))
            })?;
        }
    }
    Ok(ExitCode::SUCCESS)
}
