//! A server in front of the emulated GitHub (npm `emulate`). It adds what the emulator lacks: git over HTTP, the commits
//! of the real repository as heads of pull requests, forks, commit statuses and deployments.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};

use berth_testkit::outcome;
use serde_json::{Value, json};

use super::PATIENCE;
use crate::harness::wait_until;

const NPM: &str = "BERTH_TEST_NPM";
/// A token that is built into the emulator.
pub(super) const TOKEN: &str = "test_token_admin";
pub(super) const REPOSITORY: &str = "admin/shop";
/// The id of the repository that forks are in.
const FORK_ID: i64 = 99_999;
/// The beginning of every comment of Berth.
const MARKER: &str = "[//]: # (berth:pull-request ";

/// What the front knows.
#[derive(Debug, Default)]
struct FrontState {
    /// The URL and the secret of the webhook.
    hook: Option<(String, String)>,
    /// Pull requests whose head is in a fork.
    forks: BTreeSet<i64>,
    /// The state by commit and context.
    statuses: BTreeMap<(String, String), String>,
    deployments: Vec<FrontDeployment>,
}

#[derive(Debug, Clone)]
pub(super) struct FrontDeployment {
    pub(super) created: Value,
    pub(super) states: Vec<String>,
}

pub(super) struct GitHubFront {
    address: SocketAddr,
    files: RepositoryFiles,
    emulator: EmulatedGitHub,
    state: Arc<Mutex<FrontState>>,
}

impl GitHubFront {
    /// Returns `None` and reports that if the emulator is not installed.
    pub(super) fn start(definition: &str) -> Option<Self> {
        let emulator = EmulatedGitHub::start()?;
        let files = RepositoryFiles::create(definition);
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let state = Arc::<Mutex<FrontState>>::default();
        let front = ServedFront {
            root: files.root.path().to_owned(),
            emulator: emulator.address,
            state: state.clone(),
        };
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let front = front.clone();
                std::thread::spawn(move || front.respond(stream));
            }
        });
        Some(Self { address, files, emulator, state })
    }

    pub(super) fn repository_url(&self) -> String {
        format!("http://{}/{REPOSITORY}.git", self.address)
    }

    pub(super) fn forge_setting(&self) -> String {
        format!("127.0.0.1=github=http://{}/api", self.address)
    }

    pub(super) fn hook(&self) -> (String, String) {
        self.state.lock().expect("unpoisoned").hook.clone().expect("a webhook")
    }

    pub(super) fn status(&self, commit: &str, context: &str) -> Option<String> {
        let key = (commit.to_owned(), context.to_owned());
        self.state.lock().expect("unpoisoned").statuses.get(&key).cloned()
    }

    pub(super) fn deployments(&self) -> Vec<FrontDeployment> {
        self.state.lock().expect("unpoisoned").deployments.clone()
    }

    /// Commits a version and pushes it to a ref. Returns the commit.
    pub(super) fn push(&self, to: &str, version: &str) -> String {
        self.files.push(to, version)
    }

    /// Opens a pull request for a branch of the repository; the emulator sends the delivery.
    pub(super) fn open(&self, branch: &str) -> i64 {
        let body = json!({"title": format!("Dark mode {branch}"), "head": branch, "base": "main"});
        let made = self.emulator.call("POST", &format!("/repos/{REPOSITORY}/pulls"), Some(&body));
        made["number"].as_i64().unwrap_or_else(|| panic!("{made}"))
    }

    /// Opens a pull request whose head is the ref `refs/pull/<number>/head` of a fork. `push` makes the commit.
    pub(super) fn open_fork(&self, version: &str) -> (i64, String) {
        // The number is not known before, and the emulator's delivery must not find another head.
        let next = self.list_pull_requests() + 1;
        self.state.lock().expect("unpoisoned").forks.insert(next);
        let head = self.push(&format!("refs/pull/{next}/head"), version);
        let number = self.open(&format!("fork-{next}"));
        assert_eq!(number, next);
        (number, head)
    }

    fn list_pull_requests(&self) -> i64 {
        let all =
            self.emulator.call("GET", &format!("/repos/{REPOSITORY}/pulls?state=all&per_page=100"), None);
        all.as_array().and_then(|all| i64::try_from(all.len()).ok()).expect("a list")
    }

    pub(super) fn close(&self, number: i64) {
        let path = format!("/repos/{REPOSITORY}/pulls/{number}");
        self.emulator.call("PATCH", &path, Some(&json!({"state": "closed"})));
    }

    /// A pull request as Berth sees it.
    pub(super) fn pull_request(&self, number: i64) -> Value {
        let mut found = self.emulator.call("GET", &format!("/repos/{REPOSITORY}/pulls/{number}"), None);
        set_head(&self.files.bare(), &self.state.lock().expect("unpoisoned"), &mut found);
        found
    }

    /// The comments of Berth on a pull request.
    pub(super) fn comments_of(&self, number: i64) -> Vec<String> {
        let all = self.emulator.call("GET", &format!("/repos/{REPOSITORY}/issues/{number}/comments"), None);
        let all = all.as_array().expect("a list").iter();
        let texts = all.map(|it| it["body"].as_str().expect("a text").to_owned());
        texts.filter(|text| text.starts_with(MARKER)).collect()
    }
}

/// What the threads that respond share.
#[derive(Clone)]
struct ServedFront {
    root: PathBuf,
    emulator: SocketAddr,
    state: Arc<Mutex<FrontState>>,
}

impl ServedFront {
    fn respond(&self, mut stream: TcpStream) -> Option<()> {
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
        let mut body = vec![0; length];
        reader.read_exact(&mut body).ok()?;
        let (method, rest) = first.split_once(' ')?;
        let target = rest.split(' ').next()?;
        let (status, body) = match target.strip_prefix("/api") {
            Some(target) => self.call(method, target, &serde_json::from_slice(&body).unwrap_or_default()),
            None => self.read_file(target),
        };
        let head =
            format!("HTTP/1.1 {status} x\r\ncontent-length: {}\r\nconnection: close\r\n\r\n", body.len());
        stream.write_all(head.as_bytes()).ok()?;
        stream.write_all(&body).ok()
    }

    /// Git reads files of a repository that has been prepared for it.
    fn read_file(&self, target: &str) -> (u16, Vec<u8>) {
        let path = target.split('?').next().unwrap_or_default().trim_start_matches('/');
        match std::fs::read(self.root.join(path)) {
            Ok(body) if !path.contains("..") => (200, body),
            _ => (404, Vec::new()),
        }
    }

    fn call(&self, method: &str, target: &str, body: &Value) -> (u16, Vec<u8>) {
        let path = target.split('?').next().unwrap_or_default();
        let parts: Vec<_> = path.trim_start_matches('/').split('/').skip(3).collect();
        let text = |name: &str| body[name].as_str().unwrap_or_default().to_owned();
        let mut state = self.state.lock().expect("unpoisoned");
        let reply = |status: u16, body: Value| (status, body.to_string().into_bytes());
        match (method, parts.as_slice()) {
            ("POST", ["statuses", commit]) => {
                state.statuses.insert(((*commit).to_owned(), text("context")), text("state"));
                reply(201, json!({"id": 1}))
            }
            ("GET", ["deployments"]) => {
                let all = state.deployments.iter().enumerate();
                let all = all.map(|(at, it)| {
                    json!({"id": at + 1, "payload": it.created["payload"], "environment": it.created["environment"]})
                });
                reply(200, all.collect())
            }
            ("POST", ["deployments"]) => {
                state.deployments.push(FrontDeployment { created: body.clone(), states: Vec::new() });
                reply(201, json!({"id": state.deployments.len()}))
            }
            ("POST", ["deployments", id, "statuses"]) => {
                let found =
                    id.parse::<usize>().ok().and_then(|id| state.deployments.get_mut(id.checked_sub(1)?));
                let Some(found) = found else { return reply(404, json!({})) };
                found.states.push(text("state"));
                reply(201, json!({"id": 1}))
            }
            _ => {
                if (method, parts.as_slice()) == ("POST", &["hooks"]) {
                    let config = |name: &str| body["config"][name].as_str().unwrap_or_default().to_owned();
                    state.hook = Some((config("url"), config("secret")));
                }
                // The emulator delivers to Berth before it responds.
                drop(state);
                let (status, mut found) = call_emulator(self.emulator, method, target, Some(body));
                let state = self.state.lock().expect("unpoisoned");
                let bare = self.root.join(format!("{REPOSITORY}.git"));
                match (parts.as_slice(), &mut found) {
                    (["pulls"], Value::Array(all)) => {
                        all.iter_mut().for_each(|it| set_head(&bare, &state, it));
                    }
                    (["pulls", _], found) => set_head(&bare, &state, found),
                    _ => {}
                }
                let body = if found.is_null() { Vec::new() } else { found.to_string().into_bytes() };
                (status, body)
            }
        }
    }
}

/// Sets the head of a pull request to the commit of its branch in the real repository.
fn set_head(bare: &Path, state: &FrontState, found: &mut Value) {
    let Some(number) = found["number"].as_i64() else { return };
    let is_fork = state.forks.contains(&number);
    let name = match is_fork {
        true => format!("refs/pull/{number}/head"),
        false => format!("refs/heads/{}", found["head"]["ref"].as_str().unwrap_or_default()),
    };
    if let Some(commit) = run_git(bare, &["rev-parse", "--verify", "--quiet", &name]) {
        found["head"]["sha"] = json!(commit);
    }
    if is_fork {
        found["head"]["repo"]["id"] = json!(FORK_ID);
    }
}

fn run_git(dir: &Path, args: &[&str]) -> Option<String> {
    let mut command = Command::new("git");
    command.current_dir(dir).args(["-c", "user.name=grace", "-c", "user.email=grace@acme.test"]).args(args);
    let ran = command.output().expect("git");
    let output = String::from_utf8(ran.stdout).expect("UTF-8").trim().to_owned();
    ran.status.success().then_some(output)
}

/// A working copy, and a bare repository that can be fetched from a server of files.
struct RepositoryFiles {
    root: tempfile::TempDir,
}

impl RepositoryFiles {
    fn create(definition: &str) -> Self {
        let files = Self { root: tempfile::tempdir().expect("a directory") };
        let work = files.work();
        std::fs::create_dir_all(work.join(".berth/shop")).expect("a directory");
        std::fs::write(work.join(".berth/shop/pipeline.yaml"), definition).expect("a file");
        std::fs::write(work.join("version.txt"), "main\n").expect("a file");
        for args in
            [&["init", "--quiet", "--initial-branch=main"][..], &["add", "."], &["commit", "-qm", "first"]]
        {
            run_git(&work, args).expect("git");
        }
        run_git(files.root.path(), &["clone", "--quiet", "--bare", "work", &format!("{REPOSITORY}.git")])
            .expect("git");
        run_git(&files.bare(), &["update-server-info"]).expect("git");
        files
    }

    fn work(&self) -> PathBuf {
        self.root.path().join("work")
    }

    fn bare(&self) -> PathBuf {
        self.root.path().join(format!("{REPOSITORY}.git"))
    }

    fn push(&self, to: &str, version: &str) -> String {
        let (work, bare) = (self.work(), self.bare().display().to_string());
        run_git(&work, &["checkout", "--quiet", "-B", "work", "main"]).expect("git");
        std::fs::write(work.join("version.txt"), format!("{version}\n")).expect("a file");
        run_git(&work, &["commit", "--quiet", "--all", "-m", version]).expect("git");
        run_git(&work, &["push", "--quiet", "--force", &bare, &format!("HEAD:{to}")]).expect("git");
        run_git(&self.bare(), &["update-server-info"]).expect("git");
        run_git(&work, &["rev-parse", "HEAD"]).expect("a commit")
    }
}

/// The emulator, which is killed on drop.
struct EmulatedGitHub {
    address: SocketAddr,
    child: Child,
}

impl EmulatedGitHub {
    fn start() -> Option<Self> {
        let program =
            std::env::var_os(NPM).map(|dir| PathBuf::from(dir).join("node_modules/emulate/dist/index.js"));
        let Some(program) = program.filter(|program| program.exists()) else {
            outcome::skip("emulate", &format!("`cargo xtask test` installs it; {NPM} names it"));
            return None;
        };
        let address = TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("an address");
        let mut command = Command::new("node");
        command.arg(program).args(["start", "--service", "github", "--port", &address.port().to_string()]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let started = Self { address, child: command.spawn().expect("node") };
        wait_until(PATIENCE, "the emulator", || TcpStream::connect(address).ok());
        let made = started.call("POST", "/user/repos", Some(&json!({"name": "shop", "auto_init": true})));
        assert_eq!(made["full_name"], REPOSITORY, "{made}");
        Some(started)
    }

    fn call(&self, method: &str, target: &str, body: Option<&Value>) -> Value {
        call_emulator(self.address, method, target, body).1
    }
}

impl Drop for EmulatedGitHub {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Sends a request with HTTP/1.0, so that the response is not divided into chunks.
fn call_emulator(address: SocketAddr, method: &str, target: &str, body: Option<&Value>) -> (u16, Value) {
    let body = body.filter(|body| !body.is_null()).map(Value::to_string).unwrap_or_default();
    let head = format!(
        "{method} {target} HTTP/1.0\r\nhost: {address}\r\nauthorization: Bearer {TOKEN}\r\n\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    let mut stream = TcpStream::connect(address).expect("the emulator");
    stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body.as_bytes())).expect("sent");
    let mut reply = String::new();
    stream.read_to_string(&mut reply).expect("a response");
    let status = reply.split(' ').nth(1).and_then(|code| code.parse().ok()).unwrap_or(502);
    let body = reply.split_once("\r\n\r\n").map_or("", |(_, body)| body);
    (status, serde_json::from_str(body).unwrap_or_default())
}
