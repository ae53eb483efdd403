//! Deployments through stages: their order, one at a time per stage, and how they are stopped, resumed, cancelled and
//! retried.

use expect_test::expect;
use serde_json::json;

use super::{PipelineFixture, expect_data, format_outcome};

const TWO_STAGES: &str = "  stages:
    - name: staging
      vars: { place: staging }
    - name: production
      vars: { place: production }
  steps:
    - name: Deploy
      type: script
      env: { PLACE: '${{ vars.place }}', COMMIT: '${{ trigger.commit }}' }
      params: { run: 'echo \"$COMMIT to $PLACE\" >> LEDGER' }
";

/// A step that waits for a file. Tests replace `GATE` by its path, and create it.
const GATED: &str = "  stages:
    - name: staging
  steps:
    - name: Deploy
      type: script
      params: { run: 'echo started >> STARTED; while ! test -e GATE; do sleep 0.02; done' }
";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stages_run_in_order_each_with_its_own_vars() {
    let fixture = PipelineFixture::start().await;
    fixture.create_pipeline(&TWO_STAGES.replace("LEDGER", &fixture.file_path("ledger"))).await;
    let id = fixture.start_deployment("4f2a1c9").await;
    let ended = fixture.wait_for_end(&id).await;
    expect![[r#"
        succeeded
        staging: succeeded
          deploy succeeded
        production: succeeded
          deploy succeeded
    "#]]
    .assert_eq(&format_outcome(&ended));
    assert_eq!(fixture.read_file("ledger"), "4f2a1c9 to staging\n4f2a1c9 to production\n");
    assert_eq!(ended["number"], 1);
    let list = fixture.fetch("/pipelines/shop/deployments").await;
    assert_eq!(list[0]["id"], json!(id));
    assert_eq!(list[0]["stages"][1]["status"], "succeeded", "{list}");
    fixture.shut_down().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stage_has_one_deployment_and_the_newest_waiting_one_supersedes() {
    let fixture = PipelineFixture::start().await;
    let (started, gate) = (fixture.file_path("started"), fixture.file_path("gate"));
    fixture.create_pipeline(&GATED.replace("STARTED", &started).replace("GATE", &gate)).await;
    let first = fixture.start_deployment("aaa1111").await;
    fixture.wait_until(&first, |it| it["stages"][0]["status"] == "running").await;
    let second = fixture.start_deployment("bbb2222").await;
    let waits = fixture.wait_until(&second, |it| it["stages"][0]["status"] == "queued").await;
    assert_eq!(waits["blockedBy"][0]["kind"], "earlier_stage", "{waits}");
    let third = fixture.start_deployment("ccc3333").await;
    let overtaken = fixture.wait_for_end(&second).await;
    assert_eq!((&overtaken["status"], &overtaken["supersededBy"]), (&json!("superseded"), &json!(third)));
    std::fs::write(&gate, "").unwrap();
    assert_eq!(fixture.wait_for_end(&first).await["status"], "succeeded");
    assert_eq!(fixture.wait_for_end(&third).await["status"], "succeeded");
    fixture.shut_down().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stopped_pipeline_finishes_running_stages_and_starts_none() {
    let fixture = PipelineFixture::start().await;
    let (started, gate) = (fixture.file_path("started"), fixture.file_path("gate"));
    let body = GATED.replace("STARTED", &started).replace("GATE", &gate);
    let body = format!("{body}    - name: After\n      type: dummy\n");
    fixture.create_pipeline(&body).await;
    let first = fixture.start_deployment("aaa1111").await;
    fixture.wait_until(&first, |it| it["stages"][0]["steps"][0]["status"] == "running").await;
    assert_eq!(fixture.post("/pipelines/shop/stop", &json!({})).await.status, 200);
    let (second, third) =
        (fixture.start_deployment("bbb2222").await, fixture.start_deployment("ccc3333").await);
    std::fs::write(&gate, "").unwrap();
    let waits = fixture.wait_until(&first, |it| it["stages"][0]["steps"][0]["status"] == "succeeded").await;
    assert_eq!(waits["stages"][0]["steps"][1]["status"], "ready", "{waits}");
    assert_eq!(waits["blockedBy"][0]["kind"], "pipeline_stopped", "{waits}");
    let queued = fixture.fetch(&format!("/deployments/{third}")).await;
    assert_eq!(
        (&queued["status"], &queued["blockedBy"][0]["kind"]),
        (&json!("queued"), &json!("pipeline_stopped"))
    );
    assert_eq!(fixture.post("/pipelines/shop/resume", &json!({})).await.status, 200);
    assert_eq!(fixture.wait_for_end(&first).await["status"], "succeeded");
    assert_eq!(fixture.wait_for_end(&third).await["status"], "succeeded");
    assert_eq!(fixture.wait_for_end(&second).await["status"], "superseded");
    fixture.shut_down().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn failed_stage_is_retried_from_the_failure_or_the_start() {
    let fixture = PipelineFixture::start().await;
    let (ledger, fixed) = (fixture.file_path("ledger"), fixture.file_path("fixed"));
    fixture
        .create_pipeline(&format!(
            "  stages: [{{ name: staging }}, {{ name: production }}]
  steps:
    - name: One
      type: script
      params: {{ run: 'echo one >> {ledger}' }}
    - name: Two
      type: script
      params: {{ run: 'echo two >> {ledger}; test -e {fixed}' }}
    - name: Three
      type: script
      params: {{ run: 'echo three >> {ledger}' }}
"
        ))
        .await;
    let id = fixture.start_deployment("4f2a1c9").await;
    expect![[r#"
        failed (step_failed)
        staging: failed (step_failed)
          one succeeded
          two failed (step_failed)
          three skipped
        production: skipped
          one skipped
          two skipped
          three skipped
    "#]]
    .assert_eq(&format_outcome(&fixture.wait_for_end(&id).await));
    let retry = format!("/deployments/{id}/stages/staging/retry");
    fixture
        .post(&format!("/deployments/{id}/stages/production/retry"), &json!({}))
        .await
        .assert_problem(409, "invalid_state");
    fixture
        .post(&format!("/deployments/{id}/stages/nowhere/retry"), &json!({}))
        .await
        .assert_problem(404, "not_found");
    fixture.post(&retry, &json!({"from": "middle"})).await.assert_problem(400, "invalid_request");

    assert_eq!(fixture.post(&retry, &json!({})).await.status, 200);
    let again = fixture.wait_for_end(&id).await;
    assert_eq!(again["status"], "failed");
    assert_eq!(fixture.read_file("ledger"), "one\ntwo\ntwo\n");
    std::fs::write(&fixed, "").unwrap();
    assert_eq!(fixture.post(&retry, &json!({"from": "start"})).await.status, 200);
    let ended = fixture.wait_for_end(&id).await;
    assert_eq!(ended["status"], "succeeded", "{ended}");
    assert_eq!(fixture.read_file("ledger"), "one\ntwo\ntwo\none\ntwo\nthree\none\ntwo\nthree\n");
    assert_eq!(ended["stages"][0]["tries"], 3);
    assert_eq!(ended["stages"][0]["steps"][1]["attempts"].as_array().unwrap().len(), 3);
    fixture.post(&retry, &json!({})).await.assert_problem(409, "invalid_state");
    fixture.shut_down().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cancelled_stage_stops_running_steps_and_skips_the_rest() {
    let fixture = PipelineFixture::start().await;
    let (started, gate) = (fixture.file_path("started"), fixture.file_path("never"));
    let body = GATED.replace("STARTED", &started).replace("GATE", &gate);
    fixture
        .create_pipeline(
            &body.replace("    - name: staging\n", "    - name: staging\n    - name: production\n"),
        )
        .await;
    let id = fixture.start_deployment("aaa1111").await;
    fixture.wait_until(&id, |it| it["stages"][0]["steps"][0]["status"] == "running").await;
    let cancel = format!("/deployments/{id}/stages/staging/cancel");
    let told = expect_data(&fixture.post(&cancel, &json!({"reason": "wrong one"})).await, 200);
    assert!(matches!(told["status"].as_str().unwrap(), "cancelling" | "cancelled"), "{told}");
    expect![[r#"
        cancelled (requested)
        staging: cancelled (requested)
          deploy cancelled
        production: skipped
          deploy skipped
    "#]]
    .assert_eq(&format_outcome(&fixture.wait_for_end(&id).await));
    let log = fixture.read_step_log(&id, "staging/deploy").await;
    assert!(log.contains("stopped: cancelled by ada"), "{log}");
    assert_eq!(fixture.post(&cancel, &json!({})).await.status, 200);
    fixture.shut_down().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stage_does_not_start_without_its_approvals() {
    let fixture = PipelineFixture::start().await;
    let ledger = fixture.file_path("ledger");
    let body = TWO_STAGES.replace("LEDGER", &ledger);
    let gated = "      vars: { place: production }\n      requires: { approvals: 2 }\n";
    fixture.create_pipeline(&body.replace("      vars: { place: production }\n", gated)).await;
    let id = fixture.start_deployment("4f2a1c9").await;
    let waits = fixture.wait_until(&id, |it| it["stages"][1]["status"] == "waiting").await;
    assert_eq!(waits["blockedBy"][0]["kind"], "approval", "{waits}");
    // The background jobs do not start the stage either.
    berth_server::jobs::tick(fixture.world.app.jobs()).await.unwrap();
    assert_eq!(fixture.read_file("ledger"), "4f2a1c9 to staging\n");
    let cancelled = fixture.post(&format!("/deployments/{id}/cancel"), &json!({})).await;
    assert_eq!(cancelled.body["data"]["status"], "cancelled", "{}", cancelled.text);
    fixture.shut_down().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn older_deployment_is_not_retried_over_a_newer_one() {
    let fixture = PipelineFixture::start().await;
    let fixed = fixture.file_path("fixed");
    let run = format!("test -e {fixed}");
    fixture
        .create_pipeline(&format!(
            "  stages: [{{ name: staging }}]\n  steps: [{{ name: Deploy, type: script, params: {{ run: '{run}' }} }}]\n"
        ))
        .await;
    let old = fixture.start_deployment("aaa1111").await;
    assert_eq!(fixture.wait_for_end(&old).await["status"], "failed");
    std::fs::write(&fixed, "").unwrap();
    assert_eq!(fixture.wait_for_end(&fixture.start_deployment("bbb2222").await).await["status"], "succeeded");
    let retried = fixture.post(&format!("/deployments/{old}/stages/staging/retry"), &json!({})).await;
    retried.assert_problem(409, "invalid_state");
    assert!(retried.text.contains("#2"), "{}", retried.text);
    fixture.shut_down().await;
}
