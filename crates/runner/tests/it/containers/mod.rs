//! Tests of container steps, with a real Podman.

mod hostile;
mod image_build;
mod services;
mod steps;
mod stop;

use std::collections::BTreeMap;

use berth_api::runner::{AttemptAssignment, ContainerAssignment, ImagePull, Network};
use berth_runner::{ContainerEngineOptions, RunnerOptions};
use berth_testkit::podman::{IMAGE, PodmanService};
use serde_json::Value;

use crate::fixture::{StepRunnerFixture, script, step};

/// A runner with a container engine of its own. Fields are dropped in order: the runner must stop first.
struct ContainerFixture {
    fixture: StepRunnerFixture,
    podman: PodmanService,
}

impl ContainerFixture {
    /// Returns `None` if this machine cannot run containers.
    fn start() -> Option<Self> {
        Self::with_options(|_| {})
    }

    fn with_options(change: impl FnOnce(&mut RunnerOptions)) -> Option<Self> {
        let podman = PodmanService::start()?;
        let fixture = StepRunnerFixture::with_options(|options| {
            use_engine(options, &podman);
            change(options);
        });
        Some(Self { fixture, podman })
    }

    /// A build of this Containerfile. The workspace also has `rootfs.tar` with busybox, because nothing can be pulled.
    fn image_build(&self, id: &str, file: &str, params: Value) -> AttemptAssignment {
        let link = &self.fixture.link;
        link.store_artifact("Containerfile", file.as_bytes());
        let files = std::fs::read(self.podman.dir().join("rootfs.tar")).expect("a root file system");
        link.store_artifact("rootfs.tar", &files);
        let mut build = step(id, "image_build", params);
        build.needs_artifacts = vec!["Containerfile".to_owned(), "rootfs.tar".to_owned()];
        build.has_source = true;
        build
    }

    /// Fails if a container or a network is left.
    fn check_nothing_left(&self) {
        assert_eq!(self.podman.containers(), Vec::<String>::new());
        assert_eq!(self.podman.networks(), Vec::<String>::new());
    }
}

fn use_engine(options: &mut RunnerOptions, podman: &PodmanService) {
    options.containers = Some(ContainerEngineOptions {
        socket: podman.socket(),
        allows_host_network: false,
        buildah: podman.buildah(),
    });
}

/// A script in a container without network, which starts fastest.
fn in_container(id: &str, run: &str) -> AttemptAssignment {
    AttemptAssignment { container: Some(container(IMAGE)), network: Network::None, ..script(id, run) }
}

fn container(image: &str) -> ContainerAssignment {
    ContainerAssignment {
        image: image.to_owned(),
        pull: ImagePull::IfMissing,
        user: None,
        memory_bytes: None,
        milli_cpus: None,
        services: BTreeMap::new(),
    }
}
