//! The build runs once for each commit and definition. All deployments share its results.

use serde_json::json;

use super::Harbour;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn build_runs_once_per_commit_and_its_artifacts_are_shared() {
    let harbour = Harbour::open().await;
    let (built, seen) = (harbour.file("built"), harbour.file("seen"));
    harbour
        .pipeline(&format!(
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
    let first = harbour.start("4f2a1c9").await;
    assert_eq!(harbour.end_of(&first).await["status"], "succeeded");
    let (_, second) = harbour.claim("4f2a1c9").await;
    let second = harbour.end_of(&second).await;
    assert_eq!(second["status"], "succeeded", "{second}");
    assert_eq!(second["stages"][0]["reusedFrom"], json!(first));
    assert_eq!(harbour.written("built"), "4f2a1c9\n");
    let page = "v1 page of 4f2a1c9";
    assert_eq!(harbour.written("seen"), format!("staging {page}\nproduction {page}\nqa-1 {page}\n"));
    let third = harbour.start("77aa001").await;
    assert_eq!(harbour.end_of(&third).await["status"], "succeeded");
    assert_eq!(harbour.written("built"), "4f2a1c9\n77aa001\n");
    harbour.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn build_without_running_steps_is_done_at_once() {
    let harbour = Harbour::open().await;
    harbour
        .pipeline(
            "  build:
    - { name: Build, type: script, if: \"trigger.kind == 'push'\", params: { run: 'exit 1' } }
  stages: [{ name: staging }]
  steps: [{ name: Deploy, type: dummy }]
",
        )
        .await;
    for _ in 0..2 {
        let ended = harbour.end_of(&harbour.start("4f2a1c9").await).await;
        assert_eq!(ended["status"], "succeeded", "{ended}");
    }
    harbour.close().await;
}
