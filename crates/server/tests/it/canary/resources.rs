//! Creates one resource of each kind, so that requests reach the handlers behind their paths.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::world::{TestWorld, post};

/// Returns names or ids of the resources. The keys are path parameters.
pub(super) async fn create_resources(world: &TestWorld) -> BTreeMap<&'static str, String> {
    let qa = "/api/v1/organizations/acme/pipelines/shop/ephemeral-environments/qa-1/sessions";
    let claim = async |body: Value| {
        world.send(post(qa).with_account(&world.ada).json(&body)).await.body["data"].clone()
    };
    let (held, waits) = (claim(json!({"commitId": "9fceb02"})).await, claim(json!({"queue": true})).await);
    let id = |value: &Value| value.as_str().unwrap().to_owned();
    let deployment = id(&held["deploymentId"]);
    let approval = world.create_approval().await;
    let body = json!({"url": "/srv/git/shop.git"});
    let made = world
        .send(post("/api/v1/organizations/acme/repositories").with_account(&world.ada).json(&body))
        .await;
    let repository = id(&made.body["data"]["id"]);
    let body = json!({"name": "tools", "url": "/srv/git/tools.git"});
    let made = world
        .send(post("/api/v1/organizations/acme/step-registries").with_account(&world.ada).json(&body))
        .await;
    let registry = id(&made.body["data"]["id"]);
    let body = json!({"name": "ops", "url": "https://127.0.0.1:9/hook", "kinds": ["*"]});
    let made =
        world.send(post("/api/v1/organizations/acme/webhooks").with_account(&world.ada).json(&body)).await;
    assert_eq!(made.status, 201, "{}", made.text);
    let body = json!({"name": "deploys", "type": "slack_webhook", "url": "https://127.0.0.1:9/hook"});
    let made = post("/api/v1/organizations/acme/chat-destinations").with_account(&world.ada).json(&body);
    assert_eq!(world.send(made).await.status, 201);
    let runner =
        post("/api/v1/organizations/acme/runners").with_account(&world.ada).json(&json!({"name": "build-1"}));
    assert_eq!(world.send(runner).await.status, 201);
    BTreeMap::from([
        ("{orgId}", "acme".to_owned()),
        ("{pipelineId}", "shop".to_owned()),
        ("{repositoryId}", repository),
        ("{registryId}", registry),
        ("{runnerId}", "build-1".to_owned()),
        ("{buildNumber}", "1".to_owned()),
        ("{number}", "1".to_owned()),
        ("{envName}", "qa-1".to_owned()),
        ("{sessionId}", id(&held["sessionId"])),
        ("{ticketId}", id(&waits["ticketId"])),
        ("{deploymentId}", deployment),
        ("{analysisId}", format!("anl_{}", "0".repeat(26))),
        ("{approvalId}", approval),
        ("{stepId}", "deploy".to_owned()),
        ("{stage}", "qa-1".to_owned()),
        ("{forge}", "github".to_owned()),
        ("{hookId}", "hook_00000000000000000000000000".to_owned()),
        ("{appId}", "app_00000000000000000000000000".to_owned()),
        ("{webhookId}", "ops".to_owned()),
        ("{destinationId}", "deploys".to_owned()),
    ])
}
