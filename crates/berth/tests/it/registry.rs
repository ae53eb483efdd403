//! `berth registry new` creates a working registry, and `berth registry test` reports mistakes.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use berth_testkit::outcome;
use rustix::process::Signal;

use crate::harness::{BerthProcess, ProcessOutput, berth};

/// Long enough for npm to download the TypeScript compiler.
const TEST_MAX: Duration = Duration::from_secs(480);

fn run_in(dir: &Path, args: &[&str]) -> ProcessOutput {
    BerthProcess::start(berth(args).current_dir(dir)).wait(TEST_MAX)
}

fn run_program(dir: &Path, program: &str, args: &[&str]) -> bool {
    Command::new(program).args(args).current_dir(dir).output().is_ok_and(|told| told.status.success())
}

fn check_output(ran: &ProcessOutput, code: i32, parts: &[&str]) {
    assert_eq!(ran.code, Some(code), "{}\n{}", ran.stdout, ran.stderr);
    for part in parts {
        assert!(ran.stdout.contains(part), "{part:?} is not in\n{}", ran.stdout);
    }
    assert!(!ran.stdout.contains('\x1b'), "colour is for terminals: {}", ran.stdout);
}

/// Runs each of the three scaffolded steps to its end.
fn check_steps(dir: &Path) {
    let ran = run_in(dir, &["registry", "test", "--step", "GREET", "--params", r#"{"who": "world"}"#]);
    check_output(
        &ran,
        0,
        &["ok    greet (GREET)", "    | Hello, world!\n", "SUCCESS after one call", "text = Hello, world!"],
    );
    assert!(!ran.stdout.contains("hint"), "a scaffold needs no advice: {}", ran.stdout);
    std::fs::write(dir.join("params.json"), r#"{"version": "v1", "replicas": 1}"#).expect("file");
    let ran = run_in(dir, &["registry", "test", ".", "--step", "rollout", "--params", "@params.json"]);
    let told = [
        "waiting with state {\"id\":\"rollout-v1\",\"ready\":0}",
        "polls again in 5.0 s",
        "SUCCESS after 2 calls",
        "ready = 1",
    ];
    check_output(&ran, 0, &told);
    let wipe = ["registry", "test", "--step", "custom:wipe", "--params", r#"{"table": "sessions"}"#];
    check_output(&run_in(dir, &wipe), 0, &["APPROVAL_REQUIRED: empties the table sessions", "use --approve"]);
    let ran = run_in(dir, &[&wipe[..], &["--approve"]].concat());
    check_output(&ran, 0, &["emptying sessions, approved by registry-test", "SUCCESS after 2 calls"]);
}

#[test]
fn shell_scaffold_passes_its_tests() {
    let temp = tempfile::tempdir().expect("directory");
    check_output(
        &run_in(temp.path(), &["registry", "new", "tools", "--lang", "shell"]),
        0,
        &["Created tools/"],
    );
    let dir = temp.path().join("tools");
    if !run_program(&dir, "jq", &["--version"]) {
        outcome::skip("jq", "apt-get install jq");
        return;
    }
    assert!(run_program(&dir, "sh", &["./test.sh"]), "its own test");
    check_steps(&dir);
}

#[test]
fn typescript_scaffold_passes_its_tests() {
    let temp = tempfile::tempdir().expect("directory");
    check_output(&run_in(temp.path(), &["registry", "new", "tools"]), 0, &["Created tools/"]);
    let dir = temp.path().join("tools");
    if !run_program(&dir, "npm", &["install"]) {
        outcome::skip("the npm registry", "typescript is fetched from it");
        return;
    }
    // `npm test` calls all three steps. `berth registry test` is run for only one of them, because each run builds the
    // registry again.
    assert!(run_program(&dir, "npm", &["test"]), "its own test");
    let wipe = ["registry", "test", "--step", "wipe", "--params", r#"{"table": "sessions"}"#, "--approve"];
    let ran = run_in(&dir, &wipe);
    check_output(
        &ran,
        0,
        &["npm ci", "emptying sessions, approved by registry-test", "SUCCESS after 2 calls"],
    );
    assert!(!ran.stdout.contains("hint"), "a scaffold needs no advice: {}", ran.stdout);
}

#[test]
fn scaffold_does_not_overwrite_an_existing_directory() {
    let temp = tempfile::tempdir().expect("directory");
    std::fs::create_dir(temp.path().join("tools")).expect("directory");
    run_in(temp.path(), &["registry", "new", "tools"]).expect_refusal(&["tools already exists"]);
    assert_eq!(std::fs::read_dir(temp.path().join("tools")).expect("directory").count(), 0);
    assert_eq!(run_in(temp.path(), &["registry", "new", "../tools"]).code, Some(2));
}

const REGISTRY: &str = r#"while [ $# -gt 0 ]; do
  case "$1" in --input) input=$2 ;; --output) output=$2 ;; esac; shift 2
done
answer() { printf '%s' "$1" > "$output"; }
case "$input" in *SYNTHESIZE*) answer "$(cat steps.json)"; exit ;; esac
"#;
const STEPS: &str = r#"{"status":"SUCCESS","data":{"metadata":[{"stepType":"DEPLOY","jsonSchema":{"type":"object",
"additionalProperties":false,"required":["to","size"],"properties":{"to":{"type":"string"},"size":{"type":"integer","default":1}}}}]}}"#;

/// A registry with one step that runs this script.
fn create_registry(body: &str) -> tempfile::TempDir {
    let temp = tempfile::tempdir().expect("directory");
    let write = |name: &str, text: &str| std::fs::write(temp.path().join(name), text).expect("file");
    write("berth-registry.yaml", "start: sh ./run.sh\n");
    write("run.sh", &format!("{REGISTRY}{body}\n"));
    write("steps.json", STEPS);
    temp
}

#[test]
fn registry_test_reports_every_mistake() {
    let cases = [
        (r#"answer '{"status":"FAILED","error":"no quota"}'"#, 1, "ERROR FAILED: no quota"),
        ("exit 3", 1, "ERROR it exited with 3, and wrote no answer; the step's outcome would be unknown"),
        (r#"answer '{"status":"DONE"}'"#, 1, r#"ERROR its answer has the status "DONE""#),
        (
            r#"answer '{"status":"SUCCESS"}'; exit 4"#,
            0,
            "hint  process: exited with 4. The answer file counts",
        ),
        (r#"answer '{"status":"SUCCESS"}'; sleep 60"#, 0, "hint  process: it did not exit after its answer"),
        (r#"answer '{"status":"APPROVAL_REQUIRED"}'"#, 1, "ERROR asks for approval again after it was given"),
        (
            r#"case "$input" in *pollingState*) answer '{"status":"SUCCESS"}' ;; *) answer '{"status":"TRIGGERED","pollingState":1,"retryAfterMs":1}' ;; esac"#,
            0,
            "hint  pollingState is not an object",
        ),
    ];
    for (body, code, part) in cases {
        let temp = create_registry(body);
        let dir = temp.path().to_str().expect("a path");
        let ran = run_in(
            Path::new("/"),
            &["registry", "test", dir, "--step", "deploy", "--params", r#"{"to":"x"}"#, "--approve"],
        );
        check_output(&ran, code, &[part]);
    }
    let temp = create_registry("sleep 60");
    let test = |args: &[&str]| run_in(temp.path(), &[&["registry", "test"], args].concat());
    let metadata = test(&[]);
    check_output(
        &metadata,
        0,
        &[
            "hint  deploy: no shortDescription",
            "hint  deploy: the param `to` has no description",
            "hint  deploy: the param `size` is required but has a default, so pipelines can omit it",
        ],
    );
    check_output(&test(&["--step", "deploy"]), 2, &["ERROR params: the param `to` is missing"]);
    check_output(&test(&["--step", "deplyo"]), 3, &["ERROR no step `deplyo`; steps: deploy"]);
    let params = ["--step", "deploy", "--params", r#"{"to":"x","extra":1}"#, "--timeout", "1s"];
    check_output(
        &test(&params),
        1,
        &["hint  the param `extra` is not in the schema", "ERROR timed out after 1s"],
    );
    let long = temp.path().join("long.json");
    std::fs::write(&long, format!(r#"{{"to":"{}"}}"#, "x".repeat(200_000))).expect("file");
    check_output(
        &test(&["--step", "deploy", "--params", "@long.json"]),
        1,
        &["ERROR what the step is called with has 2000"],
    );
    assert_eq!(test(&["--step", "deploy", "--params", "[]"]).code, Some(2));
    assert_eq!(run_in(temp.path(), &["registry", "test", "nowhere"]).code, Some(3));
    let none = tempfile::tempdir().expect("directory");
    check_output(
        &run_in(none.path(), &["registry", "test"]),
        1,
        &["ERROR there is neither a berth-registry.yaml nor"],
    );
}

#[test]
fn registry_test_interrupted_stops_the_step() {
    let temp = create_registry("echo begun; sleep 60");
    let args = ["registry", "test", "--step", "deploy", "--params", r#"{"to":"x"}"#];
    let process = BerthProcess::start(berth(&args).current_dir(temp.path()));
    crate::harness::wait_until(TEST_MAX, "a step that has begun", || {
        process.stdout_now().contains("    | begun").then_some(())
    });
    process.signal(Signal::INT);
    assert_eq!(process.wait(TEST_MAX).code, Some(130));
}
