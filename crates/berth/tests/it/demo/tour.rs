//! The tour described in docs/demo.md, taken through the API, the command line and the demo sites.

use std::time::Duration;

use expect_test::expect_file;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::{entries, start};
use crate::client::{ApiHandle, RawRequest};
use crate::harness::{BerthProcess, ProcessOutput, STOP_MAX, berth, wait_until};

/// Timeout for anything the scenario or a deployment does.
const PATIENCE: Duration = Duration::from_secs(120);
const ACME: &str = "/api/v1/organizations/acme";
const ENVIRONMENTS: &str = "/pipelines/shop/ephemeral-environments";

/// A demo whose scenario has finished.
struct DemoFixture {
    process: BerthProcess,
    temp: TempDir,
    announcement: Value,
    api: ApiHandle,
}

impl DemoFixture {
    fn start_and_wait() -> Self {
        let temp = tempfile::tempdir().expect("a directory");
        let mut process = start(temp.path(), &["--json", "--rate-limit", "off"]);
        let told: Value = serde_json::from_str(&process.first_line()).expect("one object");
        let token = told["organizations"][0]["apiToken"].as_str().expect("a token").to_owned();
        let api = ApiHandle { address: address(&told["baseUrl"]), token };
        let demo = Self { process, temp, announcement: told, api };
        let story = address(&demo.announcement["storyUrl"]);
        wait_until(PATIENCE, "end of the story", || {
            let story = ApiHandle { address: story, token: String::new() }.get("/story").json();
            assert_eq!(story["failed"], Value::Null, "{story}");
            (story["done"] == true).then_some(())
        });
        demo
    }

    fn get(&self, path: &str) -> Value {
        let answer = self.api.get(&format!("{ACME}{path}"));
        assert_eq!(answer.status, 200, "{path}: {}", answer.text());
        answer.json()["data"].clone()
    }

    fn post(&self, path: &str, body: &Value) -> (u16, Value) {
        let bearer = format!("Bearer {}", self.api.token);
        let request = RawRequest::new("POST", &format!("{ACME}{path}")).header("Authorization", &bearer);
        let answer = self.api.send(&request.json(body));
        (answer.status, answer.json())
    }

    fn berth(&self, words: &[&str]) -> ProcessOutput {
        let ran = self.try_berth(words);
        assert_eq!(ran.code, Some(0), "{words:?}: {ran:?}");
        ran
    }

    fn try_berth(&self, words: &[&str]) -> ProcessOutput {
        let mut command = berth(words);
        command
            .env("BERTH_SERVER", format!("http://{}", self.api.address))
            .env("BERTH_TOKEN", &self.api.token);
        command.env("XDG_CONFIG_HOME", self.temp.path().join("none")).env("TMPDIR", self.temp.path());
        BerthProcess::start(&mut command).wait(PATIENCE)
    }

    /// Waits until the site's page contains this text, and returns the page.
    fn wait_for_page(&self, place: &str, words: &str) -> String {
        let api = ApiHandle { address: address(&self.announcement["sites"][place]), token: String::new() };
        wait_until(PATIENCE, &format!("{words:?} at {place}"), || {
            Some(api.get("/").text()).filter(|page| page.contains(words))
        })
    }

    /// Waits until Grace's deployment is running. If it is cancelled after this point, its step still writes to the
    /// site once, too late.
    fn wait_for_load_test(&self) {
        wait_until(PATIENCE, "load test of Grace", || {
            let held = self.get(&format!("{ENVIRONMENTS}/qa-1"))["lock"]["sessionId"].clone();
            let session = self.get(&format!("{ENVIRONMENTS}/qa-1/sessions/{}", held.as_str()?));
            let newest = session["deployments"][0]["id"].as_str()?.to_owned();
            let deployment = self.get(&format!("/deployments/{newest}"));
            let mut steps =
                deployment["stages"].as_array()?.iter().filter_map(|it| it["steps"].as_array()).flatten();
            steps.any(|it| it["step"] == "deploy" && it["status"] == "running").then_some(())
        });
    }

    fn newest_push(&self) -> String {
        let all = self.get("/pipelines/shop/deployments");
        let newest = all.as_array().into_iter().flatten().find(|it| it["trigger"] == "push");
        newest.and_then(|it| it["id"].as_str()).expect("a deployment by push").to_owned()
    }
}

/// Replaces process ids, times, ports and ids.
fn normalize(text: &str) -> String {
    let mut plain = String::new();
    for word in text.split_inclusive([' ', '/', ':', '\n']) {
        let end = word.len() - usize::from(word.ends_with([' ', '/', ':', '\n']));
        let is_number = word[..end].trim_matches(['(', ')']).parse::<f64>().is_ok();
        match word.starts_with("dep_") || is_number || word.starts_with("127.") {
            true => plain.push_str(&format!("N{}", &word[end..])),
            false => plain.push_str(word),
        }
    }
    plain
}

fn address(url: &Value) -> std::net::SocketAddr {
    // Browsers resolve berth.localhost by themselves; other programs depend on the system's resolver, which may not
    // know it.
    let url = url.as_str().map(|it| it.replace("berth.localhost", "127.0.0.1"));
    let bare = url.as_deref().and_then(|it| it.strip_prefix("http://"));
    let address = bare.and_then(|it| it.split('/').next()?.parse().ok());
    address.expect("an address with a port")
}

#[test]
fn demo_tour_works_from_start_to_end() {
    let demo = DemoFixture::start_and_wait();

    // 1. Initial state: production is one commit behind, Grace holds qa-1, Linus is queued, qa-2 is free, and one
    // deployment has failed.
    let [qa_1, qa_2] = [0, 1].map(|index| demo.get(ENVIRONMENTS)[index].clone());
    assert_eq!(
        (&qa_1["lock"]["holder"]["name"], &qa_1["lock"]["context"]),
        (&json!("Grace"), &json!("load test"))
    );
    assert_eq!((&qa_1["queueLength"], &qa_2["lockStatus"]), (&json!(1), &json!("unlocked")));
    demo.wait_for_page("staging", "data-colour=\"green\"");
    demo.wait_for_page("production", "version 1.1");
    demo.wait_for_page("qa-1", "version 1.2-load");
    let failed = demo.get("/deployments?status=failed")[0]["id"].as_str().unwrap().to_owned();

    // 2. Claim a free environment from the command line.
    demo.berth(&["env", "claim", "qa-2", "--commit", "feature/dark", "--why", "the shop at night"]);
    assert!(demo.wait_for_page("qa-2", "data-colour=\"dark\"").contains("<dd>ada</dd>"));

    // 3. Take over a held environment: a claim is refused and names the holder and the reason. After the takeover the
    // previous holder's late write is rejected, and Linus is still next in the queue.
    let (status, refused) = demo.post(&format!("{ENVIRONMENTS}/qa-1/sessions"), &json!({}));
    assert_eq!(
        (status, &refused["holder"]["name"], &refused["context"]),
        (409, &json!("Grace"), &json!("load test"))
    );
    let refused = demo.try_berth(&["env", "claim", "qa-1"]);
    assert_eq!(refused.code, Some(5), "{refused:?}");
    let advice = "Wait in the queue with --queue, or take over with `berth env take-over shop/qa-1`\n";
    assert!(refused.stderr.ends_with(advice) && refused.stderr.contains("(\"load test\")"), "{refused:?}");
    assert_eq!(refused.stderr.matches("Wait in").count(), 1, "{refused:?}");
    demo.wait_for_load_test();
    demo.berth(&["env", "take-over", "qa-1", "--commit", "feature/dark", "--why", "a hotfix", "--yes"]);
    let page = demo.wait_for_page("qa-1", "data-colour=\"dark\"");
    assert!(page.contains("refused a late write: fence 1 of Grace is lower than 2"), "{page}");
    let taken = demo.get(&format!("{ENVIRONMENTS}/qa-1"));
    assert_eq!((&taken["lock"]["holder"]["name"], &taken["queueLength"]), (&json!("ada"), &json!(1)));

    // 4. After the approval, production is green. After the rollback it is blue again, and promotion is paused.
    let approval = demo.get("/approvals")[0]["id"].as_str().unwrap().to_owned();
    demo.berth(&["approve", &approval]);
    demo.wait_for_page("production", "data-colour=\"green\"");
    let green = demo.newest_push();
    wait_until(PATIENCE, "end of the deployment", || {
        (demo.get(&format!("/deployments/{green}"))["status"] == "succeeded").then_some(())
    });
    demo.berth(&["deployment", "rollback", &green, "production"]);
    demo.wait_for_page("production", "data-colour=\"blue\"");
    let production = demo.get("/pipelines/shop")["stages"][1].clone();
    assert_eq!(production["paused"]["by"]["name"], "ada", "{production}");

    // 5. The analysis names the cause of the failed deployment, and the suggested fix passes.
    let analysed = demo.berth(&["analyze", &failed, "--fix"]);
    assert!(analysed.stdout.contains("it has lost its executable bit"), "{}", analysed.stdout);
    assert!(!analysed.stdout.contains("--fix"), "what is done is no advice: {}", analysed.stdout);
    let fix = analysed.stdout.split("The fix was pushed to the branch ").nth(1).unwrap();
    demo.berth(&["env", "deploy", "qa-2", fix.trim().trim_end_matches('.')]);
    demo.wait_for_page("qa-2", "version 1.1");

    // 6. A crash in the middle of a deployment.
    let crashed = demo.berth(&["demo", "crash"]);
    expect_file!["../cli/transcripts/expected/demo.txt"]
        .assert_eq(&format!("$ berth demo crash\n{}", normalize(&crashed.stdout)));
    demo.wait_for_page("qa-2", "data-colour=\"dark\"");

    let sites = demo.announcement["sites"].clone();
    demo.process.signal(Signal::INT);
    let ran = demo.process.wait(STOP_MAX);
    assert_eq!((ran.code, ran.stdout.lines().count()), (Some(0), 1), "{ran:?}");
    assert_eq!(entries(demo.temp.path()), [""; 0], "the demo left its data behind");
    for place in ["staging", "production", "qa-1", "qa-2"] {
        std::net::TcpStream::connect(address(&sites[place])).expect_err(place);
    }
}

#[test]
fn demo_login_link_works_once() {
    let temp = tempfile::tempdir().unwrap();
    let mut process = start(temp.path(), &["--json"]);
    let told: Value = serde_json::from_str(&process.first_line()).unwrap();
    let link = told["signInUrl"].as_str().unwrap();
    let path = &link[link.find("/open/").unwrap()..];
    let harbour = ApiHandle { address: address(&told["signInUrl"]), token: String::new() };
    let opened = harbour.get(path);
    let dashboard = told["dashboardUrl"].as_str();
    assert!(dashboard.is_some_and(|it| it.starts_with("http://berth.localhost:")), "{dashboard:?}");
    assert!(link.starts_with("http://berth.localhost:"), "{link}");
    assert_eq!((opened.status, opened.header("location")), (303, dashboard));
    let cookie = opened.header("set-cookie").unwrap().split(';').next().unwrap();
    let server = ApiHandle { address: address(&told["baseUrl"]), token: String::new() };
    let me = server.send(&RawRequest::new("GET", "/api/v1/me").header("Cookie", cookie));
    assert_eq!((me.status, &me.json()["data"]["user"]["email"]), (200, &json!("ada@acme.test")));
    let site = &me.json()["data"]["demo"]["sites"][3];
    assert_eq!((&site["place"], &site["url"]), (&json!("qa-2"), &told["sites"]["qa-2"]));
    assert_eq!((harbour.get(path).status, harbour.get("/open/another").status), (410, 404));
}

#[test]
fn demo_killed_stops_its_server_and_sites() {
    let temp = tempfile::tempdir().unwrap();
    let mut process = start(temp.path(), &["--bare", "--json"]);
    process.first_line();
    let [data] = entries(temp.path()).try_into().unwrap();
    let server = std::fs::read_to_string(temp.path().join(data).join("berth.lock")).unwrap();
    let server = Pid::from_raw(server.trim().parse().unwrap()).unwrap();
    assert_ne!(server.as_raw_pid().cast_unsigned(), process.id(), "the server is a process of its own");
    kill_process(Pid::from_raw(process.id().cast_signed()).unwrap(), Signal::KILL).unwrap();
    wait_until(STOP_MAX, "end of the server", || {
        rustix::process::test_kill_process(server).is_err().then_some(())
    });
}
