//! Names of the built-in step types, and what to do when an attempt's outcome is unknown.

use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BuiltinStepType {
    Script,
    HttpCheck,
    Approval,
    Soak,
    WaitFor,
    Dummy,
    ImageBuild,
    KubernetesApply,
}

impl BuiltinStepType {
    pub const ALL: [BuiltinStepType; 8] = [
        BuiltinStepType::Script,
        BuiltinStepType::HttpCheck,
        BuiltinStepType::Approval,
        BuiltinStepType::Soak,
        BuiltinStepType::WaitFor,
        BuiltinStepType::Dummy,
        BuiltinStepType::ImageBuild,
        BuiltinStepType::KubernetesApply,
    ];

    /// The value of `type:` in a definition.
    pub const fn as_str(self) -> &'static str {
        match self {
            BuiltinStepType::Script => "script",
            BuiltinStepType::HttpCheck => "http_check",
            BuiltinStepType::Approval => "approval",
            BuiltinStepType::Soak => "soak",
            BuiltinStepType::WaitFor => "wait_for",
            BuiltinStepType::Dummy => "dummy",
            BuiltinStepType::ImageBuild => "image_build",
            BuiltinStepType::KubernetesApply => "kubernetes_apply",
        }
    }

    pub fn from_name(name: &str) -> Option<Self> {
        BuiltinStepType::ALL.into_iter().find(|kind| kind.as_str() == name)
    }
}

/// What to do with a step whose attempt was lost or interrupted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnLost {
    Ask,
    Retry,
    Fail,
}
