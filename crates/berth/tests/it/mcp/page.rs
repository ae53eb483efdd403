//! The configurations of coding agents in `docs/mcp.md`: each must lead to the MCP server of Berth.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use super::McpFixture;
use crate::client::RawRequest;
use crate::harness::program;

const PAGE: &str = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/mcp.md"));
const URL: &str = "https://berth.acme.test/mcp";
/// How the agents refer to the token, which they read from the environment or ask for.
const TOKENS: [&str; 5] =
    ["${env:BERTH_TOKEN}", "${input:berth-token}", "${BERTH_TOKEN}", "{env:BERTH_TOKEN}", "$BERTH_TOKEN"];

/// How an agent connects.
#[derive(Debug, PartialEq)]
enum McpConnection {
    Program(Vec<String>),
    /// A URL, and the `Authorization` header.
    Http(String, String),
}

/// The code blocks of the page in this language.
fn read_blocks(language: &str) -> Vec<&'static str> {
    let fence = format!("\n```{language}\n");
    let parts = PAGE.split(&fence);
    parts.skip(1).map(|part| part.split_once("\n```").expect("an end").0).collect()
}

/// The connection in an agent's configuration of one server.
fn parse_server(server: &Value) -> McpConnection {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let words = |value: &Value| value.as_array().into_iter().flatten().filter_map(text).collect::<Vec<_>>();
    if let Some(url) = text(&server["url"]).or_else(|| text(&server["httpUrl"])) {
        let header = text(&server["headers"]["Authorization"]);
        let variable = || Some(format!("Bearer ${}", server["bearer_token_env_var"].as_str()?));
        return McpConnection::Http(url, header.or_else(variable).expect("a token"));
    }
    let command = text(&server["command"]).into_iter().chain(words(&server["command"]));
    McpConnection::Program(command.chain(words(&server["args"])).collect())
}

/// The connection in a command line such as `claude mcp add berth -- berth mcp`.
fn parse_command(line: &str) -> McpConnection {
    if let Some((_, program)) = line.split_once(" -- ") {
        return McpConnection::Program(program.split(' ').map(str::to_owned).collect());
    }
    let url = line.split(' ').find(|word| word.starts_with("https://")).expect("a URL");
    let (_, header) = line.split_once("--header \"Authorization: ").expect("a header");
    McpConnection::Http(url.to_owned(), header.trim_end_matches('"').to_owned())
}

fn read_connections() -> Vec<McpConnection> {
    let json = read_blocks("json").into_iter().map(|block| {
        let value: Value = serde_json::from_str(block).expect("JSON");
        let all = ["mcpServers", "servers", "mcp"].iter().find_map(|name| value.get(name)).expect("servers");
        parse_server(&all["berth"])
    });
    let toml = read_blocks("toml").into_iter().map(|block| {
        let value: Value = toml::from_str(block).expect("TOML");
        parse_server(&value["mcp_servers"]["berth"])
    });
    let commands =
        read_blocks("sh").into_iter().filter(|block| block.contains(" mcp add ")).map(parse_command);
    json.chain(toml).chain(commands).collect()
}

fn initialize() -> Value {
    json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "page", "version": "1"}}})
}

/// Starts the program of a configuration and returns its first response.
fn start_program(fixture: &McpFixture, words: &[String]) -> String {
    assert_eq!(words[0], "berth");
    let mut command = Command::new(program());
    command.args(&words[1..]).stdin(Stdio::piped()).stdout(Stdio::piped());
    command.env("XDG_CONFIG_HOME", fixture.config.path());
    command.env("BERTH_SERVER", fixture.url()).env("BERTH_TOKEN", &fixture.home.token);
    let mut child = command.spawn().expect("it starts");
    let mut input = child.stdin.take().expect("its input");
    writeln!(input, "{}", initialize()).expect("it reads");
    let mut line = String::new();
    BufReader::new(child.stdout.take().expect("its output")).read_line(&mut line).expect("it responds");
    // It ends with its input.
    drop(input);
    child.wait().expect("it ends");
    line
}

#[test]
fn agent_configurations_of_the_page_reach_the_server() {
    let fixture = McpFixture::new();
    let connections = read_connections();
    let programs = connections.iter().filter(|it| matches!(it, McpConnection::Program(_))).count();
    assert_eq!((programs, connections.len()), (6, 12), "six agents, two ways each: {connections:?}");
    for connection in &connections {
        let response = match connection {
            McpConnection::Program(words) => start_program(&fixture, words),
            McpConnection::Http(url, authorization) => {
                assert_eq!(url, URL);
                let reference = TOKENS.iter().find(|it| authorization.contains(**it)).expect("a token");
                let request = RawRequest::new("POST", "/mcp").header("Connection", "close");
                let request =
                    request.header("Accept", "application/json, text/event-stream").json(&initialize());
                let authorization = authorization.replace(reference, &fixture.home.token);
                fixture.server.api.send(&request.header("Authorization", &authorization)).text()
            }
        };
        assert!(response.contains("\"name\":\"berth\""), "{connection:?}: {response}");
    }
}
