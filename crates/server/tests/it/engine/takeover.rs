//! A takeover stops the old steps before new ones start. All steps write to a ledger, which shows their order.

use serde_json::json;

use super::{PipelineFixture, expect_data};

const ENV: &str = "/pipelines/shop/ephemeral-environments/qa-1";

/// The step writes its fence to the ledger until it is stopped, and once more on SIGTERM.
const WRITER: &str = "  tracks: main
  stages: [{ name: staging }]
  ephemeral_environments: { qa-1: { on_release: deploy_tracked } }
  steps:
    - name: Deploy
      type: script
      params:
        run: |
          echo 'on my way'
          trap 'echo \"late $BERTH_FENCE\" | tee -a LEDGER; exit 0' TERM
          while ! test -e GATE$BERTH_FENCE; do echo \"$BERTH_FENCE\" >> LEDGER; sleep 0.01; done
";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn takeover_stops_old_work_before_new_work_writes() {
    let fixture = PipelineFixture::start().await;
    let (ledger, gate) = (fixture.file_path("ledger"), fixture.file_path("gate"));
    fixture.create_pipeline(&WRITER.replace("LEDGER", &ledger).replace("GATE", &gate)).await;
    let (session, old) = fixture.claim("aaa1111").await;
    fixture.wait_until(&old, |it| it["stages"][0]["steps"][0]["status"] == "running").await;
    while fixture.read_file("ledger").is_empty()
        || !fixture.read_step_log(&old, "deploy").await.contains("on my way")
    {
        tokio::time::sleep(crate::world::POLL_EVERY).await;
    }
    let taken = json!({"commitId": "bbb2222", "reason": "urgent"});
    let taken = expect_data(&fixture.post(&format!("{ENV}/force-claim"), &taken).await, 201);
    let new = taken["deploymentId"].as_str().unwrap();
    let ended = fixture.wait_for_end(&old).await;
    assert_eq!((&ended["status"], &ended["cause"]), (&json!("cancelled"), &json!("session_ended")));
    std::fs::write(format!("{gate}2"), "").unwrap();
    assert_eq!(fixture.wait_for_end(new).await["status"], "succeeded");
    let written = fixture.read_file("ledger");
    let fences: Vec<&str> = written.lines().map(|line| line.trim_start_matches("late ")).collect();
    assert!(fences.is_sorted(), "an old step wrote after a new one had started: {written}");
    assert!(written.contains("late 1"), "{written}");
    let lost = fixture.fetch(&format!("{ENV}/sessions/{session}")).await;
    assert_eq!(lost["overridden"], true);
    let log = fixture.read_step_log(&old, "deploy").await;
    let last = log.lines().last().unwrap_or_default();
    assert!(log.contains("on my way") && last.contains("stopped: taken over by ada"), "{log}");
    // Output that was written after the takeover is stored in a separate stream of the log.
    let late = fixture.fetch(&format!("/deployments/{old}/steps/deploy/logs?stream=after_fence")).await;
    assert!(!log.contains("late 1") && late.to_string().contains("late 1"), "{log} {late}");
    fixture.shut_down().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn release_resets_the_environment_and_the_next_holder_waits() {
    let fixture = PipelineFixture::start().await;
    let (ledger, gate) = (fixture.file_path("ledger"), fixture.file_path("gate"));
    fixture
        .create_pipeline(
            &WRITER.replace("LEDGER", &ledger).replace("GATE$BERTH_FENCE", &format!("{gate}$BERTH_FENCE")),
        )
        .await;
    // The reset will deploy the last commit that passed all stages, which is this one. A deployment through stages has
    // no fence.
    std::fs::write(&gate, "").unwrap();
    assert_eq!(fixture.wait_for_end(&fixture.start_deployment("ccc3333").await).await["status"], "succeeded");
    std::fs::write(format!("{gate}1"), "").unwrap();
    let (session, first) = fixture.claim("aaa1111").await;
    assert_eq!(fixture.wait_for_end(&first).await["status"], "succeeded");
    assert_eq!(fixture.delete(&format!("{ENV}/sessions/{session}")).await.status, 200);
    assert_eq!(fixture.fetch(ENV).await["state"], "resetting");
    let (_, next) = fixture.claim("ddd4444").await;
    let waits = fixture.fetch(&format!("/deployments/{next}")).await;
    assert_eq!(waits["blockedBy"][0]["kind"], "environment_resetting", "{waits}");
    std::fs::write(format!("{gate}2"), "").unwrap();
    std::fs::write(format!("{gate}3"), "").unwrap();
    assert_eq!(fixture.wait_for_end(&next).await["status"], "succeeded");
    let environment = fixture.fetch(ENV).await;
    assert_eq!(environment["deployedCommitId"], "ddd4444", "{environment}");
    fixture.shut_down().await;
}
