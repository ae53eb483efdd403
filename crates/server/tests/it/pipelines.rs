//! Pipelines are created from a definition, changed with `If-Match`, and stopped and resumed idempotently.

use serde_json::json;

use super::world::{DEFINITION, TestWorld, call, get, post};

const PIPELINES: &str = "/api/v1/organizations/acme/pipelines";

#[tokio::test]
async fn pipeline_definition_is_text_or_an_object() {
    let world = TestWorld::new().await;
    let text = json!({"slug": "text", "definition": DEFINITION});
    let object = json!({"slug": "object", "name": "Mine", "definition": {
        "version": 1,
        "pipeline": {"name": "Shop", "stages": [{"name": "staging"}], "steps": [{"name": "Go", "type": "dummy"}]},
    }});
    for (body, name) in [(text, "Shop API"), (object, "Mine")] {
        let made = world.send(post(PIPELINES).with_account(&world.ada).json(&body)).await;
        assert_eq!((made.status.as_u16(), &made.body["data"]["name"]), (201, &json!(name)), "{}", made.text);
        assert_eq!(
            made.body["data"]["stages"],
            json!([{"name": "staging", "current": null, "paused": null}])
        );
        let view = world.send(get(made.header("location")).with_account(&world.ada)).await;
        assert_eq!(view.body, made.body);
        let source = world
            .send(get(&format!("{}/definition", made.header("location"))).with_account(&world.ada))
            .await;
        assert_eq!(source.body["data"]["hash"], made.body["data"]["definitionHash"]);
    }
    world
        .send(
            post(PIPELINES).with_account(&world.ada).json(&json!({"slug": "text", "definition": DEFINITION})),
        )
        .await
        .assert_problem(409, "already_exists");
}

#[tokio::test]
async fn pipeline_with_an_invalid_definition_is_refused() {
    let world = TestWorld::new().await;
    let bad = DEFINITION.replace("type: dummy", "tpye: dummy").replace("version: 1", "version: 2");
    let reply = world
        .send(post(PIPELINES).with_account(&world.ada).json(&json!({"slug": "shop", "definition": bad})))
        .await;
    reply.assert_problem(422, "pipeline_invalid");
    let found = reply.body["diagnostics"].as_array().unwrap();
    assert!(found.len() >= 2, "{}", reply.text);
    let typo = found.iter().find(|one| one["message"].as_str().unwrap().contains("tpye")).unwrap();
    assert_eq!((&typo["line"], &typo["suggestion"]), (&json!(8), &json!("type")));
    assert_eq!(typo["sourceLine"].as_str().unwrap().trim(), "tpye: dummy");
    world
        .send(get(&format!("{PIPELINES}/shop")).with_account(&world.ada))
        .await
        .assert_problem(404, "not_found");

    let validate =
        post(&format!("{PIPELINES}/validate")).with_account(&world.ada).json(&json!({"definition": bad}));
    let reply = world.send(validate).await;
    assert_eq!((reply.status.as_u16(), &reply.body["data"]["valid"]), (200, &json!(false)));
    let validate = post(&format!("{PIPELINES}/validate"))
        .with_account(&world.ada)
        .json(&json!({"definition": DEFINITION}));
    assert_eq!(world.send(validate).await.body["data"], json!({"valid": true, "diagnostics": []}));
}

#[tokio::test]
async fn pipeline_update_checks_if_match() {
    let world = TestWorld::new().await;
    world.create_pipeline("shop").await;
    let path = format!("{PIPELINES}/shop");
    let put = |definition: &str| {
        call("PUT", &format!("{path}/definition"))
            .with_account(&world.ada)
            .json(&json!({"definition": definition}))
    };
    let renamed = DEFINITION.replace("Shop API", "Shop 2");
    let changed = world.send(put(&renamed).header("if-match", "\"1\"")).await;
    assert_eq!((changed.header("etag"), &changed.body["data"]["name"]), ("\"2\"", &json!("Shop 2")));
    world.send(put(DEFINITION).header("if-match", "\"1\"")).await.assert_problem(412, "precondition_failed");
    world.send(put(DEFINITION).header("if-match", "W/\"2\"")).await.assert_problem(400, "invalid_parameter");
    assert_eq!(world.send(put(&renamed)).await.header("etag"), "\"2\"", "the same again is calm");

    let known = world.send(get(&path).with_account(&world.ada).header("if-none-match", "\"2\"")).await;
    assert_eq!((known.status.as_u16(), known.text.as_str(), known.header("etag")), (304, "", "\"2\""));
    let new = world.send(get(&path).with_account(&world.ada).header("if-none-match", "\"1\"")).await;
    assert_eq!(new.status, 200);
}

#[tokio::test]
async fn pipeline_stop_and_resume_record_actor_and_reason() {
    let world = TestWorld::new().await;
    let grace = world.create_member("grace@acme.test", "deployer").await;
    world.create_pipeline("shop").await;
    let path = format!("{PIPELINES}/shop");
    let stopped = world
        .send(post(&format!("{path}/stop")).with_account(&grace).json(&json!({"reason": "disk is full"})))
        .await;
    let data = &stopped.body["data"];
    assert_eq!((&data["status"], &data["stopped"]["reason"]), (&json!("stopped"), &json!("disk is full")));
    assert_eq!(data["stopped"]["by"]["name"], "grace");
    let again = world
        .send(post(&format!("{path}/stop")).with_account(&world.ada).json(&json!({"reason": "other"})))
        .await;
    assert_eq!(again.body, stopped.body, "already stopped: nothing changes");
    for (status, count) in [("stopped", 1), ("active", 0)] {
        let list = world.send(get(&format!("{PIPELINES}?status={status}")).with_account(&grace)).await;
        assert_eq!(list.body["pagination"]["total"], count);
    }
    let resumed = world.send(post(&format!("{path}/resume")).with_account(&grace)).await;
    assert_eq!(
        (&resumed.body["data"]["status"], &resumed.body["data"]["stopped"]),
        (&json!("active"), &json!(null))
    );
    let long = json!({"reason": "x".repeat(4_001)});
    world
        .send(post(&format!("{path}/stop")).with_account(&grace).json(&long))
        .await
        .assert_problem(400, "invalid_request");
}

#[tokio::test]
async fn deleted_pipeline_is_gone_and_its_slug_is_free() {
    let world = TestWorld::new().await;
    let id = world.create_pipeline("shop").await;
    let gone = world.send(call("DELETE", &format!("{PIPELINES}/shop")).with_account(&world.ada)).await;
    assert!(gone.body["data"]["deletedAt"].is_string());
    world
        .send(get(&format!("{PIPELINES}/{id}")).with_account(&world.ada))
        .await
        .assert_problem(404, "not_found");
    world
        .send(call("DELETE", &format!("{PIPELINES}/{id}")).with_account(&world.ada))
        .await
        .assert_problem(404, "not_found");
    assert_eq!(world.send(get(PIPELINES).with_account(&world.ada)).await.body["pagination"]["total"], 0);
    assert_ne!(world.create_pipeline("shop").await, id);
    let history = world
        .send(get(&format!("/api/v1/organizations/acme/events?pipeline={id}")).with_account(&world.ada))
        .await;
    assert_eq!(history.body["data"].as_array().unwrap().len(), 2, "its history stays");
}

#[tokio::test]
async fn pipeline_with_invalid_members_is_refused_by_name() {
    let world = TestWorld::new().await;
    let reply = world
        .send(post(PIPELINES).with_account(&world.ada).json(&json!({
            "slug": "shop", "definition": DEFINITION, "id": "pl_1", "status": "stopped", "org": {"id": 1},
        })))
        .await;
    reply.assert_problem(400, "unknown_member");
    let pointers: Vec<_> =
        reply.body["errors"].as_array().unwrap().iter().map(|error| &error["pointer"]).collect();
    assert_eq!(pointers, ["/id", "/status", "/org"]);

    for (raw, code) in [
        ("{", "invalid_json"),
        ("{\"slug\": }", "invalid_json"),
        ("{} {}", "invalid_json"),
        ("[]", "invalid_request"),
        ("\"text\"", "invalid_request"),
        ("{\"slug\": [\"a\"], \"definition\": \"\"}", "invalid_request"),
        ("{\"slug\": \"a\", \"slug\": \"b\", \"definition\": \"\"}", "invalid_request"),
        ("{\"slug\": \"../etc\", \"definition\": \"\"}", "invalid_request"),
        ("{\"slug\": \"a\\u0000\", \"definition\": \"\"}", "invalid_request"),
        ("{\"slug\": \"a\", \"definition\": 7}", "invalid_request"),
    ] {
        let reply = world.send(post(PIPELINES).with_account(&world.ada).raw(raw)).await;
        reply.assert_problem(400, code);
    }
    let form = post(PIPELINES)
        .with_account(&world.ada)
        .header("content-type", "application/x-www-form-urlencoded")
        .raw("a=b");
    world.send(form).await.assert_problem(415, "unsupported_media_type");
    let big = post(PIPELINES).with_account(&world.ada).raw(vec![b' '; 1024 * 1024 + 1]);
    world.send(big).await.assert_problem(413, "body_too_large");
    let bytes = post(PIPELINES).with_account(&world.ada).raw(vec![0xff, 0xfe]);
    world.send(bytes).await.assert_problem(400, "invalid_json");
    assert_eq!(
        world.send(get(PIPELINES).with_account(&world.ada)).await.body["data"],
        json!([]),
        "nothing half done"
    );
}

#[tokio::test]
async fn pipeline_slug_cannot_be_a_reserved_word() {
    let world = TestWorld::new().await;
    for slug in ["validate", "plan"] {
        let body = json!({"slug": slug, "definition": DEFINITION});
        world
            .send(post(PIPELINES).with_account(&world.ada).json(&body))
            .await
            .assert_problem(400, "invalid_request");
    }
}

#[tokio::test]
async fn pipeline_validation_reports_at_most_a_hundred_missing_secrets() {
    let world = TestWorld::new().await;
    let step = |n: usize| {
        format!(
            "    - {{ name: S{n}, type: script, env: {{ A: \"${{{{ secrets.S_{n} }}}}\" }}, params: {{ run: a }} }}\n"
        )
    };
    let steps: String = (0..400).map(step).collect();
    let definition =
        format!("version: 1\npipeline:\n  name: Many\n  stages: [{{ name: a }}]\n  steps:\n{steps}");
    let validate = post(&format!("{PIPELINES}/validate"))
        .with_account(&world.ada)
        .json(&json!({"definition": definition}));
    let reply = world.send(validate).await;
    assert_eq!(reply.body["data"]["valid"], true, "{}", reply.text);
    let found = reply.body["data"]["diagnostics"].as_array().unwrap();
    assert_eq!(found.len(), 100);
    assert!(found.iter().all(|one| one["code"] == "missing_secret"));
}

#[tokio::test]
async fn pipeline_validation_warns_of_an_unfulfillable_approval() {
    let world = TestWorld::new().await;
    let rule = "    - name: staging\n      requires: { approvals: 2, from: [deployer] }\n";
    let definition = DEFINITION.replace("    - name: staging\n", rule);
    let validate = async || {
        let asked = post(&format!("{PIPELINES}/validate")).with_account(&world.ada);
        world.send(asked.json(&json!({"definition": definition}))).await.body["data"].clone()
    };
    // Service accounts and viewers cannot approve.
    world.create_service_account("ci@acme.test", "deployer").await;
    world.create_member("vera@acme.test", "viewer").await;
    let told = validate().await;
    assert_eq!(
        (&told["valid"], &told["diagnostics"][0]["code"]),
        (&json!(true), &json!("unfulfillable")),
        "{told}"
    );
    assert_eq!(told["diagnostics"][0]["pointer"], "/pipeline/stages/0/requires");
    world.create_member("bob@acme.test", "deployer").await;
    assert_eq!(validate().await, json!({"valid": true, "diagnostics": []}));
}
