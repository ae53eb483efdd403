//! GitHub and GitHub Enterprise Server.

use serde_json::{Value, json};

use super::place::encoded;
use super::{Branches, Fate, Forge, NewPullRequest, Place, PullRequest, fate, pull_request};

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

    fn find_url(&self, at: &Place, branches: Branches<'_>) -> String {
        let head = encoded(&format!("{}:{}", at.owner(), branches.head));
        format!("{}?state=open&head={head}&per_page=1", self.open_url(at))
    }

    fn found(&self, answer: &Value) -> Option<PullRequest> {
        self.opened(answer.as_array()?.first()?)
    }

    fn open_url(&self, at: &Place) -> String {
        format!("{}/repos/{}/{}/pulls", at.api, encoded(at.owner()), encoded(at.name()))
    }

    fn open_body(&self, new: NewPullRequest<'_>) -> Value {
        let Branches { head, base } = new.branches;
        json!({"title": new.title, "body": new.body, "head": head, "base": base})
    }

    fn opened(&self, answer: &Value) -> Option<PullRequest> {
        pull_request(answer, "number", "html_url")
    }

    fn fate(&self, answer: &Value) -> Option<Fate> {
        fate(answer)
    }
}
