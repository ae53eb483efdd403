//! Deliveries of Gitea and Forgejo.

use serde_json::Value;

use super::github::{pull_request_effect, pushed_branch, snapshot};
use super::{
    CommentFacts, DeliveryEffect, DeliveryPayload, ForgeDelivery, NO_PULL_REQUEST, NOT_NEW, UNUSED_KIND,
    bool_at, id_at, number_at, path_at, text_at, user_at,
};

pub(super) fn parse(payload: &DeliveryPayload<'_>) -> ForgeDelivery {
    let event = payload.header("x-gitea-event").or_else(|| payload.header("x-forgejo-event"));
    let event = event.unwrap_or("unknown");
    let kind = payload.kind(event, "/action");
    ForgeDelivery {
        id: payload.delivery_id(&["x-gitea-delivery", "x-forgejo-delivery"], &kind),
        repository_path: path_at(payload.root, "/repository/full_name"),
        effect: effect(event, payload.root),
        kind,
    }
}

fn effect(event: &str, root: &Value) -> DeliveryEffect {
    match event {
        "push" => pushed_branch(root),
        "issue_comment" | "pull_request_comment" => comment_effect(root),
        // Changes of labels, assignees and milestones, and new commits, have events of their own.
        "pull_request" | "pull_request_label" | "pull_request_sync" => match root.get("pull_request") {
            Some(found) => pull_request_effect(found),
            None => NO_PULL_REQUEST,
        },
        _ => UNUSED_KIND,
    }
}

fn comment_effect(root: &Value) -> DeliveryEffect {
    let is_on_pull_request =
        bool_at(root, "/is_pull") || root.pointer("/issue/pull_request").is_some_and(Value::is_object);
    if !is_on_pull_request {
        return NO_PULL_REQUEST;
    }
    if text_at(root, "/action") != Some("created") {
        return NOT_NEW;
    }
    CommentFacts {
        number: number_at(root, "/issue/number").or_else(|| number_at(root, "/pull_request/number")),
        snapshot: root.get("pull_request").and_then(snapshot),
        id: id_at(root, "/comment/id"),
        author: user_at(root, "/comment/user/id", "/comment/user/login"),
        body: text_at(root, "/comment/body"),
    }
    .into_effect()
}
