//! Payloads of all forges, written after their documentation, and what is read from them.

use berth_core::forge::{ForgeKind, LABELS_MAX, PullRequestSnapshot, TITLE_CHARS_MAX};
use berth_server::integrations::forges::hooks::{DeliveryEffect, ForgeDelivery, parse_delivery};
use http::{HeaderMap, HeaderName, HeaderValue};
use serde_json::{Value, json};

use super::{delivery_header, event_header, read_payload};

const HEAD: &str = "da1560886d4f094c3e6c9ef40349f7d38b5d27d7";
const NEW_HEAD: &str = "6f3e9a0c1d2b4a5968778695a4b3c2d1e0f11223";

fn parse(forge: ForgeKind, name: &str, body: &[u8]) -> ForgeDelivery {
    let mut headers = HeaderMap::new();
    for (header, value) in [event_header(forge, name), (delivery_header(forge), "id-1")] {
        headers.insert(HeaderName::from_static(header), HeaderValue::from_static(value));
    }
    parse_delivery(forge, &headers, body).unwrap()
}

fn parse_file(forge: ForgeKind, name: &str) -> ForgeDelivery {
    parse(forge, name, &read_payload(forge, name))
}

/// Parses a payload after changing the value at a JSON pointer.
fn parse_changed(forge: ForgeKind, name: &str, pointer: &str, value: Value) -> ForgeDelivery {
    let mut payload: Value = serde_json::from_slice(&read_payload(forge, name)).unwrap();
    *payload.pointer_mut(pointer).unwrap_or_else(|| panic!("{forge} {name} has no {pointer}")) = value;
    parse(forge, name, payload.to_string().as_bytes())
}

fn pull_request(delivery: ForgeDelivery) -> PullRequestSnapshot {
    match delivery.effect {
        DeliveryEffect::PullRequest { number: 42, snapshot } => *snapshot,
        other => panic!("{} is {other:?}", delivery.kind),
    }
}

/// A pull request in one line.
fn describe(found: &PullRequestSnapshot) -> String {
    let PullRequestSnapshot { title, head, head_branch, base_branch, status, .. } = found;
    let marks = [(found.is_draft, " draft"), (found.is_fork, " fork")];
    let marks: String = marks.iter().filter(|(is, _)| *is).map(|(_, mark)| *mark).collect();
    let labels: String = found.labels.iter().map(|label| format!(" [{label}]")).collect();
    let (author, time) = (&found.author.name, found.changed_at);
    let head = &head[..12];
    format!(
        "{title}: {head_branch}@{head} to {base_branch} by {author}, {}{marks}{labels}, {time}",
        status.as_str()
    )
}

#[test]
fn pull_request_of_every_forge_is_read() {
    let (old, new) = (&HEAD[..12], &NEW_HEAD[..12]);
    for forge in ForgeKind::ALL.iter().copied() {
        // Bitbucket sends microseconds, and GitLab milliseconds in newer versions.
        let opened = if forge == ForgeKind::Bitbucket { "10:30:00.123" } else { "10:30:00.000" };
        let closed = if forge == ForgeKind::GitLab { "11:00:00.123" } else { "11:00:00.000" };
        let from = |head: &str| format!("dark-mode@{head} to main by");
        let day = "2026-11-18T";
        let title = |name: &str| match (forge, name) {
            (ForgeKind::GitLab, "draft") => "Draft: Dark mode",
            (ForgeKind::Gitea, "draft") => "WIP: Dark mode",
            _ => "Dark mode",
        };
        let mut expected = vec![
            ("opened", format!("Dark mode: {} grace, open, {day}{opened}Z", from(old))),
            ("updated", format!("Dark mode: {} grace, open, {day}10:40:00.000Z", from(new))),
            ("closed", format!("Dark mode: {} grace, closed, {day}{closed}Z", from(old))),
            ("merged", format!("Dark mode: {} grace, merged, {day}11:10:00.000Z", from(old))),
            ("draft", format!("{}: {} grace, open draft, {day}{opened}Z", title("draft"), from(old))),
            ("fork", format!("Dark mode: {} mallory, open fork, {day}{opened}Z", from(old))),
        ];
        if forge != ForgeKind::Bitbucket {
            let text = format!("Dark mode: {} grace, open [preview], {day}10:45:00.000Z", from(old));
            expected.push(("label", text));
        }
        for (name, expected) in expected {
            let found = pull_request(parse_file(forge, name));
            assert_eq!(describe(&found), expected, "{forge} {name}");
            assert!(found.url.ends_with("/42") && found.url.starts_with("https://"), "{}", found.url);
        }
    }
}

#[test]
fn pull_request_pushed_to_gitea_without_write_access_counts_as_fork() {
    let found = pull_request(parse_file(ForgeKind::Gitea, "agit"));
    assert!(found.is_fork);
    assert_eq!(found.head_branch, "refs/pull/42/head");
}

#[test]
fn push_of_every_forge_names_the_branches() {
    for forge in ForgeKind::ALL.iter().copied() {
        let DeliveryEffect::Push { branches } = parse_file(forge, "push").effect else { panic!("{forge}") };
        let expected: &[&str] =
            if forge == ForgeKind::Bitbucket { &["dark-mode", "old-idea"] } else { &["dark-mode"] };
        assert_eq!(branches, expected, "{forge}");
    }
    let tag = parse_changed(ForgeKind::GitHub, "push", "/ref", json!("refs/tags/v1"));
    assert_eq!(tag.effect, DeliveryEffect::Ignored("no branch was pushed"));
}

#[test]
fn kind_repository_and_id_are_read() {
    let about = |forge, name| {
        let found = parse_file(forge, name);
        format!("{} {} {}", found.kind, found.repository_path.unwrap(), found.id)
    };
    assert_eq!(about(ForgeKind::GitHub, "label"), "pull_request.labeled acme/shop id-1");
    assert_eq!(about(ForgeKind::GitLab, "merged"), "merge_request.merge acme/web/shop id-1");
    assert_eq!(about(ForgeKind::Gitea, "updated"), "pull_request.synchronized acme/shop id-1");
    assert_eq!(about(ForgeKind::Bitbucket, "merged"), "pullrequest:fulfilled acme/shop id-1");
    assert_eq!(parse_file(ForgeKind::GitHub, "ping").effect, DeliveryEffect::Ping);
}

#[test]
fn delivery_without_an_id_is_identified_by_its_body() {
    let id = |forge, headers: &HeaderMap, name| {
        parse_delivery(forge, headers, &read_payload(forge, name)).unwrap().id
    };
    let none = HeaderMap::new();
    let first = id(ForgeKind::GitHub, &none, "opened");
    assert_eq!(first, id(ForgeKind::GitHub, &none, "opened"));
    assert_ne!(first, id(ForgeKind::GitHub, &none, "closed"));
    assert!(first.starts_with("sha256:"));
    // GitLab's UUID is shared by events that cause each other, and Bitbucket's names the webhook.
    let mut uuid = HeaderMap::new();
    uuid.insert("x-gitlab-event-uuid", HeaderValue::from_static("13792a34"));
    uuid.insert("x-hook-uuid", HeaderValue::from_static("13792a34"));
    for forge in [ForgeKind::GitLab, ForgeKind::Bitbucket] {
        assert_eq!(id(forge, &uuid, "opened"), id(forge, &uuid, "opened"));
        assert_ne!(id(forge, &uuid, "opened"), id(forge, &uuid, "closed"), "{forge}");
    }
}

#[test]
fn new_comment_that_starts_with_berth_is_a_command() {
    for forge in ForgeKind::ALL.iter().copied() {
        let DeliveryEffect::Command { number, snapshot, comment, author, text } =
            parse_file(forge, "comment").effect
        else {
            panic!("{forge}")
        };
        assert_eq!((number, &*comment, &*author.name, &*text), (42, "1244", "grace", "deploy"), "{forge}");
        // GitHub's payload does not describe the pull request.
        assert_eq!(snapshot.is_some(), forge != ForgeKind::GitHub, "{forge}");
        let same = snapshot.is_none_or(|it| it.url.ends_with("/42") && it.author == author);
        assert!(same, "{forge}: the pull request has another author or page");
    }
}

#[test]
fn other_comments_are_ignored() {
    let not_new = DeliveryEffect::Ignored("only new comments are read");
    for (forge, pointer, action) in [
        (ForgeKind::GitHub, "/action", "edited"),
        (ForgeKind::GitHub, "/action", "deleted"),
        (ForgeKind::Gitea, "/action", "edited"),
        (ForgeKind::GitLab, "/object_attributes/action", "update"),
    ] {
        assert_eq!(parse_changed(forge, "comment", pointer, json!(action)).effect, not_new, "{forge}");
    }
    let bot = DeliveryEffect::Ignored("comments of bots are not read");
    for (forge, pointer, value) in [
        (ForgeKind::GitHub, "/comment/user/type", json!("Bot")),
        (ForgeKind::GitLab, "/user/username", json!("project_1_bot_4a1f")),
        (ForgeKind::GitLab, "/object_attributes/system", json!(true)),
        (ForgeKind::Bitbucket, "/comment/user/type", json!("app_user")),
    ] {
        assert_eq!(parse_changed(forge, "comment", pointer, value).effect, bot, "{forge}");
    }
    let no_command = DeliveryEffect::Ignored("the comment is not a command");
    for text in [
        "Looks good",
        "/berthing deploy",
        "I typed /berth deploy",
        "/berth deploy\n<!-- berth:comment -->",
        "<!-- berth:comment -->\n/berth deploy",
        "",
    ] {
        let body = parse_changed(ForgeKind::GitHub, "comment", "/comment/body", json!(text));
        assert_eq!(body.effect, no_command, "{text}");
    }
    let issue = parse_changed(ForgeKind::GitHub, "comment", "/issue/pull_request", Value::Null);
    assert_eq!(issue.effect, DeliveryEffect::Ignored("no pull request in the payload"));
    let commit = json!("Commit");
    let note = parse_changed(ForgeKind::GitLab, "comment", "/object_attributes/noteable_type", commit);
    assert_eq!(note.effect, DeliveryEffect::Ignored("no pull request in the payload"));
}

#[test]
fn command_text_is_trimmed_and_limited() {
    let command = |text: &str| {
        let body = parse_changed(ForgeKind::GitHub, "comment", "/comment/body", json!(text));
        let DeliveryEffect::Command { text, .. } = body.effect else { panic!("{text}") };
        text
    };
    assert_eq!(command("/berth"), "");
    assert_eq!(command("  /berth \t release\r\n\r\nThanks!  "), "release\n\nThanks!");
    assert_eq!(command(&format!("/berth {}", "é".repeat(5_000))).len(), 2_000);
    assert_eq!(command(&format!("/berth x{}", "é".repeat(5_000))).len(), 1_999);
}

#[test]
fn long_and_unsafe_texts_are_limited() {
    let of = |pointer: &str, value: Value| {
        parse_changed(ForgeKind::GitHub, "opened", &format!("/pull_request{pointer}"), value)
    };
    let title = pull_request(of("/title", json!(format!("a\u{0}b\n{}", "ü".repeat(1_000)))));
    assert_eq!(title.title.chars().count(), TITLE_CHARS_MAX);
    assert!(title.title.starts_with("abü"));
    let labels: Vec<_> = (0..500).map(|n| json!({"name": format!("{n}{}", "l".repeat(1_000))})).collect();
    let labels = pull_request(of("/labels", json!(labels))).labels;
    assert!(labels.len() == LABELS_MAX && labels.iter().all(|label| label.len() <= 200));
    let none = DeliveryEffect::Ignored("no pull request in the payload");
    for (pointer, value) in [
        ("/html_url", json!("javascript:alert(1)")),
        ("/html_url", json!("https://user:password@github.com/acme/shop/pull/42")),
        ("/head/sha", json!("--upload-pack=x")),
        ("/head/sha", json!("main")),
        ("/head/ref", json!("")),
        ("/head/ref", json!("a\u{0}b")),
        ("/head/ref", json!("b".repeat(2_000))),
        ("/number", json!(-1)),
        ("/number", json!("42")),
        ("/state", json!("unheard-of")),
        ("/user", Value::Null),
    ] {
        assert_eq!(of(pointer, value).effect, none, "{pointer}");
    }
    assert!(pull_request(of("/head/repo", Value::Null)).is_fork, "the fork was deleted");
}
