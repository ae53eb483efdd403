//! Stages that require approvals.

use expect_test::expect;
use serde_json::{Value, json};

use super::{Harbour, ORG, data, story};
use crate::git::Origin;
use crate::world::{Account, Reply, get, post};

/// A definition with two stages: staging has no gate, and production requires approval by this rule.
fn gated(rule: &str, run: &str) -> String {
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

impl Harbour {
    /// Waits for the deployment's pending approval and returns it.
    pub(super) async fn asked(&self, deployment: &str) -> Value {
        let is_asked = |it: &Value| {
            let cleared_by = it["blockedBy"][0]["clearedBy"].as_str().unwrap_or_default();
            it["status"] == "waiting" && cleared_by.contains("apr_")
        };
        self.until(deployment, is_asked).await;
        let open = self.see(&format!("/approvals?deployment={deployment}")).await;
        assert_eq!(open.as_array().map(Vec::len), Some(1), "{open}");
        open[0].clone()
    }

    pub(super) async fn approve(&self, approval: &Value, who: &Account) -> Reply {
        self.answer(approval, "approve", &json!({}), &who.token).await
    }

    async fn answer(&self, approval: &Value, word: &str, body: &Value, token: &str) -> Reply {
        let path = format!("{ORG}/approvals/{}/{word}", approval["id"].as_str().unwrap());
        self.send(post(&path).token(token).json(body)).await
    }

    async fn approval(&self, approval: &Value) -> Value {
        self.see(&format!("/approvals/{}", approval["id"].as_str().unwrap())).await
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stage_starts_once_enough_people_have_approved() {
    let harbour = Harbour::open().await;
    let (ledger, world) = (harbour.file("ledger"), &harbour.world);
    let bob = world.member("bob@acme.test", "deployer").await;
    let vera = world.member("vera@acme.test", "viewer").await;
    let (_, ci) = world.service("ci@acme.test", "deployer").await;
    let run = format!("echo $BERTH_STAGE >> {ledger}");
    harbour.pipeline(&gated("{ approvals: 2, timeout: 24h }", &run)).await;
    let id = harbour.start("4f2a1c9").await;
    let asked = harbour.asked(&id).await;
    let waits = harbour.see(&format!("/deployments/{id}")).await;
    expect![[r#"
        waiting
        staging: succeeded
          deploy succeeded
        production: waiting
          deploy pending
    "#]]
    .assert_eq(&story(&waits));
    assert_eq!(waits["blockedBy"][0]["clearsAt"], asked["expiresAt"], "{waits}");
    assert_eq!(waits["blockedBy"][0]["detail"], "stage \"production\" needs 2 approvals; 0 so far");
    assert!(asked["digest"].as_str().unwrap().starts_with("sha256:"), "{asked}");

    harbour.approve(&asked, &vera).await.is(403, "forbidden");
    let first =
        harbour.answer(&asked, "approve", &json!({"comment": "looks fine"}), &harbour.ada().token).await;
    assert_eq!(data(&first, 200)["given"], 1);
    harbour.approve(&asked, harbour.ada()).await.is(409, "already_voted");
    let second = post(&format!("{ORG}/api-tokens")).by(harbour.ada()).json(&json!({"name": "second"}));
    let second = data(&harbour.send(second).await, 201)["token"].as_str().unwrap().to_owned();
    harbour.answer(&asked, "approve", &json!({}), &second).await.is(409, "already_voted");
    harbour.answer(&asked, "approve", &json!({}), &ci).await.is(403, "not_eligible");
    assert_eq!(harbour.written("ledger"), "staging\n");

    let enough = data(&harbour.approve(&asked, &bob).await, 200);
    assert_eq!((&enough["status"], &enough["given"]), (&json!("approved"), &json!(2)));
    assert_eq!(enough["votes"][0]["comment"], "looks fine");
    assert_eq!(harbour.end_of(&id).await["status"], "succeeded");
    assert_eq!(harbour.written("ledger"), "staging\nproduction\n");
    harbour.answer(&asked, "reject", &json!({}), &bob.token).await.is(409, "approval_ended");
    assert_eq!(harbour.see("/approvals").await, json!([]));
    assert_eq!(harbour.see("/approvals?status=approved").await[0]["id"], asked["id"]);
    let kinds = harbour.world.kinds().await;
    for kind in ["approval_requested", "approval_voted", "approval_approved", "access_denied"] {
        assert!(kinds.iter().any(|it| it == kind), "{kind} is not in {kinds:?}");
    }
    let number = &harbour.see(&format!("/deployments/{id}")).await["number"];
    assert!(number.is_i64(), "{number}");
    for kind in ["approval_requested", "approval_voted", "approval_approved"] {
        let told = harbour.see(&format!("/events?kind={kind}")).await;
        assert_eq!(&told[0]["data"]["number"], number, "{told}");
    }
    harbour.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rejection_fails_the_stage_and_a_retry_asks_again() {
    let harbour = Harbour::open().await;
    harbour.pipeline(&gated("{ approvals: 1 }", "true")).await;
    let id = harbour.start("4f2a1c9").await;
    let asked = harbour.asked(&id).await;
    let no =
        harbour.answer(&asked, "reject", &json!({"reason": "not on a Friday"}), &harbour.ada().token).await;
    assert_eq!(data(&no, 200)["status"], "rejected");
    let ended = harbour.end_of(&id).await;
    expect![[r#"
        failed (approval_rejected)
        staging: succeeded
          deploy succeeded
        production: failed (approval_rejected)
          deploy skipped
    "#]]
    .assert_eq(&story(&ended));
    assert_eq!(ended["detail"], "rejected by ada: not on a Friday");
    harbour.approve(&asked, harbour.ada()).await.is(409, "approval_ended");

    let retry = format!("/deployments/{id}/stages/production/retry");
    assert_eq!(harbour.post(&retry, &json!({})).await.status, 200);
    let again = harbour.asked(&id).await;
    assert_ne!(again["id"], asked["id"]);
    // The approval requested for the earlier try can no longer be answered.
    harbour.answer(&asked, "reject", &json!({}), &harbour.ada().token).await.is(409, "approval_ended");
    assert_eq!(harbour.approve(&again, harbour.ada()).await.status, 200);
    assert_eq!(harbour.end_of(&id).await["status"], "succeeded");
    harbour.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn approval_expires_after_its_timeout() {
    let harbour = Harbour::open().await;
    harbour.pipeline(&gated("{ timeout: 1s }", "true")).await;
    let id = harbour.start("4f2a1c9").await;
    let ended = harbour.end_of(&id).await;
    assert_eq!((&ended["status"], &ended["cause"]), (&json!("failed"), &json!("approval_expired")));
    assert_eq!(ended["detail"], "0 of 1 people approved in time");
    let late = harbour.see("/approvals?status=expired").await[0].clone();
    harbour.approve(&late, harbour.ada()).await.is(409, "approval_ended");
    harbour.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn self_approval_false_excludes_people_who_started_or_retried() {
    let harbour = Harbour::open().await;
    let (mended, world) = (harbour.file("mended"), &harbour.world);
    let bob = world.member("bob@acme.test", "deployer").await;
    let carol = world.member("carol@acme.test", "deployer").await;
    let (_, ci) = world.service("ci@acme.test", "deployer").await;
    let run = format!("test $BERTH_STAGE = staging || test -e {mended}");
    harbour.pipeline(&gated("{ self_approval: false }", &run)).await;
    let id = harbour.start("4f2a1c9").await;
    let asked = harbour.asked(&id).await;
    harbour.approve(&asked, harbour.ada()).await.is(403, "not_eligible");
    harbour.answer(&asked, "approve", &json!({}), &ci).await.is(403, "not_eligible");
    assert_eq!(harbour.approve(&asked, &bob).await.status, 200);
    assert_eq!(harbour.end_of(&id).await["cause"], "step_failed");

    // After a retry by Carol, who did not approve, Bob's approval stays valid. After a retry by Bob himself, it is
    // invalid.
    let path = format!("{ORG}/deployments/{id}/stages/production/retry");
    assert_eq!(harbour.send(post(&path).by(&carol)).await.status, 200);
    assert_eq!(harbour.end_of(&id).await["cause"], "step_failed");
    assert_eq!(harbour.approval(&asked).await["status"], "approved");
    std::fs::write(&mended, "").unwrap();
    assert_eq!(harbour.send(post(&path).by(&bob)).await.status, 200);
    let again = harbour.asked(&id).await;
    assert_eq!(harbour.approval(&asked).await["lapsedBecause"], "changed");
    for who in [harbour.ada(), &bob, &carol] {
        harbour.approve(&again, who).await.is(403, "not_eligible");
    }
    let dora = harbour.world.member("dora@acme.test", "deployer").await;
    assert_eq!(harbour.approve(&again, &dora).await.status, 200);
    assert_eq!(harbour.end_of(&id).await["status"], "succeeded");
    harbour.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn self_approval_false_excludes_the_author_of_the_commit() {
    let harbour = Harbour::open().await;
    let bob = harbour.world.member("bob@acme.test", "deployer").await;
    let carol = harbour.world.member("carol@acme.test", "deployer").await;
    let origin = Origin::new();
    let body = gated("{ self_approval: false }", "true");
    origin.write(
        ".berth/shop/pipeline.yaml",
        &format!("version: 1\npipeline:\n  name: Shop\n  tracks: main\n{body}"),
    );
    origin.git(&["add", "--all"]);
    origin.git(&["commit", "--quiet", "--author", "Bob <Bob@Acme.Test>", "-m", "by Bob"]);
    assert_eq!(harbour.post("/repositories", &json!({"url": origin.url().as_str()})).await.status, 201);
    let pushed = harbour.first_deployment().await;
    let asked = harbour.asked(&pushed).await;
    harbour.approve(&asked, &bob).await.is(403, "not_eligible");
    assert_eq!(harbour.approve(&asked, &carol).await.status, 200);
    assert_eq!(harbour.end_of(&pushed).await["status"], "succeeded");
    harbour.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn approval_rule_names_roles_or_people() {
    let harbour = Harbour::open().await;
    let bob = harbour.world.member("bob@acme.test", "deployer").await;
    let carol = harbour.world.member("carol@acme.test", "deployer").await;
    let admin = harbour.world.member("root@acme.test", "admin").await;
    harbour.pipeline(&gated("{ approvals: 2, from: [admin, Bob@acme.test] }", "true")).await;
    let id = harbour.start("4f2a1c9").await;
    let asked = harbour.asked(&id).await;
    let refused = harbour.approve(&asked, &carol).await;
    refused.is(403, "not_eligible");
    assert!(refused.text.contains("admin, Bob@acme.test"), "{}", refused.text);
    assert_eq!(harbour.approve(&asked, &bob).await.status, 200);
    assert_eq!(harbour.approve(&asked, &admin).await.status, 200);
    assert_eq!(harbour.end_of(&id).await["status"], "succeeded");
    harbour.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_votes_count_once_each() {
    let harbour = Harbour::open().await;
    let mut people = vec![harbour.ada().clone()];
    for number in 0..5 {
        people.push(harbour.world.member(&format!("p{number}@acme.test"), "deployer").await);
    }
    harbour.pipeline(&gated("{ approvals: 3 }", "true")).await;
    let id = harbour.start("4f2a1c9").await;
    let asked = harbour.asked(&id).await;
    let twice = people.iter().chain(&people);
    let said = futures_util::future::join_all(twice.map(|who| harbour.approve(&asked, who))).await;
    let counted = said.iter().filter(|reply| reply.status == 200).count();
    assert_eq!(counted, 3, "{:?}", said.iter().map(|reply| reply.text.clone()).collect::<Vec<_>>());
    assert!(said.iter().all(|reply| [200, 409].contains(&reply.status.as_u16())));
    let approved = harbour.approval(&asked).await;
    assert_eq!((&approved["status"], approved["votes"].as_array().unwrap().len()), (&json!("approved"), 3));
    assert_eq!(harbour.end_of(&id).await["status"], "succeeded");
    harbour.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn newer_deployment_supersedes_only_one_without_approvals() {
    let harbour = Harbour::open().await;
    let bob = harbour.world.member("bob@acme.test", "deployer").await;
    harbour.pipeline(&gated("{ approvals: 2 }", "true")).await;
    let first = harbour.start("aaa1111").await;
    let unanswered = harbour.asked(&first).await;
    let second = harbour.start("bbb2222").await;
    let asked = harbour.asked(&second).await;
    assert_eq!(harbour.end_of(&first).await["supersededBy"], json!(second));
    assert_eq!(harbour.approval(&unanswered).await["lapsedBecause"], "over");
    harbour.approve(&unanswered, &bob).await.is(409, "approval_ended");

    assert_eq!(harbour.approve(&asked, &bob).await.status, 200);
    let third = harbour.start("ccc3333").await;
    harbour.asked(&third).await;
    assert_eq!(harbour.see(&format!("/deployments/{second}")).await["status"], "waiting");
    assert_eq!(harbour.approve(&asked, harbour.ada()).await.status, 200);
    assert_eq!(harbour.end_of(&second).await["status"], "succeeded");
    let cancelled = harbour.post(&format!("/deployments/{third}/cancel"), &json!({})).await;
    assert_eq!(data(&cancelled, 200)["status"], "cancelled");
    assert_eq!(harbour.see("/approvals").await, json!([]));
    harbour.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn approval_that_is_unknown_is_not_found_and_filters_are_checked() {
    let harbour = Harbour::open().await;
    for (path, status, code) in [
        ("/approvals/apr_00000000000000000000000000", 404, "not_found"),
        ("/approvals/nonsense", 404, "not_found"),
        ("/approvals?status=done", 400, "invalid_parameter"),
        ("/approvals?deployment=shop", 400, "invalid_parameter"),
    ] {
        harbour.send(get(&format!("{ORG}{path}")).by(harbour.ada())).await.is(status, code);
    }
    harbour.close().await;
}
