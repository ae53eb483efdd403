//! Registries on a server.

use berth_api::registry::{StepRegistry, StepRegistryNew, StepRegistryStatus};
use serde_json::json;

use crate::client::{ApiClient, ApiReply, RECORDS_MAX, percent_encode};
use crate::output::{CommandOutput, colour_word, dim, or_dash, short_commit, strip_control_chars, wire_word};

pub(super) fn list_registries(client: &ApiClient, out: &CommandOutput) -> anyhow::Result<()> {
    let found = client.list::<StepRegistry>("/step-registries", RECORDS_MAX)?;
    let row = |it: &StepRegistry| {
        let steps: Vec<_> = it.steps.iter().map(|step| step.key.as_str()).collect();
        let commit = it.last_good.as_ref().map(|good| short_commit(&good.commit));
        vec![
            it.name.clone(),
            wire_word(it.status),
            or_dash(commit),
            or_dash(Some(&steps.join(", "))),
            it.url.clone(),
            or_dash(it.error.as_deref().map(strip_control_chars).as_deref()),
        ]
    };
    let rows: Vec<_> = found.data.iter().map(row).collect();
    let empty =
        "No registries. Create one with `berth registry new NAME` and add it with `berth registry add`.";
    out.print_table(&found.raw, &["name", "status", "version", "steps", "repository", "error"], &rows, empty)
}

pub(super) fn add_registry(
    client: &ApiClient,
    out: &CommandOutput,
    name: &str,
    url: &str,
    reference: Option<String>,
    credential: Option<String>,
) -> anyhow::Result<()> {
    let body = StepRegistryNew { name: name.to_owned(), url: url.to_owned(), r#ref: reference, credential };
    print_registry(client, out, &client.post("/step-registries", &body)?)
}

pub(super) fn sync_registry(client: &ApiClient, out: &CommandOutput, name: &str) -> anyhow::Result<()> {
    print_registry(
        client,
        out,
        &client.post(&format!("/step-registries/{}/sync", percent_encode(name)), &json!({}))?,
    )
}

pub(super) fn remove_registry(
    client: &ApiClient,
    out: &CommandOutput,
    name: &str,
    force: bool,
) -> anyhow::Result<()> {
    let gone =
        client.delete::<StepRegistry>(&format!("/step-registries/{}?force={force}", percent_encode(name)))?;
    out.print_reply(&gone.raw, || format!("Removed {}.", gone.data.name))
}

fn print_registry(
    client: &ApiClient,
    out: &CommandOutput,
    reply: &ApiReply<StepRegistry>,
) -> anyhow::Result<()> {
    let it = &reply.data;
    out.print_reply(&reply.raw, || {
        let next = match it.status {
            StepRegistryStatus::Ready => "",
            StepRegistryStatus::Failed => ": see its builds in the dashboard",
            StepRegistryStatus::Pending | StepRegistryStatus::Building => {
                ": check the build with `berth registry list`"
            }
        };
        format!(
            "{} {}{next}\n{}",
            it.name,
            colour_word(&wire_word(it.status)),
            dim(&client.dashboard_url("/settings/custom-steps"))
        )
    })
}
