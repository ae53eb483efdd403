//! `berth chat`: chat destinations, and the Slack app of the organization.

use std::io::{IsTerminal as _, Read as _};
use std::process::ExitCode;

use berth_api::chat::{
    ChatDestinationNew, ChatDestinationType, SlackConnectionPut, SlackSettings, WireChatDestination,
};
use serde_json::json;

use crate::client::{ApiClient, RECORDS_MAX, RemoteArgs, percent_encode};
use crate::output::time::format_ago;
use crate::output::{CommandOutput, bold, colour_word, or_dash, print_note, strip_control_chars, wire_word};

/// Maximum number of bytes read from standard input.
const INPUT_BYTES_MAX: u64 = 4_096;

#[derive(clap::Args)]
pub(crate) struct ChatArgs {
    #[command(flatten)]
    remote: RemoteArgs,
    #[command(subcommand)]
    command: ChatCommand,
}

#[derive(clap::Subcommand)]
enum ChatCommand {
    /// List chat destinations and whether their messages are delivered
    List,
    /// Add a chat destination; the URL of a webhook is read from standard input
    Add {
        /// Name, used in notification rules
        name: String,
        /// Type of the destination
        #[arg(long, value_enum)]
        to: ChatKind,
        /// Id of the Slack channel
        #[arg(long, value_name = "ID", required_if_eq("to", "slack-channel"))]
        channel: Option<String>,
    },
    /// Show a chat destination
    Show(NamedDestination),
    /// Send a test message
    Test(NamedDestination),
    /// Delete a chat destination
    Delete(NamedDestination),
    /// Show the Slack connection and the manifest of the Slack app
    Slack {
        /// Print only the manifest, to create the app at api.slack.com/apps
        #[arg(long)]
        manifest: bool,
    },
    /// Connect the Slack app; its signing secret and its bot token are read from two lines of standard input
    SlackConnect {
        /// URL of Slack's Web API [default: https://slack.com/api/]
        #[arg(long, value_name = "URL")]
        api_url: Option<String>,
    },
    /// Disconnect the Slack app and delete its secrets
    SlackDisconnect,
}

#[derive(clap::Args)]
struct NamedDestination {
    /// Name or id of the destination
    #[arg(value_name = "DESTINATION")]
    destination: String,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum ChatKind {
    /// Incoming webhook of Slack
    SlackWebhook,
    /// Workflow of Microsoft Teams
    TeamsWebhook,
    /// Slack channel, through the Slack app
    SlackChannel,
}

impl NamedDestination {
    fn path(&self) -> String {
        format!("/chat-destinations/{}", percent_encode(&self.destination))
    }
}

pub(crate) fn run(args: &ChatArgs) -> anyhow::Result<ExitCode> {
    let client = args.remote.client()?;
    let out = args.remote.output();
    match &args.command {
        ChatCommand::List => list(&client, &out)?,
        ChatCommand::Add { name, to, channel } => {
            let kind = match to {
                ChatKind::SlackWebhook => ChatDestinationType::SlackWebhook,
                ChatKind::TeamsWebhook => ChatDestinationType::TeamsWebhook,
                ChatKind::SlackChannel => ChatDestinationType::SlackChannel,
            };
            let url = match to {
                ChatKind::SlackChannel => None,
                ChatKind::SlackWebhook | ChatKind::TeamsWebhook => {
                    let [url] = read_lines("Enter the URL of the webhook:")?;
                    Some(url)
                }
            };
            let body = ChatDestinationNew { name: name.clone(), kind, url, channel: channel.clone() };
            let made = client.post::<WireChatDestination>("/chat-destinations", &body)?;
            out.print_reply(&made.raw, || format!("Added the chat destination {}.", made.data.name))?;
            out.print_hint(&format!("Send a test message: berth chat test {name}"));
        }
        ChatCommand::Show(named) => {
            let found = client.get::<WireChatDestination>(&named.path())?;
            out.print_reply(&found.raw, || describe(&found.data))?;
        }
        ChatCommand::Test(named) => {
            let sent = client.post::<WireChatDestination>(&format!("{}/test", named.path()), &json!({}))?;
            out.print_reply(&sent.raw, || format!("Sending a test message to {}.", sent.data.name))?;
            out.print_hint(&format!("See whether it was delivered: berth chat show {}", sent.data.name));
        }
        ChatCommand::Delete(named) => {
            let gone = client.delete::<WireChatDestination>(&named.path())?;
            out.print_reply(&gone.raw, || format!("Deleted the chat destination {}.", gone.data.name))?;
        }
        ChatCommand::Slack { manifest } => {
            let found = client.get::<SlackSettings>("/slack")?;
            let text = serde_json::to_string_pretty(&found.data.manifest)?;
            out.print_reply(&found.raw, || if *manifest { text } else { describe_slack(&found.data) })?;
        }
        ChatCommand::SlackConnect { api_url } => {
            let prompt = "Enter the signing secret and then the bot token of the Slack app, each on a line:";
            let [signing_secret, bot_token] = read_lines(prompt)?;
            let body = SlackConnectionPut { signing_secret, bot_token, api_url: api_url.clone() };
            let made = client.put::<SlackSettings>("/slack", &body)?;
            out.print_reply(&made.raw, || describe_slack(&made.data))?;
        }
        ChatCommand::SlackDisconnect => {
            let gone = client.delete::<SlackSettings>("/slack")?;
            out.print_reply(&gone.raw, || "Disconnected Slack.".to_owned())?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Reads secrets from standard input, so that they appear neither in the list of processes nor in the shell's history.
fn read_lines<const N: usize>(prompt: &str) -> anyhow::Result<[String; N]> {
    if std::io::stdin().is_terminal() {
        print_note(&format!("{prompt} (end with Ctrl-D)"));
    }
    let mut text = String::new();
    std::io::stdin().lock().take(INPUT_BYTES_MAX).read_to_string(&mut text)?;
    let lines: Vec<String> =
        text.lines().map(|line| line.trim().to_owned()).filter(|it| !it.is_empty()).collect();
    let count = lines.len();
    lines.try_into().map_err(|_| anyhow::anyhow!("expected {N} lines on standard input, found {count}"))
}

fn list(client: &ApiClient, out: &CommandOutput) -> anyhow::Result<()> {
    let found = client.list::<WireChatDestination>("/chat-destinations", RECORDS_MAX)?;
    let row = |it: &WireChatDestination| {
        vec![
            it.name.clone(),
            state_word(it).to_owned(),
            it.pending.to_string(),
            wire_word(it.kind),
            or_dash(address(it).as_deref()),
            it.id.clone(),
        ]
    };
    let rows: Vec<_> = found.data.iter().map(row).collect();
    let heading = ["name", "state", "pending", "type", "to", "destination id"];
    let empty = "No chat destinations. Add one with: berth chat add NAME --to slack-webhook";
    out.print_table(&found.raw, &heading, &rows, empty)
}

fn address(it: &WireChatDestination) -> Option<String> {
    it.host.as_ref().or(it.channel.as_ref()).map(|text| strip_control_chars(text))
}

fn state_word(it: &WireChatDestination) -> &'static str {
    if it.failures > 0 { "failing" } else { "active" }
}

fn describe(it: &WireChatDestination) -> String {
    let delivered = it.delivered_at.as_deref().map(format_ago);
    let mut lines = vec![
        format!("{}  {}", bold(&it.name), colour_word(state_word(it))),
        format!("type       {}", wire_word(it.kind)),
        format!("to         {}", or_dash(address(it).as_deref())),
        format!("pending    {}", it.pending),
        format!("delivered  {}", or_dash(delivered.as_deref())),
    ];
    if let Some(error) = &it.error {
        lines.push(format!("{} failed attempts in a row: {}", it.failures, strip_control_chars(error)));
    }
    lines.join("\n")
}

fn describe_slack(it: &SlackSettings) -> String {
    match &it.connection {
        Some(found) => format!(
            "Connected to the Slack workspace {} ({}).",
            strip_control_chars(&found.workspace),
            strip_control_chars(&found.workspace_id)
        ),
        None => "Not connected. Create a Slack app from `berth chat slack --manifest` at https://api.slack.com/apps, \
                 install it, and run `berth chat slack-connect`."
            .to_owned(),
    }
}
