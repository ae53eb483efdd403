//! Whether a model is asked, which one, and how much of it.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::pipeline::grammar::SecretName;
use crate::time::Timestamp;
use crate::webhook::UnknownWord;

/// Of one organization. Without any the rules answer, and nothing leaves the server.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Settings {
    /// `None`: the rules alone.
    pub model: Option<Model>,
    pub limits: Limits,
    /// Fixes may change pipeline definitions, below `.berth/`.
    pub permits_definition: bool,
    /// Zero: nobody has ever changed them.
    pub version: i64,
    pub updated_at: Option<Timestamp>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Model {
    pub provider: Provider,
    /// Where it is reached; `None`: at the provider's own address.
    pub base_url: Option<String>,
    /// As the provider names it.
    pub name: String,
    /// A secret of the organization; a server of one's own may need none.
    pub api_key: Option<SecretName>,
}

impl Model {
    /// As results name it: `anthropic/some-model`.
    pub fn analyser(&self) -> String {
        format!("{}/{}", self.provider, self.name)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Provider {
    /// The Messages API of Anthropic.
    Anthropic,
    /// Chat completions as OpenAI has them, and many others after it.
    Openai,
}

impl Provider {
    pub const ALL: [Provider; 2] = [Provider::Anthropic, Provider::Openai];

    pub const fn as_str(self) -> &'static str {
        match self {
            Provider::Anthropic => "anthropic",
            Provider::Openai => "openai",
        }
    }
}

impl fmt::Display for Provider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Provider {
    type Err = UnknownWord;
    fn from_str(text: &str) -> Result<Self, UnknownWord> {
        Provider::ALL.into_iter().find(|it| it.as_str() == text).ok_or(UnknownWord)
    }
}

/// What a model may cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// Of one answer.
    pub output_tokens_max: i64,
    /// Of a calendar month, in and out, all analyses together. Beyond it the rules answer.
    pub monthly_tokens_max: i64,
    /// Of one call.
    pub timeout_s: i64,
}

impl Limits {
    pub const OUTPUT_TOKENS: (i64, i64) = (256, 32_000);
    pub const MONTHLY_TOKENS: (i64, i64) = (0, 1_000_000_000);
    pub const TIMEOUT_S: (i64, i64) = (1, 300);
}

impl Default for Limits {
    fn default() -> Self {
        Self { output_tokens_max: 2_000, monthly_tokens_max: 1_000_000, timeout_s: 60 }
    }
}
