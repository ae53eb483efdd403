//! Tests the documentation: blocks marked `sh run` are executed, page by page, against a real server.
//!
//! A page starts in the directory `shop` that `start.md` creates, logged in to a server of its own, whose address
//! replaces `127.0.0.1:8080`. Blocks in a comment, `<!-- sh run` … `-->`, are executed but not shown to readers.

mod api_guide;
mod pretty;

use std::net::{SocketAddr, TcpListener};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use berth_testkit::outcome;
use rustix::process::{Pid, Signal, kill_process_group};

use crate::harness::{BerthProcess, TestHome, TestServer, program};

/// Timeout per page.
const PAGE_MAX: Duration = Duration::from_secs(180);
const ADDRESS: &str = "127.0.0.1:8080";
const START: &str = "start.md";

macro_rules! pages {
    ($($test:ident => $page:literal),* $(,)?) => {
        const PAGES: &[&str] = &[$($page),*];
        $(
            #[test]
            fn $test() {
                check($page);
            }
        )*
    };
}

pages! {
    the_first_five_minutes => "start.md",
    local_runs => "local-runs.md",
    the_command_line => "cli.md",
    everyday_tasks => "everyday-tasks.md",
    agents => "agents.md",
    ci => "ci.md",
    jenkins => "jenkins.md",
    environments => "environments.md",
    approvals => "approvals.md",
    deployments => "deployments.md",
    secrets => "secrets.md",
    environments_for_people_ci_and_agents => "environments-guide.md",
    a_recipe_with_ssh_and_systemd => "recipe-ssh-systemd.md",
    a_recipe_with_docker_compose => "recipe-docker-compose.md",
    a_recipe_with_kubectl => "recipe-kubectl.md",
}

#[test]
fn runnable_blocks_of_every_page_succeed() {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(docs_dir()).expect("the documentation") {
        let name = entry.expect("a page").file_name().into_string().expect("a name");
        if name.ends_with(".md") && !parse_blocks(&name).is_empty() {
            found.push(name);
        }
    }
    let mut known = PAGES.to_vec();
    found.sort();
    known.sort_unstable();
    assert_eq!(found, known);
}

struct DocBlock {
    line: usize,
    text: String,
}

fn docs_dir() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs")
}

fn parse_blocks(page: &str) -> Vec<DocBlock> {
    let source = std::fs::read_to_string(docs_dir().join(page)).expect("the page");
    let mut found: Vec<DocBlock> = Vec::new();
    let mut end = None;
    for (line, text) in (1..).zip(source.lines()) {
        match (end, text) {
            (None, "```sh run" | "<!-- sh run") => {
                end = Some(if text.starts_with('<') { "-->" } else { "```" });
                found.push(DocBlock { line, text: String::new() });
            }
            (Some(mark), text) if text == mark => end = None,
            (Some(_), text) => {
                let block = found.last_mut().expect("it has begun");
                block.text.push_str(text);
                block.text.push('\n');
            }
            (None, _) => {}
        }
    }
    assert!(end.is_none(), "{page}: a block has no end");
    found
}

/// One shell per page, so that variables carry over from block to block.
fn build_script(page: &str, blocks: &[DocBlock], address: SocketAddr) -> String {
    let mut script = String::from(
        "set -euo pipefail\nat=the-beginning\n\
         trap 'code=$?; test $code = 0 || echo \"docs/$at failed with $code\" >&2; kill $(jobs -p) 2>/dev/null || :' EXIT\n",
    );
    if page != START {
        script.push_str(&shop_setup_script());
    }
    for DocBlock { line, text } in blocks {
        script.push_str(&format!("at={page}:{line}\n{text}"));
    }
    script.replace(ADDRESS, &address.to_string())
}

fn shop_setup_script() -> String {
    let first = parse_blocks(START).into_iter().next().expect("a first block");
    format!(
        "{}cd shop\nberth repo add \"$PWD\" >/dev/null\nberth status shop --watch >/dev/null 2>&1\n",
        first.text
    )
}

fn check(page: &str) {
    let blocks = parse_blocks(page);
    assert!(!blocks.is_empty(), "{page} has no blocks to run");
    if let Some(program) = missing_program(&blocks) {
        outcome::skip(program, "cargo xtask test installs it");
        return;
    }
    let place = tempfile::tempdir().expect("a directory");
    let program = program();
    let program = program.parent().expect("its directory");
    let path = std::env::var("PATH").expect("a path");
    let mut shell = Command::new("bash");
    shell
        .current_dir(place.path())
        .env("HOME", place.path())
        .env("XDG_CONFIG_HOME", place.path().join("config"));
    shell.env("PATH", format!("{}:{path}", program.display())).env("TZ", "UTC");
    for role in ["AUTHOR", "COMMITTER"] {
        shell.env(format!("GIT_{role}_NAME"), "Ada").env(format!("GIT_{role}_EMAIL"), "ada@acme.test");
    }
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("BERTH_")) {
        shell.env_remove(name);
    }
    let home = TestHome::new();
    let server = (page != START).then(|| home.serve());
    let address = server.as_ref().map_or_else(free_address, |it: &TestServer| it.address);
    if let Some(server) = &server {
        shell.env("BERTH_SERVER", format!("http://{}", server.address));
        shell.env("BERTH_TOKEN", &home.token).env("TOKEN", &home.token);
    }
    shell.args(["-c", &build_script(page, &blocks, address)]).process_group(0);
    let process = BerthProcess::start(&mut shell);
    let group =
        ProcessGroupGuard(Pid::from_raw(i32::try_from(process.id()).expect("a number")).expect("a process"));
    let ran = process.wait(PAGE_MAX);
    drop(group);
    assert_eq!(ran.code, Some(0), "{}\n{}", ran.stdout, ran.stderr);
}

/// Returns a program that the blocks use and that is not installed; git and a shell are always required. `cargo xtask
/// test` installs such programs if it may.
fn missing_program(blocks: &[DocBlock]) -> Option<&'static str> {
    const WANTED: &[&str] = &["jq", "curl", "ssh-keygen", "/usr/sbin/sshd"];
    let is_used = |program: &str| blocks.iter().any(|block| block.text.contains(program));
    let is_there = |program: &str| {
        let looked = Command::new("sh").args(["-c", &format!("command -v {program}")]).output();
        looked.is_ok_and(|it| it.status.success())
    };
    WANTED.iter().copied().find(|program| is_used(program) && !is_there(program))
}

/// Kills every process that the page has started.
struct ProcessGroupGuard(Pid);

impl Drop for ProcessGroupGuard {
    fn drop(&mut self) {
        kill_process_group(self.0, Signal::KILL).ok();
    }
}

/// Returns a free address. Few programs use 127.0.0.2, so no other process should bind it before the page does.
fn free_address() -> SocketAddr {
    TcpListener::bind("127.0.0.2:0").and_then(|it| it.local_addr()).expect("a free port")
}
