//! Claiming any environment that has a label.

use serde_json::{Value, json};

use super::{EnvironmentsFixture, PIPELINE, expect_data};
use crate::world::{MemberAccount, TestResponse, get, post};

async fn claim_any(shop: &EnvironmentsFixture, who: &MemberAccount, body: Value) -> TestResponse {
    shop.send(post(&format!("{PIPELINE}/claim-any")).with_account(who).json(&body)).await
}

#[tokio::test]
async fn claim_any_gets_the_first_free_environment_with_the_label() {
    let shop = EnvironmentsFixture::new().await;
    for name in ["qa-2", "qa-3"] {
        let claimed =
            claim_any(&shop, &shop.grace, json!({"label": "small", "commitId": "main", "ttlSeconds": 60}))
                .await;
        let shown =
            expect_data(shop.send(get(claimed.header("location")).with_account(&shop.ada)).await, 200);
        assert_eq!((&shown["envName"], &shown["status"]), (&json!(name), &json!("active")));
        assert_eq!(expect_data(claimed, 201)["deploymentId"], shown["deployments"][0]["id"]);
    }
}

#[tokio::test]
async fn claim_any_refusal_names_every_holder() {
    let shop = EnvironmentsFixture::new().await;
    claim_any(&shop, &shop.grace, json!({"label": "small"})).await;
    claim_any(&shop, &shop.ada, json!({"label": "small"})).await;
    let before = shop.snapshot().await;
    let refused = claim_any(&shop, &shop.ada, json!({"label": "small"})).await;
    refused.assert_problem(409, "environment_locked");
    let held = refused.body["environments"].as_array().unwrap();
    let seen: Vec<_> = held.iter().map(|it| (&it["envName"], &it["holder"]["name"])).collect();
    assert_eq!(seen, [(&json!("qa-2"), &json!("grace")), (&json!("qa-3"), &json!("ada"))]);
    assert_eq!(shop.snapshot().await, before);
}

#[tokio::test]
async fn claim_any_needs_a_label_that_exists() {
    let shop = EnvironmentsFixture::new().await;
    for body in [json!({"label": "tiny"}), json!({"label": ""}), json!({})] {
        let refused = claim_any(&shop, &shop.grace, body).await;
        refused.assert_problem(400, "invalid_request");
        assert_eq!(refused.body["errors"][0]["pointer"], "/label");
    }
    let vera = shop.create_viewer().await;
    claim_any(&shop, &vera, json!({"label": "small"})).await.assert_problem(403, "forbidden");
}
