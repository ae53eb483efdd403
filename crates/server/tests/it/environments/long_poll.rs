//! Long polls and event streams for a single environment.

use std::time::Duration;

use serde_json::json;

use super::{EnvironmentsFixture, environments_path, expect_data, expect_str, session_path};
use crate::event_streams::EventStream;
use crate::world::{TestRequest, TestResponse, get};

/// Timeout of every wait in these tests. It is shorter than the long polls, so a poll that is not woken fails the test.
const PATIENCE: Duration = Duration::from_secs(120);

async fn send_in_time(shop: &EnvironmentsFixture, call: TestRequest) -> TestResponse {
    tokio::time::timeout(PATIENCE, shop.send(call)).await.expect("an answer long before the poll is over")
}

#[tokio::test]
async fn long_poll_of_a_session_returns_when_it_ends() {
    let shop = EnvironmentsFixture::new().await;
    let session = shop.claim_session(&shop.grace, &json!({})).await;
    let poll =
        get(&session_path(&session)).with_account(&shop.grace).header("prefer", "respond-async, wait=50");
    let poll = send_in_time(&shop, poll);
    let why = json!({"reason": "hotfix"});
    let (told, _) = tokio::join!(poll, shop.force_claim(&shop.ada, &why));
    let told = expect_data(told, 200);
    assert_eq!((&told["status"], &told["overrideReason"]), (&json!("overridden"), &json!("hotfix")));
    let ended =
        send_in_time(&shop, get(&format!("{}?wait=50", session_path(&session))).with_account(&shop.grace))
            .await;
    assert_eq!(ended.status, 200, "nothing new will come: at once");
}

#[tokio::test]
async fn long_poll_with_an_etag_returns_at_any_change() {
    let shop = EnvironmentsFixture::new().await;
    let claimed = shop.claim(&shop.grace, &json!({})).await;
    let session = &claimed.body["data"];
    let poll = get(&format!("{}?wait=50", session_path(session))).with_account(&shop.grace);
    let poll = send_in_time(&shop, poll.header("if-none-match", claimed.header("etag")));
    let deploy = json!({"commitId": "main"});
    let (told, _) = tokio::join!(poll, shop.post_to_session(&shop.grace, session, "deploy", &deploy));
    assert_eq!(expect_data(told, 200)["deployments"][0]["commitId"], "main");
}

#[tokio::test]
async fn long_poll_without_changes_returns_304() {
    let shop = EnvironmentsFixture::new().await;
    let claimed = shop.claim(&shop.grace, &json!({})).await;
    let ticket = shop.claim(&shop.ada, &json!({"queue": true})).await;
    let tag = ticket.header("etag");
    let tag = (tag, shop.send(get(claimed.header("location")).with_account(&shop.ada)).await);
    for path in [claimed.header("location"), ticket.header("location")] {
        let poll = get(&format!("{path}?wait=1"))
            .with_account(&shop.ada)
            .header("if-none-match", tag.1.header("etag"));
        let same = send_in_time(&shop, poll).await;
        assert_eq!((same.status.as_u16(), same.text.as_str()), (304, ""), "{path}");
        assert_eq!(same.header("etag"), tag.0);
    }
}

#[tokio::test]
async fn long_poll_of_a_ticket_returns_when_it_is_granted() {
    let shop = EnvironmentsFixture::new().await;
    let held = shop.claim_session(&shop.grace, &json!({})).await;
    let ticket = shop.join_queue(&shop.ada, &json!({})).await;
    let path = environments_path(&format!("qa-1/queue/{}", expect_str(&ticket["ticketId"])));
    let poll = send_in_time(&shop, get(&format!("{path}?wait=50")).with_account(&shop.ada));
    let (told, _) = tokio::join!(poll, shop.release(&shop.grace, &held));
    assert_eq!(expect_data(told, 200)["status"], "granted");
}

#[tokio::test]
async fn long_poll_of_a_deployment_returns_when_it_ends() {
    let shop = EnvironmentsFixture::new().await;
    let held = shop.claim_session(&shop.grace, &json!({"commitId": "main"})).await;
    let path = format!("/api/v1/organizations/acme/deployments/{}", expect_str(&held["deploymentId"]));
    let poll = send_in_time(&shop, get(&format!("{path}?wait=50")).with_account(&shop.ada));
    let (told, _) = tokio::join!(poll, shop.release(&shop.grace, &held));
    assert_eq!(expect_data(told, 200)["status"], "cancelled");
}

#[tokio::test]
async fn claim_with_wait_returns_the_outcome_of_its_deployment() {
    let shop = EnvironmentsFixture::new().await;
    let path = environments_path("qa-1/sessions?wait=50");
    // The response that is stored for the idempotency key was made before the wait, so it lacks the deployment's
    // outcome.
    let claim = crate::world::post(&path).with_account(&shop.grace).header("idempotency-key", "k");
    let claim = claim.json(&json!({"commitId": "main"}));
    let end = async {
        let held = loop {
            let lock = shop.fetch("qa-1").await["lock"].clone();
            if lock.is_object() {
                break lock;
            }
            tokio::time::sleep(crate::world::POLL_EVERY).await;
        };
        shop.release(&shop.ada, &held).await
    };
    let (claimed, _) = tokio::join!(send_in_time(&shop, claim), end);
    let session = expect_data(claimed, 201);
    assert_eq!((&session["status"], &session["endedBy"]["name"]), (&json!("released"), &json!("ada")));
    let deployment = &session["deployments"][0];
    assert_eq!((&deployment["status"], &deployment["id"]), (&json!("cancelled"), &session["deploymentId"]));
}

#[tokio::test]
async fn long_poll_wait_is_bounded() {
    let shop = EnvironmentsFixture::new().await;
    let session = shop.claim_session(&shop.grace, &json!({"commitId": "main"})).await;
    let before = shop.snapshot().await;
    for wait in ["51", "-1", "1.5", "x"] {
        for path in [
            session_path(&session),
            format!("/api/v1/organizations/acme/deployments/{}", expect_str(&session["deploymentId"])),
        ] {
            let refused = shop.send(get(&format!("{path}?wait={wait}")).with_account(&shop.ada)).await;
            refused.assert_problem(400, "invalid_parameter");
            assert_eq!(refused.body["errors"][0]["pointer"], "wait");
        }
        let force = crate::world::post(&environments_path(&format!("qa-1/force-claim?wait={wait}")))
            .with_account(&shop.ada);
        shop.send(force).await.assert_problem(400, "invalid_parameter");
    }
    assert_eq!(shop.snapshot().await, before, "nothing was taken over");
}

#[tokio::test]
async fn environment_stream_has_only_its_own_events() {
    let shop = EnvironmentsFixture::new().await;
    let mut stream =
        EventStream::open(&shop.world, get(&environments_path("qa-1")).with_account(&shop.grace)).await;
    let other = crate::world::post(&environments_path("qa-2/sessions")).with_account(&shop.ada);
    assert_eq!(shop.send(other).await.status, 201);
    let session = shop.claim_session(&shop.ada, &json!({"commitId": "main"})).await;
    shop.release(&shop.ada, &session).await;
    for wanted in ["session_claimed", "deployment_queued", "deployment_cancelled", "session_released"] {
        let event = stream.next_event().await.unwrap();
        assert_eq!(event["kind"], wanted);
        assert_eq!(event["data"]["sessionId"], session["sessionId"]);
    }
    let listed = shop.events(0).await;
    let claimed = listed.iter().rfind(|event| event["kind"] == "session_claimed").unwrap();
    let before = (claimed["sequence"].as_i64().unwrap() - 1).to_string();
    let resumed = get(&environments_path("qa-1")).with_account(&shop.grace).header("last-event-id", &before);
    assert_eq!(EventStream::open(&shop.world, resumed).await.next_event().await.as_ref(), Some(claimed));
}

#[tokio::test]
async fn invalid_last_event_id_is_refused_without_a_stream() {
    let shop = EnvironmentsFixture::new().await;
    let session = shop.claim_session(&shop.grace, &json!({"commitId": "main"})).await;
    let deployment =
        format!("/api/v1/organizations/acme/deployments/{}", expect_str(&session["deploymentId"]));
    for path in [environments_path("qa-1"), deployment] {
        let asked = get(&path).with_account(&shop.ada).header("last-event-id", "~");
        shop.send(asked).await.assert_problem(400, "invalid_parameter");
    }
}
