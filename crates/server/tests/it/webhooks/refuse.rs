//! Webhooks that are refused when they are created, and deliveries that are refused before they are sent.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use berth_core::event::{EventKind, EventSubject, NewEvent};
use berth_server::config::AppConfig;
use berth_server::limits::DELIVERIES_PENDING_MAX;
use berth_store::{StoreError, TxContext};
use serde_json::{Value, json};

use super::{Answer, Harbour, Receiver, WEBHOOKS, patch};
use crate::world::{World, get, post};

#[tokio::test]
async fn invalid_webhook_is_refused_with_advice() {
    let world = World::new().await;
    let url = "https://hooks.acme.test/";
    for (body, pointer, words) in [
        (json!({"name": "Ops", "url": url, "kinds": ["*"]}), "/name", "1 to 63"),
        (json!({"name": "ops", "url": url, "kinds": []}), "/kinds", "1 to 100"),
        (
            json!({"name": "ops", "url": url, "kinds": ["deployment_fialed"]}),
            "/kinds/0",
            "did you mean `deployment_failed`?",
        ),
        (json!({"name": "ops", "url": url, "kinds": ["*", "x"]}), "/kinds/1", "is not a kind of event"),
        (json!({"name": "ops", "url": url, "kinds": ["*"], "format": "teams"}), "/format", "slack"),
        (json!({"name": "ops", "url": url, "kinds": ["*"], "secret": "mine"}), "/secret", ""),
        (json!({"name": "ops", "url": "nonsense", "kinds": ["*"]}), "/url", "https://"),
        (json!({"name": "ops", "url": "http://hooks.acme.test/", "kinds": ["*"]}), "/url", "--egress-allow"),
        (json!({"name": "ops", "url": "https://10.0.0.7/", "kinds": ["*"]}), "/url", "--egress-allow"),
        (json!({"name": "ops", "url": "https://0x7f.1/", "kinds": ["*"]}), "/url", "public address"),
        (json!({"name": "ops", "url": "https://[::1]/", "kinds": ["*"]}), "/url", "public address"),
        (
            json!({"name": "ops", "url": "https://a:b@hooks.acme.test/", "kinds": ["*"]}),
            "/url",
            "user or password",
        ),
        (json!({"name": "ops", "url": "ftp://hooks.acme.test/", "kinds": ["*"]}), "/url", "https://"),
        (
            json!({"name": "ops", "url": format!("{url}{}", "x".repeat(2_048)), "kinds": ["*"]}),
            "/url",
            "2,048",
        ),
    ] {
        let reply = world.send(post(WEBHOOKS).by(&world.ada).json(&body)).await;
        reply.is_invalid_input();
        let error = &reply.body["errors"][0];
        assert_eq!(error["pointer"], pointer, "{}", reply.text);
        assert!(error["detail"].as_str().unwrap().contains(words), "{}", reply.text);
    }
    let fine = json!({"name": "ops", "url": url, "kinds": ["*"]});
    assert_eq!(world.send(post(WEBHOOKS).by(&world.ada).json(&fine)).await.status, 201);
    for body in [json!({"url": "https://127.0.0.1/"}), json!({"kinds": ["nope"]}), json!({"name": "a\u{0}"})]
    {
        world.send(patch("/ops").by(&world.ada).json(&body)).await.is(400, "invalid_request");
    }
}

/// Host names are resolved for every delivery. Whether it is allowed depends on the resolved address.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn webhook_to_a_loopback_host_name_is_refused_at_delivery() {
    let world = World::new().await;
    let body = json!({"name": "inside", "url": "https://localhost:9/", "kinds": ["*"]});
    assert_eq!(world.send(post(WEBHOOKS).by(&world.ada).json(&body)).await.status, 201);
    let ping = world.send(post(&format!("{WEBHOOKS}/inside/ping")).by(&world.ada)).await;
    let error = ping.body["data"]["error"].as_str().unwrap();
    assert!(error.contains("not a public address"), "{}", ping.text);
}

/// Records `count` events about failed steps in one transaction.
async fn fail_steps(harbour: &Harbour, count: i64) {
    let context = TxContext::system(Some(crate::history::org(&harbour.world).await));
    let record = harbour.world.app.store().transact(context, move |tx| {
        for number in 0..count {
            tx.record(NewEvent::new(EventKind::StepFailed, EventSubject::new("step", number, None)))?;
        }
        Ok::<_, StoreError>(())
    });
    record.await.unwrap();
}

/// While its queue of deliveries is full, a webhook reads no more events. It continues when there is room again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn webhook_queue_is_bounded_and_catches_up() {
    let harbour = Harbour::open().await;
    let works = Arc::new(AtomicBool::new(false));
    let now_works = works.clone();
    let receiver =
        Receiver::start(move |_| Answer::Status(if now_works.load(Ordering::SeqCst) { 200 } else { 500 }))
            .await;
    harbour.webhook("ops", &receiver.url(), &["step_failed"]).await;
    let happened = DELIVERIES_PENDING_MAX + 50;
    fail_steps(&harbour, happened).await;
    let is_full =
        |hook: &Value| hook["pending"] == DELIVERIES_PENDING_MAX && hook["failures"].as_i64() >= Some(5);
    assert_eq!(harbour.until("/ops", is_full).await["dropped"], 0);

    works.store(true, Ordering::SeqCst);
    harbour.hasten("ops").await;
    let path = format!("{WEBHOOKS}/ops/deliveries?limit=1&status=delivered");
    let total =
        async || harbour.world.send(get(&path).by(&harbour.ada)).await.body["pagination"]["total"].clone();
    let all = tokio::time::timeout(super::PATIENCE, async {
        while total().await != happened {
            tokio::time::sleep(crate::world::POLL_EVERY).await;
        }
    });
    assert!(all.await.is_ok(), "{} of {happened} were delivered", total().await);
    let done = harbour.see("/ops").await;
    assert_eq!((&done["pending"], &done["dropped"], &done["failures"]), (&json!(0), &json!(0), &json!(0)));
    harbour.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn webhook_events_too_far_behind_are_dropped_and_counted() {
    let harbour = Harbour::with(AppConfig { webhook_behind_max: 20, ..super::config() }).await;
    let receiver = Receiver::start(|_| Answer::Status(500)).await;
    harbour.webhook("ops", &receiver.url(), &["step_failed"]).await;
    fail_steps(&harbour, DELIVERIES_PENDING_MAX + 50).await;
    let seen = harbour.until("/ops", |hook| hook["dropped"].as_i64() > Some(0)).await;
    assert_eq!((&seen["pending"], &seen["dropped"]), (&json!(DELIVERIES_PENDING_MAX), &json!(30)));
    harbour.close().await;
}
