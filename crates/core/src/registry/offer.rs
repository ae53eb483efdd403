//! What definitions get when they name a custom step.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::RegistryName;
use crate::id::RegistryId;

/// One version of one step, pinned when a deployment begins. Whatever happens to the registry, this is what runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pinned {
    pub registry: RegistryId,
    pub name: RegistryName,
    /// The whole hash of the commit it was built from.
    pub commit: String,
    /// Of what was built.
    pub digest: String,
    /// The registry's own type.
    pub step_type: String,
    /// Shell text, run in the directory of what was built.
    pub start: String,
    pub input: InputMode,
}

/// How a call is handed over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum InputMode {
    /// `--input <json>`.
    #[default]
    Argument,
    /// `--input-file <path>`, of any length.
    File,
}

/// A step that can be used, with the schema of its params as the registry gave it.
#[derive(Debug, Clone, PartialEq)]
pub struct Offer {
    pub pinned: Pinned,
    pub schema: Value,
}

/// By the type as it is written in a definition. `Err` is for people: why there is no such step, or more than one.
pub type Offers = BTreeMap<String, Result<Offer, String>>;
