//! `berth token`: API tokens.

use std::process::ExitCode;

use berth_api::token::{ApiToken, ApiTokenCreated, ApiTokenNew};

use crate::client::{RECORDS_MAX, Remote, escaped};
use crate::output::time::{ago, ahead};
use crate::output::{harmless, note, or_dash, say};

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    remote: Remote,
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    /// Create a token; it is printed only once
    Create {
        /// Name of the token
        name: String,
        /// Days until it expires; 0 for never [default: 90]
        #[arg(long, value_parser = clap::value_parser!(i64).range(0..=366))]
        days: Option<i64>,
        /// Id of the service account that owns it [default: you]
        #[arg(long, value_name = "ID")]
        owner: Option<String>,
    },
    /// List your tokens, or all of them if you have the permission
    List,
    /// Revoke a token
    Revoke {
        /// Token id (tok_…)
        id: String,
    },
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let client = args.remote.client()?;
    let out = args.remote.output();
    match &args.command {
        Command::Create { name, days, owner } => {
            let body = ApiTokenNew { name: name.clone(), expires_in_days: *days, owner_id: owner.clone() };
            let made = client.post::<ApiTokenCreated>("/api-tokens", &body)?;
            if out.json {
                say(&made.raw.to_string())?;
            } else {
                note("Token (not shown again):");
                say(made.data.token.as_deref().unwrap_or_default())?;
            }
        }
        Command::List => {
            let found = client.list::<ApiToken>("/api-tokens", RECORDS_MAX)?;
            let row = |it: &ApiToken| {
                vec![
                    harmless(&it.name),
                    format!("{}…", it.prefix),
                    or_dash(it.last_used_at.as_deref().map(ago).as_deref()),
                    or_dash(it.expires_at.as_deref().map(ahead).as_deref()),
                    it.id.clone(),
                ]
            };
            let rows: Vec<_> = found.data.iter().map(row).collect();
            out.table(
                &found.raw,
                &["name", "prefix", "last used", "expires", "id"],
                &rows,
                "No API tokens.",
            )?;
        }
        Command::Revoke { id } => {
            let gone = client.delete::<ApiToken>(&format!("/api-tokens/{}", escaped(id)))?;
            out.told(&gone.raw, || format!("Revoked {}.", harmless(&gone.data.name)))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}
