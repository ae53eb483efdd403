//! Containers in the runner protocol.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The container of a step and its services.
#[derive(Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ContainerAssignment {
    pub image: String,
    pub pull: ImagePull,
    /// Name, or numbers as in `1000:1000`; absent for the image's user.
    pub user: Option<String>,
    pub memory_bytes: Option<u64>,
    /// Thousandths of a CPU.
    pub milli_cpus: Option<u32>,
    /// Services by host name.
    pub services: BTreeMap<String, ServiceAssignment>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ImagePull {
    IfMissing,
    Always,
    Never,
}

/// A container that runs next to the step.
#[derive(Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ServiceAssignment {
    pub image: String,
    /// Environment variables with all expressions resolved.
    pub env: BTreeMap<String, String>,
    /// Port that must accept connections before the step starts.
    pub ready_port: Option<u16>,
    pub ready_within_s: u64,
}
