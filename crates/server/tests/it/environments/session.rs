//! The status of a session stays available forever, to every member with read access.

use serde_json::json;

use super::{EnvironmentsFixture, session_path};
use crate::world::get;

#[tokio::test]
async fn session_stays_readable_after_its_end_with_the_current_lock() {
    let shop = EnvironmentsFixture::new().await;
    let vera = shop.create_viewer().await;
    let first =
        shop.claim_session(&shop.grace, &json!({"context": "load test", "commitId": "9fceb02"})).await;
    shop.release(&shop.grace, &first).await;
    let second = shop.claim_session(&shop.ada, &json!({})).await;
    let shown = shop.send(get(&session_path(&first)).with_account(&vera)).await;
    let shown = &shown.body["data"];
    assert_eq!(
        [&shown["status"], &shown["endReason"], &shown["endedBy"]["name"], &shown["overridden"]],
        [&json!("released"), &json!("released"), &json!("grace"), &json!(false)]
    );
    assert_eq!((&shown["context"], &shown["fence"]), (&json!("load test"), &json!(1)), "as it was");
    assert_eq!((&shown["lockStatus"], &shown["holdsLock"]), (&json!("unlocked"), &json!(false)));
    let environment = &shown["environment"];
    assert_eq!(
        (&environment["lockStatus"], &environment["lock"]["sessionId"]),
        (&json!("locked"), &second["sessionId"])
    );
}

#[tokio::test]
async fn session_lists_its_deployments_newest_first_with_status() {
    let shop = EnvironmentsFixture::new().await;
    let session = shop.claim_session(&shop.grace, &json!({"commitId": "one"})).await;
    for commit in ["two", "three"] {
        shop.post_to_session(&shop.grace, &session, "deploy", &json!({"commitId": commit})).await;
    }
    let shown = shop.session_status(&session).await;
    let history = shown["deploymentHistory"].as_array().unwrap();
    assert_eq!(history.iter().map(|it| &it["commitId"]).collect::<Vec<_>>(), ["three", "two", "one"]);
    assert_eq!(history.iter().map(|it| &it["number"]).collect::<Vec<_>>(), [3, 2, 1]);
    assert_eq!(shown["deployments"], shown["deploymentHistory"]);
    assert_eq!(shown["commitId"], "three", "what was asked for last");

    shop.release(&shop.grace, &session).await;
    for deployment in shop.session_status(&session).await["deploymentHistory"].as_array().unwrap() {
        assert_eq!(
            [&deployment["status"], &deployment["cause"], &deployment["cancelledBy"]["name"]],
            [&json!("cancelled"), &json!("session_ended"), &json!("grace")]
        );
    }
}

#[tokio::test]
async fn session_etag_starts_with_its_fence() {
    let shop = EnvironmentsFixture::new().await;
    let first = shop.claim_session(&shop.grace, &json!({})).await;
    shop.force_claim(&shop.ada, &json!({})).await;
    let shown = shop.send(get(&session_path(&first)).with_account(&shop.grace)).await;
    assert_eq!(shown.header("etag"), "\"1.3\"");
    let known = get(&session_path(&first)).with_account(&shop.grace).header("if-none-match", "\"1.3\"");
    assert_eq!(shop.send(known).await.status, 304);
}
