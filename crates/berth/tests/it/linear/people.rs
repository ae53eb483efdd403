//! Several holders: service accounts that may claim and take over.

use serde_json::json;

use crate::client::Api;
use crate::harness::Server;

#[derive(Clone)]
pub(super) struct Person {
    pub(super) id: String,
    token: String,
}

impl Person {
    /// The API of a server as they see it.
    pub(super) fn api(&self, server: &Server) -> Api {
        Api { address: server.address, token: self.token.clone() }
    }
}

pub(super) fn invite(owner: &Api, count: usize) -> Vec<Person> {
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
