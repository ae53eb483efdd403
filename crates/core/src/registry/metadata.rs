//! The description of one step type in a registry.

use serde::{Deserialize, Serialize};
use serde_json::Value;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StepMetadata {
    /// The name after the slash in a definition: `deploy` in `tools/deploy`.
    pub key: String,
    /// The registry's own name for the type, sent with every call.
    pub step_type: String,
    pub name: Option<String>,
    pub short_description: Option<String>,
    pub long_description: Option<String>,
    pub yaml_example: Option<String>,
    /// JSON Schema of the params, as returned by the registry.
    pub schema: Value,
}
