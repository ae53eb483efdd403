//! GitHub and GitHub Enterprise Server.

use serde_json::{Value, json};

use super::location::percent_encode;
use super::{
    BranchPair, Forge, ForgePullRequestState, ForgeRepository, PullRequest, PullRequestDraft,
    parse_github_state, parse_pull_request,
};

const VERSION: &str = "2022-11-28";

pub struct GitHub;

impl Forge for GitHub {
    fn name(&self) -> &'static str {
        "github"
    }

    fn is_at(&self, host: &str) -> bool {
        host == "github.com" || host.ends_with(".ghe.com")
    }

    fn api(&self, origin: &str) -> String {
        match origin.strip_prefix("https://") {
            Some("github.com") => "https://api.github.com".to_owned(),
            Some(host) if host.ends_with(".ghe.com") => format!("https://api.{host}"),
            _ => format!("{origin}/api/v3"),
        }
    }

    fn headers(&self, token: &str) -> Vec<(&'static str, String)> {
        vec![
            ("accept", "application/vnd.github+json, application/json".to_owned()),
            ("x-github-api-version", VERSION.to_owned()),
            ("authorization", format!("Bearer {token}")),
        ]
    }

    fn find_url(&self, at: &ForgeRepository, branches: BranchPair<'_>) -> String {
        let head = percent_encode(&format!("{}:{}", at.owner(), branches.head));
        format!("{}?state=open&head={head}&per_page=1", self.open_url(at))
    }

    fn parse_found(&self, answer: &Value) -> Option<PullRequest> {
        self.parse_opened(answer.as_array()?.first()?)
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
