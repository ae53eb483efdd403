//! The remote lock protocol of Jenkins' Lockable Resources plugin: the requests that its client and its end-to-end tests
//! send.

mod access;
mod lifecycle;
mod requests;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};

use super::EnvironmentsFixture;
use crate::world::{TestRequest, TestResponse, get, post};

const PROTOCOL: &str = "/lockable-resources/remote/v1";

/// A Jenkins controller. Like the plugin, it sends a user name and an API token.
struct JenkinsClient<'a> {
    shop: &'a EnvironmentsFixture,
    authorization: String,
}

/// The value of an `Authorization` header.
fn basic(user: &str, password: &str) -> String {
    format!("Basic {}", BASE64_STANDARD.encode(format!("{user}:{password}")))
}

impl EnvironmentsFixture {
    /// A controller with a service account of its own.
    async fn jenkins(&self) -> JenkinsClient<'_> {
        let (_, token) = self.world.create_service_account("jenkins@acme.test", "tester").await;
        self.jenkins_with(&token)
    }

    fn jenkins_with(&self, token: &str) -> JenkinsClient<'_> {
        JenkinsClient { shop: self, authorization: basic("jenkins", token) }
    }

    /// A token of Ada that may claim only these environments.
    async fn restricted_token(&self, scope: &str) -> String {
        let permissions = ["pipelines:read", "environments:read", "environments:claim"];
        let body = json!({"name": "jenkins", "restrictTo": [{"permissions": permissions, "scope": scope}]});
        let made =
            self.send(post("/api/v1/organizations/acme/api-tokens").with_account(&self.ada).json(&body));
        super::expect_str(&super::expect_data(made.await, 201)["token"])
    }
}

impl JenkinsClient<'_> {
    async fn send(&self, request: TestRequest) -> TestResponse {
        self.shop.send(request.header("authorization", &self.authorization)).await
    }

    /// Acquires with the members that the plugin always sends.
    async fn try_acquire(&self, lock: &Value) -> TestResponse {
        let mut request = json!({
            "inversePrecedence": false,
            "resourceSelectStrategy": "sequential",
            "skipIfLocked": false,
            "timeoutUnit": "MINUTES",
        });
        request.as_object_mut().unwrap().extend(lock.as_object().unwrap().clone());
        let body = json!({
            "lockRequest": request,
            "heartbeatIntervalSeconds": 10,
            "clientId": "https://jenkins.acme.test/",
        });
        self.send(post(&format!("{PROTOCOL}/acquire/")).header("accept", "application/json").json(&body))
            .await
    }

    /// Acquires, and returns the id of the lock.
    async fn acquire(&self, lock: &Value, state: &str) -> String {
        let reply = self.try_acquire(lock).await;
        assert_eq!((reply.status.as_u16(), &reply.body["state"]), (202, &json!(state)), "{}", reply.text);
        reply.body["lockId"].as_str().unwrap().to_owned()
    }

    async fn try_poll(&self, id: &str) -> TestResponse {
        self.send(get(&format!("{PROTOCOL}/acquire/{id}/"))).await
    }

    async fn poll(&self, id: &str) -> Value {
        let reply = self.try_poll(id).await;
        assert_eq!((reply.status.as_u16(), &reply.body["lockId"]), (200, &json!(id)), "{}", reply.text);
        reply.body
    }

    /// The state of a lock and why it is in it.
    async fn state(&self, id: &str) -> (Value, Value) {
        let seen = self.poll(id).await;
        (seen["state"].clone(), seen["errorCode"].clone())
    }

    async fn heartbeat(&self, id: &str) -> TestResponse {
        self.send(post(&format!("{PROTOCOL}/lease/{id}/heartbeat"))).await
    }

    async fn release(&self, id: &str) {
        let reply = self.send(post(&format!("{PROTOCOL}/lease/{id}/release"))).await;
        assert_eq!((reply.status.as_u16(), reply.text.as_str()), (204, ""));
    }
}

/// Asserts an error of the protocol.
fn assert_error(reply: &TestResponse, status: u16, code: &str) {
    let got = (reply.status.as_u16(), reply.body["errorCode"].as_str().unwrap_or_default());
    assert_eq!(got, (status, code), "{}", reply.text);
    assert!(reply.body["message"].as_str().is_some_and(|text| !text.is_empty()), "{}", reply.text);
}

fn expect_state(state: &str, code: Option<&str>) -> (Value, Value) {
    (json!(state), json!(code))
}
