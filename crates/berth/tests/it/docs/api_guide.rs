//! Generates the API guide from requests to a real server and their responses.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use expect_test::expect_file;
use serde_json::{Value, json};

use super::pretty::format_json;
use crate::client::{ApiHandle, RawRequest, RawResponse};
use crate::harness::{TestHome, TestServer, wait_until};

const PATIENCE: Duration = Duration::from_secs(120);
const BASE: &str = "/api/v1/organizations/acme";
const DEFINITION: &str = "version: 1
pipeline:
  name: Shop
  stages: [{ name: staging }, { name: production, requires: { approvals: 1 } }]
  steps: [{ name: Deploy, type: script, params: { run: echo deploying $BERTH_COMMIT } }]
  ephemeral_environments: { qa-1: { ttl: 8h } }
";
/// JSON members whose values differ between runs.
const CLOCKS: &[&str] = &["durationSeconds", "etaSeconds", "retryAfterSeconds"];

#[test]
fn api_guide_matches_the_server() {
    let home = TestHome::new();
    let server = home.serve();
    let mut guide = ApiGuide::new();
    guide.add_environments(&server);
    guide.add_stages(&server);
    guide.add_other_resources(&server);
    guide.add_text(include_str!("generated_clients.md").trim_end());
    expect_file!["../../../../../docs/api-guide.md"].assert_eq(&guide.page);
    server.stop();
}

struct ApiGuide {
    page: String,
    /// Maps ids to the short names that the page uses.
    ids: BTreeMap<String, String>,
}

impl ApiGuide {
    fn new() -> Self {
        let page = "# The API by example\n\n\
            A test generates this page from requests to a real server. Ids, times and hashes are shortened, and `…` \
            marks omitted parts. All paths start with `/api/v1/organizations/acme`, and every request carries \
            `Authorization: Bearer <token>`. [The API](api.md) describes what all endpoints have in common; \
            [openapi.json](../openapi.json) lists every member.\n";
        Self { page: page.to_owned(), ids: BTreeMap::new() }
    }

    fn add_text(&mut self, text: &str) {
        let _ = write!(self.page, "\n{text}\n");
    }

    /// Sends the request, records it with its response, and returns the response.
    fn send_and_record(
        &mut self,
        api: &ApiHandle,
        request: &RawRequest,
        wanted: u16,
        left_out: &[&str],
    ) -> Value {
        let answer = api.send(request);
        assert_eq!(answer.status, wanted, "{} {}: {}", request.method, request.path, answer.text());
        let asked = self.format_request(request);
        let heard = self.format_response(&answer, left_out);
        let _ = write!(self.page, "\n```http\n{asked}\n```\n\n```http\n{heard}\n```\n");
        answer.json()["data"].clone()
    }

    fn get(&mut self, api: &ApiHandle, path: &str, left_out: &[&str]) -> Value {
        self.send_and_record(api, &api.request("GET", &format!("{BASE}{path}")), 200, left_out)
    }

    fn post(&mut self, api: &ApiHandle, path: &str, body: &Value, wanted: u16, left_out: &[&str]) -> Value {
        self.send_and_record(api, &api.request("POST", &format!("{BASE}{path}")).json(body), wanted, left_out)
    }

    fn format_request(&mut self, request: &RawRequest) -> String {
        let path = request.path.strip_prefix(BASE).unwrap_or(&request.path);
        let mut text = format!("{} {}", request.method, self.shorten_ids(path));
        for (name, value) in request.headers.iter().filter(|(name, _)| name == "Idempotency-Key") {
            let _ = write!(text, "\n{name}: {value}");
        }
        if let Some(body) = &request.body {
            let body: Value = serde_json::from_slice(body).expect("JSON");
            let _ = write!(text, "\n\n{}", format_json(&self.mask_values("", body, &[])));
        }
        text
    }

    fn format_response(&mut self, answer: &RawResponse, left_out: &[&str]) -> String {
        let mut text = format!("HTTP {}", answer.status);
        for name in ["location", "idempotent-replayed", "www-authenticate"] {
            if let Some(value) = answer.header(name) {
                let value = self.shorten_ids(value).replace("/api/v1/organizations/org_1", "");
                let _ = write!(text, "\n{name}: {value}");
            }
        }
        format!("{text}\n\n{}", format_json(&self.mask_values("", answer.json(), left_out)))
    }

    fn mask_values(&mut self, pointer: &str, value: Value, left_out: &[&str]) -> Value {
        if left_out.contains(&pointer) {
            return "…".into();
        }
        match value {
            Value::String(text) => self.shorten_ids(&text).into(),
            Value::Array(items) => {
                items.into_iter().map(|it| self.mask_values(&format!("{pointer}/*"), it, left_out)).collect()
            }
            Value::Object(fields) => {
                let mask = |(name, value): (String, Value)| {
                    let value = match value {
                        Value::Number(_) if CLOCKS.contains(&name.as_str()) => 42.into(),
                        value => self.mask_values(&format!("{pointer}/{name}"), value, left_out),
                    };
                    (name, value)
                };
                Value::Object(fields.into_iter().map(mask).collect())
            }
            plain => plain,
        }
    }

    /// Replaces ids with short names (`ses_01k9x8…` is `ses_1`), and timestamps and secrets with placeholders.
    fn shorten_ids(&mut self, text: &str) -> String {
        let is_word = |c: char| c.is_ascii_alphanumeric() || "_-:.".contains(c);
        let mut short = String::new();
        let mut rest = text;
        while !rest.is_empty() {
            let end = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
            short.push_str(&self.short_word(&rest[..end]));
            let next = rest[end..].find(is_word).map_or(rest.len(), |at| end + at);
            short.push_str(&rest[end..next]);
            rest = &rest[next..];
        }
        short
    }

    fn short_word(&mut self, word: &str) -> String {
        // Trailing punctuation is not part of the word.
        let (word, end) = word.split_at(word.trim_end_matches(['.', ':']).len());
        let is_moment = word.len() == 24 && word.ends_with('Z') && word.as_bytes()[10] == b'T';
        let known = match word.split_once('_') {
            _ if is_moment => "2026-11-15T09:30:00.000Z".to_owned(),
            _ if word.starts_with("sha256:") => "sha256:…".to_owned(),
            Some(("berth", _)) if word.len() > 20 => "berth_api_…".to_owned(),
            Some((kind, id)) if kind.len() <= 3 && id.len() >= 20 => {
                let count = self.ids.values().filter(|it| it.starts_with(&format!("{kind}_"))).count();
                self.ids.entry(word.to_owned()).or_insert(format!("{kind}_{}", count + 1)).clone()
            }
            _ => word.to_owned(),
        };
        format!("{known}{end}")
    }

    fn add_environments(&mut self, server: &TestServer) {
        let ada = &server.api;
        let robot = create_service_account(ada);
        self.add_text("## Create a pipeline\n\nThis request sends the definition. Pipelines in a [repository](repositories.md) have theirs in `.berth/<name>/pipeline.yaml`.");
        self.post(
            ada,
            "/pipelines",
            &json!({ "slug": "shop", "definition": DEFINITION }),
            201,
            &["/data/warnings"],
        );
        self.add_text("## Claim an environment\n\nThe claim also deploys the commit. With `wait`, the response comes when the deployment has ended, or after that many seconds.");
        let environment = "/pipelines/shop/ephemeral-environments/qa-1";
        let body = json!({ "commitId": "v1", "context": "load test", "ttlSeconds": 3600 });
        let session = self.post(
            ada,
            &format!("{environment}/sessions?wait=30"),
            &body,
            201,
            &["/data/deploymentHistory", "/data/deployments"],
        );
        let session = format!("{environment}/sessions/{}", text(&session["sessionId"]));
        self.add_text("## Deploy in a session");
        let deploy = json!({ "commitId": "v2" });
        self.post(ada, &format!("{session}/deploy?wait=30"), &deploy, 202, &["/data/stages"]);
        self.add_text("## Read a session");
        self.get(ada, &session, &["/data/deployments", "/data/deploymentHistory/*"]);
        self.add_text("## Claim a held environment\n\nWhen another account, here the service account `ci`, claims the environment, the error describes the current session.");
        self.post(&robot, &format!("{environment}/sessions"), &json!({}), 409, &[]);
        self.add_text("With `queue`, the claim returns a ticket. When the current session ends, the ticket gets the environment and its commit is deployed, in the same transaction.");
        let wait = json!({ "queue": true, "commitId": "v3" });
        let ticket = self.post(&robot, &format!("{environment}/sessions"), &wait, 202, &[]);
        self.get(ada, &format!("{environment}/queue"), &[]);
        let place = format!("{BASE}{environment}/queue/{}", text(&ticket["ticketId"]));
        self.send_and_record(&robot, &robot.request("DELETE", &place), 200, &[]);
        self.add_text("## Take over an environment\n\nThe lock moves to the new session in one transaction; the environment is never free in between.");
        let force = json!({ "reason": "hotfix", "context": "release 12" });
        let taken = self.post(&robot, &format!("{environment}/force-claim"), &force, 201, &[]);
        self.add_text("The overridden session records who took over, when and why. It can no longer deploy.");
        self.get(ada, &session, &["/data/deployments", "/data/deploymentHistory"]);
        self.post(ada, &format!("{session}/deploy"), &deploy, 409, &[]);
        self.add_text("## Release an environment");
        let taken = format!("{BASE}{environment}/sessions/{}", text(&taken["sessionId"]));
        self.send_and_record(&robot, &robot.request("DELETE", &taken), 200, &[]);
        self.get(ada, &format!("{environment}/history?limit=1"), &[]);
    }

    fn add_stages(&mut self, server: &TestServer) {
        let ada = &server.api;
        self.add_text("## Deploy through the stages\n\nThe response comes immediately; read the deployment to follow its progress.");
        let body = json!({ "commitId": "v4", "reason": "release 12" });
        let started = self.post(ada, "/pipelines/shop/deployments", &body, 202, &[]);
        let deployment = format!("/deployments/{}", text(&started["id"]));
        wait_until(PATIENCE, "question", || {
            let seen = ada.get(&format!("{BASE}/approvals")).json();
            (!seen["data"].as_array()?.is_empty()).then_some(())
        });
        self.add_text("## Approve a deployment\n\nList the pending approvals and approve one.");
        let waiting = self.get(ada, "/approvals", &[]);
        let approval = format!("/approvals/{}/approve", text(&waiting[0]["id"]));
        self.post(ada, &approval, &json!({ "comment": "looks good" }), 200, &[]);
        self.add_text("Wait until the deployment has ended:");
        self.get(ada, &format!("{deployment}?wait=50"), &["/data/stages/*/steps"]);
    }

    fn add_other_resources(&mut self, server: &TestServer) {
        let ada = &server.api;
        self.add_text("## Secrets\n\nThe API never returns the value of a secret.");
        let body = json!({ "name": "DEPLOY_TOKEN", "value": "a-long-enough-value", "scope": { "type": "pipeline", "pipelineId": "shop" } });
        self.post(ada, "/secrets", &body, 201, &[]);
        self.add_text("## Audit log\n\nEvery change is recorded as an event, chained by hashes.");
        self.get(ada, "/events?kind=session_overridden", &[]);
        self.post(ada, "/events/verify", &json!({}), 200, &["/data/checked", "/data/head/sequence"]);
        self.add_text("## Idempotency\n\nA repeated request with the same `Idempotency-Key` and body returns the stored response and has no further effect.");
        let stop = |key: &str| {
            ada.request("POST", &format!("{BASE}/pipelines/shop/stop"))
                .header("Idempotency-Key", key)
                .json(&json!({ "reason": "freeze" }))
        };
        let rest = ["/data/stages", "/data/repository", "/data/latestDeployment", "/data/warnings"];
        self.send_and_record(ada, &stop("a1b2"), 200, &rest);
        self.send_and_record(ada, &stop("a1b2"), 200, &rest);
        self.add_text("## Errors\n\nEvery error has a stable `code` for programs, a `detail` for people, and a [page](errors.md).");
        self.post(ada, "/secrets", &json!({ "name": "not a name", "values": "x" }), 400, &[]);
        self.record_refusal(&ApiHandle { token: "invalid".into(), ..ada.clone() }, "/pipelines", 401);
        self.record_refusal(ada, "/pipelines/nothing", 404);
        let wrong = json!({ "slug": "blog", "definition": "version: 1\npipeline: { nam: Blog }" });
        self.post(ada, "/pipelines", &wrong, 422, &[]);
    }

    fn record_refusal(&mut self, api: &ApiHandle, path: &str, wanted: u16) {
        self.send_and_record(api, &api.request("GET", &format!("{BASE}{path}")), wanted, &[]);
    }
}

/// Creates a service account with its own token.
fn create_service_account(owner: &ApiHandle) -> ApiHandle {
    let made = owner.post(
        &format!("{BASE}/members"),
        &json!({ "email": "ci@acme.test", "role": "deployer", "kind": "service" }),
    );
    let body = json!({ "name": "ci", "ownerId": made.json()["data"]["id"] });
    let token = owner.post(&format!("{BASE}/api-tokens"), &body).json()["data"]["token"].clone();
    ApiHandle { token: text(&token), ..owner.clone() }
}

fn text(value: &Value) -> String {
    value.as_str().expect("a text").to_owned()
}
