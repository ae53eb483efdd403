//! Values that try to become options, paths or parts of other objects.

use std::collections::BTreeMap;

use berth_api::runner::{AttemptAssignment, ContainerAssignment, FailureCause, Network, ServiceAssignment};

use super::double::IMAGE;
use super::{ClusterFixture, container, in_pod};
use crate::fixture::{expect_failure, expect_success};

#[test]
fn hostile_images_users_and_networks_are_refused() {
    let it = ClusterFixture::start();
    for image in ["--privileged", "registry.test/shell:1 --x", "registry.test/../shell", "a\nb", ""] {
        let mut step = in_pod(&format!("image {image}"), "echo ran");
        step.container = Some(container(image));
        let outcome = it.fixture.run(step);
        let (cause, detail) = expect_failure(&outcome);
        assert!(cause == FailureCause::Invalid && detail.contains("the image"), "{image}: {detail}");
    }
    let mut user = in_pod("user", "echo ran");
    user.container = Some(ContainerAssignment { user: Some("root".to_owned()), ..container(IMAGE) });
    assert!(expect_failure(&it.fixture.run(user)).1.contains("Kubernetes needs ids"));
    for (network, why) in
        [(Network::Host, "is not allowed on this runner"), (Network::None, "cannot cut a pod off")]
    {
        let step = AttemptAssignment { network, ..in_pod(&format!("{network:?}"), "echo ran") };
        assert!(expect_failure(&it.fixture.run(step)).1.contains(why));
    }
    let mut services = in_pod("services", "echo ran");
    let service = ServiceAssignment {
        image: IMAGE.to_owned(),
        env: BTreeMap::new(),
        ready_port: None,
        ready_within_s: 1,
    };
    services.container = Some(ContainerAssignment {
        services: BTreeMap::from([("db".to_owned(), service)]),
        ..container(IMAGE)
    });
    assert!(expect_failure(&it.fixture.run(services)).1.contains("services are not supported"));
    it.cluster.check_nothing_left();
}

#[test]
fn hostile_variables_and_labels_do_not_change_the_pod() {
    let it = ClusterFixture::start();
    let mut reserved = in_pod("reserved", "echo ran");
    reserved.env = BTreeMap::from([("LD_PRELOAD".to_owned(), "x".to_owned())]);
    assert!(expect_failure(&it.fixture.run(reserved)).1.contains("reserved"));
    let mut unusual = in_pod("unusual", "echo ran");
    unusual.env = BTreeMap::from([("A B\n".to_owned(), "x".to_owned())]);
    let outcome = it.fixture.run(unusual);
    let (cause, detail) = expect_failure(&outcome);
    assert!(cause == FailureCause::Invalid && detail.contains("env.name: Invalid value"), "{detail}");
    // Line breaks and references in values stay in the value.
    let mut injected = in_pod("injected", "echo \"injected: ${INJECTED-no}\"; echo \"$VALUE\"");
    injected.env = BTreeMap::from([("VALUE".to_owned(), "a\nINJECTED=$(BERTH_OUTPUT)".to_owned())]);
    let hostile = "env_1,berth.attempt=x\n../y".to_owned();
    injected.holder =
        Some(berth_api::runner::HolderFence { environment_id: hostile, fence: 1, session_id: None });
    expect_success(&it.fixture.run(injected));
    let log = it.fixture.link.text_of("injected");
    assert!(log.contains("injected: no\na\nINJECTED=$(BERTH_OUTPUT)\n"), "{log}");
    it.cluster.check_nothing_left();
}

#[test]
fn pod_with_the_commit_of_a_fork_gets_no_token() {
    let it = ClusterFixture::with_options(|options| options.mounts_token = true);
    let has_token = |id: &str, is_untrusted: bool| {
        it.fixture.link.enqueue(AttemptAssignment { is_untrusted, ..in_pod(id, "echo ready; sleep 1000") });
        it.fixture.link.wait_for_log(id, "ready");
        let jobs = it.cluster.objects("jobs");
        let tokens: Vec<_> =
            jobs.iter().map(|job| &job["spec"]["template"]["spec"]["automountServiceAccountToken"]).collect();
        assert_eq!(tokens.len(), 1, "{jobs:?}");
        let has_token = tokens[0] == true;
        it.fixture.link.set_order(id, berth_api::runner::AttemptOrder::Cancel, None);
        it.fixture.link.wait_for_report(id);
        has_token
    };
    assert!(has_token("trusted", false));
    assert!(!has_token("fork", true));
    it.cluster.check_nothing_left();
}

#[test]
fn step_without_container_does_not_run_next_to_the_credentials() {
    let it = ClusterFixture::start();
    let outcome = it.fixture.run(crate::fixture::script("a", "echo ran"));
    let (cause, detail) = expect_failure(&outcome);
    assert!(cause == FailureCause::Invalid && detail.contains("only steps with a `container`"), "{detail}");
    assert!(!it.fixture.link.text_of("a").contains("ran"));
}
