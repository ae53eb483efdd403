//! Deliveries are made at least once, always with the same id. They are retried, eventually given up, redelivered on
//! request, and independent of each other.

use axum::body::Body;
use futures_util::stream;
use serde_json::json;

use super::{ReceiverResponse, WebhookFixture, WebhookReceiver, patch};
use crate::world::{get, post};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn webhook_delivers_a_signed_event_equal_to_the_api() {
    let fixture = WebhookFixture::start().await;
    fixture.world.create_pipeline("shop").await;
    let receiver = WebhookReceiver::start(|_| ReceiverResponse::Status(204)).await;
    let secret = fixture.create_webhook("ops", &receiver.url(), &["pipeline_stopped"]).await;
    fixture.stop_and_resume("shop").await;

    let [first] = receiver.wait_for_requests(1).await.try_into().ok().unwrap();
    assert!(first.is_signed_with(&secret));
    assert!(!first.is_signed_with("whsec_c29tZWJvZHkgZWxzZSdzIHNlY3JldA=="));
    let body = first.json();
    assert_eq!(
        (&body["type"], &body["data"]["kind"]),
        (&json!("pipeline_stopped"), &json!("pipeline_stopped"))
    );
    let path = body["data"]["links"]["event"].as_str().unwrap();
    let mut shown = fixture.world.send(get(path).with_account(&fixture.ada)).await.body["data"].clone();
    assert_eq!(body["timestamp"], shown["occurredAt"]);
    shown["organization"] = json!({"id": shown["organizationId"], "slug": "acme"});
    shown["links"] = body["data"]["links"].clone();
    assert_eq!(body["data"], shown);

    let delivered = fixture.wait_until("/ops/deliveries", |all| all[0]["status"] == "delivered").await;
    assert_eq!(delivered[0]["id"], first.id());
    assert_eq!(delivered[0]["attempts"][0]["status"], 204);
    assert_eq!(delivered.as_array().unwrap().len(), 1, "it named one kind");
    // Deliveries are logged separately and record no events.
    let kinds = fixture.world.event_kinds().await;
    assert_eq!(kinds.last().unwrap(), "pipeline_resumed");
    fixture.shut_down().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn webhook_retry_has_the_same_id_and_body() {
    let fixture = WebhookFixture::start().await;
    fixture.world.create_pipeline("shop").await;
    let receiver =
        WebhookReceiver::start(|number| ReceiverResponse::Status(if number < 2 { 500 } else { 200 })).await;
    fixture.create_webhook("ops", &receiver.url(), &["pipeline_stopped"]).await;
    fixture.stop_and_resume("shop").await;
    for tries in 1..=2 {
        let seen = fixture.wait_until("/ops", |hook| hook["failures"] == tries).await;
        assert_eq!(seen["pending"], 1);
        fixture.make_retries_due("ops").await;
    }
    let arrived = receiver.wait_for_requests(3).await;
    assert!(arrived.iter().all(|it| it.id() == arrived[0].id() && it.body == arrived[0].body));
    let log = fixture.wait_until("/ops/deliveries", |all| all[0]["status"] == "delivered").await;
    let statuses: Vec<_> =
        log[0]["attempts"].as_array().unwrap().iter().map(|it| it["status"].clone()).collect();
    assert_eq!(statuses, [500, 500, 200]);
    assert_eq!(log[0]["attempts"][0]["error"], "responded with 500");
    assert_eq!(fixture.fetch("/ops").await["failures"], 0);
    fixture.shut_down().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn webhook_honours_retry_after_and_follows_no_redirects() {
    let fixture = WebhookFixture::start().await;
    fixture.world.create_pipeline("shop").await;
    let busy =
        WebhookReceiver::start(|_| ReceiverResponse::WithHeader(503, "retry-after", "1800".into())).await;
    let elsewhere = busy.url();
    let moved =
        WebhookReceiver::start(move |_| ReceiverResponse::WithHeader(307, "location", elsewhere.clone()))
            .await;
    fixture.create_webhook("busy", &busy.url(), &["pipeline_stopped"]).await;
    fixture.create_webhook("moved", &moved.url(), &["pipeline_stopped"]).await;
    fixture.stop_and_resume("shop").await;
    let seconds = |delivery: &serde_json::Value| {
        let time = |name: &str| delivery[name].as_str().unwrap().parse::<jiff::Timestamp>().unwrap();
        time("nextTryAt").duration_since(time("createdAt")).as_secs()
    };
    let waits = fixture.wait_until("/busy/deliveries", |all| all[0]["attempts"][0].is_object()).await;
    assert!((1_800..1_900).contains(&seconds(&waits[0])), "{waits}");
    let waits = fixture.wait_until("/moved/deliveries", |all| all[0]["attempts"][0].is_object()).await;
    assert!(
        waits[0]["attempts"][0]["error"].as_str().unwrap().contains("redirects are not followed"),
        "{waits}"
    );
    assert!((5..10).contains(&seconds(&waits[0])), "{waits}");
    assert_eq!((busy.all_requests().len(), moved.all_requests().len()), (1, 1));
    fixture.shut_down().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn webhook_is_deactivated_after_410() {
    let fixture = WebhookFixture::start().await;
    fixture.world.create_pipeline("shop").await;
    let receiver = WebhookReceiver::start(|_| ReceiverResponse::Status(410)).await;
    fixture.create_webhook("ops", &receiver.url(), &["*"]).await;
    fixture.stop_and_resume("shop").await;
    let seen = fixture.wait_until("/ops", |hook| hook["isActive"] == false).await;
    assert!(seen["deactivated"]["reason"].as_str().unwrap().contains("410"), "{seen}");
    assert_eq!(seen["pending"], 0, "what waited waits no more");
    assert!(fixture.world.event_kinds().await.contains(&"webhook_deactivated".to_owned()));
    let ended = fixture.fetch("/ops/deliveries?status=failed").await;
    let id = ended[0]["id"].as_str().unwrap();
    fixture
        .post(&format!("/ops/deliveries/{id}/redeliver"), &json!({}))
        .await
        .assert_problem(409, "invalid_state");

    // After reactivation, the webhook receives only new events.
    let heard = receiver.all_requests().len();
    let on =
        fixture.world.send(patch("/ops").with_account(&fixture.ada).json(&json!({"isActive": true}))).await;
    assert_eq!(on.body["data"]["isActive"], true, "{}", on.text);
    fixture.stop_and_resume("shop").await;
    let next = receiver.wait_for_requests(heard + 1).await;
    assert_eq!(next[heard].json()["type"], "pipeline_stopped");
    fixture.shut_down().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn webhook_receiver_that_hangs_or_floods_delays_no_other() {
    let fixture = WebhookFixture::start().await;
    fixture.world.create_pipeline("shop").await;
    let hanging = WebhookReceiver::start(|_| ReceiverResponse::Hang).await;
    let endless = WebhookReceiver::start(|_| {
        let chunk = axum::body::Bytes::from(vec![b'x'; 64 * 1024]);
        let chunks = stream::iter((0..16 * 1024).map(move |_| Ok::<_, std::io::Error>(chunk.clone())));
        ReceiverResponse::Body(Body::from_stream(chunks))
    })
    .await;
    let quick = WebhookReceiver::start(|_| ReceiverResponse::Status(200)).await;
    for (name, receiver) in [("hanging", &hanging), ("endless", &endless), ("quick", &quick)] {
        fixture.create_webhook(name, &receiver.url(), &["pipeline_stopped", "pipeline_resumed"]).await;
    }
    for _ in 0..5 {
        fixture.stop_and_resume("shop").await;
    }
    quick.wait_for_requests(10).await;
    endless.wait_for_requests(10).await;
    let done = |all: &serde_json::Value| all.as_array().unwrap().iter().all(|it| it["status"] == "delivered");
    for name in ["quick", "endless"] {
        let log = fixture.wait_until(&format!("/{name}/deliveries"), done).await;
        assert_eq!(log.as_array().unwrap().len(), 10);
    }
    let log = fixture.wait_until("/hanging/deliveries", |all| all[9]["attempts"][0].is_object()).await;
    let error = log[9]["attempts"][0]["error"].as_str().unwrap();
    assert!(error.starts_with("no response within"), "{error}");
    fixture.shut_down().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn webhook_failed_delivery_can_be_redelivered_with_the_same_id() {
    let fixture = WebhookFixture::start().await;
    fixture.world.create_pipeline("shop").await;
    let tries = usize::try_from(berth_core::webhook::TRIES_MAX).unwrap();
    let receiver = WebhookReceiver::start(move |number| {
        ReceiverResponse::Status(if number < tries { 404 } else { 200 })
    })
    .await;
    fixture.create_webhook("ops", &receiver.url(), &["pipeline_stopped"]).await;
    fixture.stop_and_resume("shop").await;
    for number in 1..=tries {
        fixture.wait_until("/ops", |hook| hook["failures"] == number).await;
        fixture.make_retries_due("ops").await;
    }
    let dead = fixture.fetch("/ops/deliveries?status=failed").await;
    assert_eq!(
        (dead[0]["nextTryAt"].clone(), dead[0]["attempts"].as_array().unwrap().len()),
        (json!(null), tries)
    );
    assert_eq!(fixture.fetch("/ops").await["pending"], 0);

    let id = dead[0]["id"].as_str().unwrap();
    let again = fixture.post(&format!("/ops/deliveries/{id}/redeliver"), &json!({})).await;
    assert_eq!(
        (again.status.as_u16(), &again.body["data"]["status"]),
        (202, &json!("pending")),
        "{}",
        again.text
    );
    fixture.wait_until("/ops/deliveries", |all| all[0]["status"] == "delivered").await;
    let arrived = receiver.wait_for_requests(tries + 1).await;
    assert!(arrived.iter().all(|it| it.id() == id));
    // A successful delivery can be redelivered too.
    fixture.post(&format!("/ops/deliveries/{id}/redeliver"), &json!({})).await;
    assert_eq!(receiver.wait_for_requests(tries + 2).await[tries + 1].id(), id);
    fixture
        .post("/ops/deliveries/dlv_00000000000000000000000000/redeliver", &json!({}))
        .await
        .assert_problem(404, "not_found");
    fixture.shut_down().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn webhook_delivers_everything_despite_failures() {
    let fixture = WebhookFixture::start().await;
    fixture.world.create_pipeline("shop").await;
    let receiver =
        WebhookReceiver::start(|number| ReceiverResponse::Status(if number % 3 == 1 { 503 } else { 200 }))
            .await;
    fixture.create_webhook("ops", &receiver.url(), &["pipeline_stopped", "pipeline_resumed"]).await;
    for _ in 0..20 {
        fixture.stop_and_resume("shop").await;
    }
    // Waits until each delivery has been attempted once, and then makes the retries due.
    fixture
        .wait_until("/ops/deliveries?limit=200", |all| {
            let all = all.as_array().unwrap();
            all.len() == 40 && all.iter().all(|it| it["attempts"][0].is_object())
        })
        .await;
    loop {
        let pending = fixture.fetch("/ops").await["pending"].as_i64().unwrap();
        if pending == 0 {
            break;
        }
        fixture.make_retries_due("ops").await;
        tokio::time::sleep(crate::world::POLL_EVERY).await;
    }
    let events = fixture
        .world
        .send(get("/api/v1/organizations/acme/events?limit=200").with_account(&fixture.ada))
        .await;
    let told = ["pipeline_stopped", "pipeline_resumed"];
    let mut wanted: Vec<i64> = events.body["data"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|event| told.contains(&event["kind"].as_str().unwrap()))
        .map(|event| event["sequence"].as_i64().unwrap())
        .collect();
    let mut sequences: Vec<i64> =
        receiver.all_requests().iter().map(|it| it.json()["data"]["sequence"].as_i64().unwrap()).collect();
    sequences.sort_unstable();
    sequences.dedup();
    wanted.sort_unstable();
    assert_eq!(sequences, wanted);
    fixture.shut_down().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn webhook_ping_shows_the_receivers_response() {
    let fixture = WebhookFixture::start().await;
    let receiver = WebhookReceiver::start(|number| match number {
        0 => ReceiverResponse::Body(Body::from("hello\u{1b}[31m there")),
        1 => ReceiverResponse::Status(500),
        _ => ReceiverResponse::Hang,
    })
    .await;
    let secret = fixture.create_webhook("ops", &receiver.url(), &["step_failed"]).await;
    let once = post(&format!("{}/ops/ping", super::WEBHOOKS))
        .with_account(&fixture.ada)
        .header("idempotency-key", "p");
    let fine = fixture.world.send(once.json(&json!({}))).await.body["data"].clone();
    assert_eq!((&fine["isAccepted"], &fine["status"]), (&json!(true), &json!(200)), "{fine}");
    assert_eq!(fine["excerpt"], "hello [31m there");
    let arrived = receiver.wait_for_requests(1).await;
    assert!(arrived[0].is_signed_with(&secret) && arrived[0].json()["type"] == "ping");
    let again = post(&format!("{}/ops/ping", super::WEBHOOKS))
        .with_account(&fixture.ada)
        .header("idempotency-key", "p");
    let again = fixture.world.send(again.json(&json!({}))).await;
    assert_eq!((again.header("idempotent-replayed"), receiver.all_requests().len()), ("true", 1));
    let bad = fixture.post("/ops/ping", &json!({})).await.body["data"].clone();
    assert_eq!(
        (&bad["isAccepted"], &bad["error"], &bad["excerpt"]),
        (&json!(false), &json!("responded with 500"), &json!("noted"))
    );
    let silent = fixture.post("/ops/ping", &json!({})).await.body["data"].clone();
    assert_eq!((&silent["status"], &silent["isAccepted"]), (&json!(null), &json!(false)), "{silent}");
    assert_eq!(fixture.fetch("/ops/deliveries").await, json!([]), "a ping is no delivery");
    fixture.shut_down().await;
}
