//! The webhook resource: create, read, update, delete.

use serde_json::json;

use super::{Harbour, WEBHOOKS, delete, patch};
use crate::world::{get, post};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn webhook_create_read_update_delete() {
    let harbour = Harbour::open().await;
    let (world, ada) = (&harbour.world, &harbour.ada);
    harbour.webhook("ops", "https://hooks.acme.test/a?key=1#part", &["step_failed"]).await;
    let seen = harbour.see("/ops").await;
    assert_eq!(seen["url"], "https://hooks.acme.test/a?key=1", "a fragment is nobody's business");
    assert_eq!(
        (&seen["format"], &seen["isActive"], &seen["deactivated"]),
        (&json!("standard"), &json!(true), &json!(null))
    );
    let id = seen["id"].as_str().unwrap();
    assert!(id.starts_with("whk_") && harbour.see(&format!("/{id}")).await == seen);
    harbour
        .post("", &json!({"name": "ops", "url": "https://x.test/", "kinds": ["*"]}))
        .await
        .is(409, "already_exists");

    let viewer = world.member("vera@acme.test", "viewer").await;
    let read = world.send(get(&format!("{WEBHOOKS}/ops")).by(&viewer)).await;
    assert_eq!(read.body["data"]["url"], "https://hooks.acme.test/…", "{}", read.text);
    assert!(!read.text.contains("key=1"));
    world.send(post(&format!("{WEBHOOKS}/ops/ping")).by(&viewer)).await.is(403, "forbidden");

    let view = world.send(get(&format!("{WEBHOOKS}/ops")).by(ada)).await;
    let etag = view.header("etag").to_owned();
    let change = json!({"name": "chat", "format": "slack", "kinds": ["*"], "isActive": false});
    let changed = world.send(patch("/ops").by(ada).header("if-match", &etag).json(&change)).await;
    assert_eq!(changed.status, 200, "{}", changed.text);
    assert_eq!(
        (&changed.body["data"]["name"], &changed.body["data"]["format"]),
        (&json!("chat"), &json!("slack"))
    );
    assert!(changed.body["data"]["deactivated"]["at"].is_string());
    assert_eq!(changed.body["data"]["deactivated"]["reason"], json!(null));
    world
        .send(patch("/chat").by(ada).header("if-match", &etag).json(&json!({"name": "x"})))
        .await
        .is(412, "precondition_failed");
    let calm = world.kinds().await.len();
    world.send(patch("/chat").by(ada).json(&json!({"name": "chat"}))).await;
    assert_eq!(world.kinds().await.len(), calm, "nothing was changed");

    let gone = world.send(delete("/chat").by(ada)).await;
    assert!(gone.body["data"]["deletedAt"].is_string(), "{}", gone.text);
    world.send(get(&format!("{WEBHOOKS}/{id}")).by(ada)).await.is(404, "not_found");
    let told: Vec<_> = world.kinds().await.into_iter().filter(|kind| kind.starts_with("webhook_")).collect();
    assert_eq!(told, ["webhook_created", "webhook_updated", "webhook_deleted"]);
    // A webhook's URL may contain a secret, so it does not appear in events.
    let events = world.send(get("/api/v1/organizations/acme/events").by(ada)).await;
    assert!(!events.text.contains("hooks.acme.test"));
    harbour.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn webhooks_are_limited_and_isolated_by_organization() {
    let harbour = Harbour::open().await;
    for number in 0..100 {
        harbour.webhook(&format!("hook-{number}"), "https://hooks.acme.test/", &["step_failed"]).await;
    }
    let one_more = json!({"name": "one-more", "url": "https://hooks.acme.test/", "kinds": ["*"]});
    harbour.post("", &one_more).await.is(409, "invalid_state");
    let page = harbour.world.send(get(&format!("{WEBHOOKS}?limit=30&offset=90")).by(&harbour.ada)).await;
    assert_eq!(
        (page.body["data"].as_array().unwrap().len(), &page.body["pagination"]["total"]),
        (10, &json!(100))
    );
    let theirs = get("/api/v1/organizations/globex/webhooks").by(&harbour.world.hank);
    assert_eq!(harbour.world.send(theirs).await.body["pagination"]["total"], 0);
    let id = page.body["data"][0]["id"].as_str().unwrap();
    let foreign = get(&format!("/api/v1/organizations/globex/webhooks/{id}")).by(&harbour.world.hank);
    harbour.world.send(foreign).await.is(404, "not_found");
    harbour.close().await;
}
