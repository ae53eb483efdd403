//! Secrets: the API returns their names, scopes, versions and uses, but never their values.

use std::sync::Arc;

use berth_core::id::{OrgId, PipelineId};
use berth_core::pipeline::grammar::{SecretName, StageName};
use berth_engine::credential::RedactedString;
use berth_engine::vault::KeyError;
use berth_store::TxContext;
use berth_store::tables::secret;
use serde_json::{Value, json};

use super::world::{TestWorld, call, get, post};

const SECRETS: &str = "/api/v1/organizations/acme/secrets";
const USES_TOKEN: &str = "version: 1\npipeline:\n  name: Uses\n  stages:\n    - name: staging\n    - name: production\n  steps:\n    - name: Go\n      type: script\n      env: { TOKEN: \"${{ secrets.TOKEN }}\" }\n      params: { run: ./go.sh }\n";

async fn create_secret(world: &TestWorld, body: &Value) -> Value {
    let made = world.send(post(SECRETS).with_account(&world.ada).json(body)).await;
    assert_eq!(made.status, 201, "{}", made.text);
    made.body["data"].clone()
}

async fn create_pipeline_with_token(world: &TestWorld, slug: &str) -> PipelineId {
    let body = json!({"slug": slug, "definition": USES_TOKEN});
    let made =
        world.send(post("/api/v1/organizations/acme/pipelines").with_account(&world.ada).json(&body)).await;
    made.body["data"]["id"].as_str().unwrap().parse().unwrap()
}

/// The value that a step in this pipeline and stage would get.
async fn resolve_secret_value(
    world: &TestWorld,
    pipeline: PipelineId,
    stage: &str,
) -> Result<Option<String>, String> {
    let org = world.send(get("/api/v1/organizations/acme").with_account(&world.ada)).await.body["data"]["id"]
        .clone();
    let org: OrgId = org.as_str().unwrap().parse().unwrap();
    let (vault, stage) = (Arc::clone(world.app.vault()), StageName::parse(stage).unwrap());
    let read = world.app.store().transact(TxContext::system(Some(org)), move |tx| {
        let name = SecretName::parse("TOKEN").unwrap();
        let Some(found) = secret::resolve_name(tx, &name, pipeline, Some(&stage))? else { return Ok(None) };
        vault.reveal(tx, &found, found.version).map(Some)
    });
    let value: Result<Option<RedactedString>, KeyError> = read.await;
    value.map(|value| value.map(|value| value.reveal().to_owned())).map_err(|error| error.to_string())
}

#[tokio::test]
async fn secret_value_is_never_returned() {
    let world = TestWorld::new().await;
    let made = create_secret(
        &world,
        &json!({"name": "TOKEN", "value": "hunter2-hunter2", "description": "for deploys"}),
    )
    .await;
    let id = made["id"].as_str().unwrap();
    assert_eq!((&made["version"], &made["scope"]), (&json!(1), &json!({"type": "organization"})));
    assert_eq!((&made["usedBy"], &made["warnings"]), (&json!([]), &json!([])));
    for path in [SECRETS.to_owned(), format!("{SECRETS}/{id}"), format!("{SECRETS}/TOKEN")] {
        let reply = world.send(get(&path).with_account(&world.ada)).await;
        assert_eq!(reply.status, 200);
        assert!(!reply.text.contains("hunter2"), "{path}");
    }
    let patched = world
        .send(
            call("PATCH", &format!("{SECRETS}/TOKEN"))
                .with_account(&world.ada)
                .json(&json!({"value": "new-hunter2"})),
        )
        .await;
    assert_eq!((&patched.body["data"]["version"], patched.header("etag")), (&json!(2), "\"2\""));
    assert_eq!(patched.body["data"]["description"], "for deploys");
    let put = call("PUT", &format!("{SECRETS}/{id}")).with_account(&world.ada).header("if-match", "\"1\"");
    world.send(put.json(&json!({"value": "late-hunter2"}))).await.assert_problem(412, "precondition_failed");
    let calm = world
        .send(call("PATCH", &format!("{SECRETS}/TOKEN")).with_account(&world.ada).json(&json!({})))
        .await;
    assert_eq!(calm.header("etag"), "\"2\"");
    let events = world.send(get("/api/v1/organizations/acme/events").with_account(&world.ada)).await;
    assert!(!events.text.contains("hunter2"));
    let kinds = world.event_kinds().await;
    assert_eq!(kinds[3..], ["secret_created", "secret_updated"]);
}

#[tokio::test]
async fn secret_with_the_narrowest_scope_is_used() {
    let world = TestWorld::new().await;
    let pipeline = create_pipeline_with_token(&world, "shop").await;
    assert_eq!(resolve_secret_value(&world, pipeline, "staging").await, Ok(None));
    create_secret(&world, &json!({"name": "TOKEN", "value": "of-organization"})).await;
    create_secret(&world, &json!({"name": "TOKEN", "value": "of-pipeline", "scope": {"type": "pipeline", "pipelineId": "shop"}})).await;
    let stage = json!({"type": "stage", "pipelineId": pipeline.to_string(), "stage": "production"});
    let made = create_secret(&world, &json!({"name": "TOKEN", "value": "of-stage", "scope": stage})).await;
    assert_eq!(made["scope"], stage);
    let other = create_pipeline_with_token(&world, "other").await;
    for (pipeline, stage, expected) in [
        (pipeline, "staging", "of-pipeline"),
        (pipeline, "production", "of-stage"),
        (other, "staging", "of-organization"),
    ] {
        assert_eq!(resolve_secret_value(&world, pipeline, stage).await, Ok(Some(expected.to_owned())));
    }
    assert_eq!(world.event_kinds().await.iter().filter(|kind| *kind == "secret_read").count(), 3);
}

#[tokio::test]
async fn secret_in_use_is_deleted_only_with_force() {
    let world = TestWorld::new().await;
    let validate = async || {
        let call = post("/api/v1/organizations/acme/pipelines/validate").with_account(&world.ada);
        world.send(call.json(&json!({"definition": USES_TOKEN}))).await.body["data"]["diagnostics"].clone()
    };
    assert_eq!(
        (&validate().await[0]["code"], &validate().await[0]["line"]),
        (&json!("missing_secret"), &json!(10))
    );
    create_secret(&world, &json!({"name": "TOKEN", "value": "hunter2-hunter2"})).await;
    assert_eq!(validate().await, json!([]));
    let pipeline = create_pipeline_with_token(&world, "shop").await;
    let used = world.send(get(&format!("{SECRETS}/TOKEN")).with_account(&world.ada)).await;
    let user = json!([{"pipelineId": pipeline.to_string(), "slug": "shop"}]);
    assert_eq!(used.body["data"]["usedBy"], user);
    let refused = world.send(call("DELETE", &format!("{SECRETS}/TOKEN")).with_account(&world.ada)).await;
    refused.assert_problem(409, "invalid_state");
    assert_eq!(refused.body["usedBy"], user);

    // A secret with the same name and a narrower scope takes precedence.
    let scope = json!({"type": "pipeline", "pipelineId": "shop"});
    create_secret(&world, &json!({"name": "TOKEN", "value": "nearer-hunter2", "scope": scope})).await;
    assert_eq!(
        world.send(get(&format!("{SECRETS}/TOKEN")).with_account(&world.ada)).await.body["data"]["usedBy"],
        json!([])
    );
    // Deleting the pipeline deletes its own secret too.
    world.send(call("DELETE", "/api/v1/organizations/acme/pipelines/shop").with_account(&world.ada)).await;
    assert_eq!(world.send(get(SECRETS).with_account(&world.ada)).await.body["pagination"]["total"], 1);

    create_pipeline_with_token(&world, "blog").await;
    let forced =
        world.send(call("DELETE", &format!("{SECRETS}/TOKEN?force=true")).with_account(&world.ada)).await;
    assert!(forced.body["data"]["deletedAt"].is_string(), "{}", forced.text);
    world
        .send(get(&format!("{SECRETS}/TOKEN")).with_account(&world.ada))
        .await
        .assert_problem(404, "not_found");
    assert_eq!(world.event_kinds().await.iter().filter(|kind| *kind == "secret_deleted").count(), 2);
}

#[tokio::test]
async fn secret_that_is_short_or_common_is_accepted_with_a_warning() {
    let world = TestWorld::new().await;
    for (name, value, warned) in [("A", "abc", true), ("B", "true", true), ("C", "x9!k", false)] {
        let made = create_secret(&world, &json!({"name": name, "value": value})).await;
        let codes: Vec<_> =
            made["warnings"].as_array().unwrap().iter().map(|warning| &warning["code"]).collect();
        assert_eq!(codes, if warned { vec!["not_maskable"] } else { vec![] }, "{value}");
    }
}

#[tokio::test]
async fn invalid_secret_is_refused_without_its_value() {
    let world = TestWorld::new().await;
    world.create_pipeline("shop").await;
    for (body, pointer) in [
        (json!({"name": "../etc/passwd", "value": "canary-1"}), "/name"),
        (json!({"name": "A/B", "value": "canary-1"}), "/name"),
        (json!({"name": "1A", "value": "canary-1"}), "/name"),
        (json!({"name": "A".repeat(129), "value": "canary-1"}), "/name"),
        (json!({"name": "A", "value": ""}), "/value"),
        (json!({"name": "A", "value": "canary-1\u{0}"}), "/value"),
        (json!({"name": "A", "value": "canary-1".repeat(8_193)}), "/value"),
        (json!({"name": "A", "value": ["canary-1"]}), "/value"),
        (json!({"name": "A", "value": "canary-1", "version": 7}), "/version"),
        (json!({"name": "A", "value": "canary-1", "scope": {"type": "pipeline"}}), "/scope/pipelineId"),
        (
            json!({"name": "A", "value": "canary-1", "scope": {"type": "pipeline", "pipelineId": "none"}}),
            "/scope/pipelineId",
        ),
        (
            json!({"name": "A", "value": "canary-1", "scope": {"type": "stage", "pipelineId": "shop", "stage": "x"}}),
            "/scope/stage",
        ),
        (
            json!({"name": "A", "value": "canary-1", "scope": {"type": "organization", "stage": "x"}}),
            "/scope",
        ),
        (json!({"name": "A", "value": "canary-1", "scope": {"type": "galaxy"}}), "/scope/type"),
    ] {
        let reply = world.send(post(SECRETS).with_account(&world.ada).json(&body)).await;
        reply.assert_invalid_input();
        assert_eq!(reply.body["errors"][0]["pointer"], pointer, "{}", reply.text);
        assert!(!reply.text.contains("canary"), "{}", reply.text);
    }
    create_secret(&world, &json!({"name": "A", "value": "x".repeat(65_536)})).await;
    world
        .send(post(SECRETS).with_account(&world.ada).json(&json!({"name": "A", "value": "other"})))
        .await
        .assert_problem(409, "already_exists");
    assert_eq!(world.send(get(SECRETS).with_account(&world.ada)).await.body["pagination"]["total"], 1);
}

#[tokio::test]
async fn root_key_rotation_keeps_secrets_and_log_ins() {
    let world = TestWorld::new().await;
    let pipeline = create_pipeline_with_token(&world, "shop").await;
    create_secret(&world, &json!({"name": "TOKEN", "value": "before-rotation"})).await;
    let browser = world.log_in(&world.ada.email, &world.ada.password).await;
    let once = || {
        post(SECRETS)
            .with_account(&world.ada)
            .header("idempotency-key", "k")
            .json(&json!({"name": "K", "value": "12345"}))
    };
    let first = world.send(once()).await;

    let rotate = || {
        let app = world.app.clone();
        tokio::task::spawn_blocking(move || app.vault().rotate(app.store()).unwrap())
    };
    let (one, two) = (rotate().await.unwrap(), rotate().await.unwrap());
    assert_ne!(one.root_key_id, two.root_key_id);
    assert_eq!((one.data_keys, two.data_keys), (1, 1));
    assert_eq!(
        resolve_secret_value(&world, pipeline, "staging").await,
        Ok(Some("before-rotation".to_owned()))
    );
    assert_eq!(
        world
            .send(browser.post("/api/v1/organizations/acme/api-tokens").json(&json!({"name": "x"})))
            .await
            .status,
        201
    );
    assert_eq!(world.send(once()).await.text, first.text);
    assert_eq!(world.event_kinds().await.iter().filter(|kind| *kind == "root_key_rotated").count(), 2);
}
