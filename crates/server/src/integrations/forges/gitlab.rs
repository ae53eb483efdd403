//! GitLab, where pull requests are called merge requests.

use serde_json::{Value, json};

use super::location::percent_encode;
use super::{
    BranchPair, Forge, ForgePullRequestState, ForgeRepository, PullRequest, PullRequestDraft,
    parse_pull_request, parse_time,
};

pub struct GitLab;

impl Forge for GitLab {
    fn name(&self) -> &'static str {
        "gitlab"
    }

    fn is_at(&self, host: &str) -> bool {
        host.starts_with("gitlab.")
    }

    fn api(&self, origin: &str) -> String {
        format!("{origin}/api/v4")
    }

    fn headers(&self, token: &str) -> Vec<(&'static str, String)> {
        vec![("accept", "application/json".to_owned()), ("authorization", format!("Bearer {token}"))]
    }

    fn find_url(&self, at: &ForgeRepository, branches: BranchPair<'_>) -> String {
        format!(
            "{}?state=opened&source_branch={}&per_page=1",
            self.open_url(at),
            percent_encode(branches.head)
        )
    }

    fn parse_found(&self, answer: &Value) -> Option<PullRequest> {
        self.parse_opened(answer.as_array()?.first()?)
    }

    fn open_url(&self, at: &ForgeRepository) -> String {
        format!("{}/projects/{}/merge_requests", at.api, percent_encode(&at.path))
    }

    fn open_body(&self, new: PullRequestDraft<'_>) -> Value {
        let BranchPair { head, base } = new.branches;
        json!({
            "title": new.title,
            "description": new.body,
            "source_branch": head,
            "target_branch": base,
            "remove_source_branch": true,
        })
    }

    fn parse_opened(&self, answer: &Value) -> Option<PullRequest> {
        parse_pull_request(answer, "iid", "web_url")
    }

    /// `locked` means that the merge is in progress.
    fn parse_state(&self, answer: &Value) -> Option<ForgePullRequestState> {
        match answer.get("state")?.as_str()? {
            "opened" | "locked" => Some(ForgePullRequestState::Open),
            "merged" => Some(ForgePullRequestState::Merged(parse_time(answer, "merged_at"))),
            "closed" => Some(ForgePullRequestState::Closed(parse_time(answer, "closed_at"))),
            _ => None,
        }
    }
}
