//! Deliveries of Bitbucket Cloud.

use berth_core::forge::{ForgeUser, PullRequestSnapshot, PullRequestStatus};
use serde_json::Value;

use super::{
    BRANCHES_MAX, BY_A_BOT, CommentFacts, DeliveryEffect, DeliveryPayload, ForgeDelivery, NAME_CHARS_MAX,
    NO_BRANCH, NO_PULL_REQUEST, UNKNOWN_TIME, UNUSED_KIND, bool_at, branch_at, clip, commit_at, id_at,
    link_at, number_at, path_at, text_at, time_at, title_at,
};

pub(super) fn parse(payload: &DeliveryPayload<'_>) -> ForgeDelivery {
    let event = payload.header("x-event-key").unwrap_or("unknown");
    let kind = clip(event, NAME_CHARS_MAX);
    ForgeDelivery {
        // X-Hook-UUID identifies the webhook, not the delivery.
        id: payload.delivery_id(&["x-request-uuid"], &kind),
        repository_path: path_at(payload.root, "/repository/full_name"),
        effect: effect(event, payload.root),
        kind,
    }
}

fn effect(event: &str, root: &Value) -> DeliveryEffect {
    match event {
        "diagnostics:ping" => DeliveryEffect::Ping,
        "repo:push" => pushed_branches(root),
        "pullrequest:created" | "pullrequest:updated" | "pullrequest:fulfilled" | "pullrequest:rejected" => {
            let found = root.get("pullrequest").unwrap_or(&Value::Null);
            match number_at(found, "/id").zip(snapshot(found)) {
                Some((number, snapshot)) => {
                    DeliveryEffect::PullRequest { number, snapshot: Box::new(snapshot) }
                }
                None => NO_PULL_REQUEST,
            }
        }
        "pullrequest:comment_created" => comment_effect(root),
        _ => UNUSED_KIND,
    }
}

/// Reads a push, which can change several branches and tags. A deleted branch has no `new`.
fn pushed_branches(root: &Value) -> DeliveryEffect {
    let changes = root.pointer("/push/changes").and_then(Value::as_array).into_iter().flatten();
    let branches = changes.filter_map(|change| {
        let side = ["new", "old"].iter().find_map(|side| change.get(side).filter(|it| it.is_object()))?;
        let is_branch = text_at(side, "/type") == Some("branch");
        branch_at(side, "/name").filter(|_| is_branch)
    });
    let branches: Vec<_> = branches.take(BRANCHES_MAX).collect();
    if branches.is_empty() { NO_BRANCH } else { DeliveryEffect::Push { branches } }
}

fn snapshot(found: &Value) -> Option<PullRequestSnapshot> {
    let status = match text_at(found, "/state")? {
        "OPEN" => PullRequestStatus::Open,
        "MERGED" => PullRequestStatus::Merged,
        "DECLINED" | "SUPERSEDED" => PullRequestStatus::Closed,
        _ => return None,
    };
    let repository = |side: &str| text_at(found, &format!("/{side}/repository/full_name"));
    let (source, destination) = (repository("source"), repository("destination"));
    Some(PullRequestSnapshot {
        title: title_at(found, "/title")?,
        url: link_at(found, "/links/html/href")?,
        author: account(found, "/author")?,
        head: commit_at(found, "/source/commit/hash")?,
        head_branch: branch_at(found, "/source/branch/name")?,
        base_branch: branch_at(found, "/destination/branch/name")?,
        is_fork: source.is_none() || source != destination,
        // Bitbucket has no labels.
        labels: Vec::new(),
        is_draft: bool_at(found, "/draft"),
        status,
        changed_at: time_at(found, "/updated_on").unwrap_or(UNKNOWN_TIME),
    })
}

/// Reads an account. Its id is the same as in responses of the API.
fn account(value: &Value, pointer: &str) -> Option<ForgeUser> {
    let found = value.pointer(pointer)?;
    let id = id_at(found, "/account_id").or_else(|| id_at(found, "/uuid"))?;
    let name = ["/display_name", "/nickname"].iter().find_map(|name| text_at(found, name));
    Some(ForgeUser { name: name.map_or_else(|| id.clone(), |name| clip(name, NAME_CHARS_MAX)), id })
}

fn comment_effect(root: &Value) -> DeliveryEffect {
    let is_app = text_at(root, "/comment/user/type").is_some_and(|kind| kind != "user");
    if is_app {
        return BY_A_BOT;
    }
    let found = root.get("pullrequest").unwrap_or(&Value::Null);
    CommentFacts {
        number: number_at(found, "/id"),
        snapshot: snapshot(found),
        id: id_at(root, "/comment/id"),
        author: account(root, "/comment/user"),
        body: text_at(root, "/comment/content/raw"),
    }
    .into_effect()
}
