//! What a step in a pod gets, and what comes out of it.

use std::collections::BTreeMap;

use berth_api::runner::{
    AttemptAssignment, ContainerAssignment, FailureCause, HolderFence, ImagePull, Isolation, Network,
    SecretText, StepRunOutcome,
};
use serde_json::{Value, json};

use super::double::{IMAGE, KubernetesDouble};
use super::{ClusterFixture, container, in_pod, kubernetes_options, use_cluster};
use crate::fixture::{expect_failure, expect_success};

#[test]
fn step_in_pod_gets_workspace_secrets_and_variables() {
    let it = ClusterFixture::start();
    let mut step = in_pod(
        "a",
        "cat README; echo \"$GREETING $BERTH_STEP\"; cat \"$KEY\"; echo err >&2; mkdir out; echo data >out/file\n\
         echo \"digest=$(wc -c <\"$KEY\")\" >>\"$BERTH_OUTPUT\"; echo \"$(GREETING=x; echo $GREETING) $$$$\"",
    );
    step.has_source = true;
    step.env = BTreeMap::from([("GREETING".to_owned(), "hello $(KEY)".to_owned())]);
    step.facts = BTreeMap::from([("BERTH_STEP".to_owned(), "a".to_owned())]);
    step.secret_files = BTreeMap::from([("KEY".to_owned(), SecretText::new("s3cret-value".to_owned()))]);
    step.outputs = vec!["digest".to_owned()];
    step.artifacts = BTreeMap::from([("file".to_owned(), "out/file".to_owned())]);
    let outcome = it.fixture.run(step);
    let log = it.fixture.link.text_of("a");
    assert_eq!(expect_success(&outcome)["digest"], "12", "{log}");
    assert_eq!(it.fixture.link.stored_artifacts()["file"], b"data\n");
    assert!(!log.contains("s3cret-value"), "{log}");
    for part in [
        "[berth] resolving the image registry.test/shell:1\n",
        "[berth] image registry.test/shell:1 is sha256:aaaa",
        "checked out\nhello $(KEY) a\n",
        "err\n",
        "\nx ",
    ] {
        assert!(log.contains(part), "{part:?} is missing: {log}");
    }
    let report = it.fixture.link.wait_for_report("a");
    assert_eq!((report.isolation, report.network), (Isolation::Container, Some(Network::Bridge)));
    it.cluster.check_nothing_left();
    // The digest is known now, so the next attempt starts no pod to find it.
    expect_success(&it.fixture.run(in_pod("b", "true")));
    let log = it.fixture.link.text_of("b");
    assert!(!log.contains("resolving") && log.contains("is sha256:aaaa"), "{log}");
    it.cluster.check_nothing_left();
}

#[test]
fn pod_is_unprivileged_limited_and_labelled() {
    let it = ClusterFixture::with_options(|options| {
        options.service_account = Some("deployer".to_owned());
        options.pull_secrets = vec!["registry".to_owned()];
        options.node_selector = BTreeMap::from([("disk".to_owned(), "ssd".to_owned())]);
    });
    let mut step = in_pod("a", "echo ready; sleep 1000");
    step.container = Some(ContainerAssignment {
        memory_bytes: Some(64 << 20),
        milli_cpus: Some(500),
        pull: ImagePull::Always,
        user: Some("1000:1000".to_owned()),
        ..container(IMAGE)
    });
    step.env = BTreeMap::from([("TOKEN".to_owned(), "s3cret-value".to_owned())]);
    step.registry_credential = Some(SecretText::new("robot:hunter22".to_owned()));
    step.holder = Some(HolderFence { environment_id: "env_1".to_owned(), fence: 7, session_id: None });
    it.fixture.link.enqueue(step);
    it.fixture.link.wait_for_log("a", "ready");
    let job = it.cluster.objects("jobs").pop().expect("a Job");
    let spec = &job["spec"];
    assert_eq!((&spec["backoffLimit"], &spec["completions"]), (&json!(0), &json!(1)));
    assert!(
        spec["activeDeadlineSeconds"].as_i64().is_some_and(|seconds| (60..200).contains(&seconds)),
        "{job}"
    );
    let labels = &job["metadata"]["labels"];
    assert_eq!((&labels["berth.fence"], &labels["berth.runner"]), (&json!("7"), &json!("boot-1")));
    assert!(labels["berth.attempt"].is_string() && labels["berth.environment"] == "env_1", "{labels}");
    let pod = &spec["template"]["spec"];
    assert_eq!(pod["restartPolicy"], "Never");
    assert_eq!(pod["automountServiceAccountToken"], false);
    assert_eq!(pod["enableServiceLinks"], false);
    assert_eq!(pod["hostNetwork"], Value::Null);
    assert_eq!(pod["serviceAccountName"], "deployer");
    assert_eq!(pod["nodeSelector"], json!({ "disk": "ssd" }));
    assert_eq!(pod["securityContext"]["runAsUser"], 1000);
    assert_eq!(pod["securityContext"]["seccompProfile"], json!({ "type": "RuntimeDefault" }));
    let names: Vec<&Value> =
        pod["imagePullSecrets"].as_array().expect("secrets").iter().map(|it| &it["name"]).collect();
    assert!(names.len() == 2 && names[0] == "registry", "{names:?}");
    let container = &pod["containers"][0];
    assert_eq!(container["securityContext"]["allowPrivilegeEscalation"], false);
    assert_eq!(container["securityContext"]["privileged"], false);
    assert_eq!(container["securityContext"]["capabilities"], json!({ "drop": ["ALL"] }));
    assert_eq!(container["resources"]["limits"], json!({ "cpu": "500m", "memory": (64 << 20).to_string() }));
    assert_eq!(container["imagePullPolicy"], "IfNotPresent");
    assert!(
        container["image"].as_str().is_some_and(|image| image.starts_with("registry.test/shell@sha256:")),
        "{container}"
    );
    validate(&job);
    // Values are only in the Secrets, which the Job owns.
    let text = job.to_string();
    assert!(!text.contains("s3cret-value") && !text.contains("hunter22"), "{text}");
    for secret in it.cluster.objects("secrets") {
        assert_eq!(secret["metadata"]["ownerReferences"][0]["uid"], job["metadata"]["uid"]);
    }
    it.fixture.link.set_order("a", berth_api::runner::AttemptOrder::Cancel, None);
    it.fixture.link.wait_for_report("a");
    it.cluster.check_nothing_left();
}

#[test]
fn exit_codes_and_timeouts_apply_to_pods() {
    let it = ClusterFixture::start();
    let outcome = it.fixture.run(in_pod("code", "echo failing; exit 7"));
    assert_eq!(expect_failure(&outcome), (FailureCause::Exited, "exited with 7"));
    assert!(it.fixture.link.text_of("code").contains("failing\n"));
    let step = AttemptAssignment { timeout_s: 2, ..in_pod("slow", "sleep 1000") };
    assert_eq!(expect_failure(&it.fixture.run(step)).0, FailureCause::TimedOut);
    it.cluster.check_nothing_left();
}

#[test]
fn log_continues_without_gap_or_repetition_after_a_lost_connection() {
    let it = ClusterFixture::start();
    expect_success(&it.fixture.run(in_pod("warm", "true")));
    it.cluster.change(|cluster| cluster.broken_logs = 3);
    let outcome = it.fixture.run(in_pod("a", "for i in 1 2 3 4 5 6; do echo line $i; done; printf end"));
    expect_success(&outcome);
    let log = it.fixture.link.text_of("a");
    assert!(log.ends_with("line 1\nline 2\nline 3\nline 4\nline 5\nline 6\nend"), "{log}");
    it.cluster.check_nothing_left();
}

#[test]
fn image_that_cannot_be_pulled_is_shown_and_nothing_runs() {
    let it =
        ClusterFixture::with_options(|options| options.start_time_max = std::time::Duration::from_secs(2));
    let digest = format!("registry.test/other@sha256:{}", "b".repeat(64));
    for (id, image) in [("tag", "registry.test/missing:1"), ("digest", digest.as_str())] {
        let mut step = in_pod(id, "echo ran");
        step.container = Some(container(image));
        let StepRunOutcome::NeverStarted { detail, .. } = it.fixture.run(step) else {
            panic!("{id} has run")
        };
        assert!(
            detail.contains("the image cannot be pulled: ") && detail.contains("failed to pull"),
            "{id}: {detail}"
        );
        let log = it.fixture.link.text_of(id);
        assert!(log.contains("[berth] pod: Failed: Failed to pull image"), "{id}: {log}");
        it.cluster.check_nothing_left();
    }
}

#[test]
fn events_of_a_pending_pod_are_shown_until_it_starts() {
    let it = ClusterFixture::start();
    it.cluster.change(|cluster| cluster.is_full = true);
    it.fixture.link.enqueue(in_pod("a", "echo ran"));
    it.fixture.link.wait_for_log("a", "FailedScheduling: 0/3 nodes are available: 3 Insufficient memory.");
    it.cluster.change(|cluster| cluster.is_full = false);
    expect_success(&it.fixture.link.wait_for_report("a").outcome);
    assert!(it.fixture.link.text_of("a").ends_with("ran\n"));
    it.cluster.check_nothing_left();
}

#[test]
fn stale_fence_is_refused_before_the_pod_starts() {
    let it = ClusterFixture::start();
    let holder = |fence| Some(HolderFence { environment_id: "env_1".to_owned(), fence, session_id: None });
    expect_success(&it.fixture.run(AttemptAssignment { holder: holder(8), ..in_pod("new", "true") }));
    let outcome = it.fixture.run(AttemptAssignment { holder: holder(7), ..in_pod("old", "echo ran") });
    let (cause, detail) = expect_failure(&outcome);
    assert!(
        cause == FailureCause::Invalid && detail.contains("under fence 8, and refuses the lower fence 7"),
        "{detail}"
    );
    assert!(!it.fixture.link.text_of("old").contains("\nran\n"));
    expect_success(&it.fixture.run(AttemptAssignment { holder: holder(8), ..in_pod("same", "true") }));
    // A record that cannot be read refuses everything.
    let record = it.cluster.objects("configmaps").pop().expect("a record");
    let name = record["metadata"]["name"].as_str().expect("a name").to_owned();
    it.cluster.create("configmaps", &name, json!({ "metadata": {}, "data": { "fence": "many" } }));
    let outcome = it.fixture.run(AttemptAssignment { holder: holder(9), ..in_pod("broken", "true") });
    assert!(expect_failure(&outcome).1.contains("refuses the lower fence 9"));
    it.cluster.check_nothing_left();
}

#[test]
fn pod_that_resolves_an_image_is_as_restricted_as_the_step() {
    let it = ClusterFixture::with_options(|options| {
        options.mounts_token = true;
        options.allows_host_network = true;
    });
    it.cluster.change(|cluster| cluster.is_full = true);
    let mut step = AttemptAssignment { network: Network::Host, ..in_pod("a", "true") };
    step.container = Some(ContainerAssignment { user: Some("1000:1000".to_owned()), ..container(IMAGE) });
    it.fixture.link.enqueue(step);
    it.fixture.link.wait_for_log("a", "FailedScheduling");
    let job = it.cluster.objects("jobs").pop().expect("a Job");
    assert!(job["metadata"]["name"].as_str().is_some_and(|name| name.ends_with("-image")), "{job}");
    let pod = &job["spec"]["template"]["spec"];
    assert_eq!(pod["automountServiceAccountToken"], false);
    assert_eq!(pod["hostNetwork"], Value::Null);
    assert_eq!(pod["securityContext"]["runAsUser"], 1000);
    assert_eq!(pod["securityContext"]["runAsNonRoot"], true);
    it.fixture.link.set_order("a", berth_api::runner::AttemptOrder::Cancel, None);
    it.fixture.link.wait_for_report("a");
    it.cluster.check_nothing_left();
}

#[test]
fn stale_fence_is_refused_before_the_image_is_resolved() {
    let it = ClusterFixture::start();
    let holder = |fence| Some(HolderFence { environment_id: "env_1".to_owned(), fence, session_id: None });
    expect_success(&it.fixture.run(AttemptAssignment { holder: holder(8), ..in_pod("new", "true") }));
    let mut stale = AttemptAssignment { holder: holder(7), ..in_pod("old", "true") };
    stale.attempt.deployment_id = "dep_2".to_owned();
    assert!(expect_failure(&it.fixture.run(stale)).1.contains("refuses the lower fence 7"));
    let log = it.fixture.link.text_of("old");
    assert!(!log.contains("resolving the image"), "{log}");
    it.cluster.check_nothing_left();
}

#[test]
fn runner_with_wrong_settings_does_not_start() {
    let cluster = KubernetesDouble::start();
    let refuse = |change: &dyn Fn(&mut berth_runner::RunnerOptions)| {
        let mut options = crate::fixture::runner_options(cluster.volume());
        use_cluster(&mut options, &cluster, kubernetes_options(&cluster));
        change(&mut options);
        let link = std::sync::Arc::new(crate::link::TestLink::default());
        berth_runner::StepRunner::start(options, link).err().expect("refused").to_string()
    };
    let own = |options: &mut berth_runner::RunnerOptions| options.kubernetes.clone().expect("kubernetes");
    for namespace in ["", "../kube-system", "ci/pods", "CI", "-ci"] {
        let error = refuse(&|options| {
            options.kubernetes =
                Some(berth_runner::KubernetesOptions { namespace: namespace.into(), ..own(options) });
        });
        assert!(error.contains("is not the name of a namespace"), "{namespace}: {error}");
    }
    let error = refuse(&|options| {
        options.kubernetes =
            Some(berth_runner::KubernetesOptions { namespace: "other".into(), ..own(options) });
    });
    assert!(error.contains("cannot use the namespace"), "{error}");
    let elsewhere = tempfile::tempdir().expect("directory");
    let error = refuse(&|options| options.work_dir = elsewhere.path().join("work"));
    assert!(error.contains("is not on the volume"), "{error}");
}

/// Validates an object with the schemas of a Kubernetes version, without unknown members.
fn validate(object: &Value) {
    let Some(python) = std::env::var_os("BERTH_TEST_PYTHON").map(std::path::PathBuf::from) else {
        berth_testkit::outcome::skip("kubernetes-validate", "cargo xtask test");
        return;
    };
    let file = tempfile::Builder::new().suffix(".json").tempfile().expect("file");
    let mut sent = object.clone();
    // Set by the API server.
    sent["metadata"]["creationTimestamp"] = json!("2026-11-19T00:00:00Z");
    std::fs::write(file.path(), sent.to_string()).expect("file");
    let program = python.with_file_name("kubernetes-validate");
    let done =
        std::process::Command::new(program).arg("--strict").arg(file.path()).output().expect("a validator");
    let text = String::from_utf8_lossy(&done.stdout) + String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{text}\n{sent}");
}
