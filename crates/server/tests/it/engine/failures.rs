//! A deployment that cannot run fails with a cause and starts no step.

use serde_json::json;

use super::PipelineFixture;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn missing_secret_fails_the_deployment_before_any_step() {
    let fixture = PipelineFixture::start().await;
    let ledger = fixture.file_path("ledger");
    fixture
        .create_pipeline(&format!(
            "  stages: [{{ name: staging }}]
  steps:
    - {{ name: One, type: script, params: {{ run: 'echo one >> {ledger}' }} }}
    - {{ name: Two, type: script, env: {{ T: '${{{{ secrets.NO_SUCH }}}}' }}, params: {{ run: 'true' }} }}
"
        ))
        .await;
    let ended = fixture.wait_for_end(&fixture.start_deployment("4f2a1c9").await).await;
    assert_eq!((&ended["status"], &ended["cause"]), (&json!("failed"), &json!("not_runnable")));
    assert!(ended["detail"].as_str().unwrap().contains("NO_SUCH"), "{ended}");
    assert_eq!(fixture.read_file("ledger"), "");
    fixture.shut_down().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unwritten_output_is_empty_and_an_invalid_param_fails_the_step() {
    let fixture = PipelineFixture::start().await;
    let ledger = fixture.file_path("ledger");
    fixture
        .create_pipeline(&format!(
            "  stages: [{{ name: staging }}]
  steps:
    - {{ name: One, type: script, outputs: [image], params: {{ run: 'true' }} }}
    - {{ name: Two, type: script, env: {{ IMAGE: '${{{{ steps.one.image }}}}' }}, params: {{ run: 'echo \"[$IMAGE]\" >> {ledger}' }} }}
    - {{ name: Three, type: http_check, params: {{ url: '${{{{ steps.one.image }}}}' }} }}
"
        ))
        .await;
    let ended = fixture.wait_for_end(&fixture.start_deployment("4f2a1c9").await).await;
    assert_eq!(fixture.read_file("ledger"), "[]\n");
    assert_eq!(ended["stages"][0]["steps"][2]["status"], "failed", "{ended}");
    fixture.shut_down().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn step_with_unmatched_labels_waits_and_reports_it() {
    let fixture = PipelineFixture::start().await;
    fixture
        .create_pipeline(
            "  stages: [{ name: staging }]
  steps:
    - { name: One, type: dummy, runs_on: [mainframe] }
",
        )
        .await;
    let id = fixture.start_deployment("4f2a1c9").await;
    let waits = fixture.wait_until(&id, |it| it["blockedBy"][0]["kind"] == "no_runner").await;
    assert_eq!(waits["stages"][0]["steps"][0]["status"], "ready");
    let cancelled = fixture.post(&format!("/deployments/{id}/cancel"), &json!({})).await;
    assert_eq!(cancelled.body["data"]["status"], "cancelled", "{}", cancelled.text);
    fixture.shut_down().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn invalid_deployment_requests_change_nothing() {
    let fixture = PipelineFixture::start().await;
    fixture.create_pipeline("  stages: [{ name: staging }]\n  steps: [{ name: One, type: dummy }]\n").await;
    fixture.post("/pipelines/shop/deployments", &json!({})).await.assert_problem(400, "invalid_request");
    fixture
        .post("/pipelines/shop/deployments", &json!({"commitId": "--upload-pack=x"}))
        .await
        .assert_problem(400, "invalid_request");
    let both = json!({"commitId": "a1", "ref": "main"});
    fixture.post("/pipelines/shop/deployments", &both).await.assert_problem(400, "invalid_request");
    fixture
        .post("/pipelines/nowhere/deployments", &json!({"commitId": "a1"}))
        .await
        .assert_problem(404, "not_found");
    let id = fixture.start_deployment("4f2a1c9").await;
    let ended = fixture.wait_for_end(&id).await;
    let step = ended["stages"][0]["steps"][0]["id"].as_str().unwrap();
    let resolve = format!("/deployments/{id}/steps/{step}/resolve");
    fixture.post(&resolve, &json!({"outcome": "ran"})).await.assert_problem(409, "invalid_state");
    fixture.post(&resolve, &json!({"outcome": "maybe"})).await.assert_problem(400, "invalid_request");
    let nowhere = format!("/deployments/{id}/steps/stp_00000000000000000000000000/resolve");
    fixture.post(&nowhere, &json!({"outcome": "ran"})).await.assert_problem(404, "not_found");
    assert_eq!(fixture.fetch("/pipelines/shop/deployments").await.as_array().unwrap().len(), 1);
    fixture.shut_down().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn step_whose_values_cannot_be_evaluated_fails_and_frees_its_slot() {
    let fixture = PipelineFixture::start().await;
    fixture
        .create_pipeline(
            "  stages: [{ name: staging, vars: { settings: no json } }]
  steps:
    - { name: One, type: script, env: { A: '${{ fromJSON(vars.settings).a }}' }, params: { run: 'true' } }
  ephemeral_environments: { qa-1: { vars: { settings: '{\"a\": \"b\"}' } } }
",
        )
        .await;
    // There are more deployments than slots, so each failed deployment must free its slot.
    for number in 0..8 {
        let ended = fixture.wait_for_end(&fixture.start_deployment(&format!("aaa{number}")).await).await;
        assert_eq!(
            (&ended["status"], &ended["cause"]),
            (&json!("failed"), &json!("not_runnable")),
            "{ended}"
        );
    }
    let (_, good) = fixture.claim("bbb1111").await;
    assert_eq!(fixture.wait_for_end(&good).await["status"], "succeeded");
    fixture.shut_down().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn deleting_a_pipeline_ends_its_deployments() {
    let fixture = PipelineFixture::start().await;
    let never = fixture.file_path("never");
    fixture
        .create_pipeline(&format!(
            "  stages: [{{ name: staging }}]
  steps:
    - {{ name: One, type: script, params: {{ run: 'while ! test -e {never}; do sleep 0.02; done' }} }}
"
        ))
        .await;
    let first = fixture.start_deployment("aaa1111").await;
    fixture.wait_until(&first, |it| it["stages"][0]["steps"][0]["status"] == "running").await;
    let second = fixture.start_deployment("bbb2222").await;
    fixture.wait_until(&second, |it| it["stages"][0]["status"] == "queued").await;
    assert_eq!(fixture.delete("/pipelines/shop").await.status, 200);
    for id in [first, second] {
        let ended = fixture.wait_for_end(&id).await;
        assert_eq!((&ended["status"], &ended["cause"]), (&json!("cancelled"), &json!("pipeline_deleted")));
    }
    fixture.shut_down().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn newest_deployment_that_failed_is_shown_until_a_later_one_succeeds() {
    let fixture = PipelineFixture::start().await;
    fixture
        .create_pipeline(
            "  stages: [{ name: staging }]
  ephemeral_environments: { qa-1: {} }
  steps:
    - { name: One, type: script, params: { run: 'test $BERTH_COMMIT != bad' } }
",
        )
        .await;
    let first = fixture.start_deployment("v1").await;
    fixture.wait_for_end(&first).await;
    let deployed = fixture.fetch("/deployed").await;
    assert!(!deployed.to_string().contains("\"failed\""), "{deployed}");

    let second = fixture.start_deployment("bad").await;
    fixture.wait_for_end(&second).await;
    let (_, third) = fixture.claim("bad").await;
    fixture.wait_for_end(&third).await;
    let deployed = fixture.fetch("/deployed").await;
    let stage = &deployed[0]["stages"][0];
    assert_eq!(
        (&stage["current"]["deploymentId"], &stage["failed"]["deploymentId"]),
        (&json!(first), &json!(second))
    );
    assert_eq!((&stage["failed"]["number"], &stage["failed"]["by"]["name"]), (&json!(2), &json!("ada")));
    assert_eq!(deployed[0]["failed"], stage["failed"]);
    assert_eq!(deployed[0]["environments"][0]["failed"]["deploymentId"], json!(third));
    assert_eq!(fixture.fetch("/pipelines/shop").await["stages"][0]["failed"], stage["failed"]);

    let fourth = fixture.start_deployment("v2").await;
    fixture.wait_for_end(&fourth).await;
    let deployed = fixture.fetch("/deployed").await;
    assert_eq!((&deployed[0]["failed"], &deployed[0]["stages"][0]["failed"]), (&json!(null), &json!(null)));
    fixture.shut_down().await;
}
