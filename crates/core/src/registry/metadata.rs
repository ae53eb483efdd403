//! The metadata of one step of a registry.

use serde::{Deserialize, Serialize};
use serde_json::Value;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StepMetadata {
    /// The part after the slash in a definition.
    pub key: String,
    /// The registry's own type name, sent with every call.
    pub step_type: String,
    pub name: Option<String>,
    pub short_description: Option<String>,
    pub long_description: Option<String>,
    pub yaml_example: Option<String>,
    /// As returned by the registry.
    pub schema: Value,
}
