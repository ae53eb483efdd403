//! `berth repo connect` and `berth repo deliveries`: the connection of a repository to its forge.

use berth_api::connection::{ConnectionTest, ConnectionWithSecret, RepositoryConnection, WireHookDelivery};
use berth_api::forge_app::{AppConnection, AppConnectionStatus};
use serde_json::{Value, json};

use crate::client::{ApiClient, RECORDS_MAX};
use crate::output::time::format_ago;
use crate::output::{CommandOutput, strip_control_chars};

/// What to do with a connection.
pub(super) enum ConnectionAction<'a> {
    Connect { forge: Option<&'a str> },
    ConnectWithApp,
    Show,
    Test,
    Rotate,
    Disconnect,
}

impl ConnectionAction<'_> {
    pub(super) fn run(&self, client: &ApiClient, out: &CommandOutput, path: &str) -> anyhow::Result<()> {
        match self {
            ConnectionAction::Connect { forge } => {
                let body = forge.map_or_else(|| json!({}), |forge| json!({"forge": forge}));
                let made = client.post::<ConnectionWithSecret>(path, &body)?;
                out.print_reply(&made.raw, || describe_with_secret(&made.data))
            }
            ConnectionAction::ConnectWithApp => {
                let made = client.post::<AppConnection>(&format!("{path}/app"), &json!({}))?;
                out.print_reply(&made.raw, || describe_app_connection(&made.data))
            }
            ConnectionAction::Rotate => {
                let made = client.post::<ConnectionWithSecret>(&format!("{path}/rotate"), &json!({}))?;
                out.print_reply(&made.raw, || describe_with_secret(&made.data))
            }
            ConnectionAction::Show => {
                let found = client.get::<RepositoryConnection>(path)?;
                out.print_reply(&found.raw, || describe(&found.data))
            }
            ConnectionAction::Test => {
                let asked = client.post::<ConnectionTest>(&format!("{path}/test"), &json!({}))?;
                out.print_reply(&asked.raw, || match &asked.data.detail {
                    None => "test delivery requested".to_owned(),
                    Some(detail) => format!("no test delivery: {}", strip_control_chars(detail)),
                })
            }
            ConnectionAction::Disconnect => {
                let gone = client.delete::<RepositoryConnection>(path)?;
                out.print_reply(&gone.raw, || match &gone.data.error {
                    None => "disconnected".to_owned(),
                    Some(error) => format!("disconnected; {}", strip_control_chars(error)),
                })
            }
        }
    }
}

pub(super) fn list_deliveries(client: &ApiClient, out: &CommandOutput, path: &str) -> anyhow::Result<()> {
    let found = client.list::<WireHookDelivery>(path, RECORDS_MAX)?;
    let row = |it: &WireHookDelivery| {
        let texts = [&it.kind, &it.outcome, &it.id].map(|text| strip_control_chars(text));
        let [kind, outcome, id] = texts;
        vec![format_ago(&it.received_at), kind, outcome, id]
    };
    let rows: Vec<_> = found.data.iter().map(row).collect();
    let heading = ["received", "kind", "outcome", "id"];
    out.print_table(
        &found.raw,
        &heading,
        &rows,
        "No deliveries. Connect the repository with `berth repo connect`, and test it with `--test`.",
    )
}

/// Describes what is left to do to connect a repository through an app.
fn describe_app_connection(made: &AppConnection) -> String {
    let url = strip_control_chars(made.url.as_deref().unwrap_or_default());
    match made.status {
        AppConnectionStatus::Connected => made.connection.as_ref().map(describe).unwrap_or_default(),
        AppConnectionStatus::InstallationRequired => {
            format!("Install the GitHub App for the repository, and run the command again:\n  {url}")
        }
        AppConnectionStatus::AppRequired => {
            format!(
                "Open this page in a browser to create the GitHub App and connect the repository:\n  {url}"
            )
        }
    }
}

/// Describes a connection, with the secret if it must be entered on the forge.
fn describe_with_secret(made: &ConnectionWithSecret) -> String {
    let secret = made.secret.as_ref().map(|secret| format!("\nSecret, shown only once: {secret}"));
    format!("{}{}", describe(&made.record), secret.unwrap_or_default())
}

fn describe(it: &RepositoryConnection) -> String {
    let forge = serde_json::to_value(it.forge).unwrap_or(Value::Null);
    let forge = forge.as_str().unwrap_or_default();
    let state = match (it.is_verified, it.is_managed) {
        (true, _) => "connected, deliveries arrive",
        (false, true) if it.app.is_some() => "connected, no delivery yet",
        (false, true) => "webhook created, no delivery yet",
        (false, false) => "webhook not verified yet",
    };
    let error = it.error.as_ref().map(|error| format!("\n{}", strip_control_chars(error)));
    let steps: String =
        it.instructions.iter().map(|step| format!("\n  {}", strip_control_chars(step))).collect();
    let app =
        it.app.as_ref().map(|app| format!(" through the GitHub App {}", strip_control_chars(&app.name)));
    format!("{forge}{}: {state}{}{steps}", app.unwrap_or_default(), error.unwrap_or_default())
}
