//! Claims: the first caller gets a session; later callers are told who holds the environment, why and until when.

use berth_core::time::Timestamp;
use serde_json::{Value, json};

use super::{EnvironmentsFixture, environments_path, expect_data, expect_str};
use crate::world::{call, get, post};

#[tokio::test]
async fn claim_returns_a_session_and_its_location() {
    let shop = EnvironmentsFixture::new().await;
    let claimed = shop.claim(&shop.grace, &json!({"context": "load test"})).await;
    assert_eq!((claimed.status.as_u16(), claimed.header("etag")), (201, "\"1.2\""), "{}", claimed.text);
    let shown = shop.send(get(claimed.header("location")).with_account(&shop.ada)).await;
    assert_eq!((shown.status.as_u16(), shown.header("etag")), (200, "\"1.2\""));
    assert_eq!(shown.body, claimed.body);
    let session = &claimed.body["data"];
    assert_eq!((&session["status"], &session["fence"]), (&json!("active"), &json!(1)));
    assert_eq!((&session["holder"]["name"], &session["context"]), (&json!("grace"), &json!("load test")));
    assert_eq!(session["expiresAt"], json!(null), "neither the claim nor the definition names an end");
}

#[tokio::test]
async fn claim_with_a_commit_deploys_it_unless_disabled() {
    let shop = EnvironmentsFixture::new().await;
    let session = shop.claim_session(&shop.grace, &json!({"commitId": "feature/login_2"})).await;
    let deployment = expect_str(&session["deploymentId"]);
    assert_eq!(session["deployments"][0]["id"], deployment.as_str());
    let path = format!("/api/v1/organizations/acme/deployments/{deployment}");
    let deployment = expect_data(shop.send(get(&path).with_account(&shop.ada)).await, 200);
    assert_eq!(deployment["commitId"], "feature/login_2");
    assert_eq!((&deployment["sessionId"], &deployment["fence"]), (&session["sessionId"], &json!(1)));
    shop.release(&shop.grace, &session).await;

    let session = shop.claim_session(&shop.grace, &json!({"commitId": "main", "deploy": false})).await;
    assert_eq!(session["commitId"], "main");
    assert_eq!((session.get("deploymentId"), &session["deployments"]), (None, &json!([])));
}

#[tokio::test]
async fn claim_ttl_defaults_to_the_definitions() {
    let shop = EnvironmentsFixture::new().await;
    let lasts = async |environment: &str, body: Value| {
        let claimed = shop
            .send(
                post(&environments_path(&format!("{environment}/sessions")))
                    .with_account(&shop.grace)
                    .json(&body),
            )
            .await;
        let session = expect_data(claimed, 201);
        let path =
            environments_path(&format!("{environment}/sessions/{}", expect_str(&session["sessionId"])));
        shop.send(call("DELETE", &path).with_account(&shop.grace)).await;
        let at = |member: &str| session[member].as_str().map(|text| Timestamp::parse(text).unwrap());
        at("expiresAt").map(|end| end.seconds_since(at("claimedAt").unwrap()))
    };
    assert_eq!(lasts("qa-1", json!({"ttlSeconds": 60})).await, Some(60));
    assert_eq!(lasts("qa-1", json!({"ttlSeconds": 2_592_000})).await, Some(2_592_000));
    assert_eq!(lasts("qa-4", json!({"ttlSeconds": 90})).await, Some(90));
    assert_eq!(
        lasts("qa-4", json!({})).await,
        Some(14_400),
        "idle comes before the definition's eight hours"
    );
}

#[tokio::test]
async fn claim_of_a_held_environment_names_holder_reason_and_expiry() {
    let shop = EnvironmentsFixture::new().await;
    let wish = json!({"commitId": "9fceb02", "context": "load test", "ttlSeconds": 600, "deploy": false});
    let session = shop.claim_session(&shop.grace, &wish).await;
    let refused = shop.claim(&shop.ada, &json!({"commitId": "main"})).await;
    refused.assert_problem(409, "environment_locked");
    for (member, wanted) in [
        ("holder", &session["holder"]),
        ("since", &session["claimedAt"]),
        ("context", &json!("load test")),
        ("commitId", &json!("9fceb02")),
        ("expiresAt", &session["expiresAt"]),
        ("sessionId", &session["sessionId"]),
        ("fence", &json!(1)),
        ("queueLength", &json!(0)),
        ("self", &json!(false)),
    ] {
        assert_eq!(&refused.body[member], wanted, "{member}");
    }
    let wait: i64 = refused.header("retry-after").parse().unwrap();
    assert!((590..=600).contains(&wait), "{wait}");
    let detail = refused.body["detail"].as_str().unwrap();
    assert!(detail.contains("held by grace") && detail.contains("load test"), "{detail}");
    let queue =
        shop.send(get(refused.body["links"]["queue"].as_str().unwrap()).with_account(&shop.ada)).await;
    assert_eq!((queue.status.as_u16(), &queue.body["data"]), (200, &json!([])));
    let take =
        shop.send(post(refused.body["links"]["forceClaim"].as_str().unwrap()).with_account(&shop.ada)).await;
    assert_eq!(take.status, 201, "{}", take.text);
}

#[tokio::test]
async fn claim_by_the_holder_with_another_token_says_self() {
    let shop = EnvironmentsFixture::new().await;
    let session = shop.claim_session(&shop.grace, &json!({})).await;
    let create = post("/api/v1/organizations/acme/api-tokens")
        .with_account(&shop.grace)
        .json(&json!({"name": "other"}));
    let other = expect_str(&expect_data(shop.send(create).await, 201)["token"]);
    let refused = shop.send(post(&environments_path("qa-1/sessions")).token(&other)).await;
    refused.assert_problem(409, "environment_locked");
    assert_eq!((&refused.body["self"], &refused.body["sessionId"]), (&json!(true), &session["sessionId"]));
    assert_eq!(refused.header("retry-after"), "", "the session has no expiry");
    let path = format!("{}/deploy", super::session_path(&session));
    let deployed = shop.send(post(&path).token(&other).json(&json!({"commitId": "main"}))).await;
    assert_eq!(deployed.status, 202, "the holder is the user: {}", deployed.text);
}

#[tokio::test]
async fn service_account_claims_as_itself() {
    let shop = EnvironmentsFixture::new().await;
    let (id, token) = shop.world.create_service_account("ci@acme.test", "deployer").await;
    let session = expect_data(shop.send(post(&environments_path("qa-1/sessions")).token(&token)).await, 201);
    assert_eq!(session["holder"], json!({"type": "service", "id": id, "name": "ci"}));
}

#[tokio::test]
async fn concurrent_claims_have_one_winner() {
    let shop = EnvironmentsFixture::new().await;
    let nothing = json!({});
    let who = |number: i32| if number % 2 == 0 { &shop.ada } else { &shop.grace };
    let claims = (0..24).map(|number| shop.claim(who(number), &nothing));
    let replies = futures_util::future::join_all(claims).await;
    let (won, lost): (Vec<_>, Vec<_>) = replies.iter().partition(|reply| reply.status == 201);
    assert_eq!(won.len(), 1);
    let winner = &won[0].body["data"];
    for reply in lost {
        reply.assert_problem(409, "environment_locked");
        assert_eq!(reply.body["sessionId"], winner["sessionId"], "every refusal names the same session");
    }
    assert_eq!(shop.fetch("qa-1").await["fence"], 1);
}

#[tokio::test]
async fn claims_of_different_environments_are_independent() {
    let shop = EnvironmentsFixture::new().await;
    for name in ["qa-1", "qa-2", "qa-4"] {
        let claimed =
            shop.send(post(&environments_path(&format!("{name}/sessions"))).with_account(&shop.grace)).await;
        assert_eq!(expect_data(claimed, 201)["fence"], 1, "{name} counts for itself");
    }
    assert_eq!(shop.fetch("qa-3").await["lockStatus"], "unlocked");
}
