//! Extending a session, and handing it over.

use berth_core::time::Timestamp;
use serde_json::{Value, json};

use super::{EnvironmentsFixture, environments_path, expect_data, expect_str, session_path};
use crate::world::{call, get, post};

fn session_seconds(session: &Value) -> i64 {
    let at = |member: &str| Timestamp::parse(&expect_str(&session[member])).unwrap();
    at("expiresAt").seconds_since(at("claimedAt"))
}

#[tokio::test]
async fn extension_never_shortens_the_session() {
    let shop = EnvironmentsFixture::new().await;
    let session = shop.claim_session(&shop.grace, &json!({"ttlSeconds": 600})).await;
    let extend = async |body: Value| {
        expect_data(shop.post_to_session(&shop.grace, &session, "extend", &body).await, 200)
    };
    let longer = extend(json!({"ttlSeconds": 3_600})).await;
    assert!((3_600..3_630).contains(&session_seconds(&longer)), "{longer}");
    assert!(longer["extendedAt"].is_string());
    assert_eq!(extend(json!({"ttlSeconds": 60})).await["expiresAt"], longer["expiresAt"]);
    assert_eq!(extend(json!({})).await["expiresAt"], longer["expiresAt"], "its own length is over sooner");
    assert_eq!(
        (&longer["fence"], &longer["status"]),
        (&json!(1), &json!("active")),
        "the holder is the same"
    );
}

#[tokio::test]
async fn extension_of_an_unlimited_session_keeps_it_unlimited() {
    let shop = EnvironmentsFixture::new().await;
    let session = shop.claim_session(&shop.grace, &json!({})).await;
    let extended = expect_data(
        shop.post_to_session(&shop.grace, &session, "extend", &json!({"ttlSeconds": 60})).await,
        200,
    );
    assert_eq!(extended["expiresAt"], json!(null));
    let no_body = post(&format!("{}/extend", session_path(&session))).with_account(&shop.grace);
    assert_eq!(shop.send(no_body).await.status, 200);
}

#[tokio::test]
async fn extension_with_if_match_checks_the_fence() {
    let shop = EnvironmentsFixture::new().await;
    let session = shop.claim_session(&shop.grace, &json!({"ttlSeconds": 60})).await;
    let extend = |tag: &str| {
        post(&format!("{}/extend", session_path(&session))).with_account(&shop.grace).header("if-match", tag)
    };
    let before = shop.snapshot().await;
    shop.send(extend("\"7.1\"")).await.assert_problem(412, "precondition_failed");
    assert_eq!(shop.snapshot().await, before);
    assert_eq!(shop.send(extend("\"1.2\"")).await.status, 200);
}

#[tokio::test]
async fn hand_over_by_id_or_email_raises_the_fence() {
    let shop = EnvironmentsFixture::new().await;
    let wish = json!({"commitId": "9fceb02", "context": "load test", "ttlSeconds": 600});
    let first = shop.claim_session(&shop.grace, &wish).await;
    let to = shop.user_id(&shop.ada).await;
    let reply = shop.post_to_session(&shop.grace, &first, "hand-over", &json!({"to": to})).await;
    let shown = expect_data(shop.send(get(reply.header("location")).with_account(&shop.grace)).await, 200);
    let second = expect_data(reply, 200);
    assert_eq!(shown, second);
    assert_eq!((&second["holder"]["name"], &second["fence"]), (&json!("ada"), &json!(2)));
    assert_eq!((&second["commitId"], &second["context"]), (&json!("9fceb02"), &json!("load test")));
    assert!((590..=610).contains(&session_seconds(&second)), "with the same length: {second}");
    assert_eq!(second["deployments"], json!([]), "deployments do not pass on");

    let old = shop.session_status(&first).await;
    assert_eq!(
        [&old["status"], &old["endReason"], &old["overridden"], &old["deploymentHistory"][0]["status"]],
        [&json!("released"), &json!("handed_over"), &json!(false), &json!("cancelled")]
    );
    let third =
        shop.post_to_session(&shop.ada, &second, "hand-over", &json!({"to": "Grace@ACME.test"})).await;
    assert_eq!(
        expect_data(third, 200)["holder"]["name"],
        "grace",
        "an address is the same however it is written"
    );
}

#[tokio::test]
async fn hand_over_to_a_user_who_cannot_claim_is_refused() {
    let shop = EnvironmentsFixture::new().await;
    shop.create_viewer().await;
    let session = shop.claim_session(&shop.grace, &json!({})).await;
    let foreign = shop.user_id(&shop.world.hank).await;
    let before = shop.snapshot().await;
    let mut said = Vec::new();
    for to in ["vera@acme.test", "unknown@acme.test", "hank@globex.test", &foreign, "grace", "", "usr_x"] {
        let refused = shop.post_to_session(&shop.grace, &session, "hand-over", &json!({"to": to})).await;
        refused.assert_problem(400, "invalid_request");
        assert_eq!(refused.body["errors"][0]["pointer"], "/to", "{to}");
        said.push(expect_str(&refused.body["detail"]));
    }
    assert!(said[0].contains("may not claim"), "{}", said[0]);
    assert!(
        said[1..4].iter().all(|text| *text == said[1]),
        "a stranger and a foreigner look alike: {said:?}"
    );
    shop.post_to_session(&shop.grace, &session, "hand-over", &json!({}))
        .await
        .assert_problem(400, "invalid_request");
    assert_eq!(shop.snapshot().await, before);
}

#[tokio::test]
async fn hand_over_keeps_the_queue() {
    let shop = EnvironmentsFixture::new().await;
    let session = shop.claim_session(&shop.grace, &json!({})).await;
    let ticket = shop.join_queue(&shop.ada, &json!({})).await;
    let (_, token) = shop.world.create_service_account("ci@acme.test", "deployer").await;
    let handed =
        shop.post_to_session(&shop.grace, &session, "hand-over", &json!({"to": "ci@acme.test"})).await;
    let next = expect_data(handed, 200);
    let path = environments_path(&format!("qa-1/queue/{}", expect_str(&ticket["ticketId"])));
    assert_eq!(shop.send(get(&path).token(&token)).await.body["data"]["status"], "waiting");
    let release = call("DELETE", &session_path(&next)).token(&token);
    assert_eq!(shop.send(release).await.body["data"]["environment"]["lock"]["holder"]["name"], "ada");
}
