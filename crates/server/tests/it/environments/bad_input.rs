//! Invalid requests: each one is refused with the right problem code and changes nothing.

use serde_json::{Value, json};

use super::{EnvironmentsFixture, create_pipeline, environments_path, expect_data, expect_str, session_path};
use crate::world::{MemberAccount, TestRequest, call, get, post};

/// Every kind of request about a session, sent to the environment at `base`.
fn session_requests(base: &str, session: &str, who: &MemberAccount) -> Vec<TestRequest> {
    let path = format!("{base}/sessions/{session}");
    let post = |verb: &str, body: Value| post(&format!("{path}/{verb}")).with_account(who).json(&body);
    vec![
        get(&path).with_account(who),
        call("DELETE", &path).with_account(who),
        post("deploy", json!({"commitId": "main"})),
        post("extend", json!({})),
        post("hand-over", json!({"to": "ada@acme.test"})),
    ]
}

#[tokio::test]
async fn unknown_environment_is_not_found_by_any_operation() {
    let shop = EnvironmentsFixture::new().await;
    let session = expect_str(&shop.claim_session(&shop.grace, &json!({})).await["sessionId"]);
    let before = shop.snapshot().await;
    for name in ["qa-9", "QA-1", "qa_1", "-qa", &"q".repeat(64), "q%C3%A4-1"] {
        for path in ["", "/history", "/insights", "/queue"] {
            shop.send(get(&environments_path(&format!("{name}{path}"))).with_account(&shop.ada))
                .await
                .assert_problem(404, "not_found");
        }
        for path in ["/sessions", "/force-claim"] {
            shop.send(post(&environments_path(&format!("{name}{path}"))).with_account(&shop.ada))
                .await
                .assert_problem(404, "not_found");
        }
        for call in session_requests(&environments_path(name), &session, &shop.grace) {
            shop.send(call).await.assert_problem(404, "not_found");
        }
    }
    let unknown = super::ENVIRONMENTS.replace("/shop/", "/no-such-pipeline/");
    shop.send(get(&unknown).with_account(&shop.ada)).await.assert_problem(404, "not_found");
    assert_eq!(shop.snapshot().await, before);
}

#[tokio::test]
async fn session_is_found_only_below_its_own_environment() {
    let shop = EnvironmentsFixture::new().await;
    create_pipeline(&shop.world, "other").await;
    let theirs = json!({"slug": "shop", "definition": super::DEFINITION});
    let made = post("/api/v1/organizations/globex/pipelines").with_account(&shop.world.hank).json(&theirs);
    assert_eq!(shop.send(made).await.status, 201);
    let session = expect_str(&shop.claim_session(&shop.grace, &json!({})).await["sessionId"]);
    let ticket = expect_str(&shop.join_queue(&shop.ada, &json!({})).await["ticketId"]);
    let before = shop.snapshot().await;
    for (base, who) in [
        (environments_path("qa-2"), &shop.grace),
        (environments_path("qa-1").replace("/shop/", "/other/"), &shop.grace),
        (environments_path("qa-1").replace("/acme/", "/globex/"), &shop.world.hank),
        (environments_path("qa-1").replace("/acme/", "/globex/"), &shop.grace),
        (environments_path("qa-1"), &shop.world.hank),
    ] {
        for call in session_requests(&base, &session, who) {
            shop.send(call).await.assert_problem(404, "not_found");
        }
        for method in ["GET", "DELETE"] {
            shop.send(call(method, &format!("{base}/queue/{ticket}")).with_account(who))
                .await
                .assert_problem(404, "not_found");
        }
    }
    for nonsense in ["x", "ses_", &ticket, "ses_00000000000000000000000000", &session.to_uppercase()] {
        for call in session_requests(&environments_path("qa-1"), nonsense, &shop.grace) {
            shop.send(call).await.assert_problem(404, "not_found");
        }
    }
    assert_eq!(shop.snapshot().await, before);
}

#[tokio::test]
async fn viewer_cannot_claim_take_over_release_or_extend() {
    let shop = EnvironmentsFixture::new().await;
    let vera = shop.create_viewer().await;
    let session = shop.claim_session(&shop.grace, &json!({})).await;
    let before = shop.snapshot().await;
    for (asked, permission) in [
        (post(&environments_path("qa-2/sessions")), "environments:claim"),
        (post(&environments_path("qa-1/sessions")).json(&json!({"queue": true})), "environments:claim"),
        (post(&environments_path("qa-1/force-claim")), "environments:force_claim"),
        (post(&environments_path("qa-2/force-claim")), "environments:force_claim"),
        (call("DELETE", &session_path(&session)), "environments:claim"),
        (
            post(&format!("{}/deploy", session_path(&session))).json(&json!({"commitId": "main"})),
            "environments:claim",
        ),
        (post(&format!("{}/extend", session_path(&session))), "environments:claim"),
    ] {
        let refused = shop.send(asked.with_account(&vera)).await;
        refused.assert_problem(403, "forbidden");
        assert_eq!(refused.body["permission"], permission);
    }
    assert_eq!(shop.snapshot().await, before);
}

#[tokio::test]
async fn foreign_caller_finds_no_environment() {
    let shop = EnvironmentsFixture::new().await;
    let session = shop.claim_session(&shop.grace, &json!({})).await;
    let before = shop.snapshot().await;
    let asked = || {
        [
            post(&environments_path("qa-1/sessions")),
            post(&environments_path("qa-1/force-claim")),
            call("DELETE", &session_path(&session)),
        ]
    };
    for call in asked() {
        shop.send(call.with_account(&shop.world.hank)).await.assert_problem(404, "not_found");
    }
    for call in asked() {
        shop.send(call).await.assert_problem(401, "unauthenticated");
    }
    assert_eq!(shop.snapshot().await, before);
}

#[tokio::test]
async fn claim_with_out_of_range_members_is_refused_by_name() {
    let shop = EnvironmentsFixture::new().await;
    let session = shop.claim_session(&shop.grace, &json!({})).await;
    let before = shop.snapshot().await;
    let wrong = [
        ("context", json!("x".repeat(4_001))),
        ("context", json!("a\u{0}b")),
        ("context", json!(7)),
        ("contact", json!("")),
        ("contact", json!("   ")),
        ("contact", json!("x".repeat(201))),
        ("contact", json!("a\nb")),
        ("contact", json!("a\u{1b}[31mb")),
        ("contact", json!(["grace"])),
        ("ttlSeconds", json!(-1)),
        ("ttlSeconds", json!(0)),
        ("ttlSeconds", json!(59)),
        ("ttlSeconds", json!(2_592_001)),
        ("ttlSeconds", json!(i64::MAX)),
        ("ttlSeconds", json!(u64::MAX)),
        ("ttlSeconds", json!(1e300)),
        ("ttlSeconds", json!(90.5)),
        ("ttlSeconds", json!("90")),
        ("deploy", json!("yes")),
        ("commitid", json!("main")),
        ("fence", json!(9)),
    ];
    for (member, value) in wrong {
        for path in ["qa-2/sessions", "qa-1/force-claim"] {
            let refused = shop
                .send(post(&environments_path(path)).with_account(&shop.ada).json(&json!({ member: value })))
                .await;
            refused.assert_invalid_input();
            assert_eq!(refused.body["errors"][0]["pointer"], format!("/{member}"), "{path}: {value}");
        }
    }
    for ttl in [json!(59), json!(-1), json!(2_592_001), json!(u64::MAX)] {
        let refused =
            shop.post_to_session(&shop.grace, &session, "extend", &json!({"ttlSeconds": ttl})).await;
        refused.assert_problem(400, "invalid_request");
    }
    assert_eq!(shop.snapshot().await, before);
    let longest = json!({"context": "ü".repeat(4_000)});
    assert_eq!(
        shop.force_claim(&shop.ada, &longest).await.status,
        201,
        "four thousand characters are not too many"
    );
    let free = json!({"context": "a\r\nb\rc\t\u{200d}", "commitId": ""});
    let taken = shop.force_claim(&shop.grace, &free).await;
    let session = &taken.body["data"];
    assert_eq!((&session["context"], &session["commitId"]), (&json!("a\nb\nc\t\u{200d}"), &json!(null)));
}

#[tokio::test]
async fn commit_as_option_path_or_revision_expression_is_refused() {
    let shop = EnvironmentsFixture::new().await;
    let session = shop.claim_session(&shop.grace, &json!({})).await;
    let before = shop.snapshot().await;
    let longer = "a".repeat(256);
    for commit in [
        "-",
        "--upload-pack=touch /tmp/x",
        "-x",
        "../../etc/passwd",
        "a/../b",
        "a..b",
        "a b",
        "a\nb",
        "a\0b",
        "HEAD~1",
        "HEAD^",
        "@{u}",
        "a:b",
        "a\\b",
        "a.lock",
        "/a",
        &longer,
    ] {
        for path in ["qa-2/sessions", "qa-1/force-claim"] {
            let refused = shop
                .send(
                    post(&environments_path(path)).with_account(&shop.ada).json(&json!({"commitId": commit})),
                )
                .await;
            refused.assert_problem(400, "invalid_request");
            assert_eq!(refused.body["errors"][0]["pointer"], "/commitId", "{commit:?}");
        }
        let refused =
            shop.post_to_session(&shop.grace, &session, "deploy", &json!({"commitId": commit})).await;
        refused.assert_problem(400, "invalid_request");
        assert!(commit.len() < 5 || !refused.text.contains(&commit[..5]), "what was sent is not said again");
    }
    for body in [json!({}), json!({"commitId": null}), json!({"commitId": ""}), json!({"commitId": ["main"]})]
    {
        shop.post_to_session(&shop.grace, &session, "deploy", &body)
            .await
            .assert_problem(400, "invalid_request");
    }
    assert_eq!(shop.snapshot().await, before);
}

#[tokio::test]
async fn claim_errors_are_reported_together() {
    let shop = EnvironmentsFixture::new().await;
    let body = json!({"commitId": "-x", "context": "\u{0}", "ttlSeconds": 1, "waitSeconds": 5});
    let refused = shop.claim(&shop.grace, &body).await;
    refused.assert_problem(400, "invalid_request");
    let pointers: Vec<_> =
        refused.body["errors"].as_array().unwrap().iter().map(|it| expect_str(&it["pointer"])).collect();
    assert_eq!(pointers, ["/commitId", "/context", "/ttlSeconds", "/waitSeconds"]);
    assert_eq!(shop.fetch("qa-1").await["lockStatus"], "unlocked");
}

#[tokio::test]
async fn claim_with_a_large_or_invalid_body_is_refused() {
    let shop = EnvironmentsFixture::new().await;
    let sent = |kind: &str, body: String| {
        post(&environments_path("qa-1/sessions"))
            .with_account(&shop.grace)
            .header("content-type", kind)
            .raw(body)
    };
    let large = format!("{{\"context\": \"{}\"}}", "x".repeat(2 * 1024 * 1024));
    shop.send(sent("application/json", large)).await.assert_problem(413, "body_too_large");
    shop.send(sent("application/json", "{".into())).await.assert_problem(400, "invalid_json");
    shop.send(sent("application/json", "[]".into())).await.assert_problem(400, "invalid_request");
    shop.send(sent("text/plain", "commitId=main".into())).await.assert_problem(415, "unsupported_media_type");
    let wrong = shop.send(call("PUT", &environments_path("qa-1/sessions")).with_account(&shop.grace)).await;
    wrong.assert_problem(405, "method_not_allowed");
    assert_eq!(wrong.header("allow"), "POST");
    assert_eq!(shop.fetch("qa-1").await["lockStatus"], "unlocked");
    expect_data(shop.claim(&shop.grace, &json!({})).await, 201);
}
