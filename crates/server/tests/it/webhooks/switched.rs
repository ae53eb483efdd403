//! Changing a webhook during a delivery.

use std::sync::Arc;

use berth_server::config::AppConfig;
use serde_json::json;
use tokio::sync::Notify;

use super::{Answer, Harbour, PATIENCE, Receiver, config, patch};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn webhook_url_change_during_a_410_keeps_it_active() {
    let harbour = Harbour::with(AppConfig { webhook_max: PATIENCE, ..config() }).await;
    harbour.world.pipeline("shop").await;
    let may = Arc::new(Notify::new());
    let answers = may.clone();
    let old = Receiver::start(move |_| Answer::Later(410, answers.clone())).await;
    let new = Receiver::start(|_| Answer::Status(200)).await;
    harbour.webhook("ops", &old.url(), &["pipeline_stopped"]).await;
    harbour.stop_and_resume("shop").await;
    let sent = old.heard(1).await;
    let moved = harbour.world.send(patch("/ops").by(&harbour.ada).json(&json!({"url": new.url()}))).await;
    assert_eq!(moved.status, 200, "{}", moved.text);
    may.notify_one();

    let log = harbour.until("/ops/deliveries", |all| all[0]["attempts"][0].is_object()).await;
    assert_eq!((&log[0]["attempts"][0]["status"], &log[0]["status"]), (&json!(410), &json!("pending")));
    let seen = harbour.see("/ops").await;
    assert_eq!((&seen["isActive"], &seen["failures"]), (&json!(true), &json!(0)), "{seen}");
    // The delivery that the old URL refused is sent to the new URL.
    harbour.hasten("ops").await;
    assert_eq!(new.heard(1).await[0].id(), sent[0].id());
    harbour.until("/ops/deliveries", |all| all[0]["status"] == "delivered").await;
    assert!(!harbour.world.kinds().await.contains(&"webhook_deactivated".to_owned()));
    harbour.close().await;
}
