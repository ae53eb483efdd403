//! The build runs once for each commit and definition. All deployments share its results.

use serde_json::json;

use super::PipelineFixture;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn build_runs_once_per_commit_and_its_artifacts_are_shared() {
    let fixture = PipelineFixture::start().await;
    let (built, seen) = (fixture.file_path("built"), fixture.file_path("seen"));
    fixture
        .create_pipeline(&format!(
            "  build:
    - name: Build
      type: script
      outputs: [version]
      artifacts: {{ site: {{ path: dist }} }}
      params:
        run: |
          echo \"$BERTH_COMMIT\" >> {built}
          mkdir dist
          echo \"page of $BERTH_COMMIT\" > dist/index.html
          echo version=v1 >> \"$BERTH_OUTPUT\"
  stages: [{{ name: staging }}, {{ name: production }}]
  steps:
    - name: Deploy
      type: script
      needs_artifacts: [site]
      env: {{ VERSION: '${{{{ build.version }}}}' }}
      params: {{ run: 'echo \"$BERTH_STAGE $VERSION $(cat dist/index.html)\" >> {seen}' }}
  ephemeral_environments: {{ qa-1: {{}} }}
"
        ))
        .await;
    let first = fixture.start_deployment("4f2a1c9").await;
    assert_eq!(fixture.wait_for_end(&first).await["status"], "succeeded");
    let (_, second) = fixture.claim("4f2a1c9").await;
    let second = fixture.wait_for_end(&second).await;
    assert_eq!(second["status"], "succeeded", "{second}");
    assert_eq!(second["stages"][0]["reusedFrom"], json!(first));
    assert_eq!(fixture.read_file("built"), "4f2a1c9\n");
    let page = "v1 page of 4f2a1c9";
    assert_eq!(fixture.read_file("seen"), format!("staging {page}\nproduction {page}\nqa-1 {page}\n"));
    let third = fixture.start_deployment("77aa001").await;
    assert_eq!(fixture.wait_for_end(&third).await["status"], "succeeded");
    assert_eq!(fixture.read_file("built"), "4f2a1c9\n77aa001\n");
    fixture.shut_down().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn build_without_running_steps_is_done_at_once() {
    let fixture = PipelineFixture::start().await;
    fixture
        .create_pipeline(
            "  build:
    - { name: Build, type: script, if: \"trigger.kind == 'push'\", params: { run: 'exit 1' } }
  stages: [{ name: staging }]
  steps: [{ name: Deploy, type: dummy }]
",
        )
        .await;
    for _ in 0..2 {
        let ended = fixture.wait_for_end(&fixture.start_deployment("4f2a1c9").await).await;
        assert_eq!(ended["status"], "succeeded", "{ended}");
    }
    fixture.shut_down().await;
}
