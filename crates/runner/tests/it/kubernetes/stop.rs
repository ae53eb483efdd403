//! Stopped means gone: cancellation, pods that never start, and crashes of the runner.

use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use berth_api::runner::{AttemptOrder, StepRunOutcome};
use berth_runner::StepRunner;
use serde_json::json;

use super::double::KubernetesDouble;
use super::{ClusterFixture, in_pod, kubernetes_options, use_cluster};
use crate::fixture::{StepRunnerFixture, list_sleepers, runner_options, unique_sleep, wait_until};
use crate::link::TestLink;

#[test]
fn cancelled_step_is_gone_when_it_is_reported() {
    let it = ClusterFixture::start();
    let mark = unique_sleep();
    it.fixture.link.enqueue(in_pod(
        "a",
        &format!("trap 'echo cleaned' TERM; echo ready; sleep {mark} & sleep {mark}; exit 3"),
    ));
    it.fixture.link.wait_for_log("a", "ready");
    let began = Instant::now();
    it.fixture.link.set_order("a", AttemptOrder::Cancel, Some("taken over by Ada"));
    assert_eq!(it.fixture.link.wait_for_report("a").outcome, StepRunOutcome::Stopped);
    assert_eq!(list_sleepers(&mark), Vec::<String>::new());
    it.cluster.check_nothing_left();
    let log = it.fixture.link.text_of("a");
    assert!(log.contains("cleaned\n") && log.ends_with("[berth] stopped: taken over by Ada\n"), "{log}");
    assert!(began.elapsed() < Duration::from_secs(15));
    // A step that ignores SIGTERM.
    it.fixture
        .link
        .enqueue(in_pod("b", &format!("trap '' TERM; echo ready; while :; do sleep {mark}; done")));
    it.fixture.link.wait_for_log("b", "ready");
    it.fixture.link.set_order("b", AttemptOrder::Cancel, None);
    assert_eq!(it.fixture.link.wait_for_report("b").outcome, StepRunOutcome::Stopped);
    assert_eq!(list_sleepers(&mark), Vec::<String>::new());
    it.cluster.check_nothing_left();
}

#[test]
fn pod_that_does_not_start_is_removed() {
    let it = ClusterFixture::with_options(|options| options.start_time_max = Duration::from_secs(2));
    it.cluster.change(|cluster| cluster.is_full = true);
    let StepRunOutcome::NeverStarted { detail, .. } = it.fixture.run(in_pod("late", "echo ran")) else {
        panic!("it has run")
    };
    assert!(detail.contains("the pod did not start in time"), "{detail}");
    it.cluster.check_nothing_left();
    let digest = format!("registry.test/shell@sha256:{}", "a".repeat(64));
    let mut step = in_pod("cancelled", "echo ran");
    step.container = Some(super::container(&digest));
    it.fixture.link.enqueue(step);
    it.fixture.link.wait_for_log("cancelled", "FailedScheduling");
    it.fixture.link.set_order("cancelled", AttemptOrder::Cancel, None);
    assert_eq!(it.fixture.link.wait_for_report("cancelled").outcome, StepRunOutcome::Stopped);
    it.cluster.check_nothing_left();
}

#[test]
fn pod_that_is_deleted_by_another_client_has_an_unknown_outcome() {
    let it = ClusterFixture::start();
    it.fixture.link.enqueue(in_pod("a", "trap '' TERM; echo ready; sleep 1000"));
    it.fixture.link.wait_for_log("a", "ready");
    it.cluster.forget_pods();
    assert_eq!(it.fixture.link.wait_for_report("a").outcome, StepRunOutcome::Interrupted);
    assert!(it.fixture.link.text_of("a").contains("the pod was deleted while it was running"));
}

/// Runs only as a child process of the test below, which kills it.
#[test]
fn runner_to_be_killed() {
    let (Ok(kubeconfig), Ok(volume)) =
        (std::env::var("BERTH_TEST_KUBECONFIG"), std::env::var("BERTH_TEST_VOLUME"))
    else {
        return;
    };
    let cluster = KubernetesDouble::start();
    let fixture = StepRunnerFixture::with_options(|options| {
        let mut own = kubernetes_options(&cluster);
        own.kubeconfig = Some(kubeconfig.into());
        own.volume_path = volume.clone().into();
        use_cluster(options, &cluster, own);
        options.work_dir = std::path::Path::new(&volume).join("runner-1");
    });
    let mark = std::env::var("BERTH_TEST_MARK").expect("mark");
    fixture.link.enqueue(in_pod("a", &format!("sleep {mark}")));
    fixture.link.wait_for_report("a");
}

#[test]
fn pods_of_a_killed_runner_are_removed_when_it_starts_again() {
    let cluster = KubernetesDouble::start();
    let mark = unique_sleep();
    let mut child = Command::new(std::env::current_exe().expect("path"))
        .args(["--exact", "kubernetes::stop::runner_to_be_killed"])
        .env("BERTH_TEST_KUBECONFIG", cluster.kubeconfig())
        .env("BERTH_TEST_VOLUME", cluster.volume())
        .env("BERTH_TEST_MARK", &mark)
        .stdout(Stdio::null())
        .spawn()
        .expect("child");
    wait_until("the step runs", || !list_sleepers(&mark).is_empty());
    child.kill().and_then(|()| child.wait()).expect("killed");
    assert_eq!(list_sleepers(&mark).len(), 1, "the pod outlives the runner");
    // What another runner has started stays.
    cluster.create("jobs", "other", json!({ "metadata": { "labels": { "berth.work-dir": "other" } } }));
    let mut options = runner_options(cluster.volume());
    use_cluster(&mut options, &cluster, kubernetes_options(&cluster));
    let runner = StepRunner::start(options, Arc::new(TestLink::default())).expect("runner");
    assert_eq!(cluster.names("jobs"), ["other"]);
    assert_eq!(cluster.names("pods"), Vec::<String>::new());
    assert_eq!(list_sleepers(&mark), Vec::<String>::new());
    runner.stop();
    cluster.check_no_faults();
}
