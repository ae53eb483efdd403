//! Failure analyses: why a step failed and how to fix it.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::ReplayableBody;
use crate::event::WireActor;
use crate::fix::FixPullRequest;

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Analysis)]
pub struct WireAnalysis {
    #[schema(example = "anl_01k9x8s6q0e3v8n5j2m4t7w9yb")]
    pub id: String,
    pub status: AnalysisStatus,
    pub deployment_id: String,
    pub pipeline_id: String,
    pub stage: String,
    pub step_id: String,
    /// The step's id in the definition.
    pub step: String,
    /// Number of the failed attempt; 0 if no attempt started.
    pub attempt: u32,
    /// Commit whose files were read; null for a pipeline without a repository.
    pub commit_id: Option<String>,
    /// Who requested the analysis; the system if the pipeline definition did.
    pub actor: WireActor,
    /// What produced the result: `rules`, or the provider and model.
    #[schema(example = "rules")]
    pub analyser: Option<String>,
    /// Identical for identical failures.
    pub fingerprint: Option<String>,
    /// Earlier analysis of the same failure whose result was reused.
    pub reused_from: Option<String>,
    /// Plain-text explanation. Null until the analysis has finished, and if there is not enough evidence.
    pub root_cause: Option<String>,
    #[schema(example = "dependency")]
    pub category: Option<String>,
    pub confidence: Option<AnalysisConfidence>,
    /// Log lines that show the root cause, most relevant first. Without a root cause: lines worth reading.
    pub evidence: Vec<AnalysisEvidence>,
    /// What to do about it.
    pub advice: Option<String>,
    /// The rule that matched.
    pub rule: Option<String>,
    /// Lines unlike any that the step's last successful run printed.
    pub new_lines: Vec<AnalysisLines>,
    /// Suggested change. It applies cleanly to `commitId`.
    pub suggested_fix: Option<AnalysisFix>,
    /// Pull request that proposes a fix for this failure. Always null in lists.
    pub pull_request: Option<Box<FixPullRequest>>,
    /// Why a different analyser than the configured one was used.
    pub note: Option<String>,
    /// Tokens as counted by the provider; null if no model was used.
    pub usage: Option<AnalysisUsage>,
    /// Requests sent to a model. Always empty in lists.
    pub requests: Vec<AnalysisRequest>,
    /// Why the analysis itself failed.
    pub error: Option<String>,
    #[schema(format = DateTime)]
    pub created_at: String,
    #[schema(format = DateTime)]
    pub started_at: Option<String>,
    #[schema(format = DateTime)]
    pub finished_at: Option<String>,
}

impl ReplayableBody for WireAnalysis {}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum AnalysisStatus {
    Queued,
    Running,
    Succeeded,
    Failed,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum AnalysisConfidence {
    Low,
    Medium,
    High,
}

/// A range of log lines, 1-based and inclusive.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct AnalysisLines {
    pub first_line: usize,
    pub last_line: usize,
}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct AnalysisEvidence {
    pub first_line: usize,
    pub last_line: usize,
    /// Text of the lines without colours and control characters. Long lines are truncated.
    pub text: String,
    /// False if a model cited these lines but the log does not contain them.
    pub supported: bool,
}

#[derive(Debug, Clone, Copy, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct AnalysisUsage {
    pub input_tokens: i64,
    pub output_tokens: i64,
}

/// One request to a model.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct AnalysisRequest {
    pub number: i64,
    pub analyser: String,
    pub url: String,
    /// Request body, byte for byte. Null for callers without `analysis:source`, because it contains source files.
    pub body: Option<String>,
    /// SHA-256 of the body; the audit log has the same value.
    pub hash: String,
    /// HTTP status of the response; null if there was none.
    pub status: Option<i64>,
    pub error: Option<String>,
    pub usage: AnalysisUsage,
    #[schema(format = DateTime)]
    pub sent_at: String,
}

/// What would be sent to a model. The delimiter around the data is random and differs each time.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct AnalysisPreview {
    /// With `rules`, nothing would be sent.
    pub analyser: String,
    pub url: Option<String>,
    pub body: Option<String>,
}

/// An analysis, or a preview of what it would send.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(untagged)]
pub enum AnalysisOrPreview {
    Analysis(Box<WireAnalysis>),
    Preview(AnalysisPreview),
}

impl ReplayableBody for AnalysisOrPreview {}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct AnalysisFix {
    /// One line, suitable as a commit title.
    pub summary: String,
    /// Unified diff in git format, including file modes. Null for callers without `analysis:source`.
    pub diff: Option<String>,
}

#[derive(Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct AnalysisNew {
    /// The step to analyze: either its id in this deployment (`stp_…`) or its id in the pipeline definition. Defaults
    /// to the step that failed first.
    #[schema(example = "deploy")]
    pub step_id: Option<String>,
    /// If true, no analysis is started and nothing is sent; the response shows what would be sent to a model.
    pub preview: Option<bool>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum AnalysisProvider {
    /// Built-in rules only; no data leaves the server.
    None,
    /// Anthropic's Messages API.
    Anthropic,
    /// OpenAI-compatible chat completions API.
    Openai,
}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct AnalysisSettings {
    pub provider: AnalysisProvider,
    /// Null for the provider's default URL.
    pub base_url: Option<String>,
    pub model: Option<String>,
    /// Name of the organization secret that holds the API key.
    pub api_key_secret: Option<String>,
    /// Maximum output tokens per request.
    pub output_tokens_max: i64,
    /// Maximum input and output tokens in 30 days. Beyond it, only the built-in rules are used.
    pub monthly_tokens_max: i64,
    /// Timeout per request.
    pub timeout_seconds: i64,
    /// Whether suggested fixes may change pipeline definitions below `.berth/`.
    pub permit_definition: bool,
    /// Null if the settings were never changed.
    #[schema(format = DateTime)]
    pub updated_at: Option<String>,
}

impl ReplayableBody for AnalysisSettings {}

#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct AnalysisSettingsPut {
    pub provider: AnalysisProvider,
    #[schema(example = "http://llm.acme.test:11434/v1", max_length = 2048)]
    pub base_url: Option<String>,
    /// Required unless `provider` is `none`.
    #[schema(max_length = 200)]
    pub model: Option<String>,
    /// Name of an organization secret.
    pub api_key_secret: Option<String>,
    #[schema(minimum = 256, maximum = 32000)]
    pub output_tokens_max: Option<i64>,
    #[schema(minimum = 0, maximum = 1000000000)]
    pub monthly_tokens_max: Option<i64>,
    #[schema(minimum = 1, maximum = 300)]
    pub timeout_seconds: Option<i64>,
    pub permit_definition: Option<bool>,
}
