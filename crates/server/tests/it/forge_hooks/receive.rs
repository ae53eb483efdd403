//! Deliveries through HTTP: signatures, repetition, and what they change.

use std::time::Duration;

use berth_core::forge::ForgeKind;
use berth_core::time::Timestamp;
use berth_server::jobs;
use serde_json::{Value, json};

use super::{ConnectedRepository, read_payload, signature};
use crate::world::{call, get, post};

#[tokio::test]
async fn deliveries_of_every_forge_update_pull_requests() {
    for forge in ForgeKind::ALL.iter().copied() {
        let target = ConnectedRepository::new(forge).await;
        assert_eq!(target.view().await["isVerified"], false);
        for (name, id) in
            [("opened", "a"), ("updated", "b"), ("comment", "c"), ("push", "d"), ("merged", "e")]
        {
            let reply = target.deliver(name, id).await;
            assert_eq!(reply.status, 200, "{forge} {name}: {}", reply.text);
            assert_eq!(reply.body["data"]["isDuplicate"], false);
        }
        assert_eq!(target.view().await["isVerified"], true);
        let state = target.state().await;
        for part in ["Merged", "text: \"deploy\"", "comment: \"1244\"", "Dark mode"] {
            assert!(state.contains(part), "{forge}: no {part} in {state}");
        }
        let outcomes = target.outcomes().await;
        let outcomes: Vec<_> = outcomes.iter().map(|it| it.split_once(": ").unwrap().1).collect();
        let pushed = match forge {
            ForgeKind::Bitbucket => "sync scheduled: dark-mode, old-idea pushed",
            _ => "sync scheduled: dark-mode pushed",
        };
        let expected = [
            "pull request 42 updated",
            pushed,
            "command for pull request 42 received",
            "pull request 42 updated",
            "pull request 42 updated",
        ];
        assert_eq!(outcomes.len(), expected.len());
        for (outcome, expected) in outcomes.iter().zip(expected) {
            assert!(outcome.ends_with(expected), "{forge}: {outcome} instead of {expected}");
        }
    }
}

#[tokio::test]
async fn push_schedules_a_sync_and_wakes_the_jobs() {
    let target = ConnectedRepository::new(ForgeKind::GitHub).await;
    target.deliver("opened", "a").await;
    target.world.run_sql("UPDATE pull_requests SET due_at = NULL");
    target.world.run_sql("UPDATE repositories SET due_at = 9000000000000000");
    let services = target.world.app.services().clone();
    // Earlier requests have woken the jobs, too.
    for earlier in [&services.sync_wanted, &services.pull_requests_wanted] {
        let _ = tokio::time::timeout(Duration::from_millis(1), earlier.notified()).await;
    }
    let (syncs, reconciler) = (services.sync_wanted.notified(), services.pull_requests_wanted.notified());
    let reply = target.deliver("push", "b").await;
    assert_eq!(reply.body["data"]["outcome"], "sync scheduled: dark-mode pushed");
    tokio::time::timeout(Duration::from_secs(1), async { tokio::join!(syncs, reconciler) }).await.unwrap();
    let state = target.state().await;
    assert!(target.sync_due_at().await.unwrap() < Timestamp::from_micros(9_000_000_000_000_000));
    assert!(!state.contains("due_at: None"), "the pull request of the branch is not due: {state}");
}

#[tokio::test]
async fn push_makes_only_pull_requests_of_that_branch_due() {
    let target = ConnectedRepository::new(ForgeKind::GitHub).await;
    target.deliver("opened", "a").await;
    target
        .world
        .run_sql("UPDATE pull_requests SET due_at = NULL, head_branch = 'other', base_branch = 'next'");
    target.deliver("push", "b").await;
    assert!(target.state().await.contains("due_at: None"));
}

#[tokio::test]
async fn forged_deliveries_are_refused_and_change_nothing() {
    for forge in ForgeKind::ALL.iter().copied() {
        let target = ConnectedRepository::new(forge).await;
        target.deliver("opened", "a").await;
        let before = target.state().await;
        let body = read_payload(forge, "closed");
        let plain = || {
            let event = super::event_header(forge, "closed");
            post(&target.path).header(event.0, event.1).raw(body.clone())
        };
        let (header, right) = signature(forge, &target.secret, &body);
        let (_, of_other_secret) = signature(forge, "another secret", &body);
        let (_, of_other_body) = signature(forge, &target.secret, b"{}");
        let mut forged = vec![
            plain(),
            plain().header(header, ""),
            plain().header(header, &of_other_secret),
            plain().header(header, &right[..right.len() - 1]),
            plain().header(header, &format!("{right}0")),
            plain().header(header, &right).header(header, &right),
        ];
        if forge != ForgeKind::GitLab {
            forged.push(plain().header(header, &of_other_body));
            forged.push(plain().header(header, &target.secret));
            forged.push(plain().header("x-gitlab-token", &target.secret));
        }
        if forge == ForgeKind::GitHub {
            // The older header, with SHA-1, does not count.
            forged.push(plain().header("x-hub-signature", &right));
        }
        for (number, request) in forged.into_iter().enumerate() {
            let reply = target.world.send(request).await;
            reply.assert_problem(401, "unauthenticated");
            assert!(!reply.text.contains(&target.secret), "{forge} {number}");
        }
        assert_eq!(target.state().await, before, "{forge}");
        assert_eq!(target.outcomes().await.len(), 1, "{forge}: a refused delivery was stored");
    }
}

#[tokio::test]
async fn forgejo_signature_is_accepted_without_the_one_of_gitea() {
    let target = ConnectedRepository::new(ForgeKind::Gitea).await;
    let body = read_payload(ForgeKind::Gitea, "opened");
    let (_, signed) = signature(ForgeKind::Gitea, &target.secret, &body);
    let request = || post(&target.path).header("x-forgejo-event", "pull_request").raw(body.clone());
    let reply = target.world.send(request().header("x-forgejo-signature", &signed)).await;
    assert_eq!(reply.body["data"]["outcome"], "pull request 42 updated", "{}", reply.text);
    let both = request().header("x-forgejo-signature", &signed).header("x-gitea-signature", "00");
    target.world.send(both).await.assert_problem(401, "unauthenticated");
}

#[tokio::test]
async fn repeated_and_reordered_deliveries_lead_to_the_same_state() {
    for forge in ForgeKind::ALL.iter().copied() {
        let target = ConnectedRepository::new(forge).await;
        for (name, id) in [("opened", "a"), ("updated", "b"), ("comment", "c"), ("closed", "d")] {
            assert_eq!(target.deliver(name, id).await.status, 200);
        }
        let settle = || {
            target.world.run_sql("UPDATE pull_requests SET due_at = 1");
            target.world.run_sql("UPDATE repositories SET due_at = 1");
        };
        settle();
        let before = target.state().await;
        // The same deliveries again.
        for (name, id) in [("closed", "d"), ("opened", "a"), ("comment", "c"), ("updated", "b")] {
            let reply = target.deliver(name, id).await;
            assert_eq!((reply.status.as_u16(), &reply.body["data"]["isDuplicate"]), (200, &json!(true)));
        }
        assert_eq!(target.state().await, before, "{forge}");
        assert_eq!(target.outcomes().await.len(), 4);
        // Captured and sent with other ids, which are not part of what is signed.
        for (name, id) in [("comment", "x"), ("opened", "y"), ("updated", "z")] {
            assert_eq!(target.deliver(name, id).await.body["data"]["isDuplicate"], false);
        }
        settle();
        assert_eq!(target.state().await, before, "{forge}: an older delivery changed the record");
    }
}

#[tokio::test]
async fn unknown_webhooks_are_not_found() {
    let target = ConnectedRepository::new(ForgeKind::GitHub).await;
    let id = target.path.rsplit('/').next().unwrap().to_owned();
    let mut texts = std::collections::BTreeSet::new();
    for path in [
        format!("/hooks/gitlab/{id}"),
        format!("/hooks/other/{id}"),
        "/hooks/github/hook_00000000000000000000000000".to_owned(),
        "/hooks/github/x".to_owned(),
    ] {
        let (header, signed) = signature(ForgeKind::GitHub, &target.secret, b"{}");
        let request = post(&path).header(header, &signed).header("x-gitlab-token", &target.secret).raw("{}");
        let reply = target.world.send(request).await;
        reply.assert_problem(404, "not_found");
        texts.insert(reply.body["detail"].as_str().unwrap().to_owned());
    }
    assert_eq!(texts.len(), 1, "{texts:?}");
    assert_eq!(target.world.send(get(&target.path)).await.status, 405);
}

#[tokio::test]
async fn delivery_about_another_repository_is_ignored() {
    let target = ConnectedRepository::new(ForgeKind::GitHub).await;
    let mut payload: Value = serde_json::from_slice(&read_payload(ForgeKind::GitHub, "opened")).unwrap();
    payload["repository"]["full_name"] = json!("acme/other");
    let reply = target.world.send(target.delivery_of("opened", "a", payload.to_string().into_bytes())).await;
    let outcome = "ignored: it is about another repository, acme/other";
    assert_eq!(reply.body["data"]["outcome"], outcome, "{}", reply.text);
    payload["repository"]["full_name"] = json!("ACME/Shop");
    let reply = target.world.send(target.delivery_of("opened", "b", payload.to_string().into_bytes())).await;
    assert_eq!(reply.body["data"]["outcome"], "pull request 42 updated", "paths ignore case");
    payload["repository"] = Value::Null;
    let reply = target.world.send(target.delivery_of("opened", "c", payload.to_string().into_bytes())).await;
    assert_eq!(reply.body["data"]["outcome"], "ignored: no repository in the payload");
    let ping = target.deliver("ping", "d").await;
    assert_eq!(ping.body["data"]["outcome"], "webhook verified");
}

#[tokio::test]
async fn broken_and_incomplete_payloads_are_answered() {
    let target = ConnectedRepository::new(ForgeKind::GitHub).await;
    for broken in ["", "{", "payload=%7B%7D", "\u{feff}{}"] {
        let reply = target.world.send(target.delivery_of("opened", "a", broken.into())).await;
        reply.assert_problem(400, "invalid_json");
    }
    assert!(target.outcomes().await.is_empty());
    for (number, incomplete) in ["{}", "[]", "null", "{\"pull_request\": {}}"].iter().enumerate() {
        let id = format!("i{number}");
        let reply = target.world.send(target.delivery_of("opened", &id, (*incomplete).into())).await;
        assert_eq!(reply.status, 200, "{}", reply.text);
        let outcome = reply.body["data"]["outcome"].as_str().unwrap();
        assert_eq!(outcome, "ignored: no pull request in the payload", "{incomplete}");
    }
}

#[tokio::test]
async fn deliveries_are_listed_in_pages_and_deleted_after_retention() {
    let target = ConnectedRepository::new(ForgeKind::GitHub).await;
    for id in 0..5 {
        target.deliver("opened", &format!("d{id}")).await;
    }
    let list = format!("{}/{}/deliveries", super::REPOSITORIES, target.repository);
    let (mut seen, mut cursor) = (Vec::new(), String::new());
    loop {
        let page =
            target.world.send(get(&format!("{list}?limit=2{cursor}")).with_account(&target.world.ada)).await;
        assert_eq!((page.status.as_u16(), &page.body["pagination"]["total"]), (200, &json!(5)));
        seen.extend(
            page.body["data"].as_array().unwrap().iter().map(|it| it["id"].as_str().unwrap().to_owned()),
        );
        match page.body["pagination"]["nextCursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => break,
        }
    }
    assert_eq!(seen, ["d4", "d3", "d2", "d1", "d0"]);
    let wrong = get(&format!("{list}?cursor=eHg")).with_account(&target.world.ada);
    target.world.send(wrong).await.assert_problem(400, "invalid_parameter");
    let day = 24 * 60 * 60 * 1_000_000_i64;
    target.world.run_sql(&format!(
        "UPDATE hook_deliveries SET received_at = received_at - {} WHERE delivery_id = 'd0'",
        31 * day
    ));
    target.world.run_sql(&format!(
        "UPDATE hook_deliveries SET received_at = received_at - {} WHERE delivery_id = 'd1'",
        29 * day
    ));
    jobs::sweep(target.world.app.jobs()).await.unwrap();
    assert_eq!(target.outcomes().await.len(), 4);
    let other = get(&list.replace("acme", "globex")).with_account(&target.world.hank);
    assert_eq!(target.world.send(other).await.status, 404);
    assert_eq!(target.world.send(call("GET", &list)).await.status, 401);
}
