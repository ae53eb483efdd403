//! Rollbacks combined with approvals, soaks, bypasses and artifacts of earlier stages.

use berth_core::decision::{DomainRecord, RecordChange, RuleDecision};
use berth_core::deployment::stages::stage::{Stage, StageEnd};
use berth_core::event::{EventKind, EventSubject, NewEvent};
use berth_core::id::PipelineId;
use berth_store::TxContext;
use expect_test::expect;
use serde_json::{Value, json};

use super::rollback::id;
use super::{Harbour, data, story};
use crate::history::org;
use crate::world::Account;

impl Harbour {
    async fn approved(&self, id: &str, who: &[&Account]) {
        let asked = self.asked(id).await;
        for who in who {
            let reply = self.approve(&asked, who).await;
            assert_eq!(reply.status, 200, "{}", reply.text);
        }
    }

    async fn succeeds(&self, id: &str) -> Value {
        let ended = self.end_of(id).await;
        assert_eq!(ended["status"], "succeeded", "{ended}");
        ended
    }

    /// Deploys, bypasses all gates, and waits for success.
    async fn bypassing(&self, commit: &str) -> String {
        let body = json!({"commitId": commit, "bypass": {"reason": "the shop is down"}});
        let started = id(&data(&self.post("/pipelines/shop/deployments", &body).await, 202));
        self.succeeds(&started).await;
        started
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn current_deployment_of_a_stage_is_the_last_one_that_entered() {
    let harbour = Harbour::open().await;
    let (ada, bob) = (harbour.ada(), harbour.world.member("bob@acme.test", "deployer").await);
    let down = harbour.file("down");
    harbour
        .pipeline(&format!(
            "  stages: [{{ name: production, requires: {{ approvals: 2 }} }}]
  steps: [{{ name: Deploy, type: script, params: {{ run: 'test ! -e {down}' }} }}]
"
        ))
        .await;
    let older = harbour.start("aaa1111").await;
    let half = harbour.asked(&older).await;
    assert_eq!(harbour.approve(&half, &bob).await.status, 200);
    let newer = harbour.start("bbb2222").await;
    harbour.approved(&newer, &[ada, &bob]).await;
    harbour.succeeds(&newer).await;
    std::fs::write(&down, "").unwrap();
    assert_eq!(harbour.approve(&half, ada).await.status, 200);
    assert_eq!(harbour.end_of(&older).await["status"], "failed");

    let refused = harbour.roll_back(&newer, &json!({})).await;
    refused.is(409, "invalid_state");
    let detail = refused.body["detail"].as_str().unwrap();
    assert!(detail.contains("#1 has since been deployed to this stage"), "{detail}");
    std::fs::remove_file(&down).unwrap();
    let retry = harbour.post(&format!("/deployments/{older}/stages/production/retry"), &json!({})).await;
    assert_eq!(retry.status, 200, "{}", retry.text);
    harbour.succeeds(&older).await;
    let back = data(&harbour.roll_back(&older, &json!({})).await, 202);
    assert_eq!(back["rollback"]["to"], json!(newer));
    harbour.succeeds(&id(&back)).await;
    harbour.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rollback_skips_approval_and_soak_steps() {
    let harbour = Harbour::open().await;
    harbour
        .pipeline(
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
        let id = harbour.start(commit).await;
        harbour.approved(&id, &[harbour.ada()]).await;
        let soaks = harbour.until(&id, |it| it["blockedBy"][0]["kind"] == "soak").await;
        let step = soaks["stages"][0]["steps"][2]["id"].as_str().unwrap().to_owned();
        let path = format!("/deployments/{id}/steps/{step}/end-soak");
        assert_eq!(harbour.post(&path, &json!({})).await.status, 200);
        harbour.succeeds(&id).await;
        done.push(id);
    }
    let back = id(&data(&harbour.roll_back(&done[2], &json!({})).await, 202));
    expect![[r#"
        succeeded
        production: succeeded
          ask skipped
          deploy succeeded
          soak skipped
          after succeeded
    "#]]
    .assert_eq(&story(&harbour.end_of(&back).await));
    // Rolls back to an older deployment, and then forward to the earlier rollback.
    let forth = id(&data(&harbour.roll_back(&back, &json!({"to": done[0]})).await, 202));
    harbour.succeeds(&forth).await;
    let again = id(&data(&harbour.roll_back(&forth, &json!({"to": back})).await, 202));
    harbour.succeeds(&again).await;
    harbour.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rollback_to_a_bypassed_deployment_needs_approval() {
    let harbour = Harbour::open().await;
    harbour
        .pipeline(
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
    let (first, second) = (harbour.bypassing("aaa1111").await, harbour.bypassing("bbb2222").await);
    let back = id(&data(&harbour.roll_back(&second, &json!({})).await, 202));
    let asked = harbour.asked(&back).await;
    assert_eq!((&asked["stage"], &asked["stepId"]), (&json!("production"), &Value::Null), "{asked}");
    assert_eq!(harbour.approve(&asked, harbour.ada()).await.status, 200);
    let inside = harbour.until(&back, |it| it["stages"][0]["tries"] == 1).await;
    assert_eq!(inside["stages"][0]["steps"][0]["status"], "waiting", "the window does not hold it: {inside}");
    harbour.approved(&back, &[harbour.ada()]).await;
    harbour.succeeds(&back).await;
    // Rolling forward to `second` needs approvals too, because it was deployed with a bypass. Rolling back to `back`
    // again needs none, because its commit has been approved.
    let forth = id(&data(&harbour.roll_back(&back, &json!({"to": second})).await, 202));
    harbour.approved(&forth, &[harbour.ada()]).await;
    harbour.until(&forth, |it| it["stages"][0]["tries"] == 1).await;
    harbour.approved(&forth, &[harbour.ada()]).await;
    harbour.succeeds(&forth).await;
    let again = data(&harbour.roll_back(&forth, &json!({"to": back})).await, 202);
    assert_eq!(again["commitId"], "aaa1111", "what {first} brought");
    harbour.succeeds(&id(&again)).await;
    harbour.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rollback_uses_artifacts_of_earlier_stages() {
    let harbour = Harbour::open().await;
    let seen = harbour.file("seen");
    harbour
        .pipeline(&format!(
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
    harbour.deployed("aaa1111").await;
    let second = harbour.deployed("bbb2222").await;
    let third = harbour.deployed("ccc3333").await;
    let before = harbour.written("seen");
    assert!(before.ends_with("production: ccc3333 of staging\nabroad: ccc3333 of abroad\n"), "{before}");
    let back = id(&data(&harbour.roll_back(&third, &json!({})).await, 202));
    harbour.succeeds(&back).await;
    assert_eq!(harbour.written("seen"), format!("{before}production: bbb2222 of staging\n"));
    // A rollback to the first rollback also uses the artifact of the second deployment.
    let forth = id(&data(&harbour.roll_back(&back, &json!({"to": third})).await, 202));
    harbour.succeeds(&forth).await;
    let again = data(&harbour.roll_back(&forth, &json!({"to": back})).await, 202);
    harbour.succeeds(&id(&again)).await;
    let wanted =
        ["bbb2222", "ccc3333", "bbb2222"].map(|it| format!("production: {it} of staging\n")).concat();
    assert_eq!(harbour.written("seen"), format!("{before}{wanted}"), "{second}");
    harbour.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn failed_stage_ends_even_if_its_rollback_cannot_be_planned() {
    let harbour = Harbour::open().await;
    harbour
        .pipeline(
            "  stages: [{ name: production, on_failure: rollback }]
  ephemeral_environments: { qa-1: {} }
  steps: [{ name: Deploy, type: script, params: { run: 'test \"$BERTH_COMMIT\" != bad1111' } }]
",
        )
        .await;
    let (_, elsewhere) = harbour.claim("aaa1111").await;
    harbour.succeeds(&elsewhere).await;
    // Records that a deployment succeeded in this stage although it never ran there. So a rollback to it has no plan.
    let pipeline: PipelineId = id(&harbour.see("/pipelines/shop").await).parse().unwrap();
    let deployment = elsewhere.parse().unwrap();
    let context = TxContext::system(Some(org(&harbour.world).await));
    let noted = harbour.world.app.store().transact(context, move |tx| {
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
    let bad = harbour.start("bad1111").await;
    let ended = harbour.end_of(&bad).await;
    assert_eq!((&ended["status"], &ended["cause"]), (&json!("failed"), &json!("step_failed")));
    let detail = ended["detail"].as_str().unwrap();
    assert!(detail.ends_with("it was not rolled back: internal error"), "{detail}");
    assert!(!detail.contains(&elsewhere), "{detail}");
    let told = harbour.see("/events?kind=rollback_skipped").await;
    assert_eq!(told[0]["data"]["stage"], "production", "{told}");
    harbour.close().await;
}
