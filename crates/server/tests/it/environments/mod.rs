//! Ephemeral environments over HTTP: two people share a few environments.

mod any;
mod bad_input;
mod claim;
mod declared;
mod deploy;
mod eta;
mod expiry;
mod filters;
mod force;
mod given;
mod groups;
mod history;
mod once;
mod pass;
mod queue;
mod release;
mod session;
mod shapes;
mod told;
mod view;
mod wait;
mod walk;

use serde_json::{Value, json};

use super::world::{Account, Reply, World, call, get, post};

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

struct Shop {
    world: World,
    /// Owner of acme.
    ada: Account,
    /// Deployer of acme.
    grace: Account,
    /// Id of the pipeline `shop`.
    pipeline: String,
}

impl Shop {
    async fn open() -> Self {
        let world = World::new().await;
        let (ada, grace) = (world.ada.clone(), world.member("grace@acme.test", "deployer").await);
        let pipeline = pipeline(&world, "shop").await;
        Self { world, ada, grace, pipeline }
    }

    async fn viewer(&self) -> Account {
        self.world.member("vera@acme.test", "viewer").await
    }

    async fn send(&self, call: super::world::Call) -> Reply {
        self.world.send(call).await
    }

    /// Reads the resource at this path below the environments, as Ada.
    async fn see(&self, path: &str) -> Value {
        data(self.send(get(&at(path)).by(&self.ada)).await, 200)
    }

    async fn claim(&self, who: &Account, body: &Value) -> Reply {
        self.send(post(&at("qa-1/sessions")).by(who).json(body)).await
    }

    /// Claims qa-1 and returns the session.
    async fn claimed(&self, who: &Account, body: &Value) -> Value {
        data(self.claim(who, body).await, 201)
    }

    /// Joins the queue of qa-1 and returns the ticket.
    async fn queued(&self, who: &Account, body: &Value) -> Value {
        let mut body = body.clone();
        body["queue"] = json!(true);
        data(self.claim(who, &body).await, 202)
    }

    async fn force(&self, who: &Account, body: &Value) -> Reply {
        self.send(post(&at("qa-1/force-claim")).by(who).json(body)).await
    }

    /// Sends a POST request to a session of qa-1. `verb` is `deploy`, `extend` or `hand-over`.
    async fn act(&self, who: &Account, session: &Value, verb: &str, body: &Value) -> Reply {
        self.send(post(&format!("{}/{verb}", in_session(session))).by(who).json(body)).await
    }

    async fn release(&self, who: &Account, session: &Value) -> Reply {
        self.send(call("DELETE", &in_session(session)).by(who)).await
    }

    async fn status(&self, session: &Value) -> Value {
        data(self.send(get(&in_session(session)).by(&self.ada)).await, 200)
    }

    async fn me(&self, who: &Account) -> String {
        text(&self.send(get("/api/v1/me").by(who)).await.body["data"]["user"]["id"])
    }

    /// The events of acme except the first `skip`, oldest first.
    async fn events(&self, skip: usize) -> Vec<Value> {
        let list = self.send(get("/api/v1/organizations/acme/events?limit=200").by(&self.ada)).await;
        list.body["data"].as_array().unwrap().iter().rev().skip(skip).cloned().collect()
    }

    async fn kinds_since(&self, skip: usize) -> Vec<String> {
        self.events(skip).await.iter().map(|event| text(&event["kind"])).collect()
    }

    /// Everything that a request about environments could change. Leaves out `access_denied` events, because a refused
    /// request may record one.
    async fn dump(&self) -> Value {
        let environments = self.see("").await;
        let mut all = vec![environments.clone()];
        for environment in environments.as_array().unwrap() {
            for part in ["", "/history", "/queue"] {
                all.push(self.see(&format!("{}{part}", environment["name"].as_str().unwrap())).await);
            }
        }
        let events = self.events(0).await.into_iter().filter(|event| event["kind"] != "access_denied");
        // Masks members that change over time or depend on the events that were left out.
        masked(
            &json!([all, events.collect::<Vec<_>>()]),
            &["durationSeconds", "sequence", "hash", "previousHash"],
        )
    }
}

async fn pipeline(world: &World, slug: &str) -> String {
    let body = json!({"slug": slug, "definition": DEFINITION});
    let made = world.send(post("/api/v1/organizations/acme/pipelines").by(&world.ada).json(&body)).await;
    text(&data(made, 201)["id"])
}

fn at(path: &str) -> String {
    format!("{ENVIRONMENTS}/{path}")
}

fn in_session(session: &Value) -> String {
    at(&format!("qa-1/sessions/{}", session["sessionId"].as_str().unwrap()))
}

fn data(reply: Reply, status: u16) -> Value {
    let Reply { status: seen, text, mut body, .. } = reply;
    assert_eq!(seen, status, "{text}");
    body["data"].take()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_else(|| panic!("{value} is no text")).to_owned()
}

/// The value with these members replaced by a placeholder.
fn masked(value: &Value, members: &[&str]) -> Value {
    match value {
        Value::Object(object) => {
            let one = |(name, value): (&String, &Value)| match members.contains(&name.as_str()) {
                true => (name.clone(), json!("…")),
                false => (name.clone(), masked(value, members)),
            };
            Value::Object(object.iter().map(one).collect())
        }
        Value::Array(list) => list.iter().map(|value| masked(value, members)).collect(),
        other => other.clone(),
    }
}
