//! Forges (GitHub, GitLab, Gitea): opens pull requests and reads their state.
//!
//! Each forge defines its requests and responses; [`ForgeClient`] sends them through the egress layer. The token is the
//! repository's credential and is sent only in a header, and only to that repository's forge.

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
    /// The number, displayed as #12 or !12.
    pub number: i64,
    /// URL of the pull request's web page.
    pub url: String,
}

/// The head and base branches of a pull request.
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

/// The API of one forge type, reduced to the calls that Berth makes.
pub trait Forge: Send + Sync {
    /// The forge's name in the configuration.
    fn name(&self) -> &'static str;

    /// Whether this host is known to run this forge.
    fn is_at(&self, host: &str) -> bool;

    /// Returns the API URL for repositories at this origin.
    fn api(&self, origin: &str) -> String;

    fn headers(&self, token: &str) -> Vec<(&'static str, String)>;

    /// Returns the URL that finds the open pull request for a pair of branches.
    fn find_url(&self, at: &ForgeRepository, branches: BranchPair<'_>) -> String;

    /// Extracts the open pull request from the response to `find_url`.
    fn parse_found(&self, answer: &Value) -> Option<PullRequest>;

    fn open_url(&self, at: &ForgeRepository) -> String;

    fn open_body(&self, new: PullRequestDraft<'_>) -> Value;

    /// Extracts the new pull request from the response to opening it.
    fn parse_opened(&self, answer: &Value) -> Option<PullRequest>;

    /// Returns the API URL of one pull request.
    fn get_url(&self, at: &ForgeRepository, number: i64) -> String {
        format!("{}/{number}", self.open_url(at))
    }

    /// Extracts the state of a pull request. `None` if the response does not contain it.
    fn parse_state(&self, answer: &Value) -> Option<ForgePullRequestState>;
}

/// The state of a pull request, with the time when it was merged or closed if the forge reports it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ForgePullRequestState {
    Open,
    Merged(Option<Timestamp>),
    Closed(Option<Timestamp>),
}

/// Parses the state from a response in the format of GitHub and Gitea.
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

/// Reads the number and the web page's URL from the named members of the response.
fn parse_pull_request(answer: &Value, number: &str, url: &str) -> Option<PullRequest> {
    let number = answer.get(number)?.as_i64().filter(|number| *number > 0)?;
    let url = location::check_link(answer.get(url)?.as_str()?)?;
    Some(PullRequest { number, url })
}
