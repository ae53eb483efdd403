//! Plans show what would run and where, with placeholders for unknown and secret values.

use expect_test::{Expect, expect};
use serde_json::{Value, json};

use super::world::{TestWorld, call, get, post};

const PLAN: &str = "/api/v1/organizations/acme/pipelines/plan";
const DEFINITION: &str = r#"version: 1
pipeline:
  name: Shop API
  build: [{ name: Build, type: script, params: { run: ./build.sh }, outputs: [image] }]
  stages:
    - { name: staging, vars: { url: https://staging.shop.test } }
    - { name: production, vars: { url: https://shop.test }, skip: [smoke] }
  ephemeral_environments: { qa-1: { vars: { url: https://qa-1.shop.test }, skip: [soak] } }
  steps:
    - name: Deploy
      type: script
      env: { IMAGE: "${{ build.image }}", TOKEN: "Bearer ${{ secrets.TOKEN }}", COMMIT: "${{ trigger.commit }}" }
      secret_files: { KUBECONFIG: KUBE }
      params: { run: ./deploy.sh }
      outputs: [address]
    - name: Smoke
      type: http_check
      if: steps.deploy.address
      params: { url: "${{ vars.url }}/${{ steps.deploy.address }}" }
    - { name: Soak, type: soak, params: { duration: 10m }, if: stage.name == 'production' }
"#;

async fn request_plan(world: &TestWorld, body: &Value) -> super::world::TestResponse {
    world.send(post(PLAN).with_account(&world.ada).json(body)).await
}

/// Compares the plan with the expected text, which has one line per step.
async fn check_plan(world: &TestWorld, body: &Value, expected: &Expect) {
    let reply = request_plan(world, body).await;
    assert_eq!(reply.status, 200, "{}", reply.text);
    let mut lines = Vec::new();
    for stage in reply.body["data"]["stages"].as_array().unwrap() {
        lines.push(format!("{} {}", stage["kind"], stage["name"]));
        for step in stage["steps"].as_array().unwrap() {
            lines.push(format!(
                "  {} needs {} {} {} {}{}{}",
                step["id"],
                step["needs"],
                step["runs"],
                step["condition"],
                step["env"],
                step["secretFiles"],
                step["params"]
            ));
        }
    }
    lines.push(reply.body["data"]["obstacles"].to_string());
    expected.assert_eq(&lines.join("\n"));
}

#[tokio::test]
async fn plan_shows_every_stage_with_its_step_inputs() {
    let world = TestWorld::new().await;
    let secret = json!({"name": "TOKEN", "value": "hunter2-never-shown"});
    let made =
        world.send(post("/api/v1/organizations/acme/secrets").with_account(&world.ada).json(&secret)).await;
    assert_eq!(made.status, 201);
    let body = json!({"definition": DEFINITION, "commitId": "9fceb02"});
    check_plan(&world, &body, &expect![[r#"
        "build" "build"
          "build" needs [] "always" null {}{}{"run":"./build.sh"}
        "stage" "staging"
          "deploy" needs [] "always" null {"COMMIT":"9fceb02","IMAGE":"[OUTPUT:build/image]","TOKEN":"Bearer [SECRET:TOKEN]"}{"KUBECONFIG":"[SECRET:KUBE]"}{"run":"./deploy.sh"}
          "smoke" needs ["deploy"] "if" "steps.deploy.address" {}{}{"url":"https://staging.shop.test/[OUTPUT:deploy/address]"}
          "soak" needs ["smoke"] "never" null {}{}{"duration":"10m"}
        "stage" "production"
          "deploy" needs [] "always" null {"COMMIT":"9fceb02","IMAGE":"[OUTPUT:build/image]","TOKEN":"Bearer [SECRET:TOKEN]"}{"KUBECONFIG":"[SECRET:KUBE]"}{"run":"./deploy.sh"}
          "soak" needs ["deploy"] "always" null {}{}{"duration":"10m"}
        []"#]]).await;
    let made = json!({"slug": "shop", "definition": DEFINITION});
    let made =
        world.send(post("/api/v1/organizations/acme/pipelines").with_account(&world.ada).json(&made)).await;
    assert_eq!(made.status, 201, "{}", made.text);
    let body = json!({"pipelineId": "shop", "environment": "qa-1"});
    check_plan(&world, &body, &expect![[r#"
        "build" "build"
          "build" needs [] "always" null {}{}{"run":"./build.sh"}
        "environment" "qa-1"
          "deploy" needs [] "always" null {"COMMIT":"[COMMIT]","IMAGE":"[OUTPUT:build/image]","TOKEN":"Bearer [SECRET:TOKEN]"}{"KUBECONFIG":"[SECRET:KUBE]"}{"run":"./deploy.sh"}
          "smoke" needs ["deploy"] "if" "steps.deploy.address" {}{}{"url":"https://qa-1.shop.test/[OUTPUT:deploy/address]"}
        []"#]]).await;
    let before = world.event_kinds().await;
    request_plan(&world, &body).await;
    assert_eq!(world.event_kinds().await, before, "a plan changes nothing");
}

#[tokio::test]
async fn plan_that_fails_is_refused_with_a_reason() {
    let world = TestWorld::new().await;
    world.create_pipeline("shop").await;
    for (body, status, code, detail) in [
        (json!({}), 400, "invalid_request", "either"),
        (json!({"definition": DEFINITION, "pipelineId": "shop"}), 400, "invalid_request", "either"),
        (json!({"definition": DEFINITION, "environment": "qa-2"}), 400, "invalid_request", "/environment"),
        (json!({"definition": DEFINITION, "environment": "Q A"}), 400, "invalid_request", "/environment"),
        (json!({"definition": DEFINITION, "commitId": "--x"}), 400, "invalid_request", "/commitId"),
        (json!({"pipelineId": "nowhere"}), 404, "not_found", "pipeline"),
        (json!({"definition": "version: 2"}), 422, "pipeline_invalid", "errors"),
        (
            json!({"definition": DEFINITION.replace("if: stage.name == 'production'", "if: fromJSON(stage.name)")}),
            422,
            "pipeline_invalid",
            "condition of the step `soak`",
        ),
    ] {
        let reply = request_plan(&world, &body).await;
        reply.assert_problem(status, code);
        assert!(reply.body["detail"].as_str().unwrap().contains(detail), "{}", reply.text);
    }
}

#[tokio::test]
async fn plan_and_validation_use_the_organizations_network() {
    let world = TestWorld::new().await;
    let source = "version: 1
pipeline:
  name: Shop
  stages: [{ name: staging }]
  steps:
    - { name: Make, type: script, params: { run: ./make } }
    - { name: Push, type: script, network: host, params: { run: ./push } }
    - { name: Smoke, type: http_check, params: { url: https://shop.test } }
";
    let networks = async || {
        let reply = request_plan(&world, &json!({"definition": source})).await;
        let steps = reply.body["data"]["stages"][0]["steps"].as_array().unwrap().clone();
        let words: Vec<Value> = steps.into_iter().map(|step| step["network"].clone()).collect();
        (words, reply.body["data"]["obstacles"].clone())
    };
    let validate = async || {
        let path = "/api/v1/organizations/acme/pipelines/validate";
        world.send(post(path).with_account(&world.ada).json(&json!({"definition": source}))).await.body["data"].clone()
    };
    assert_eq!(networks().await, (vec![json!("host"); 3], json!([])));
    assert_eq!(validate().await["diagnostics"], json!([]));

    let patch =
        |body: Value| call("PATCH", "/api/v1/organizations/acme").with_account(&world.ada).json(&body);
    for bad in ["some", "bridge"] {
        world.send(patch(json!({"defaultNetwork": bad}))).await.assert_problem(400, "invalid_request");
    }
    let changed = world.send(patch(json!({"defaultNetwork": "none"}))).await;
    assert_eq!(changed.body["data"]["defaultNetwork"], "none", "{}", changed.text);
    let seen = world.send(get("/api/v1/organizations/acme").with_account(&world.ada)).await;
    assert_eq!(seen.body["data"]["defaultNetwork"], "none");
    let events = world.send(get("/api/v1/organizations/acme/events").with_account(&world.ada)).await;
    assert!(events.text.contains(r#""previousDefaultNetwork":"host""#), "{}", events.text);

    let (words, obstacles) = networks().await;
    assert_eq!(words, [json!("none"), json!("host"), json!("none")]);
    assert!(obstacles[0].as_str().unwrap().contains("add `network: host` to it"), "{obstacles}");
    let found = validate().await;
    assert_eq!(found["valid"], true, "{found}");
    assert_eq!(
        (&found["diagnostics"][0]["code"], &found["diagnostics"][0]["pointer"]),
        (&json!("no_network"), &json!("/pipeline/steps/2"))
    );
}
