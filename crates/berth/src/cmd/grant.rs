//! `berth grant`: roles on parts of an organization.

use std::process::ExitCode;

use berth_api::grant::{GrantNew, GrantSubjectKind, WireGrant};

use super::member::find_member;
use crate::client::{ApiClient, RECORDS_MAX, RemoteArgs, percent_encode};
use crate::output::strip_control_chars;
use crate::output::time::format_ago;

#[derive(clap::Args)]
pub(crate) struct GrantArgs {
    #[command(flatten)]
    remote: RemoteArgs,
    #[command(subcommand)]
    command: GrantCommand,
}

#[derive(clap::Subcommand)]
enum GrantCommand {
    /// Give a member or team a role on a part of the organization
    Add {
        /// E-mail address or name of a member, or team:SLUG
        subject: String,
        /// viewer, tester, approver, deployer or admin
        role: String,
        /// shop, shop/qa-*, shop@production or org
        scope: String,
    },
    /// List grants
    List {
        /// Only grants of this member or team
        subject: Option<String>,
    },
    /// Remove a grant
    Remove {
        /// Grant id (gnt_…)
        id: String,
    },
}

pub(crate) fn run(args: &GrantArgs) -> anyhow::Result<ExitCode> {
    let client = args.remote.client()?;
    let out = args.remote.output();
    match &args.command {
        GrantCommand::Add { subject, role, scope } => {
            let body = GrantNew {
                subject: resolve_subject(&client, subject)?,
                role: role.clone(),
                scope: expand_scope(scope),
            };
            let made = client.post::<WireGrant>("/grants", &body)?;
            out.print_reply(&made.raw, || {
                let WireGrant { id, subject, scope, .. } = &made.data;
                let name = strip_control_chars(&subject.name);
                format!("{name} now has the role {role} on {scope}. Remove it with: berth grant remove {id}")
            })?;
        }
        GrantCommand::List { subject } => {
            let path = match subject {
                None => "/grants".to_owned(),
                Some(subject) => {
                    format!("/grants?subject={}", percent_encode(&resolve_subject(&client, subject)?))
                }
            };
            let found = client.list::<WireGrant>(&path, RECORDS_MAX)?;
            let row = |it: &WireGrant| {
                let team = if it.subject.kind == GrantSubjectKind::Team { "team " } else { "" };
                vec![
                    format!("{team}{}", strip_control_chars(&it.subject.name)),
                    serde_json::to_value(it.role).unwrap_or_default().as_str().unwrap_or_default().to_owned(),
                    it.scope.clone(),
                    strip_control_chars(&it.created_by.name),
                    format_ago(&it.created_at),
                    it.id.clone(),
                ]
            };
            let rows: Vec<_> = found.data.iter().map(row).collect();
            let columns = ["who", "role", "scope", "granted by", "when", "id"];
            out.print_table(
                &found.raw,
                &columns,
                &rows,
                "No grants. Add one with: berth grant add MEMBER tester shop/qa-*",
            )?;
        }
        GrantCommand::Remove { id } => {
            let gone = client.delete::<WireGrant>(&format!("/grants/{}", percent_encode(id)))?;
            out.print_reply(&gone.raw, || {
                let name = strip_control_chars(&gone.data.subject.name);
                format!("Removed the grant of {name} on {}.", gone.data.scope)
            })?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns the subject as the API expects it.
fn resolve_subject(client: &ApiClient, text: &str) -> anyhow::Result<String> {
    if text.starts_with("team:") || text.starts_with("user:") {
        return Ok(text.to_owned());
    }
    Ok(format!("user:{}", find_member(client, text)?.id))
}

/// Adds the kind to a short scope: `shop`, `shop/qa-*` or `shop@production`.
pub(super) fn expand_scope(text: &str) -> String {
    match text {
        "org" => text.to_owned(),
        _ if text.contains(':') => text.to_owned(),
        _ if text.contains('/') => format!("environment:{text}"),
        _ if text.contains('@') => format!("stage:{text}"),
        _ => format!("pipeline:{text}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_scope_gets_its_kind() {
        for (short, full) in [
            ("org", "org"),
            ("shop", "pipeline:shop"),
            ("shop/qa-*", "environment:shop/qa-*"),
            ("shop@production", "stage:shop@production"),
            ("stage:shop@production", "stage:shop@production"),
        ] {
            assert_eq!(expand_scope(short), full);
        }
    }
}
