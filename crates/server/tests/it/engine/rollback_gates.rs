//! Rollbacks combined with approvals, soaks, bypasses and artifacts of earlier stages.

use berth_core::decision::{DomainRecord, RecordChange, RuleDecision};
use berth_core::deployment::stages::stage::{Stage, StageEnd};
use berth_core::event::{EventKind, EventSubject, NewEvent};
use berth_core::id::PipelineId;
use berth_store::TxContext;
use expect_test::expect;
use serde_json::{Value, json};

use super::rollback::id;
use super::{PipelineFixture, expect_data, format_outcome};
use crate::audit_export::acme_org_id;
use crate::world::MemberAccount;

impl PipelineFixture {
    async fn approve_deployment(&self, id: &str, who: &[&MemberAccount]) {
        let asked = self.wait_for_approval(id).await;
        for who in who {
            let reply = self.approve(&asked, who).await;
            assert_eq!(reply.status, 200, "{}", reply.text);
        }
    }

    async fn wait_for_success(&self, id: &str) -> Value {
        let ended = self.wait_for_end(id).await;
        assert_eq!(ended["status"], "succeeded", "{ended}");
        ended
    }

    /// Deploys, bypasses all gates, and waits for success.
    async fn deploy_with_bypass(&self, commit: &str) -> String {
        let body = json!({"commitId": commit, "bypass": {"reason": "the shop is down"}});
        let started = id(&expect_data(&self.post("/pipelines/shop/deployments", &body).await, 202));
        self.wait_for_success(&started).await;
        started
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn current_deployment_of_a_stage_is_the_last_one_that_entered() {
    let fixture = PipelineFixture::start().await;
    let (ada, bob) = (fixture.ada(), fixture.world.create_member("bob@acme.test", "deployer").await);
    let down = fixture.file_path("down");
    fixture
        .create_pipeline(&format!(
            "  stages: [{{ name: production, requires: {{ approvals: 2 }} }}]
  steps: [{{ name: Deploy, type: script, params: {{ run: 'test ! -e {down}' }} }}]
"
        ))
        .await;
    let older = fixture.start_deployment("aaa1111").await;
    let half = fixture.wait_for_approval(&older).await;
    assert_eq!(fixture.approve(&half, &bob).await.status, 200);
    let newer = fixture.start_deployment("bbb2222").await;
    fixture.approve_deployment(&newer, &[ada, &bob]).await;
    fixture.wait_for_success(&newer).await;
    std::fs::write(&down, "").unwrap();
    assert_eq!(fixture.approve(&half, ada).await.status, 200);
    assert_eq!(fixture.wait_for_end(&older).await["status"], "failed");

    let refused = fixture.roll_back(&newer, &json!({})).await;
    refused.assert_problem(409, "invalid_state");
    let detail = refused.body["detail"].as_str().unwrap();
    assert!(detail.contains("#1 has since been deployed to this stage"), "{detail}");
    std::fs::remove_file(&down).unwrap();
    let retry = fixture.post(&format!("/deployments/{older}/stages/production/retry"), &json!({})).await;
    assert_eq!(retry.status, 200, "{}", retry.text);
    fixture.wait_for_success(&older).await;
    let back = expect_data(&fixture.roll_back(&older, &json!({})).await, 202);
    assert_eq!(back["rollback"]["to"], json!(newer));
    fixture.wait_for_success(&id(&back)).await;
    fixture.shut_down().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rollback_skips_approval_and_soak_steps() {
    let fixture = PipelineFixture::start().await;
    fixture
        .create_pipeline(
            "  stages: [{ name: production }]
  steps:
    - { name: Ask, type: approval }
    - { name: Deploy, type: dummy }
    - { name: Soak, type: soak, params: { duration: 1h } }
    - { name: After, type: dummy }
",
        )
        .await;
    let mut done = Vec::new();
    for commit in ["aaa1111", "bbb2222", "ccc3333"] {
        let id = fixture.start_deployment(commit).await;
        fixture.approve_deployment(&id, &[fixture.ada()]).await;
        let soaks = fixture.wait_until(&id, |it| it["blockedBy"][0]["kind"] == "soak").await;
        let step = soaks["stages"][0]["steps"][2]["id"].as_str().unwrap().to_owned();
        let path = format!("/deployments/{id}/steps/{step}/end-soak");
        assert_eq!(fixture.post(&path, &json!({})).await.status, 200);
        fixture.wait_for_success(&id).await;
        done.push(id);
    }
    let back = id(&expect_data(&fixture.roll_back(&done[2], &json!({})).await, 202));
    expect![[r#"
        succeeded
        production: succeeded
          ask skipped
          deploy succeeded
          soak skipped
          after succeeded
    "#]]
    .assert_eq(&format_outcome(&fixture.wait_for_end(&back).await));
    // Rolls back to an older deployment, and then forward to the earlier rollback.
    let forth = id(&expect_data(&fixture.roll_back(&back, &json!({"to": done[0]})).await, 202));
    fixture.wait_for_success(&forth).await;
    let again = id(&expect_data(&fixture.roll_back(&forth, &json!({"to": back})).await, 202));
    fixture.wait_for_success(&again).await;
    fixture.shut_down().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rollback_to_a_bypassed_deployment_needs_approval() {
    let fixture = PipelineFixture::start().await;
    fixture
        .create_pipeline(
            "  stages:
    - name: production
      window: { timezone: UTC, except: [2020-01-01/2199-12-31] }
      requires: { approvals: 1 }
  steps:
    - { name: Ask, type: approval }
    - { name: Deploy, type: dummy }
",
        )
        .await;
    let (first, second) =
        (fixture.deploy_with_bypass("aaa1111").await, fixture.deploy_with_bypass("bbb2222").await);
    let back = id(&expect_data(&fixture.roll_back(&second, &json!({})).await, 202));
    let asked = fixture.wait_for_approval(&back).await;
    assert_eq!((&asked["stage"], &asked["stepId"]), (&json!("production"), &Value::Null), "{asked}");
    assert_eq!(fixture.approve(&asked, fixture.ada()).await.status, 200);
    let inside = fixture.wait_until(&back, |it| it["stages"][0]["tries"] == 1).await;
    assert_eq!(inside["stages"][0]["steps"][0]["status"], "waiting", "the window does not hold it: {inside}");
    fixture.approve_deployment(&back, &[fixture.ada()]).await;
    fixture.wait_for_success(&back).await;
    // Rolling forward to `second` needs approvals too, because it was deployed with a bypass. Rolling back to `back`
    // again needs none, because its commit has been approved.
    let forth = id(&expect_data(&fixture.roll_back(&back, &json!({"to": second})).await, 202));
    fixture.approve_deployment(&forth, &[fixture.ada()]).await;
    fixture.wait_until(&forth, |it| it["stages"][0]["tries"] == 1).await;
    fixture.approve_deployment(&forth, &[fixture.ada()]).await;
    fixture.wait_for_success(&forth).await;
    let again = expect_data(&fixture.roll_back(&forth, &json!({"to": back})).await, 202);
    assert_eq!(again["commitId"], "aaa1111", "what {first} brought");
    fixture.wait_for_success(&id(&again)).await;
    fixture.shut_down().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rollback_uses_artifacts_of_earlier_stages() {
    let fixture = PipelineFixture::start().await;
    let seen = fixture.file_path("seen");
    fixture
        .create_pipeline(&format!(
            "  stages:
    - name: staging
    - {{ name: production, skip: [package] }}
    - name: abroad
  steps:
    - name: Package
      type: script
      artifacts: {{ site: {{ path: dist }} }}
      params: {{ run: 'mkdir dist; echo \"$BERTH_COMMIT of $BERTH_STAGE\" > dist/page' }}
    - name: Deploy
      type: script
      needs_artifacts: [site]
      params: {{ run: 'echo \"$BERTH_STAGE: $(cat dist/page)\" >> {seen}' }}
"
        ))
        .await;
    fixture.deploy_successfully("aaa1111").await;
    let second = fixture.deploy_successfully("bbb2222").await;
    let third = fixture.deploy_successfully("ccc3333").await;
    let before = fixture.read_file("seen");
    assert!(before.ends_with("production: ccc3333 of staging\nabroad: ccc3333 of abroad\n"), "{before}");
    let back = id(&expect_data(&fixture.roll_back(&third, &json!({})).await, 202));
    fixture.wait_for_success(&back).await;
    assert_eq!(fixture.read_file("seen"), format!("{before}production: bbb2222 of staging\n"));
    // A rollback to the first rollback also uses the artifact of the second deployment.
    let forth = id(&expect_data(&fixture.roll_back(&back, &json!({"to": third})).await, 202));
    fixture.wait_for_success(&forth).await;
    let again = expect_data(&fixture.roll_back(&forth, &json!({"to": back})).await, 202);
    fixture.wait_for_success(&id(&again)).await;
    let wanted =
        ["bbb2222", "ccc3333", "bbb2222"].map(|it| format!("production: {it} of staging\n")).concat();
    assert_eq!(fixture.read_file("seen"), format!("{before}{wanted}"), "{second}");
    fixture.shut_down().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn failed_stage_ends_even_if_its_rollback_cannot_be_planned() {
    let fixture = PipelineFixture::start().await;
    fixture
        .create_pipeline(
            "  stages: [{ name: production, on_failure: rollback }]
  ephemeral_environments: { qa-1: {} }
  steps: [{ name: Deploy, type: script, params: { run: 'test \"$BERTH_COMMIT\" != bad1111' } }]
",
        )
        .await;
    let (_, elsewhere) = fixture.claim("aaa1111").await;
    fixture.wait_for_success(&elsewhere).await;
    // Records that a deployment succeeded in this stage although it never ran there. So a rollback to it has no plan.
    let pipeline: PipelineId = id(&fixture.fetch("/pipelines/shop").await).parse().unwrap();
    let deployment = elsewhere.parse().unwrap();
    let context = TxContext::system(Some(acme_org_id(&fixture.world).await));
    let noted = fixture.world.app.store().transact(context, move |tx| {
        let end = StageEnd {
            pipeline,
            stage: "production".into(),
            deployment,
            tries: 1,
            is_success: true,
            at: tx.now(),
            origin: deployment,
            rolled_back: None,
            committed_at: None,
            is_last: true,
        };
        let current = Some((deployment, tx.now()));
        let stage = Stage { pipeline, name: "production".into(), version: 1, current, pause: None };
        tx.commit(RuleDecision {
            changes: vec![
                RecordChange::Put(DomainRecord::Stage(Box::new(stage))),
                RecordChange::Put(DomainRecord::StageEnd(Box::new(end))),
            ],
            events: vec![NewEvent::new(
                EventKind::PipelineUpdated,
                EventSubject::new("pipeline", pipeline, None),
            )],
            ..RuleDecision::without_changes(())
        })
    });
    noted.await.unwrap();
    let bad = fixture.start_deployment("bad1111").await;
    let ended = fixture.wait_for_end(&bad).await;
    assert_eq!((&ended["status"], &ended["cause"]), (&json!("failed"), &json!("step_failed")));
    let detail = ended["detail"].as_str().unwrap();
    assert!(detail.ends_with("it was not rolled back: internal error"), "{detail}");
    assert!(!detail.contains(&elsewhere), "{detail}");
    let told = fixture.fetch("/events?kind=rollback_skipped").await;
    assert_eq!(told[0]["data"]["stage"], "production", "{told}");
    fixture.shut_down().await;
}
