//! Deployment windows, bypasses, and steps that wait for an approval or a soak.

use berth_core::time::Timestamp;
use expect_test::expect;
use serde_json::{Value, json};

use super::{ORG, PipelineFixture, expect_data, format_outcome};
use crate::world::{MemberAccount, post};

/// A window that is closed until the year 2200.
const CLOSED_WINDOW: &str = "  stages:
    - name: production
      window: { timezone: Europe/Vienna, days: [mon, tue, wed, thu, fri], hours: '09:00-17:00', except: [2020-01-01/2199-12-31] }
      requires: { approvals: 2 }
  steps:
    - { name: Deploy, type: dummy }
";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn closed_window_reports_when_it_opens() {
    let fixture = PipelineFixture::start().await;
    fixture.create_pipeline(&CLOSED_WINDOW.replace("      requires: { approvals: 2 }\n", "")).await;
    let id = fixture.start_deployment("4f2a1c9").await;
    let waits = fixture.wait_until(&id, |it| it["blockedBy"][0]["kind"] == "window").await;
    assert_eq!((&waits["status"], &waits["stages"][0]["status"]), (&json!("waiting"), &json!("waiting")));
    assert_eq!(waits["blockedBy"][0]["clearsAt"], "2200-01-01T08:00:00.000Z", "{waits}");
    // The background jobs do not start the stage either.
    berth_server::jobs::tick(fixture.world.app.jobs()).await.unwrap();
    assert_eq!(fixture.fetch(&format!("/deployments/{id}")).await["stages"][0]["tries"], 0);

    let open = "  stage_defaults: { window: { timezone: UTC } }\n  stages: [{ name: production }]\n  steps: [{ name: Deploy, type: dummy }]\n";
    let definition = format!("version: 1\npipeline:\n  name: Shop\n{open}");
    let put = crate::world::call("PUT", &format!("{ORG}/pipelines/shop/definition"));
    let put = fixture.send(put.with_account(fixture.ada()).json(&json!({"definition": definition}))).await;
    assert_eq!(put.status, 200, "{}", put.text);
    let next = fixture.start_deployment("bbb2222").await;
    assert_eq!(fixture.wait_for_end(&next).await["status"], "succeeded");
    fixture.shut_down().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bypass_passes_every_gate_and_is_recorded() {
    let fixture = PipelineFixture::start().await;
    let bob = fixture.world.create_member("bob@acme.test", "deployer").await;
    let body = format!("{CLOSED_WINDOW}    - {{ name: Ask, type: approval }}\n");
    fixture.create_pipeline(&body).await;
    assert_eq!(fixture.post("/pipelines/shop/stop", &json!({})).await.status, 200);
    let path = "/pipelines/shop/deployments";
    let bypass = |reason: Value| json!({"commitId": "4f2a1c9", "bypass": {"reason": reason}});
    let refused =
        fixture.send(post(&format!("{ORG}{path}")).with_account(&bob).json(&bypass(json!("now")))).await;
    refused.assert_problem(403, "forbidden");
    assert_eq!(refused.body["permission"], "gates:bypass");
    for nothing in [json!(""), json!("  "), json!(null)] {
        fixture.post(path, &bypass(nothing)).await.assert_problem(400, "invalid_request");
    }
    fixture
        .post(path, &json!({"commitId": "4f2a1c9", "bypass": {}}))
        .await
        .assert_problem(400, "invalid_request");

    let started = expect_data(&fixture.post(path, &bypass(json!("the shop is down"))).await, 202);
    assert_eq!(started["bypass"]["reason"], "the shop is down");
    let ended = fixture.wait_for_end(started["id"].as_str().unwrap()).await;
    expect![[r#"
        succeeded
        production: succeeded
          deploy succeeded
          ask succeeded
    "#]]
    .assert_eq(&format_outcome(&ended));
    assert_eq!(ended["bypass"]["by"]["name"], "ada");
    assert_eq!(fixture.fetch("/approvals?status=all").await, json!([]));
    let told = fixture.fetch("/events?kind=bypass_used").await;
    assert_eq!(told[0]["data"]["reason"], "the shop is down", "{told}");
    fixture.shut_down().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn approval_step_asks_when_it_is_due_without_a_runner() {
    let fixture = PipelineFixture::start().await;
    fixture
        .create_pipeline(
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
    let id = fixture.start_deployment("4f2a1c9").await;
    let asked = fixture.wait_for_approval(&id).await;
    assert_eq!(asked["message"], "3 changes to the shop");
    let waits = fixture.fetch(&format!("/deployments/{id}")).await;
    let step = &waits["stages"][0]["steps"][1];
    assert_eq!((&step["status"], &asked["stepId"]), (&json!("waiting"), &step["id"]), "{waits}");
    let resolve = format!("/deployments/{id}/steps/{}/resolve", step["id"].as_str().unwrap());
    fixture.post(&resolve, &json!({"outcome": "ran"})).await.assert_problem(409, "invalid_state");
    let soak = format!("/deployments/{id}/steps/{}/end-soak", step["id"].as_str().unwrap());
    fixture.post(&soak, &json!({})).await.assert_problem(409, "invalid_state");
    assert_eq!(fixture.approve(&asked, fixture.ada()).await.status, 200);
    let ended = fixture.wait_for_end(&id).await;
    assert_eq!(ended["status"], "succeeded", "{ended}");
    assert_eq!(ended["stages"][0]["steps"][1]["attempts"], json!([]));
    fixture.shut_down().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn approval_step_does_not_change_the_environment() {
    let fixture = PipelineFixture::start().await;
    fixture
        .create_pipeline(
            "  stages: [{ name: production, requires: { approvals: 2 } }]
  ephemeral_environments: { qa-1: {} }
  steps:
    - { name: Ask, type: approval }
    - { name: Deploy, type: dummy }
",
        )
        .await;
    let (_, id) = fixture.claim("4f2a1c9").await;
    let asked = fixture.wait_for_approval(&id).await;
    assert_eq!(asked["rule"]["approvals"], 1, "{asked}");
    let place = fixture.fetch("/pipelines/shop/ephemeral-environments/qa-1").await;
    assert_ne!(place["condition"], "unknown", "{place}");
    assert_eq!(fixture.approve(&asked, fixture.ada()).await.status, 200);
    assert_eq!(fixture.wait_for_end(&id).await["status"], "succeeded");

    // A takeover ends the approvals that are pending for the previous session.
    let (_, held) = {
        let path = "/pipelines/shop/ephemeral-environments/qa-1/force-claim";
        let taken = fixture.post(path, &json!({"commitId": "bbb2222"})).await;
        let taken = expect_data(&taken, 201);
        ((), taken["deploymentId"].as_str().unwrap().to_owned())
    };
    let asked = fixture.wait_for_approval(&held).await;
    let path = "/pipelines/shop/ephemeral-environments/qa-1/force-claim";
    assert_eq!(fixture.post(path, &json!({"deploy": false})).await.status, 201);
    fixture.approve(&asked, fixture.ada()).await.assert_problem(409, "approval_ended");
    assert_eq!(fixture.wait_for_end(&held).await["status"], "cancelled");
    fixture.shut_down().await;
}

fn soak_definition(duration: &str) -> String {
    format!(
        "  stages: [{{ name: production }}]
  steps:
    - {{ name: Deploy, type: dummy }}
    - {{ name: Soak, type: soak, params: {{ duration: {duration} }} }}
    - {{ name: After, type: dummy }}
"
    )
}

impl PipelineFixture {
    /// Waits until the soak has started and returns its path.
    async fn wait_for_soak(&self, id: &str) -> String {
        let seen = self.wait_until(id, |it| it["blockedBy"][0]["kind"] == "soak").await;
        let step = &seen["stages"][0]["steps"][1];
        assert_eq!(seen["blockedBy"][0]["clearsAt"], step["notBefore"], "{seen}");
        format!("/deployments/{id}/steps/{}", step["id"].as_str().unwrap())
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn soak_ends_after_its_duration() {
    let fixture = PipelineFixture::start().await;
    fixture.create_pipeline(&soak_definition("1s")).await;
    let id = fixture.start_deployment("4f2a1c9").await;
    let ended = fixture.wait_for_end(&id).await;
    assert_eq!(ended["status"], "succeeded", "{ended}");
    let soak = &ended["stages"][0]["steps"][1];
    let time = |name: &str| Timestamp::parse(soak[name].as_str().unwrap()).unwrap();
    assert!(time("finishedAt").seconds_since(time("startedAt")) >= 1, "{soak}");
    fixture.shut_down().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn soak_can_be_ended_early_or_rejected() {
    let fixture = PipelineFixture::start().await;
    fixture.create_pipeline(&soak_definition("1h")).await;
    let id = fixture.start_deployment("4f2a1c9").await;
    let soak = fixture.wait_for_soak(&id).await;
    let ended = fixture.post(&format!("{soak}/end-soak"), &json!({"reason": "quiet"})).await;
    assert_eq!(ended.status, 200, "{}", ended.text);
    assert_eq!(fixture.wait_for_end(&id).await["status"], "succeeded");
    fixture.post(&format!("{soak}/end-soak"), &json!({})).await.assert_problem(409, "invalid_state");

    let id = fixture.start_deployment("bbb2222").await;
    let soak = fixture.wait_for_soak(&id).await;
    let no = fixture.post(&format!("{soak}/reject-soak"), &json!({"reason": "errors rise"})).await;
    assert_eq!(no.status, 200, "{}", no.text);
    let ended = fixture.wait_for_end(&id).await;
    expect![[r#"
        failed (soak_rejected)
        production: failed (soak_rejected)
          deploy succeeded
          soak failed (soak_rejected)
          after skipped
    "#]]
    .assert_eq(&format_outcome(&ended));
    assert_eq!(ended["detail"], "step \"soak\": rejected by ada: errors rise");
    fixture.shut_down().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stopped_agent_cannot_end_a_soak() {
    let fixture = PipelineFixture::start().await;
    fixture.create_pipeline(&soak_definition("1h")).await;
    let body = json!({"kind": "agent", "name": "claude", "role": "deployer"});
    let agent = expect_data(&fixture.post("/members", &body).await, 201);
    let token = json!({"name": "agent", "ownerId": agent["id"]});
    let token = expect_data(&fixture.post("/api-tokens", &token).await, 201);
    let token = token["token"].as_str().unwrap().to_owned();
    let agent = MemberAccount { email: String::new(), password: String::new(), token };
    let id = fixture.start_deployment("4f2a1c9").await;
    let soak = fixture.wait_for_soak(&id).await;
    let end_soak = async || {
        let call = post(&format!("{ORG}{soak}/end-soak")).with_account(&agent);
        fixture.send(call.json(&json!({}))).await
    };
    expect_data(&fixture.post("/agents/stop", &json!({})).await, 200);
    end_soak().await.assert_problem(409, "agents_stopped");
    expect_data(&fixture.post("/agents/resume", &json!({})).await, 200);
    assert_eq!(end_soak().await.status, 200);
    assert_eq!(fixture.wait_for_end(&id).await["status"], "succeeded");
    fixture.shut_down().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn approval_answer_counts_only_for_its_own_approval() {
    let fixture = PipelineFixture::start().await;
    let (fixed, world) = (fixture.file_path("fixed"), &fixture.world);
    let bob = world.create_member("bob@acme.test", "deployer").await;
    let carol = world.create_member("carol@acme.test", "deployer").await;
    let steps = "    - { name: Ask, type: approval, params: { self_approval: false } }";
    let fails = format!("    - {{ name: Deploy, type: script, params: {{ run: 'test -e {fixed}' }} }}");
    fixture
        .create_pipeline(&format!("  stages: [{{ name: production }}]\n  steps:\n{steps}\n{fails}\n"))
        .await;
    let id = fixture.start_deployment("4f2a1c9").await;
    let first = fixture.wait_for_approval(&id).await;
    assert_eq!(fixture.approve(&first, &bob).await.status, 200);
    assert_eq!(fixture.wait_for_end(&id).await["cause"], "step_failed");

    let path = format!("{ORG}/deployments/{id}/stages/production/retry");
    let again = post(&path).with_account(&carol).json(&json!({"from": "start"}));
    assert_eq!(fixture.send(again).await.status, 200);
    let second = fixture.wait_for_approval(&id).await;
    // Ada may not approve, because she started the deployment. Her answer to the approval that has ended must not count
    // for the pending one.
    fixture.approve(&first, fixture.ada()).await.assert_problem(409, "approval_ended");
    assert_eq!(fixture.wait_for_approval(&id).await["id"], second["id"]);
    assert_eq!(fixture.fetch(&format!("/deployments/{id}")).await["status"], "waiting");

    assert_eq!(fixture.approve(&second, &bob).await.status, 200);
    assert_eq!(fixture.wait_for_end(&id).await["cause"], "step_failed");
    std::fs::write(&fixed, "").unwrap();
    assert_eq!(fixture.send(post(&path).with_account(&bob)).await.status, 200);
    let third = fixture.wait_for_approval(&id).await;
    fixture.approve(&third, &bob).await.assert_problem(403, "not_eligible");
    let dora = fixture.world.create_member("dora@acme.test", "deployer").await;
    assert_eq!(fixture.approve(&third, &dora).await.status, 200);
    assert_eq!(fixture.wait_for_end(&id).await["status"], "succeeded");
    fixture.shut_down().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn retry_of_a_bypass_needs_the_bypass_permission() {
    let fixture = PipelineFixture::start().await;
    let bob = fixture.world.create_member("bob@acme.test", "deployer").await;
    let body = "  stages: [{ name: production, requires: { approvals: 2 } }]
  steps: [{ name: Deploy, type: script, params: { run: 'false' } }]
";
    fixture.create_pipeline(body).await;
    let asked = json!({"commitId": "4f2a1c9", "bypass": {"reason": "the shop is down"}});
    let started = expect_data(&fixture.post("/pipelines/shop/deployments", &asked).await, 202);
    let id = started["id"].as_str().unwrap();
    assert_eq!(fixture.wait_for_end(id).await["status"], "failed");
    let path = format!("/deployments/{id}/stages/production/retry");
    let refused = fixture.send(post(&format!("{ORG}{path}")).with_account(&bob)).await;
    refused.assert_problem(403, "forbidden");
    assert_eq!(refused.body["permission"], "gates:bypass");
    assert_eq!(fixture.post(&path, &json!({})).await.status, 200);
    assert_eq!(fixture.wait_for_end(id).await["status"], "failed");
    assert_eq!(fixture.fetch("/events?kind=bypass_used").await.as_array().unwrap().len(), 2);
    fixture.shut_down().await;
}
