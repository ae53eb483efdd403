//! Approvals are counted when the stage or step is granted. Votes of members who have left by then, or have too low a
//! role, do not count.

use serde_json::{Value, json};

use super::{Harbour, ORG, PATIENCE, data};
use crate::world::{Account, POLL_EVERY, call};

impl Harbour {
    /// The user id of a member.
    async fn user(&self, who: &Account) -> String {
        let members = self.see("/members?limit=100").await;
        let found = members.as_array().unwrap().iter().find(|it| it["email"] == who.email.as_str());
        found.unwrap()["id"].as_str().unwrap().to_owned()
    }

    async fn remove(&self, who: &Account) {
        let path = format!("/members/{}", self.user(who).await);
        let gone = self.delete(&path).await;
        assert!(gone.status.is_success(), "{}", gone.text);
    }

    async fn make(&self, who: &Account, role: &str) {
        let path = format!("{ORG}/members/{}", self.user(who).await);
        let made = self.send(call("PATCH", &path).by(self.ada()).json(&json!({"role": role}))).await;
        assert_eq!(made.status, 200, "{}", made.text);
    }

    async fn look(&self, approval: &Value) -> Value {
        self.see(&format!("/approvals/{}", approval["id"].as_str().unwrap())).await
    }

    /// Waits for the pending approval that replaced the given one, and returns it.
    async fn asked_after(&self, approval: &Value) -> Value {
        let path = format!("/approvals?deployment={}", approval["deploymentId"].as_str().unwrap());
        let deadline = std::time::Instant::now() + PATIENCE;
        loop {
            let open = self.see(&path).await;
            if open[0]["id"].is_string() && open[0]["id"] != approval["id"] {
                return open[0].clone();
            }
            assert!(std::time::Instant::now() < deadline, "{open}");
            tokio::time::sleep(POLL_EVERY).await;
        }
    }
}

fn stage(rest: &str, steps: &str) -> String {
    format!("  stages:\n    - name: production\n{rest}  steps:\n{steps}")
}

const DEPLOY: &str = "    - { name: Deploy, type: script, params: { run: 'true' } }\n";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn votes_of_members_who_left_or_were_demoted_do_not_count() {
    let harbour = Harbour::open().await;
    let bob = harbour.world.member("bob@acme.test", "deployer").await;
    let carol = harbour.world.member("carol@acme.test", "deployer").await;
    let dora = harbour.world.member("dora@acme.test", "deployer").await;
    harbour.pipeline(&stage("      requires: { approvals: 2 }\n", DEPLOY)).await;
    let id = harbour.start("4f2a1c9").await;
    let asked = harbour.asked(&id).await;
    assert_eq!(data(&harbour.approve(&asked, &bob).await, 200)["given"], 1);
    harbour.remove(&bob).await;
    let now = harbour.look(&asked).await;
    assert_eq!((&now["given"], &now["votes"][0]["counts"]), (&json!(0), &json!(false)), "{now}");
    let blocked = harbour.see(&format!("/deployments/{id}")).await["blockedBy"][0].clone();
    assert_eq!(blocked["detail"], "stage \"production\" needs 2 approvals; 0 so far");

    // Only Carol's approval counts, and two are required.
    let said = data(&harbour.approve(&asked, &carol).await, 200);
    assert_eq!((&said["status"], &said["given"]), (&json!("pending"), &json!(1)), "{said}");
    harbour.make(&carol, "viewer").await;
    let said = data(&harbour.approve(&asked, &dora).await, 200);
    assert_eq!((&said["status"], &said["given"]), (&json!("pending"), &json!(1)), "{said}");

    // Carol becomes a deployer again, so her approval counts again and there are enough approvals.
    harbour.make(&carol, "deployer").await;
    assert_eq!(harbour.end_of(&id).await["status"], "succeeded");
    let granted = harbour.look(&asked).await;
    assert_eq!((&granted["status"], &granted["given"]), (&json!("approved"), &json!(2)), "{granted}");
    let counts: Vec<_> = granted["votes"].as_array().unwrap().iter().map(|it| it["counts"].clone()).collect();
    assert_eq!(counts, [json!(false), json!(true), json!(true)]);
    harbour.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn approval_is_requested_again_when_an_approver_leaves_before_the_window() {
    let harbour = Harbour::open().await;
    let bob = harbour.world.member("bob@acme.test", "deployer").await;
    let shut = "      requires: { approvals: 1, from: [deployer] }
      window: { timezone: UTC, except: [2020-01-01/2199-12-31] }\n";
    harbour.pipeline(&stage(shut, DEPLOY)).await;
    let id = harbour.start("4f2a1c9").await;
    let asked = harbour.asked(&id).await;
    assert_eq!(data(&harbour.approve(&asked, &bob).await, 200)["status"], "approved");
    harbour.until(&id, |it| it["blockedBy"][0]["kind"] == "window").await;
    harbour.remove(&bob).await;
    let again = harbour.asked_after(&asked).await;
    assert_eq!((&again["given"], &again["required"]), (&json!(0), &json!(1)), "{again}");
    assert_eq!(harbour.look(&asked).await["lapsedBecause"], "changed");
    harbour.close().await;
}

/// Enters an approved stage that begins with an approval step, and then removes the member who approved the stage.
async fn enter_stage(harbour: &Harbour) -> (String, Value, Value) {
    let steps = format!("    - {{ name: Ask, type: approval, params: {{ from: [owner] }} }}\n{DEPLOY}");
    harbour.pipeline(&stage("      requires: { approvals: 1 }\n", &steps)).await;
    let bob = harbour.world.member("bob@acme.test", "deployer").await;
    let id = harbour.start("4f2a1c9").await;
    let asked = harbour.asked(&id).await;
    assert_eq!(harbour.approve(&asked, &bob).await.status, 200);
    let step = harbour.asked_after(&asked).await;
    assert!(step["stepId"].is_string(), "{step}");
    harbour.remove(&bob).await;
    assert_eq!(harbour.approve(&step, harbour.ada()).await.status, 200);
    // The stage must be approved again, because none of its steps has started and its approver is no longer a member.
    let again = harbour.asked_after(&step).await;
    assert_eq!(again["stepId"], json!(null), "{again}");
    assert_eq!(harbour.look(&asked).await["lapsedBecause"], "changed");
    (id, asked, again)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn approval_is_requested_again_when_an_approver_leaves_before_the_first_step() {
    let harbour = Harbour::open().await;
    let (id, _, again) = enter_stage(&harbour).await;
    let waits = harbour.until(&id, |it| it["status"] == "waiting").await;
    assert_eq!(waits["blockedBy"][0]["kind"], "approval", "{waits}");
    assert_eq!(harbour.approve(&again, harbour.ada()).await.status, 200);
    assert_eq!(harbour.end_of(&id).await["status"], "succeeded");
    harbour.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rejection_of_an_entered_stage_fails_it_before_its_first_step() {
    let harbour = Harbour::open().await;
    let (id, _, again) = enter_stage(&harbour).await;
    let path = format!("/approvals/{}/reject", again["id"].as_str().unwrap());
    assert_eq!(harbour.post(&path, &json!({"reason": "not now"})).await.status, 200);
    let ended = harbour.end_of(&id).await;
    assert_eq!(
        (&ended["status"], &ended["cause"]),
        (&json!("failed"), &json!("approval_rejected")),
        "{ended}"
    );
    assert_eq!(ended["stages"][0]["steps"][1]["status"], "skipped", "{ended}");
    harbour.close().await;
}
