//! Claiming any environment that has a label.

use serde_json::{Value, json};

use super::{PIPELINE, Shop, data};
use crate::world::{Account, Reply, get, post};

async fn any(shop: &Shop, who: &Account, body: Value) -> Reply {
    shop.send(post(&format!("{PIPELINE}/claim-any")).by(who).json(&body)).await
}

#[tokio::test]
async fn claim_any_gets_the_first_free_environment_with_the_label() {
    let shop = Shop::open().await;
    for name in ["qa-2", "qa-3"] {
        let claimed =
            any(&shop, &shop.grace, json!({"label": "small", "commitId": "main", "ttlSeconds": 60})).await;
        let shown = data(shop.send(get(claimed.header("location")).by(&shop.ada)).await, 200);
        assert_eq!((&shown["envName"], &shown["status"]), (&json!(name), &json!("active")));
        assert_eq!(data(claimed, 201)["deploymentId"], shown["deployments"][0]["id"]);
    }
}

#[tokio::test]
async fn claim_any_refusal_names_every_holder() {
    let shop = Shop::open().await;
    any(&shop, &shop.grace, json!({"label": "small"})).await;
    any(&shop, &shop.ada, json!({"label": "small"})).await;
    let before = shop.dump().await;
    let refused = any(&shop, &shop.ada, json!({"label": "small"})).await;
    refused.is(409, "environment_locked");
    let held = refused.body["environments"].as_array().unwrap();
    let seen: Vec<_> = held.iter().map(|it| (&it["envName"], &it["holder"]["name"])).collect();
    assert_eq!(seen, [(&json!("qa-2"), &json!("grace")), (&json!("qa-3"), &json!("ada"))]);
    assert_eq!(shop.dump().await, before);
}

#[tokio::test]
async fn claim_any_needs_a_label_that_exists() {
    let shop = Shop::open().await;
    for body in [json!({"label": "tiny"}), json!({"label": ""}), json!({})] {
        let refused = any(&shop, &shop.grace, body).await;
        refused.is(400, "invalid_request");
        assert_eq!(refused.body["errors"][0]["pointer"], "/label");
    }
    let vera = shop.viewer().await;
    any(&shop, &vera, json!({"label": "small"})).await.is(403, "forbidden");
}
