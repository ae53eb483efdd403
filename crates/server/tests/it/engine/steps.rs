//! The inputs, outputs, artifacts and logs of steps.

use expect_test::expect;
use serde_json::json;

use super::super::event_streams::EventStream;
use super::super::world::get;
use super::{ORG, PipelineFixture, format_outcome};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn step_gets_declared_inputs_and_passes_outputs() {
    let fixture = PipelineFixture::start().await;
    let secret = json!({"name": "DEPLOY_TOKEN", "value": "hunter2-but-longer"});
    assert_eq!(fixture.post("/secrets", &secret).await.status, 201);
    let ledger = fixture.file_path("ledger");
    fixture
        .create_pipeline(&format!(
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
    let (_, id) = fixture.claim("4f2a1c9").await;
    let ended = fixture.wait_for_end(&id).await;
    expect![[r#"
        succeeded
        qa-1: succeeded
          make succeeded
          deploy succeeded
          never skipped
          last succeeded
    "#]]
    .assert_eq(&format_outcome(&ended));
    assert_eq!(ended["stages"][0]["steps"][0]["outputs"], json!({"image": "shop:4f2a1c9"}));
    assert_eq!(fixture.read_file("ledger"), "shop:4f2a1c9 https://qa-1.test/2 fence 1\n");
    assert_eq!(fixture.read_step_log(&id, "make").await, "made by make in qa-1\n");
    let log = fixture.read_step_log(&id, "deploy").await;
    assert!(log.starts_with("token is ***\n") && !log.contains("hunter2"), "{log}");
    assert!(!log.contains("aHVudGVyMi1i"), "{log}");
    let text = fixture.fetch(&format!("/deployments/{id}")).await.to_string();
    assert!(!text.contains("hunter2"), "{text}");
    fixture.shut_down().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn failed_step_is_retried_and_all_attempts_are_visible() {
    let fixture = PipelineFixture::start().await;
    let count = fixture.file_path("count");
    fixture
        .create_pipeline(&format!(
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
    let (_, id) = fixture.claim("4f2a1c9").await;
    let ended = fixture.wait_for_end(&id).await;
    assert_eq!(ended["status"], "succeeded", "{ended}");
    let attempts = ended["stages"][0]["steps"][0]["attempts"].as_array().unwrap().clone();
    let words: Vec<_> = attempts.iter().map(|it| it["status"].as_str().unwrap()).collect();
    assert_eq!(words, ["failed", "failed", "succeeded"]);
    assert_eq!(attempts[0]["exitCode"], 1);
    assert_eq!(attempts[2]["isolation"], "process");
    fixture.shut_down().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn log_stream_of_a_silent_step_ends_at_once_with_the_step() {
    let fixture = PipelineFixture::start().await;
    let go = fixture.file_path("go");
    assert!(std::process::Command::new("mkfifo").arg(&go).status().unwrap().success());
    fixture
        .create_pipeline(&format!(
            "  ephemeral_environments: {{ qa-1: {{}} }}
  stages: []
  steps:
    - {{ name: Quiet, type: script, params: {{ run: 'read _ < {go}' }} }}
"
        ))
        .await;
    let (_, id) = fixture.claim("4f2a1c9").await;
    fixture.wait_until(&id, |it| it["stages"][0]["steps"][0]["status"] == "running").await;
    let log = format!("{ORG}/deployments/{id}/steps/quiet/logs");
    let mut stream = EventStream::open(&fixture.world, get(&log).with_account(fixture.ada())).await;
    assert_eq!(stream.next_block().await.unwrap(), ": following\nid: 0");
    std::fs::write(&go, "\n").unwrap();
    // The end arrives before any heartbeat, so the stream was notified and did not have to poll.
    let end = "id: 0\nevent: end\ndata: {\"bytes\":0,\"lines\":0}";
    assert_eq!(stream.next_block().await.unwrap(), end);
    fixture.wait_for_end(&id).await;
    let mut after = EventStream::open(&fixture.world, get(&log).with_account(fixture.ada())).await;
    assert_eq!(after.next_block().await.unwrap(), ": following\nid: 0");
    assert_eq!(after.next_block().await.unwrap(), end);
    fixture.shut_down().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn value_extracted_from_a_secret_is_masked() {
    let fixture = PipelineFixture::start().await;
    let value = r#"{"user": "shop", "password": "correct-horse"}"#;
    assert_eq!(fixture.post("/secrets", &json!({"name": "DB", "value": value})).await.status, 201);
    fixture
        .create_pipeline(
            "  stages: [{ name: staging }]
  steps:
    - name: Deploy
      type: script
      env: { PASSWORD: '${{ fromJSON(secrets.DB).password }}' }
      params: { run: 'echo \"with $PASSWORD\"' }
",
        )
        .await;
    let id = fixture.start_deployment("4f2a1c9").await;
    assert_eq!(fixture.wait_for_end(&id).await["status"], "succeeded");
    assert_eq!(fixture.read_step_log(&id, "deploy").await, "with ***\n");
    fixture.shut_down().await;
}
