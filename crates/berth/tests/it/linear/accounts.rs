//! Service accounts that can claim and take over.

use std::net::SocketAddr;

use serde_json::json;

use crate::client::ApiHandle;
use crate::harness::TestServer;

#[derive(Clone)]
pub(crate) struct TestAccount {
    pub(crate) id: String,
    token: String,
}

impl TestAccount {
    /// Returns an API client with this account's token.
    pub(crate) fn api(&self, server: &TestServer) -> ApiHandle {
        self.api_at(server.address)
    }

    pub(crate) fn api_at(&self, address: SocketAddr) -> ApiHandle {
        ApiHandle { address, token: self.token.clone() }
    }
}

pub(crate) fn create_accounts(owner: &ApiHandle, count: usize) -> Vec<TestAccount> {
    let organization = "/api/v1/organizations/acme";
    let created = |path: &str, body| {
        let made = owner.post(&format!("{organization}/{path}"), &body);
        assert_eq!(made.status, 201, "{}", made.text());
        made.json()["data"].clone()
    };
    let text = |value: &serde_json::Value| value.as_str().expect("a text").to_owned();
    let one = |number| {
        let email = format!("robot-{number}@acme.test");
        let member = created("members", json!({ "email": email, "role": "deployer", "kind": "service" }));
        let token = created("api-tokens", json!({ "name": "locks", "ownerId": member["id"] }));
        TestAccount { id: text(&member["id"]), token: text(&token["token"]) }
    };
    (0..count).map(one).collect()
}
