//! Deployment windows, bypasses, and steps that wait for an approval or a soak.

use berth_core::time::Timestamp;
use expect_test::expect;
use serde_json::{Value, json};

use super::{Harbour, ORG, data, story};
use crate::world::post;

/// A window that is closed until the year 2200.
const SHUT: &str = "  stages:
    - name: production
      window: { timezone: Europe/Vienna, days: [mon, tue, wed, thu, fri], hours: '09:00-17:00', except: [2020-01-01/2199-12-31] }
      requires: { approvals: 2 }
  steps:
    - { name: Deploy, type: dummy }
";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn closed_window_reports_when_it_opens() {
    let harbour = Harbour::open().await;
    harbour.pipeline(&SHUT.replace("      requires: { approvals: 2 }\n", "")).await;
    let id = harbour.start("4f2a1c9").await;
    let waits = harbour.until(&id, |it| it["blockedBy"][0]["kind"] == "window").await;
    assert_eq!((&waits["status"], &waits["stages"][0]["status"]), (&json!("waiting"), &json!("waiting")));
    assert_eq!(waits["blockedBy"][0]["clearsAt"], "2200-01-01T08:00:00.000Z", "{waits}");
    // The background jobs do not start the stage either.
    berth_server::jobs::tick(harbour.world.app.jobs()).await.unwrap();
    assert_eq!(harbour.see(&format!("/deployments/{id}")).await["stages"][0]["tries"], 0);

    let open = "  stage_defaults: { window: { timezone: UTC } }\n  stages: [{ name: production }]\n  steps: [{ name: Deploy, type: dummy }]\n";
    let definition = format!("version: 1\npipeline:\n  name: Shop\n{open}");
    let put = crate::world::call("PUT", &format!("{ORG}/pipelines/shop/definition"));
    let put = harbour.send(put.by(harbour.ada()).json(&json!({"definition": definition}))).await;
    assert_eq!(put.status, 200, "{}", put.text);
    let next = harbour.start("bbb2222").await;
    assert_eq!(harbour.end_of(&next).await["status"], "succeeded");
    harbour.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bypass_passes_every_gate_and_is_recorded() {
    let harbour = Harbour::open().await;
    let bob = harbour.world.member("bob@acme.test", "deployer").await;
    let body = format!("{SHUT}    - {{ name: Ask, type: approval }}\n");
    harbour.pipeline(&body).await;
    assert_eq!(harbour.post("/pipelines/shop/stop", &json!({})).await.status, 200);
    let path = "/pipelines/shop/deployments";
    let bypass = |reason: Value| json!({"commitId": "4f2a1c9", "bypass": {"reason": reason}});
    let refused = harbour.send(post(&format!("{ORG}{path}")).by(&bob).json(&bypass(json!("now")))).await;
    refused.is(403, "forbidden");
    assert_eq!(refused.body["permission"], "gates:bypass");
    for nothing in [json!(""), json!("  "), json!(null)] {
        harbour.post(path, &bypass(nothing)).await.is(400, "invalid_request");
    }
    harbour.post(path, &json!({"commitId": "4f2a1c9", "bypass": {}})).await.is(400, "invalid_request");

    let started = data(&harbour.post(path, &bypass(json!("the shop is down"))).await, 202);
    assert_eq!(started["bypass"]["reason"], "the shop is down");
    let ended = harbour.end_of(started["id"].as_str().unwrap()).await;
    expect![[r#"
        succeeded
        production: succeeded
          deploy succeeded
          ask succeeded
    "#]]
    .assert_eq(&story(&ended));
    assert_eq!(ended["bypass"]["by"]["name"], "ada");
    assert_eq!(harbour.see("/approvals?status=all").await, json!([]));
    let told = harbour.see("/events?kind=bypass_used").await;
    assert_eq!(told[0]["data"]["reason"], "the shop is down", "{told}");
    harbour.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn approval_step_asks_when_it_is_due_without_a_runner() {
    let harbour = Harbour::open().await;
    harbour
        .pipeline(
            "  stages: [{ name: production, vars: { where: the shop } }]
  steps:
    - name: Plan
      type: script
      outputs: [changes]
      params: { run: 'echo changes=3 >> \"$BERTH_OUTPUT\"' }
    - name: Ask
      type: approval
      params: { message: '${{ steps.plan.changes }} changes to ${{ vars.where }}', timeout: 1h }
    - { name: Apply, type: dummy }
",
        )
        .await;
    let id = harbour.start("4f2a1c9").await;
    let asked = harbour.asked(&id).await;
    assert_eq!(asked["message"], "3 changes to the shop");
    let waits = harbour.see(&format!("/deployments/{id}")).await;
    let step = &waits["stages"][0]["steps"][1];
    assert_eq!((&step["status"], &asked["stepId"]), (&json!("waiting"), &step["id"]), "{waits}");
    let resolve = format!("/deployments/{id}/steps/{}/resolve", step["id"].as_str().unwrap());
    harbour.post(&resolve, &json!({"outcome": "ran"})).await.is(409, "invalid_state");
    let soak = format!("/deployments/{id}/steps/{}/end-soak", step["id"].as_str().unwrap());
    harbour.post(&soak, &json!({})).await.is(409, "invalid_state");
    assert_eq!(harbour.approve(&asked, harbour.ada()).await.status, 200);
    let ended = harbour.end_of(&id).await;
    assert_eq!(ended["status"], "succeeded", "{ended}");
    assert_eq!(ended["stages"][0]["steps"][1]["attempts"], json!([]));
    harbour.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn approval_step_does_not_change_the_environment() {
    let harbour = Harbour::open().await;
    harbour
        .pipeline(
            "  stages: [{ name: production, requires: { approvals: 2 } }]
  ephemeral_environments: { qa-1: {} }
  steps:
    - { name: Ask, type: approval }
    - { name: Deploy, type: dummy }
",
        )
        .await;
    let (_, id) = harbour.claim("4f2a1c9").await;
    let asked = harbour.asked(&id).await;
    assert_eq!(asked["rule"]["approvals"], 1, "{asked}");
    let place = harbour.see("/pipelines/shop/ephemeral-environments/qa-1").await;
    assert_ne!(place["condition"], "unknown", "{place}");
    assert_eq!(harbour.approve(&asked, harbour.ada()).await.status, 200);
    assert_eq!(harbour.end_of(&id).await["status"], "succeeded");

    // A takeover ends the approvals that are pending for the previous session.
    let (_, held) = {
        let path = "/pipelines/shop/ephemeral-environments/qa-1/force-claim";
        let taken = harbour.post(path, &json!({"commitId": "bbb2222"})).await;
        let taken = data(&taken, 201);
        ((), taken["deploymentId"].as_str().unwrap().to_owned())
    };
    let asked = harbour.asked(&held).await;
    let path = "/pipelines/shop/ephemeral-environments/qa-1/force-claim";
    assert_eq!(harbour.post(path, &json!({"deploy": false})).await.status, 201);
    harbour.approve(&asked, harbour.ada()).await.is(409, "approval_ended");
    assert_eq!(harbour.end_of(&held).await["status"], "cancelled");
    harbour.close().await;
}

fn soaking(duration: &str) -> String {
    format!(
        "  stages: [{{ name: production }}]
  steps:
    - {{ name: Deploy, type: dummy }}
    - {{ name: Soak, type: soak, params: {{ duration: {duration} }} }}
    - {{ name: After, type: dummy }}
"
    )
}

impl Harbour {
    /// Waits until the soak has started and returns its path.
    async fn soak(&self, id: &str) -> String {
        let seen = self.until(id, |it| it["blockedBy"][0]["kind"] == "soak").await;
        let step = &seen["stages"][0]["steps"][1];
        assert_eq!(seen["blockedBy"][0]["clearsAt"], step["notBefore"], "{seen}");
        format!("/deployments/{id}/steps/{}", step["id"].as_str().unwrap())
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn soak_ends_after_its_duration() {
    let harbour = Harbour::open().await;
    harbour.pipeline(&soaking("1s")).await;
    let id = harbour.start("4f2a1c9").await;
    let ended = harbour.end_of(&id).await;
    assert_eq!(ended["status"], "succeeded", "{ended}");
    let soak = &ended["stages"][0]["steps"][1];
    let time = |name: &str| Timestamp::parse(soak[name].as_str().unwrap()).unwrap();
    assert!(time("finishedAt").seconds_since(time("startedAt")) >= 1, "{soak}");
    harbour.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn soak_can_be_ended_early_or_rejected() {
    let harbour = Harbour::open().await;
    harbour.pipeline(&soaking("1h")).await;
    let id = harbour.start("4f2a1c9").await;
    let soak = harbour.soak(&id).await;
    let ended = harbour.post(&format!("{soak}/end-soak"), &json!({"reason": "quiet"})).await;
    assert_eq!(ended.status, 200, "{}", ended.text);
    assert_eq!(harbour.end_of(&id).await["status"], "succeeded");
    harbour.post(&format!("{soak}/end-soak"), &json!({})).await.is(409, "invalid_state");

    let id = harbour.start("bbb2222").await;
    let soak = harbour.soak(&id).await;
    let no = harbour.post(&format!("{soak}/reject-soak"), &json!({"reason": "errors rise"})).await;
    assert_eq!(no.status, 200, "{}", no.text);
    let ended = harbour.end_of(&id).await;
    expect![[r#"
        failed (soak_rejected)
        production: failed (soak_rejected)
          deploy succeeded
          soak failed (soak_rejected)
          after skipped
    "#]]
    .assert_eq(&story(&ended));
    assert_eq!(ended["detail"], "step \"soak\": rejected by ada: errors rise");
    harbour.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn approval_answer_counts_only_for_its_own_approval() {
    let harbour = Harbour::open().await;
    let (mended, world) = (harbour.file("mended"), &harbour.world);
    let bob = world.member("bob@acme.test", "deployer").await;
    let carol = world.member("carol@acme.test", "deployer").await;
    let steps = "    - { name: Ask, type: approval, params: { self_approval: false } }";
    let fails = format!("    - {{ name: Deploy, type: script, params: {{ run: 'test -e {mended}' }} }}");
    harbour.pipeline(&format!("  stages: [{{ name: production }}]\n  steps:\n{steps}\n{fails}\n")).await;
    let id = harbour.start("4f2a1c9").await;
    let first = harbour.asked(&id).await;
    assert_eq!(harbour.approve(&first, &bob).await.status, 200);
    assert_eq!(harbour.end_of(&id).await["cause"], "step_failed");

    let path = format!("{ORG}/deployments/{id}/stages/production/retry");
    let again = post(&path).by(&carol).json(&json!({"from": "start"}));
    assert_eq!(harbour.send(again).await.status, 200);
    let second = harbour.asked(&id).await;
    // Ada may not approve, because she started the deployment. Her answer to the approval that has ended must not count
    // for the pending one.
    harbour.approve(&first, harbour.ada()).await.is(409, "approval_ended");
    assert_eq!(harbour.asked(&id).await["id"], second["id"]);
    assert_eq!(harbour.see(&format!("/deployments/{id}")).await["status"], "waiting");

    assert_eq!(harbour.approve(&second, &bob).await.status, 200);
    assert_eq!(harbour.end_of(&id).await["cause"], "step_failed");
    std::fs::write(&mended, "").unwrap();
    assert_eq!(harbour.send(post(&path).by(&bob)).await.status, 200);
    let third = harbour.asked(&id).await;
    harbour.approve(&third, &bob).await.is(403, "not_eligible");
    let dora = harbour.world.member("dora@acme.test", "deployer").await;
    assert_eq!(harbour.approve(&third, &dora).await.status, 200);
    assert_eq!(harbour.end_of(&id).await["status"], "succeeded");
    harbour.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn retry_of_a_bypass_needs_the_bypass_permission() {
    let harbour = Harbour::open().await;
    let bob = harbour.world.member("bob@acme.test", "deployer").await;
    let body = "  stages: [{ name: production, requires: { approvals: 2 } }]
  steps: [{ name: Deploy, type: script, params: { run: 'false' } }]
";
    harbour.pipeline(body).await;
    let asked = json!({"commitId": "4f2a1c9", "bypass": {"reason": "the shop is down"}});
    let started = data(&harbour.post("/pipelines/shop/deployments", &asked).await, 202);
    let id = started["id"].as_str().unwrap();
    assert_eq!(harbour.end_of(id).await["status"], "failed");
    let path = format!("/deployments/{id}/stages/production/retry");
    let refused = harbour.send(post(&format!("{ORG}{path}")).by(&bob)).await;
    refused.is(403, "forbidden");
    assert_eq!(refused.body["permission"], "gates:bypass");
    assert_eq!(harbour.post(&path, &json!({})).await.status, 200);
    assert_eq!(harbour.end_of(id).await["status"], "failed");
    assert_eq!(harbour.see("/events?kind=bypass_used").await.as_array().unwrap().len(), 2);
    harbour.close().await;
}
