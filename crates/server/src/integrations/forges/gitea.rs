//! Gitea and Forgejo, which share an API.

use berth_core::forge::{ForgeKind, PullRequestSnapshot};
use http::Method;
use serde_json::{Value, json};

use super::location::percent_encode;
use super::{
    BranchPair, CommitStatus, Forge, ForgeLogin, ForgePullRequestState, ForgeRepository, ForgeRequest,
    PullRequest, PullRequestDraft, repos_api,
};

/// Events that the webhook subscribes to. `pull_request` includes pushes to, labels of and comments on pull requests.
const EVENTS: [&str; 2] = ["push", "pull_request"];
/// Items per page; Gitea's default maximum.
const PAGE: usize = 50;
/// Prefixes of the title that mark a draft, by default.
const DRAFT_PREFIXES: [&str; 2] = ["wip:", "[wip]"];

pub struct Gitea;

impl Forge for Gitea {
    fn kind(&self) -> ForgeKind {
        ForgeKind::Gitea
    }

    fn is_at(&self, host: &str) -> bool {
        ["codeberg.org", "gitea.com"].contains(&host)
            || host.starts_with("gitea.")
            || host.starts_with("forgejo.")
    }

    fn api(&self, origin: &str) -> String {
        format!("{origin}/api/v1")
    }

    fn headers(&self, login: ForgeLogin<'_>) -> Vec<(&'static str, String)> {
        vec![("accept", "application/json".to_owned()), ("authorization", format!("token {}", login.token))]
    }

    /// The URL returns a 404 if there is no pull request between these branches.
    fn find_url(&self, at: &ForgeRepository, branches: BranchPair<'_>) -> String {
        format!("{}/{}/{}", self.open_url(at), percent_encode(branches.base), percent_encode(branches.head))
    }

    fn parse_found(&self, answer: &Value) -> Option<PullRequest> {
        let is_open = answer.get("state").and_then(Value::as_str) == Some("open");
        is_open.then(|| self.parse_opened(answer)).flatten()
    }

    fn open_url(&self, at: &ForgeRepository) -> String {
        format!("{}/pulls", repos_api::repository_url(at))
    }

    fn open_body(&self, new: PullRequestDraft<'_>) -> Value {
        repos_api::open_body(new)
    }

    fn parse_opened(&self, answer: &Value) -> Option<PullRequest> {
        repos_api::parse_opened(answer)
    }

    fn parse_state(&self, answer: &Value) -> Option<ForgePullRequestState> {
        repos_api::parse_state(answer)
    }

    /// Versions without the member `draft` mark drafts only by their title.
    fn parse_snapshot(&self, answer: &Value) -> Option<(i64, PullRequestSnapshot)> {
        let (number, mut snapshot) = repos_api::parse_snapshot(answer)?;
        let title = snapshot.title.to_lowercase();
        snapshot.is_draft |= DRAFT_PREFIXES.iter().any(|prefix| title.starts_with(prefix));
        Some((number, snapshot))
    }

    fn head_ref(&self, number: i64) -> Option<String> {
        Some(repos_api::head_ref(number))
    }

    /// Gitea lists the newest first by default.
    fn open_list_url(&self, at: &ForgeRepository, page: usize) -> String {
        format!("{}?state=open&limit={PAGE}&page={page}", self.open_url(at))
    }

    fn files_url(&self, at: &ForgeRepository, number: i64, page: usize) -> String {
        format!("{}/files?limit={PAGE}&page={page}", self.get_url(at, number))
    }

    fn parse_paths(&self, file: &Value) -> Vec<String> {
        repos_api::parse_paths(file)
    }

    fn create_comment(&self, at: &ForgeRepository, number: i64, text: &str) -> ForgeRequest {
        repos_api::create_comment(at, number, text)
    }

    fn edit_comment(&self, at: &ForgeRepository, _number: i64, id: &str, text: &str) -> ForgeRequest {
        repos_api::edit_comment(at, id, text)
    }

    /// Gitea returns all comments at once.
    fn comments_url(&self, at: &ForgeRepository, number: i64, _page: usize) -> String {
        repos_api::comments_url(at, number)
    }

    fn set_status(&self, at: &ForgeRepository, commit: &str, status: &CommitStatus) -> ForgeRequest {
        repos_api::set_status(at, commit, status)
    }

    fn create_hook(&self, at: &ForgeRepository, url: &str, secret: &str) -> ForgeRequest {
        let config = json!({"url": url, "content_type": "json", "secret": secret});
        let body = json!({"type": "gitea", "active": true, "events": EVENTS, "config": config});
        ForgeRequest::new(Method::POST, format!("{}/hooks", repos_api::repository_url(at)), body)
    }

    fn delete_hook(&self, at: &ForgeRepository, id: &str) -> ForgeRequest {
        ForgeRequest::without_body(Method::DELETE, repos_api::hook_url(at, id))
    }

    fn test_hook(&self, at: &ForgeRepository, id: &str) -> Option<ForgeRequest> {
        Some(ForgeRequest::without_body(Method::POST, format!("{}/tests", repos_api::hook_url(at, id))))
    }
}
