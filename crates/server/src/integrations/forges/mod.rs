//! Forges (GitHub, GitLab, Gitea, Bitbucket): pull requests, comments, commit statuses and webhooks.
//!
//! Each forge defines its requests and responses; [`ForgeClient`] sends them through the egress layer. The token is the
//! repository's credential and is sent only in a header, and only to that repository's forge.

mod app_manifest;
mod bitbucket;
mod client;
mod connect;
mod deployments;
mod gitea;
mod github;
mod gitlab;
pub mod hooks;
mod location;
mod parse;
mod pull_request_calls;
mod repos_api;
mod setup_steps;
mod text;

pub use berth_core::commit_status::CommitState;
use berth_core::forge::{ForgeKind, PullRequestSnapshot};
use berth_core::time::Timestamp;
use http::Method;
use serde_json::Value;

pub(crate) use app_manifest::{AppForge, ConvertedApp, app_manifest, convert_manifest};
pub use bitbucket::Bitbucket;
pub use client::{ForgeClient, ForgeError};
pub(crate) use connect::{client_of, client_with, run_on_thread};
pub use deployments::{DeploymentApi, DeploymentDraft, DeploymentUpdate};
pub use gitea::Gitea;
pub use github::GitHub;
pub use gitlab::GitLab;
pub use location::{ForgeHost, ForgeRepository, InvalidForge};
pub use pull_request_calls::{CHANGED_FILES_MAX, OPEN_PULL_REQUESTS_MAX};
pub use setup_steps::setup_steps;
pub use text::{
    LINES_QUOTED_MAX, PullRequestContext, QuotedLine, code_span, inert, render_body, render_commit_message,
    render_title,
};

/// All supported forges.
pub const FORGES: &[&dyn Forge] = &[&GitHub, &GitLab, &Gitea, &Bitbucket];

/// Maximum length of a commit status's description.
pub const DESCRIPTION_CHARS_MAX: usize = 140;

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

/// A commit status. The forge keeps one per commit and context.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommitStatus {
    /// What the status is about, for example `berth/shop/production`.
    pub context: String,
    pub state: CommitState,
    /// At most [`DESCRIPTION_CHARS_MAX`] characters are sent.
    pub description: String,
    pub target_url: Option<String>,
}

/// A request that changes something on the forge.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForgeRequest {
    pub method: Method,
    pub url: String,
    pub body: Option<Value>,
}

impl ForgeRequest {
    fn new(method: Method, url: String, body: Value) -> Self {
        Self { method, url, body: Some(body) }
    }

    fn without_body(method: Method, url: String) -> Self {
        Self { method, url, body: None }
    }
}

/// The credential for the forge's API.
#[derive(Clone, Copy)]
pub struct ForgeLogin<'a> {
    /// The user name, if the credential is `user:password`.
    pub user: Option<&'a str>,
    pub token: &'a str,
}

/// The API of one forge type, reduced to the calls that Berth makes.
pub trait Forge: Send + Sync {
    fn kind(&self) -> ForgeKind;

    /// The forge's name in the configuration.
    fn name(&self) -> &'static str {
        self.kind().as_str()
    }

    /// Whether this host is known to run this forge.
    fn is_at(&self, host: &str) -> bool;

    /// Returns the API URL for repositories at this origin.
    fn api(&self, origin: &str) -> String;

    fn headers(&self, login: ForgeLogin<'_>) -> Vec<(&'static str, String)>;

    /// Returns the URL of a commit's page.
    fn commit_page(&self, at: &ForgeRepository, commit: &str) -> String {
        format!("{}/commit/{commit}", at.page)
    }

    /// Returns the URL of the page that shows what `head` adds to `base`.
    fn compare_page(&self, at: &ForgeRepository, base: &str, head: &str) -> String {
        format!("{}/compare/{base}...{head}", at.page)
    }

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

    /// Extracts a pull request and its number. The head of Bitbucket's pull requests is abbreviated; see `head_url`.
    fn parse_snapshot(&self, answer: &Value) -> Option<(i64, PullRequestSnapshot)>;

    /// Returns the URL that has the unabbreviated head commit, if the pull request does not contain it.
    fn head_url(&self, _at: &ForgeRepository, _number: i64) -> Option<String> {
        None
    }

    /// Returns the remote ref of a pull request's head. `None` if the forge has none.
    fn head_ref(&self, number: i64) -> Option<String>;

    /// Returns the URL of a page of open pull requests, newest first. The first page is 1.
    fn open_list_url(&self, at: &ForgeRepository, page: usize) -> String;

    /// Returns the URL of a page of a pull request's changed files.
    fn files_url(&self, at: &ForgeRepository, number: i64, page: usize) -> String;

    /// Extracts the paths from one changed file; two if it was renamed.
    fn parse_paths(&self, file: &Value) -> Vec<String>;

    /// Returns the items of a page.
    fn page_items<'a>(&self, answer: &'a Value) -> Option<&'a [Value]> {
        answer.as_array().map(Vec::as_slice)
    }

    /// Whether another page follows. `None` if the response body does not say; then the `Link` header does.
    fn has_next_page(&self, _answer: &Value) -> Option<bool> {
        None
    }

    fn create_comment(&self, at: &ForgeRepository, number: i64, text: &str) -> ForgeRequest;

    fn edit_comment(&self, at: &ForgeRepository, number: i64, id: &str, text: &str) -> ForgeRequest;

    /// Returns the URL of a page of a pull request's comments, oldest first.
    fn comments_url(&self, at: &ForgeRepository, number: i64, page: usize) -> String;

    /// Extracts the text of a comment.
    fn parse_comment<'a>(&self, comment: &'a Value) -> Option<&'a str> {
        comment.get("body")?.as_str()
    }

    fn set_status(&self, at: &ForgeRepository, commit: &str, status: &CommitStatus) -> ForgeRequest;

    /// Whether this refusal means that the commit already has the status.
    fn is_status_set(&self, _status: &CommitStatus, _code: u16, _said: &str) -> bool {
        false
    }

    /// Returns the API for deployments. `None` if the forge has none.
    fn deployments(&self) -> Option<&dyn DeploymentApi> {
        None
    }

    /// Returns the request that creates a webhook for pushes, pull requests and comments.
    fn create_hook(&self, at: &ForgeRepository, url: &str, secret: &str) -> ForgeRequest;

    fn delete_hook(&self, at: &ForgeRepository, id: &str) -> ForgeRequest;

    /// Returns the request for a test delivery. `None` if the forge has none.
    fn test_hook(&self, at: &ForgeRepository, id: &str) -> Option<ForgeRequest>;

    /// Extracts the id of a new comment or webhook.
    fn parse_id(&self, answer: &Value) -> Option<String> {
        parse::id(answer, "id")
    }
}

/// The state of a pull request, with the time when it was merged or closed if the forge reports it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ForgePullRequestState {
    Open,
    Merged(Option<Timestamp>),
    Closed(Option<Timestamp>),
}
