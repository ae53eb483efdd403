//! Takeovers: at once, only from an expected holder, or after a grace period.

use berth_core::deployment::environment::grant::{GrantCommand, grant};
use berth_core::id::DeploymentId;
use berth_store::tables::{deployment, environment};
use berth_store::{StoreError, TxContext};
use serde_json::{Value, json};

use super::{EnvironmentsFixture, environments_path, expect_data, expect_str};
use crate::audit_export::acme_org_id;
use crate::world::{get, post};

#[tokio::test]
async fn force_claim_of_a_free_environment_claims_it() {
    let shop = EnvironmentsFixture::new().await;
    let claimed =
        shop.force_claim(&shop.grace, &json!({"commitId": "main", "context": "hotfix", "reason": "x"})).await;
    assert_eq!(claimed.header("etag"), "\"1.2\"");
    let shown = expect_data(shop.send(get(claimed.header("location")).with_account(&shop.ada)).await, 200);
    let session = expect_data(claimed, 201);
    assert_eq!((&session["fence"], &session["context"]), (&json!(1), &json!("hotfix")));
    assert_eq!(session["deploymentId"], shown["deployments"][0]["id"]);
    assert!(!shop.kinds_since(0).await.contains(&"session_overridden".to_owned()));
}

#[tokio::test]
async fn force_claim_shows_the_loser_who_when_and_why() {
    let shop = EnvironmentsFixture::new().await;
    let lost = shop.claim_session(&shop.grace, &json!({"commitId": "9fceb02"})).await;
    let taken = expect_data(shop.force_claim(&shop.ada, &json!({"reason": "production is down"})).await, 201);
    assert_eq!((&taken["fence"], &taken["holder"]["name"]), (&json!(2), &json!("ada")));
    let shown = shop.session_status(&lost).await;
    assert_eq!(
        [&shown["status"], &shown["overridden"], &shown["endReason"], &shown["overriddenBy"]["name"]],
        [&json!("overridden"), &json!(true), &json!("overridden"), &json!("ada")]
    );
    assert_eq!(shown["overrideReason"], "production is down");
    assert_eq!(
        (&shown["overriddenAt"], &shown["endedAt"]),
        (&taken["claimedAt"], &taken["claimedAt"]),
        "in one moment"
    );
    assert_eq!(shown["deploymentHistory"][0]["status"], "cancelled", "what had not started never will");
    assert_eq!(shown["environment"]["lock"]["sessionId"], taken["sessionId"]);
}

#[tokio::test]
async fn force_claim_without_a_reason_uses_the_context() {
    let shop = EnvironmentsFixture::new().await;
    let lost = shop.claim_session(&shop.grace, &json!({})).await;
    shop.force_claim(&shop.ada, &json!({"context": "hotfix"})).await;
    assert_eq!(shop.session_status(&lost).await["overrideReason"], "hotfix");
}

#[tokio::test]
async fn force_claim_with_if_match_takes_only_that_holder() {
    let shop = EnvironmentsFixture::new().await;
    let force = |tag: &str| {
        post(&environments_path("qa-1/force-claim")).with_account(&shop.ada).header("if-match", tag)
    };
    let session = shop.claim_session(&shop.grace, &json!({})).await;
    let seen = expect_str(&json!(
        shop.send(get(&environments_path("qa-1")).with_account(&shop.ada)).await.header("etag")
    ));
    shop.release(&shop.grace, &session).await;
    let before = shop.snapshot().await;
    let refused = shop.send(force(&seen)).await;
    refused.assert_problem(412, "precondition_failed");
    assert_eq!(refused.body["currentFence"], json!(null), "the environment is free");
    assert_eq!(shop.snapshot().await, before);

    shop.claim_session(&shop.grace, &json!({})).await;
    let refused = shop.send(force(&seen)).await;
    refused.assert_problem(412, "precondition_failed");
    assert_eq!(refused.body["currentFence"], 2, "a different session than the one in the ETag");
    let seen = expect_str(&json!(
        shop.send(get(&environments_path("qa-1")).with_account(&shop.ada)).await.header("etag")
    ));
    assert_eq!(expect_data(shop.send(force(&seen)).await, 201)["fence"], 3);
    shop.send(force("\"x\"")).await.assert_problem(400, "invalid_parameter");
}

#[tokio::test]
async fn force_claim_with_grace_is_announced_and_first_in_the_queue() {
    let shop = EnvironmentsFixture::new().await;
    let held = shop.claim_session(&shop.grace, &json!({})).await;
    let (_, token) = shop.world.create_service_account("ci@acme.test", "deployer").await;
    let waits = post(&environments_path("qa-1/sessions")).token(&token).json(&json!({"queue": true}));
    let earlier = expect_data(shop.send(waits).await, 202);
    let body = json!({"mode": "grace", "graceSeconds": 300, "reason": "release day"});
    let announced = shop.force_claim(&shop.ada, &body).await;
    let shown =
        expect_data(shop.send(get(announced.header("location")).with_account(&shop.grace)).await, 200);
    let ticket = expect_data(announced, 202);
    assert_eq!(shown, with_eta_of(&ticket, &shown));
    assert_eq!((&ticket["status"], &ticket["position"]), (&json!("waiting"), &json!(1)));
    let eta = ticket["etaSeconds"].as_i64().unwrap();
    assert!((295..=300).contains(&eta), "{eta}");

    let session = shop.session_status(&held).await;
    assert_eq!((&session["status"], &session["fence"]), (&json!("active"), &json!(1)), "it still holds");
    let by = json!({"type": "user", "id": shop.user_id(&shop.ada).await, "name": "ada"});
    assert_eq!(session["takeover"], json!({"by": by, "at": ticket["takeoverAt"], "reason": "release day"}));
    let queue = shop.fetch("qa-1/queue").await;
    assert_eq!((&queue[0]["ticketId"], &queue[1]["ticketId"]), (&ticket["ticketId"], &earlier["ticketId"]));

    let released = expect_data(shop.release(&shop.grace, &held).await, 200);
    assert_eq!(released["environment"]["lock"]["holder"]["name"], "ada", "the head of the line comes first");
}

/// The ticket with the ETA of `shown`, because ETAs change over time and cannot be compared.
fn with_eta_of(ticket: &Value, shown: &Value) -> Value {
    let mut ticket = ticket.clone();
    ticket["etaSeconds"] = shown["etaSeconds"].clone();
    ticket
}

#[tokio::test]
async fn force_claim_after_deployment_is_immediate_when_none_runs() {
    let shop = EnvironmentsFixture::new().await;
    let held = shop.claim_session(&shop.grace, &json!({})).await;
    let taken = shop.force_claim(&shop.ada, &json!({"mode": "after_current_deployment"})).await;
    assert_eq!(expect_data(taken, 201)["fence"], 2);
    assert_eq!(shop.session_status(&held).await["status"], "overridden");
}

#[tokio::test]
async fn force_claim_after_deployment_waits_for_the_running_one() {
    let shop = EnvironmentsFixture::new().await;
    let held = shop.claim_session(&shop.grace, &json!({"commitId": "main"})).await;
    grant_to_runner(&shop, &expect_str(&held["deploymentId"])).await;
    let announced =
        shop.force_claim(&shop.ada, &json!({"mode": "after_current_deployment", "reason": "soon"})).await;
    let ticket = expect_data(announced, 202);
    assert_eq!((&ticket["position"], &ticket["takeoverAt"]), (&json!(1), &json!(null)));
    let session = shop.session_status(&held).await;
    assert_eq!((&session["status"], &session["takeover"]["reason"]), (&json!("active"), &json!("soon")));
    assert_eq!(session["takeover"]["at"], json!(null), "the time of the takeover is not known yet");
}

#[tokio::test]
async fn force_claim_during_a_deployment_is_contested_until_it_stops() {
    let shop = EnvironmentsFixture::new().await;
    let lost = shop.claim_session(&shop.grace, &json!({"commitId": "main"})).await;
    let running = expect_str(&lost["deploymentId"]);
    grant_to_runner(&shop, &running).await;
    let taken = expect_data(shop.force_claim(&shop.ada, &json!({"commitId": "hotfix"})).await, 201);
    assert_eq!(taken["drain"]["pending"], json!([running]));
    assert!(taken["drain"]["deadline"].is_string() && taken["drain"]["completedAt"].is_null(), "{taken}");
    let waits = &taken["deployments"][0];
    assert_eq!(
        (&waits["status"], &waits["blockedBy"][0]["kind"]),
        (&json!("queued"), &json!("environment_contested"))
    );
    assert_eq!(waits["blockedBy"][0]["clearsAt"], taken["drain"]["deadline"]);
    assert_eq!(shop.fetch("qa-1").await["state"], "contested");
    assert_eq!(shop.session_status(&lost).await["deployments"][0]["status"], "cancelling");

    let body = json!({"commitId": "hotfix", "overrideDrain": {"reason": "the target is gone"}});
    let skipped = expect_data(shop.post_to_session(&shop.ada, &taken, "deploy", &body).await, 202);
    let kinds: Vec<_> =
        skipped["blockedBy"].as_array().unwrap().iter().map(|it| expect_str(&it["kind"])).collect();
    assert_eq!(kinds, ["queue"], "{skipped}");
    let first = &shop.session_status(&taken).await["deployments"][1];
    assert_eq!(first["blockedBy"], json!([]), "nothing keeps the one before it: {first}");
    assert!(shop.kinds_since(0).await.contains(&"drain_overridden".to_owned()));
}

#[tokio::test]
async fn force_claim_with_an_unknown_mode_is_refused() {
    let shop = EnvironmentsFixture::new().await;
    shop.claim_session(&shop.grace, &json!({})).await;
    let before = shop.snapshot().await;
    for (body, pointer) in [
        (json!({"mode": "soon"}), "/mode"),
        (json!({"graceSeconds": 5}), "/graceSeconds"),
        (json!({"mode": "now", "graceSeconds": 5}), "/graceSeconds"),
        (json!({"mode": "grace", "graceSeconds": 0}), "/graceSeconds"),
        (json!({"mode": "grace", "graceSeconds": 86_401}), "/graceSeconds"),
        (json!({"reason": "x".repeat(4_001)}), "/reason"),
        (json!({"queue": true}), "/queue"),
    ] {
        let refused = shop.force_claim(&shop.ada, &body).await;
        refused.assert_invalid_input();
        assert_eq!(refused.body["errors"][0]["pointer"], pointer);
    }
    assert_eq!(shop.snapshot().await, before);
}

/// Grants the deployment to a runner, so that it has a running attempt.
pub(super) async fn grant_to_runner(shop: &EnvironmentsFixture, deployment: &str) {
    let (org, id) = (acme_org_id(&shop.world).await, deployment.parse::<DeploymentId>().unwrap());
    let granted = shop.world.app.store().transact(TxContext::system(Some(org)), move |tx| {
        let found = deployment::by_id(tx, id)?.unwrap().into_environment().unwrap();
        let lock = environment::by_id(tx, found.target.environment)?.unwrap();
        let cmd = GrantCommand { deployment: id, runner: "runner".into(), nonce: "nonce".into() };
        let ruling = grant(&lock, &cmd, &tx.moment()?);
        tx.commit(ruling)?.expect("nothing is in its way");
        Ok::<_, StoreError>(())
    });
    granted.await.unwrap();
}

#[tokio::test]
async fn announced_takeover_is_shown_wherever_the_holder_is() {
    let shop = EnvironmentsFixture::new().await;
    let session = shop.claim_session(&shop.grace, &json!({})).await;
    assert!(!shop.snapshot().await.to_string().contains("\"takeover\":{"));
    let body = json!({"mode": "grace", "graceSeconds": 300, "reason": "customer demo"});
    let ticket = expect_data(shop.force_claim(&shop.ada, &body).await, 202);
    let deployed = shop.send(get("/api/v1/organizations/acme/deployed").with_account(&shop.grace)).await;
    let shown = [
        shop.session_status(&session).await["takeover"].clone(),
        shop.fetch("qa-1").await["lock"]["takeover"].clone(),
        shop.fetch("").await[0]["lock"]["takeover"].clone(),
        expect_data(deployed, 200)[0]["environments"][0]["takeover"].clone(),
    ];
    for takeover in shown {
        assert_eq!(
            (&takeover["by"]["name"], &takeover["at"], &takeover["reason"]),
            (&json!("ada"), &ticket["takeoverAt"], &json!("customer demo"))
        );
    }
    let queued = shop.events(0).await.into_iter().find(|event| event["kind"] == "ticket_queued").unwrap();
    assert_eq!(
        (&queued["data"]["heldById"], &queued["data"]["takeoverAt"], &queued["data"]["reason"]),
        (&session["holder"]["id"], &ticket["takeoverAt"], &json!("customer demo"))
    );
}
