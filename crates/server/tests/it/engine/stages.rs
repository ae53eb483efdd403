//! Deployments through stages: their order, one at a time per stage, and how they are stopped, resumed, cancelled and
//! retried.

use expect_test::expect;
use serde_json::json;

use super::{Harbour, data, story};

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
    let harbour = Harbour::open().await;
    harbour.pipeline(&TWO_STAGES.replace("LEDGER", &harbour.file("ledger"))).await;
    let id = harbour.start("4f2a1c9").await;
    let ended = harbour.end_of(&id).await;
    expect![[r#"
        succeeded
        staging: succeeded
          deploy succeeded
        production: succeeded
          deploy succeeded
    "#]]
    .assert_eq(&story(&ended));
    assert_eq!(harbour.written("ledger"), "4f2a1c9 to staging\n4f2a1c9 to production\n");
    assert_eq!(ended["number"], 1);
    let list = harbour.see("/pipelines/shop/deployments").await;
    assert_eq!(list[0]["id"], json!(id));
    assert_eq!(list[0]["stages"][1]["status"], "succeeded", "{list}");
    harbour.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stage_has_one_deployment_and_the_newest_waiting_one_supersedes() {
    let harbour = Harbour::open().await;
    let (started, gate) = (harbour.file("started"), harbour.file("gate"));
    harbour.pipeline(&GATED.replace("STARTED", &started).replace("GATE", &gate)).await;
    let first = harbour.start("aaa1111").await;
    harbour.until(&first, |it| it["stages"][0]["status"] == "running").await;
    let second = harbour.start("bbb2222").await;
    let waits = harbour.until(&second, |it| it["stages"][0]["status"] == "queued").await;
    assert_eq!(waits["blockedBy"][0]["kind"], "earlier_stage", "{waits}");
    let third = harbour.start("ccc3333").await;
    let overtaken = harbour.end_of(&second).await;
    assert_eq!((&overtaken["status"], &overtaken["supersededBy"]), (&json!("superseded"), &json!(third)));
    std::fs::write(&gate, "").unwrap();
    assert_eq!(harbour.end_of(&first).await["status"], "succeeded");
    assert_eq!(harbour.end_of(&third).await["status"], "succeeded");
    harbour.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stopped_pipeline_finishes_running_stages_and_starts_none() {
    let harbour = Harbour::open().await;
    let (started, gate) = (harbour.file("started"), harbour.file("gate"));
    let body = GATED.replace("STARTED", &started).replace("GATE", &gate);
    let body = format!("{body}    - name: After\n      type: dummy\n");
    harbour.pipeline(&body).await;
    let first = harbour.start("aaa1111").await;
    harbour.until(&first, |it| it["stages"][0]["steps"][0]["status"] == "running").await;
    assert_eq!(harbour.post("/pipelines/shop/stop", &json!({})).await.status, 200);
    let (second, third) = (harbour.start("bbb2222").await, harbour.start("ccc3333").await);
    std::fs::write(&gate, "").unwrap();
    let waits = harbour.until(&first, |it| it["stages"][0]["steps"][0]["status"] == "succeeded").await;
    assert_eq!(waits["stages"][0]["steps"][1]["status"], "ready", "{waits}");
    assert_eq!(waits["blockedBy"][0]["kind"], "pipeline_stopped", "{waits}");
    let queued = harbour.see(&format!("/deployments/{third}")).await;
    assert_eq!(
        (&queued["status"], &queued["blockedBy"][0]["kind"]),
        (&json!("queued"), &json!("pipeline_stopped"))
    );
    assert_eq!(harbour.post("/pipelines/shop/resume", &json!({})).await.status, 200);
    assert_eq!(harbour.end_of(&first).await["status"], "succeeded");
    assert_eq!(harbour.end_of(&third).await["status"], "succeeded");
    assert_eq!(harbour.end_of(&second).await["status"], "superseded");
    harbour.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn failed_stage_is_retried_from_the_failure_or_the_start() {
    let harbour = Harbour::open().await;
    let (ledger, mended) = (harbour.file("ledger"), harbour.file("mended"));
    harbour
        .pipeline(&format!(
            "  stages: [{{ name: staging }}, {{ name: production }}]
  steps:
    - name: One
      type: script
      params: {{ run: 'echo one >> {ledger}' }}
    - name: Two
      type: script
      params: {{ run: 'echo two >> {ledger}; test -e {mended}' }}
    - name: Three
      type: script
      params: {{ run: 'echo three >> {ledger}' }}
"
        ))
        .await;
    let id = harbour.start("4f2a1c9").await;
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
    .assert_eq(&story(&harbour.end_of(&id).await));
    let retry = format!("/deployments/{id}/stages/staging/retry");
    harbour
        .post(&format!("/deployments/{id}/stages/production/retry"), &json!({}))
        .await
        .is(409, "invalid_state");
    harbour.post(&format!("/deployments/{id}/stages/nowhere/retry"), &json!({})).await.is(404, "not_found");
    harbour.post(&retry, &json!({"from": "middle"})).await.is(400, "invalid_request");

    assert_eq!(harbour.post(&retry, &json!({})).await.status, 200);
    let again = harbour.end_of(&id).await;
    assert_eq!(again["status"], "failed");
    assert_eq!(harbour.written("ledger"), "one\ntwo\ntwo\n");
    std::fs::write(&mended, "").unwrap();
    assert_eq!(harbour.post(&retry, &json!({"from": "start"})).await.status, 200);
    let ended = harbour.end_of(&id).await;
    assert_eq!(ended["status"], "succeeded", "{ended}");
    assert_eq!(harbour.written("ledger"), "one\ntwo\ntwo\none\ntwo\nthree\none\ntwo\nthree\n");
    assert_eq!(ended["stages"][0]["tries"], 3);
    assert_eq!(ended["stages"][0]["steps"][1]["attempts"].as_array().unwrap().len(), 3);
    harbour.post(&retry, &json!({})).await.is(409, "invalid_state");
    harbour.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cancelled_stage_stops_running_steps_and_skips_the_rest() {
    let harbour = Harbour::open().await;
    let (started, gate) = (harbour.file("started"), harbour.file("never"));
    let body = GATED.replace("STARTED", &started).replace("GATE", &gate);
    harbour
        .pipeline(&body.replace("    - name: staging\n", "    - name: staging\n    - name: production\n"))
        .await;
    let id = harbour.start("aaa1111").await;
    harbour.until(&id, |it| it["stages"][0]["steps"][0]["status"] == "running").await;
    let cancel = format!("/deployments/{id}/stages/staging/cancel");
    let told = data(&harbour.post(&cancel, &json!({"reason": "wrong one"})).await, 200);
    assert!(matches!(told["status"].as_str().unwrap(), "cancelling" | "cancelled"), "{told}");
    expect![[r#"
        cancelled (requested)
        staging: cancelled (requested)
          deploy cancelled
        production: skipped
          deploy skipped
    "#]]
    .assert_eq(&story(&harbour.end_of(&id).await));
    let log = harbour.log(&id, "staging/deploy").await;
    assert!(log.contains("stopped: cancelled by ada"), "{log}");
    assert_eq!(harbour.post(&cancel, &json!({})).await.status, 200);
    harbour.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stage_does_not_start_without_its_approvals() {
    let harbour = Harbour::open().await;
    let ledger = harbour.file("ledger");
    let body = TWO_STAGES.replace("LEDGER", &ledger);
    let gated = "      vars: { place: production }\n      requires: { approvals: 2 }\n";
    harbour.pipeline(&body.replace("      vars: { place: production }\n", gated)).await;
    let id = harbour.start("4f2a1c9").await;
    let waits = harbour.until(&id, |it| it["stages"][1]["status"] == "waiting").await;
    assert_eq!(waits["blockedBy"][0]["kind"], "approval", "{waits}");
    // The background jobs do not start the stage either.
    berth_server::jobs::tick(harbour.world.app.jobs()).await.unwrap();
    assert_eq!(harbour.written("ledger"), "4f2a1c9 to staging\n");
    let cancelled = harbour.post(&format!("/deployments/{id}/cancel"), &json!({})).await;
    assert_eq!(cancelled.body["data"]["status"], "cancelled", "{}", cancelled.text);
    harbour.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn older_deployment_is_not_retried_over_a_newer_one() {
    let harbour = Harbour::open().await;
    let mended = harbour.file("mended");
    let run = format!("test -e {mended}");
    harbour
        .pipeline(&format!(
            "  stages: [{{ name: staging }}]\n  steps: [{{ name: Deploy, type: script, params: {{ run: '{run}' }} }}]\n"
        ))
        .await;
    let old = harbour.start("aaa1111").await;
    assert_eq!(harbour.end_of(&old).await["status"], "failed");
    std::fs::write(&mended, "").unwrap();
    assert_eq!(harbour.end_of(&harbour.start("bbb2222").await).await["status"], "succeeded");
    let retried = harbour.post(&format!("/deployments/{old}/stages/staging/retry"), &json!({})).await;
    retried.is(409, "invalid_state");
    assert!(retried.text.contains("#2"), "{}", retried.text);
    harbour.close().await;
}
