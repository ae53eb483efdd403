//! Invalid requests: each one is refused with the right problem code and changes nothing.

use serde_json::{Value, json};

use super::{Shop, at, data, in_session, pipeline, text};
use crate::world::{Account, Call, call, get, post};

/// Every kind of request about a session, sent to the environment at `base`.
fn everything_with(base: &str, session: &str, who: &Account) -> Vec<Call> {
    let path = format!("{base}/sessions/{session}");
    let post = |verb: &str, body: Value| post(&format!("{path}/{verb}")).by(who).json(&body);
    vec![
        get(&path).by(who),
        call("DELETE", &path).by(who),
        post("deploy", json!({"commitId": "main"})),
        post("extend", json!({})),
        post("hand-over", json!({"to": "ada@acme.test"})),
    ]
}

#[tokio::test]
async fn unknown_environment_is_not_found_by_any_operation() {
    let shop = Shop::open().await;
    let session = text(&shop.claimed(&shop.grace, &json!({})).await["sessionId"]);
    let before = shop.dump().await;
    for name in ["qa-9", "QA-1", "qa_1", "-qa", &"q".repeat(64), "q%C3%A4-1"] {
        for path in ["", "/history", "/insights", "/queue"] {
            shop.send(get(&at(&format!("{name}{path}"))).by(&shop.ada)).await.is(404, "not_found");
        }
        for path in ["/sessions", "/force-claim"] {
            shop.send(post(&at(&format!("{name}{path}"))).by(&shop.ada)).await.is(404, "not_found");
        }
        for call in everything_with(&at(name), &session, &shop.grace) {
            shop.send(call).await.is(404, "not_found");
        }
    }
    let unknown = super::ENVIRONMENTS.replace("/shop/", "/no-such-pipeline/");
    shop.send(get(&unknown).by(&shop.ada)).await.is(404, "not_found");
    assert_eq!(shop.dump().await, before);
}

#[tokio::test]
async fn session_is_found_only_below_its_own_environment() {
    let shop = Shop::open().await;
    pipeline(&shop.world, "other").await;
    let theirs = json!({"slug": "shop", "definition": super::DEFINITION});
    let made = post("/api/v1/organizations/globex/pipelines").by(&shop.world.hank).json(&theirs);
    assert_eq!(shop.send(made).await.status, 201);
    let session = text(&shop.claimed(&shop.grace, &json!({})).await["sessionId"]);
    let ticket = text(&shop.queued(&shop.ada, &json!({})).await["ticketId"]);
    let before = shop.dump().await;
    for (base, who) in [
        (at("qa-2"), &shop.grace),
        (at("qa-1").replace("/shop/", "/other/"), &shop.grace),
        (at("qa-1").replace("/acme/", "/globex/"), &shop.world.hank),
        (at("qa-1").replace("/acme/", "/globex/"), &shop.grace),
        (at("qa-1"), &shop.world.hank),
    ] {
        for call in everything_with(&base, &session, who) {
            shop.send(call).await.is(404, "not_found");
        }
        for method in ["GET", "DELETE"] {
            shop.send(call(method, &format!("{base}/queue/{ticket}")).by(who)).await.is(404, "not_found");
        }
    }
    for nonsense in ["x", "ses_", &ticket, "ses_00000000000000000000000000", &session.to_uppercase()] {
        for call in everything_with(&at("qa-1"), nonsense, &shop.grace) {
            shop.send(call).await.is(404, "not_found");
        }
    }
    assert_eq!(shop.dump().await, before);
}

#[tokio::test]
async fn viewer_cannot_claim_take_over_release_or_extend() {
    let shop = Shop::open().await;
    let vera = shop.viewer().await;
    let session = shop.claimed(&shop.grace, &json!({})).await;
    let before = shop.dump().await;
    for (asked, permission) in [
        (post(&at("qa-2/sessions")), "environments:claim"),
        (post(&at("qa-1/sessions")).json(&json!({"queue": true})), "environments:claim"),
        (post(&at("qa-1/force-claim")), "environments:force_claim"),
        (post(&at("qa-2/force-claim")), "environments:force_claim"),
        (call("DELETE", &in_session(&session)), "environments:claim"),
        (
            post(&format!("{}/deploy", in_session(&session))).json(&json!({"commitId": "main"})),
            "environments:claim",
        ),
        (post(&format!("{}/extend", in_session(&session))), "environments:claim"),
    ] {
        let refused = shop.send(asked.by(&vera)).await;
        refused.is(403, "forbidden");
        assert_eq!(refused.body["permission"], permission);
    }
    assert_eq!(shop.dump().await, before);
}

#[tokio::test]
async fn foreign_caller_finds_no_environment() {
    let shop = Shop::open().await;
    let session = shop.claimed(&shop.grace, &json!({})).await;
    let before = shop.dump().await;
    let asked =
        || [post(&at("qa-1/sessions")), post(&at("qa-1/force-claim")), call("DELETE", &in_session(&session))];
    for call in asked() {
        shop.send(call.by(&shop.world.hank)).await.is(404, "not_found");
    }
    for call in asked() {
        shop.send(call).await.is(401, "unauthenticated");
    }
    assert_eq!(shop.dump().await, before);
}

#[tokio::test]
async fn claim_with_out_of_range_members_is_refused_by_name() {
    let shop = Shop::open().await;
    let session = shop.claimed(&shop.grace, &json!({})).await;
    let before = shop.dump().await;
    let wrong = [
        ("context", json!("x".repeat(4_001))),
        ("context", json!("a\u{0}b")),
        ("context", json!(7)),
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
            let refused = shop.send(post(&at(path)).by(&shop.ada).json(&json!({ member: value }))).await;
            refused.is_invalid_input();
            assert_eq!(refused.body["errors"][0]["pointer"], format!("/{member}"), "{path}: {value}");
        }
    }
    for ttl in [json!(59), json!(-1), json!(2_592_001), json!(u64::MAX)] {
        let refused = shop.act(&shop.grace, &session, "extend", &json!({"ttlSeconds": ttl})).await;
        refused.is(400, "invalid_request");
    }
    assert_eq!(shop.dump().await, before);
    let longest = json!({"context": "ü".repeat(4_000)});
    assert_eq!(
        shop.force(&shop.ada, &longest).await.status,
        201,
        "four thousand characters are not too many"
    );
    let free = json!({"context": "a\r\nb\rc\t\u{200d}", "commitId": ""});
    let taken = shop.force(&shop.grace, &free).await;
    let session = &taken.body["data"];
    assert_eq!((&session["context"], &session["commitId"]), (&json!("a\nb\nc\t\u{200d}"), &json!(null)));
}

#[tokio::test]
async fn commit_as_option_path_or_revision_expression_is_refused() {
    let shop = Shop::open().await;
    let session = shop.claimed(&shop.grace, &json!({})).await;
    let before = shop.dump().await;
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
            let refused = shop.send(post(&at(path)).by(&shop.ada).json(&json!({"commitId": commit}))).await;
            refused.is(400, "invalid_request");
            assert_eq!(refused.body["errors"][0]["pointer"], "/commitId", "{commit:?}");
        }
        let refused = shop.act(&shop.grace, &session, "deploy", &json!({"commitId": commit})).await;
        refused.is(400, "invalid_request");
        assert!(commit.len() < 5 || !refused.text.contains(&commit[..5]), "what was sent is not said again");
    }
    for body in [json!({}), json!({"commitId": null}), json!({"commitId": ""}), json!({"commitId": ["main"]})]
    {
        shop.act(&shop.grace, &session, "deploy", &body).await.is(400, "invalid_request");
    }
    assert_eq!(shop.dump().await, before);
}

#[tokio::test]
async fn claim_errors_are_reported_together() {
    let shop = Shop::open().await;
    let body = json!({"commitId": "-x", "context": "\u{0}", "ttlSeconds": 1, "waitSeconds": 5});
    let refused = shop.claim(&shop.grace, &body).await;
    refused.is(400, "invalid_request");
    let pointers: Vec<_> =
        refused.body["errors"].as_array().unwrap().iter().map(|it| text(&it["pointer"])).collect();
    assert_eq!(pointers, ["/commitId", "/context", "/ttlSeconds", "/waitSeconds"]);
    assert_eq!(shop.see("qa-1").await["lockStatus"], "unlocked");
}

#[tokio::test]
async fn claim_with_a_large_or_invalid_body_is_refused() {
    let shop = Shop::open().await;
    let sent = |kind: &str, body: String| {
        post(&at("qa-1/sessions")).by(&shop.grace).header("content-type", kind).raw(body)
    };
    let large = format!("{{\"context\": \"{}\"}}", "x".repeat(2 * 1024 * 1024));
    shop.send(sent("application/json", large)).await.is(413, "body_too_large");
    shop.send(sent("application/json", "{".into())).await.is(400, "invalid_json");
    shop.send(sent("application/json", "[]".into())).await.is(400, "invalid_request");
    shop.send(sent("text/plain", "commitId=main".into())).await.is(415, "unsupported_media_type");
    let wrong = shop.send(call("PUT", &at("qa-1/sessions")).by(&shop.grace)).await;
    wrong.is(405, "method_not_allowed");
    assert_eq!(wrong.header("allow"), "POST");
    assert_eq!(shop.see("qa-1").await["lockStatus"], "unlocked");
    data(shop.claim(&shop.grace, &json!({})).await, 201);
}
