//! Builds step registries for the server in the steps' sandbox.

use std::collections::BTreeMap;
use std::path::Path;

use berth_runner::Confinement;
use berth_runner::registry::{self, RegistryBuildRequest};
use berth_server::jobs::registry_builds::{BuildAsked, BuildFailed, Builder, Built};

pub(crate) struct InSandbox {
    /// `Err`: why this machine cannot build.
    pub(crate) confinement: Result<Confinement, String>,
}

impl Builder for InSandbox {
    fn build(&self, asked: &BuildAsked<'_>, log: &mut dyn FnMut(&[u8])) -> Result<Built, BuildFailed> {
        let confinement = self.confinement.as_ref().map_err(|why| BuildFailed::Machine(why.clone()))?;
        // Source and scratch directories share a parent that belongs to this build only.
        if let Some(place) = asked.scratch.parent() {
            confinement.allow_traverse(place).map_err(|error| BuildFailed::Machine(error.to_string()))?;
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
            Ok(registry::BuiltRegistry { start, input, steps }) => Ok(Built { start, input, steps }),
            Err(registry::RegistryBuildError::Registry(why)) => Err(BuildFailed::Failed(why)),
            Err(registry::RegistryBuildError::Machine(why)) => Err(BuildFailed::Machine(why)),
            Err(registry::RegistryBuildError::Stopped) => Err(BuildFailed::Stopped),
        }
    }

    fn clear(&self, dir: &Path) {
        berth_runner::remove_tree(dir);
    }
}
