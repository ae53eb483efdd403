//! What a custom step type in a definition resolves to.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::RegistryName;
use crate::id::RegistryId;

/// One version of one step, pinned when a deployment begins. Later changes of the registry do not affect it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PinnedStep {
    pub registry: RegistryId,
    pub name: RegistryName,
    /// The full hash of the commit it was built from.
    pub commit: String,
    /// Digest of the build.
    pub digest: String,
    /// The registry's own type name.
    pub step_type: String,
    /// A shell command, run in the directory of the build.
    pub start: String,
    pub input: InputMode,
}

/// How a call passes its input.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum InputMode {
    /// `--input <json>`.
    #[default]
    Argument,
    /// `--input-file <path>`, of any length.
    File,
}

/// An available step, with the schema of its params.
#[derive(Debug, Clone, PartialEq)]
pub struct AvailableStep {
    pub pinned: PinnedStep,
    pub schema: Value,
}

/// Keyed by the type as written in a definition. `Err` tells the user why there is no such step, or more than one.
pub type AvailableSteps = BTreeMap<String, Result<AvailableStep, String>>;
