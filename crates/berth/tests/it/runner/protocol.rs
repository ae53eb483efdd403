//! Runners with wrong credentials or nonces, and the errors they get.

use serde_json::{Value, json};

use super::fixture::{ORG, RunnerFixture, first_step, is_alive, text};
use crate::client::RawRequest;
use crate::harness::{BerthProcess, run};

/// A handwritten client of the runner protocol.
pub(super) struct RawRunner<'a> {
    fixture: &'a RunnerFixture,
    credential: String,
}

impl<'a> RawRunner<'a> {
    pub(super) fn new(fixture: &'a RunnerFixture) -> Self {
        Self::with_token(fixture, fixture.token(Some("stranger")))
    }

    /// Registers the runner `stranger` with this registration token.
    fn with_token(fixture: &'a RunnerFixture, token: String) -> Self {
        let it = Self { fixture, credential: token };
        let registered = it.post("register", &json!({"protocol": 2, "version": "0"}));
        let it = Self { fixture, credential: text(&registered["data"]["credential"]) };
        let hello = json!({"protocol": 2, "version": "0", "boot": "b", "labels": [], "slots": 1, "isolation": "process"});
        assert_eq!(it.post("hello", &hello)["data"]["name"], "stranger");
        it
    }

    fn send_request(&self, request: RawRequest) -> Value {
        let request = request.header("Authorization", &format!("Bearer {}", self.credential));
        self.fixture.api().send(&request).json()
    }

    pub(super) fn post(&self, what: &str, body: &Value) -> Value {
        self.send_request(RawRequest::new("POST", &format!("/api/v1/runner/{what}")).json(body))
    }

    fn get(&self, what: &str) -> Value {
        self.send_request(RawRequest::new("GET", &format!("/api/v1/runner/{what}")))
    }
}

#[test]
fn runner_cannot_report_on_another_runners_attempt() {
    let fixture = RunnerFixture::open();
    fixture.pipeline(&fixture.endless_step(""));
    let _runner = fixture.runner("far", &[]);
    let id = fixture.start();
    let process = fixture.pid_file();
    let before =
        fixture.wait_for_deployment(&id, "its first line", |_| fixture.log(&id, "long") == "begins\n");
    let spool = std::fs::read_to_string(fixture.path("far").join("spool")).expect("the spool");
    let nonce = spool.lines().find_map(|line| line.strip_prefix('+')).expect("an attempt").to_owned();
    let stranger = RawRunner::new(&fixture);
    let attempt = json!({
        "organizationId": "org_unknown", "deploymentId": id, "stepId": first_step(&before)["id"],
        "number": 1, "nonce": nonce,
    });
    let beat = stranger.post("heartbeat", &json!({"boot": "b", "attempts": [attempt], "waitMs": 0}));
    assert_eq!(beat["data"]["told"][0]["order"], "stale", "{beat}");
    let report = json!({
        "attempt": attempt, "outcome": {"type": "succeeded", "outputs": {}, "artifacts": {}},
        "isolation": "none", "logBytes": 0, "nextNonce": "n", "boot": "b", "labels": [],
    });
    assert_eq!(stranger.post("report", &report)["data"], json!({"order": "stale", "next": null}));
    let log =
        RawRequest::new("POST", &format!("/api/v1/runner/log?attempt={nonce}&offset=7")).body("forged\n");
    assert_eq!(stranger.send_request(log)["data"]["order"], "stale");
    for what in ["source", "artifact", "registry"] {
        let answer = stranger.get(&format!("{what}?attempt={nonce}&name=site&digest=sha256:0"));
        assert_eq!(answer["detail"], "there is no such attempt", "{answer}");
    }
    // A nonce is scoped to its runner: if another runner sends it, it counts as a new nonce and does not return the
    // first runner's work.
    let asked = json!({"boot": "b", "nonces": [nonce.split('.').next_back()], "labels": [], "waitMs": 0});
    assert_eq!(stranger.post("acquire", &asked)["data"]["assignments"], json!([]));
    // A request with the other runner's boot id is refused.
    let boot = spool.lines().next().expect("a boot id");
    let asked = json!({"boot": boot, "nonces": ["n"], "labels": [], "waitMs": 0});
    assert_eq!(stranger.post("acquire", &asked)["code"], "invalid_state");
    let now = fixture.deployment(&id);
    assert_eq!(first_step(&now)["status"], "running");
    assert_eq!(fixture.log(&id, "long"), "begins\n");
    assert!(is_alive(&process));
}

/// A runner has the labels that an admin has set. It cannot add to them by sending more labels with a request for work.
#[test]
fn labels_sent_with_acquire_bring_no_step_that_needs_them() {
    let fixture = RunnerFixture::open();
    fixture
        .pipeline("    - { name: Deploy, type: script, runs_on: [gpu], params: { run: echo deployed } }\n");
    let made = fixture.api().post(&format!("{ORG}/runners"), &json!({"name": "stranger", "labels": ["big"]}));
    let stranger = RawRunner::with_token(&fixture, text(&made.json()["data"]["token"]));
    let id = fixture.start();
    fixture
        .wait_for_deployment(&id, "a step without a runner", |found| found.to_string().contains("no_runner"));
    let labels = json!(["linux", "x86_64", "gpu", "big"]);
    let asked = json!({"boot": "b", "nonces": ["n1"], "labels": labels, "waitMs": 500});
    let answer = stranger.post("acquire", &asked);
    assert_eq!(answer["data"]["assignments"], json!([]), "{answer}");
    let shown = fixture.api().get(&format!("{ORG}/runners/stranger")).json();
    assert!(!shown["data"]["labels"].to_string().contains("gpu"), "{shown}");
    // The step was ready all along: another runner, which has the label, gets it.
    let _runner = fixture.runner("far", &[]);
    fixture.wait_for_deployment(&id, "end", |found| found["finishedAt"].is_string());
    assert_eq!(fixture.log(&id, "deploy"), "deployed\n");
}

/// The digest that is pinned first applies to all steps of a deployment, also to those of runners with other labels.
#[test]
fn runner_pins_only_images_of_its_own_step() {
    let fixture = RunnerFixture::open();
    let (good, other) = (format!("sha256:{}", "a".repeat(64)), format!("sha256:{}", "b".repeat(64)));
    let named = format!("registry.test/lint@{good}");
    fixture.pipeline(&format!(
        "    - {{ name: Test, type: script, container: {{ image: 'registry.test/test:1' }}, services: {{ lint: {{ image: '{named}' }} }}, params: {{ run: 'true' }} }}\n    \
         - {{ name: Deploy, type: script, runs_on: [prod], container: {{ image: 'registry.test/deploy:1' }}, params: {{ run: 'true' }} }}\n"
    ));
    let stranger = RawRunner::new(&fixture);
    let labels = ["linux", "x86_64", "container"];
    let hello = json!({"protocol": 2, "version": "0", "boot": "b", "labels": labels, "slots": 1, "isolation": "process"});
    stranger.post("hello", &hello);
    fixture.start();
    let asked = json!({"boot": "b", "nonces": ["n1"], "labels": labels, "waitMs": 20_000});
    let given = stranger.post("acquire", &asked);
    let nonce = text(&given["data"]["assignments"][0]["attempt"]["nonce"]);
    let pin = |image: &str, digest: &str| {
        stranger.post("image", &json!({"attempt": nonce, "image": image, "digest": digest}))
    };
    assert_eq!(pin("registry.test/test:1", &good)["data"]["digest"], good.as_str());
    assert_eq!(pin("registry.test/test:1", &other)["data"]["digest"], good.as_str(), "it is pinned");
    let refused = pin("registry.test/deploy:1", &other);
    assert!(text(&refused["detail"]).contains("the step does not use the image"), "{refused}");
    let refused = pin(&named, &other);
    assert!(text(&refused["detail"]).contains("another digest"), "{refused}");
    assert_eq!(pin(&named, &good)["data"]["digest"], good.as_str());
}

/// A runner reports what it offers. Only an admin decides whether it may lend the credentials of a cluster, or the network
/// of its machine.
#[test]
fn privileged_labels_need_an_admin_and_leave_the_other_labels() {
    let fixture = RunnerFixture::open();
    let create = |name: &str, labels: Value| {
        let body = json!({"name": name, "labels": labels});
        text(&fixture.api().post(&format!("{ORG}/runners"), &body).json()["data"]["token"])
    };
    let hello = |runner: &RawRunner<'_>, labels: Value| {
        let body = json!({"protocol": 2, "version": "0", "boot": "b", "labels": labels, "slots": 1, "isolation": "process"});
        runner.post("hello", &body)
    };
    let stranger = RawRunner::with_token(&fixture, create("stranger", json!(["big"])));
    for label in ["kubernetes", "container-host-network"] {
        let answer = hello(&stranger, json!(["linux", "container", label]));
        let why = format!("the label {label} is not allowed for this runner");
        assert!(text(&answer["detail"]).contains(&why), "{answer}");
    }
    let labels = |answer: &Value| answer["data"]["labels"].clone();
    assert_eq!(
        labels(&hello(&stranger, json!(["linux", "container"]))),
        json!(["big", "container", "linux"])
    );

    let token = create("cluster", json!(["big", "kubernetes", "container-host-network"]));
    let mut cluster = RawRunner { fixture: &fixture, credential: token };
    let registered = cluster.post("register", &json!({"protocol": 2, "version": "0"}));
    cluster.credential = text(&registered["data"]["credential"]);
    let offered = json!(["linux", "container", "kubernetes"]);
    let expected = json!(["big", "container", "kubernetes", "linux"]);
    assert_eq!(labels(&hello(&cluster, offered)), expected);
    // It has no label for what it does not offer.
    assert_eq!(labels(&hello(&cluster, json!(["linux"]))), json!(["big", "linux"]));
}

#[test]
fn kubernetes_runner_starts_only_with_its_label() {
    let fixture = RunnerFixture::open();
    let server = format!("http://{}", fixture.server.address);
    let volume = fixture.path("volume");
    std::fs::create_dir(&volume).expect("a directory");
    let start = |name: &str, labels: Value| {
        let body = json!({"name": name, "labels": labels});
        let token = text(&fixture.api().post(&format!("{ORG}/runners"), &body).json()["data"]["token"]);
        let dir = volume.join(name).to_str().expect("a path in UTF-8").to_owned();
        let volume = volume.to_str().expect("a path in UTF-8");
        let kubernetes = ["--kubernetes-namespace", "ci", "--kubernetes-volume-claim", "berth"];
        let place = ["--kubernetes-volume-path", volume, "--sandbox", "off", "--work-dir", &dir];
        run(&[&["runner", "--server", &server, "--token", &token], &kubernetes[..], &place[..]].concat())
    };
    start("without", json!(["big"])).expect_refusal(&["the label kubernetes is not allowed for this runner"]);
    // The server has accepted it. There is no cluster here.
    start("cluster", json!(["big", "kubernetes"]))
        .expect_refusal(&["cannot use the Kubernetes namespace ci", "outside of a cluster"]);
}

#[test]
fn runner_start_errors_explain_what_to_do() {
    let fixture = RunnerFixture::open();
    let server = format!("http://{}", fixture.server.address);
    let _runner = fixture.runner("far", &[]);
    let dir = |name: &str| fixture.path(name).to_str().expect("a path in UTF-8").to_owned();
    let start = |token: &str, more: &[&str]| {
        run(&[&["runner", "--server", &server, "--token", token, "--work-dir", &dir("other")], more].concat())
    };
    let unnamed = fixture.token(None);
    start(&unnamed, &["--name", "far"]).expect_refusal(&["a runner with this name already"]);
    start(&fixture.server.api.token, &[]).expect_refusal(&["not a valid registration token"]);
    start(&unnamed, &["--labels", "local"]).expect_refusal(&["is reserved for the embedded runner"]);
    let token = fixture.token(Some("odd"));
    run(&[
        "runner",
        "--server",
        &server,
        "--token",
        &token,
        "--work-dir",
        &dir("odd"),
        "--labels",
        "gpu,prod",
    ])
    .expect_refusal(&["the label prod is not allowed for this runner"]);
    run(&["runner", "--server", &server, "--token", &token, "--work-dir", &dir("thief")])
        .expect_refusal(&["this registration token was already used"]);
    run(&["runner", "--server", &server, "--work-dir", &dir("none")])
        .expect_refusal(&["not registered", "--token"]);
    run(&["runner", "--server", &server, "--work-dir", &dir("far")])
        .expect_refusal(&["in use by another runner"]);
    run(&["runner", "--server", "http://berth.acme.test", "--work-dir", &dir("none")])
        .expect_refusal(&["plain http"]);

    let stranger = RawRunner { fixture: &fixture, credential: fixture.token(Some("old")) };
    let old = stranger.post("register", &json!({"protocol": 99, "version": "9.9"}));
    let detail = text(&old["detail"]);
    assert!(
        detail.contains("version 99 of the protocol") && detail.contains("same version of berth"),
        "{detail}"
    );
    let token = fixture.token(Some("once"));
    let mut first = BerthProcess::start(fixture.command("once").args(["--token", &token]));
    first.first_line();
    let again = run(&["runner", "--server", &server, "--token", &token, "--work-dir", &dir("twice")]);
    again.expect_refusal(&["already used"]);
}
