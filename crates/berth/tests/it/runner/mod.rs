//! Steps on remote runners: a server without its own runner, and `berth runner` processes. Both sides are killed.

mod fences;
mod fixture;
mod lost_timeout;
mod protocol;

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use berth_testkit::outcome;
use rustix::process::Signal;
use serde_json::json;

use crate::harness::{BerthProcess, TestHome, berth, wait_until};
use fixture::{LOST, ORG, PATIENCE, RunnerFixture, first_step, is_alive, text};

fn git(dir: &Path, args: &[&str]) {
    let who = ["-c", "user.name=Ada", "-c", "user.email=ada@acme.test"];
    let done = Command::new("git").current_dir(dir).args(who).args(args).output().expect("git runs");
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
}

const BUILD: &str = r#"version: 1
pipeline:
  name: Web
  stages: [{ name: staging }]
  steps:
    - name: Make
      type: script
      runs_on: [gpu]
      env: { T: "${{ secrets.TOKEN }}" }
      outputs: [who]
      artifacts: { site: { path: dist/ } }
      params:
        run: |
          cat link
          echo "secret is $T"
          mkdir -p dist/sub; echo page > dist/sub/index.html; ln -s sub/index.html dist/i
          echo "who=$(cat hello.txt | tr ' ' '-')" >> "$BERTH_OUTPUT"
    - name: Use
      type: script
      needs_artifacts: [site]
      env: { WHO: "${{ steps.make.who }}" }
      params: { run: 'cat dist/i; test -x run.sh; echo "made by $WHO"' }
"#;

#[test]
fn remote_runner_handles_source_secrets_outputs_and_artifacts() {
    let fixture = RunnerFixture::open();
    let source = fixture.path("source");
    std::fs::create_dir_all(source.join(".berth/web")).expect("a directory");
    for (name, text) in
        [(".berth/web/pipeline.yaml", BUILD), ("hello.txt", "hello there"), ("run.sh", "#!/bin/sh\n")]
    {
        std::fs::write(source.join(name), text).expect("written");
    }
    std::fs::set_permissions(source.join("run.sh"), std::fs::Permissions::from_mode(0o755))
        .expect("executable");
    std::os::unix::fs::symlink("hello.txt", source.join("link")).expect("a link");
    git(&source, &["init", "-q", "-b", "main"]);
    git(&source, &["add", "."]);
    git(&source, &["commit", "-q", "-m", "one"]);
    let secret = json!({"name": "TOKEN", "value": "s3cret-value-42"});
    assert_eq!(fixture.api().post(&format!("{ORG}/secrets"), &secret).status, 201);
    let made = fixture.api().post(&format!("{ORG}/repositories"), &json!({ "url": source }));
    assert_eq!(made.status, 201, "{}", made.text());
    wait_until(PATIENCE, "pipeline", || {
        (fixture.api().get(&format!("{ORG}/pipelines/web")).status == 200).then_some(())
    });
    let started = fixture.api().post(&format!("{ORG}/pipelines/web/deployments"), &json!({"ref": "main"}));
    assert_eq!(started.status, 202, "{}", started.text());
    // The first commit may have started a deployment as well, so look at all of them.
    let waits = wait_until(PATIENCE, "word of a missing runner", || {
        let list = fixture.api().get(&format!("{ORG}/deployments")).json();
        let ids = list["data"].as_array().expect("a list").iter().map(|it| text(&it["id"]));
        ids.map(|id| fixture.deployment(&id)).find(|it| it["blockedBy"][0]["kind"] == "no_runner")
    });
    let id = text(&waits["id"]);
    assert_eq!(waits["blockedBy"][0]["detail"], "no runner with labels gpu is online for step \"make\"");

    let runner = fixture.runner("far", &["--labels", "gpu,big"]);
    let done = fixture.wait_for_deployment(&id, "end", |it| {
        ["succeeded", "failed"].contains(&it["status"].as_str().unwrap_or(""))
    });
    assert_eq!(done["status"], "succeeded", "{done}\n{}", runner.stderr());
    assert_eq!(first_step(&done)["outputs"]["who"], "hello-there");
    assert_eq!(fixture.log(&id, "make"), "hello theresecret is ***\n");
    assert_eq!(fixture.log(&id, "use"), "page\nmade by hello-there\n");
    let shown = fixture.api().get(&format!("{ORG}/runners/far")).json()["data"].clone();
    assert_eq!((&shown["state"], &shown["isEmbedded"]), (&json!("online"), &json!(false)));
    assert!(
        ["gpu", "big", "linux"]
            .iter()
            .all(|label| shown["labels"].as_array().expect("labels").contains(&json!(label)))
    );
    let kept = std::fs::metadata(fixture.path("far").join("credential.json")).expect("the credential");
    assert_eq!(kept.permissions().mode() & 0o777, 0o600);
    assert!(!runner.stderr().contains("s3cret-value-42"));
    assert!(!fixture.server.process.stderr().contains("s3cret-value-42"));
}

#[test]
fn killed_runner_is_lost_and_on_lost_applies() {
    let fixture = RunnerFixture::open();
    fixture.pipeline(&fixture.endless_step(""));
    let mut runner = fixture.runner("far", &[]);
    let id = fixture.start();
    let process = fixture.pid_file();
    runner.kill();
    let killed = Instant::now();
    let lost = fixture
        .wait_for_deployment(&id, "unknown outcome", |it| it["blockedBy"][0]["kind"] == "unknown_outcome");
    assert!(killed.elapsed() + Duration::from_secs(2) > LOST, "after {:?}", killed.elapsed());
    assert_eq!(first_step(&lost)["attempts"][0]["status"], "unknown");
    assert_eq!(fixture.state("far"), "lost");
    // The restarted runner kills the leftover process before it asks for work.
    assert!(is_alive(&process));
    let _again = fixture.restart_runner("far");
    assert!(!is_alive(&process));
    assert_eq!(fixture.state("far"), "online");
}

#[test]
fn restarted_runner_ends_its_old_leases_immediately() {
    let home = TestHome::new();
    let mut command = home.serve_command();
    // Uses the default lost timeout of 45 seconds.
    let fixture = RunnerFixture::with(home, command.arg("--no-runner"));
    fixture.pipeline(&fixture.endless_step(", on_lost: fail"));
    let mut runner = fixture.runner("far", &[]);
    let id = fixture.start();
    let process = fixture.pid_file();
    runner.kill();
    let began = Instant::now();
    let _again = fixture.restart_runner("far");
    assert!(!is_alive(&process), "what it left is ended before it is told");
    let done = fixture.wait_for_deployment(&id, "failure", |it| it["status"] == "failed");
    assert_eq!(first_step(&done)["attempts"][0]["status"], "unknown", "{done}");
    assert!(began.elapsed() < Duration::from_secs(20), "after {:?}", began.elapsed());
}

#[test]
fn disconnected_runner_stops_its_steps_before_it_is_lost() {
    let fixture = RunnerFixture::open();
    fixture.pipeline(&fixture.endless_step(""));
    let runner = fixture.runner("far", &[]);
    let id = fixture.start();
    let process = fixture.pid_file();
    fixture.server.process.signal(Signal::STOP);
    let cut = Instant::now();
    wait_until(LOST, "end of the step", || (!is_alive(&process)).then_some(()));
    let took = cut.elapsed();
    fixture.server.process.signal(Signal::CONT);
    assert!(took > Duration::from_secs(1) && took < LOST, "{took:?}\n{}", runner.stderr());
    let told =
        fixture.wait_for_deployment(&id, "word of it", |it| it["blockedBy"][0]["kind"] == "unknown_outcome");
    assert_eq!(first_step(&told)["attempts"][0]["status"], "interrupted");
    assert!(fixture.log(&id, "long").ends_with("[berth] stopped: the server did not answer for too long\n"));
}

#[test]
fn take_over_stops_a_step_on_a_remote_runner() {
    let fixture = RunnerFixture::open();
    fixture.pipeline(&fixture.endless_step(""));
    let _runner = fixture.runner("far", &[]);
    let sessions = format!("{ORG}/pipelines/shop/ephemeral-environments/qa-1/sessions");
    let held = fixture.api().post(&sessions, &json!({"commitId": "4f2a1c9"}));
    assert_eq!(held.status, 201, "{}", held.text());
    let process = fixture.pid_file();
    let path = format!("{ORG}/pipelines/shop/ephemeral-environments/qa-1/force-claim");
    let taken = fixture.api().post(&path, &json!({"reason": "hotfix"}));
    assert_eq!(taken.status, 201, "{}", taken.text());
    let session = text(&taken.json()["data"]["sessionId"]);
    let took = Instant::now();
    let drained = wait_until(PATIENCE, "drain", || {
        let now = fixture.api().get(&format!("{sessions}/{session}")).json()["data"].clone();
        now["drain"]["completedAt"].is_string().then_some(now)
    });
    assert!(!is_alive(&process), "{drained}");
    // It took less time than the lost timeout, so the runner stopped the step because it was ordered to.
    assert!(took.elapsed() < LOST, "{:?}", took.elapsed());
    let id = text(&held.json()["data"]["deploymentId"]);
    let stopped = fixture.wait_for_deployment(&id, "end", |it| it["status"] == "cancelled");
    assert_eq!(first_step(&stopped)["attempts"][0]["status"], "cancelled", "{stopped}");
}

#[test]
fn draining_runner_finishes_its_steps_and_accepts_no_more() {
    let fixture = RunnerFixture::open();
    let go = fixture.path("go");
    fixture.pipeline(&format!(
        "    - {{ name: One, type: script, params: {{ run: 'echo begins; until test -e {}; do sleep 0.02; done' }} }}\n    - {{ name: Two, type: dummy }}\n",
        go.display()
    ));
    let runner = fixture.runner("far", &[]);
    let id = fixture.start();
    fixture.wait_for_deployment(&id, "beginning", |it| first_step(it)["status"] == "running");
    runner.signal(Signal::TERM);
    wait_until(PATIENCE, "sign of draining", || (fixture.state("far") == "draining").then_some(()));
    std::fs::write(&go, "").expect("written");
    let ran = runner.wait(PATIENCE);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let left = fixture
        .wait_for_deployment(&id, "word of a missing runner", |it| it["blockedBy"][0]["kind"] == "no_runner");
    assert_eq!(first_step(&left)["status"], "succeeded");
    assert_eq!(left["stages"][0]["steps"][1]["status"], "ready");
    assert_eq!(fixture.state("far"), "offline");
    let _again = fixture.restart_runner("far");
    fixture.wait_for_deployment(&id, "end", |it| it["status"] == "succeeded");
}

#[test]
fn removed_runner_exits_and_stops_its_steps() {
    let fixture = RunnerFixture::open();
    fixture.pipeline(&fixture.endless_step(""));
    let runner = fixture.runner("far", &[]);
    fixture.start();
    let process = fixture.pid_file();
    let removed = fixture.api().send(&fixture.api().request("DELETE", &format!("{ORG}/runners/far")));
    assert_eq!(removed.status, 200, "{}", removed.text());
    let ran = runner.wait(PATIENCE);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(ran.stderr.contains("this runner was removed"), "{}", ran.stderr);
    assert!(!is_alive(&process));
}

#[test]
fn runner_reports_its_isolation_level() {
    let fixture = RunnerFixture::open();
    let shown = |name: &str| {
        let found = fixture.api().get(&format!("{ORG}/runners/{name}")).json()["data"].clone();
        (found["isolation"].clone(), found["exposed"].clone())
    };
    fixture.token(Some("pending"));
    assert_eq!(shown("pending"), (json!(null), json!([])));
    let _far = fixture.runner("far", &[]);
    assert_eq!(shown("far"), (json!("process"), json!([])));

    let mut command = berth(&["runner", "--sandbox", "bubblewrap", "--expose", "/etc/../etc/passwd"]);
    command.arg("--server").arg(format!("http://{}", fixture.server.address));
    command.arg("--work-dir").arg(fixture.path("near")).args(["--token", &fixture.token(Some("near"))]);
    let mut near = BerthProcess::start(&mut command);
    if near.first_line_or_end().is_none() {
        return outcome::skip("bubblewrap", &near.wait(PATIENCE).stderr);
    }
    assert_eq!(shown("near"), (json!("bubblewrap"), json!(["/etc/passwd"])));
}
