//! Stages that require approvals.

use expect_test::expect;
use serde_json::{Value, json};

use super::{ORG, PipelineFixture, expect_data, format_outcome};
use crate::git::OriginRepository;
use crate::world::{MemberAccount, TestResponse, get, post};

/// A definition with two stages: staging has no gate, and production requires approval by this rule.
fn gated_definition(rule: &str, run: &str) -> String {
    format!(
        "  stages:
    - name: staging
    - name: production
      requires: {rule}
  steps:
    - name: Deploy
      type: script
      params: {{ run: '{run}' }}
"
    )
}

impl PipelineFixture {
    /// Waits for the deployment's pending approval and returns it.
    pub(super) async fn wait_for_approval(&self, deployment: &str) -> Value {
        let is_asked = |it: &Value| {
            let cleared_by = it["blockedBy"][0]["clearedBy"].as_str().unwrap_or_default();
            it["status"] == "waiting" && cleared_by.contains("apr_")
        };
        self.wait_until(deployment, is_asked).await;
        let open = self.fetch(&format!("/approvals?deployment={deployment}")).await;
        assert_eq!(open.as_array().map(Vec::len), Some(1), "{open}");
        open[0].clone()
    }

    pub(super) async fn approve(&self, approval: &Value, who: &MemberAccount) -> TestResponse {
        self.send_decision(approval, "approve", &json!({}), &who.token).await
    }

    async fn send_decision(&self, approval: &Value, verb: &str, body: &Value, token: &str) -> TestResponse {
        let path = format!("{ORG}/approvals/{}/{verb}", approval["id"].as_str().unwrap());
        self.send(post(&path).token(token).json(body)).await
    }

    async fn load_approval(&self, approval: &Value) -> Value {
        self.fetch(&format!("/approvals/{}", approval["id"].as_str().unwrap())).await
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stage_starts_once_enough_people_have_approved() {
    let fixture = PipelineFixture::start().await;
    let (ledger, world) = (fixture.file_path("ledger"), &fixture.world);
    let bob = world.create_member("bob@acme.test", "deployer").await;
    let vera = world.create_member("vera@acme.test", "viewer").await;
    let (_, ci) = world.create_service_account("ci@acme.test", "deployer").await;
    let run = format!("echo $BERTH_STAGE >> {ledger}");
    fixture.create_pipeline(&gated_definition("{ approvals: 2, timeout: 24h }", &run)).await;
    let id = fixture.start_deployment("4f2a1c9").await;
    let asked = fixture.wait_for_approval(&id).await;
    let waits = fixture.fetch(&format!("/deployments/{id}")).await;
    expect![[r#"
        waiting
        staging: succeeded
          deploy succeeded
        production: waiting
          deploy pending
    "#]]
    .assert_eq(&format_outcome(&waits));
    assert_eq!(waits["blockedBy"][0]["clearsAt"], asked["expiresAt"], "{waits}");
    assert_eq!(waits["blockedBy"][0]["detail"], "stage \"production\" needs 2 approvals; 0 so far");
    assert!(asked["digest"].as_str().unwrap().starts_with("sha256:"), "{asked}");

    fixture.approve(&asked, &vera).await.assert_problem(403, "forbidden");
    let first = fixture
        .send_decision(&asked, "approve", &json!({"comment": "looks fine"}), &fixture.ada().token)
        .await;
    assert_eq!(expect_data(&first, 200)["given"], 1);
    fixture.approve(&asked, fixture.ada()).await.assert_problem(409, "already_voted");
    let second =
        post(&format!("{ORG}/api-tokens")).with_account(fixture.ada()).json(&json!({"name": "second"}));
    let second = expect_data(&fixture.send(second).await, 201)["token"].as_str().unwrap().to_owned();
    fixture.send_decision(&asked, "approve", &json!({}), &second).await.assert_problem(409, "already_voted");
    fixture.send_decision(&asked, "approve", &json!({}), &ci).await.assert_problem(403, "not_eligible");
    assert_eq!(fixture.read_file("ledger"), "staging\n");

    let enough = expect_data(&fixture.approve(&asked, &bob).await, 200);
    assert_eq!((&enough["status"], &enough["given"]), (&json!("approved"), &json!(2)));
    assert_eq!(enough["votes"][0]["comment"], "looks fine");
    assert_eq!(fixture.wait_for_end(&id).await["status"], "succeeded");
    assert_eq!(fixture.read_file("ledger"), "staging\nproduction\n");
    fixture
        .send_decision(&asked, "reject", &json!({}), &bob.token)
        .await
        .assert_problem(409, "approval_ended");
    assert_eq!(fixture.fetch("/approvals").await, json!([]));
    assert_eq!(fixture.fetch("/approvals?status=approved").await[0]["id"], asked["id"]);
    let kinds = fixture.world.event_kinds().await;
    for kind in ["approval_requested", "approval_voted", "approval_approved", "access_denied"] {
        assert!(kinds.iter().any(|it| it == kind), "{kind} is not in {kinds:?}");
    }
    let number = &fixture.fetch(&format!("/deployments/{id}")).await["number"];
    assert!(number.is_i64(), "{number}");
    for kind in ["approval_requested", "approval_voted", "approval_approved"] {
        let told = fixture.fetch(&format!("/events?kind={kind}")).await;
        assert_eq!(&told[0]["data"]["number"], number, "{told}");
    }
    fixture.shut_down().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rejection_fails_the_stage_and_a_retry_asks_again() {
    let fixture = PipelineFixture::start().await;
    fixture.create_pipeline(&gated_definition("{ approvals: 1 }", "true")).await;
    let id = fixture.start_deployment("4f2a1c9").await;
    let asked = fixture.wait_for_approval(&id).await;
    let no = fixture
        .send_decision(&asked, "reject", &json!({"reason": "not on a Friday"}), &fixture.ada().token)
        .await;
    assert_eq!(expect_data(&no, 200)["status"], "rejected");
    let ended = fixture.wait_for_end(&id).await;
    expect![[r#"
        failed (approval_rejected)
        staging: succeeded
          deploy succeeded
        production: failed (approval_rejected)
          deploy skipped
    "#]]
    .assert_eq(&format_outcome(&ended));
    assert_eq!(ended["detail"], "rejected by ada: not on a Friday");
    fixture.approve(&asked, fixture.ada()).await.assert_problem(409, "approval_ended");

    let retry = format!("/deployments/{id}/stages/production/retry");
    assert_eq!(fixture.post(&retry, &json!({})).await.status, 200);
    let again = fixture.wait_for_approval(&id).await;
    assert_ne!(again["id"], asked["id"]);
    // The approval requested for the earlier try can no longer be answered.
    fixture
        .send_decision(&asked, "reject", &json!({}), &fixture.ada().token)
        .await
        .assert_problem(409, "approval_ended");
    assert_eq!(fixture.approve(&again, fixture.ada()).await.status, 200);
    assert_eq!(fixture.wait_for_end(&id).await["status"], "succeeded");
    fixture.shut_down().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn approval_expires_after_its_timeout() {
    let fixture = PipelineFixture::start().await;
    fixture.create_pipeline(&gated_definition("{ timeout: 1s }", "true")).await;
    let id = fixture.start_deployment("4f2a1c9").await;
    let ended = fixture.wait_for_end(&id).await;
    assert_eq!((&ended["status"], &ended["cause"]), (&json!("failed"), &json!("approval_expired")));
    assert_eq!(ended["detail"], "0 of 1 people approved in time");
    let late = fixture.fetch("/approvals?status=expired").await[0].clone();
    fixture.approve(&late, fixture.ada()).await.assert_problem(409, "approval_ended");
    fixture.shut_down().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn self_approval_false_excludes_people_who_started_or_retried() {
    let fixture = PipelineFixture::start().await;
    let (fixed, world) = (fixture.file_path("fixed"), &fixture.world);
    let bob = world.create_member("bob@acme.test", "deployer").await;
    let carol = world.create_member("carol@acme.test", "deployer").await;
    let (_, ci) = world.create_service_account("ci@acme.test", "deployer").await;
    let run = format!("test $BERTH_STAGE = staging || test -e {fixed}");
    fixture.create_pipeline(&gated_definition("{ self_approval: false }", &run)).await;
    let id = fixture.start_deployment("4f2a1c9").await;
    let asked = fixture.wait_for_approval(&id).await;
    fixture.approve(&asked, fixture.ada()).await.assert_problem(403, "not_eligible");
    fixture.send_decision(&asked, "approve", &json!({}), &ci).await.assert_problem(403, "not_eligible");
    assert_eq!(fixture.approve(&asked, &bob).await.status, 200);
    assert_eq!(fixture.wait_for_end(&id).await["cause"], "step_failed");

    // After a retry by Carol, who did not approve, Bob's approval stays valid. After a retry by Bob himself, it is
    // invalid.
    let path = format!("{ORG}/deployments/{id}/stages/production/retry");
    assert_eq!(fixture.send(post(&path).with_account(&carol)).await.status, 200);
    assert_eq!(fixture.wait_for_end(&id).await["cause"], "step_failed");
    assert_eq!(fixture.load_approval(&asked).await["status"], "approved");
    std::fs::write(&fixed, "").unwrap();
    assert_eq!(fixture.send(post(&path).with_account(&bob)).await.status, 200);
    let again = fixture.wait_for_approval(&id).await;
    assert_eq!(fixture.load_approval(&asked).await["lapsedBecause"], "changed");
    for who in [fixture.ada(), &bob, &carol] {
        fixture.approve(&again, who).await.assert_problem(403, "not_eligible");
    }
    let dora = fixture.world.create_member("dora@acme.test", "deployer").await;
    assert_eq!(fixture.approve(&again, &dora).await.status, 200);
    assert_eq!(fixture.wait_for_end(&id).await["status"], "succeeded");
    fixture.shut_down().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn self_approval_false_excludes_the_author_of_the_commit() {
    let fixture = PipelineFixture::start().await;
    let bob = fixture.world.create_member("bob@acme.test", "deployer").await;
    let carol = fixture.world.create_member("carol@acme.test", "deployer").await;
    let origin = OriginRepository::new();
    let body = gated_definition("{ self_approval: false }", "true");
    origin.write(
        ".berth/shop/pipeline.yaml",
        &format!("version: 1\npipeline:\n  name: Shop\n  tracks: main\n{body}"),
    );
    origin.git(&["add", "--all"]);
    origin.git(&["commit", "--quiet", "--author", "Bob <Bob@Acme.Test>", "-m", "by Bob"]);
    assert_eq!(fixture.post("/repositories", &json!({"url": origin.url().as_str()})).await.status, 201);
    let pushed = fixture.wait_for_first_deployment().await;
    let asked = fixture.wait_for_approval(&pushed).await;
    fixture.approve(&asked, &bob).await.assert_problem(403, "not_eligible");
    assert_eq!(fixture.approve(&asked, &carol).await.status, 200);
    assert_eq!(fixture.wait_for_end(&pushed).await["status"], "succeeded");
    fixture.shut_down().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn approval_rule_names_roles_or_people() {
    let fixture = PipelineFixture::start().await;
    let bob = fixture.world.create_member("bob@acme.test", "deployer").await;
    let carol = fixture.world.create_member("carol@acme.test", "deployer").await;
    let admin = fixture.world.create_member("root@acme.test", "admin").await;
    fixture
        .create_pipeline(&gated_definition("{ approvals: 2, from: [admin, Bob@acme.test] }", "true"))
        .await;
    let id = fixture.start_deployment("4f2a1c9").await;
    let asked = fixture.wait_for_approval(&id).await;
    let refused = fixture.approve(&asked, &carol).await;
    refused.assert_problem(403, "not_eligible");
    assert!(refused.text.contains("admin, Bob@acme.test"), "{}", refused.text);
    assert_eq!(fixture.approve(&asked, &bob).await.status, 200);
    assert_eq!(fixture.approve(&asked, &admin).await.status, 200);
    assert_eq!(fixture.wait_for_end(&id).await["status"], "succeeded");
    fixture.shut_down().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_votes_count_once_each() {
    let fixture = PipelineFixture::start().await;
    let mut people = vec![fixture.ada().clone()];
    for number in 0..5 {
        people.push(fixture.world.create_member(&format!("p{number}@acme.test"), "deployer").await);
    }
    fixture.create_pipeline(&gated_definition("{ approvals: 3 }", "true")).await;
    let id = fixture.start_deployment("4f2a1c9").await;
    let asked = fixture.wait_for_approval(&id).await;
    let twice = people.iter().chain(&people);
    let said = futures_util::future::join_all(twice.map(|who| fixture.approve(&asked, who))).await;
    let counted = said.iter().filter(|reply| reply.status == 200).count();
    assert_eq!(counted, 3, "{:?}", said.iter().map(|reply| reply.text.clone()).collect::<Vec<_>>());
    assert!(said.iter().all(|reply| [200, 409].contains(&reply.status.as_u16())));
    let approved = fixture.load_approval(&asked).await;
    assert_eq!((&approved["status"], approved["votes"].as_array().unwrap().len()), (&json!("approved"), 3));
    assert_eq!(fixture.wait_for_end(&id).await["status"], "succeeded");
    fixture.shut_down().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn newer_deployment_supersedes_only_one_without_approvals() {
    let fixture = PipelineFixture::start().await;
    let bob = fixture.world.create_member("bob@acme.test", "deployer").await;
    fixture.create_pipeline(&gated_definition("{ approvals: 2 }", "true")).await;
    let first = fixture.start_deployment("aaa1111").await;
    let unanswered = fixture.wait_for_approval(&first).await;
    let second = fixture.start_deployment("bbb2222").await;
    let asked = fixture.wait_for_approval(&second).await;
    assert_eq!(fixture.wait_for_end(&first).await["supersededBy"], json!(second));
    assert_eq!(fixture.load_approval(&unanswered).await["lapsedBecause"], "over");
    fixture.approve(&unanswered, &bob).await.assert_problem(409, "approval_ended");

    assert_eq!(fixture.approve(&asked, &bob).await.status, 200);
    let third = fixture.start_deployment("ccc3333").await;
    fixture.wait_for_approval(&third).await;
    assert_eq!(fixture.fetch(&format!("/deployments/{second}")).await["status"], "waiting");
    assert_eq!(fixture.approve(&asked, fixture.ada()).await.status, 200);
    assert_eq!(fixture.wait_for_end(&second).await["status"], "succeeded");
    let cancelled = fixture.post(&format!("/deployments/{third}/cancel"), &json!({})).await;
    assert_eq!(expect_data(&cancelled, 200)["status"], "cancelled");
    assert_eq!(fixture.fetch("/approvals").await, json!([]));
    fixture.shut_down().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn approval_that_is_unknown_is_not_found_and_filters_are_checked() {
    let fixture = PipelineFixture::start().await;
    for (path, status, code) in [
        ("/approvals/apr_00000000000000000000000000", 404, "not_found"),
        ("/approvals/nonsense", 404, "not_found"),
        ("/approvals?status=done", 400, "invalid_parameter"),
        ("/approvals?deployment=shop", 400, "invalid_parameter"),
    ] {
        fixture
            .send(get(&format!("{ORG}{path}")).with_account(fixture.ada()))
            .await
            .assert_problem(status, code);
    }
    fixture.shut_down().await;
}
