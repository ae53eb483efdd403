//! `berth token`: API tokens.

use std::process::ExitCode;

use berth_api::member::WireMember;
use berth_api::token::{ApiToken, ApiTokenCreated, ApiTokenNew, TokenRestrictionBody};

use super::grant::expand_scope;
use crate::client::{ApiClient, RECORDS_MAX, RemoteArgs, percent_encode};
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
                out.print_json(&made.raw)?;
            } else {
                print_note("Token (not shown again):");
                print_line(made.data.token.as_deref().unwrap_or_default())?;
            }
        }
        TokenCommand::List => {
            let found = client.list::<ApiToken>("/api-tokens", RECORDS_MAX)?;
            let members = if out.json { Vec::new() } else { load_members(&client) };
            let row = |it: &ApiToken| {
                let name = strip_control_chars(&it.name);
                let prefix = format!("{}…", it.prefix);
                let owner = members.iter().find(|member| member.id == it.owner_id);
                let owner = owner.map_or(&it.owner_id, |member| &member.name);
                let owner = strip_control_chars(owner);
                let used = or_dash(it.last_used_at.as_deref().map(format_ago).as_deref());
                let from = or_dash(it.last_used_address.as_deref().map(strip_control_chars).as_deref());
                let expires = or_dash(it.expires_at.as_deref().map(format_time_left).as_deref());
                match out.is_terminal {
                    true => vec![name, owner, used, expires, from, prefix, it.id.clone()],
                    false => vec![name, prefix, used, from, expires, it.id.clone(), owner],
                }
            };
            let rows: Vec<_> = found.data.iter().map(row).collect();
            let heading = ["name", "owner", "last used", "expires", "from", "prefix", "id"];
            out.print_table(&found.raw, &heading, &rows, "No API tokens.")?;
        }
        TokenCommand::Revoke { id } => {
            let gone = client.delete::<ApiToken>(&format!("/api-tokens/{}", percent_encode(id)))?;
            out.print_reply(&gone.raw, || format!("Revoked {}.", strip_control_chars(&gone.data.name)))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Loads the members, whose names are displayed instead of ids. Empty if the caller may not list them.
fn load_members(client: &ApiClient) -> Vec<WireMember> {
    client.list("/members", RECORDS_MAX).map(|found| found.data).unwrap_or_default()
}

/// Parses `PERMISSION=SCOPE`; without a scope, the permission applies to the whole organization.
fn parse_restriction(given: &[String]) -> Vec<TokenRestrictionBody> {
    let parse = |text: &String| {
        let (permission, scope) = text.split_once('=').unwrap_or((text, "org"));
        TokenRestrictionBody { permissions: vec![permission.to_owned()], scope: expand_scope(scope) }
    };
    given.iter().map(parse).collect()
}
