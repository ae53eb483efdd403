//! A takeover stops the old steps before new ones start. All steps write to a ledger, which shows their order.

use serde_json::json;

use super::{Harbour, data};

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
    let harbour = Harbour::open().await;
    let (ledger, gate) = (harbour.file("ledger"), harbour.file("gate"));
    harbour.pipeline(&WRITER.replace("LEDGER", &ledger).replace("GATE", &gate)).await;
    let (session, old) = harbour.claim("aaa1111").await;
    harbour.until(&old, |it| it["stages"][0]["steps"][0]["status"] == "running").await;
    while harbour.written("ledger").is_empty() || !harbour.log(&old, "deploy").await.contains("on my way") {
        tokio::time::sleep(crate::world::POLL_EVERY).await;
    }
    let taken = json!({"commitId": "bbb2222", "reason": "urgent"});
    let taken = data(&harbour.post(&format!("{ENV}/force-claim"), &taken).await, 201);
    let new = taken["deploymentId"].as_str().unwrap();
    let ended = harbour.end_of(&old).await;
    assert_eq!((&ended["status"], &ended["cause"]), (&json!("cancelled"), &json!("session_ended")));
    std::fs::write(format!("{gate}2"), "").unwrap();
    assert_eq!(harbour.end_of(new).await["status"], "succeeded");
    let written = harbour.written("ledger");
    let fences: Vec<&str> = written.lines().map(|line| line.trim_start_matches("late ")).collect();
    assert!(fences.is_sorted(), "somebody wrote after the next one had begun: {written}");
    assert!(written.contains("late 1"), "{written}");
    let lost = harbour.see(&format!("{ENV}/sessions/{session}")).await;
    assert_eq!(lost["overridden"], true);
    let log = harbour.log(&old, "deploy").await;
    let last = log.lines().last().unwrap_or_default();
    assert!(log.contains("on my way") && last.contains("stopped: taken over by ada"), "{log}");
    // Output that was written after the takeover is stored in a separate stream of the log.
    let late = harbour.see(&format!("/deployments/{old}/steps/deploy/logs?stream=after_fence")).await;
    assert!(!log.contains("late 1") && late.to_string().contains("late 1"), "{log} {late}");
    harbour.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn release_resets_the_environment_and_the_next_holder_waits() {
    let harbour = Harbour::open().await;
    let (ledger, gate) = (harbour.file("ledger"), harbour.file("gate"));
    harbour
        .pipeline(
            &WRITER.replace("LEDGER", &ledger).replace("GATE$BERTH_FENCE", &format!("{gate}$BERTH_FENCE")),
        )
        .await;
    // The reset will deploy the last commit that passed all stages, which is this one. A deployment through stages has
    // no fence.
    std::fs::write(&gate, "").unwrap();
    assert_eq!(harbour.end_of(&harbour.start("ccc3333").await).await["status"], "succeeded");
    std::fs::write(format!("{gate}1"), "").unwrap();
    let (session, first) = harbour.claim("aaa1111").await;
    assert_eq!(harbour.end_of(&first).await["status"], "succeeded");
    assert_eq!(harbour.delete(&format!("{ENV}/sessions/{session}")).await.status, 200);
    assert_eq!(harbour.see(ENV).await["state"], "resetting");
    let (_, next) = harbour.claim("ddd4444").await;
    let waits = harbour.see(&format!("/deployments/{next}")).await;
    assert_eq!(waits["blockedBy"][0]["kind"], "environment_resetting", "{waits}");
    std::fs::write(format!("{gate}2"), "").unwrap();
    std::fs::write(format!("{gate}3"), "").unwrap();
    assert_eq!(harbour.end_of(&next).await["status"], "succeeded");
    let environment = harbour.see(ENV).await;
    assert_eq!(environment["deployedCommitId"], "ddd4444", "{environment}");
    harbour.close().await;
}
