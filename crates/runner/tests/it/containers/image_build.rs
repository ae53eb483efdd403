//! Building images, and pushing them to a registry on this machine.

use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};

use berth_api::runner::{
    AttemptAssignment, AttemptOrder, FailureCause, ImagePull, SecretText, StepRunOutcome,
};
use berth_testkit::outcome;
use serde_json::json;

use super::ContainerFixture;
use crate::fixture::{expect_failure, expect_success, list_sleepers, unique_sleep, wait_until};

const REGISTRY: &str = "/usr/bin/docker-registry";

/// The login of the registry's only user, and the same in its password file.
const LOGIN: &str = "robot:hunter22";
const PASSWORD_FILE: &str = "robot:$2y$05$abcdefghijklmnopqrstuuZ6QNu0NKXZkZHC5hsQUItfxcGamvB8i\n";

/// A registry on this machine, stopped on drop.
struct ImageRegistry {
    child: Child,
    address: String,
}

impl ImageRegistry {
    fn start(it: &ContainerFixture) -> Option<Self> {
        let passwords = it.podman.dir().join("registry-passwords");
        std::fs::write(&passwords, PASSWORD_FILE).expect("passwords");
        let auth = format!("auth: {{ htpasswd: {{ realm: berth, path: {} }} }}\n", passwords.display());
        Self::start_with(it, &auth)
    }

    /// Starts a registry that needs no login.
    fn start_public(it: &ContainerFixture) -> Option<Self> {
        Self::start_with(it, "")
    }

    fn start_with(it: &ContainerFixture, auth: &str) -> Option<Self> {
        if !std::path::Path::new(REGISTRY).exists() {
            outcome::skip(REGISTRY, "apt-get install docker-registry");
            return None;
        }
        let port = TcpListener::bind("127.0.0.1:0").and_then(|it| it.local_addr()).expect("port").port();
        let address = format!("127.0.0.1:{port}");
        let (dir, config) = (it.podman.dir().join("registry"), it.podman.dir().join("registry.yml"));
        let text = format!(
            "version: 0.1\nstorage: {{ filesystem: {{ rootdirectory: {} }} }}\nhttp: {{ addr: '{address}' }}\n{auth}",
            dir.display(),
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

const FILE: &str = "FROM scratch\nADD rootfs.tar /\nARG WORD=none\nCOPY README /readme\nRUN echo \"$WORD\" >/word\nCMD cat /word\n";

#[test]
fn image_is_built_pushed_and_used_by_its_digest() {
    let Some(it) = ContainerFixture::start() else { return };
    let Some(registry) = ImageRegistry::start(&it) else { return };
    let tag = format!("{}/shop/web:1", registry.address);
    let params = json!({ "tags": [tag], "build_args": { "WORD": "built" }, "credential": "REGISTRY" });
    let mut first = it.image_build("build", FILE, params);
    first.registry_credential = Some(SecretText::new(LOGIN.to_owned()));
    let outcome = it.fixture.run(first);
    let log = it.fixture.link.text_of("build");
    let digest = match &outcome {
        StepRunOutcome::Succeeded { outputs, .. } => outputs["digest"].clone(),
        other => panic!("{other:?}: {log}"),
    };
    assert!(digest.starts_with("sha256:") && log.contains(&format!("[berth] digest {digest}")), "{log}");
    // The image is in the registry only.
    assert!(!it.podman.text(&["images", "--all"]).contains("shop"));
    let mut used = super::in_container("use", "cat /word /readme");
    used.container = Some(super::container(&format!("{}/shop/web@{digest}", registry.address)));
    let check_refused = |id: &str, credential: Option<&str>| {
        let mut refused = used.clone();
        refused.attempt.step_id = id.to_owned();
        refused.registry_credential = credential.map(|text| SecretText::new(text.to_owned()));
        let StepRunOutcome::NeverStarted { detail, .. } = it.fixture.run(refused) else {
            panic!("{id} has run")
        };
        assert!(detail.contains("cannot pull the image") && !detail.contains("hunter33"), "{id}: {detail}");
    };
    check_refused("anonymous", None);
    check_refused("wrong", Some("robot:hunter33"));
    let mut allowed = used.clone();
    allowed.registry_credential = Some(SecretText::new(LOGIN.to_owned()));
    let outcome = it.fixture.run(allowed);
    let log = it.fixture.link.text_of("use");
    expect_success(&outcome);
    assert!(log.contains("[berth] pulling ") && log.contains("built\nchecked out\n"), "{log}");
    // Now the image is on the machine, but the registry still decides who may use it.
    check_refused("later", None);
    check_refused("later wrong", Some("robot:hunter33"));
    let mut never = used.clone();
    never.attempt.step_id = "never".to_owned();
    never.container.as_mut().expect("a container").pull = ImagePull::Never;
    let outcome = it.fixture.run(never);
    assert!(expect_failure(&outcome).1.contains("the machine's own images begin with `localhost/`"));
    it.check_nothing_left();
}

#[test]
fn public_image_is_pulled_once_and_its_registry_is_asked_only_with_pull_always() {
    let Some(it) = ContainerFixture::start() else { return };
    let Some(registry) = ImageRegistry::start_public(&it) else { return };
    let tag = format!("{}/shop/web:1", registry.address);
    let params = json!({ "tags": [tag] });
    expect_success(&it.fixture.run(it.image_build("build", FILE, params)));
    let used = |id: &str, pull: ImagePull| {
        let mut step = super::in_container(id, "cat /word");
        step.container = Some(berth_api::runner::ContainerAssignment { pull, ..super::container(&tag) });
        step
    };
    expect_success(&it.fixture.run(used("first", ImagePull::IfMissing)));
    assert!(it.fixture.link.text_of("first").contains("[berth] pulling "));
    drop(registry);
    expect_success(&it.fixture.run(used("second", ImagePull::IfMissing)));
    let log = it.fixture.link.text_of("second");
    assert!(!log.contains("[berth] pulling ") && log.ends_with("none\n"), "{log}");
    let outcome = it.fixture.run(used("always", ImagePull::Always));
    assert!(format!("{outcome:?}").contains("cannot pull the image"), "{outcome:?}");
    it.check_nothing_left();
}

#[test]
fn failed_build_reports_its_output() {
    let Some(it) = ContainerFixture::start() else { return };
    let params = json!({ "tags": ["localhost/broken:1"], "push": false });
    let broken = "FROM scratch\nADD rootfs.tar /\nRUN echo compiling && exit 9\n";
    let outcome = it.fixture.run(it.image_build("a", broken, params));
    let (cause, detail) = expect_failure(&outcome);
    assert!(cause == FailureCause::Exited && detail.starts_with("exited with "), "{detail}");
    assert!(it.fixture.link.text_of("a").contains("compiling\n"));
    let params = json!({ "tags": ["localhost/kept:1"], "push": false, "cache": false });
    let outcome = it.fixture.run(it.image_build("b", FILE, params));
    assert!(expect_success(&outcome)["digest"].starts_with("sha256:"));
    it.check_nothing_left();
}

#[test]
fn cancelled_build_leaves_no_process() {
    let Some(it) = ContainerFixture::start() else { return };
    let mark = unique_sleep();
    let file = format!("FROM scratch\nADD rootfs.tar /\nRUN echo ready; sleep {mark}\n");
    let params = json!({ "tags": ["localhost/slow:1"], "push": false });
    it.fixture.link.enqueue(it.image_build("a", &file, params.clone()));
    it.fixture.link.wait_for_log("a", "ready");
    it.fixture.link.set_order("a", AttemptOrder::Cancel, None);
    assert_eq!(it.fixture.link.wait_for_report("a").outcome, StepRunOutcome::Stopped);
    assert_eq!(list_sleepers(&mark), Vec::<String>::new());
    // The next build removes what the killed one has left.
    let outcome = it.fixture.run(it.image_build("b", FILE, params));
    assert!(expect_success(&outcome)["digest"].starts_with("sha256:"), "{}", it.fixture.link.text_of("b"));
    let records = find_records(&it, "containers.json");
    assert!(records.iter().all(|text| text == "[]"), "{records:?}");
}

/// The contents of the files with this name in the storages of builds.
fn find_records(it: &ContainerFixture, name: &str) -> Vec<String> {
    let storages = std::fs::read_dir(it.fixture.dir.path().join("work/builds")).expect("storages").flatten();
    let drivers = storages.flat_map(|it| std::fs::read_dir(it.path().join("root")).expect("root").flatten());
    drivers.filter_map(|driver| std::fs::read_to_string(driver.path().join(name)).ok()).collect()
}

#[test]
fn layers_are_reused_only_by_the_same_pipeline_environment_and_trust() {
    let Some(it) = ContainerFixture::start() else { return };
    let params = json!({ "tags": ["registry.test/shop:1"], "push": false });
    let run = |id: &str, change: &dyn Fn(&mut AttemptAssignment)| {
        let mut build = it.image_build(id, FILE, params.clone());
        build.facts = [("BERTH_PIPELINE_ID", "pipe_1"), ("BERTH_ENVIRONMENT", "prod")]
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .into();
        change(&mut build);
        let ended = it.fixture.run(build);
        let log = it.fixture.link.text_of(id);
        println!("{log}");
        expect_success(&ended);
        log.contains("Using cache")
    };
    let set = |build: &mut AttemptAssignment, name: &str| {
        build.facts.insert(name.to_owned(), "other".to_owned());
    };
    assert!(!run("first", &|_| {}));
    assert!(run("again", &|_| {}));
    assert!(!run("pipeline", &|build| set(build, "BERTH_PIPELINE_ID")));
    assert!(!run("environment", &|build| set(build, "BERTH_ENVIRONMENT")));
    assert!(!run("fork", &|build| build.is_untrusted = true));
    assert!(!run("organization", &|build| build.attempt.organization_id = "org_2".to_owned()));
}
