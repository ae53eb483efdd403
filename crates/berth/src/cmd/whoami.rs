//! `berth whoami`: the account, organization and server that commands use.

use std::process::ExitCode;

use berth_api::auth::CurrentUser;
use berth_api::organization::WireOrganization;

use crate::client::{ApiClient, RemoteArgs};
use crate::output::{bold, dim, strip_control_chars, wire_word};

#[derive(clap::Args)]
pub(crate) struct WhoamiArgs {
    #[command(flatten)]
    remote: RemoteArgs,
}

pub(crate) fn run(args: &WhoamiArgs) -> anyhow::Result<ExitCode> {
    let client = args.remote.client()?;
    let me = client.get::<CurrentUser>("/api/v1/me")?;
    args.remote.output().print_reply(&me.raw, || describe(&client, &me.data))?;
    Ok(ExitCode::SUCCESS)
}

fn describe(client: &ApiClient, me: &CurrentUser) -> String {
    let (name, email) = (strip_control_chars(&me.user.name), strip_control_chars(&me.user.email));
    let admin = if me.is_instance_admin { ", instance admin" } else { "" };
    let mut lines = vec![format!("{} <{email}>{admin}", bold(&name))];
    let used = me.organizations.iter().find(|it| it.slug == client.organization());
    match used {
        Some(organization) => lines.extend(describe_organization(organization)),
        None => lines.push(format!("not a member of {}", strip_control_chars(client.organization()))),
    }
    let others: Vec<_> = me.organizations.iter().map(|it| it.slug.as_str()).collect();
    let others: Vec<_> = others.into_iter().filter(|slug| *slug != client.organization()).collect();
    if !others.is_empty() {
        lines.push(format!("also in {}; choose with --org", others.join(", ")));
    }
    lines.push(dim(&client.dashboard_url("")));
    lines.join("\n")
}

fn describe_organization(it: &WireOrganization) -> Vec<String> {
    let mut lines = vec![format!("{} in {}", wire_word(it.role), strip_control_chars(&it.name))];
    lines.extend(it.grants.iter().map(|grant| format!("{} on {}", wire_word(grant.role), grant.scope)));
    if !it.teams.is_empty() {
        lines.push(format!("teams {}", it.teams.join(", ")));
    }
    lines
}
