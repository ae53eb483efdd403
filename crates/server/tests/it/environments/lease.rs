//! Leases: a session ends if its holder sends no heartbeat in time.

use berth_core::environment::ClaimTerms;
use berth_core::time::Timestamp;
use berth_server::jobs;
use serde_json::{Value, json};

use super::expiry::{claim_earlier, sweep_two_minutes_later};
use super::{EnvironmentsFixture, environments_path, expect_data, expect_str, session_path};
use crate::world::{get, post};

fn time(value: &Value) -> Timestamp {
    Timestamp::parse(&expect_str(value)).unwrap()
}

fn lease_terms(lease_seconds: i64, ttl_seconds: Option<i64>) -> ClaimTerms {
    ClaimTerms { lease_seconds: Some(lease_seconds), ttl_seconds, ..ClaimTerms::default() }
}

async fn heartbeat(shop: &EnvironmentsFixture, session: &Value) -> Value {
    expect_data(shop.post_to_session(&shop.grace, session, "heartbeat", &json!({})).await, 200)
}

#[tokio::test]
async fn session_without_heartbeat_ends_at_its_lease_and_the_queue_moves_on() {
    let shop = EnvironmentsFixture::new().await;
    let wish = json!({"leaseSeconds": 60, "commitId": "main"});
    let session = shop.claim_session(&shop.grace, &wish).await;
    assert_eq!((&session["leaseSeconds"], &session["expiresAt"]), (&json!(60), &json!(null)));
    assert_eq!(time(&session["leaseExpiresAt"]).seconds_since(time(&session["claimedAt"])), 60);
    assert_eq!(session["environment"]["lock"]["leaseExpiresAt"], session["leaseExpiresAt"]);
    let ticket = shop.join_queue(&shop.ada, &json!({"leaseSeconds": 30})).await;
    let since = shop.events(0).await.len();
    sweep_two_minutes_later(&shop).await;

    let ended = shop.session_status(&session).await;
    assert_eq!(
        [&ended["status"], &ended["endReason"], &ended["endedBy"]["type"], &ended["leaseExpiresAt"]],
        [&json!("expired"), &json!("lease"), &json!("system"), &session["leaseExpiresAt"]]
    );
    assert_eq!(ended["deploymentHistory"][0]["status"], "cancelled");
    let granted = shop.fetch(&format!("qa-1/queue/{}", expect_str(&ticket["ticketId"]))).await;
    let next = shop.fetch(&format!("qa-1/sessions/{}", expect_str(&granted["sessionId"]))).await;
    assert_eq!((&next["fence"], &next["holder"]["name"]), (&json!(2), &json!("ada")));
    let lease = time(&next["leaseExpiresAt"]).seconds_since(time(&next["claimedAt"]));
    assert_eq!(lease, 30, "the lease of a ticket begins when it is granted");

    let events = shop.events(since).await;
    let end = events.iter().find(|event| event["kind"] == "session_expired").unwrap();
    assert_eq!(end["data"]["endReason"], "lease");
    let late = shop.post_to_session(&shop.grace, &session, "heartbeat", &json!({})).await;
    late.assert_problem(409, "session_not_active");
}

#[tokio::test]
async fn heartbeat_renews_the_lease_without_an_event() {
    let shop = EnvironmentsFixture::new().await;
    let session = claim_earlier(&shop, 100, lease_terms(600, Some(3_600))).await;
    let before = shop.session_status(&session).await;
    let (events, version) = (shop.events(0).await.len(), environment_tag(&shop).await);
    let renewed = heartbeat(&shop, &session).await;
    let gained = time(&renewed["leaseExpiresAt"]).seconds_since(time(&before["leaseExpiresAt"]));
    assert!((100..130).contains(&gained), "{gained}");
    assert_eq!(
        [&renewed["expiresAt"], &renewed["fence"], &renewed["extendedAt"]],
        [&before["expiresAt"], &before["fence"], &before["extendedAt"]]
    );
    assert_eq!(shop.session_status(&session).await["leaseExpiresAt"], renewed["leaseExpiresAt"]);
    assert_eq!((shop.events(0).await.len(), environment_tag(&shop).await), (events, version));
    // The environment is still due at the end of the first lease. The job finds the session alive and continues.
    jobs::tick(shop.world.app.jobs()).await.unwrap();
    assert_eq!(shop.session_status(&session).await["status"], "active");
}

async fn environment_tag(shop: &EnvironmentsFixture) -> String {
    shop.send(get(&environments_path("qa-1")).with_account(&shop.ada)).await.header("etag").to_owned()
}

#[tokio::test]
async fn extension_and_deployment_renew_the_lease() {
    let shop = EnvironmentsFixture::new().await;
    for (verb, body, status) in [("extend", json!({}), 200), ("deploy", json!({"commitId": "main"}), 202)] {
        let session = claim_earlier(&shop, 100, lease_terms(600, None)).await;
        let before = shop.session_status(&session).await;
        assert_eq!(shop.post_to_session(&shop.grace, &session, verb, &body).await.status, status);
        let after = shop.session_status(&session).await;
        assert!(time(&after["leaseExpiresAt"]) > time(&before["leaseExpiresAt"]), "{verb}");
        shop.release(&shop.grace, &session).await;
    }
}

#[tokio::test]
async fn heartbeat_is_refused_to_others_and_without_a_lease() {
    let shop = EnvironmentsFixture::new().await;
    let plain = shop.claim_session(&shop.grace, &json!({})).await;
    assert_eq!(plain.get("leaseSeconds"), None);
    let refused = shop.post_to_session(&shop.grace, &plain, "heartbeat", &json!({})).await;
    refused.assert_problem(409, "invalid_state");
    shop.release(&shop.grace, &plain).await;

    let session = shop.claim_session(&shop.grace, &json!({"leaseSeconds": 15})).await;
    let before = shop.snapshot().await;
    let refused = shop.post_to_session(&shop.ada, &session, "heartbeat", &json!({})).await;
    let extended = shop.post_to_session(&shop.ada, &session, "extend", &json!({})).await;
    assert_eq!((refused.status, &refused.body["code"]), (extended.status, &extended.body["code"]));
    let stale = post(&format!("{}/heartbeat", session_path(&session))).with_account(&shop.grace);
    shop.send(stale.header("if-match", "\"7.1\"")).await.assert_problem(412, "precondition_failed");
    assert_eq!(shop.snapshot().await, before);
}

#[tokio::test]
async fn lease_out_of_bounds_is_refused() {
    let shop = EnvironmentsFixture::new().await;
    for seconds in [14, 601] {
        let refused = shop.claim(&shop.grace, &json!({"leaseSeconds": seconds})).await;
        refused.assert_problem(400, "invalid_request");
        assert_eq!(refused.body["errors"][0]["pointer"], "/leaseSeconds");
    }
    for seconds in [15, 600] {
        let session = shop.claim_session(&shop.grace, &json!({"leaseSeconds": seconds})).await;
        shop.release(&shop.grace, &session).await;
    }
}

#[tokio::test]
async fn session_outlives_the_time_in_which_the_server_was_stopped() {
    let shop = EnvironmentsFixture::new().await;
    let session = claim_earlier(&shop, 300, lease_terms(60, None)).await;
    assert_eq!(jobs::renew_leases(shop.world.app.services()).await.unwrap(), 1);
    shop.claim(&shop.ada, &json!({})).await.assert_problem(409, "environment_locked");
    let renewed = shop.session_status(&session).await;
    let length = time(&renewed["leaseExpiresAt"]).seconds_since(time(&renewed["claimedAt"]));
    assert!((360..390).contains(&length), "one lease from the start of the server: {length}");
}

#[tokio::test]
async fn handed_over_session_has_no_lease() {
    let shop = EnvironmentsFixture::new().await;
    let session = shop.claim_session(&shop.grace, &json!({"leaseSeconds": 60})).await;
    let to = json!({"to": "ada@acme.test"});
    let next = expect_data(shop.post_to_session(&shop.grace, &session, "hand-over", &to).await, 200);
    assert_eq!((next.get("leaseSeconds"), next.get("leaseExpiresAt")), (None, None));
}
