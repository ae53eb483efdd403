//! Deliveries of GitLab.

use berth_core::forge::{ForgeUser, PullRequestSnapshot, PullRequestStatus};
use serde_json::Value;

use super::github::pushed_branch;
use super::{
    BY_A_BOT, CommentFacts, DeliveryEffect, DeliveryPayload, ForgeDelivery, NAME_CHARS_MAX, NO_PULL_REQUEST,
    NOT_NEW, UNKNOWN_TIME, UNUSED_KIND, bool_at, branch_at, check_link, clip, commit_at, id_at, labels_at,
    link_at, number_at, path_at, text_at, time_at, title_at, user_at,
};

/// Number of hexadecimal digits of the body's hash in the id of a delivery.
const HASH_CHARS: usize = 16;

pub(super) fn parse(payload: &DeliveryPayload<'_>) -> ForgeDelivery {
    let root = payload.root;
    let event = text_at(root, "/object_kind").unwrap_or("unknown");
    let kind = payload.kind(event, "/object_attributes/action");
    ForgeDelivery {
        id: delivery_id(payload, &kind),
        repository_path: path_at(root, "/project/path_with_namespace"),
        effect: effect(event, root),
        kind,
    }
}

/// Returns the id of a delivery. `Idempotency-Key` is the same for all attempts to deliver an event. The UUID of an event
/// is shared by events that a webhook caused, so it identifies a delivery only together with the body.
fn delivery_id(payload: &DeliveryPayload<'_>, kind: &str) -> String {
    match payload.header("x-gitlab-event-uuid") {
        Some(uuid) if payload.header("idempotency-key").is_none() => {
            let hash = payload.hash(kind);
            clip(&format!("{uuid}:{}", &hash[..HASH_CHARS]), NAME_CHARS_MAX)
        }
        _ => payload.delivery_id(&["idempotency-key"], kind),
    }
}

fn effect(event: &str, root: &Value) -> DeliveryEffect {
    match event {
        "push" => pushed_branch(root),
        "merge_request" => {
            let found = root.get("object_attributes").unwrap_or(&Value::Null);
            match number_at(found, "/iid").zip(snapshot(root, found)) {
                Some((number, snapshot)) => {
                    DeliveryEffect::PullRequest { number, snapshot: Box::new(snapshot) }
                }
                None => NO_PULL_REQUEST,
            }
        }
        "note" => comment_effect(root),
        _ => UNUSED_KIND,
    }
}

/// Reads a merge request. `found` is the part of the payload that describes it.
fn snapshot(root: &Value, found: &Value) -> Option<PullRequestSnapshot> {
    let status = match text_at(found, "/state")? {
        // While a merge request is being merged, it is locked.
        "opened" | "locked" => PullRequestStatus::Open,
        "closed" => PullRequestStatus::Closed,
        "merged" => PullRequestStatus::Merged,
        _ => return None,
    };
    let (source, target) = (id_at(found, "/source_project_id"), id_at(found, "/target_project_id"));
    let mut labels = labels_at(root, "/labels", "title");
    if labels.is_empty() {
        labels = labels_at(found, "/labels", "title");
    }
    Some(PullRequestSnapshot {
        title: title_at(found, "/title")?,
        url: link_at(found, "/url").or_else(|| page_url(root, found))?,
        author: author(root, found)?,
        head: commit_at(found, "/last_commit/id")?,
        head_branch: branch_at(found, "/source_branch")?,
        base_branch: branch_at(found, "/target_branch")?,
        is_fork: source.is_none() || source != target,
        labels,
        is_draft: bool_at(found, "/draft") || bool_at(found, "/work_in_progress"),
        status,
        changed_at: time_at(found, "/updated_at").unwrap_or(UNKNOWN_TIME),
    })
}

/// Returns the URL of a merge request's page, for payloads that do not contain it.
fn page_url(root: &Value, found: &Value) -> Option<String> {
    let project = text_at(root, "/project/web_url")?;
    check_link(&format!("{project}/-/merge_requests/{}", number_at(found, "/iid")?))
}

/// Returns the author. The payload has the author's name only if the author caused the event.
fn author(root: &Value, found: &Value) -> Option<ForgeUser> {
    let id = id_at(found, "/author_id")?;
    let actor = user_at(root, "/user/id", "/user/username").filter(|actor| actor.id == id);
    Some(actor.unwrap_or_else(|| ForgeUser { name: id.clone(), id }))
}

fn comment_effect(root: &Value) -> DeliveryEffect {
    let note = root.get("object_attributes").unwrap_or(&Value::Null);
    if text_at(note, "/noteable_type") != Some("MergeRequest") {
        return NO_PULL_REQUEST;
    }
    // Older versions send no action.
    let is_new = match text_at(note, "/action") {
        Some(action) => action == "create",
        None => text_at(note, "/created_at") == text_at(note, "/updated_at"),
    };
    if !is_new {
        return NOT_NEW;
    }
    if bool_at(note, "/system") || text_at(root, "/user/username").is_some_and(is_bot) {
        return BY_A_BOT;
    }
    let found = root.get("merge_request").unwrap_or(&Value::Null);
    CommentFacts {
        number: number_at(found, "/iid"),
        snapshot: snapshot(root, found),
        id: id_at(note, "/id"),
        author: user_at(root, "/user/id", "/user/username"),
        body: text_at(note, "/note"),
    }
    .into_effect()
}

/// Whether this is the user of a project's or group's access token: `project_42_bot_4a1f`.
fn is_bot(username: &str) -> bool {
    let rest = ["project_", "group_"].iter().find_map(|prefix| username.strip_prefix(prefix));
    let rest = rest.map(|rest| rest.trim_start_matches(|c: char| c.is_ascii_digit()));
    rest.is_some_and(|rest| rest.starts_with("_bot"))
}
