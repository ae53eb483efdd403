//! Service accounts that can claim and take over.

use std::net::SocketAddr;

use serde_json::json;

use crate::client::Api;
use crate::harness::Server;

#[derive(Clone)]
pub(crate) struct Person {
    pub(crate) id: String,
    token: String,
}

impl Person {
    /// The server's API with this account's token.
    pub(crate) fn api(&self, server: &Server) -> Api {
        self.api_at(server.address)
    }

    pub(crate) fn api_at(&self, address: SocketAddr) -> Api {
        Api { address, token: self.token.clone() }
    }
}

pub(crate) fn invite(owner: &Api, count: usize) -> Vec<Person> {
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
        Person { id: text(&member["id"]), token: text(&token["token"]) }
    };
    (0..count).map(one).collect()
}
