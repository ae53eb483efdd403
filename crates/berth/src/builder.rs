//! Builds step registries for the server in the steps' sandbox.

use std::collections::BTreeMap;
use std::path::Path;

use berth_runner::Confinement;
use berth_runner::registry::{self, RegistryBuildRequest};
use berth_server::jobs::registry_builds::{BuildError, BuildOutput, BuildRequest, RegistryBuilder};

pub(crate) struct SandboxedBuilder {
    /// `Err`: why this machine cannot run builds.
    pub(crate) confinement: Result<Confinement, String>,
}

impl RegistryBuilder for SandboxedBuilder {
    fn build(&self, asked: &BuildRequest<'_>, log: &mut dyn FnMut(&[u8])) -> Result<BuildOutput, BuildError> {
        let confinement = self.confinement.as_ref().map_err(|why| BuildError::Machine(why.clone()))?;
        // Let the build user enter the parent of the source and scratch directories. No other build uses this parent.
        if let Some(place) = asked.scratch.parent() {
            confinement.allow_traverse(place).map_err(|error| BuildError::Machine(error.to_string()))?;
        }
        let request = RegistryBuildRequest {
            source: asked.source.to_owned(),
            scratch: asked.scratch.to_owned(),
            timeout: asked.timeout,
            bytes_max: asked.bytes_max,
            is_stopping: asked.is_stopping,
            confinement,
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
