//! Approvals are counted when the stage or step is granted. Votes of members who have left by then, or have too low a
//! role, do not count.

use serde_json::{Value, json};

use super::{ORG, PATIENCE, PipelineFixture, expect_data};
use crate::world::{MemberAccount, POLL_EVERY, call};

impl PipelineFixture {
    /// The user id of a member.
    async fn user_id(&self, who: &MemberAccount) -> String {
        let members = self.fetch("/members?limit=100").await;
        let found = members.as_array().unwrap().iter().find(|it| it["email"] == who.email.as_str());
        found.unwrap()["id"].as_str().unwrap().to_owned()
    }

    async fn remove_member(&self, who: &MemberAccount) {
        let path = format!("/members/{}", self.user_id(who).await);
        let gone = self.delete(&path).await;
        assert!(gone.status.is_success(), "{}", gone.text);
    }

    async fn set_role(&self, who: &MemberAccount, role: &str) {
        let path = format!("{ORG}/members/{}", self.user_id(who).await);
        let made =
            self.send(call("PATCH", &path).with_account(self.ada()).json(&json!({"role": role}))).await;
        assert_eq!(made.status, 200, "{}", made.text);
    }

    async fn view_approval(&self, approval: &Value) -> Value {
        self.fetch(&format!("/approvals/{}", approval["id"].as_str().unwrap())).await
    }

    /// Waits for the pending approval that replaced the given one, and returns it.
    async fn wait_for_next_approval(&self, approval: &Value) -> Value {
        let path = format!("/approvals?deployment={}", approval["deploymentId"].as_str().unwrap());
        let deadline = std::time::Instant::now() + PATIENCE;
        loop {
            let open = self.fetch(&path).await;
            if open[0]["id"].is_string() && open[0]["id"] != approval["id"] {
                return open[0].clone();
            }
            assert!(std::time::Instant::now() < deadline, "{open}");
            tokio::time::sleep(POLL_EVERY).await;
        }
    }
}

fn stage_definition(rest: &str, steps: &str) -> String {
    format!("  stages:\n    - name: production\n{rest}  steps:\n{steps}")
}

const DEPLOY: &str = "    - { name: Deploy, type: script, params: { run: 'true' } }\n";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn votes_of_members_who_left_or_were_demoted_do_not_count() {
    let fixture = PipelineFixture::start().await;
    let bob = fixture.world.create_member("bob@acme.test", "deployer").await;
    let carol = fixture.world.create_member("carol@acme.test", "deployer").await;
    let dora = fixture.world.create_member("dora@acme.test", "deployer").await;
    fixture.create_pipeline(&stage_definition("      requires: { approvals: 2 }\n", DEPLOY)).await;
    let id = fixture.start_deployment("4f2a1c9").await;
    let asked = fixture.wait_for_approval(&id).await;
    assert_eq!(expect_data(&fixture.approve(&asked, &bob).await, 200)["given"], 1);
    fixture.remove_member(&bob).await;
    let now = fixture.view_approval(&asked).await;
    assert_eq!((&now["given"], &now["votes"][0]["counts"]), (&json!(0), &json!(false)), "{now}");
    let blocked = fixture.fetch(&format!("/deployments/{id}")).await["blockedBy"][0].clone();
    assert_eq!(blocked["detail"], "stage \"production\" needs 2 approvals; 0 so far");

    // Only Carol's approval counts, and two are required.
    let said = expect_data(&fixture.approve(&asked, &carol).await, 200);
    assert_eq!((&said["status"], &said["given"]), (&json!("pending"), &json!(1)), "{said}");
    fixture.set_role(&carol, "viewer").await;
    let said = expect_data(&fixture.approve(&asked, &dora).await, 200);
    assert_eq!((&said["status"], &said["given"]), (&json!("pending"), &json!(1)), "{said}");

    // Carol becomes a deployer again, so her approval counts again and there are enough approvals.
    fixture.set_role(&carol, "deployer").await;
    assert_eq!(fixture.wait_for_end(&id).await["status"], "succeeded");
    let granted = fixture.view_approval(&asked).await;
    assert_eq!((&granted["status"], &granted["given"]), (&json!("approved"), &json!(2)), "{granted}");
    let counts: Vec<_> = granted["votes"].as_array().unwrap().iter().map(|it| it["counts"].clone()).collect();
    assert_eq!(counts, [json!(false), json!(true), json!(true)]);
    fixture.shut_down().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn approval_is_requested_again_when_an_approver_leaves_before_the_window() {
    let fixture = PipelineFixture::start().await;
    let bob = fixture.world.create_member("bob@acme.test", "deployer").await;
    let shut = "      requires: { approvals: 1, from: [deployer] }
      window: { timezone: UTC, except: [2020-01-01/2199-12-31] }\n";
    fixture.create_pipeline(&stage_definition(shut, DEPLOY)).await;
    let id = fixture.start_deployment("4f2a1c9").await;
    let asked = fixture.wait_for_approval(&id).await;
    assert_eq!(expect_data(&fixture.approve(&asked, &bob).await, 200)["status"], "approved");
    fixture.wait_until(&id, |it| it["blockedBy"][0]["kind"] == "window").await;
    fixture.remove_member(&bob).await;
    let again = fixture.wait_for_next_approval(&asked).await;
    assert_eq!((&again["given"], &again["required"]), (&json!(0), &json!(1)), "{again}");
    assert_eq!(fixture.view_approval(&asked).await["lapsedBecause"], "changed");
    fixture.shut_down().await;
}

/// Enters an approved stage that begins with an approval step, and then removes the member who approved the stage.
async fn enter_stage(fixture: &PipelineFixture) -> (String, Value, Value) {
    let steps = format!("    - {{ name: Ask, type: approval, params: {{ from: [owner] }} }}\n{DEPLOY}");
    fixture.create_pipeline(&stage_definition("      requires: { approvals: 1 }\n", &steps)).await;
    let bob = fixture.world.create_member("bob@acme.test", "deployer").await;
    let id = fixture.start_deployment("4f2a1c9").await;
    let asked = fixture.wait_for_approval(&id).await;
    assert_eq!(fixture.approve(&asked, &bob).await.status, 200);
    let step = fixture.wait_for_next_approval(&asked).await;
    assert!(step["stepId"].is_string(), "{step}");
    fixture.remove_member(&bob).await;
    assert_eq!(fixture.approve(&step, fixture.ada()).await.status, 200);
    // The stage must be approved again, because none of its steps has started and its approver is no longer a member.
    let again = fixture.wait_for_next_approval(&step).await;
    assert_eq!(again["stepId"], json!(null), "{again}");
    assert_eq!(fixture.view_approval(&asked).await["lapsedBecause"], "changed");
    (id, asked, again)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn approval_is_requested_again_when_an_approver_leaves_before_the_first_step() {
    let fixture = PipelineFixture::start().await;
    let (id, _, again) = enter_stage(&fixture).await;
    let waits = fixture.wait_until(&id, |it| it["status"] == "waiting").await;
    assert_eq!(waits["blockedBy"][0]["kind"], "approval", "{waits}");
    assert_eq!(fixture.approve(&again, fixture.ada()).await.status, 200);
    assert_eq!(fixture.wait_for_end(&id).await["status"], "succeeded");
    fixture.shut_down().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rejection_of_an_entered_stage_fails_it_before_its_first_step() {
    let fixture = PipelineFixture::start().await;
    let (id, _, again) = enter_stage(&fixture).await;
    let path = format!("/approvals/{}/reject", again["id"].as_str().unwrap());
    assert_eq!(fixture.post(&path, &json!({"reason": "not now"})).await.status, 200);
    let ended = fixture.wait_for_end(&id).await;
    assert_eq!(
        (&ended["status"], &ended["cause"]),
        (&json!("failed"), &json!("approval_rejected")),
        "{ended}"
    );
    assert_eq!(ended["stages"][0]["steps"][1]["status"], "skipped", "{ended}");
    fixture.shut_down().await;
}
