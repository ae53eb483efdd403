//! Settings of failure analysis: the model and its limits.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::pipeline::grammar::SecretName;
use crate::time::Timestamp;
use crate::webhook::UnknownWord;

/// Analysis settings of one organization. Without them only the built-in rules run, and no data leaves the server.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AnalyzerSettings {
    /// `None`: only the built-in rules run.
    pub model: Option<AnalysisModel>,
    pub limits: ModelLimits,
    /// Whether a fix may change the pipeline definitions in `.berth/`.
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
    /// The model's name as the provider spells it.
    pub name: String,
    /// The organization's secret that contains the API key. A self-hosted model may need none.
    pub api_key: Option<SecretName>,
}

impl AnalysisModel {
    /// The analyser name shown in results, such as `anthropic/some-model`.
    pub fn analyser(&self) -> String {
        format!("{}/{}", self.provider, self.name)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ModelProvider {
    /// Anthropic's Messages API.
    Anthropic,
    /// The chat completions API of OpenAI and compatible servers.
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

/// Limits on the use of a model, which bound its cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelLimits {
    /// Per response.
    pub output_tokens_max: i64,
    /// Input plus output tokens per calendar month. Once they are used up, only the built-in rules run.
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
