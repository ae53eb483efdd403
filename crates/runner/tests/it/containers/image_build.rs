//! Building images, and pushing them to a registry on this machine.

use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};

use berth_api::runner::{AttemptOrder, FailureCause, SecretText, StepRunOutcome};
use berth_testkit::outcome;
use serde_json::json;

use super::ContainerFixture;
use crate::fixture::{expect_failure, expect_success, list_sleepers, step, unique_sleep, wait_until};

const REGISTRY: &str = "/usr/bin/docker-registry";

/// A registry, stopped on drop.
struct ImageRegistry {
    child: Child,
    address: String,
}

impl ImageRegistry {
    fn start(it: &ContainerFixture) -> Option<Self> {
        if !std::path::Path::new(REGISTRY).exists() {
            outcome::skip(REGISTRY, "apt-get install docker-registry");
            return None;
        }
        let port = TcpListener::bind("127.0.0.1:0").and_then(|it| it.local_addr()).expect("port").port();
        let address = format!("127.0.0.1:{port}");
        let (dir, config) = (it.podman.dir().join("registry"), it.podman.dir().join("registry.yml"));
        let text = format!(
            "version: 0.1\nstorage: {{ filesystem: {{ rootdirectory: {} }} }}\nhttp: {{ addr: '{address}' }}\n",
            dir.display()
        );
        std::fs::write(&config, text).expect("configuration");
        it.podman.trust_registry(&address);
        let mut command = Command::new(REGISTRY);
        command.arg("serve").arg(&config).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let child = command.spawn().expect("registry");
        wait_until("the registry listens", || TcpStream::connect(&address).is_ok());
        Some(Self { child, address })
    }
}

impl Drop for ImageRegistry {
    fn drop(&mut self) {
        self.child.kill().and_then(|()| self.child.wait()).ok();
    }
}

/// A build step whose workspace has an artifact as Containerfile.
fn build(it: &ContainerFixture, id: &str, file: &str, params: serde_json::Value) -> StepRunOutcome {
    it.fixture.link.store_artifact("Containerfile", file.as_bytes());
    let mut build = step(id, "image_build", params);
    build.needs_artifacts = vec!["Containerfile".to_owned()];
    build.has_source = true;
    it.fixture.run(build)
}

const FILE: &str = "FROM localhost/busybox:1\nARG WORD=none\nCOPY README /readme\nRUN echo \"$WORD\" >/word\nCMD cat /word\n";

#[test]
fn image_is_built_pushed_and_used_by_its_digest() {
    let Some(it) = ContainerFixture::start() else { return };
    let Some(registry) = ImageRegistry::start(&it) else { return };
    let tag = format!("{}/shop/web:1", registry.address);
    let params = json!({ "tags": [tag], "build_args": { "WORD": "built" }, "credential": "REGISTRY" });
    it.fixture.link.store_artifact("Containerfile", FILE.as_bytes());
    let mut first = step("build", "image_build", params);
    first.needs_artifacts = vec!["Containerfile".to_owned()];
    first.has_source = true;
    first.registry_credential = Some(SecretText::new("robot:hunter22".to_owned()));
    let outcome = it.fixture.run(first);
    let log = it.fixture.link.text_of("build");
    let digest = match &outcome {
        StepRunOutcome::Succeeded { outputs, .. } => outputs["digest"].clone(),
        other => panic!("{other:?}: {log}"),
    };
    assert!(digest.starts_with("sha256:") && log.contains(&format!("[berth] digest {digest}")), "{log}");
    // Another runner has only the registry.
    it.podman.text(&["rmi", "--force", &tag]);
    let mut used = super::in_container("use", "cat /word /readme");
    used.container = Some(super::container(&format!("{}/shop/web@{digest}", registry.address)));
    let outcome = it.fixture.run(used);
    let log = it.fixture.link.text_of("use");
    expect_success(&outcome);
    assert!(log.contains("[berth] pulling ") && log.contains("built\nchecked out\n"), "{log}");
    it.check_nothing_left();
}

#[test]
fn failed_build_reports_its_output() {
    let Some(it) = ContainerFixture::start() else { return };
    let params = json!({ "tags": ["localhost/broken:1"], "push": false });
    let outcome = build(&it, "a", "FROM localhost/busybox:1\nRUN echo compiling && exit 9\n", params);
    let (cause, detail) = expect_failure(&outcome);
    assert!(cause == FailureCause::Exited && detail.starts_with("exited with "), "{detail}");
    assert!(it.fixture.link.text_of("a").contains("compiling\n"));
    let params = json!({ "tags": ["localhost/kept:1"], "push": false, "cache": false });
    let outcome = build(&it, "b", FILE, params);
    assert!(expect_success(&outcome)["digest"].starts_with("sha256:"));
    it.check_nothing_left();
}

#[test]
fn cancelled_build_leaves_no_process() {
    let Some(it) = ContainerFixture::start() else { return };
    let mark = unique_sleep();
    let file = format!("FROM localhost/busybox:1\nRUN echo ready; sleep {mark}\n");
    it.fixture.link.store_artifact("Containerfile", file.as_bytes());
    let params = json!({ "tags": ["localhost/slow:1"], "push": false });
    let mut build = step("a", "image_build", params);
    build.needs_artifacts = vec!["Containerfile".to_owned()];
    it.fixture.link.enqueue(build);
    it.fixture.link.wait_for_log("a", "ready");
    it.fixture.link.set_order("a", AttemptOrder::Cancel, None);
    assert_eq!(it.fixture.link.wait_for_report("a").outcome, StepRunOutcome::Stopped);
    assert_eq!(list_sleepers(&mark), Vec::<String>::new());
}
