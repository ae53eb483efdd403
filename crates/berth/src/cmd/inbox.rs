//! `berth inbox`: notifications.

use std::process::ExitCode;

use berth_api::notification::{NotificationsRead, WireNotification};
use serde_json::json;

use crate::client::{ApiClient, RECORDS_MAX, RemoteArgs};
use crate::output::time::format_ago;
use crate::output::{CommandOutput, strip_control_chars};

#[derive(clap::Args)]
pub(crate) struct InboxArgs {
    #[command(flatten)]
    remote: RemoteArgs,
    /// Only notifications that you have not read
    #[arg(long, conflicts_with = "all_read")]
    unread: bool,
    /// Mark all notifications as read
    #[arg(long)]
    all_read: bool,
    /// Maximum number of notifications
    #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(u16).range(1..=1000))]
    limit: u16,
}

pub(crate) fn run(args: &InboxArgs) -> anyhow::Result<ExitCode> {
    let client = args.remote.client()?;
    let out = args.remote.output();
    if args.all_read {
        let done = client.post::<NotificationsRead>("/notifications/read-all", &json!({}))?;
        out.print_reply(&done.raw, || match done.data.read {
            0 => "No unread notifications.".to_owned(),
            1 => "Marked 1 notification as read.".to_owned(),
            count => format!("Marked {count} notifications as read."),
        })?;
        return Ok(ExitCode::SUCCESS);
    }
    list(&client, &out, args)
}

fn list(client: &ApiClient, out: &CommandOutput, args: &InboxArgs) -> anyhow::Result<ExitCode> {
    let path = if args.unread { "/notifications?unread=true" } else { "/notifications" };
    let found = client.list::<WireNotification>(path, usize::from(args.limit).min(RECORDS_MAX))?;
    let row = |it: &WireNotification| {
        vec![
            if it.read_at.is_none() { "new".to_owned() } else { String::new() },
            format_ago(&it.created_at),
            strip_control_chars(&it.summary),
        ]
    };
    let rows: Vec<_> = found.data.iter().map(row).collect();
    let empty = if args.unread { "No unread notifications." } else { "No notifications." };
    out.print_table(&found.raw, &["", "time", "notification"], &rows, empty)?;
    Ok(ExitCode::SUCCESS)
}
