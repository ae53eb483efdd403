//! Rollback of a stage, on request or automatic. After a rollback, promotion into the stage is paused until the
//! pipeline is resumed.

use std::time::{Duration, Instant};

use expect_test::expect;
use serde_json::{Value, json};

use super::{ORG, PipelineFixture, expect_data, format_outcome};
use crate::world::{TestResponse, get};

/// A pipeline whose step writes the commit and the stage to a ledger. A commit `slow…` first waits for a file, a commit
/// that contains `bad` fails, and a commit `down…` fails and also makes all later steps fail.
fn shop_definition(fixture: &PipelineFixture, stages: &str) -> String {
    let (ledger, gate, down) =
        (fixture.file_path("ledger"), fixture.file_path("gate"), fixture.file_path("down"));
    format!(
        "  stages:
{stages}  ephemeral_environments: {{ qa-1: {{}} }}
  steps:
    - name: Deploy
      type: script
      params:
        run: |
          case \"$BERTH_COMMIT\" in
            slow*) while ! test -e {gate}; do sleep 0.02; done;;
          esac
          case \"$BERTH_COMMIT\" in
            *bad*) exit 1;;
            down*) touch {down}; exit 1;;
          esac
          test ! -e {down}
          echo \"$BERTH_COMMIT to $BERTH_STAGE\" >> {ledger}
"
    )
}

const ONE_STAGE: &str = "    - name: production\n";
const AUTOMATIC_ROLLBACK: &str = "    - name: production\n      on_failure: rollback\n";

impl PipelineFixture {
    pub(super) async fn deploy_successfully(&self, commit: &str) -> String {
        let id = self.start_deployment(commit).await;
        let ended = self.wait_for_end(&id).await;
        assert_eq!(ended["status"], "succeeded", "{ended}");
        id
    }

    pub(super) async fn roll_back(&self, id: &str, body: &Value) -> TestResponse {
        self.post(&format!("/deployments/{id}/stages/production/rollback"), body).await
    }

    /// The stage `production` of the pipeline.
    async fn production_stage(&self) -> Value {
        let pipeline = self.fetch("/pipelines/shop").await;
        let stages = pipeline["stages"].as_array().unwrap();
        stages.iter().find(|it| it["name"] == "production").unwrap().clone()
    }

    async fn event_kinds(&self) -> Vec<String> {
        self.world.event_kinds().await
    }
}

pub(super) fn id(it: &Value) -> String {
    it["id"].as_str().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rollback_uses_the_build_of_its_target() {
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
          echo \"version=v-$BERTH_COMMIT\" >> \"$BERTH_OUTPUT\"
  stages: [{{ name: staging }}, {{ name: production }}]
  steps:
    - name: Deploy
      type: script
      needs_artifacts: [site]
      env: {{ VERSION: '${{{{ build.version }}}}' }}
      params: {{ run: 'echo \"$BERTH_STAGE $VERSION $(cat dist/index.html)\" >> {seen}' }}
"
        ))
        .await;
    let (first, second) =
        (fixture.deploy_successfully("aaa1111").await, fixture.deploy_successfully("bbb2222").await);
    let before = fixture.read_file("seen");
    let asked = Instant::now();
    let reply = fixture.roll_back(&second, &json!({"reason": "5xx everywhere"})).await;
    let back = expect_data(&reply, 202);
    assert!(reply.header("location").ends_with(&format!("/deployments/{}", id(&back))));
    assert_eq!((&back["trigger"], &back["commitId"]), (&json!("rollback"), &json!("aaa1111")));
    assert_eq!(back["rollback"], json!({"stage": "production", "of": second, "to": first}));
    let ended = fixture.wait_for_end(&id(&back)).await;
    let took = asked.elapsed();
    expect![[r#"
        succeeded
        build: succeeded
          build succeeded
        production: succeeded
          deploy succeeded
    "#]]
    .assert_eq(&format_outcome(&ended));
    assert_eq!(ended["stages"][0]["reusedFrom"], json!(first));
    assert_eq!(fixture.read_file("built"), "aaa1111\nbbb2222\n", "nothing was built again");
    assert_eq!(fixture.read_file("seen"), format!("{before}production v-aaa1111 page of aaa1111\n"));
    println!("from the request to the end of a one-step rollback: {took:?}");
    // The limit allows for a busy machine. On an idle one, this takes a few hundredths of a second.
    assert!(took < Duration::from_secs(10), "{took:?}");

    let production = fixture.production_stage().await;
    assert_eq!(production["current"]["deploymentId"], json!(id(&back)));
    assert_eq!(production["current"]["commitId"], "aaa1111");
    assert_eq!(production["paused"]["reason"], "5xx everywhere");
    assert_eq!(
        (&production["paused"]["by"]["name"], &production["paused"]["deploymentId"]),
        (&json!("ada"), &back["id"])
    );
    let told = fixture.fetch("/events?kind=deployment_rolled_back").await;
    assert_eq!((&told[0]["data"]["of"], &told[0]["data"]["to"]), (&json!(second), &json!(first)));
    // Both deployments have been rolled back, so there is nothing left to roll back to.
    fixture.roll_back(&id(&back), &json!({})).await.assert_problem(409, "nothing_to_roll_back_to");
    fixture.shut_down().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rollback_waits_only_for_the_running_deployment() {
    let fixture = PipelineFixture::start().await;
    fixture.create_pipeline(&shop_definition(&fixture, ONE_STAGE)).await;
    let first = fixture.deploy_successfully("aaa1111").await;
    let inside = fixture.start_deployment("slow222").await;
    fixture.wait_until(&inside, |it| it["stages"][0]["status"] == "running").await;
    let waits = fixture.start_deployment("ccc3333").await;
    fixture.wait_until(&waits, |it| it["stages"][0]["status"] == "queued").await;
    let back = expect_data(&fixture.roll_back(&inside, &json!({})).await, 202);
    let back = fixture.wait_until(&id(&back), |it| it["stages"][0]["status"] == "queued").await;
    assert_eq!(back["rollback"]["to"], json!(first));
    assert_eq!(back["blockedBy"][0]["kind"], "earlier_stage", "{back}");
    fixture.roll_back(&inside, &json!({})).await.assert_problem(409, "invalid_state");
    // A newer deployment supersedes the queued deployment, but not the rollback.
    let newer = fixture.start_deployment("ddd4444").await;
    let overtaken = fixture.wait_for_end(&waits).await;
    assert_eq!(overtaken["supersededBy"], json!(newer), "{overtaken}");
    std::fs::write(fixture.file_path("gate"), "").unwrap();
    assert_eq!(fixture.wait_for_end(&inside).await["status"], "succeeded");
    assert_eq!(fixture.wait_for_end(&id(&back)).await["status"], "succeeded");
    let waits = fixture.wait_until(&newer, |it| it["blockedBy"][0]["kind"] == "promotion_paused").await;
    assert_eq!(waits["stages"][0]["status"], "queued", "{waits}");
    let detail = waits["blockedBy"][0]["detail"].as_str().unwrap();
    assert!(detail.contains("paused since ada rolled it back at 20"), "{detail}");
    assert_eq!(waits["blockedBy"][0]["clearedBy"], "resuming the pipeline");
    assert_eq!(
        fixture.read_file("ledger"),
        "aaa1111 to production\nslow222 to production\naaa1111 to production\n"
    );

    // The pipeline was not stopped, but resuming it still works and ends the pause of the stage.
    let before = fixture.event_kinds().await.len();
    let resumed =
        expect_data(&fixture.post("/pipelines/shop/resume", &json!({"reason": "fixed"})).await, 200);
    assert_eq!((&resumed["status"], &resumed["stages"][0]["paused"]), (&json!("active"), &Value::Null));
    assert_eq!(fixture.wait_for_end(&newer).await["status"], "succeeded");
    let told = fixture.event_kinds().await;
    assert_eq!(told[before..].iter().filter(|kind| *kind == "promotion_resumed").count(), 1);
    assert_eq!(fixture.post("/pipelines/shop/resume", &json!({})).await.status, 200);
    assert_eq!(fixture.event_kinds().await.len(), told.len(), "again is calm");
    fixture.shut_down().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rollback_is_automatic_after_a_failure() {
    let fixture = PipelineFixture::start().await;
    fixture.create_pipeline(&shop_definition(&fixture, AUTOMATIC_ROLLBACK)).await;
    let good = fixture.deploy_successfully("aaa1111").await;
    let bad = fixture.start_deployment("bad2222").await;
    assert_eq!(fixture.wait_for_end(&bad).await["status"], "failed");
    let back = fixture.fetch("/pipelines/shop/deployments").await[0].clone();
    assert_eq!(back["rollback"], json!({"stage": "production", "of": bad, "to": good}));
    assert_eq!(
        (&back["actor"]["type"], &back["reason"]),
        (&json!("system"), &json!("#2 failed in this stage"))
    );
    assert_eq!(fixture.wait_for_end(&id(&back)).await["status"], "succeeded");
    let production = fixture.production_stage().await;
    assert_eq!(production["current"]["deploymentId"], back["id"]);
    assert_eq!(production["paused"]["by"]["type"], "system");
    // The failed deployment cannot be retried after the rollback.
    let retry = fixture.post(&format!("/deployments/{bad}/stages/production/retry"), &json!({})).await;
    retry.assert_problem(409, "invalid_state");
    fixture.shut_down().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rollback_requested_before_a_failure_happens_once() {
    let fixture = PipelineFixture::start().await;
    fixture.create_pipeline(&shop_definition(&fixture, AUTOMATIC_ROLLBACK)).await;
    fixture.deploy_successfully("aaa1111").await;
    let bad = fixture.start_deployment("slowbad").await;
    fixture.wait_until(&bad, |it| it["stages"][0]["status"] == "running").await;
    let back = expect_data(&fixture.roll_back(&bad, &json!({})).await, 202);
    std::fs::write(fixture.file_path("gate"), "").unwrap();
    let ended = fixture.wait_for_end(&bad).await;
    assert_eq!(ended["status"], "failed");
    let detail = ended["detail"].as_str().unwrap();
    assert!(detail.contains("not rolled back: #3 is already rolling this stage back"), "{detail}");
    assert_eq!(fixture.wait_for_end(&id(&back)).await["status"], "succeeded");
    assert_eq!(fixture.fetch("/pipelines/shop/deployments").await.as_array().unwrap().len(), 3);
    fixture.shut_down().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rollback_that_fails_is_not_rolled_back() {
    let fixture = PipelineFixture::start().await;
    fixture.create_pipeline(&shop_definition(&fixture, AUTOMATIC_ROLLBACK)).await;
    let good = fixture.deploy_successfully("aaa1111").await;
    let bad = fixture.start_deployment("down222").await;
    assert_eq!(fixture.wait_for_end(&bad).await["status"], "failed");
    let list = fixture.fetch("/pipelines/shop/deployments").await;
    let back = id(&list[0]);
    assert_eq!(fixture.wait_for_end(&back).await["status"], "failed");
    let list = fixture.fetch("/pipelines/shop/deployments").await;
    assert_eq!(list.as_array().unwrap().len(), 3, "{list}");
    // The current deployment of the stage is still the rollback's target, so the rollback can be requested again.
    assert_eq!(fixture.production_stage().await["current"]["deploymentId"], json!(good));
    std::fs::remove_file(fixture.file_path("down")).unwrap();
    let again = expect_data(&fixture.roll_back(&back, &json!({})).await, 202);
    assert_eq!(again["rollback"]["to"], json!(good));
    assert_eq!(fixture.wait_for_end(&id(&again)).await["status"], "succeeded");
    fixture.shut_down().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rollback_without_a_target_is_skipped_with_a_reason() {
    let fixture = PipelineFixture::start().await;
    fixture.create_pipeline(&shop_definition(&fixture, AUTOMATIC_ROLLBACK)).await;
    let bad = fixture.start_deployment("bad1111").await;
    let ended = fixture.wait_for_end(&bad).await;
    let detail = ended["stages"][0]["detail"].as_str().unwrap();
    assert!(detail.contains("it was not rolled back: no other successful deployment"), "{detail}");
    assert_eq!(ended["detail"].as_str().unwrap(), detail);
    assert_eq!(fixture.fetch("/events?kind=rollback_skipped").await[0]["data"]["stage"], "production");
    assert_eq!(fixture.fetch("/pipelines/shop/deployments").await.as_array().unwrap().len(), 1);
    assert_eq!(fixture.production_stage().await["paused"], Value::Null);
    fixture.roll_back(&bad, &json!({})).await.assert_problem(409, "nothing_to_roll_back_to");
    fixture.shut_down().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rollback_is_refused_with_a_reason() {
    let fixture = PipelineFixture::start().await;
    fixture
        .create_pipeline(&shop_definition(&fixture, "    - name: staging\n    - name: production\n"))
        .await;
    let first = fixture.deploy_successfully("aaa1111").await;
    let second = fixture.deploy_successfully("bbb2222").await;
    let failed = fixture.start_deployment("bad3333").await;
    fixture.wait_for_end(&failed).await;
    let (_, elsewhere) = fixture.claim("aaa1111").await;
    fixture.wait_for_end(&elsewhere).await;
    let unknown = "dep_00000000000000000000000000";
    for (of, body, status, code) in [
        (&second, json!({"to": "yesterday"}), 400, "invalid_request"),
        (&second, json!({"to": unknown}), 409, "invalid_state"),
        (&second, json!({"to": second}), 409, "invalid_state"),
        (&second, json!({"to": failed}), 409, "invalid_state"),
        (&second, json!({"to": elsewhere}), 409, "invalid_state"),
        (&second, json!({"reason": "x".repeat(4_001)}), 400, "invalid_request"),
        (&second, json!({"bypass": true}), 400, "unknown_member"),
        // This deployment failed in staging and never reached production.
        (&failed, json!({}), 409, "invalid_state"),
        (&first, json!({}), 409, "invalid_state"),
        (&elsewhere, json!({}), 404, "not_found"),
        (&unknown.to_owned(), json!({}), 404, "not_found"),
    ] {
        fixture.roll_back(of, &body).await.assert_problem(status, code);
    }
    let environment = format!("/deployments/{elsewhere}/stages/qa-1/rollback");
    fixture.post(&environment, &json!({})).await.assert_problem(409, "invalid_state");
    let nowhere = format!("/deployments/{second}/stages/nowhere/rollback");
    fixture.post(&nowhere, &json!({})).await.assert_problem(404, "not_found");
    let build = format!("/deployments/{second}/stages/build/rollback");
    fixture.post(&build, &json!({})).await.assert_problem(404, "not_found");
    // A newer deployment has entered staging since.
    let staging = format!("/deployments/{second}/stages/staging/rollback");
    fixture.post(&staging, &json!({})).await.assert_problem(409, "invalid_state");
    assert_eq!(fixture.production_stage().await["paused"], Value::Null, "nothing of it has happened");

    let back = expect_data(&fixture.roll_back(&second, &json!({"to": first})).await, 202);
    assert_eq!(fixture.wait_for_end(&id(&back)).await["status"], "succeeded");
    fixture.shut_down().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rollback_uses_the_pinned_secret_versions_or_is_refused() {
    let fixture = PipelineFixture::start().await;
    let ledger = fixture.file_path("ledger");
    let secret = expect_data(
        &fixture.post("/secrets", &json!({"name": "TOKEN", "value": "first-value-here"})).await,
        201,
    );
    fixture
        .create_pipeline(&format!(
            "  stages: [{{ name: production }}]
  steps:
    - name: Deploy
      type: script
      env: {{ TOKEN: '${{{{ secrets.TOKEN }}}}' }}
      params: {{ run: 'echo \"$TOKEN\" >> {ledger}' }}
"
        ))
        .await;
    fixture.deploy_successfully("aaa1111").await;
    let path = format!("{ORG}/secrets/{}", secret["id"].as_str().unwrap());
    let put = crate::world::call("PUT", &path)
        .with_account(fixture.ada())
        .json(&json!({"value": "second-value-here"}));
    assert_eq!(fixture.send(put).await.status, 200);
    let second = fixture.deploy_successfully("bbb2222").await;
    let back = id(&expect_data(&fixture.roll_back(&second, &json!({})).await, 202));
    assert_eq!(fixture.wait_for_end(&back).await["status"], "succeeded");
    assert_eq!(fixture.read_file("ledger"), "first-value-here\nsecond-value-here\nfirst-value-here\n");
    assert_eq!(
        fixture.delete(&format!("/secrets/{}?force=true", secret["id"].as_str().unwrap())).await.status,
        200
    );
    let refused = fixture.roll_back(&back, &json!({"to": second})).await;
    refused.assert_problem(409, "invalid_state");
    assert!(refused.body["detail"].as_str().unwrap().contains("used the secret TOKEN, which was deleted"));
    fixture.shut_down().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pipeline_etag_changes_with_its_stages() {
    let fixture = PipelineFixture::start().await;
    fixture.create_pipeline(&shop_definition(&fixture, ONE_STAGE)).await;
    let seen = fixture.send(get(&format!("{ORG}/pipelines/shop")).with_account(fixture.ada())).await;
    fixture.deploy_successfully("aaa1111").await;
    let again = get(&format!("{ORG}/pipelines/shop")).with_account(fixture.ada());
    let again = fixture.send(again.header("if-none-match", seen.header("etag"))).await;
    assert_eq!(again.status, 200, "{}", again.text);
    assert_eq!(again.body["data"]["stages"][0]["current"]["commitId"], "aaa1111");
    // `If-Match` compares only the part of the ETag that contains the pipeline's version.
    let stop = crate::world::post(&format!("{ORG}/pipelines/shop/stop")).with_account(fixture.ada());
    let stopped = fixture.send(stop.header("if-match", again.header("etag")).json(&json!({}))).await;
    assert_eq!(stopped.status, 200, "{}", stopped.text);
    fixture.shut_down().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rollback_in_a_stopped_pipeline_waits_until_it_is_resumed() {
    let fixture = PipelineFixture::start().await;
    fixture.create_pipeline(&shop_definition(&fixture, ONE_STAGE)).await;
    let (_, second) =
        (fixture.deploy_successfully("aaa1111").await, fixture.deploy_successfully("bbb2222").await);
    assert_eq!(fixture.post("/pipelines/shop/stop", &json!({})).await.status, 200);
    let back = expect_data(&fixture.roll_back(&second, &json!({})).await, 202);
    assert_eq!(back["blockedBy"][0]["kind"], "pipeline_stopped", "{back}");
    let newer = fixture.start_deployment("ccc3333").await;
    assert_eq!(fixture.post("/pipelines/shop/resume", &json!({})).await.status, 200);
    assert_eq!(fixture.wait_for_end(&id(&back)).await["status"], "succeeded");
    assert_eq!(fixture.wait_for_end(&newer).await["status"], "succeeded");
    let ledger = fixture.read_file("ledger");
    let told: Vec<_> = ledger.lines().map(|line| &line[..7]).collect();
    assert_eq!(told, ["aaa1111", "bbb2222", "aaa1111", "ccc3333"], "the rollback goes first");
    fixture.shut_down().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rollback_sent_twice_with_one_key_happens_once() {
    let fixture = PipelineFixture::start().await;
    fixture.create_pipeline(&shop_definition(&fixture, ONE_STAGE)).await;
    let (_, second) =
        (fixture.deploy_successfully("aaa1111").await, fixture.deploy_successfully("bbb2222").await);
    let path = format!("{ORG}/deployments/{second}/stages/production/rollback");
    let asked = || {
        crate::world::post(&path).with_account(fixture.ada()).header("idempotency-key", "k").json(&json!({}))
    };
    let (first, again) = (fixture.send(asked()).await, fixture.send(asked()).await);
    assert_eq!((first.status.as_u16(), again.status.as_u16()), (202, 202), "{}", again.text);
    assert_eq!(first.body["data"]["id"], again.body["data"]["id"]);
    assert_eq!(fixture.fetch("/pipelines/shop/deployments").await.as_array().unwrap().len(), 3);
    fixture.shut_down().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn environment_reset_deploys_the_commit_of_the_last_stage() {
    let fixture = PipelineFixture::start().await;
    let stages = "    - name: staging\n    - name: production\n";
    let body =
        shop_definition(&fixture, stages).replace("{ qa-1: {} }", "{ qa-1: { on_release: deploy_tracked } }");
    fixture.create_pipeline(&format!("  tracks: main\n{body}")).await;
    let (_, second) =
        (fixture.deploy_successfully("aaa1111").await, fixture.deploy_successfully("bbb2222").await);
    for (stage, wanted) in [("staging", "bbb2222"), ("production", "aaa1111")] {
        let back = fixture.post(&format!("/deployments/{second}/stages/{stage}/rollback"), &json!({})).await;
        assert_eq!(fixture.wait_for_end(&id(&expect_data(&back, 202))).await["status"], "succeeded");
        let (session, inside) = fixture.claim("ccc3333").await;
        fixture.wait_for_end(&inside).await;
        let environment = "/pipelines/shop/ephemeral-environments/qa-1";
        assert_eq!(fixture.delete(&format!("{environment}/sessions/{session}")).await.status, 200);
        let reset = fixture.fetch("/pipelines/shop/deployments").await[0].clone();
        assert_eq!((&reset["trigger"], &reset["commitId"]), (&json!("reset"), &json!(wanted)), "{stage}");
        fixture.wait_for_end(&id(&reset)).await;
    }
    fixture.shut_down().await;
}
