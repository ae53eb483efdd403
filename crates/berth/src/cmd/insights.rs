//! `berth insights`: the four DORA metrics.

use std::process::ExitCode;

use berth_api::insights::{DeliveryDay, DeliveryInsights};
use clap_complete::ArgValueCandidates;
use jiff::{Timestamp, ToSpan as _};

use crate::client::{ApiClient, RemoteArgs, percent_encode};
use crate::complete;
use crate::output::time::format_duration;
use crate::output::{CommandOutput, bold, dim};

/// A day less than the maximum in the API, because the server's clock may be ahead.
const DAYS_MAX: i64 = 365;
const HOURS_PER_DAY: i64 = 24;

#[derive(clap::Args)]
pub(crate) struct InsightsArgs {
    #[command(flatten)]
    remote: RemoteArgs,
    /// Only deployments of this pipeline
    #[arg(long, short, env = "BERTH_PIPELINE", add = ArgValueCandidates::new(complete::pipelines))]
    pipeline: Option<String>,
    /// Length of the period, up to now
    #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(i64).range(1..=DAYS_MAX))]
    days: i64,
    /// List each day with a deployment
    #[arg(long)]
    daily: bool,
}

pub(crate) fn run(args: &InsightsArgs) -> anyhow::Result<ExitCode> {
    let client = args.remote.client()?;
    let out = args.remote.output();
    let from = Timestamp::now().checked_sub((args.days * HOURS_PER_DAY).hours())?;
    let mut path = format!("/insights?from={}", percent_encode(&from.to_string()));
    if let Some(pipeline) = &args.pipeline {
        path.push_str(&format!("&pipeline={}", percent_encode(pipeline)));
    }
    let found = client.get::<DeliveryInsights>(&path)?;
    if args.daily && !out.json {
        print_days(&out, &found.raw, &found.data)?;
    } else {
        out.print_reply(&found.raw, || describe(&client, args, &found.data))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn print_days(
    out: &CommandOutput,
    raw: &crate::output::RawJson,
    it: &DeliveryInsights,
) -> anyhow::Result<()> {
    let busy = it.days.iter().filter(|day| day.deployments > 0 || day.failed > 0);
    let row = |day: &DeliveryDay| {
        vec![
            day.date.clone(),
            day.deployments.to_string(),
            day.failed.to_string(),
            or_none(day.lead_time_seconds),
            or_none(day.restore_seconds),
        ]
    };
    let rows: Vec<_> = busy.map(row).collect();
    let heading = ["date", "deployments", "failed", "lead time", "time to restore"];
    out.print_table(raw, &heading, &rows, "No deployments in this period.")
}

fn describe(client: &ApiClient, args: &InsightsArgs, it: &DeliveryInsights) -> String {
    let (frequency, lead, failures, restore) =
        (&it.deployment_frequency, &it.lead_time, &it.change_failure_rate, &it.time_to_restore);
    let of = args.pipeline.as_deref().map_or_else(String::new, |pipeline| format!(" of {pipeline}"));
    let mut lines = vec![bold(&format!("Deployments{of} in the last {} days", args.days))];
    lines.push(match frequency.deployments {
        0 => "deployment frequency  no deployments".to_owned(),
        count => format!("deployment frequency  {:.1} per day ({count} in total)", frequency.per_day),
    });
    let p90 = lead.p90_seconds.map_or_else(String::new, |p90| format!(", p90 {}", format_duration(p90)));
    lines.push(format!("lead time             {}{p90}", or_none(lead.median_seconds)));
    lines.push(match failures.rate {
        None => "change failure rate   -".to_owned(),
        Some(rate) => format!(
            "change failure rate   {:.0} % ({} failed and {} rolled back of {})",
            rate * 100.0,
            failures.failed,
            failures.rolled_back,
            failures.deployments
        ),
    });
    let open = match restore.open {
        0 => String::new(),
        1 => "; 1 pipeline is broken now".to_owned(),
        count => format!("; {count} pipelines are broken now"),
    };
    lines.push(format!("time to restore       {}{open}", or_none(restore.median_seconds)));
    if it.is_cut {
        lines.push("Only the newest deployments of this period are counted.".to_owned());
    }
    lines.push(dim(&client.dashboard_url("/insights")));
    lines.join("\n")
}

/// Formats a median.
fn or_none(seconds: Option<i64>) -> String {
    seconds.map_or_else(|| "-".to_owned(), format_duration)
}
