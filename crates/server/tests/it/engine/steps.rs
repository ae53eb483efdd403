//! The inputs, outputs, artifacts and logs of steps.

use expect_test::expect;
use serde_json::json;

use super::super::follow::Stream;
use super::super::world::get;
use super::{Harbour, ORG, story};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn step_gets_declared_inputs_and_passes_outputs() {
    let harbour = Harbour::open().await;
    let secret = json!({"name": "DEPLOY_TOKEN", "value": "hunter2-but-longer"});
    assert_eq!(harbour.post("/secrets", &secret).await.status, 201);
    let ledger = harbour.file("ledger");
    harbour
        .pipeline(&format!(
            r#"  ephemeral_environments:
    qa-1:
      vars: {{ url: "https://qa-1.test", replicas: 2 }}
      skip: [skipped]
  stages: []
  steps:
    - name: Make
      type: script
      outputs: [image]
      params:
        run: |
          echo "image=shop:$BERTH_COMMIT" >> "$BERTH_OUTPUT"
          echo "made by $BERTH_STEP in $BERTH_ENVIRONMENT"
    - name: Skipped
      type: script
      params: {{ run: exit 1 }}
    - name: Deploy
      type: script
      env:
        IMAGE: "${{{{ steps.make.image }}}}"
        URL: "${{{{ format('{{0}}/{{1}}', vars.url, vars.replicas) }}}}"
        TOKEN: "${{{{ secrets.DEPLOY_TOKEN }}}}"
      params:
        run: |
          echo "$IMAGE $URL fence $BERTH_FENCE" >> {ledger}
          echo "token is $TOKEN"
          printf '%s' "$TOKEN" | base64
    - name: Never
      type: script
      if: steps.make.image == 'another'
      params: {{ run: exit 1 }}
    - name: Last
      type: dummy
      params: {{ message: "to ${{{{ environment.name }}}}" }}
"#
        ))
        .await;
    let (_, id) = harbour.claim("4f2a1c9").await;
    let ended = harbour.end_of(&id).await;
    expect![[r#"
        succeeded
        qa-1: succeeded
          make succeeded
          deploy succeeded
          never skipped
          last succeeded
    "#]]
    .assert_eq(&story(&ended));
    assert_eq!(ended["stages"][0]["steps"][0]["outputs"], json!({"image": "shop:4f2a1c9"}));
    assert_eq!(harbour.written("ledger"), "shop:4f2a1c9 https://qa-1.test/2 fence 1\n");
    assert_eq!(harbour.log(&id, "make").await, "made by make in qa-1\n");
    let log = harbour.log(&id, "deploy").await;
    assert!(log.starts_with("token is ***\n") && !log.contains("hunter2"), "{log}");
    assert!(!log.contains("aHVudGVyMi1i"), "{log}");
    let text = harbour.see(&format!("/deployments/{id}")).await.to_string();
    assert!(!text.contains("hunter2"), "{text}");
    harbour.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn failed_step_is_retried_and_all_attempts_are_visible() {
    let harbour = Harbour::open().await;
    let count = harbour.file("count");
    harbour
        .pipeline(&format!(
            "  ephemeral_environments: {{ qa-1: {{}} }}
  stages: [{{ name: staging }}]
  steps:
    - name: Flaky
      type: script
      retry: {{ attempts: 3, backoff: 1s }}
      params: {{ run: 'echo x >> {count}; test \"$(wc -l < {count})\" -eq 3' }}
"
        ))
        .await;
    let (_, id) = harbour.claim("4f2a1c9").await;
    let ended = harbour.end_of(&id).await;
    assert_eq!(ended["status"], "succeeded", "{ended}");
    let attempts = ended["stages"][0]["steps"][0]["attempts"].as_array().unwrap().clone();
    let words: Vec<_> = attempts.iter().map(|it| it["status"].as_str().unwrap()).collect();
    assert_eq!(words, ["failed", "failed", "succeeded"]);
    assert_eq!(attempts[0]["exitCode"], 1);
    assert_eq!(attempts[2]["isolation"], "process");
    harbour.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn log_stream_of_a_silent_step_ends_at_once_with_the_step() {
    let harbour = Harbour::open().await;
    let go = harbour.file("go");
    assert!(std::process::Command::new("mkfifo").arg(&go).status().unwrap().success());
    harbour
        .pipeline(&format!(
            "  ephemeral_environments: {{ qa-1: {{}} }}
  stages: []
  steps:
    - {{ name: Quiet, type: script, params: {{ run: 'read _ < {go}' }} }}
"
        ))
        .await;
    let (_, id) = harbour.claim("4f2a1c9").await;
    harbour.until(&id, |it| it["stages"][0]["steps"][0]["status"] == "running").await;
    let log = format!("{ORG}/deployments/{id}/steps/quiet/logs");
    let mut stream = Stream::open(&harbour.world, get(&log).by(harbour.ada())).await;
    assert_eq!(stream.block().await.unwrap(), ": following\nid: 0");
    std::fs::write(&go, "\n").unwrap();
    // The end arrives before any heartbeat, so the stream was notified and did not have to poll.
    let end = "id: 0\nevent: end\ndata: {\"bytes\":0,\"lines\":0}";
    assert_eq!(stream.block().await.unwrap(), end);
    harbour.end_of(&id).await;
    let mut after = Stream::open(&harbour.world, get(&log).by(harbour.ada())).await;
    assert_eq!(after.block().await.unwrap(), ": following\nid: 0");
    assert_eq!(after.block().await.unwrap(), end);
    harbour.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn value_extracted_from_a_secret_is_masked() {
    let harbour = Harbour::open().await;
    let value = r#"{"user": "shop", "password": "correct-horse"}"#;
    assert_eq!(harbour.post("/secrets", &json!({"name": "DB", "value": value})).await.status, 201);
    harbour
        .pipeline(
            "  stages: [{ name: staging }]
  steps:
    - name: Deploy
      type: script
      env: { PASSWORD: '${{ fromJSON(secrets.DB).password }}' }
      params: { run: 'echo \"with $PASSWORD\"' }
",
        )
        .await;
    let id = harbour.start("4f2a1c9").await;
    assert_eq!(harbour.end_of(&id).await["status"], "succeeded");
    assert_eq!(harbour.log(&id, "deploy").await, "with ***\n");
    harbour.close().await;
}
