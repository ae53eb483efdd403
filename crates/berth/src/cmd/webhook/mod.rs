//! `berth webhook`: webhooks and their deliveries.

mod delivery;

use std::process::ExitCode;

use berth_api::webhook::{
    WebhookFormat, WebhookNew, WebhookPatch, WebhookPing, WebhookWithSecret, WireWebhook,
};
use clap_complete::ArgValueCandidates;
use serde_json::json;

use crate::client::{ApiClient, ClientError, RECORDS_MAX, RemoteArgs, exit_code, percent_encode};
use crate::complete;
use crate::output::time::{format_ago, format_time_left};
use crate::output::{
    CommandOutput, bold, colour_word, dim, or_dash, print_note, strip_control_chars, wire_word,
};

#[derive(clap::Args)]
pub(crate) struct WebhookArgs {
    #[command(flatten)]
    remote: RemoteArgs,
    #[command(subcommand)]
    command: WebhookCommand,
}

#[derive(clap::Subcommand)]
enum WebhookCommand {
    /// List webhooks and whether their deliveries succeed
    List,
    /// Create a webhook; its signing secret is printed only once
    Create {
        /// Name, also used in pipeline definitions
        name: String,
        /// URL of the receiver
        url: String,
        /// Event kinds to deliver, for example deployment_failed [default: all]
        #[arg(long, value_name = "KIND,…", value_delimiter = ',')]
        events: Vec<String>,
        /// Body format
        #[arg(long, value_enum, default_value_t = BodyFormat::Standard)]
        format: BodyFormat,
    },
    /// Show a webhook
    Show(NamedWebhook),
    /// Change, activate or deactivate a webhook
    Update {
        #[command(flatten)]
        named: NamedWebhook,
        /// New URL of the receiver
        #[arg(long)]
        url: Option<String>,
        /// Event kinds to deliver, or * for all
        #[arg(long, value_name = "KIND,…", value_delimiter = ',')]
        events: Option<Vec<String>>,
        /// Deliver new events again
        #[arg(long, conflicts_with = "deactivate")]
        activate: bool,
        /// Deliver no events until it is activated
        #[arg(long)]
        deactivate: bool,
    },
    /// List the deliveries of a webhook, newest first
    Deliveries {
        #[command(flatten)]
        named: NamedWebhook,
        /// Maximum number of deliveries
        #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u16).range(1..=2000))]
        limit: u16,
    },
    /// Deliver an event again, with the same id and body
    Redeliver {
        #[command(flatten)]
        named: NamedWebhook,
        /// Delivery id (dlv_…) [default: the newest failed delivery]
        delivery: Option<String>,
    },
    /// Send a test message; the exit code is 1 if the receiver does not accept it
    Ping(NamedWebhook),
    /// Replace the signing secret; the old one stays valid for a day
    Rotate(NamedWebhook),
    /// Delete a webhook and its deliveries
    Delete(NamedWebhook),
}

#[derive(clap::Args)]
struct NamedWebhook {
    /// Name or id of the webhook
    #[arg(value_name = "WEBHOOK", add = ArgValueCandidates::new(complete::webhooks))]
    webhook: String,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum BodyFormat {
    /// Signed JSON (Standard Webhooks)
    Standard,
    /// A line of text for Slack and compatible chats
    Slack,
}

impl NamedWebhook {
    fn load(&self, client: &ApiClient) -> anyhow::Result<WireWebhook> {
        let all: Vec<WireWebhook> = client.list("/webhooks", RECORDS_MAX)?.data;
        let found = all.into_iter().find(|it| it.id == self.webhook || it.name == self.webhook);
        Ok(found.ok_or_else(|| {
            let name = strip_control_chars(&self.webhook);
            ClientError::NotFound(format!("no webhook {name}; list them with `berth webhook list`"))
        })?)
    }

    fn path(&self, client: &ApiClient) -> anyhow::Result<String> {
        Ok(format!("/webhooks/{}", percent_encode(&self.load(client)?.id)))
    }
}

pub(crate) fn run(args: &WebhookArgs) -> anyhow::Result<ExitCode> {
    let client = args.remote.client()?;
    let out = args.remote.output();
    match &args.command {
        WebhookCommand::List => list(&client, &out)?,
        WebhookCommand::Create { name, url, events, format } => {
            let body = WebhookNew {
                name: name.clone(),
                url: url.clone(),
                kinds: if events.is_empty() { vec!["*".to_owned()] } else { events.clone() },
                format: Some(match format {
                    BodyFormat::Standard => WebhookFormat::Standard,
                    BodyFormat::Slack => WebhookFormat::Slack,
                }),
                is_active: None,
            };
            let made = client.post::<WebhookWithSecret>("/webhooks", &body)?;
            print_with_secret(&out, &made.raw, &made.data, "Created")?;
            out.print_hint(&format!("Send a test message: berth webhook ping {name}"));
        }
        WebhookCommand::Show(named) => {
            let found = client.get::<WireWebhook>(&named.path(&client)?)?;
            out.print_reply(&found.raw, || describe(&client, &found.data))?;
        }
        WebhookCommand::Update { named, url, events, activate, deactivate } => {
            let body = WebhookPatch {
                name: None,
                url: url.clone(),
                kinds: events.clone(),
                format: None,
                is_active: (*activate || *deactivate).then_some(*activate),
            };
            let changed = client.patch::<WireWebhook>(&named.path(&client)?, &body)?;
            out.print_reply(&changed.raw, || describe(&client, &changed.data))?;
        }
        WebhookCommand::Deliveries { named, limit } => {
            delivery::list(&client, &out, &named.path(&client)?, usize::from(*limit))?;
        }
        WebhookCommand::Redeliver { named, delivery } => {
            delivery::redeliver(&client, &out, &named.path(&client)?, delivery.as_deref())?;
        }
        WebhookCommand::Ping(named) => return ping(&client, &out, &named.path(&client)?),
        WebhookCommand::Rotate(named) => {
            let path = format!("{}/rotate", named.path(&client)?);
            let rotated = client.post::<WebhookWithSecret>(&path, &json!({}))?;
            print_with_secret(&out, &rotated.raw, &rotated.data, "Rotated the secret of")?;
        }
        WebhookCommand::Delete(named) => {
            let gone = client.delete::<WireWebhook>(&named.path(&client)?)?;
            out.print_reply(&gone.raw, || format!("Deleted the webhook {}.", gone.data.name))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn list(client: &ApiClient, out: &CommandOutput) -> anyhow::Result<()> {
    let found = client.list::<WireWebhook>("/webhooks", RECORDS_MAX)?;
    let row = |it: &WireWebhook| {
        vec![
            it.name.clone(),
            state_word(it).to_owned(),
            it.pending.to_string(),
            strip_control_chars(&it.url),
            describe_kinds(&it.kinds),
            wire_word(it.format),
            it.id.clone(),
        ]
    };
    let rows: Vec<_> = found.data.iter().map(row).collect();
    let heading = ["name", "state", "pending", "url", "events", "format", "webhook id"];
    out.print_table(
        &found.raw,
        &heading,
        &rows,
        "No webhooks. Create one with: berth webhook create NAME URL",
    )
}

/// Prints the signing secret to standard output and everything else to standard error, so that it can be piped.
fn print_with_secret(
    out: &CommandOutput,
    raw: &crate::output::RawJson,
    made: &WebhookWithSecret,
    done: &str,
) -> anyhow::Result<()> {
    if !out.json {
        let name = &made.record.name;
        let until = made.record.old_secret_until.as_deref().map(format_time_left);
        let old = until.map_or_else(String::new, |until| format!(" The old secret expires {until}."));
        print_note(&format!("{done} the webhook {name}.{old} Signing secret (not shown again):"));
    }
    out.print_reply(raw, || made.secret.clone().unwrap_or_default())
}

fn ping(client: &ApiClient, out: &CommandOutput, path: &str) -> anyhow::Result<ExitCode> {
    let sent = client.post::<WebhookPing>(&format!("{path}/ping"), &json!({}))?;
    let it = &sent.data;
    out.print_reply(&sent.raw, || {
        let status = it.status.map_or_else(|| "no response".to_owned(), |status| format!("HTTP {status}"));
        let verdict = if it.is_accepted { "accepted" } else { "not accepted" };
        let why = it.error.as_deref().map(|why| format!(": {}", strip_control_chars(why)));
        let excerpt = it.excerpt.as_deref().filter(|text| !text.is_empty());
        let excerpt = excerpt.map(|text| format!("\n{}", dim(&strip_control_chars(text))));
        format!(
            "{verdict}, {status} after {} ms{}{}",
            it.duration_ms,
            why.unwrap_or_default(),
            excerpt.unwrap_or_default()
        )
    })?;
    Ok(if it.is_accepted { ExitCode::SUCCESS } else { ExitCode::from(exit_code::FAILED) })
}

fn state_word(it: &WireWebhook) -> &'static str {
    match (it.is_active, it.failures) {
        (false, _) => "inactive",
        (true, 0) => "active",
        (true, _) => "failing",
    }
}

fn describe_kinds(kinds: &[String]) -> String {
    match kinds {
        [all] if all == "*" => "all".to_owned(),
        kinds => or_dash(Some(&kinds.join(", "))),
    }
}

fn describe(client: &ApiClient, it: &WireWebhook) -> String {
    let mut lines = vec![
        format!("{}  {}", bold(&it.name), colour_word(state_word(it))),
        format!("url      {}", strip_control_chars(&it.url)),
        format!("events   {}", describe_kinds(&it.kinds)),
        format!("format   {}", wire_word(it.format)),
        format!("pending  {}", it.pending),
    ];
    if let Some(deactivated) = &it.deactivated {
        let why = deactivated.reason.as_deref().map(|why| format!(": {}", strip_control_chars(why)));
        lines.push(format!("deactivated {}{}", format_ago(&deactivated.at), why.unwrap_or_default()));
    }
    if it.failures > 0 {
        lines.push(format!("{} failed attempts in a row", it.failures));
    }
    if it.dropped > 0 {
        lines.push(format!("{} events were not delivered because it was too far behind", it.dropped));
    }
    lines.push(dim(&client.dashboard_url("/settings/webhooks")));
    lines.join("\n")
}
