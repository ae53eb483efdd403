//! `berth repo connect` and `berth repo deliveries`: the connection of a repository to its forge.

use berth_api::connection::{ConnectionTest, ConnectionWithSecret, RepositoryConnection, WireHookDelivery};
use serde_json::{Value, json};

use crate::client::{ApiClient, RECORDS_MAX};
use crate::output::time::format_ago;
use crate::output::{CommandOutput, strip_control_chars};

/// What to do with a connection.
pub(super) enum ConnectionAction<'a> {
    Connect { forge: Option<&'a str> },
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
        (false, true) => "webhook created, no delivery yet",
        (false, false) => "webhook not verified yet",
    };
    let error = it.error.as_ref().map(|error| format!("\n{}", strip_control_chars(error)));
    let steps: String =
        it.instructions.iter().map(|step| format!("\n  {}", strip_control_chars(step))).collect();
    format!("{forge}: {state}{}{steps}", error.unwrap_or_default())
}
