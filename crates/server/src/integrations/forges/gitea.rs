//! Gitea and Forgejo, which share an API.

use serde_json::{Value, json};

use super::location::percent_encode;
use super::{
    BranchPair, Forge, ForgePullRequestState, ForgeRepository, PullRequest, PullRequestDraft,
    parse_github_state, parse_pull_request,
};

pub struct Gitea;

impl Forge for Gitea {
    fn name(&self) -> &'static str {
        "gitea"
    }

    fn is_at(&self, host: &str) -> bool {
        ["codeberg.org", "gitea.com"].contains(&host)
            || host.starts_with("gitea.")
            || host.starts_with("forgejo.")
    }

    fn api(&self, origin: &str) -> String {
        format!("{origin}/api/v1")
    }

    fn headers(&self, token: &str) -> Vec<(&'static str, String)> {
        vec![("accept", "application/json".to_owned()), ("authorization", format!("token {token}"))]
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
        format!("{}/repos/{}/{}/pulls", at.api, percent_encode(at.owner()), percent_encode(at.name()))
    }

    fn open_body(&self, new: PullRequestDraft<'_>) -> Value {
        let BranchPair { head, base } = new.branches;
        json!({"title": new.title, "body": new.body, "head": head, "base": base})
    }

    fn parse_opened(&self, answer: &Value) -> Option<PullRequest> {
        parse_pull_request(answer, "number", "html_url")
    }

    fn parse_state(&self, answer: &Value) -> Option<ForgePullRequestState> {
        parse_github_state(answer)
    }
}
