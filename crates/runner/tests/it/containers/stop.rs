//! Stopped means gone: cancellation, and crashes of the runner and of the engine.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use berth_api::runner::{AttemptOrder, StepRunOutcome};
use berth_runner::StepRunner;
use berth_testkit::podman::PodmanService;

use super::{ContainerFixture, in_container, use_engine};
use crate::fixture::{
    StepRunnerFixture, expect_success, list_sleepers, runner_options, unique_sleep, wait_until,
};
use crate::link::TestLink;

#[test]
fn cancelled_container_step_is_gone_when_it_is_reported() {
    let Some(it) = ContainerFixture::start() else { return };
    let mark = unique_sleep();
    it.fixture.link.enqueue(in_container(
        "a",
        &format!("trap 'echo cleaned' TERM; echo ready; sleep {mark} & sleep {mark}; exit 3"),
    ));
    it.fixture.link.wait_for_log("a", "ready");
    let began = Instant::now();
    it.fixture.link.set_order("a", AttemptOrder::Cancel, Some("taken over by Ada"));
    assert_eq!(it.fixture.link.wait_for_report("a").outcome, StepRunOutcome::Stopped);
    let took = began.elapsed();
    assert_eq!(list_sleepers(&mark), Vec::<String>::new());
    it.check_nothing_left();
    let log = it.fixture.link.text_of("a");
    assert!(log.contains("cleaned\n"), "{log}");
    assert!(log.ends_with("[berth] stopped: taken over by Ada\n"), "{log}");
    assert!(took < Duration::from_secs(10), "{took:?}");
    // A step that ignores SIGTERM.
    it.fixture
        .link
        .enqueue(in_container("b", &format!("trap '' TERM; echo ready; while :; do sleep {mark}; done")));
    it.fixture.link.wait_for_log("b", "ready");
    it.fixture.link.set_order("b", AttemptOrder::Cancel, None);
    assert_eq!(it.fixture.link.wait_for_report("b").outcome, StepRunOutcome::Stopped);
    assert_eq!(list_sleepers(&mark), Vec::<String>::new());
    it.check_nothing_left();
}

#[test]
fn step_survives_a_crash_of_the_engine() {
    let Some(mut it) = ContainerFixture::start() else { return };
    it.fixture.link.enqueue(in_container(
        "a",
        "echo ready; while [ ! -e go ]; do sleep 0.1; done; echo x=1 >>\"$BERTH_OUTPUT\"",
    ));
    it.fixture.link.wait_for_log("a", "ready");
    it.podman.kill_service();
    it.podman.start_service();
    let workspaces = it.fixture.dir.path().join("work/attempts");
    let attempt = std::fs::read_dir(workspaces).expect("attempts").flatten().next().expect("one").path();
    std::fs::write(attempt.join("workspace/go"), "").expect("file");
    expect_success(&it.fixture.link.wait_for_report("a").outcome);
    it.check_nothing_left();
    // Cancelled while the engine is down: reported as stopped only once the container is gone.
    let mark = unique_sleep();
    it.fixture.link.enqueue(in_container("b", &format!("echo ready; sleep {mark}")));
    it.fixture.link.wait_for_log("b", "ready");
    it.podman.kill_service();
    it.fixture.link.set_order("b", AttemptOrder::Cancel, None);
    it.fixture.link.wait_for_log("b", "waiting for the container engine");
    assert!(!it.fixture.link.has_report("b"), "reported, and the engine is down");
    it.podman.start_service();
    assert_eq!(it.fixture.link.wait_for_report("b").outcome, StepRunOutcome::Stopped);
    assert_eq!(list_sleepers(&mark), Vec::<String>::new());
    it.check_nothing_left();
}

#[test]
fn containers_of_a_killed_runner_are_removed_at_start() {
    let Some(podman) = PodmanService::start() else { return };
    let dir = tempfile::tempdir().expect("directory");
    let work = dir.path().join("work");
    std::fs::create_dir_all(&work).expect("directory");
    let work = work.canonicalize().expect("path");
    let label = format!("berth.work-dir={}", work.display());
    let mark = unique_sleep();
    // What a runner leaves that is killed while a step with a service runs. The last one is of another runner.
    let image = berth_testkit::podman::IMAGE;
    podman.text(&["network", "create", "--label", &label, "berth-left"]);
    podman.text(&[
        "run",
        "-d",
        "--label",
        &label,
        "--network",
        "berth-left",
        "--name",
        "left",
        image,
        "sleep",
        &mark,
    ]);
    podman.text(&["create", "--label", &label, "--network", "none", "--name", "created", image, "true"]);
    let other = format!("berth.work-dir={}2", work.display());
    podman.text(&["create", "--label", &other, "--network", "none", "--name", "other", image, "true"]);
    let mut options = runner_options(work);
    use_engine(&mut options, &podman);
    let link = std::sync::Arc::new(TestLink::default());
    let runner = StepRunner::start(options.clone(), link.clone()).expect("runner");
    assert_eq!(podman.containers(), ["other"]);
    assert_eq!(podman.networks(), Vec::<String>::new());
    wait_until("the process is gone", || list_sleepers(&mark).is_empty());
    runner.stop();
    // Without its engine, a runner does not start: it could not remove what it had left.
    options.containers.as_mut().expect("engine").socket = dir.path().join("none.sock");
    let error = StepRunner::start(options, link).err().expect("refused").to_string();
    assert!(error.contains("none.sock does not respond"), "{error}");
}

/// Runs only as a child process of the test below, which kills it.
#[test]
fn runner_to_be_killed() {
    let (Ok(socket), Ok(work)) = (std::env::var("BERTH_TEST_SOCKET"), std::env::var("BERTH_TEST_WORK"))
    else {
        return;
    };
    let fixture = StepRunnerFixture::with_options(|options| {
        options.work_dir = work.into();
        options.containers = Some(berth_runner::ContainerEngineOptions {
            socket: socket.into(),
            allows_host_network: false,
            buildah: "buildah".into(),
        });
    });
    fixture
        .link
        .enqueue(in_container("a", &format!("sleep {}", std::env::var("BERTH_TEST_MARK").expect("mark"))));
    fixture.link.wait_for_report("a");
}

#[test]
fn containers_of_a_runner_killed_with_sigkill_are_removed_when_it_starts_again() {
    let Some(podman) = PodmanService::start() else { return };
    let work = podman.dir().join("work");
    let mark = unique_sleep();
    let mut child = Command::new(std::env::current_exe().expect("path"))
        .args(["--exact", "containers::stop::runner_to_be_killed"])
        .env("BERTH_TEST_SOCKET", podman.socket())
        .env("BERTH_TEST_WORK", &work)
        .env("BERTH_TEST_MARK", &mark)
        .stdout(Stdio::null())
        .spawn()
        .expect("child");
    wait_until("the step runs", || !list_sleepers(&mark).is_empty());
    child.kill().and_then(|()| child.wait()).expect("killed");
    let mut options = runner_options(work);
    use_engine(&mut options, &podman);
    let runner = StepRunner::start(options, std::sync::Arc::new(TestLink::default())).expect("runner");
    assert_eq!(podman.containers(), Vec::<String>::new());
    wait_until("the process is gone", || list_sleepers(&mark).is_empty());
    runner.stop();
}
