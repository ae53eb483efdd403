//! `berth serve --demo`: everything is set up at the start, and removed at the end.

mod tour;

use std::path::Path;
use std::time::Duration;

use crate::client::ApiHandle;
use crate::harness::{BerthProcess, STOP_MAX, berth, wait_until};
use rustix::process::Signal;
use serde_json::{Value, json};

fn start(temp: &Path, more: &[&str]) -> BerthProcess {
    let mut command = berth(&["serve", "--demo", "--listen", "127.0.0.1:0"]);
    BerthProcess::start(command.args(more).env("TMPDIR", temp))
}

fn entries(temp: &Path) -> Vec<String> {
    let names =
        std::fs::read_dir(temp).expect("the directory").map(|entry| entry.expect("an entry").file_name());
    names.map(|name| name.to_string_lossy().into_owned()).collect()
}

#[test]
fn demo_json_has_working_tokens_and_leaves_nothing() {
    let temp = tempfile::tempdir().unwrap();
    let mut demo = start(temp.path(), &["--json"]);
    let line: Value = serde_json::from_str(&demo.first_line()).unwrap();
    let base = line["baseUrl"].as_str().unwrap();
    let address = base.strip_prefix("http://").unwrap().strip_suffix("/api/v1").unwrap().parse().unwrap();
    let organizations = line["organizations"].as_array().unwrap();
    assert_eq!(organizations.len(), 2);
    let apis: Vec<_> = organizations
        .iter()
        .map(|org| ApiHandle { address, token: org["apiToken"].as_str().unwrap().to_owned() })
        .collect();
    for (mine, org) in organizations.iter().enumerate() {
        for (other, api) in apis.iter().enumerate() {
            let path = format!("/api/v1/organizations/{}/pipelines", org["slug"].as_str().unwrap());
            let answer = api.get(&path);
            assert_eq!(answer.status, if mine == other { 200 } else { 404 }, "{path}");
            if mine == other {
                let slugs = |list: &Value| -> std::collections::BTreeSet<String> {
                    let slug = |pipeline: &Value| pipeline["slug"].as_str().unwrap().to_owned();
                    list.as_array().unwrap().iter().map(slug).collect()
                };
                assert!(slugs(&org["pipelines"]).contains("playground"), "{org}");
                assert_eq!(slugs(&answer.json()["data"]), slugs(&org["pipelines"]));
            }
        }
    }
    let [data] = entries(temp.path()).try_into().unwrap();
    assert!(data.starts_with("berth-demo-"), "{data}");

    demo.signal(Signal::TERM);
    let ran = demo.wait(STOP_MAX);
    assert_eq!((ran.code, ran.stdout.lines().count()), (Some(0), 1), "{ran:?}");
    assert_eq!(entries(temp.path()), [""; 0], "the demo left its data behind");
}

#[test]
fn demo_stopped_during_start_leaves_nothing() {
    for signal in [Signal::TERM, Signal::HUP] {
        let temp = tempfile::tempdir().unwrap();
        let demo = start(temp.path(), &["--json"]);
        wait_until(STOP_MAX, "data", || (!entries(temp.path()).is_empty()).then_some(()));
        demo.signal(signal);
        assert_eq!(demo.wait(STOP_MAX).code, Some(0));
        assert_eq!(entries(temp.path()), [""; 0], "the demo left its data behind");
    }
}

#[test]
fn demo_on_another_address_logs_in_there_and_keeps_sites_on_loopback() {
    let temp = tempfile::tempdir().unwrap();
    let mut command = berth(&["serve", "--demo", "--json", "--listen", "127.0.0.3:0"]);
    let mut demo = BerthProcess::start(command.env("TMPDIR", temp.path()));
    let line: Value = serde_json::from_str(&demo.first_line()).unwrap();
    for url in [&line["baseUrl"], &line["signInUrl"], &line["sites"]["qa-1"]] {
        assert!(url.as_str().unwrap().starts_with("http://127.0.0.3:"), "{url}");
    }
    let address = line["baseUrl"].as_str().unwrap().trim_start_matches("http://").split('/').next().unwrap();
    let token = line["organizations"][0]["apiToken"].as_str().unwrap().to_owned();
    let api = ApiHandle { address: address.parse().unwrap(), token };
    wait_until(Duration::from_secs(60), "webhook that arrived", || {
        let hooks = api.get("/api/v1/organizations/acme/webhooks").json()["data"].clone();
        let id = hooks[0]["id"].as_str()?.to_owned();
        let sent = api.get(&format!("/api/v1/organizations/acme/webhooks/{id}/deliveries")).json();
        sent["data"].as_array()?.iter().any(|it| it["status"] == "delivered").then_some(())
    });
}

#[test]
fn demo_lookup_ignores_foreign_directories() {
    let (temp, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let known = json!({
        "keeper": std::process::id(),
        "login": { "server": "http://127.0.0.1:1", "organization": "acme", "token": "x" },
    });
    let file = |dir: &Path| std::fs::write(dir.join("demo.json"), known.to_string()).unwrap();
    let crash = || BerthProcess::start(berth(&["demo", "crash"]).env("TMPDIR", temp.path())).wait(STOP_MAX);
    file(other.path());
    std::os::unix::fs::symlink(other.path(), temp.path().join("berth-demo-link")).unwrap();
    let dir = temp.path().join("berth-demo-with-a-link");
    std::fs::create_dir(&dir).unwrap();
    std::os::unix::fs::symlink(other.path().join("demo.json"), dir.join("demo.json")).unwrap();
    crash().expect_refusal(&["no demo is running"]);
    std::fs::remove_file(dir.join("demo.json")).unwrap();
    file(&dir);
    crash().expect_refusal(&["cannot reach http://127.0.0.1:1"]);
}

#[test]
fn demo_announcement_lists_urls_and_commands() {
    let temp = tempfile::tempdir().unwrap();
    let mut demo = start(temp.path(), &[]);
    assert!(demo.first_line().starts_with("Berth demo at http://berth.localhost:"));
    demo.signal(Signal::TERM);
    let ran = demo.wait(STOP_MAX);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    for word in [
        "Login     ada@acme.test  ",
        "Token     berth_api_",
        "  curl -H ",
        "Press Ctrl-C to stop the demo and remove its data.",
    ] {
        assert!(ran.stdout.contains(word), "{word:?} is not in {}", ran.stdout);
    }
    assert_eq!(entries(temp.path()), [""; 0], "the demo left its data behind");
}

#[test]
fn demo_errors_name_what_is_missing() {
    let temp = tempfile::tempdir().unwrap();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let check = |command: &mut std::process::Command, words: &[&str]| {
        BerthProcess::start(command).wait(STOP_MAX).expect_refusal(words);
    };
    let demo = || berth(&["serve", "--demo", "--listen"]);
    check(demo().arg(&address).env("TMPDIR", temp.path()), &[&address, "the port is in use"]);
    check(demo().arg("127.0.0.1:0").env("TMPDIR", temp.path().join("gone")), &["gone", "set TMPDIR"]);
    check(demo().arg("127.0.0.1:0").env("PATH", temp.path()), &["git is not installed", "2.39 or newer"]);
    assert_eq!(entries(temp.path()), [""; 0], "what did not start left something behind");
    BerthProcess::start(berth(&["demo", "crash"]).env("TMPDIR", temp.path()))
        .wait(STOP_MAX)
        .expect_refusal(&["no demo is running"]);
}
