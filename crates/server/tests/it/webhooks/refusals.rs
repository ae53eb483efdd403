//! Webhooks that are refused when they are created, and deliveries that are refused before they are sent.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use berth_core::event::{EventKind, EventSubject, NewEvent};
use berth_server::config::AppConfig;
use berth_server::limits::DELIVERIES_PENDING_MAX;
use berth_store::{StoreError, TxContext};
use serde_json::{Value, json};

use super::{ReceiverResponse, WEBHOOKS, WebhookFixture, WebhookReceiver, patch};
use crate::world::{TestWorld, get, post};

#[tokio::test]
async fn invalid_webhook_is_refused_with_advice() {
    let world = TestWorld::new().await;
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
        let reply = world.send(post(WEBHOOKS).with_account(&world.ada).json(&body)).await;
        reply.assert_invalid_input();
        let error = &reply.body["errors"][0];
        assert_eq!(error["pointer"], pointer, "{}", reply.text);
        assert!(error["detail"].as_str().unwrap().contains(words), "{}", reply.text);
    }
    let fine = json!({"name": "ops", "url": url, "kinds": ["*"]});
    assert_eq!(world.send(post(WEBHOOKS).with_account(&world.ada).json(&fine)).await.status, 201);
    for body in [json!({"url": "https://127.0.0.1/"}), json!({"kinds": ["nope"]}), json!({"name": "a\u{0}"})]
    {
        world
            .send(patch("/ops").with_account(&world.ada).json(&body))
            .await
            .assert_problem(400, "invalid_request");
    }
}

/// Host names are resolved for every delivery. Whether it is allowed depends on the resolved address.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn webhook_to_a_loopback_host_name_is_refused_at_delivery() {
    let world = TestWorld::new().await;
    let body = json!({"name": "inside", "url": "https://localhost:9/", "kinds": ["*"]});
    assert_eq!(world.send(post(WEBHOOKS).with_account(&world.ada).json(&body)).await.status, 201);
    let ping = world.send(post(&format!("{WEBHOOKS}/inside/ping")).with_account(&world.ada)).await;
    let error = ping.body["data"]["error"].as_str().unwrap();
    assert!(error.contains("not a public address"), "{}", ping.text);
}

/// Records `count` events about failed steps in one transaction.
async fn record_failed_steps(fixture: &WebhookFixture, count: i64) {
    let context = TxContext::system(Some(crate::audit_export::acme_org_id(&fixture.world).await));
    let record = fixture.world.app.store().transact(context, move |tx| {
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
    let fixture = WebhookFixture::start().await;
    let works = Arc::new(AtomicBool::new(false));
    let now_works = works.clone();
    let receiver = WebhookReceiver::start(move |_| {
        ReceiverResponse::Status(if now_works.load(Ordering::SeqCst) { 200 } else { 500 })
    })
    .await;
    fixture.create_webhook("ops", &receiver.url(), &["step_failed"]).await;
    let happened = DELIVERIES_PENDING_MAX + 50;
    record_failed_steps(&fixture, happened).await;
    let is_full =
        |hook: &Value| hook["pending"] == DELIVERIES_PENDING_MAX && hook["failures"].as_i64() >= Some(5);
    assert_eq!(fixture.wait_until("/ops", is_full).await["dropped"], 0);

    works.store(true, Ordering::SeqCst);
    fixture.make_retries_due("ops").await;
    let path = format!("{WEBHOOKS}/ops/deliveries?limit=1&status=delivered");
    let total = async || {
        fixture.world.send(get(&path).with_account(&fixture.ada)).await.body["pagination"]["total"].clone()
    };
    let all = tokio::time::timeout(super::PATIENCE, async {
        while total().await != happened {
            tokio::time::sleep(crate::world::POLL_EVERY).await;
        }
    });
    assert!(all.await.is_ok(), "{} of {happened} were delivered", total().await);
    let done = fixture.fetch("/ops").await;
    assert_eq!((&done["pending"], &done["dropped"], &done["failures"]), (&json!(0), &json!(0), &json!(0)));
    fixture.shut_down().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn webhook_events_too_far_behind_are_dropped_and_counted() {
    let fixture =
        WebhookFixture::with_config(AppConfig { webhook_behind_max: 20, ..super::local_egress_config() })
            .await;
    let receiver = WebhookReceiver::start(|_| ReceiverResponse::Status(500)).await;
    fixture.create_webhook("ops", &receiver.url(), &["step_failed"]).await;
    record_failed_steps(&fixture, DELIVERIES_PENDING_MAX + 50).await;
    let seen = fixture.wait_until("/ops", |hook| hook["dropped"].as_i64() > Some(0)).await;
    assert_eq!((&seen["pending"], &seen["dropped"]), (&json!(DELIVERIES_PENDING_MAX), &json!(30)));
    fixture.shut_down().await;
}
