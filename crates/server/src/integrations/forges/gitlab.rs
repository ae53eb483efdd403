//! GitLab, where a pull request is a merge request.

use serde_json::{Value, json};

use super::place::encoded;
use super::{Branches, Fate, Forge, NewPullRequest, Place, PullRequest, pull_request, time};

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

    fn find_url(&self, at: &Place, branches: Branches<'_>) -> String {
        format!("{}?state=opened&source_branch={}&per_page=1", self.open_url(at), encoded(branches.head))
    }

    fn found(&self, answer: &Value) -> Option<PullRequest> {
        self.opened(answer.as_array()?.first()?)
    }

    fn open_url(&self, at: &Place) -> String {
        format!("{}/projects/{}/merge_requests", at.api, encoded(&at.path))
    }

    fn open_body(&self, new: NewPullRequest<'_>) -> Value {
        let Branches { head, base } = new.branches;
        json!({
            "title": new.title,
            "description": new.body,
            "source_branch": head,
            "target_branch": base,
            "remove_source_branch": true,
        })
    }

    fn opened(&self, answer: &Value) -> Option<PullRequest> {
        pull_request(answer, "iid", "web_url")
    }

    /// `locked` means that the merge is in progress.
    fn fate(&self, answer: &Value) -> Option<Fate> {
        match answer.get("state")?.as_str()? {
            "opened" | "locked" => Some(Fate::Open),
            "merged" => Some(Fate::Merged(time(answer, "merged_at"))),
            "closed" => Some(Fate::Closed(time(answer, "closed_at"))),
            _ => None,
        }
    }
}
