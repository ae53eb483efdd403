//! Rollback among approvals, soaks, bypass and artifacts of earlier stages.

use serde_json::{Value, json};

use super::rollback::id;
use super::{Harbour, data};
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
