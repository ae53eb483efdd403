//! `berth token`: API tokens.

use std::process::ExitCode;

use berth_api::token::{ApiToken, ApiTokenCreated, ApiTokenNew, TokenRestrictionBody};

use super::grant::expand_scope;
use crate::client::{RECORDS_MAX, RemoteArgs, percent_encode};
use crate::output::time::{format_ago, format_time_left};
use crate::output::{or_dash, print_line, print_note, strip_control_chars};

#[derive(clap::Args)]
pub(crate) struct TokenArgs {
    #[command(flatten)]
    remote: RemoteArgs,
    #[command(subcommand)]
    command: TokenCommand,
}

#[derive(clap::Subcommand)]
enum TokenCommand {
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
        /// Limit the token to a permission, such as environments:claim=shop/qa-*; can be repeated
        #[arg(long, value_name = "PERMISSION[=SCOPE]")]
        restrict_to: Vec<String>,
    },
    /// List your tokens, or all of them if you have the permission
    List,
    /// Revoke a token
    Revoke {
        /// Token id (tok_…)
        id: String,
    },
}

pub(crate) fn run(args: &TokenArgs) -> anyhow::Result<ExitCode> {
    let client = args.remote.client()?;
    let out = args.remote.output();
    match &args.command {
        TokenCommand::Create { name, days, owner, restrict_to } => {
            let body = ApiTokenNew {
                name: name.clone(),
                expires_in_days: *days,
                owner_id: owner.clone(),
                restrict_to: (!restrict_to.is_empty()).then(|| parse_restriction(restrict_to)),
            };
            let made = client.post::<ApiTokenCreated>("/api-tokens", &body)?;
            if out.json {
                print_line(&made.raw.to_string())?;
            } else {
                print_note("Token (not shown again):");
                print_line(made.data.token.as_deref().unwrap_or_default())?;
            }
        }
        TokenCommand::List => {
            let found = client.list::<ApiToken>("/api-tokens", RECORDS_MAX)?;
            let row = |it: &ApiToken| {
                vec![
                    strip_control_chars(&it.name),
                    format!("{}…", it.prefix),
                    or_dash(it.last_used_at.as_deref().map(format_ago).as_deref()),
                    or_dash(it.last_used_address.as_deref().map(strip_control_chars).as_deref()),
                    or_dash(it.expires_at.as_deref().map(format_time_left).as_deref()),
                    it.id.clone(),
                ]
            };
            let rows: Vec<_> = found.data.iter().map(row).collect();
            out.print_table(
                &found.raw,
                &["name", "prefix", "last used", "from", "expires", "id"],
                &rows,
                "No API tokens.",
            )?;
        }
        TokenCommand::Revoke { id } => {
            let gone = client.delete::<ApiToken>(&format!("/api-tokens/{}", percent_encode(id)))?;
            out.print_reply(&gone.raw, || format!("Revoked {}.", strip_control_chars(&gone.data.name)))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Parses `PERMISSION=SCOPE`; without a scope, the permission applies to the whole organization.
fn parse_restriction(given: &[String]) -> Vec<TokenRestrictionBody> {
    let parse = |text: &String| {
        let (permission, scope) = text.split_once('=').unwrap_or((text, "org"));
        TokenRestrictionBody { permissions: vec![permission.to_owned()], scope: expand_scope(scope) }
    };
    given.iter().map(parse).collect()
}
