//! `berth member`: members, and what they may do.

mod account;

use std::process::ExitCode;

use anyhow::{Context as _, bail};
use berth_api::grant::{MemberAccess, PermissionAccess};
use berth_api::login::LoginsEnded;
use berth_api::member::WireMember;
use clap_complete::ArgValueCandidates;

use self::account::{AddServiceArgs, InviteArgs};
use super::grant::expand_scope;
use crate::client::{ApiClient, RECORDS_MAX, RemoteArgs, percent_encode};
use crate::complete;
use crate::output::strip_control_chars;

#[derive(clap::Args)]
pub(crate) struct MemberArgs {
    #[command(flatten)]
    remote: RemoteArgs,
    #[command(subcommand)]
    command: MemberCommand,
}

#[derive(clap::Subcommand)]
enum MemberCommand {
    /// List members and their roles
    List,
    /// Invite a person; the link is printed only once
    Invite(InviteArgs),
    /// List open invitations
    Invitations,
    /// Revoke an open invitation
    RevokeInvitation {
        /// Invitation id (inv_…) or e-mail address
        invitation: String,
    },
    /// Add a service account, for CI and other programs
    AddService(AddServiceArgs),
    /// Change the role of a member
    Role {
        /// E-mail address, name or id of a member
        #[arg(add = ArgValueCandidates::new(complete::members))]
        member: String,
        /// viewer, tester, approver, deployer, admin or owner
        role: String,
    },
    /// Remove a member from the organization; their API tokens are revoked
    Remove {
        /// E-mail address, name or id of a member
        #[arg(add = ArgValueCandidates::new(complete::members))]
        member: String,
    },
    /// Show what a member may do, and which role or grant allows it
    Access {
        /// E-mail address, name or id of a member
        #[arg(add = ArgValueCandidates::new(complete::members))]
        member: String,
        /// shop, shop/qa-1, shop@production or org
        #[arg(default_value = "org")]
        resource: String,
        /// Show only this permission, such as stages:deploy; the exit code is 1 if it is missing
        #[arg(long)]
        permission: Option<String>,
    },
    /// End all logins of a member in browsers; API tokens stay
    LogOut {
        /// E-mail address, name or id of a member
        #[arg(add = ArgValueCandidates::new(complete::members))]
        member: String,
    },
    /// Remove the second factor of a member who has lost it
    ResetSecondFactor {
        /// E-mail address, name or id of a member
        #[arg(add = ArgValueCandidates::new(complete::members))]
        member: String,
    },
}

pub(crate) fn run(args: &MemberArgs) -> anyhow::Result<ExitCode> {
    let client = args.remote.client()?;
    let out = args.remote.output();
    match &args.command {
        MemberCommand::List => {
            let found = client.list::<WireMember>("/members", RECORDS_MAX)?;
            let row = |it: &WireMember| {
                let role = serde_json::to_value(it.role).unwrap_or_default();
                vec![
                    strip_control_chars(&it.name),
                    strip_control_chars(&it.email),
                    role.as_str().unwrap_or_default().to_owned(),
                    it.id.clone(),
                ]
            };
            let rows: Vec<_> = found.data.iter().map(row).collect();
            out.print_table(&found.raw, &["name", "e-mail", "role", "id"], &rows, "No members.")?;
            Ok(ExitCode::SUCCESS)
        }
        MemberCommand::Invite(args) => account::invite(&client, &out, args),
        MemberCommand::Invitations => account::list_invitations(&client, &out),
        MemberCommand::RevokeInvitation { invitation } => {
            account::revoke_invitation(&client, &out, invitation)
        }
        MemberCommand::AddService(args) => account::add_service(&client, &out, args),
        MemberCommand::Role { member, role } => account::change_role(&client, &out, member, role),
        MemberCommand::Remove { member } => account::remove(&client, &out, member),
        MemberCommand::Access { member, resource, permission } => {
            let member = find_member(&client, member)?;
            let resource = percent_encode(&expand_scope(resource));
            let path = format!("/members/{}/access?resource={resource}", percent_encode(&member.id));
            let found = client.get::<MemberAccess>(&path)?;
            let is_shown =
                |it: &&PermissionAccess| permission.as_ref().is_none_or(|one| *one == it.permission);
            let shown: Vec<&PermissionAccess> = found.data.permissions.iter().filter(is_shown).collect();
            if shown.is_empty() {
                bail!(
                    "there is no permission {}; docs/permissions.md lists all permissions",
                    permission.as_deref().unwrap_or_default()
                );
            }
            let rows: Vec<_> = shown.iter().map(|it| permission_row(it)).collect();
            out.print_table(&found.raw, &["permission", "allowed", "because of"], &rows, "No permissions.")?;
            let is_missing = permission.is_some() && shown.iter().any(|it| !it.allowed);
            Ok(if is_missing { ExitCode::FAILURE } else { ExitCode::SUCCESS })
        }
        MemberCommand::LogOut { member } => {
            let member = find_member(&client, member)?;
            let path = format!("/members/{}/logout", percent_encode(&member.id));
            let ended = client.post::<LoginsEnded>(&path, &serde_json::json!({}))?;
            out.print_reply(&ended.raw, || {
                let (name, count) = (strip_control_chars(&member.name), ended.data.logins_ended);
                let logins = if count == 1 { "login" } else { "logins" };
                format!("Logged {name} out everywhere ({count} {logins} ended). Their API tokens stay valid.")
            })?;
            Ok(ExitCode::SUCCESS)
        }
        MemberCommand::ResetSecondFactor { member } => {
            let member = find_member(&client, member)?;
            let path = format!("/members/{}/second-factor", percent_encode(&member.id));
            let reset = client.delete::<WireMember>(&path)?;
            out.print_reply(&reset.raw, || {
                format!(
                    "Reset the second factor of {}. They can now log in with the password alone.",
                    strip_control_chars(&reset.data.name)
                )
            })?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

fn permission_row(it: &PermissionAccess) -> Vec<String> {
    let because = it.granted_by.as_ref().map(|by| {
        let role = serde_json::to_value(by.role).unwrap_or_default();
        let role = role.as_str().unwrap_or_default().to_owned();
        match (&by.grant_id, &by.team) {
            (None, _) => format!("role {role} in the organization"),
            (Some(_), None) => format!("role {role} on {}", by.scope),
            (Some(_), Some(team)) => {
                format!("role {role} on {}, team {}", by.scope, strip_control_chars(team))
            }
        }
    });
    let allowed = if it.allowed { "yes" } else { "no" };
    vec![it.permission.clone(), allowed.to_owned(), because.unwrap_or_else(|| "-".to_owned())]
}

/// Finds a member by id, e-mail address, name, or the part of the address before the @.
pub(super) fn find_member(client: &ApiClient, text: &str) -> anyhow::Result<WireMember> {
    let all = client.list::<WireMember>("/members", RECORDS_MAX)?.data;
    let is_same = |one: &str| one.eq_ignore_ascii_case(text);
    let exact = all.iter().find(|it| it.id == text || is_same(&it.email));
    if let Some(found) = exact {
        return Ok(found.clone());
    }
    let is_named = |it: &&WireMember| is_same(&it.name) || it.email.split('@').next().is_some_and(is_same);
    let mut named = all.iter().filter(is_named);
    let found = named.next().with_context(|| {
        format!("no member is called {}; run berth member list", strip_control_chars(text))
    })?;
    match named.next() {
        None => Ok(found.clone()),
        Some(other) => bail!(
            "{} can mean {} or {}; use the e-mail address",
            strip_control_chars(text),
            strip_control_chars(&found.email),
            strip_control_chars(&other.email)
        ),
    }
}
