//! Deploying in a session: only its holder may do so, and only while the session is active.

use serde_json::json;

use super::{EnvironmentsFixture, PIPELINE, expect_data, expect_str, session_path};
use crate::world::{get, post};

#[tokio::test]
async fn deploy_returns_a_deployment_and_its_location() {
    let shop = EnvironmentsFixture::new().await;
    let session = shop.claim_session(&shop.grace, &json!({})).await;
    let accepted =
        shop.post_to_session(&shop.grace, &session, "deploy", &json!({"commitId": "v1.2.3"})).await;
    let shown = expect_data(shop.send(get(accepted.header("location")).with_account(&shop.ada)).await, 200);
    let deployment = expect_data(accepted, 202);
    assert_eq!((&shown["id"], &shown["deploymentId"]), (&deployment["id"], &deployment["id"]));
    assert_eq!((&shown["commitId"], &shown["resolvedCommitId"]), (&json!("v1.2.3"), &json!(null)));
    assert_eq!((&shown["sessionId"], &shown["fence"]), (&session["sessionId"], &json!(1)));
    assert_eq!((&shown["trigger"], &shown["actor"]["name"]), (&json!("session"), &json!("grace")));
    let stage = &shown["stages"][0];
    assert_eq!((&stage["name"], &stage["kind"]), (&json!("qa-1"), &json!("environment")));
}

#[tokio::test]
async fn deployment_context_is_stored_and_shown_in_the_history() {
    let shop = EnvironmentsFixture::new().await;
    let session = shop.claim_session(&shop.grace, &json!({"commitId": "one", "context": "Sprint 7"})).await;
    let asked = json!({"commitId": "two", "context": "Fix\r\nthe cart"});
    let deployed = expect_data(shop.post_to_session(&shop.grace, &session, "deploy", &asked).await, 202);
    assert_eq!(deployed["context"], "Fix\nthe cart");
    let history = shop.session_status(&session).await["deploymentHistory"].clone();
    assert_eq!((&history[0]["context"], &history[1]["context"]), (&json!("Fix\nthe cart"), &json!(null)));
    let events = shop
        .send(get("/api/v1/organizations/acme/events?kind=deployment_queued").with_account(&shop.ada))
        .await;
    assert_eq!(events.body["data"][0]["data"]["context"], "Fix\nthe cart");

    let before = shop.snapshot().await;
    let asked = json!({"commitId": "two", "context": "x".repeat(4_001)});
    let refused = shop.post_to_session(&shop.grace, &session, "deploy", &asked).await;
    refused.assert_problem(400, "invalid_request");
    assert_eq!(refused.body["errors"][0]["pointer"], "/context");
    assert!(refused.text.contains("4,000") || refused.text.contains("4000"), "{}", refused.text);
    assert_eq!(shop.snapshot().await, before);
}

#[tokio::test]
async fn deploy_by_another_user_is_refused_even_for_an_owner() {
    let shop = EnvironmentsFixture::new().await;
    let session = shop.claim_session(&shop.grace, &json!({})).await;
    for (verb, body) in [
        ("deploy", json!({"commitId": "main"})),
        ("extend", json!({})),
        ("hand-over", json!({"to": "ada@acme.test"})),
    ] {
        let before = shop.snapshot().await;
        let refused = shop.post_to_session(&shop.ada, &session, verb, &body).await;
        refused.assert_problem(403, "not_session_holder");
        assert_eq!(refused.body["holder"], session["holder"], "{verb}");
        assert_eq!(shop.snapshot().await, before, "{verb}");
    }
}

#[tokio::test]
async fn deploy_in_an_ended_session_is_refused_with_its_end() {
    let shop = EnvironmentsFixture::new().await;
    let released = shop.claim_session(&shop.grace, &json!({})).await;
    shop.release(&shop.grace, &released).await;
    let overridden = shop.claim_session(&shop.grace, &json!({})).await;
    shop.force_claim(&shop.ada, &json!({"reason": "hotfix"})).await;
    let handed = json!({"sessionId": shop.fetch("qa-1").await["lock"]["sessionId"]});
    shop.post_to_session(&shop.ada, &handed, "hand-over", &json!({"to": "grace@acme.test"})).await;
    for (session, who, status) in [
        (&released, &shop.grace, "released"),
        (&overridden, &shop.grace, "overridden"),
        (&handed, &shop.ada, "released"),
    ] {
        for (verb, body) in [("deploy", json!({"commitId": "main"})), ("extend", json!({}))] {
            let before = shop.snapshot().await;
            let refused = shop.post_to_session(who, session, verb, &body).await;
            refused.assert_problem(409, "session_not_active");
            assert_eq!(refused.body["sessionStatus"], status);
            assert_eq!(refused.body["currentFence"], 4);
            assert_eq!(shop.snapshot().await, before);
        }
    }
    let refused =
        shop.post_to_session(&shop.grace, &overridden, "deploy", &json!({"commitId": "main"})).await;
    assert_eq!(
        (&refused.body["overriddenBy"]["name"], &refused.body["overrideReason"]),
        (&json!("ada"), &json!("hotfix"))
    );
    assert_eq!(refused.body["overriddenAt"], shop.session_status(&overridden).await["overriddenAt"]);
    let refused = shop.post_to_session(&shop.grace, &released, "deploy", &json!({"commitId": "main"})).await;
    assert_eq!(refused.body["overriddenBy"], json!(null));
}

#[tokio::test]
async fn deploy_during_an_unfinished_one_waits_replaces_or_is_refused() {
    let shop = EnvironmentsFixture::new().await;
    stop_pipeline(&shop).await;
    let session = shop.claim_session(&shop.grace, &json!({"commitId": "one"})).await;
    let statuses = async || {
        let history = shop.session_status(&session).await["deploymentHistory"].clone();
        history.as_array().unwrap().iter().map(|it| expect_str(&it["status"])).collect::<Vec<_>>()
    };
    let deploy = async |on_conflict: &str| {
        let body = json!({"commitId": on_conflict, "onConflict": on_conflict});
        shop.post_to_session(&shop.grace, &session, "deploy", &body).await
    };
    let queued = expect_data(deploy("queue").await, 202);
    assert!(queued["blockedBy"].as_array().unwrap().iter().any(|it| it["kind"] == "queue"), "{queued}");
    assert_eq!(statuses().await, ["queued", "queued"]);

    let before = shop.snapshot().await;
    deploy("reject").await.assert_problem(409, "invalid_state");
    assert_eq!(shop.snapshot().await, before);

    let newest = expect_data(deploy("supersede").await, 202);
    assert_eq!(statuses().await, ["queued", "superseded", "superseded"]);
    assert_eq!(shop.session_status(&session).await["deploymentHistory"][2]["supersededBy"], newest["id"]);
}

#[tokio::test]
async fn session_is_limited_to_twenty_unfinished_deployments() {
    let shop = EnvironmentsFixture::new().await;
    stop_pipeline(&shop).await;
    let session = shop.claim_session(&shop.grace, &json!({})).await;
    let deploy =
        async |body: serde_json::Value| shop.post_to_session(&shop.grace, &session, "deploy", &body).await;
    for number in 0..20 {
        assert_eq!(deploy(json!({"commitId": format!("c{number}")})).await.status, 202, "{number}");
    }
    deploy(json!({"commitId": "one-too-many"})).await.assert_problem(409, "invalid_state");
    assert_eq!(deploy(json!({"commitId": "instead", "onConflict": "supersede"})).await.status, 202);
}

#[tokio::test]
async fn drain_override_needs_an_admin_and_a_reason() {
    let shop = EnvironmentsFixture::new().await;
    let session = shop.claim_session(&shop.grace, &json!({})).await;
    let body = json!({"commitId": "main", "overrideDrain": {"reason": "the target is gone"}});
    let before = shop.snapshot().await;
    let refused = shop.post_to_session(&shop.grace, &session, "deploy", &body).await;
    refused.assert_problem(403, "forbidden");
    assert_eq!(refused.body["permission"], "drain:override");
    let denied = shop.events(0).await.pop().unwrap();
    assert_eq!(
        (&denied["kind"], &denied["data"]["permission"]),
        (&json!("access_denied"), &json!("drain:override"))
    );
    for reason in
        [json!({}), json!({"reason": ""}), json!({"reason": "  "}), json!({"reason": "x".repeat(4_001)})]
    {
        let body = json!({"commitId": "main", "overrideDrain": reason});
        shop.post_to_session(&shop.grace, &session, "deploy", &body)
            .await
            .assert_problem(400, "invalid_request");
    }
    assert_eq!(shop.snapshot().await, before);
    let own = expect_data(shop.force_claim(&shop.ada, &json!({})).await, 201);
    let deployed = shop.post_to_session(&shop.ada, &own, "deploy", &body).await;
    assert_eq!(deployed.status, 202, "there is nothing to wait for: {}", deployed.text);
}

#[tokio::test]
async fn cancel_of_a_queued_deployment_is_idempotent_and_names_the_actor() {
    let shop = EnvironmentsFixture::new().await;
    stop_pipeline(&shop).await;
    let session = shop.claim_session(&shop.grace, &json!({"commitId": "main"})).await;
    let path = format!("/api/v1/organizations/acme/deployments/{}", expect_str(&session["deploymentId"]));
    let cancel =
        || post(&format!("{path}/cancel")).with_account(&shop.ada).json(&json!({"reason": "wrong branch"}));
    let cancelled = expect_data(shop.send(cancel()).await, 200);
    assert_eq!(
        [&cancelled["status"], &cancelled["cause"], &cancelled["detail"], &cancelled["cancelledBy"]["name"]],
        [&json!("cancelled"), &json!("requested"), &json!("wrong branch"), &json!("ada")]
    );
    let before = shop.snapshot().await;
    assert_eq!(expect_data(shop.send(cancel()).await, 200), cancelled, "again is calm");
    assert_eq!(shop.snapshot().await, before);
    assert_eq!(shop.session_status(&session).await["status"], "active", "the lock is not touched");
    let vera = shop.create_viewer().await;
    shop.send(post(&format!("{path}/cancel")).with_account(&vera)).await.assert_problem(403, "forbidden");
    shop.send(get(&path).with_account(&shop.world.hank)).await.assert_problem(404, "not_found");
}

#[tokio::test]
async fn deploy_with_if_match_checks_the_fence() {
    let shop = EnvironmentsFixture::new().await;
    let session = shop.claim_session(&shop.grace, &json!({})).await;
    let deploy = |tag: &str| {
        let call = post(&format!("{}/deploy", session_path(&session)))
            .with_account(&shop.grace)
            .header("if-match", tag);
        call.json(&json!({"commitId": "main"}))
    };
    assert_eq!(shop.send(deploy("\"1.2\"")).await.status, 202);
    assert_eq!(shop.send(deploy("\"1.2\"")).await.status, 202, "the fence counts, not the version");
    let refused = shop.send(deploy("\"2.1\"")).await;
    refused.assert_problem(412, "precondition_failed");
    assert_eq!(refused.body["currentFence"], 1);
}

/// Stops the pipeline, so that queued deployments stay queued.
async fn stop_pipeline(shop: &EnvironmentsFixture) {
    assert_eq!(shop.send(post(&format!("{PIPELINE}/stop")).with_account(&shop.ada)).await.status, 200);
}
