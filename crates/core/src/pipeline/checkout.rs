//! Which files of the commit a step gets.

use serde::{Deserialize, Serialize};

/// Maximum number of paths in `checkout`.
pub const CHECKOUT_PATHS_MAX: usize = 50;

/// The part of the commit that is in the workspace when the step starts.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CheckoutScope {
    #[default]
    All,
    /// The workspace is empty.
    None,
    /// The files at or below these paths, relative to the root of the repository. Not empty.
    Paths(Vec<String>),
}

impl CheckoutScope {
    pub fn is_all(&self) -> bool {
        *self == CheckoutScope::All
    }

    pub fn is_none(&self) -> bool {
        *self == CheckoutScope::None
    }

    /// The paths to check out; empty for all files.
    pub fn paths(&self) -> &[String] {
        match self {
            CheckoutScope::All | CheckoutScope::None => &[],
            CheckoutScope::Paths(paths) => paths,
        }
    }
}
