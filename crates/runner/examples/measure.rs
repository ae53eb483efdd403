//! Measures the runner's overhead by comparing it with running the same commands directly. Run it by hand:
//! `cargo run --release -p berth-runner --example measure`

#[expect(dead_code, reason = "the tests use more of it")]
#[path = "../tests/it/link/mod.rs"]
mod link;

use std::collections::BTreeMap;
use std::fs::File;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use berth_api::runner::{AttemptAssignment, AttemptRef, ContainerAssignment, ImagePull, Network, SecretText};
use berth_core::mask::SecretMasker;
use berth_runner::{Confinement, ContainerEngineOptions, RunnerOptions, SandboxMode, StepRunner};
use berth_testkit::podman::{IMAGE, PodmanService};

use crate::link::TestLink;

const ROUNDS: usize = 7;
const STEPS: usize = 100;
const LINES: &str = "seq 1 100000";

fn main() {
    masker();
    for sandbox in [SandboxMode::Off, SandboxMode::Landlock, SandboxMode::Bubblewrap] {
        let dir = std::env::temp_dir().join(format!("berth-measure-{}", std::process::id()));
        let link = Arc::new(TestLink::default());
        let confinement = match Confinement::choose(sandbox, &[], &[]) {
            Ok(confinement) => confinement,
            Err(error) => {
                println!("{sandbox:?}: {error}");
                continue;
            }
        };
        let mut settings = RunnerOptions::new(dir.clone(), "boot".into(), confinement);
        settings.slots = 1;
        settings.acquire_wait = Duration::from_millis(100);
        match StepRunner::start(settings, link.clone()) {
            Ok(runner) => {
                println!("{sandbox:?}");
                lines(&link, &dir);
                no_ops(&link);
                runner.stop();
            }
            Err(error) => println!("{sandbox:?}: {error}"),
        }
        std::fs::remove_dir_all(&dir).ok();
    }
    containers();
}

/// Compares a step in a container with `podman run` of the same command.
fn containers() {
    let Some(podman) = PodmanService::start() else { return };
    let dir = tempfile::tempdir().expect("directory");
    let link = Arc::new(TestLink::default());
    let confinement = Confinement::choose(SandboxMode::Off, &[], &[]).expect("none");
    let mut settings = RunnerOptions::new(dir.path().to_owned(), "boot".into(), confinement);
    settings.acquire_wait = Duration::from_millis(100);
    settings.containers = Some(ContainerEngineOptions {
        socket: podman.socket(),
        allows_host_network: false,
        buildah: podman.buildah(),
    });
    let runner = StepRunner::start(settings, link.clone()).expect("runner");
    for (name, network) in [("none", Network::None), ("bridge", Network::Bridge)] {
        let bare =
            best(|_| drop(podman.text(&["run", "--rm", "--network", name, IMAGE, "/bin/sh", "-c", "true"])));
        let ours = best(|round| {
            let id = format!("container-{name}-{round}");
            let container = ContainerAssignment {
                image: IMAGE.into(),
                pull: ImagePull::IfMissing,
                user: None,
                memory_bytes: None,
                milli_cpus: None,
                services: BTreeMap::new(),
            };
            link.enqueue(AttemptAssignment { container: Some(container), network, ..script(&id, "true") });
            link.wait_for_report(&id);
        });
        println!(
            "container, network {name}: {ours:?}, podman run: {bare:?}, {:.2} times",
            ours.as_secs_f64() / bare.as_secs_f64()
        );
    }
    runner.stop();
}

fn masker() {
    let secrets: Vec<String> = (0..4).map(|i| format!("sEcReT-{i}-0123456789abcdef0123456789")).collect();
    let refs: Vec<&str> = secrets.iter().map(String::as_str).collect();
    let text: Vec<u8> =
        (1..=1_000_000).flat_map(|i: u32| format!("{i} line of a log\n").into_bytes()).collect();
    for count in [0, 1, 4] {
        let began = Instant::now();
        let masker = SecretMasker::new(&refs[..count]);
        let built = began.elapsed();
        let began = Instant::now();
        let mut stream = masker.stream();
        let mut out = Vec::with_capacity(1 << 20);
        for chunk in text.chunks(64 * 1024) {
            out.clear();
            stream.push(chunk, &mut out);
        }
        let rate = text.len() as f64 / began.elapsed().as_secs_f64() / 1e6;
        println!("masker with {count} secrets: built in {built:?}, {rate:.0} MB/s");
    }
}

fn lines(link: &TestLink, dir: &std::path::Path) {
    let bare = best(|_| {
        let file = File::create(dir.join("out")).expect("file");
        let status = Command::new("sh").args(["-c", LINES]).stdout(file).stdin(Stdio::null()).status();
        assert!(status.expect("started").success());
    });
    for secrets in [0, 2] {
        let ours = best(|round| {
            let id = format!("lines-{secrets}-{round}");
            let mut assignment = script(&id, LINES);
            let secret = |i| SecretText::new(format!("sEcReT-{i}-0123456789abcdef0123456789"));
            assignment.masked = (0..secrets).map(secret).collect();
            link.enqueue(assignment);
            link.wait_for_report(&id);
            assert_eq!(link.log_of(&id).len(), 588_895);
        });
        println!(
            "  100,000 lines, {secrets} secrets: {ours:?}, into a file: {bare:?}, {:.2} times",
            ours.as_secs_f64() / bare.as_secs_f64()
        );
    }
}

fn no_ops(link: &TestLink) {
    let bare = best(|_| {
        for _ in 0..STEPS {
            let status = Command::new("/bin/sh").args(["-c", "true"]).stdin(Stdio::null()).status();
            assert!(status.expect("started").success());
        }
    });
    let ours = best(|round| {
        let ids: Vec<String> = (0..STEPS).map(|step| format!("n-{round}-{step}")).collect();
        link.enqueue_chain(&ids[0], ids[1..].iter().map(|id| script(id, "true")).collect());
        link.enqueue(script(&ids[0], "true"));
        link.wait_for_report(&ids[STEPS - 1]);
    });
    println!(
        "  {STEPS} no-ops: {:?} each, bare: {:?} each, {:.2} times",
        ours / 100,
        bare / 100,
        ours.as_secs_f64() / bare.as_secs_f64()
    );
}

fn best(mut run: impl FnMut(usize)) -> Duration {
    let times = (0..ROUNDS).map(|round| {
        let began = Instant::now();
        run(round);
        began.elapsed()
    });
    times.min().unwrap_or_default()
}

fn script(id: &str, run: &str) -> AttemptAssignment {
    AttemptAssignment {
        attempt: AttemptRef {
            organization_id: "org".into(),
            deployment_id: "dep".into(),
            step_id: id.into(),
            number: 1,
            nonce: String::new(),
        },
        step: id.into(),
        step_name: id.into(),
        custom: None,
        kind: "script".into(),
        params: serde_json::Map::from_iter([("run".to_owned(), run.into())]),
        env: BTreeMap::new(),
        secret_files: BTreeMap::new(),
        masked: Vec::new(),
        facts: BTreeMap::new(),
        outputs: Vec::new(),
        artifacts: BTreeMap::new(),
        needs_artifacts: Vec::new(),
        has_source: false,
        source_key: None,
        source_paths: Vec::new(),
        network: Network::Host,
        timeout_s: 600,
        granted_ms_ago: 0,
        holder: None,
        container: None,
        registry_credential: None,
        kubeconfig: None,
        is_untrusted: false,
    }
}
