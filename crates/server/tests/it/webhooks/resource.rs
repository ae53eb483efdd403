//! The webhook resource: create, read, update, delete.

use serde_json::json;

use super::{WEBHOOKS, WebhookFixture, delete, patch};
use crate::world::{get, post};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn webhook_create_read_update_delete() {
    let fixture = WebhookFixture::start().await;
    let (world, ada) = (&fixture.world, &fixture.ada);
    fixture.create_webhook("ops", "https://hooks.acme.test/a?key=1#part", &["step_failed"]).await;
    let seen = fixture.fetch("/ops").await;
    assert_eq!(seen["url"], "https://hooks.acme.test/a?key=1", "the fragment is removed");
    assert_eq!(
        (&seen["format"], &seen["isActive"], &seen["deactivated"]),
        (&json!("standard"), &json!(true), &json!(null))
    );
    let id = seen["id"].as_str().unwrap();
    assert!(id.starts_with("whk_") && fixture.fetch(&format!("/{id}")).await == seen);
    fixture
        .post("", &json!({"name": "ops", "url": "https://x.test/", "kinds": ["*"]}))
        .await
        .assert_problem(409, "already_exists");

    let viewer = world.create_member("vera@acme.test", "viewer").await;
    let read = world.send(get(&format!("{WEBHOOKS}/ops")).with_account(&viewer)).await;
    assert_eq!(read.body["data"]["url"], "https://hooks.acme.test/…", "{}", read.text);
    assert!(!read.text.contains("key=1"));
    world
        .send(post(&format!("{WEBHOOKS}/ops/ping")).with_account(&viewer))
        .await
        .assert_problem(403, "forbidden");

    let view = world.send(get(&format!("{WEBHOOKS}/ops")).with_account(ada)).await;
    let etag = view.header("etag").to_owned();
    let change = json!({"name": "chat", "format": "slack", "kinds": ["*"], "isActive": false});
    let changed = world.send(patch("/ops").with_account(ada).header("if-match", &etag).json(&change)).await;
    assert_eq!(changed.status, 200, "{}", changed.text);
    assert_eq!(
        (&changed.body["data"]["name"], &changed.body["data"]["format"]),
        (&json!("chat"), &json!("slack"))
    );
    assert!(changed.body["data"]["deactivated"]["at"].is_string());
    assert_eq!(changed.body["data"]["deactivated"]["reason"], json!(null));
    world
        .send(patch("/chat").with_account(ada).header("if-match", &etag).json(&json!({"name": "x"})))
        .await
        .assert_problem(412, "precondition_failed");
    let calm = world.event_kinds().await.len();
    world.send(patch("/chat").with_account(ada).json(&json!({"name": "chat"}))).await;
    assert_eq!(world.event_kinds().await.len(), calm, "nothing was changed");

    let gone = world.send(delete("/chat").with_account(ada)).await;
    assert!(gone.body["data"]["deletedAt"].is_string(), "{}", gone.text);
    world.send(get(&format!("{WEBHOOKS}/{id}")).with_account(ada)).await.assert_problem(404, "not_found");
    let told: Vec<_> =
        world.event_kinds().await.into_iter().filter(|kind| kind.starts_with("webhook_")).collect();
    assert_eq!(told, ["webhook_created", "webhook_updated", "webhook_deleted"]);
    // A webhook's URL may contain a secret, so it does not appear in events.
    let events = world.send(get("/api/v1/organizations/acme/events").with_account(ada)).await;
    assert!(!events.text.contains("hooks.acme.test"));
    fixture.shut_down().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn webhooks_are_limited_and_isolated_by_organization() {
    let fixture = WebhookFixture::start().await;
    for number in 0..100 {
        fixture.create_webhook(&format!("hook-{number}"), "https://hooks.acme.test/", &["step_failed"]).await;
    }
    let one_more = json!({"name": "one-more", "url": "https://hooks.acme.test/", "kinds": ["*"]});
    fixture.post("", &one_more).await.assert_problem(409, "invalid_state");
    let page =
        fixture.world.send(get(&format!("{WEBHOOKS}?limit=30&offset=90")).with_account(&fixture.ada)).await;
    assert_eq!(
        (page.body["data"].as_array().unwrap().len(), &page.body["pagination"]["total"]),
        (10, &json!(100))
    );
    let theirs = get("/api/v1/organizations/globex/webhooks").with_account(&fixture.world.hank);
    assert_eq!(fixture.world.send(theirs).await.body["pagination"]["total"], 0);
    let id = page.body["data"][0]["id"].as_str().unwrap();
    let foreign =
        get(&format!("/api/v1/organizations/globex/webhooks/{id}")).with_account(&fixture.world.hank);
    fixture.world.send(foreign).await.assert_problem(404, "not_found");
    fixture.shut_down().await;
}
