//! `berth approve` and `berth reject`.

use std::collections::{BTreeMap, BTreeSet};
use std::process::ExitCode;

use berth_api::approval::{ApprovalApprove, WireApproval};
use berth_api::pipeline::ReasonBody;

use super::watch::load_pipeline_slug;
use crate::client::{ApiClient, ClientError, RemoteArgs, percent_encode};
use crate::output::time::format_ago;
use crate::output::{CommandOutput, dim, or_dash, print_note, short_commit, strip_control_chars, wire_word};

/// Maximum number of pending approvals to list.
const PENDING_MAX: usize = 200;

#[derive(clap::Args)]
pub(crate) struct ApprovalArgs {
    #[command(flatten)]
    remote: RemoteArgs,
    /// Id of the approval or of its deployment [default: list pending approvals]
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
    let id = if which.starts_with("dep_") { find_pending(&client, which)? } else { which.clone() };
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
    out.print_reply(&answered.raw, || {
        let it = &answered.data;
        let page = client.dashboard_url(&format!("/deployments/{}", it.deployment_id));
        format!("{}: {} ({} of {})\n{}", it.stage, wire_word(it.status), it.given, it.required, dim(&page))
    })?;
    Ok(ExitCode::SUCCESS)
}

fn find_pending(client: &ApiClient, deployment: &str) -> anyhow::Result<String> {
    let found: Vec<WireApproval> =
        client.list(&format!("/approvals?deployment={}", percent_encode(deployment)), PENDING_MAX)?.data;
    match found.as_slice() {
        [one] => Ok(one.id.clone()),
        [] => Err(ClientError::NotFound(format!("{deployment} has no pending approval")).into()),
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
    let row = |it: &WireApproval| {
        let pipeline = slugs.get(&it.pipeline_id).map(|slug| format!("{slug} → "));
        vec![
            it.id.clone(),
            format!("{}{}", pipeline.unwrap_or_default(), it.stage),
            or_dash(it.commit_id.as_deref().map(short_commit)),
            format!("{} of {}", it.given, it.required),
            or_dash(Some(&it.rule.from.join(", "))),
            format_ago(&it.requested_at),
            or_dash(it.message.as_deref().map(strip_control_chars).as_deref()),
        ]
    };
    let rows: Vec<_> = found.data.iter().map(row).collect();
    let heading = ["approval", "for", "commit", "approved", "approvers", "requested", "message"];
    out.print_table(&found.raw, &heading, &rows, "No pending approvals.")?;
    for it in &found.data {
        for text in [&it.raised_because, &it.unreachable].into_iter().flatten() {
            print_note(&format!("{}: {}", it.id, strip_control_chars(text)));
        }
    }
    Ok(ExitCode::SUCCESS)
}
