//! The server is killed around the writing of a commit status: the forge ends up with exactly the present status.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::harness::{TestHome, TestServer, wait_until};

const PATIENCE: Duration = Duration::from_secs(120);
const ORG: &str = "/api/v1/organizations/acme";
const CONTEXT: &str = "berth/shop/production";
const PIPELINE: &str = "version: 1
pipeline:
  name: Shop
  tracks: main
  stages: [{ name: production }]
  steps: [{ name: Deploy, type: script, params: { run: 'true' } }]
";

/// A status that was received and has no response yet.
struct PendingStatus {
    target: String,
    body: Value,
    stream: TcpStream,
}

/// What the forge shows: the state and description by commit and context.
type ShownStatuses = BTreeMap<(String, String), (String, String)>;

impl PendingStatus {
    /// Responds, and shows the status as a forge does.
    fn accept(mut self, shown: &mut ShownStatuses) {
        let text = |name: &str| self.body[name].as_str().expect("a text").to_owned();
        shown.insert((self.target.clone(), text("context")), (text("state"), text("description")));
        // Ignore an error: the sender may have been killed.
        let _ = self
            .stream
            .write_all(b"HTTP/1.1 201 Created\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{}");
    }
}

/// Serves the files below `root`, which git can fetch, and passes statuses to the test.
fn start_forge(root: PathBuf) -> (SocketAddr, Receiver<PendingStatus>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    let (tell, arrived) = sync_channel(100);
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let (root, tell) = (root.clone(), tell.clone());
            std::thread::spawn(move || serve_request(stream, &root, &tell));
        }
    });
    (address, arrived)
}

fn serve_request(mut stream: TcpStream, root: &Path, tell: &SyncSender<PendingStatus>) -> Option<()> {
    let mut reader = BufReader::new(stream.try_clone().ok()?);
    let (mut first, mut length) = (String::new(), 0);
    reader.read_line(&mut first).ok()?;
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).ok()? == 0 || line == "\r\n" {
            break;
        }
        if let Some(value) = line.to_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().ok()?;
        }
    }
    let target = first.split(' ').nth(1)?.to_owned();
    if first.starts_with("POST") && target.contains("/statuses/") {
        let mut body = vec![0; length];
        reader.read_exact(&mut body).ok()?;
        return tell.send(PendingStatus { target, body: serde_json::from_slice(&body).ok()?, stream }).ok();
    }
    let path = target.split('?').next()?.trim_start_matches('/');
    let (status, body) = match std::fs::read(root.join(path)) {
        Ok(body) if !path.contains("..") => ("200 OK", body),
        _ => ("404 Not Found", Vec::new()),
    };
    let head = format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n", body.len());
    stream.write_all(head.as_bytes()).ok()?;
    stream.write_all(&body).ok()
}

/// Creates a bare repository at `acme/shop.git` that can be fetched from a server of files.
fn create_repository(root: &Path) {
    let work = root.join("work");
    std::fs::create_dir_all(work.join(".berth/shop")).expect("a directory");
    std::fs::write(work.join(".berth/shop/pipeline.yaml"), PIPELINE).expect("a file");
    let git = |dir: &Path, args: &[&str]| {
        let ran = Command::new("git")
            .current_dir(dir)
            .args(["-c", "user.name=ada", "-c", "user.email=ada@acme.test"])
            .args(args)
            .status();
        assert!(ran.expect("git").success(), "{args:?}");
    };
    git(&work, &["init", "--quiet", "--initial-branch=main"]);
    git(&work, &["add", "."]);
    git(&work, &["commit", "--quiet", "-m", "first"]);
    git(root, &["clone", "--quiet", "--bare", "work", "acme/shop.git"]);
    git(&root.join("acme/shop.git"), &["update-server-info"]);
}

fn start(home: &TestHome, forge: SocketAddr) -> TestServer {
    let mut command = home.serve_command();
    command.args(["--no-runner", "--egress-allow", "127.0.0.1", "--forge"]);
    command.arg(format!("127.0.0.1=github=http://{forge}")).env("BERTH_LOG__LEVEL", "warn");
    TestServer::start(&mut command, &home.token)
}

/// Accepts statuses until this one is shown.
fn accept_until(
    arrivals: &Receiver<PendingStatus>,
    shown: &mut ShownStatuses,
    state: &str,
    description: &str,
) {
    let deadline = Instant::now() + PATIENCE;
    let is_shown = |shown: &ShownStatuses| {
        shown.iter().any(|((_, context), it)| context == CONTEXT && *it == (state.into(), description.into()))
    };
    while !is_shown(shown) {
        assert!(Instant::now() < deadline, "{shown:?}");
        match arrivals.recv_timeout(PATIENCE) {
            Ok(arrived) => arrived.accept(shown),
            Err(error) => panic!("no status: {error}, {shown:?}"),
        }
    }
}

#[test]
fn commit_status_after_kill_is_written_exactly_as_wanted() {
    let root = tempfile::tempdir().expect("a directory");
    create_repository(root.path());
    let (forge, arrivals) = start_forge(root.path().to_owned());
    let home = TestHome::new();
    let mut server = start(&home, forge);
    let secret = json!({"name": "GIT_TOKEN", "value": "hunter2-token"});
    assert_eq!(server.api.post(&format!("{ORG}/secrets"), &secret).status, 201);
    let body = json!({"url": format!("http://{forge}/acme/shop.git"), "credential": "GIT_TOKEN"});
    let made = server.api.post(&format!("{ORG}/repositories"), &body);
    assert_eq!(made.status, 201, "{}", made.text());

    // The forge has the request, but the server is killed before it records that the status was written.
    let mut shown = ShownStatuses::new();
    let first = arrivals.recv_timeout(PATIENCE).expect("a status");
    server.process.kill();
    drop(server);
    first.accept(&mut shown);
    let mut server = start(&home, forge);
    let again = arrivals.recv_timeout(PATIENCE).expect("the status again");
    again.accept(&mut shown);
    assert_eq!(shown.len(), 1, "{shown:?}");

    // The server is killed after a change and before it is written.
    let path = format!("{ORG}/pipelines/shop/deployments");
    let deployment = wait_until(PATIENCE, "the deployment", || {
        server.api.get(&path).json()["data"][0]["id"].as_str().map(str::to_owned)
    });
    let cancelled = server.api.post(&format!("{ORG}/deployments/{deployment}/cancel"), &json!({}));
    assert!((200..300).contains(&cancelled.status), "{}", cancelled.text());
    server.process.kill();
    drop(server);
    server = start(&home, forge);
    accept_until(&arrivals, &mut shown, "error", "cancelled");
    assert_eq!(shown.len(), 1, "{shown:?}");
    // Nothing follows.
    assert!(matches!(arrivals.recv_timeout(Duration::from_secs(3)), Err(RecvTimeoutError::Timeout)));
    server.stop();
}
