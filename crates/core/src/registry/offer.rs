//! The step version that a custom step type in a definition resolves to.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::RegistryName;
use crate::id::RegistryId;

/// One version of one custom step. It is fixed when a deployment begins, so later changes in the registry do not affect
/// it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PinnedStep {
    pub registry: RegistryId,
    pub name: RegistryName,
    /// The full hash of the registry's commit that was built.
    pub commit: String,
    /// Digest of the built files.
    pub digest: String,
    /// The registry's own name for the type.
    pub step_type: String,
    /// The shell command that starts a call, run in the directory of the build.
    pub start: String,
    pub input: InputMode,
}

/// How the input of a call is passed to the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum InputMode {
    /// As an argument: `--input <json>`.
    #[default]
    Argument,
    /// In a file of any length: `--input-file <path>`.
    File,
}

/// A custom step that can be used, with the schema of its params.
#[derive(Debug, Clone, PartialEq)]
pub struct AvailableStep {
    pub pinned: PinnedStep,
    pub schema: Value,
}

/// Custom steps, keyed by their type as written in a definition. `Err` is a message for users: no such step exists, or
/// several do.
pub type AvailableSteps = BTreeMap<String, Result<AvailableStep, String>>;
