//! Services next to a step.

use berth_api::runner::{
    AttemptAssignment, AttemptOrder, ContainerAssignment, FailureCause, Network, ServiceAssignment,
};
use berth_testkit::podman::IMAGE;

use super::{ContainerFixture, container, in_container};
use crate::fixture::{expect_failure, expect_success};

const MEMORY: u64 = 64 * 1024 * 1024;

/// Makes an image whose command is this script.
fn service_image(it: &ContainerFixture, name: &str, script: &str) -> String {
    let image = format!("localhost/{name}:1");
    let name = format!("make-{name}");
    it.podman.text(&["create", "--name", &name, "--network", "none", IMAGE, "sh", "-c", script]);
    it.podman.text(&["commit", "--quiet", &name, &image]);
    it.podman.text(&["rm", &name]);
    image
}

fn with_service(id: &str, run: &str, image: &str, within_s: u64) -> AttemptAssignment {
    let service = ServiceAssignment {
        image: image.to_owned(),
        env: [("ANSWER".to_owned(), "pong-s3cret".to_owned())].into(),
        ready_port: Some(5432),
        ready_within_s: within_s,
    };
    AttemptAssignment {
        container: Some(ContainerAssignment {
            services: [("db".to_owned(), service)].into(),
            ..container(IMAGE)
        }),
        network: Network::Bridge,
        ..in_container(id, run)
    }
}

#[test]
fn service_is_reached_by_name_removed_with_the_step_and_fails_it() {
    let Some(it) = ContainerFixture::with_options(|options| options.step_memory_bytes_max = Some(MEMORY))
    else {
        return;
    };
    let image = service_image(&it, "db", "while :; do echo $ANSWER | nc -l -p 5432; done");
    let outcome = it.fixture.run(with_service("a", "echo \"got $(nc db 5432)\"", &image, 20));
    let log = it.fixture.link.text_of("a");
    assert!(expect_success(&outcome).is_empty(), "{log}");
    assert!(log.contains("started the service db\n") && log.contains("service db is ready after"), "{log}");
    assert!(log.contains("got pong-s3cret\n"), "{log}");
    it.check_nothing_left();
    check_memory_limit(&it, &image);
    check_failures(&it);
}

/// The runner's memory limit applies to each service. Part of the same test, for the reason below.
fn check_memory_limit(it: &ContainerFixture, image: &str) {
    it.fixture.link.enqueue(with_service("memory", "echo ready; sleep 1000", image, 20));
    it.fixture.link.wait_for_log("memory", "\nready\n");
    let mut limits = Vec::new();
    for name in it.podman.containers() {
        limits.push(it.podman.text(&["inspect", "--format", "{{.HostConfig.Memory}}", &name]));
    }
    assert_eq!(limits, [MEMORY.to_string(), MEMORY.to_string()]);
    it.fixture.link.set_order("memory", AttemptOrder::Cancel, None);
    it.fixture.link.wait_for_report("memory");
    it.check_nothing_left();
}

/// A service that exits or is not ready in time fails the step, with the end of its log. Part of the same test, because
/// two Podman services that create networks at the same time choose the same subnet.
fn check_failures(it: &ContainerFixture) {
    let image = service_image(it, "broken", "echo no space left; exit 3");
    let outcome = it.fixture.run(with_service("f", "echo ran", &image, 20));
    let (cause, detail) = expect_failure(&outcome);
    let log = it.fixture.link.text_of("f");
    assert!(
        cause == FailureCause::Exited && detail == "the service `db` exited with 3 before it was ready",
        "{detail}"
    );
    assert!(log.contains("[berth] db: no space left\n") && !log.contains("\nran\n"), "{log}");
    let image = service_image(it, "deaf", "echo here I am; sleep 1000");
    let outcome = it.fixture.run(with_service("b", "echo ran", &image, 1));
    assert_eq!(expect_failure(&outcome).1, "the service `db` did not listen on port 5432 within 1s");
    assert!(it.fixture.link.text_of("b").contains("[berth] db: here I am\n"));
    it.check_nothing_left();
    let step = AttemptAssignment { network: Network::None, ..with_service("c", "true", &image, 1) };
    assert!(expect_failure(&it.fixture.run(step)).1.contains("network: bridge"));
}
