//! Commands that add, change and remove members.

use std::process::ExitCode;

use berth_api::invitation::{InvitationCreated, InvitationNew, WireInvitation};
use berth_api::member::{MemberNew, MemberPatch, WireMember};

use super::find_member;
use crate::client::{ApiClient, ClientError, RECORDS_MAX, percent_encode};
use crate::output::time::{format_ago, format_time_left};
use crate::output::{CommandOutput, or_dash, print_note, strip_control_chars, wire_word};

#[derive(clap::Args)]
pub(super) struct InviteArgs {
    /// E-mail address of the person
    email: String,
    /// Role: viewer, tester, approver, deployer, admin or owner
    #[arg(long, default_value = "deployer")]
    role: String,
    /// Suggested name; the person can change it
    #[arg(long)]
    name: Option<String>,
}

#[derive(clap::Args)]
pub(super) struct AddServiceArgs {
    /// E-mail address of the service account, for example ci@acme.test
    email: String,
    /// Role: viewer, tester, approver, deployer, admin or owner
    #[arg(long, default_value = "deployer")]
    role: String,
    /// Display name [default: the part of the address before the @]
    #[arg(long)]
    name: Option<String>,
}

/// Prints the link to standard output and everything else to standard error, so that it can be piped.
pub(super) fn invite(client: &ApiClient, out: &CommandOutput, args: &InviteArgs) -> anyhow::Result<ExitCode> {
    let body = InvitationNew { email: args.email.clone(), role: args.role.clone(), name: args.name.clone() };
    let made = client.post::<InvitationCreated>("/invitations", &body)?;
    if !out.json {
        let it = &made.data.invitation;
        print_note(&format!(
            "Invited {} as {}. Send them this link (not shown again, expires {}):",
            strip_control_chars(&it.email),
            wire_word(it.role),
            format_time_left(&it.expires_at)
        ));
    }
    out.print_reply(&made.raw, || made.data.url.clone().unwrap_or_default())?;
    Ok(ExitCode::SUCCESS)
}

pub(super) fn list_invitations(client: &ApiClient, out: &CommandOutput) -> anyhow::Result<ExitCode> {
    let found = client.list::<WireInvitation>("/invitations", RECORDS_MAX)?;
    let row = |it: &WireInvitation| {
        vec![
            strip_control_chars(&it.email),
            wire_word(it.role),
            strip_control_chars(&it.invited_by.name),
            format_ago(&it.created_at),
            format_time_left(&it.expires_at),
            or_dash(it.name.as_deref().map(strip_control_chars).as_deref()),
            it.id.clone(),
        ]
    };
    let rows: Vec<_> = found.data.iter().map(row).collect();
    let heading = ["e-mail", "role", "invited by", "invited", "expires", "name", "invitation id"];
    let empty = "No open invitations. Invite a person with: berth member invite EMAIL";
    out.print_table(&found.raw, &heading, &rows, empty)?;
    Ok(ExitCode::SUCCESS)
}

pub(super) fn revoke_invitation(
    client: &ApiClient,
    out: &CommandOutput,
    which: &str,
) -> anyhow::Result<ExitCode> {
    let all: Vec<WireInvitation> = client.list("/invitations", RECORDS_MAX)?.data;
    let found = all.into_iter().find(|it| it.id == which || it.email.eq_ignore_ascii_case(which));
    let found = found.ok_or_else(|| {
        let which = strip_control_chars(which);
        ClientError::NotFound(format!(
            "no open invitation {which}; list them with `berth member invitations`"
        ))
    })?;
    let path = format!("/invitations/{}", percent_encode(&found.id));
    let gone = client.delete::<WireInvitation>(&path)?;
    out.print_reply(&gone.raw, || {
        format!("Revoked the invitation of {}.", strip_control_chars(&gone.data.email))
    })?;
    Ok(ExitCode::SUCCESS)
}

pub(super) fn add_service(
    client: &ApiClient,
    out: &CommandOutput,
    args: &AddServiceArgs,
) -> anyhow::Result<ExitCode> {
    let body = MemberNew {
        email: Some(args.email.clone()),
        role: Some(args.role.clone()),
        name: args.name.clone(),
        kind: Some("service".to_owned()),
        owner_id: None,
        limits: None,
    };
    let made = client.post::<WireMember>("/members", &body)?;
    out.print_reply(&made.raw, || {
        let (name, id) = (strip_control_chars(&made.data.name), &made.data.id);
        format!(
            "Added the service account {name}. Create its token with: berth token create NAME --owner {id}"
        )
    })?;
    Ok(ExitCode::SUCCESS)
}

pub(super) fn change_role(
    client: &ApiClient,
    out: &CommandOutput,
    member: &str,
    role: &str,
) -> anyhow::Result<ExitCode> {
    let member = find_member(client, member)?;
    let body = MemberPatch { role: Some(role.to_owned()), limits: None };
    let path = format!("/members/{}", percent_encode(&member.id));
    let changed = client.patch::<WireMember>(&path, &body)?;
    out.print_reply(&changed.raw, || {
        let (before, now) = (wire_word(member.role), wire_word(changed.data.role));
        format!("{} is now {now} (before: {before}).", strip_control_chars(&changed.data.name))
    })?;
    Ok(ExitCode::SUCCESS)
}

pub(super) fn remove(client: &ApiClient, out: &CommandOutput, member: &str) -> anyhow::Result<ExitCode> {
    let member = find_member(client, member)?;
    let gone = client.delete::<WireMember>(&format!("/members/{}", percent_encode(&member.id)))?;
    out.print_reply(&gone.raw, || {
        format!("Removed {} from the organization.", strip_control_chars(&gone.data.name))
    })?;
    Ok(ExitCode::SUCCESS)
}
