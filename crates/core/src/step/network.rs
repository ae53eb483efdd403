//! What a step reaches of the network.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::Builtin;
use crate::pipeline::model::StepType;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Network {
    /// The same as its machine.
    #[default]
    Host,
    /// A loopback interface of its own, and nothing else.
    None,
}

impl Network {
    pub const ALL: [Self; 2] = [Network::Host, Network::None];

    pub const fn as_str(self) -> &'static str {
        match self {
            Network::Host => "host",
            Network::None => "none",
        }
    }

    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|network| network.as_str() == word)
    }

    pub fn is_host(&self) -> bool {
        *self == Network::Host
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Whether such a step is a request over the network: without one it can only fail.
pub fn is_request(kind: &StepType, params: &Map<String, Value>) -> bool {
    match kind {
        StepType::Builtin(Builtin::HttpCheck) => true,
        StepType::Builtin(Builtin::WaitFor) => params.contains_key("url"),
        StepType::Builtin(Builtin::Script | Builtin::Approval | Builtin::Soak | Builtin::Dummy)
        | StepType::Custom(_) => false,
    }
}
