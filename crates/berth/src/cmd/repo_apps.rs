//! `berth repo apps`: the GitHub Apps of the organization.

use berth_api::forge_app::WireForgeApp;

use crate::client::ApiClient;
use crate::output::{CommandOutput, strip_control_chars};

pub(super) fn list_apps(client: &ApiClient, out: &CommandOutput) -> anyhow::Result<()> {
    let found = client.get::<Vec<WireForgeApp>>("/forge-apps")?;
    let row = |it: &WireForgeApp| {
        let installed = if it.is_installed { "yes" } else { "no" };
        let repositories = it.repositories.to_string();
        vec![
            strip_control_chars(&it.name),
            it.origin.clone(),
            installed.to_owned(),
            repositories,
            it.id.clone(),
        ]
    };
    let rows: Vec<_> = found.data.iter().map(row).collect();
    let heading = ["app", "forge", "installed", "repositories", "id"];
    let none = "No GitHub Apps. Create one with `berth repo connect REPOSITORY --app`.";
    out.print_table(&found.raw, &heading, &rows, none)
}

pub(super) fn delete_app(client: &ApiClient, out: &CommandOutput, id: &str) -> anyhow::Result<()> {
    let gone = client.delete::<WireForgeApp>(&format!("/forge-apps/{id}"))?;
    out.print_reply(&gone.raw, || {
        format!("{} deleted; delete it on the forge, too", strip_control_chars(&gone.data.name))
    })
}
