//! Changing a webhook during a delivery.

use std::sync::Arc;

use berth_server::config::AppConfig;
use serde_json::json;
use tokio::sync::Notify;

use super::{PATIENCE, ReceiverResponse, WebhookFixture, WebhookReceiver, local_egress_config, patch};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn webhook_url_change_during_a_410_keeps_it_active() {
    let fixture =
        WebhookFixture::with_config(AppConfig { webhook_max: PATIENCE, ..local_egress_config() }).await;
    fixture.world.create_pipeline("shop").await;
    let may = Arc::new(Notify::new());
    let answers = may.clone();
    let old = WebhookReceiver::start(move |_| ReceiverResponse::Later(410, answers.clone())).await;
    let new = WebhookReceiver::start(|_| ReceiverResponse::Status(200)).await;
    fixture.create_webhook("ops", &old.url(), &["pipeline_stopped"]).await;
    fixture.stop_and_resume("shop").await;
    let sent = old.wait_for_requests(1).await;
    let moved =
        fixture.world.send(patch("/ops").with_account(&fixture.ada).json(&json!({"url": new.url()}))).await;
    assert_eq!(moved.status, 200, "{}", moved.text);
    may.notify_one();

    let log = fixture.wait_until("/ops/deliveries", |all| all[0]["attempts"][0].is_object()).await;
    assert_eq!((&log[0]["attempts"][0]["status"], &log[0]["status"]), (&json!(410), &json!("pending")));
    let seen = fixture.fetch("/ops").await;
    assert_eq!((&seen["isActive"], &seen["failures"]), (&json!(true), &json!(0)), "{seen}");
    // The delivery that the old URL refused is sent to the new URL.
    fixture.make_retries_due("ops").await;
    assert_eq!(new.wait_for_requests(1).await[0].id(), sent[0].id());
    fixture.wait_until("/ops/deliveries", |all| all[0]["status"] == "delivered").await;
    assert!(!fixture.world.event_kinds().await.contains(&"webhook_deactivated".to_owned()));
    fixture.shut_down().await;
}
