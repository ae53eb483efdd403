//! What is refused before anything is sent, and what is refused at the last moment.

use std::sync::Arc;

use berth_core::name::Slug;
use serde_json::json;

use super::{Answer, Harbour, Receiver, WEBHOOKS, patch};
use crate::world::{World, post};

#[tokio::test]
async fn bad_webhooks_are_refused_with_what_to_do() {
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
        (json!({"name": "ops", "url": "https://0x7f.1/", "kinds": ["*"]}), "/url", "open network"),
        (json!({"name": "ops", "url": "https://[::1]/", "kinds": ["*"]}), "/url", "open network"),
        (
            json!({"name": "ops", "url": "https://a:b@hooks.acme.test/", "kinds": ["*"]}),
            "/url",
            "user or a password",
        ),
        (json!({"name": "ops", "url": "ftp://hooks.acme.test/", "kinds": ["*"]}), "/url", "https://"),
        (
            json!({"name": "ops", "url": format!("{url}{}", "x".repeat(2_048)), "kinds": ["*"]}),
            "/url",
            "2,048",
        ),
    ] {
        let reply = world.send(post(WEBHOOKS).by(&world.ada).json(&body)).await;
        reply.is(400, "invalid_request");
        let error = &reply.body["errors"][0];
        assert_eq!(error["pointer"], pointer, "{}", reply.text);
        assert!(error["detail"].as_str().unwrap().contains(words), "{}", reply.text);
    }
    let fine = json!({"name": "ops", "url": url, "kinds": ["*"]});
    assert_eq!(world.send(post(WEBHOOKS).by(&world.ada).json(&fine)).await.status, 201);
    for body in [json!({"url": "https://127.0.0.1/"}), json!({"kinds": ["nope"]}), json!({"name": ""})] {
        world.send(patch("/ops").by(&world.ada).json(&body)).await.is(400, "invalid_request");
    }
}

/// Names are looked up when something is sent: then the answer decides, whatever was said before.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_name_of_this_machine_is_refused_when_it_is_asked() {
    let world = World::new().await;
    let body = json!({"name": "inside", "url": "https://localhost:9/", "kinds": ["*"]});
    assert_eq!(world.send(post(WEBHOOKS).by(&world.ada).json(&body)).await.status, 201);
    let ping = world.send(post(&format!("{WEBHOOKS}/inside/ping")).by(&world.ada)).await;
    let error = ping.body["data"]["error"].as_str().unwrap();
    assert!(error.contains("not on the open network"), "{}", ping.text);
}

/// A queue that is full stops reading; what falls too far behind is dropped and counted.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_broken_receivers_queue_is_bounded_and_it_catches_up() {
    use berth_core::event::{EventKind, NewEvent, Subject};
    use berth_server::limits::DELIVERIES_PENDING_MAX;
    use berth_store::{Context, StoreError};

    let harbour = Harbour::open().await;
    let works = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let now_works = works.clone();
    let receiver = Receiver::start(move |_| {
        Answer::Status(if now_works.load(std::sync::atomic::Ordering::SeqCst) { 200 } else { 500 })
    })
    .await;
    harbour.webhook("ops", &receiver.url(), &["step_failed"]).await;
    let org = crate::history::org(&harbour.world).await;
    let happened = DELIVERIES_PENDING_MAX + 50;
    let record = harbour.world.app.store().transact(Context::system(Some(org)), move |tx| {
        for number in 0..happened {
            let name = Slug::parse(&format!("step-{number}")).unwrap();
            tx.record(NewEvent::new(
                EventKind::StepFailed,
                Subject::new("step", number, Some(name.as_str())),
            ))?;
        }
        Ok::<_, StoreError>(())
    });
    record.await.unwrap();
    let full = harbour
        .until("/ops", |hook| {
            hook["pending"] == DELIVERIES_PENDING_MAX && hook["failures"].as_i64() >= Some(5)
        })
        .await;
    assert_eq!(full["dropped"], 0);

    works.store(true, std::sync::atomic::Ordering::SeqCst);
    harbour.hasten("ops").await;
    let done = harbour.until("/ops", |hook| hook["pending"] == 0).await;
    assert_eq!((&done["dropped"], &done["failures"]), (&json!(0), &json!(0)));
    let page = harbour
        .world
        .send(
            crate::world::get(&format!("{WEBHOOKS}/ops/deliveries?limit=1&status=delivered"))
                .by(&harbour.ada),
        )
        .await;
    assert_eq!(page.body["pagination"]["total"], happened, "nothing was lost: {}", page.text);
    harbour.close().await;
}
