//! Gitea and Forgejo, which share an API.

use serde_json::{Value, json};

use super::place::encoded;
use super::{Branches, Fate, Forge, NewPullRequest, Place, PullRequest, fate, pull_request};

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

    /// Returns 404 if there is no pull request between these branches.
    fn find_url(&self, at: &Place, branches: Branches<'_>) -> String {
        format!("{}/{}/{}", self.open_url(at), encoded(branches.base), encoded(branches.head))
    }

    fn found(&self, answer: &Value) -> Option<PullRequest> {
        let is_open = answer.get("state").and_then(Value::as_str) == Some("open");
        is_open.then(|| self.opened(answer)).flatten()
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
