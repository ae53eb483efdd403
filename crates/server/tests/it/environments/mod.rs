//! Ephemeral environments over HTTP: two people share a few environments.

mod agents;
mod bad_input;
mod claim;
mod claim_any;
mod contact;
mod definition_changes;
mod deploy;
mod eta;
mod event_records;
mod expiry;
mod extend_and_hand_over;
mod filters;
mod force;
mod groups;
mod history;
mod idempotency;
mod lease;
mod long_poll;
mod queue;
mod release;
mod remote_locks;
mod round_trips;
mod session;
mod shapes;
mod specified_api;
mod view;
mod walkthrough;

use serde_json::{Value, json};

use super::world::{MemberAccount, TestResponse, TestWorld, call, get, post};

const ENVIRONMENTS: &str = "/api/v1/organizations/acme/pipelines/shop/ephemeral-environments";
const PIPELINE: &str = "/api/v1/organizations/acme/pipelines/shop";
const DEFINITION: &str = "version: 1
pipeline:
  name: Shop API
  tracks: main
  stages:
    - name: staging
  steps:
    - name: Deploy
      type: dummy
    - name: Soak
      type: dummy
  ephemeral_environments:
    qa-1: {}
    qa-2: { labels: [small] }
    qa-3: { labels: [small] }
    qa-4:
      triggers: [{ on: pull_request, target_branches: [main] }]
      release: [{ on: pr_closed }, { on: timeout, after_idle: 4h }]
      on_release: deploy_tracked
      ttl: 8h
      labels: [large, slow]
      vars: { url: https://qa-4.shop.test, replicas: 2, debug: true }
      skip: [soak]
";

struct EnvironmentsFixture {
    world: TestWorld,
    /// Owner of acme.
    ada: MemberAccount,
    /// Deployer of acme.
    grace: MemberAccount,
    /// Id of the pipeline `shop`.
    pipeline: String,
}

impl EnvironmentsFixture {
    async fn new() -> Self {
        let world = TestWorld::new().await;
        let (ada, grace) = (world.ada.clone(), world.create_member("grace@acme.test", "deployer").await);
        let pipeline = create_pipeline(&world, "shop").await;
        Self { world, ada, grace, pipeline }
    }

    async fn create_viewer(&self) -> MemberAccount {
        self.world.create_member("vera@acme.test", "viewer").await
    }

    async fn send(&self, call: super::world::TestRequest) -> TestResponse {
        self.world.send(call).await
    }

    /// Reads the resource at this path below the environments, as Ada.
    async fn fetch(&self, path: &str) -> Value {
        expect_data(self.send(get(&environments_path(path)).with_account(&self.ada)).await, 200)
    }

    async fn claim(&self, who: &MemberAccount, body: &Value) -> TestResponse {
        self.send(post(&environments_path("qa-1/sessions")).with_account(who).json(body)).await
    }

    /// Claims qa-1 and returns the session.
    async fn claim_session(&self, who: &MemberAccount, body: &Value) -> Value {
        expect_data(self.claim(who, body).await, 201)
    }

    /// Joins the queue of qa-1 and returns the ticket.
    async fn join_queue(&self, who: &MemberAccount, body: &Value) -> Value {
        let mut body = body.clone();
        body["queue"] = json!(true);
        expect_data(self.claim(who, &body).await, 202)
    }

    async fn force_claim(&self, who: &MemberAccount, body: &Value) -> TestResponse {
        self.send(post(&environments_path("qa-1/force-claim")).with_account(who).json(body)).await
    }

    /// Sends a POST request to a session of qa-1. `verb` is `deploy`, `extend`, `heartbeat` or `hand-over`.
    async fn post_to_session(
        &self,
        who: &MemberAccount,
        session: &Value,
        verb: &str,
        body: &Value,
    ) -> TestResponse {
        self.send(post(&format!("{}/{verb}", session_path(session))).with_account(who).json(body)).await
    }

    async fn release(&self, who: &MemberAccount, session: &Value) -> TestResponse {
        self.send(call("DELETE", &session_path(session)).with_account(who)).await
    }

    async fn session_status(&self, session: &Value) -> Value {
        expect_data(self.send(get(&session_path(session)).with_account(&self.ada)).await, 200)
    }

    async fn user_id(&self, who: &MemberAccount) -> String {
        expect_str(&self.send(get("/api/v1/me").with_account(who)).await.body["data"]["user"]["id"])
    }

    /// The events of acme except the first `skip`, oldest first.
    async fn events(&self, skip: usize) -> Vec<Value> {
        let list =
            self.send(get("/api/v1/organizations/acme/events?limit=200").with_account(&self.ada)).await;
        list.body["data"].as_array().unwrap().iter().rev().skip(skip).cloned().collect()
    }

    async fn kinds_since(&self, skip: usize) -> Vec<String> {
        self.events(skip).await.iter().map(|event| expect_str(&event["kind"])).collect()
    }

    /// Everything that a request about environments could change. Leaves out `access_denied` events, because a refused
    /// request may record one.
    async fn snapshot(&self) -> Value {
        let environments = self.fetch("").await;
        let mut all = vec![environments.clone()];
        for environment in environments.as_array().unwrap() {
            for part in ["", "/history", "/queue"] {
                all.push(self.fetch(&format!("{}{part}", environment["name"].as_str().unwrap())).await);
            }
        }
        let events = self.events(0).await.into_iter().filter(|event| event["kind"] != "access_denied");
        // Masks members that change over time or depend on the events that were left out.
        mask_members(
            &json!([all, events.collect::<Vec<_>>()]),
            &["durationSeconds", "sequence", "hash", "previousHash"],
        )
    }
}

async fn create_pipeline(world: &TestWorld, slug: &str) -> String {
    let body = json!({"slug": slug, "definition": DEFINITION});
    let made =
        world.send(post("/api/v1/organizations/acme/pipelines").with_account(&world.ada).json(&body)).await;
    expect_str(&expect_data(made, 201)["id"])
}

fn environments_path(path: &str) -> String {
    format!("{ENVIRONMENTS}/{path}")
}

fn session_path(session: &Value) -> String {
    environments_path(&format!("qa-1/sessions/{}", session["sessionId"].as_str().unwrap()))
}

fn expect_data(reply: TestResponse, status: u16) -> Value {
    let TestResponse { status: seen, text, mut body, .. } = reply;
    assert_eq!(seen, status, "{text}");
    body["data"].take()
}

fn expect_str(value: &Value) -> String {
    value.as_str().unwrap_or_else(|| panic!("{value} is no text")).to_owned()
}

/// The value with these members replaced by a placeholder.
fn mask_members(value: &Value, members: &[&str]) -> Value {
    match value {
        Value::Object(object) => {
            let one = |(name, value): (&String, &Value)| match members.contains(&name.as_str()) {
                true => (name.clone(), json!("…")),
                false => (name.clone(), mask_members(value, members)),
            };
            Value::Object(object.iter().map(one).collect())
        }
        Value::Array(list) => list.iter().map(|value| mask_members(value, members)).collect(),
        other => other.clone(),
    }
}
