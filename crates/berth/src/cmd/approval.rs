//! `berth approve` and `berth reject`.

use std::collections::{BTreeMap, BTreeSet};
use std::process::ExitCode;

use berth_api::approval::{ApprovalApprove, ApprovalStatus, WireApproval};
use berth_api::deployment::WireDeployment;
use berth_api::pipeline::ReasonBody;
use clap_complete::ArgValueCandidates;
use serde_json::Value;

use super::reference::resolve_exact_deployment;
use super::watch::{self, load_pipeline_slug};
use crate::client::{ApiClient, ClientError, RemoteArgs, percent_encode};
use crate::complete;
use crate::output::time::format_ago;
use crate::output::{
    CommandOutput, commit_title, dim, or_dash, print_note, short_commit, strip_control_chars, wire_word,
};

/// Maximum number of pending approvals to list.
const PENDING_MAX: usize = 200;

#[derive(clap::Args)]
pub(crate) struct ApprovalArgs {
    #[command(flatten)]
    remote: RemoteArgs,
    /// Deployment (id or PIPELINE#NUMBER) or id of an approval [default: list pending approvals]
    #[arg(value_name = "DEPLOYMENT", add = ArgValueCandidates::new(complete::approvals))]
    which: Option<String>,
    /// Comment
    #[arg(long, short = 'm')]
    why: Option<String>,
}

#[derive(Clone, Copy)]
pub(crate) enum ApprovalDecision {
    Approve,
    Reject,
}

pub(crate) fn run(args: &ApprovalArgs, answer: ApprovalDecision) -> anyhow::Result<ExitCode> {
    let client = args.remote.client()?;
    let out = args.remote.output();
    let Some(which) = &args.which else { return list_pending(&client, &out) };
    let id = match resolve_exact_deployment(&client, which)? {
        deployment if deployment.starts_with("dep_") => find_pending(&client, which, &deployment)?,
        approval => approval,
    };
    let path = format!("/approvals/{}", percent_encode(&id));
    let why = args.why.clone();
    let answered = match answer {
        ApprovalDecision::Approve => {
            client.post::<WireApproval>(&format!("{path}/approve"), &ApprovalApprove { comment: why })
        }
        ApprovalDecision::Reject => {
            client.post::<WireApproval>(&format!("{path}/reject"), &ReasonBody { reason: why })
        }
    }?;
    out.print_reply(&answered.raw, || describe_decision(&client, &answered.data))?;
    Ok(ExitCode::SUCCESS)
}

fn describe_decision(client: &ApiClient, it: &WireApproval) -> String {
    let path = watch::deployment_path(&it.deployment_id);
    let of = client.get::<WireDeployment>(&path).ok().map(|found| {
        let slug = load_pipeline_slug(client, &found.data.pipeline_id);
        let commit = commit_title(&found.raw, &found.data.commit_id);
        format!("{} ({commit})", watch::display_name(slug.as_deref(), &found.data))
    });
    let of = of.unwrap_or_else(|| it.deployment_id.clone());
    let (stage, given, required) = (strip_control_chars(&it.stage), it.given, it.required);
    let text = match it.status {
        ApprovalStatus::Approved => format!("Approved {of} for {stage} ({given} of {required})."),
        ApprovalStatus::Rejected => format!("Rejected {of} for {stage}."),
        ApprovalStatus::Pending => {
            format!("Approved {of} for {stage}; {given} of {required} approvals so far.")
        }
        status => format!("{of} for {stage}: {} ({given} of {required}).", wire_word(status)),
    };
    format!("{text}\n{}", dim(&client.dashboard_url(&path)))
}

fn find_pending(client: &ApiClient, named: &str, deployment: &str) -> anyhow::Result<String> {
    let found: Vec<WireApproval> =
        client.list(&format!("/approvals?deployment={}", percent_encode(deployment)), PENDING_MAX)?.data;
    match found.as_slice() {
        [one] => Ok(one.id.clone()),
        [] => {
            Err(ClientError::NotFound(format!("{} has no pending approval", strip_control_chars(named)))
                .into())
        }
        several => {
            let ids: Vec<_> = several.iter().map(|it| it.id.as_str()).collect();
            Err(ClientError::Usage(format!("several approvals are pending; specify {}", ids.join(" or ")))
                .into())
        }
    }
}

fn list_pending(client: &ApiClient, out: &CommandOutput) -> anyhow::Result<ExitCode> {
    let found = client.list::<WireApproval>("/approvals", PENDING_MAX)?;
    let pipelines: BTreeSet<&String> = found.data.iter().map(|it| &it.pipeline_id).collect();
    let slugs: BTreeMap<_, _> =
        pipelines.into_iter().filter_map(|id| Some((id, load_pipeline_slug(client, id)?))).collect();
    let waiting: Vec<WireDeployment> = match found.data.is_empty() || out.json {
        true => Vec::new(),
        false => client.list("/deployments?status=waiting", PENDING_MAX)?.data,
    };
    let name = |it: &WireApproval| {
        let slug = slugs.get(&it.pipeline_id).map(String::as_str);
        let deployment = waiting.iter().find(|deployment| deployment.id == it.deployment_id);
        deployment.map_or_else(|| or_dash(slug), |deployment| watch::display_name(slug, deployment))
    };
    let row = |(it, raw): (&WireApproval, &Value)| {
        let stage = strip_control_chars(&it.stage);
        let commit = it.commit_id.as_deref();
        let given = format!("{} of {}", it.given, it.required);
        let from = or_dash(Some(&it.rule.from.join(", ")));
        let requested = format_ago(&it.requested_at);
        let message = or_dash(it.message.as_deref().map(strip_control_chars).as_deref());
        if out.is_terminal {
            let commit = commit.map_or_else(|| "-".to_owned(), |commit| commit_title(raw, commit));
            return vec![name(it), stage, commit, given, requested, from, message, it.id.clone()];
        }
        let commit = or_dash(commit.map(short_commit).map(strip_control_chars).as_deref());
        let pipeline = slugs.get(&it.pipeline_id).map(|slug| format!("{slug} → ")).unwrap_or_default();
        vec![it.id.clone(), format!("{pipeline}{stage}"), commit, given, from, requested, message, name(it)]
    };
    let raws = found.raw["data"].as_array().into_iter().flatten();
    let rows: Vec<_> = found.data.iter().zip(raws).map(row).collect();
    let heading =
        ["deployment", "stage", "commit", "approved", "requested", "approvers", "message", "approval id"];
    out.print_table(&found.raw, &heading, &rows, "No pending approvals.")?;
    if out.is_terminal
        && let Some(first) = found.data.first()
    {
        let name = name(first);
        let first = if name.contains('#') { name.replacen(" #", "#", 1) } else { first.id.clone() };
        out.print_hint(&format!("Approve: berth approve {first}    Reject: berth reject {first} -m REASON"));
    }
    for it in &found.data {
        for text in [&it.raised_because, &it.unreachable].into_iter().flatten() {
            print_note(&format!("{}: {}", it.id, strip_control_chars(text)));
        }
    }
    Ok(ExitCode::SUCCESS)
}
