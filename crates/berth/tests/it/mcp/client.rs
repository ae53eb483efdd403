//! The reference client for Python, as a child process.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use berth_testkit::outcome;
use serde_json::{Value, json};

use super::{McpFixture, McpTransport, installed};

/// Environment variable that names the interpreter with the client.
const PYTHON: &str = "BERTH_TEST_PYTHON";

struct KilledOnDrop(Child);

impl Drop for KilledOnDrop {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A connected client. It is killed on drop.
pub(super) struct McpClient {
    child: KilledOnDrop,
    requests: ChildStdin,
    responses: BufReader<ChildStdout>,
    /// The protocol version and the instructions of the server.
    pub(super) server: Value,
}

impl McpClient {
    /// Connects. Returns `None` and reports that if the client is not installed.
    pub(super) fn connect(
        fixture: &McpFixture,
        transport: McpTransport,
        mode: &str,
        token: &str,
    ) -> Option<Self> {
        let python = installed(PYTHON);
        let has_client = |python: &std::path::PathBuf| {
            Command::new(python)
                .args(["-c", "import mcp"])
                .stderr(Stdio::null())
                .status()
                .is_ok_and(|it| it.success())
        };
        let Some(python) = python.filter(has_client) else {
            outcome::skip("mcp", &format!("`pip install mcp`, and name its Python in {PYTHON}"));
            return None;
        };
        let driver = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/mcp/driver.py");
        let mut command = Command::new(python);
        command.arg(driver).arg(fixture.target(transport, mode, token).to_string());
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("the client starts");
        let requests = child.stdin.take().expect("its input");
        let responses = BufReader::new(child.stdout.take().expect("its output"));
        let mut client = Self { child: KilledOnDrop(child), requests, responses, server: Value::Null };
        client.server = client.read_response();
        Some(client)
    }

    fn read_response(&mut self) -> Value {
        let mut line = String::new();
        self.responses.read_line(&mut line).expect("a line");
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line:?}"))
    }

    pub(super) fn request(&mut self, request: &Value) -> Value {
        writeln!(self.requests, "{request}").expect("the client reads");
        self.read_response()
    }

    /// Calls a tool, whatever the result.
    pub(super) fn call(&mut self, name: &str, arguments: &Value) -> ToolAnswer {
        let result = self.request(&json!({"method": "tools/call", "name": name, "arguments": arguments}));
        ToolAnswer { result }
    }

    /// Calls a tool that must succeed, and returns `data` of the API's response.
    pub(super) fn call_ok(&mut self, name: &str, arguments: &Value) -> Value {
        let answer = self.call(name, arguments);
        assert!(!answer.is_error(), "{name} {arguments}: {}", answer.result);
        answer.content()["data"].clone()
    }

    /// Calls a tool that must fail with this code, and returns the error.
    pub(super) fn call_err(&mut self, name: &str, arguments: &Value, code: &str) -> Value {
        let answer = self.call(name, arguments);
        assert!(answer.is_error(), "{name} {arguments}: {}", answer.result);
        assert_eq!(answer.content()["code"], code, "{name} {arguments}: {}", answer.result);
        answer.content().clone()
    }

    /// Closes the connection and waits until the client, and with it a server on its pipes, has ended.
    pub(super) fn close(self) {
        let Self { mut child, requests, .. } = self;
        drop(requests);
        assert!(child.0.wait().expect("its status").success(), "the client failed");
    }
}

/// The result of a tool call.
pub(super) struct ToolAnswer {
    pub(super) result: Value,
}

impl ToolAnswer {
    pub(super) fn is_error(&self) -> bool {
        self.result["isError"] == true
    }

    pub(super) fn content(&self) -> &Value {
        &self.result["structuredContent"]
    }

    pub(super) fn text(&self) -> &str {
        self.result["content"][0]["text"].as_str().unwrap_or_else(|| panic!("no text: {}", self.result))
    }
}
