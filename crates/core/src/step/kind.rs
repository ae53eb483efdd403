//! Names of the built-in step types, and the policy for unknown outcomes.

use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Builtin {
    Script,
    HttpCheck,
    Approval,
    Soak,
    WaitFor,
    Dummy,
}

impl Builtin {
    pub const ALL: [Builtin; 6] = [
        Builtin::Script,
        Builtin::HttpCheck,
        Builtin::Approval,
        Builtin::Soak,
        Builtin::WaitFor,
        Builtin::Dummy,
    ];

    /// The value of `type:` in a definition.
    pub const fn as_str(self) -> &'static str {
        match self {
            Builtin::Script => "script",
            Builtin::HttpCheck => "http_check",
            Builtin::Approval => "approval",
            Builtin::Soak => "soak",
            Builtin::WaitFor => "wait_for",
            Builtin::Dummy => "dummy",
        }
    }

    pub fn by_name(name: &str) -> Option<Self> {
        Builtin::ALL.into_iter().find(|kind| kind.as_str() == name)
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
