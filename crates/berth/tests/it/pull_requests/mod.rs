//! Pull requests with the real server, an emulated GitHub and git over HTTP.

mod front;
mod kills;
mod story;

use std::net::{SocketAddr, TcpListener};
use std::time::Duration;

use aws_lc_rs::hmac;
use serde_json::{Value, json};

use crate::client::{HttpConnection, RawRequest};
use crate::harness::{TestHome, TestServer, berth, wait_until};
use front::GitHubFront;

const PATIENCE: Duration = Duration::from_secs(120);
const ORG: &str = "/api/v1/organizations/acme";

/// A server that is connected to a repository on the emulated GitHub. It keeps its address when it is restarted.
struct ConnectedServer {
    front: GitHubFront,
    home: TestHome,
    address: SocketAddr,
    server: TestServer,
}

impl ConnectedServer {
    /// Returns `None` and reports that if the emulator is not installed.
    fn start(definition: &str) -> Option<Self> {
        let front = GitHubFront::start(definition)?;
        let home = TestHome::new();
        let address = TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("an address");
        let server = start_server(&home, address, &front);
        let connected = Self { front, home, address, server };
        for (name, value) in [("GIT_TOKEN", front::TOKEN), ("API_KEY", "hunter2-hunter2-hunter2")] {
            connected.post("/secrets", &json!({"name": name, "value": value}), 201);
        }
        let repository = json!({"url": connected.front.repository_url(), "credential": "GIT_TOKEN"});
        let made = connected.post("/repositories", &repository, 201);
        let path = format!("/repositories/{}/connection", text(&made, "id"));
        let connection = connected.post(&path, &json!({}), 201);
        assert_eq!(connection["isManaged"], true, "{connection}");
        let environment = "/pipelines/shop/ephemeral-environments/qa-1";
        wait_until(PATIENCE, "the first sync", || {
            let found = connected.server.api.get(&format!("{ORG}{environment}"));
            (found.status == 200).then_some(())
        });
        Some(connected)
    }

    /// Kills the server, and starts it again on the same files.
    fn kill_and_restart(&mut self) {
        self.server.process.kill();
        self.server = start_server(&self.home, self.address, &self.front);
    }

    fn post(&self, path: &str, body: &Value, status: u16) -> Value {
        let reply = self.server.api.post(&format!("{ORG}{path}"), body);
        assert_eq!(reply.status, status, "{}", reply.text());
        reply.json()["data"].clone()
    }

    fn fetch(&self, path: &str) -> Value {
        self.server.api.get(&format!("{ORG}{path}")).json()["data"].clone()
    }

    /// The deployments of a commit to environments.
    fn deployments_of(&self, commit: &str) -> Vec<Value> {
        let all = self.fetch("/deployments?limit=200");
        let all = all.as_array().expect("a list").iter().cloned();
        all.filter(|it| it["commitId"] == commit).collect()
    }

    /// Sends a delivery with a valid signature. Returns its outcome.
    fn deliver(&self, event: &str, id: &str, payload: &Value) -> String {
        let (url, secret) = self.front.hook();
        let body = payload.to_string();
        let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes()), body.as_bytes());
        let signature: String = tag.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
        let path = url.get(url.find("/hooks/").expect("the path of a webhook")..).expect("a path");
        let request = RawRequest::new("POST", path)
            .header("X-GitHub-Event", event)
            .header("X-GitHub-Delivery", id)
            .header("X-Hub-Signature-256", &format!("sha256={signature}"))
            .json(payload);
        let request = RawRequest { body: Some(body.into_bytes()), ..request };
        let reply = HttpConnection::connect(self.address).send_request(&request).expect("a response");
        assert_eq!(reply.status, 200, "{}", reply.text());
        text(&reply.json()["data"], "outcome")
    }

    /// Delivers a change of a pull request as it is now.
    fn deliver_change(&self, action: &str, number: i64, id: &str) {
        let found = self.front.pull_request(number);
        let payload =
            json!({"action": action, "number": number, "pull_request": found, "repository": repository()});
        self.deliver("pull_request", id, &payload);
    }

    /// Delivers a comment of an account. The emulator's own deliveries of comments do not say that the issue is a pull
    /// request.
    fn deliver_comment(&self, number: i64, id: i64, author: &Value, body: &str) -> String {
        let payload = json!({
            "action": "created",
            "issue": {"number": number, "pull_request": {"url": "https://api.github.com/x"}},
            "comment": {"id": id, "body": body, "user": author},
            "repository": repository(),
        });
        self.deliver("issue_comment", &format!("comment-{id}"), &payload)
    }

    /// Waits until the only comment of Berth on a pull request contains this text.
    fn wait_for_comment(&self, number: i64, part: &str) -> String {
        let last = std::cell::RefCell::new(String::new());
        let deadline = std::time::Instant::now() + PATIENCE;
        loop {
            let comments = self.front.comments_of(number);
            assert!(comments.len() <= 1, "{comments:?}");
            *last.borrow_mut() = comments.into_iter().next().unwrap_or_default();
            if last.borrow().contains(part) {
                return last.into_inner();
            }
            assert!(std::time::Instant::now() < deadline, "no {part:?} in {}", last.borrow());
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

fn repository() -> Value {
    json!({"id": 1, "full_name": front::REPOSITORY})
}

fn text(value: &Value, name: &str) -> String {
    value[name].as_str().unwrap_or_else(|| panic!("no {name} in {value}")).to_owned()
}

fn start_server(home: &TestHome, address: SocketAddr, front: &GitHubFront) -> TestServer {
    let mut command = berth(&["serve", "--local", "--rate-limit", "off", "--egress-allow", "127.0.0.1"]);
    command.arg("--data-dir").arg(home.path()).args(["--listen", &address.to_string()]);
    command.args(["--forge", &front.forge_setting()]);
    if let Some(url) = home.database() {
        command.args(["--database", url]);
    }
    TestServer::start(command.env("BERTH_LOG__LEVEL", "warn"), &home.token)
}
