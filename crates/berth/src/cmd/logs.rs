//! `berth logs`: prints the log of a step.

use std::collections::BTreeSet;
use std::io::Read as _;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context as _;
use berth_api::deployment::{DeploymentStep, StepStatus, WireDeployment};
use berth_api::log::LogSection;
use clap_complete::ArgValueCandidates;
use serde::Deserialize;

use super::reference::resolve_deployment_id;
use super::watch;
use crate::client::{ApiClient, ClientError, RemoteArgs, percent_encode};
use crate::complete;
use crate::output::{LogPrinter, dim, print_note};

/// Maximum number of consecutive reconnects.
const RETRIES_MAX: u32 = 10;
const RETRY_PAUSE: Duration = Duration::from_secs(1);
const CHUNK_BYTES: usize = 64 * 1024;

#[derive(clap::Args)]
pub(crate) struct LogsArgs {
    #[command(flatten)]
    remote: RemoteArgs,
    /// Deployment (id or PIPELINE#NUMBER), or a pipeline for its latest deployment
    #[arg(add = ArgValueCandidates::new(complete::deployments_or_pipelines))]
    which: String,
    /// Step id or name [default: the failed step, otherwise the last one started]
    step: Option<String>,
    /// Follow the log until the step ends
    #[arg(long, short)]
    follow: bool,
    /// Print only the last lines
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=1000), conflicts_with = "follow")]
    tail: Option<u32>,
    /// Number of an earlier attempt
    #[arg(long, conflicts_with = "follow")]
    attempt: Option<u32>,
}

/// Payload of a `lines` event.
#[derive(Deserialize)]
struct LogLinesEvent {
    text: String,
}

pub(crate) fn run(args: &LogsArgs) -> anyhow::Result<ExitCode> {
    let client = args.remote.client()?;
    let out = args.remote.output();
    let id = resolve_deployment_id(&client, &args.which)?;
    let deployment: WireDeployment = client.get(&watch::deployment_path(&id))?.data;
    let step = choose_step(&deployment, args.step.as_deref())?;
    let path = format!("{}/steps/{}/logs", watch::deployment_path(&id), percent_encode(&step.id));
    if args.follow {
        follow_log(&client, &path)?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut query = String::new();
    if let Some(attempt) = args.attempt {
        query.push_str(&format!("&attempt={attempt}"));
    }
    if out.json || args.tail.is_some() {
        let tail = args.tail.map_or_else(String::new, |tail| format!("&tail={tail}"));
        let log = client
            .get::<LogSection>(&format!("{path}?{}", format!("{tail}{query}").trim_start_matches('&')))?;
        if out.json {
            return out.print_json(&log.raw).map(|()| ExitCode::SUCCESS);
        }
        let mut printer = LogPrinter::new();
        let text = format!("{}\n", join_entries(&log.data));
        printer.write(text.as_bytes()).and_then(|()| printer.end()).context("cannot print")?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut raw = client.get_reader(&format!("{path}?raw=true{query}"))?;
    let mut printer = LogPrinter::new();
    let mut piece = vec![0; CHUNK_BYTES];
    loop {
        let count = raw.read(&mut piece).context("the log was interrupted")?;
        if count == 0 {
            break;
        }
        printer.write(&piece[..count]).context("cannot print")?;
    }
    printer.end().context("cannot print")?;
    print_note(&dim(&client.dashboard_url(&format!("{}?step={}", watch::deployment_path(&id), step.id))));
    Ok(ExitCode::SUCCESS)
}

fn join_entries(log: &LogSection) -> String {
    log.entries.iter().map(|entry| entry.text.as_str()).collect::<Vec<_>>().join("\n")
}

/// Follows a log. After a lost connection, resumes without missing a line.
pub(super) fn follow_log(client: &ApiClient, path: &str) -> anyhow::Result<()> {
    let mut printer = LogPrinter::new();
    let mut last = None::<String>;
    let mut broken = 0;
    loop {
        let messages = match client.open_event_stream(path, last.as_deref()) {
            Ok(messages) => messages,
            Err(error) => {
                let passes = error.downcast_ref::<ClientError>().is_some_and(ClientError::is_transient);
                broken += 1;
                if !passes || broken > RETRIES_MAX {
                    return Err(error);
                }
                std::thread::sleep(RETRY_PAUSE);
                continue;
            }
        };
        for message in messages {
            let Ok(message) = message else { break };
            broken = 0;
            if message.id.is_some() {
                last.clone_from(&message.id);
            }
            match message.kind.as_str() {
                "lines" => {
                    let LogLinesEvent { text } =
                        serde_json::from_str(&message.data).context("cannot read the log")?;
                    printer.write(text.as_bytes()).context("cannot print")?;
                }
                "end" => return printer.end().context("cannot print"),
                _ => {}
            }
        }
        broken += 1;
        anyhow::ensure!(broken <= RETRIES_MAX, "the log stream was interrupted {RETRIES_MAX} times in a row");
        std::thread::sleep(RETRY_PAUSE);
    }
}

fn choose_step<'d>(
    deployment: &'d WireDeployment,
    wanted: Option<&str>,
) -> anyhow::Result<&'d DeploymentStep> {
    let steps: Vec<&DeploymentStep> =
        deployment.stages.iter().filter_map(|it| it.steps.as_ref()).flatten().collect();
    let found = match wanted {
        Some(wanted) => {
            let is_it = |step: &&&DeploymentStep| {
                step.id == wanted || step.step == wanted || step.name.eq_ignore_ascii_case(wanted)
            };
            let begun = steps.iter().rev().filter(|step| step.started_at.is_some()).find(is_it);
            begun.or_else(|| steps.iter().find(is_it))
        }
        None => steps
            .iter()
            .find(|step| step.status == StepStatus::Failed)
            .or_else(|| steps.iter().rev().find(|step| step.started_at.is_some())),
    };
    if let Some(step) = found {
        return Ok(step);
    }
    let names: BTreeSet<_> = steps.iter().map(|step| step.step.as_str()).collect();
    let text = match (wanted, names.is_empty()) {
        (_, true) => "the deployment has not started; `berth status` shows what it is waiting for".to_owned(),
        (None, _) => {
            "no step has started; `berth status` shows what the deployment is waiting for".to_owned()
        }
        (Some(wanted), _) => {
            format!("no step {wanted} in this deployment; steps: {}", Vec::from_iter(names).join(", "))
        }
    };
    Err(ClientError::NotFound(text).into())
}
