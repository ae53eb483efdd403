//! Two people and one environment, from the first claim to a takeover.

use serde_json::json;

use super::{EnvironmentsFixture, expect_data, expect_str};
use crate::world::get;

#[tokio::test]
async fn environment_is_shared_by_two_people() {
    let shop = EnvironmentsFixture::new().await;

    // Grace claims qa-1 and gives a reason.
    let wish = json!({"commitId": "9fceb02", "context": "load test", "ttlSeconds": 7_200});
    let grace = shop.claim_session(&shop.grace, &wish).await;

    // Ada's claim is refused. The response names the holder, the reason and the expiry.
    let refused = shop.claim(&shop.ada, &json!({"commitId": "main"})).await;
    refused.assert_problem(409, "environment_locked");
    assert_eq!(
        (&refused.body["holder"]["name"], &refused.body["context"]),
        (&json!("grace"), &json!("load test"))
    );
    assert_eq!(refused.body["expiresAt"], grace["expiresAt"]);

    // Ada joins the queue, which all members can see.
    let ticket = shop.join_queue(&shop.ada, &json!({"commitId": "main", "context": "demo for sales"})).await;
    assert_eq!((&ticket["status"], &ticket["position"]), (&json!("waiting"), &json!(1)));
    assert_eq!(shop.fetch("qa-1").await["queueLength"], 1);

    // Grace releases the environment. In the same transaction, Ada gets it and a deployment of her commit is queued.
    let released = expect_data(shop.release(&shop.grace, &grace).await, 200);
    assert_eq!(
        (&released["released"], &released["environment"]["lock"]["holder"]["name"]),
        (&json!(true), &json!("ada"))
    );
    let granted = shop.fetch(&format!("qa-1/queue/{}", expect_str(&ticket["ticketId"]))).await;
    assert_eq!(granted["status"], "granted");
    let ada = shop.session_status(&granted).await;
    assert_eq!((&ada["status"], &ada["context"]), (&json!("active"), &json!("demo for sales")));
    let path = format!("/api/v1/organizations/acme/deployments/{}", expect_str(&granted["deploymentId"]));
    let deployment = expect_data(shop.send(get(&path).with_account(&shop.ada)).await, 200);
    assert_eq!((&deployment["commitId"], &deployment["sessionId"]), (&json!("main"), &ada["sessionId"]));
    assert!(["queued", "running", "succeeded"].contains(&deployment["status"].as_str().unwrap()));

    // Production is down, so Grace takes over the environment.
    let taken = expect_data(
        shop.force_claim(&shop.grace, &json!({"commitId": "hotfix", "reason": "production is down"})).await,
        201,
    );
    assert!(taken["fence"].as_i64() > ada["fence"].as_i64());

    // The status of Ada's session shows who took over, when and why, and how that affects her.
    let lost = shop.session_status(&ada).await;
    assert_eq!((&lost["status"], &lost["overridden"]), (&json!("overridden"), &json!(true)));
    assert_eq!(
        (&lost["overriddenBy"]["name"], &lost["overriddenAt"]),
        (&json!("grace"), &taken["claimedAt"])
    );
    assert_eq!(lost["overrideReason"], "production is down");
    assert_eq!((&lost["lockStatus"], &lost["holdsLock"]), (&json!("unlocked"), &json!(false)));
    assert_eq!(lost["environment"]["lock"]["holder"]["name"], "grace");
    shop.post_to_session(&shop.ada, &ada, "deploy", &json!({"commitId": "main"}))
        .await
        .assert_problem(409, "session_not_active");

    // The history lists all sessions, newest first.
    let history = shop.fetch("qa-1/history").await;
    let told: Vec<_> =
        history.as_array().unwrap().iter().map(|it| (&it["holder"]["name"], &it["endReason"])).collect();
    assert_eq!(
        told,
        [
            (&json!("grace"), &json!(null)),
            (&json!("ada"), &json!("overridden")),
            (&json!("grace"), &json!("released")),
        ]
    );
}
