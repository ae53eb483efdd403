//! The environments API as specified. Every operation is called with and without the prefix `/api/v1`, and with and
//! without a trailing slash.

use serde_json::{Value, json};

use super::{EnvironmentsFixture, expect_data, expect_str};
use crate::world::{TestRequest, call, get, post};

const BASES: [&str; 4] = [
    "/api/v1/organizations/acme/pipelines/shop/ephemeral-environments",
    "/organizations/acme/pipelines/shop/ephemeral-environments",
    "/organizations/{org}/pipelines/{pipeline}/ephemeral-environments",
    "//organizations/acme/pipelines/shop/ephemeral-environments",
];

#[tokio::test]
async fn given_interface_has_all_eight_operations() {
    let shop = EnvironmentsFixture::new().await;
    let org =
        expect_str(&shop.send(get("/organizations/acme").with_account(&shop.ada)).await.body["data"]["id"]);
    for (base, slash) in BASES.iter().flat_map(|base| [(base, ""), (base, "/")]) {
        let base = base.replace("{org}", &org).replace("{pipeline}", &shop.pipeline);
        let ask = async |method: &str, path: &str, body: Option<Value>, status: u16| {
            let asked = call(method, &format!("{base}{path}{slash}")).with_account(&shop.ada);
            let asked = body.iter().fold(asked, TestRequest::json);
            let reply = shop.send(asked).await;
            assert_eq!(reply.header("content-type"), "application/json", "{base}{path}: {}", reply.text);
            expect_data(reply, status)
        };
        let commit = || Some(json!({"commitId": "9fceb02", "context": "a look"}));
        assert_eq!(ask("GET", "", None, 200).await.as_array().unwrap().len(), 4);
        let session = expect_str(&ask("POST", "/qa-1/sessions", commit(), 201).await["sessionId"]);
        let seen = ask("GET", "/qa-1", None, 200).await;
        assert_eq!((&seen["lockStatus"], &seen["lock"]["sessionId"]), (&json!("locked"), &json!(session)));
        let path = format!("/qa-1/sessions/{session}");
        ask("POST", &format!("{path}/deploy"), Some(json!({"commitId": "main"})), 202).await;
        let status = ask("GET", &path, None, 200).await;
        assert_eq!((&status["lockStatus"], &status["overridden"]), (&json!("locked"), &json!(false)));
        assert_eq!(status["deploymentHistory"].as_array().unwrap().len(), 2);
        let taken = expect_str(&ask("POST", "/qa-1/force-claim", commit(), 201).await["sessionId"]);
        assert_eq!(ask("GET", &path, None, 200).await["overridden"], true);
        assert_eq!(ask("DELETE", &format!("/qa-1/sessions/{taken}"), None, 200).await["released"], true);
        let history = ask("GET", "/qa-1/history", None, 200).await;
        assert_eq!(history[0]["sessionId"], taken.as_str());
    }
}

#[tokio::test]
async fn environment_paths_never_return_html() {
    let shop = EnvironmentsFixture::new().await;
    for path in ["/qa-1/session", "/qa-1/sessions/x/y/z", "/qa-1/sessions", "/QA-1", "/qa_1", "/qa-1/queue/x"]
    {
        let reply = shop
            .send(get(&format!("{}{path}", BASES[1])).with_account(&shop.ada).header("accept", "text/html"));
        let reply = reply.await;
        assert!([404, 405].contains(&reply.status.as_u16()), "{path}: {}", reply.text);
        assert_eq!(reply.header("content-type"), "application/problem+json", "{path}");
    }
}

#[tokio::test]
async fn claim_and_force_claim_need_no_body() {
    let shop = EnvironmentsFixture::new().await;
    for path in ["qa-1/sessions", "qa-1/force-claim"] {
        let bodies =
            [None, Some(""), Some("{}"), Some("  \n"), Some(r#"{"commitId": null, "context": null}"#)];
        for body in bodies {
            let asked = post(&super::environments_path(path)).with_account(&shop.ada);
            let asked = body
                .into_iter()
                .fold(asked, |asked, body| asked.header("content-type", "application/json").raw(body));
            let session = expect_data(shop.send(asked).await, 201);
            assert_eq!((&session["commitId"], &session["context"]), (&json!(null), &json!(null)), "{body:?}");
            assert_eq!(session.get("deploymentId"), None, "nothing was asked for");
            shop.release(&shop.ada, &session).await;
        }
    }
}
