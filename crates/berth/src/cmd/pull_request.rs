//! `berth pr`: pull requests and the environments that they use or wait for.

use std::process::ExitCode;

use berth_api::forge_account::PullRequestApproval;
use berth_api::pull_request::{
    PullRequestClaimState, PullRequestState, WirePullRequest, WirePullRequestClaim,
};

use super::repo::find_repository_id;
use crate::client::{ApiClient, ApiReply, ClientError, RECORDS_MAX, RemoteArgs, percent_encode};
use crate::output::time::{format_clock, format_duration};
use crate::output::{bold, dim, or_dash, short_commit, strip_control_chars, wire_word};

/// Maximum number of pull requests with the same number that an error names.
const AMBIGUOUS_MAX: usize = 10;

#[derive(clap::Args)]
pub(crate) struct PullRequestArgs {
    #[command(flatten)]
    remote: RemoteArgs,
    #[command(subcommand)]
    command: PullRequestCommand,
}

#[derive(clap::Subcommand)]
enum PullRequestCommand {
    /// List pull requests, newest first
    List {
        /// Only pull requests in this state
        #[arg(long, value_enum, default_value_t = StateFilter::Open)]
        state: StateFilter,
        /// Repository id or URL [default: all]
        #[arg(long)]
        repository: Option<String>,
    },
    /// Show a pull request
    Show {
        /// Number of the pull request
        number: i64,
        /// Repository id or URL; needed if several repositories have a pull request with this number
        #[arg(long)]
        repository: Option<String>,
    },
    /// Let a commit of a pull request from a fork be deployed, without secrets
    Approve {
        /// Number of the pull request
        number: i64,
        /// Full hash of the head commit that you have reviewed
        commit: String,
        /// Repository id or URL; needed if several repositories have a pull request with this number
        #[arg(long)]
        repository: Option<String>,
    },
}

#[derive(Clone, Copy, clap::ValueEnum, serde::Serialize)]
#[serde(rename_all = "snake_case")]
enum StateFilter {
    Open,
    Closed,
    Merged,
    All,
}

pub(crate) fn run(args: &PullRequestArgs) -> anyhow::Result<ExitCode> {
    let client = args.remote.client()?;
    let out = args.remote.output();
    match &args.command {
        PullRequestCommand::List { state, repository } => {
            let mut path = format!("/pull-requests?state={}", wire_word(state));
            if let Some(which) = repository {
                let id = find_repository_id(&client, which)?;
                path.push_str(&format!("&repository={}", percent_encode(&id)));
            }
            let found = client.list::<WirePullRequest>(&path, RECORDS_MAX)?;
            let rows: Vec<_> = found.data.iter().map(table_row).collect();
            let heading = ["number", "title", "author", "state", "environments", "head"];
            let empty = "No pull requests. Add repositories with `berth repo add URL`.";
            out.print_table(&found.raw, &heading, &rows, empty)?;
        }
        PullRequestCommand::Show { number, repository } => {
            let path = pull_request_path(&client, *number, repository.as_deref())?;
            let found: ApiReply<WirePullRequest> = client.get(&path)?;
            out.print_reply(&found.raw, || describe(&found.data))?;
            if found.data.needs_approval {
                let head = strip_control_chars(&found.data.head);
                out.print_hint(&format!("Review the commit, then: berth pr approve {number} {head}"));
            }
        }
        PullRequestCommand::Approve { number, commit, repository } => {
            let path = pull_request_path(&client, *number, repository.as_deref())?;
            let body = serde_json::json!({ "commit": commit });
            let approved = client.post::<PullRequestApproval>(&format!("{path}/approve"), &body)?;
            out.print_reply(&approved.raw, || {
                let commit = strip_control_chars(short_commit(&approved.data.commit));
                format!("Approved {commit} of #{number}; only this commit may be deployed.")
            })?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn pull_request_path(client: &ApiClient, number: i64, repository: Option<&str>) -> anyhow::Result<String> {
    let id = match repository {
        Some(which) => find_repository_id(client, which)?,
        None => find_repository_of(client, number)?,
    };
    Ok(format!("/repositories/{}/pull-requests/{number}", percent_encode(&id)))
}

/// Finds the repository that has a pull request with this number.
fn find_repository_of(client: &ApiClient, number: i64) -> anyhow::Result<String> {
    let path = format!("/pull-requests?state=all&number={number}");
    let found: Vec<WirePullRequest> = client.list(&path, AMBIGUOUS_MAX)?.data;
    match found.as_slice() {
        [one] => Ok(one.repository_id.clone()),
        [] => Err(ClientError::NotFound(format!(
            "no pull request #{number}; list them with `berth pr list --state all`"
        ))
        .into()),
        several => {
            let choices = several.iter().map(|it| format!("--repository {}", it.repository_id));
            let choices: Vec<_> = choices.collect();
            let text = format!("several repositories have #{number}; specify {}", choices.join(" or "));
            Err(ClientError::Usage(text).into())
        }
    }
}

fn table_row(it: &WirePullRequest) -> Vec<String> {
    let claims: Vec<_> = it.claims.iter().map(describe_claim).collect();
    vec![
        format!("#{}", it.number),
        strip_control_chars(&it.title),
        strip_control_chars(&it.author.name),
        describe_state(it),
        or_dash(Some(&claims.join("; "))),
        short_commit(&it.head).to_owned(),
    ]
}

fn describe_state(it: &WirePullRequest) -> String {
    match it.state {
        PullRequestState::Open if it.needs_approval => "needs approval".to_owned(),
        PullRequestState::Open if it.draft => "draft".to_owned(),
        state => wire_word(state),
    }
}

/// Describes a claim as "qa-1: 2nd in queue, about 12 min".
fn describe_claim(it: &WirePullRequestClaim) -> String {
    let name = &it.environment.name;
    let state = match it.state {
        PullRequestClaimState::Queued => {
            let position =
                it.position.map_or_else(|| "waiting".to_owned(), |at| format!("{} in queue", ordinal(at)));
            let eta = it.eta_seconds.map(|eta| format!(", about {}", format_duration(eta)));
            format!("{position}{}", eta.unwrap_or_default())
        }
        PullRequestClaimState::Held => match &it.expires_at {
            Some(at) => format!("held until {}", format_clock(at)),
            None => "held".to_owned(),
        },
        PullRequestClaimState::Stopped => "stopped".to_owned(),
    };
    let deployment = it.deployment.as_ref().filter(|_| it.state != PullRequestClaimState::Queued);
    let deployment =
        deployment.map(|it| format!(", {} {}", short_commit(&it.commit_id), wire_word(it.state)));
    format!("{name}: {state}{}", deployment.unwrap_or_default())
}

fn describe(it: &WirePullRequest) -> String {
    let fork = if it.is_fork { " (fork)" } else { "" };
    let mut lines = vec![
        bold(&format!(
            "#{} {} by {}",
            it.number,
            strip_control_chars(&it.title),
            strip_control_chars(&it.author.name)
        )),
        format!(
            "{}: {}{fork} into {} at {}",
            describe_state(it),
            strip_control_chars(&it.head_branch),
            strip_control_chars(&it.base_branch),
            short_commit(&it.head)
        ),
    ];
    if !it.labels.is_empty() {
        lines.push(format!("labels: {}", strip_control_chars(&it.labels.join(", "))));
    }
    match it.claims.as_slice() {
        [] => lines.push("no environment".to_owned()),
        claims => lines
            .extend(claims.iter().map(|claim| format!("{}/{}", claim.pipeline.slug, describe_claim(claim)))),
    }
    if let Some(error) = &it.error {
        lines.push(format!("error: {}", strip_control_chars(error)));
    }
    lines.push(dim(&strip_control_chars(&it.url)));
    lines.join("\n")
}

/// Formats a position: 1st, 2nd, 3rd, 4th, 11th.
fn ordinal(number: usize) -> String {
    let suffix = match (number % 10, number % 100) {
        (1, rest) if rest != 11 => "st",
        (2, rest) if rest != 12 => "nd",
        (3, rest) if rest != 13 => "rd",
        _ => "th",
    };
    format!("{number}{suffix}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ordinal_follows_english_rules() {
        let said: Vec<_> = [1, 2, 3, 4, 11, 12, 13, 21, 102, 112].map(ordinal).into();
        assert_eq!(said, ["1st", "2nd", "3rd", "4th", "11th", "12th", "13th", "21st", "102nd", "112th"]);
    }
}
