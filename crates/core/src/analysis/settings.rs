//! Settings of the analysis: which model is used, and its limits.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::pipeline::grammar::SecretName;
use crate::time::Timestamp;
use crate::webhook::UnknownWord;

/// Per organization. Without settings only the rules run, and no data leaves the server.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AnalyzerSettings {
    /// `None` means rules only.
    pub model: Option<AnalysisModel>,
    pub limits: ModelLimits,
    /// Whether fixes may change pipeline definitions below `.berth/`.
    pub permits_definition: bool,
    /// Zero if the settings were never changed.
    pub version: i64,
    pub updated_at: Option<Timestamp>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AnalysisModel {
    pub provider: ModelProvider,
    /// `None` means the provider's default URL.
    pub base_url: Option<String>,
    /// The provider's name for the model.
    pub name: String,
    /// A secret of the organization; a self-hosted model may need none.
    pub api_key: Option<SecretName>,
}

impl AnalysisModel {
    /// The name in results: `anthropic/some-model`.
    pub fn analyser(&self) -> String {
        format!("{}/{}", self.provider, self.name)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ModelProvider {
    /// The Messages API of Anthropic.
    Anthropic,
    /// Chat completions of OpenAI and compatible servers.
    Openai,
}

impl ModelProvider {
    pub const ALL: [ModelProvider; 2] = [ModelProvider::Anthropic, ModelProvider::Openai];

    pub const fn as_str(self) -> &'static str {
        match self {
            ModelProvider::Anthropic => "anthropic",
            ModelProvider::Openai => "openai",
        }
    }
}

impl fmt::Display for ModelProvider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for ModelProvider {
    type Err = UnknownWord;
    fn from_str(text: &str) -> Result<Self, UnknownWord> {
        ModelProvider::ALL.into_iter().find(|it| it.as_str() == text).ok_or(UnknownWord)
    }
}

/// Cost limits of a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelLimits {
    /// Per response.
    pub output_tokens_max: i64,
    /// Input and output tokens per calendar month. Beyond it only the rules run.
    pub monthly_tokens_max: i64,
    /// Per request.
    pub timeout_s: i64,
}

impl ModelLimits {
    pub const OUTPUT_TOKENS: (i64, i64) = (256, 32_000);
    pub const MONTHLY_TOKENS: (i64, i64) = (0, 1_000_000_000);
    pub const TIMEOUT_S: (i64, i64) = (1, 300);
}

impl Default for ModelLimits {
    fn default() -> Self {
        Self { output_tokens_max: 2_000, monthly_tokens_max: 1_000_000, timeout_s: 60 }
    }
}
