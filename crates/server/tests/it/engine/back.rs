//! Rollback among approvals, soaks, bypass and artifacts of earlier stages.

use expect_test::expect;
use serde_json::{Value, json};

use super::rollback::id;
use super::{Harbour, data, story};
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
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_last_in_a_stage_is_who_entered_last_whatever_the_numbers_say() {
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
    assert!(detail.contains("#1 has been in this stage since"), "{detail}");
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
async fn a_rollback_neither_asks_again_nor_soaks() {
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
    // Forth, and back to what a rollback has left.
    let forth = id(&data(&harbour.roll_back(&back, &json!({"to": done[0]})).await, 202));
    harbour.succeeds(&forth).await;
    let again = id(&data(&harbour.roll_back(&forth, &json!({"to": back})).await, 202));
    harbour.succeeds(&again).await;
    harbour.close().await;
}
