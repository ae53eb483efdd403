//! Registries on a server.

use berth_api::registry::{StepRegistry, StepRegistryNew, StepRegistryStatus};
use serde_json::json;

use crate::client::{Client, RECORDS_MAX, Reply, escaped};
use crate::output::{Output, coloured, dim, harmless, or_dash, word};

pub(super) fn list(client: &Client, out: &Output) -> anyhow::Result<()> {
    let found = client.list::<StepRegistry>("/step-registries", RECORDS_MAX)?;
    let row = |it: &StepRegistry| {
        let steps: Vec<_> = it.steps.iter().map(|step| step.key.as_str()).collect();
        let commit = it.last_good.as_ref().map(|good| &good.commit[..good.commit.len().min(10)]);
        vec![
            it.name.clone(),
            word(it.status),
            or_dash(commit),
            or_dash(Some(&steps.join(", "))),
            it.url.clone(),
            or_dash(it.error.as_deref().map(harmless).as_deref()),
        ]
    };
    let rows: Vec<_> = found.data.iter().map(row).collect();
    let empty =
        "No registries. Create one with `berth registry new NAME` and add it with `berth registry add`.";
    out.table(&found.raw, &["name", "status", "version", "steps", "repository", "error"], &rows, empty)
}

pub(super) fn add(
    client: &Client,
    out: &Output,
    name: &str,
    url: &str,
    reference: Option<String>,
    credential: Option<String>,
) -> anyhow::Result<()> {
    let body = StepRegistryNew { name: name.to_owned(), url: url.to_owned(), r#ref: reference, credential };
    told(client, out, &client.post("/step-registries", &body)?)
}

pub(super) fn sync(client: &Client, out: &Output, name: &str) -> anyhow::Result<()> {
    told(client, out, &client.post(&format!("/step-registries/{}/sync", escaped(name)), &json!({}))?)
}

pub(super) fn remove(client: &Client, out: &Output, name: &str, force: bool) -> anyhow::Result<()> {
    let gone = client.delete::<StepRegistry>(&format!("/step-registries/{}?force={force}", escaped(name)))?;
    out.told(&gone.raw, || format!("Removed {}.", gone.data.name))
}

fn told(client: &Client, out: &Output, reply: &Reply<StepRegistry>) -> anyhow::Result<()> {
    let it = &reply.data;
    out.told(&reply.raw, || {
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
            coloured(&word(it.status)),
            dim(&client.page("/settings/custom-steps"))
        )
    })
}
