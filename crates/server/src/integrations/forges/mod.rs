//! Forges: where a branch becomes a pull request.
//!
//! A forge says how its requests look and how its answers are read; [`Client`] sends them through the one way out. The
//! token is the repository's credential: it travels in a header to that repository's forge alone.

mod client;
mod gitea;
mod github;
mod gitlab;
mod place;
mod text;

use berth_core::time::Timestamp;
use serde_json::Value;

pub use client::{Client, ForgeError};
pub use gitea::Gitea;
pub use github::GitHub;
pub use gitlab::GitLab;
pub use place::{ForgeAt, InvalidForge, Place};
pub use text::{About, LINES_QUOTED_MAX, Quoted, body, commit_message, inert, title};

/// Those there are.
pub const FORGES: &[&dyn Forge] = &[&GitHub, &GitLab, &Gitea];

/// A pull request as its forge knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PullRequest {
    /// People see it as #12, or !12.
    pub number: i64,
    /// Where people look at it.
    pub url: String,
}

/// From which branch into which.
#[derive(Debug, Clone, Copy)]
pub struct Branches<'a> {
    pub head: &'a str,
    pub base: &'a str,
}

/// What is asked for.
#[derive(Debug, Clone, Copy)]
pub struct NewPullRequest<'a> {
    pub branches: Branches<'a>,
    pub title: &'a str,
    pub body: &'a str,
}

/// The few calls that are needed here.
pub trait Forge: Send + Sync {
    /// As it is written in the configuration.
    fn name(&self) -> &'static str;

    /// Whether a host is known to be one.
    fn is_at(&self, host: &str) -> bool;

    /// Where its API is, for repositories below this origin.
    fn api(&self, origin: &str) -> String;

    fn headers(&self, token: &str) -> Vec<(&'static str, String)>;

    /// Where to ask for the open pull request of a branch.
    fn find_url(&self, at: &Place, branches: Branches<'_>) -> String;

    /// The open one among what was answered.
    fn found(&self, answer: &Value) -> Option<PullRequest>;

    fn open_url(&self, at: &Place) -> String;

    fn open_body(&self, new: NewPullRequest<'_>) -> Value;

    /// The one that was opened.
    fn opened(&self, answer: &Value) -> Option<PullRequest>;

    /// Where one of them is, for programs.
    fn get_url(&self, at: &Place, number: i64) -> String {
        format!("{}/{number}", self.open_url(at))
    }

    /// What has become of it; `None`: the answer does not say.
    fn fate(&self, answer: &Value) -> Option<Fate>;
}

/// What has become of a pull request, and when, as its forge says it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    Open,
    Merged(Option<Timestamp>),
    Closed(Option<Timestamp>),
}

/// As GitHub says it, and Gitea after it.
fn fate(answer: &Value) -> Option<Fate> {
    match answer.get("state")?.as_str()? {
        "open" => Some(Fate::Open),
        "closed" => {
            let is_merged = answer.get("merged").and_then(Value::as_bool).unwrap_or(false);
            let merged_at = time(answer, "merged_at");
            let is_merged = is_merged || merged_at.is_some();
            Some(if is_merged { Fate::Merged(merged_at) } else { Fate::Closed(time(answer, "closed_at")) })
        }
        _ => None,
    }
}

fn time(answer: &Value, name: &str) -> Option<Timestamp> {
    Timestamp::parse(answer.get(name)?.as_str()?).ok()
}

/// A number and an address for people, if the answer has them where the forge puts them.
fn pull_request(answer: &Value, number: &str, url: &str) -> Option<PullRequest> {
    let number = answer.get(number)?.as_i64().filter(|number| *number > 0)?;
    let url = place::link(answer.get(url)?.as_str()?)?;
    Some(PullRequest { number, url })
}
