//! One step of a registry, as its metadata describes it.

use serde::{Deserialize, Serialize};
use serde_json::Value;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StepMetadata {
    /// What stands after the slash in a definition.
    pub key: String,
    /// The registry's own type, as it has to be sent in every call.
    pub step_type: String,
    pub name: Option<String>,
    pub short_description: Option<String>,
    pub long_description: Option<String>,
    pub yaml_example: Option<String>,
    /// As the registry gave it.
    pub schema: Value,
}
