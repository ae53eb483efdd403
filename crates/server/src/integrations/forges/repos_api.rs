//! Requests and responses that are the same for GitHub and Gitea, whose API was modelled after GitHub's.

use berth_core::forge::PullRequestSnapshot;
use http::Method;
use serde_json::{Value, json};

use super::location::percent_encode;
use super::{
    BranchPair, CommitStatus, ForgePullRequestState, ForgeRepository, ForgeRequest, PullRequest,
    PullRequestDraft, parse,
};

/// Returns the API URL of the repository.
pub(super) fn repository_url(at: &ForgeRepository) -> String {
    format!("{}/repos/{}/{}", at.api, percent_encode(at.owner()), percent_encode(at.name()))
}

pub(super) fn open_body(new: PullRequestDraft<'_>) -> Value {
    let BranchPair { head, base } = new.branches;
    json!({"title": new.title, "body": new.body, "head": head, "base": base})
}

pub(super) fn parse_opened(answer: &Value) -> Option<PullRequest> {
    parse::pull_request(answer, "number", &["html_url"])
}

pub(super) fn parse_state(answer: &Value) -> Option<ForgePullRequestState> {
    match answer.get("state")?.as_str()? {
        "open" => Some(ForgePullRequestState::Open),
        "closed" => {
            let merged_at = parse::time(answer, "merged_at");
            let is_merged = parse::flag(answer, "merged") || merged_at.is_some();
            Some(if is_merged {
                ForgePullRequestState::Merged(merged_at)
            } else {
                ForgePullRequestState::Closed(parse::time(answer, "closed_at"))
            })
        }
        _ => None,
    }
}

pub(super) fn parse_snapshot(answer: &Value) -> Option<(i64, PullRequestSnapshot)> {
    let PullRequest { number, url } = parse_opened(answer)?;
    let repository = |side: &str| parse::member(answer, &[side, "repo", "id"])?.as_i64();
    let head_branch = parse::branch(answer, &["head", "ref"])?;
    let snapshot = PullRequestSnapshot {
        title: parse::title(answer)?,
        url,
        author: parse::user(answer.get("user")?, "id", "login")?,
        head: parse::hash(answer, &["head", "sha"])?,
        base_branch: parse::branch(answer, &["base", "ref"])?,
        // The head repository is missing if the fork was deleted. On Gitea, people who may only read the repository
        // can push a head that is on no branch of it (AGit).
        is_fork: repository("head").is_none()
            || repository("head") != repository("base")
            || head_branch.starts_with("refs/"),
        head_branch,
        labels: parse::labels(answer),
        is_draft: parse::flag(answer, "draft"),
        status: parse::status(parse_state(answer)?),
        changed_at: parse::time(answer, "updated_at")?,
    };
    Some((number, snapshot))
}

pub(super) fn head_ref(number: i64) -> String {
    format!("refs/pull/{number}/head")
}

pub(super) fn parse_paths(file: &Value) -> Vec<String> {
    parse::paths(file, &[&["filename"], &["previous_filename"]])
}

pub(super) fn comments_url(at: &ForgeRepository, number: i64) -> String {
    format!("{}/issues/{number}/comments", repository_url(at))
}

pub(super) fn create_comment(at: &ForgeRepository, number: i64, text: &str) -> ForgeRequest {
    ForgeRequest::new(Method::POST, comments_url(at, number), json!({"body": text}))
}

pub(super) fn edit_comment(at: &ForgeRepository, id: &str, text: &str) -> ForgeRequest {
    let url = format!("{}/issues/comments/{}", repository_url(at), percent_encode(id));
    ForgeRequest::new(Method::PATCH, url, json!({"body": text}))
}

pub(super) fn set_status(at: &ForgeRepository, commit: &str, status: &CommitStatus) -> ForgeRequest {
    let mut body = json!({
        "state": status.state.as_str(),
        "context": status.context,
        "description": status.description,
    });
    if let Some(url) = &status.target_url {
        body["target_url"] = json!(url);
    }
    ForgeRequest::new(
        Method::POST,
        format!("{}/statuses/{}", repository_url(at), percent_encode(commit)),
        body,
    )
}

pub(super) fn hook_url(at: &ForgeRepository, id: &str) -> String {
    format!("{}/hooks/{}", repository_url(at), percent_encode(id))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn head_that_is_on_no_branch_of_the_repository_counts_as_fork() {
        let is_fork = |head_ref: &str, head_repository: Value| {
            let answer = json!({
                "number": 42,
                "html_url": "https://git.acme.test/acme/shop/pulls/42",
                "title": "Dark mode",
                "user": {"id": 7, "login": "grace"},
                "head": {"ref": head_ref, "sha": "4d6d0ebe".repeat(5), "repo": head_repository},
                "base": {"ref": "main", "repo": {"id": 140}},
                "state": "open",
                "updated_at": "2026-11-18T10:30:00Z",
            });
            parse_snapshot(&answer).expect("a pull request").1.is_fork
        };
        assert!(!is_fork("dark-mode", json!({"id": 140})));
        assert!(is_fork("dark-mode", json!({"id": 141})));
        assert!(is_fork("dark-mode", Value::Null));
        assert!(is_fork("refs/pull/42/head", json!({"id": 140})), "pushed with AGit");
    }
}
