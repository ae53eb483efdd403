//! The life of a lock: acquire, wait, hold, release, and the ways in which it can be lost.

use serde_json::json;

use super::super::expiry::sweep_two_minutes_later;
use super::super::force::grant_to_runner;
use super::super::{EnvironmentsFixture, expect_data, expect_str};
use super::{assert_error, expect_state};

#[tokio::test]
async fn lock_is_a_session_with_lease_fence_and_history() {
    let shop = EnvironmentsFixture::new().await;
    let jenkins = shop.jenkins().await;
    let asked =
        json!({"resource": "shop/qa-4", "variable": "QA", "reason": "https://jenkins.acme.test/job/e2e/7/"});
    let id = jenkins.acquire(&asked, "ACQUIRED").await;

    let seen = jenkins.poll(&id).await;
    let environment = shop.fetch("qa-4").await;
    let session = expect_str(&environment["lock"]["sessionId"]);
    assert_eq!(seen["resources"], json!(["shop/qa-4"]));
    assert_eq!(
        seen["lockEnvVars"],
        json!({
            "QA": "shop/qa-4", "QA0": "shop/qa-4",
            "QA0_url": "https://qa-4.shop.test", "QA0_replicas": "2", "QA0_debug": "true",
            "BERTH_ENVIRONMENT": "qa-4", "BERTH_FENCE": "1", "BERTH_SESSION_ID": session,
        })
    );
    let held = shop.fetch(&format!("qa-4/sessions/{session}")).await;
    assert_eq!(
        [
            &held["holder"]["type"],
            &held["contact"],
            &held["context"],
            &held["leaseSeconds"],
            &held["deployments"]
        ],
        [
            &json!("service"),
            &json!("https://jenkins.acme.test/"),
            &json!("https://jenkins.acme.test/job/e2e/7/"),
            &json!(60),
            &json!([])
        ]
    );

    shop.world
        .run_sql("UPDATE sessions SET lease_expires_at = lease_expires_at - 30000000 WHERE ended_at IS NULL");
    let before = shop.fetch(&format!("qa-4/sessions/{session}")).await;
    assert_eq!(jenkins.heartbeat(&id).await.status, 204);
    let after = shop.fetch(&format!("qa-4/sessions/{session}")).await;
    assert!(expect_str(&after["leaseExpiresAt"]) > expect_str(&before["leaseExpiresAt"]));

    jenkins.release(&id).await;
    assert_eq!(shop.fetch("qa-4").await["lockStatus"], "unlocked");
    jenkins.release(&id).await;
    assert_error(&jenkins.heartbeat(&id).await, 410, "LOCK_NOT_FOUND");
    assert_eq!(jenkins.state(&id).await, expect_state("FAILED", Some("RELEASED")));
    let kinds = shop.kinds_since(0).await;
    let ends = kinds.iter().filter(|kind| *kind == "session_released").count();
    assert_eq!((kinds.contains(&"session_claimed".to_owned()), ends), (true, 1), "{kinds:?}");
}

#[tokio::test]
async fn builds_of_one_account_wait_for_each_other_in_the_queue() {
    let shop = EnvironmentsFixture::new().await;
    let jenkins = shop.jenkins().await;
    let first = jenkins.acquire(&json!({"resource": "shop/qa-1"}), "ACQUIRED").await;
    let second = jenkins.acquire(&json!({"resource": "shop/qa-1"}), "QUEUED").await;
    let third = jenkins.acquire(&json!({"resource": "shop/qa-1"}), "QUEUED").await;
    assert_eq!(jenkins.state(&second).await, expect_state("QUEUED", None));
    assert_error(&jenkins.heartbeat(&second).await, 410, "LOCK_NOT_FOUND");
    assert_eq!(shop.fetch("qa-1").await["queueLength"], 2);

    jenkins.release(&third).await;
    assert_eq!(jenkins.state(&third).await, expect_state("CANCELLED", Some("RELEASED")));
    jenkins.release(&first).await;
    let granted = jenkins.poll(&second).await;
    assert_eq!(
        (&granted["state"], &granted["lockEnvVars"]["BERTH_FENCE"]),
        (&json!("ACQUIRED"), &json!("2"))
    );
    assert_eq!(jenkins.heartbeat(&second).await.status, 204);
    jenkins.release(&second).await;
    assert_eq!(shop.fetch("qa-1").await["lockStatus"], "unlocked", "the withdrawn request did not get it");
    assert_eq!(jenkins.state(&second).await, expect_state("FAILED", Some("RELEASED")));
}

#[tokio::test]
async fn lock_without_heartbeats_is_lost_and_the_queue_moves_on() {
    let shop = EnvironmentsFixture::new().await;
    let jenkins = shop.jenkins().await;
    let id = jenkins.acquire(&json!({"resource": "shop/qa-1"}), "ACQUIRED").await;
    let ticket = shop.join_queue(&shop.grace, &json!({})).await;
    // The lease is over, but the job that ends the session has not run yet.
    shop.world.run_sql("UPDATE sessions SET lease_expires_at = 1 WHERE ended_at IS NULL");
    assert_eq!(jenkins.state(&id).await, expect_state("FAILED", Some("LOCK_STALE")));
    assert_error(&jenkins.heartbeat(&id).await, 410, "LOCK_STALE");
    sweep_two_minutes_later(&shop).await;
    assert_eq!(jenkins.state(&id).await, expect_state("FAILED", Some("LOCK_STALE")));
    assert_error(&jenkins.heartbeat(&id).await, 410, "LOCK_STALE");
    jenkins.release(&id).await;
    let environment = shop.fetch("qa-1").await;
    assert_eq!(
        (&environment["lock"]["holder"]["name"], &environment["lock"]["fence"]),
        (&json!("grace"), &json!(2)),
        "a late release does not end the next session"
    );
    let granted = shop.fetch(&format!("qa-1/queue/{}", expect_str(&ticket["ticketId"]))).await;
    assert_eq!(granted["status"], "granted");
}

#[tokio::test]
async fn lock_is_lost_in_a_takeover() {
    let shop = EnvironmentsFixture::new().await;
    let jenkins = shop.jenkins().await;
    let id = jenkins.acquire(&json!({"resource": "shop/qa-1"}), "ACQUIRED").await;
    expect_data(shop.force_claim(&shop.ada, &json!({"reason": "release day"})).await, 201);
    let refused = jenkins.heartbeat(&id).await;
    assert_error(&refused, 410, "LOCK_OVERRIDDEN");
    assert!(
        refused.text.contains("ada took over") && refused.text.contains("release day"),
        "{}",
        refused.text
    );
    assert_eq!(jenkins.state(&id).await, expect_state("FAILED", Some("LOCK_OVERRIDDEN")));
    jenkins.release(&id).await;
    assert_eq!(shop.fetch("qa-1").await["lock"]["holder"]["name"], "ada");
}

#[tokio::test]
async fn lock_is_not_acquired_while_work_of_an_earlier_session_may_run() {
    let shop = EnvironmentsFixture::new().await;
    let before = shop.claim_session(&shop.grace, &json!({"commitId": "main"})).await;
    grant_to_runner(&shop, &expect_str(&before["deploymentId"])).await;
    let jenkins = shop.jenkins().await;
    let id = jenkins.acquire(&json!({"resource": "shop/qa-1"}), "QUEUED").await;
    shop.release(&shop.grace, &before).await;
    let environment = shop.fetch("qa-1").await;
    assert_eq!(
        (&environment["state"], &environment["lock"]["holder"]["type"]),
        (&json!("contested"), &json!("service"))
    );
    shop.world
        .run_sql("UPDATE sessions SET lease_expires_at = lease_expires_at - 30000000 WHERE ended_at IS NULL");
    let lease = shop.fetch("qa-1").await["lock"]["leaseExpiresAt"].clone();
    assert_eq!(
        jenkins.state(&id).await,
        expect_state("QUEUED", None),
        "it has the session, but must not start"
    );
    let renewed = shop.fetch("qa-1").await["lock"]["leaseExpiresAt"].clone();
    assert!(expect_str(&renewed) > expect_str(&lease), "polling keeps the session alive");
    jenkins.release(&id).await;
    assert_eq!(shop.fetch("qa-1").await["lockStatus"], "unlocked");
}

#[tokio::test]
async fn busy_environment_is_skipped_or_waited_for_until_the_timeout() {
    let shop = EnvironmentsFixture::new().await;
    let jenkins = shop.jenkins().await;
    shop.claim_session(&shop.grace, &json!({})).await;
    let skipped = jenkins.acquire(&json!({"resource": "shop/qa-1", "skipIfLocked": true}), "SKIPPED").await;
    assert_eq!(jenkins.state(&skipped).await, expect_state("SKIPPED", None));
    assert_error(&jenkins.heartbeat(&skipped).await, 410, "LOCK_NOT_FOUND");
    jenkins.release(&skipped).await;
    assert_eq!(shop.fetch("qa-1").await["queueLength"], 0);

    let timeout =
        json!({"resource": "shop/qa-1", "timeoutForAllocateResource": 90, "timeoutUnit": "SECONDS"});
    let id = jenkins.acquire(&timeout, "QUEUED").await;
    let queue = shop.fetch("qa-1/queue").await;
    let at = |name: &str| berth_core::time::Timestamp::parse(&expect_str(&queue[0][name])).unwrap();
    assert_eq!(at("expiresAt").seconds_since(at("createdAt")), 90);
    sweep_two_minutes_later(&shop).await;
    assert_eq!(jenkins.state(&id).await, expect_state("FAILED", Some("LOCK_WAIT_TIMEOUT")));
    assert_error(&jenkins.heartbeat(&id).await, 410, "LOCK_NOT_FOUND");

    let free = jenkins.acquire(&json!({"resource": "shop/qa-2", "skipIfLocked": true}), "ACQUIRED").await;
    jenkins.release(&free).await;
}

#[tokio::test]
async fn label_acquires_any_environment_that_has_it() {
    let shop = EnvironmentsFixture::new().await;
    let jenkins = shop.jenkins().await;
    let small = json!({"label": "shop/small", "quantity": 1, "variable": "QA"});
    let mut held = Vec::new();
    for name in ["shop/qa-2", "shop/qa-3"] {
        let id = jenkins.acquire(&small, "ACQUIRED").await;
        assert_eq!(jenkins.poll(&id).await["lockEnvVars"]["QA"], name);
        held.push(id);
    }
    let waits = jenkins.acquire(&small, "QUEUED").await;
    let skipped = json!({"label": "shop/small", "quantity": 1, "skipIfLocked": true});
    jenkins.acquire(&skipped, "SKIPPED").await;
    jenkins.release(&held[1]).await;
    let granted = jenkins.poll(&waits).await;
    assert_eq!((&granted["state"], &granted["resources"]), (&json!("ACQUIRED"), &json!(["shop/qa-3"])));
    assert_eq!(granted["lockEnvVars"]["QA0"], "shop/qa-3", "the ticket may have been one for qa-2");
    assert_eq!(jenkins.heartbeat(&waits).await.status, 204);
    jenkins.release(&waits).await;
    assert_eq!(shop.fetch("qa-3").await["lockStatus"], "unlocked");
    assert_eq!(shop.fetch("qa-2").await["queueLength"], 0);

    // Without a quantity, the protocol means all of them.
    let large = jenkins.acquire(&json!({"label": "shop/large"}), "ACQUIRED").await;
    assert_eq!(jenkins.poll(&large).await["resources"], json!(["shop/qa-4"]));
    let several = jenkins.try_acquire(&json!({"label": "shop/small"})).await;
    assert_error(&several, 400, "INVALID_REQUEST");
    assert!(several.text.contains("quantity: 1"), "{}", several.text);
}
