//! Reading environments, in a list or individually, with their configuration and holder.

use serde_json::{Value, json};

use super::{EnvironmentsFixture, environments_path};
use crate::world::get;

#[tokio::test]
async fn environment_list_has_every_lock() {
    let shop = EnvironmentsFixture::new().await;
    let session = shop.claim_session(&shop.grace, &json!({"context": "load test"})).await;
    let list = shop.fetch("").await;
    let seen =
        |member: &str| list.as_array().unwrap().iter().map(|it| it[member].clone()).collect::<Vec<_>>();
    assert_eq!(seen("envName"), ["qa-1", "qa-2", "qa-3", "qa-4"]);
    assert_eq!(seen("lockStatus"), ["locked", "unlocked", "unlocked", "unlocked"]);
    assert_eq!(list[0]["lock"]["sessionId"], session["sessionId"]);
    assert_eq!(&seen("lock")[1..], [Value::Null, Value::Null, Value::Null]);
    for environment in list.as_array().unwrap() {
        let name = environment["name"].as_str().unwrap();
        assert_eq!(&shop.fetch(name).await, environment, "one by one they say the same");
    }
}

#[tokio::test]
async fn environment_configuration_matches_the_definition() {
    let shop = EnvironmentsFixture::new().await;
    assert_eq!(
        shop.fetch("qa-4").await["configuration"],
        json!({
            "triggers": [{"on": "api"}, {"on": "pull_request", "targetBranches": ["main"]}],
            "release": [{"on": "api"}, {"on": "pr_closed"}, {"on": "timeout", "afterIdleSeconds": 14_400}],
            "onRelease": "deploy_tracked",
            "vars": {"url": "https://qa-4.shop.test", "replicas": 2, "debug": true},
            "skip": ["soak"],
            "labels": ["large", "slow"],
            "owner": null,
            "ttlSeconds": 28_800,
        })
    );
    assert_eq!(
        shop.fetch("qa-1").await["configuration"],
        json!({
            "triggers": [{"on": "api"}], "release": [{"on": "api"}], "onRelease": "none",
            "vars": {}, "skip": [], "labels": [], "owner": null, "ttlSeconds": null,
        })
    );
}

#[tokio::test]
async fn new_environment_is_free_and_clean() {
    let shop = EnvironmentsFixture::new().await;
    let seen = shop.fetch("qa-1").await;
    assert_eq!(
        [&seen["lockStatus"], &seen["lock"], &seen["state"], &seen["deployedCommitId"]],
        [&json!("unlocked"), &json!(null), &json!("clean"), &json!(null)]
    );
    assert_eq!((&seen["fence"], &seen["queueLength"]), (&json!(0), &json!(0)));
    assert_eq!(seen["pipelineId"], shop.pipeline.as_str());
}

#[tokio::test]
async fn environment_etag_is_fence_and_version() {
    let shop = EnvironmentsFixture::new().await;
    let look =
        |tag: &str| get(&environments_path("qa-1")).with_account(&shop.ada).header("if-none-match", tag);
    let free = shop.send(get(&environments_path("qa-1")).with_account(&shop.ada)).await;
    assert_eq!(free.header("etag"), "\"0.1\"");
    assert_eq!(shop.send(look("\"0.1\"")).await.status, 304);
    shop.claim_session(&shop.grace, &json!({})).await;
    let held = shop.send(look("\"0.1\"")).await;
    assert_eq!((held.status.as_u16(), held.header("etag")), (200, "\"1.2\""));
    shop.join_queue(&shop.ada, &json!({})).await;
    let waited = shop.send(look("\"1.2\"")).await;
    assert_eq!(
        (waited.status.as_u16(), waited.header("etag")),
        (200, "\"1.3\""),
        "a ticket joined the queue"
    );
}

#[tokio::test]
async fn environment_is_readable_by_viewers_and_not_by_foreign_users() {
    let shop = EnvironmentsFixture::new().await;
    let vera = shop.create_viewer().await;
    let session = shop.claim_session(&shop.grace, &json!({})).await;
    let ticket = shop.join_queue(&shop.ada, &json!({})).await;
    for path in [
        String::new(),
        "qa-1".into(),
        "qa-1/history".into(),
        "qa-1/insights".into(),
        "qa-1/queue".into(),
        format!("qa-1/queue/{}", ticket["ticketId"].as_str().unwrap()),
        format!("qa-1/sessions/{}", session["sessionId"].as_str().unwrap()),
    ] {
        assert_eq!(shop.send(get(&environments_path(&path)).with_account(&vera)).await.status, 200, "{path}");
        shop.send(get(&environments_path(&path)).with_account(&shop.world.hank))
            .await
            .assert_problem(404, "not_found");
    }
}

#[tokio::test]
async fn released_environment_keeps_its_fence() {
    let shop = EnvironmentsFixture::new().await;
    let first = shop.claim_session(&shop.grace, &json!({"commitId": "9fceb02"})).await;
    shop.release(&shop.grace, &first).await;
    let seen = shop.fetch("qa-1").await;
    assert_eq!((&seen["fence"], &seen["lockStatus"]), (&json!(1), &json!("unlocked")), "the number stays");
    assert_eq!(seen["deployedCommitId"], json!(null), "nothing had been deployed yet");
}
