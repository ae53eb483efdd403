//! Builds registries with the real runner code, as the server does.

use std::collections::BTreeMap;
use std::path::Path;

use berth_runner::registry::{self, RegistryBuildRequest};
use berth_runner::{Confinement, SandboxMode};
use berth_server::jobs::registry_builds::{BuildError, BuildOutput, BuildRequest, RegistryBuilder};

pub(crate) struct RunnerRegistryBuilder {
    confinement: Confinement,
}

impl RunnerRegistryBuilder {
    /// A builder without a sandbox, for tests that do not test isolation.
    pub(crate) fn without_sandbox() -> Self {
        Self { confinement: Confinement::choose(SandboxMode::Off, &[], &[]).unwrap() }
    }
}

impl RegistryBuilder for RunnerRegistryBuilder {
    fn build(
        &self,
        request: &BuildRequest<'_>,
        log: &mut dyn FnMut(&[u8]),
    ) -> Result<BuildOutput, BuildError> {
        let request = RegistryBuildRequest {
            source: request.source.to_owned(),
            scratch: request.scratch.to_owned(),
            timeout: request.timeout,
            bytes_max: request.bytes_max,
            is_stopping: request.is_stopping,
            confinement: &self.confinement,
            writable: Vec::new(),
            env: BTreeMap::new(),
        };
        match registry::build(&request, log) {
            Ok(registry::BuiltRegistry { start, input, steps }) => Ok(BuildOutput { start, input, steps }),
            Err(registry::RegistryBuildError::Registry(why)) => Err(BuildError::Failed(why)),
            Err(registry::RegistryBuildError::Machine(why)) => Err(BuildError::Machine(why)),
            Err(registry::RegistryBuildError::Stopped) => Err(BuildError::Stopped),
        }
    }

    fn clear(&self, dir: &Path) {
        berth_runner::remove_tree(dir);
    }
}
