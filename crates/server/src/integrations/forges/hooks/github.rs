//! Deliveries of GitHub.

use berth_core::forge::{PullRequestSnapshot, PullRequestStatus};
use serde_json::Value;

use super::{
    BY_A_BOT, CommentFacts, DeliveryEffect, DeliveryPayload, ForgeDelivery, InstallationChange, NO_BRANCH,
    NO_PULL_REQUEST, NOT_NEW, UNKNOWN_TIME, UNUSED_KIND, bool_at, branch_at, commit_at, id_at, labels_at,
    link_at, number_at, path_at, text_at, time_at, title_at, user_at,
};

pub(super) fn parse(payload: &DeliveryPayload<'_>) -> ForgeDelivery {
    let event = payload.header("x-github-event").unwrap_or("unknown");
    let kind = payload.kind(event, "/action");
    ForgeDelivery {
        id: payload.delivery_id(&["x-github-delivery"], &kind),
        repository_path: path_at(payload.root, "/repository/full_name"),
        effect: effect(event, payload.root),
        kind,
    }
}

fn effect(event: &str, root: &Value) -> DeliveryEffect {
    match event {
        "ping" => DeliveryEffect::Ping,
        "push" => pushed_branch(root),
        "pull_request" => match root.get("pull_request") {
            Some(found) => pull_request_effect(found),
            None => NO_PULL_REQUEST,
        },
        "issue_comment" => comment_effect(root),
        "installation" => match text_at(root, "/action") {
            Some("created" | "unsuspend" | "new_permissions_accepted") => {
                DeliveryEffect::Installation(InstallationChange::Available)
            }
            Some("deleted") => DeliveryEffect::Installation(InstallationChange::Deleted),
            Some("suspend") => DeliveryEffect::Installation(InstallationChange::Suspended),
            _ => UNUSED_KIND,
        },
        "installation_repositories" => DeliveryEffect::Installation(InstallationChange::Repositories),
        _ => UNUSED_KIND,
    }
}

/// Reads a push in the format of GitHub, GitLab and Gitea.
pub(super) fn pushed_branch(root: &Value) -> DeliveryEffect {
    let is_branch = text_at(root, "/ref").is_some_and(|name| name.starts_with("refs/heads/"));
    match branch_at(root, "/ref").filter(|_| is_branch) {
        Some(branch) => DeliveryEffect::Push { branches: vec![branch] },
        None => NO_BRANCH,
    }
}

pub(super) fn pull_request_effect(found: &Value) -> DeliveryEffect {
    match number_at(found, "/number").zip(snapshot(found)) {
        Some((number, snapshot)) => DeliveryEffect::PullRequest { number, snapshot: Box::new(snapshot) },
        None => NO_PULL_REQUEST,
    }
}

/// Reads a pull request in the format of GitHub and Gitea.
pub(super) fn snapshot(found: &Value) -> Option<PullRequestSnapshot> {
    let is_merged = bool_at(found, "/merged") || text_at(found, "/merged_at").is_some();
    let status = match text_at(found, "/state")? {
        "open" => PullRequestStatus::Open,
        "closed" if is_merged => PullRequestStatus::Merged,
        "closed" => PullRequestStatus::Closed,
        _ => return None,
    };
    Some(PullRequestSnapshot {
        title: title_at(found, "/title")?,
        url: link_at(found, "/html_url")?,
        author: user_at(found, "/user/id", "/user/login")?,
        head: commit_at(found, "/head/sha")?,
        head_branch: branch_at(found, "/head/ref")?,
        base_branch: branch_at(found, "/base/ref")?,
        is_fork: is_fork(found),
        labels: labels_at(found, "/labels", "name"),
        is_draft: bool_at(found, "/draft"),
        status,
        changed_at: time_at(found, "/updated_at").unwrap_or(UNKNOWN_TIME),
    })
}

/// Whether the head is in another repository, or in one that no longer exists. A head that is not a branch was pushed
/// to Gitea without write access to the repository (`refs/for/…`), so it counts as one of a fork.
fn is_fork(found: &Value) -> bool {
    let repository = |side: &str| {
        id_at(found, &format!("/{side}/repo/id")).or_else(|| id_at(found, &format!("/{side}/repo_id")))
    };
    let is_branch = !text_at(found, "/head/ref").is_some_and(|name| name.starts_with("refs/"));
    match (repository("head"), repository("base")) {
        (Some(head), Some(base)) => head != base || !is_branch,
        _ => true,
    }
}

/// Reads a comment. GitHub sends comments on pull requests as comments on issues.
fn comment_effect(root: &Value) -> DeliveryEffect {
    if root.pointer("/issue/pull_request").is_none_or(Value::is_null) {
        return NO_PULL_REQUEST;
    }
    if text_at(root, "/action") != Some("created") {
        return NOT_NEW;
    }
    if text_at(root, "/comment/user/type") == Some("Bot") {
        return BY_A_BOT;
    }
    CommentFacts {
        number: number_at(root, "/issue/number"),
        snapshot: None,
        id: id_at(root, "/comment/id"),
        author: user_at(root, "/comment/user/id", "/comment/user/login"),
        body: text_at(root, "/comment/body"),
    }
    .into_effect()
}
