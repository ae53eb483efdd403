//! The MCP server over both of its transports, driven by the protocol's reference client and its inspector.

mod client;
mod http_endpoint;
mod inspector;
mod page;
mod scopes;
mod workflow;

use std::path::PathBuf;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::harness::{TestHome, TestServer, program};

/// Steps: one that fails for the commit `bad`, slowly enough that its progress is reported, and one that runs until it is stopped for the commit `slow`.
const DEFINITION: &str = "version: 1
pipeline:
  name: Shop
  stages: [{ name: staging }]
  ephemeral_environments: { qa-1: { ttl: 2h }, qa-2: {}, perf: {} }
  steps:
    - name: Deploy
      id: deploy
      type: script
      params:
        run: |
          echo deploying $BERTH_COMMIT
          if [ $BERTH_COMMIT = long ]; then seq 1 20000; fi
          if [ $BERTH_COMMIT = slow ]; then sleep 600; fi
          if [ $BERTH_COMMIT = bad ]; then sleep 1; echo 'sh: 1: missing-program: not found'; exit 127; fi
";

/// A server with the pipeline `shop`.
struct McpFixture {
    home: TestHome,
    server: TestServer,
    /// Configuration of the CLI, without a login.
    config: TempDir,
}

/// How a client reaches the MCP server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum McpTransport {
    Stdio,
    Http,
}

impl McpFixture {
    fn new() -> Self {
        let home = TestHome::new();
        let mut command = home.serve_command();
        command.args(["--sandbox", "off"]);
        let server = TestServer::start(&mut command, &home.token);
        let body = json!({"slug": "shop", "definition": DEFINITION});
        let made = server.api.post("/api/v1/organizations/acme/pipelines", &body);
        assert_eq!(made.status, 201, "{}", made.text());
        Self { home, server, config: tempfile::tempdir().expect("a directory") }
    }

    fn url(&self) -> String {
        format!("http://{}", self.server.address)
    }

    /// Describes the connection for `driver.py`.
    fn target(&self, transport: McpTransport, mode: &str, token: &str) -> Value {
        match transport {
            McpTransport::Http => json!({"mode": mode, "url": format!("{}/mcp", self.url()), "token": token}),
            McpTransport::Stdio => json!({
                "mode": mode,
                "command": program(),
                "args": ["mcp"],
                "env": {"XDG_CONFIG_HOME": self.config.path(), "BERTH_SERVER": self.url(), "BERTH_TOKEN": token},
            }),
        }
    }

    /// Creates a service account and a token of it with these restrictions. Returns the token and its id.
    fn create_token(&self, email: &str, role: &str, restrict_to: Option<Value>) -> (String, String) {
        let organization = "/api/v1/organizations/acme";
        let member = json!({"email": email, "role": role, "kind": "service"});
        let made = self.server.api.post(&format!("{organization}/members"), &member);
        assert_eq!(made.status, 201, "{}", made.text());
        let mut body = json!({"name": "agent", "ownerId": made.json()["data"]["id"]});
        if let Some(restrict_to) = restrict_to {
            body["restrictTo"] = restrict_to;
        }
        let made = self.server.api.post(&format!("{organization}/api-tokens"), &body);
        assert_eq!(made.status, 201, "{}", made.text());
        let data = made.json()["data"].clone();
        let text = |name: &str| data[name].as_str().expect(name).to_owned();
        (text("token"), text("id"))
    }

    fn environment(&self, name: &str) -> Value {
        let path = format!("/api/v1/organizations/acme/pipelines/shop/ephemeral-environments/{name}");
        self.server.api.get(&path).json()["data"].clone()
    }
}

/// Returns a path from an environment variable that names installed programs of the tests.
fn installed(variable: &str) -> Option<PathBuf> {
    std::env::var_os(variable).map(PathBuf::from)
}
