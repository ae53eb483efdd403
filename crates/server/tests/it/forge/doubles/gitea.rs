//! A double of Gitea and Forgejo.

use berth_core::forge::PullRequestStatus;
use serde_json::{Value, json};

use super::github::respond_like_github;
use super::{Call, FakeResponse, ForgeDouble, HEAD, Model, ModelPullRequest, Source, TOKEN, ok};

/// Gitea's maximum page size by default.
const PAGE_MAX: usize = 50;

pub(super) struct GiteaDouble;

impl ForgeDouble for GiteaDouble {
    fn kind(&self) -> &'static str {
        "gitea"
    }

    fn authorization(&self) -> String {
        format!("token {TOKEN}")
    }

    fn states(&self) -> [&'static str; 4] {
        ["pending", "success", "failure", "error"]
    }

    fn head_ref(&self) -> Option<&'static str> {
        Some("refs/pull/42/head")
    }

    fn respond(&self, model: &mut Model, call: &Call<'_>) -> Option<FakeResponse> {
        let path: Vec<_> = call.path.iter().map(String::as_str).collect();
        let ["repos", "acme", "shop", rest @ ..] = path.as_slice() else { return None };
        match (call.method, rest) {
            ("GET", ["pulls", base, head]) if *head != "files" => {
                let found = model
                    .pull_requests
                    .iter()
                    .find(|it| it.base_branch == *base && it.head_branch == *head)?;
                ok(200, &pull_request(found))
            }
            // Comments are not divided into pages.
            ("GET", ["issues", number, "comments"]) => {
                let all = model.list_comments(number.parse().ok()?).into_iter();
                ok(200, &all.map(|(id, text)| json!({"id": id, "body": text})).collect())
            }
            ("POST", ["hooks"]) if call.body["type"] != "gitea" => {
                ok(422, &json!({"message": "Invalid hook type"}))
            }
            _ => respond_like_github(model, call, rest, "limit", PAGE_MAX, pull_request),
        }
    }
}

/// A version that has no member `draft`.
fn pull_request(it: &ModelPullRequest) -> Value {
    let is_open = it.status == PullRequestStatus::Open;
    let ended_at = (!is_open).then_some("2026-11-15T10:30:00+01:00");
    let is_merged = it.status == PullRequestStatus::Merged;
    let base = json!({"id": 5, "name": "shop", "full_name": "acme/shop", "fork": false});
    let (head, head_id) = match it.source {
        Source::SameRepository => (base.clone(), 5),
        Source::Fork => (json!({"id": 6, "name": "shop", "full_name": "grace/shop", "fork": true}), 6),
        Source::DeletedFork => (Value::Null, -1),
    };
    json!({
        "id": 1_000_000 + it.number,
        "url": format!("https://git.acme.test/acme/shop/pulls/{}", it.number),
        "number": it.number,
        "user": {"id": 7, "login": "grace", "full_name": "Grace Hopper", "is_admin": false},
        "title": if it.draft { format!("WIP: {}", it.title) } else { it.title.clone() },
        "body": "Please review.",
        "labels": it.labels.iter().map(|name| json!({"id": 1, "name": name, "color": "f29513"})).collect::<Vec<_>>(),
        "state": if is_open { "open" } else { "closed" },
        "is_locked": false,
        "html_url": format!("https://git.acme.test/acme/shop/pull/{}", it.number),
        "mergeable": true,
        "merged": is_merged,
        "merged_at": ended_at.filter(|_| is_merged),
        "base": {"label": it.base_branch, "ref": it.base_branch, "sha": HEAD, "repo_id": 5, "repo": base},
        "head": {"label": it.head_branch, "ref": it.head_branch, "sha": it.head, "repo_id": head_id, "repo": head},
        "created_at": "2026-11-15T10:00:00+01:00",
        "updated_at": format!("2026-11-18T13:{:02}:00+01:00", it.changed),
        "closed_at": ended_at,
    })
}
