//! `berth approve` and `berth reject`.

use std::process::ExitCode;

use berth_api::approval::{Approval, Approve};
use berth_api::pipeline::Because;

use crate::client::{Client, Failure, Remote, escaped};
use crate::output::time::ago;
use crate::output::{Output, dim, harmless, note, or_dash, word};

/// Maximum number of approvals listed.
const PENDING_MAX: usize = 200;

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    remote: Remote,
    /// Id of the approval or of its deployment [default: list pending approvals]
    which: Option<String>,
    /// Comment
    #[arg(long, short = 'm')]
    why: Option<String>,
}

#[derive(Clone, Copy)]
pub(crate) enum Answer {
    Approve,
    Reject,
}

pub(crate) fn run(args: &Args, answer: Answer) -> anyhow::Result<ExitCode> {
    let client = args.remote.client()?;
    let out = args.remote.output();
    let Some(which) = &args.which else { return pending(&client, &out) };
    let id = if which.starts_with("dep_") { of_deployment(&client, which)? } else { which.clone() };
    let path = format!("/approvals/{}", escaped(&id));
    let why = args.why.clone();
    let answered = match answer {
        Answer::Approve => client.post::<Approval>(&format!("{path}/approve"), &Approve { comment: why }),
        Answer::Reject => client.post::<Approval>(&format!("{path}/reject"), &Because { reason: why }),
    }?;
    out.told(&answered.raw, || {
        let it = &answered.data;
        let page = client.page(&format!("/deployments/{}", it.deployment_id));
        format!("{}: {} ({} of {})\n{}", it.stage, word(it.status), it.given, it.required, dim(&page))
    })?;
    Ok(ExitCode::SUCCESS)
}

fn of_deployment(client: &Client, deployment: &str) -> anyhow::Result<String> {
    let found: Vec<Approval> =
        client.list(&format!("/approvals?deployment={}", escaped(deployment)), PENDING_MAX)?.data;
    match found.as_slice() {
        [one] => Ok(one.id.clone()),
        [] => Err(Failure::NotFound(format!("{deployment} has no pending approval")).into()),
        several => {
            let ids: Vec<_> = several.iter().map(|it| it.id.as_str()).collect();
            Err(Failure::Unclear(format!("several approvals are pending; specify {}", ids.join(" or ")))
                .into())
        }
    }
}

fn pending(client: &Client, out: &Output) -> anyhow::Result<ExitCode> {
    let found = client.list::<Approval>("/approvals", PENDING_MAX)?;
    let row = |it: &Approval| {
        vec![
            it.id.clone(),
            it.stage.clone(),
            or_dash(it.commit_id.as_deref()),
            format!("{} of {}", it.given, it.required),
            or_dash(Some(&it.rule.from.join(", "))),
            ago(&it.requested_at),
            or_dash(it.message.as_deref().map(harmless).as_deref()),
        ]
    };
    let rows: Vec<_> = found.data.iter().map(row).collect();
    let heading = ["approval", "stage", "commit", "approved", "approvers", "requested", "message"];
    out.table(&found.raw, &heading, &rows, "No pending approvals.")?;
    for it in &found.data {
        for text in [&it.raised_because, &it.unreachable].into_iter().flatten() {
            note(&format!("{}: {}", it.id, harmless(text)));
        }
    }
    Ok(ExitCode::SUCCESS)
}
