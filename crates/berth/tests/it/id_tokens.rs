//! ID tokens of steps, verified by an independent implementation through OpenID Connect discovery.

use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Command, Output};
use std::time::Duration;

use berth_testkit::outcome;
use serde_json::{Value, json};

use crate::harness::{BerthProcess, TestHome, TestServer, berth, wait_until};

const ORG: &str = "/api/v1/organizations/acme";
const PATIENCE: Duration = Duration::from_secs(120);
const AUDIENCE: &str = "sts.acme.test";
/// Environment variable that names the interpreter with the package pyjwt.
const PYTHON: &str = "BERTH_TEST_PYTHON";

/// A server with a public URL, and a directory that steps can write to.
struct IssuerFixture {
    server: TestServer,
    issuer: String,
    outside: tempfile::TempDir,
    _home: TestHome,
}

impl IssuerFixture {
    fn start(more: &[&str]) -> Self {
        let home = TestHome::new();
        let port = TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("it").port();
        let issuer = format!("http://127.0.0.1:{port}");
        let listen = format!("127.0.0.1:{port}");
        let mut command =
            berth(&["serve", "--listen", &listen, "--public-url", &issuer, "--rate-limit", "off"]);
        command.args(more).arg("--data-dir").arg(home.path());
        if let Some(url) = home.database() {
            command.args(["--database", url]);
        }
        let server = TestServer::start(&mut command, &home.token);
        Self { server, issuer, outside: tempfile::tempdir().expect("a directory"), _home: home }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.outside.path().join(name)
    }

    /// Creates the pipeline `shop`. Its step prints its token in several ways and copies it out of the sandbox.
    fn create_pipeline(&self) {
        let definition = format!(
            r#"version: 1
pipeline:
  name: Shop
  stages: [{{ name: staging }}]
  ephemeral_environments: {{ qa-1: {{ ttl: 1h }} }}
  steps:
    - name: Deploy
      type: script
      id_token: {{ audience: {AUDIENCE}, file: TOKEN_FILE }}
      params:
        run: |
          stat -c 'mode %a' "$TOKEN_FILE"
          echo "token $(cat "$TOKEN_FILE")"
          echo "signature $(cut -d. -f3 "$TOKEN_FILE")"
          cp "$TOKEN_FILE" {}
"#,
            self.path("token").display()
        );
        let body = json!({"slug": "shop", "definition": definition});
        let made = self.server.api.post(&format!("{ORG}/pipelines"), &body);
        assert_eq!(made.status, 201, "{}", made.text());
    }

    fn wait_for_success(&self, id: &Value) -> Value {
        let path = format!("{ORG}/deployments/{}", id.as_str().expect("an id"));
        let done = wait_until(PATIENCE, "end of the deployment", || {
            Some(self.server.api.get(&path).json()["data"].clone()).filter(|it| it["finishedAt"].is_string())
        });
        assert_eq!(done["status"], "succeeded", "{done}");
        done
    }

    fn verify(&self, python: &str, audience: &str) -> Output {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/verify_id_token.py");
        let mut command = Command::new(python);
        command.arg(script).args([&self.issuer, audience]).arg(self.path("token"));
        command.output().expect("Python runs")
    }

    /// Checks the log of the step, and that the token is valid for its audience only. Returns the claims.
    fn check_token(&self, deployment: &Value) -> Option<Value> {
        let id = deployment["id"].as_str().expect("an id");
        let log = self.server.api.get(&format!("{ORG}/deployments/{id}/steps/deploy/logs?raw=true")).text();
        assert_eq!(log, "mode 600\ntoken ***\nsignature ***\n");
        let Ok(python) = std::env::var(PYTHON) else {
            outcome::skip("pyjwt", &format!("`cargo xtask test` installs it and names it in {PYTHON}"));
            return None;
        };
        let refused = self.verify(&python, "another.test");
        let said = String::from_utf8_lossy(&refused.stderr);
        assert!(!refused.status.success() && said.contains("InvalidAudienceError"), "{said}");
        let verified = self.verify(&python, AUDIENCE);
        assert!(verified.status.success(), "{}", String::from_utf8_lossy(&verified.stderr));
        Some(serde_json::from_slice(&verified.stdout).expect("claims"))
    }
}

#[test]
fn id_token_of_a_step_is_verified_through_discovery() {
    let fixture = IssuerFixture::start(&["--sandbox", "off"]);
    fixture.create_pipeline();
    let environment = format!("{ORG}/pipelines/shop/ephemeral-environments/qa-1");
    let claimed =
        fixture.server.api.post(&format!("{environment}/sessions"), &json!({"commitId": "4f2a1c9"}));
    let session = claimed.json()["data"].clone();
    let done = fixture.wait_for_success(&session["deploymentId"]);
    let Some(claims) = fixture.check_token(&done) else { return };
    assert_eq!(claims["iss"], fixture.issuer);
    assert_eq!(claims["sub"], "org:acme:pipeline:shop:environment:qa-1");
    assert_eq!((&claims["aud"], &claims["commit"]), (&json!(AUDIENCE), &json!("4f2a1c9")));
    assert_eq!((&claims["deployment"], &claims["session"]), (&done["id"], &session["sessionId"]));
    assert_eq!((&claims["fence"], &claims["step"]), (&json!(1), &json!("deploy")));
    let seconds = |name: &str| claims[name].as_i64().expect(name);
    assert!((1..=600).contains(&(seconds("exp") - seconds("iat"))), "{claims}");
    assert!(claims.get("ref").is_none(), "the commit was named by the caller: {claims}");
}

#[test]
fn id_token_reaches_a_remote_runner() {
    let fixture = IssuerFixture::start(&["--no-runner"]);
    fixture.create_pipeline();
    let made = fixture.server.api.post(&format!("{ORG}/runners"), &json!({"name": "far"}));
    let token = made.json()["data"]["token"].as_str().expect("a token").to_owned();
    let mut command = berth(&["runner", "--sandbox", "off", "--server", &fixture.issuer, "--token", &token]);
    let mut runner = BerthProcess::start(command.arg("--work-dir").arg(fixture.path("far")));
    runner.first_line();
    let started = fixture
        .server
        .api
        .post(&format!("{ORG}/pipelines/shop/deployments"), &json!({"commitId": "4f2a1c9"}));
    let done = fixture.wait_for_success(&started.json()["data"]["id"]);
    let Some(claims) = fixture.check_token(&done) else { return };
    assert_eq!(claims["sub"], "org:acme:pipeline:shop:stage:staging");
    assert!(claims.get("session").is_none() && claims.get("fence").is_none(), "{claims}");
}
