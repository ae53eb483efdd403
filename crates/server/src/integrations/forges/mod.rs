//! Forges: opening and reading pull requests.
//!
//! A forge defines its requests and responses; [`ForgeClient`] sends them through the egress layer. The token is the
//! repository's credential and is sent in a header to that repository's forge only.

mod client;
mod gitea;
mod github;
mod gitlab;
mod location;
mod text;

use berth_core::time::Timestamp;
use serde_json::Value;

pub use client::{ForgeClient, ForgeError};
pub use gitea::Gitea;
pub use github::GitHub;
pub use gitlab::GitLab;
pub use location::{ForgeHost, ForgeRepository, InvalidForge};
pub use text::{
    LINES_QUOTED_MAX, PullRequestContext, QuotedLine, inert, render_body, render_commit_message, render_title,
};

/// All supported forges.
pub const FORGES: &[&dyn Forge] = &[&GitHub, &GitLab, &Gitea];

/// A pull request on its forge.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PullRequest {
    /// Displayed as #12 or !12.
    pub number: i64,
    /// The web page.
    pub url: String,
}

/// Head and base branch.
#[derive(Debug, Clone, Copy)]
pub struct BranchPair<'a> {
    pub head: &'a str,
    pub base: &'a str,
}

/// A pull request to open.
#[derive(Debug, Clone, Copy)]
pub struct PullRequestDraft<'a> {
    pub branches: BranchPair<'a>,
    pub title: &'a str,
    pub body: &'a str,
}

/// The API calls that Berth makes.
pub trait Forge: Send + Sync {
    /// The name in the configuration.
    fn name(&self) -> &'static str;

    /// Whether a host is known to run this forge.
    fn is_at(&self, host: &str) -> bool;

    /// The API URL for repositories of this origin.
    fn api(&self, origin: &str) -> String;

    fn headers(&self, token: &str) -> Vec<(&'static str, String)>;

    /// The URL to query for the open pull request of a branch.
    fn find_url(&self, at: &ForgeRepository, branches: BranchPair<'_>) -> String;

    /// The open pull request in the response.
    fn parse_found(&self, answer: &Value) -> Option<PullRequest>;

    fn open_url(&self, at: &ForgeRepository) -> String;

    fn open_body(&self, new: PullRequestDraft<'_>) -> Value;

    /// The opened pull request in the response.
    fn parse_opened(&self, answer: &Value) -> Option<PullRequest>;

    /// The API URL of one pull request.
    fn get_url(&self, at: &ForgeRepository, number: i64) -> String {
        format!("{}/{number}", self.open_url(at))
    }

    /// The state of a pull request; `None` if the response does not contain it.
    fn parse_state(&self, answer: &Value) -> Option<ForgePullRequestState>;
}

/// The state of a pull request, with the time of the merge or close if the forge reports it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ForgePullRequestState {
    Open,
    Merged(Option<Timestamp>),
    Closed(Option<Timestamp>),
}

/// Parses a response in the format of GitHub and Gitea.
fn parse_github_state(answer: &Value) -> Option<ForgePullRequestState> {
    match answer.get("state")?.as_str()? {
        "open" => Some(ForgePullRequestState::Open),
        "closed" => {
            let is_merged = answer.get("merged").and_then(Value::as_bool).unwrap_or(false);
            let merged_at = parse_time(answer, "merged_at");
            let is_merged = is_merged || merged_at.is_some();
            Some(if is_merged {
                ForgePullRequestState::Merged(merged_at)
            } else {
                ForgePullRequestState::Closed(parse_time(answer, "closed_at"))
            })
        }
        _ => None,
    }
}

fn parse_time(answer: &Value, name: &str) -> Option<Timestamp> {
    Timestamp::parse(answer.get(name)?.as_str()?).ok()
}

/// Number and web page from these members of the response.
fn parse_pull_request(answer: &Value, number: &str, url: &str) -> Option<PullRequest> {
    let number = answer.get(number)?.as_i64().filter(|number| *number > 0)?;
    let url = location::check_link(answer.get(url)?.as_str()?)?;
    Some(PullRequest { number, url })
}
