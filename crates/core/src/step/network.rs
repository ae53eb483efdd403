//! Network access of a step.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::BuiltinStepType;
use crate::pipeline::model::StepType;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NetworkAccess {
    /// Uses the network of the runner's machine.
    #[default]
    Host,
    /// Has only a private loopback interface.
    None,
    /// A container's own network, from which it reaches other networks. Only for steps in containers.
    Bridge,
}

impl NetworkAccess {
    /// The choices for steps that do not run in a container.
    pub const ALL: [Self; 2] = [NetworkAccess::Host, NetworkAccess::None];
    /// The choices for steps in containers.
    pub const OF_CONTAINERS: [Self; 3] = [NetworkAccess::Bridge, NetworkAccess::None, NetworkAccess::Host];

    pub const fn as_str(self) -> &'static str {
        match self {
            NetworkAccess::Host => "host",
            NetworkAccess::None => "none",
            NetworkAccess::Bridge => "bridge",
        }
    }

    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|network| network.as_str() == word)
    }

    pub fn is_host(&self) -> bool {
        *self == NetworkAccess::Host
    }
}

impl fmt::Display for NetworkAccess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Whether the step exists to send network requests and therefore cannot run without network access.
pub fn is_request(kind: &StepType, params: &Map<String, Value>) -> bool {
    match kind {
        // A build pulls base images, and `ADD` downloads files, outside of any sandbox.
        StepType::Builtin(
            BuiltinStepType::HttpCheck | BuiltinStepType::KubernetesApply | BuiltinStepType::ImageBuild,
        ) => true,
        StepType::Builtin(BuiltinStepType::WaitFor) => params.contains_key("url"),
        StepType::Builtin(
            BuiltinStepType::Script
            | BuiltinStepType::Approval
            | BuiltinStepType::Soak
            | BuiltinStepType::Dummy,
        )
        | StepType::Custom(_) => false,
    }
}
