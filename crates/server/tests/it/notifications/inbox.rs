//! Who is notified of what by default, and what the inbox shows.

use std::time::Duration;

use berth_engine::limits::GIT_AT_ONCE;
use berth_server::jobs::sweep;
use serde_json::{Value, json};

use super::{NotificationFixture, ORG};
use crate::event_streams::EventStream;
use crate::git::OriginRepository;
use crate::jobs_with_runner::JobsWithRunner;
use crate::scoped_access::scoped_member;
use crate::world::{POLL_EVERY, get, post};

/// Timeout of every wait.
const PATIENCE: Duration = Duration::from_secs(60);

#[tokio::test]
async fn takeover_notifies_the_loser_and_not_the_winner() {
    let shop = NotificationFixture::new().await;
    let lost = shop.claim(&shop.grace, &json!({})).await;
    shop.force_claim(&shop.ada, &json!({"reason": "production is down"})).await;
    let inbox = shop.inbox(&shop.grace).await;
    let [told] = inbox.as_slice() else { panic!("{inbox:?}") };
    assert_eq!(told["cause"], "taken_over");
    assert_eq!(told["summary"], "ada took qa-1 of shop over from grace: production is down");
    assert_eq!(
        [&told["pipeline"], &told["environment"], &told["sessionId"], &told["eventKind"]],
        [&json!("shop"), &json!("qa-1"), &lost["sessionId"], &json!("session_overridden")]
    );
    assert_eq!(told["readAt"], Value::Null);
    let event = get(&format!("{ORG}/events/{}", told["eventId"].as_str().unwrap()));
    assert_eq!(shop.send(event.with_account(&shop.grace)).await.status, 200);
    assert_eq!(shop.inbox(&shop.ada).await, Vec::<Value>::new());
}

#[tokio::test]
async fn queue_notifies_the_holder_and_then_the_next_in_the_queue() {
    let shop = NotificationFixture::new().await;
    let held = shop.claim(&shop.grace, &json!({})).await;
    shop.claim(&shop.ada, &json!({"queue": true})).await;
    assert_eq!(shop.causes(&shop.grace).await, ["queue_joined"]);
    assert_eq!(shop.causes(&shop.ada).await, Vec::<String>::new());
    shop.release(&shop.grace, &held).await;
    assert_eq!(shop.causes(&shop.ada).await, ["session_granted"]);
    assert_eq!(shop.causes(&shop.grace).await, ["queue_joined"], "it is not notified again");
}

#[tokio::test]
async fn announced_takeover_notifies_the_holder() {
    let shop = NotificationFixture::new().await;
    shop.claim(&shop.grace, &json!({})).await;
    shop.force_claim(&shop.ada, &json!({"reason": "hotfix", "mode": "grace"})).await;
    assert_eq!(shop.causes(&shop.grace).await, ["takeover_announced"]);
}

#[tokio::test]
async fn owner_of_a_service_account_is_notified_for_it() {
    let shop = NotificationFixture::new().await;
    let (_, ci) = shop.world.create_service_account("ci@acme.test", "deployer").await;
    let claim = post(&format!("{}/sessions", super::ENVIRONMENT)).token(&ci).json(&json!({}));
    assert_eq!(shop.send(claim).await.status, 201);
    shop.force_claim(&shop.grace, &json!({"reason": "x"})).await;
    assert_eq!(shop.causes(&shop.ada).await, ["taken_over"], "Ada created the service account");
}

#[tokio::test]
async fn pending_approval_notifies_those_who_may_approve() {
    let shop = NotificationFixture::new().await;
    let bob = shop.world.create_member("bob@acme.test", "approver").await;
    let vera = shop.world.create_member("vera@acme.test", "viewer").await;
    let approval = shop.world.create_approval().await;
    let inbox = shop.inbox(&bob).await;
    let [told] = inbox.as_slice() else { panic!("{inbox:?}") };
    assert_eq!(
        [&told["cause"], &told["approvalId"], &told["stage"]],
        [&json!("approval_requested"), &json!(approval), &json!("staging")]
    );
    assert_eq!(shop.causes(&shop.grace).await, ["approval_requested"]);
    assert_eq!(shop.causes(&vera).await, Vec::<String>::new());
    assert_eq!(shop.causes(&shop.ada).await, ["approval_requested"], "self-approval is allowed");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn failed_deployment_notifies_its_starter() {
    let shop = NotificationFixture::new().await;
    let definition = "version: 1\npipeline:\n  name: Web\n  stages:\n    - name: staging\n  steps:\n    - name: Deploy\n      type: script\n      params: { run: exit 3 }\n";
    let pipelines = format!("{ORG}/pipelines");
    shop.post(&pipelines, &shop.ada, &json!({"slug": "web", "definition": definition})).await;
    let running = JobsWithRunner::start(&shop.world.app);
    shop.post(&format!("{pipelines}/web/deployments"), &shop.grace, &json!({"commitId": "9fceb02"})).await;
    // The jobs of the server create the notification.
    let inbox = wait_until(&shop, &format!("{ORG}/notifications"), |it| it[0].is_object()).await;
    assert_eq!((inbox[1].is_null(), &inbox[0]["cause"]), (true, &json!("deployment_failed")));
    assert!(inbox[0]["deploymentId"].as_str().unwrap().starts_with("dep_"), "{inbox:?}");
    assert_eq!(shop.list(&shop.ada, "").await, Vec::<Value>::new());
    running.shut_down().await;
}

/// Polls until `is_met` holds for the data of the path, and returns it.
async fn wait_until(shop: &NotificationFixture, path: &str, is_met: impl Fn(&Value) -> bool) -> Value {
    let polling = async {
        loop {
            let seen = shop.send(get(path).with_account(&shop.grace)).await.body["data"].clone();
            if is_met(&seen) {
                return seen;
            }
            tokio::time::sleep(POLL_EVERY).await;
        }
    };
    tokio::time::timeout(PATIENCE, polling).await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn authors_that_cannot_be_read_in_time_delay_no_notification() {
    let (shop, origin) = (NotificationFixture::new().await, OriginRepository::new());
    let definition = "version: 1\npipeline:\n  name: Web\n  tracks: release\n  stages:\n    - name: staging\n  steps:\n    - name: Deploy\n      type: script\n      params: { run: exit 3 }\n";
    origin.write(".berth/web/pipeline.yaml", definition);
    let head = origin.commit("first");
    let running = JobsWithRunner::start(&shop.world.app);
    shop.post(&format!("{ORG}/repositories"), &shop.ada, &json!({"url": origin.url().as_str()})).await;
    let pipelines = format!("{ORG}/pipelines");
    wait_until(&shop, &pipelines, |all| all.as_array().unwrap().iter().any(|it| it["slug"] == "web")).await;
    let start = json!({"commitId": head.as_str()});
    shop.post(&format!("{pipelines}/web/deployments"), &shop.grace, &start).await;
    let inbox = format!("{ORG}/notifications");
    let notified = |all: &Value| all[0]["cause"] == "deployment_failed";
    wait_until(&shop, &inbox, notified).await;

    let (started, mut starts) = tokio::sync::mpsc::unbounded_channel();
    let mut releases = Vec::new();
    let org = crate::audit_export::acme_org_id(&shop.world).await;
    for _ in 0..GIT_AT_ONCE.share {
        let (release, released) = std::sync::mpsc::channel::<()>();
        releases.push(release);
        let (services, started) = (shop.world.app.services().clone(), started.clone());
        tokio::spawn(async move {
            let occupying = services.git.run(org, move || {
                started.send(()).unwrap();
                released.recv().unwrap_err();
            });
            occupying.await.unwrap();
        });
        starts.recv().await.unwrap();
    }
    shop.world.run_sql("UPDATE notification_cursors SET sequence = 0; DELETE FROM notifications");
    tokio::time::timeout(PATIENCE, shop.create_notifications()).await.unwrap();
    wait_until(&shop, &inbox, notified).await;
    drop(releases);
    running.shut_down().await;
}

#[tokio::test]
async fn event_read_again_creates_no_second_notification() {
    let shop = NotificationFixture::new().await;
    shop.claim(&shop.grace, &json!({})).await;
    shop.force_claim(&shop.ada, &json!({"reason": "x"})).await;
    let before = shop.inbox(&shop.grace).await;
    assert_eq!(before.len(), 1);
    shop.world.run_sql("UPDATE notification_cursors SET sequence = 0");
    assert_eq!(shop.inbox(&shop.grace).await, before);
}

#[tokio::test]
async fn old_events_notify_no_one() {
    let shop = NotificationFixture::new().await;
    shop.claim(&shop.grace, &json!({})).await;
    shop.force_claim(&shop.ada, &json!({"reason": "x"})).await;
    let day_micros = 25 * 60 * 60 * 1_000_000_i64;
    shop.world.run_sql(&format!("UPDATE events SET occurred_at = occurred_at - {day_micros}"));
    assert_eq!(shop.inbox(&shop.grace).await, Vec::<Value>::new());
}

#[tokio::test]
async fn read_notifications_leave_the_unread_list() {
    let shop = NotificationFixture::new().await;
    for _ in 0..3 {
        shop.claim(&shop.grace, &json!({})).await;
        let won = shop.force_claim(&shop.ada, &json!({"reason": "x"})).await;
        shop.release(&shop.ada, &won).await;
    }
    let inbox = shop.inbox(&shop.grace).await;
    assert_eq!(inbox.len(), 3);
    let path = format!("{ORG}/notifications/{}/read", inbox[1]["id"].as_str().unwrap());
    let read = shop.post(&path, &shop.grace, &json!({})).await;
    assert!(read["readAt"].is_string(), "{read}");
    assert_eq!(shop.post(&path, &shop.grace, &json!({})).await["readAt"], read["readAt"], "idempotent");
    let unread = shop.list(&shop.grace, "?unread=true").await;
    assert_eq!(unread, [inbox[0].clone(), inbox[2].clone()]);
    let page = shop.send(get(&format!("{ORG}/notifications?limit=2")).with_account(&shop.grace)).await;
    assert_eq!(page.body["pagination"]["total"], 3);
    let cursor = page.body["pagination"]["nextCursor"].as_str().unwrap();
    assert_eq!(shop.list(&shop.grace, &format!("?limit=2&cursor={cursor}")).await, inbox[2..]);

    let path = format!("{ORG}/notifications/read-all");
    assert_eq!(shop.post(&path, &shop.grace, &json!({})).await["read"], 2);
    assert_eq!(shop.list(&shop.grace, "?unread=true").await, Vec::<Value>::new());
    assert_eq!(shop.list(&shop.grace, "").await.len(), 3);
}

#[tokio::test]
async fn inbox_is_visible_to_its_owner_only() {
    let shop = NotificationFixture::new().await;
    shop.claim(&shop.grace, &json!({})).await;
    shop.force_claim(&shop.ada, &json!({"reason": "x"})).await;
    let inbox = shop.inbox(&shop.grace).await;
    let path = format!("{ORG}/notifications/{}/read", inbox[0]["id"].as_str().unwrap());
    shop.send(post(&path).with_account(&shop.ada).json(&json!({}))).await.assert_problem(404, "not_found");
    let foreign = path.replace("/acme/", "/globex/");
    let hank = post(&foreign).with_account(&shop.world.hank).json(&json!({}));
    shop.send(hank).await.assert_problem(404, "not_found");
    assert_eq!(shop.list(&shop.grace, "?unread=true").await.len(), 1);
}

#[tokio::test]
async fn notification_disappears_with_access_to_its_environment() {
    let shop = NotificationFixture::new().await;
    let tess = scoped_member(&shop.world, "tess@acme.test", &[("tester", "environment:shop/qa-*")]).await;
    shop.claim(&tess, &json!({})).await;
    shop.force_claim(&shop.ada, &json!({"reason": "x"})).await;
    let inbox = shop.inbox(&tess).await;
    assert_eq!(inbox.len(), 1);
    let grants = shop.send(get(&format!("{ORG}/grants")).with_account(&shop.ada)).await;
    let grant = grants.body["data"][0]["id"].as_str().unwrap().to_owned();
    let delete = crate::world::call("DELETE", &format!("{ORG}/grants/{grant}")).with_account(&shop.ada);
    assert_eq!(shop.send(delete).await.status, 200);
    assert_eq!(shop.list(&tess, "").await, Vec::<Value>::new());
    let path = format!("{ORG}/notifications/{}/read", inbox[0]["id"].as_str().unwrap());
    shop.send(post(&path).with_account(&tess).json(&json!({}))).await.assert_problem(404, "not_found");
}

#[tokio::test]
async fn removed_member_loses_the_inbox() {
    let shop = NotificationFixture::new().await;
    shop.claim(&shop.grace, &json!({})).await;
    shop.force_claim(&shop.ada, &json!({"reason": "x"})).await;
    assert_eq!(shop.inbox(&shop.grace).await.len(), 1);
    let grace = shop.user_id(&shop.grace).await;
    let remove = crate::world::call("DELETE", &format!("{ORG}/members/{grace}")).with_account(&shop.ada);
    assert_eq!(shop.send(remove).await.status, 200);
    assert_eq!(shop.world.count_rows("SELECT COUNT(*) FROM notifications"), 0);
}

#[tokio::test]
async fn old_and_surplus_notifications_are_deleted() {
    let shop = NotificationFixture::new().await;
    shop.claim(&shop.grace, &json!({})).await;
    shop.force_claim(&shop.ada, &json!({"reason": "x"})).await;
    assert_eq!(shop.inbox(&shop.grace).await.len(), 1);
    // More than the maximum, all older than the next one.
    shop.world.run_sql(
        "INSERT INTO notifications SELECT org_id, 'ntf_' || n, user_id, event_id, -n, event_kind, cause, summary, subject,
            in_inbox, created_at, read_at, mail_due_at, mail_failures, mailed_at
        FROM notifications, (WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c WHERE n < 1005) SELECT n FROM c) AS numbers",
    );
    let won = shop.force_claim(&shop.grace, &json!({"reason": "y"})).await;
    shop.release(&shop.grace, &won).await;
    shop.claim(&shop.grace, &json!({})).await;
    shop.force_claim(&shop.ada, &json!({"reason": "z"})).await;
    shop.create_notifications().await;
    let of_grace = "SELECT COUNT(*) FROM notifications WHERE user_id = (SELECT id FROM users WHERE email = 'grace@acme.test')";
    assert_eq!(shop.world.count_rows(of_grace), 1_000);
    shop.world.run_sql("UPDATE notifications SET created_at = 0");
    sweep(shop.world.app.jobs()).await.unwrap();
    assert_eq!(shop.world.count_rows("SELECT COUNT(*) FROM notifications"), 0);
}

#[tokio::test]
async fn event_stream_tells_when_the_inbox_changes() {
    let shop = NotificationFixture::new().await;
    let asked = get(&format!("{ORG}/events?inbox=true&kind=pipeline_stopped")).with_account(&shop.grace);
    let mut stream = EventStream::open(&shop.world, asked).await;
    let mut next = async || loop {
        let block = stream.next_block().await.unwrap();
        if let Some(data) = block.strip_prefix("event: inbox\ndata: ") {
            return serde_json::from_str::<Value>(data).unwrap();
        }
    };
    assert_eq!(next().await, json!({"unread": 0}));
    shop.claim(&shop.grace, &json!({})).await;
    shop.force_claim(&shop.ada, &json!({"reason": "x"})).await;
    shop.create_notifications().await;
    assert_eq!(next().await, json!({"unread": 1}));
    shop.post(&format!("{ORG}/notifications/read-all"), &shop.grace, &json!({})).await;
    assert_eq!(next().await, json!({"unread": 0}));
}

#[tokio::test]
async fn token_without_the_permission_gets_no_inbox() {
    let shop = NotificationFixture::new().await;
    let restricted =
        json!({"name": "reader", "restrictTo": [{"permissions": ["events:read"], "scope": "org"}]});
    let made = shop.post(&format!("{ORG}/api-tokens"), &shop.grace, &restricted).await;
    let token = made["token"].as_str().unwrap();
    let list = get(&format!("{ORG}/notifications")).token(token);
    shop.send(list).await.assert_problem(403, "forbidden");
    let stream = get(&format!("{ORG}/events?inbox=true")).token(token).header("accept", "text/event-stream");
    shop.send(stream).await.assert_problem(403, "forbidden");
    let events = get(&format!("{ORG}/events")).token(token);
    assert_eq!(shop.send(events).await.status, 200);
}
