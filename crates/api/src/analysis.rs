//! Analyses: why a step failed, and what would mend it.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::Replay;
use crate::event::Actor;
use crate::fix::FixPullRequest;

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Analysis {
    #[schema(example = "anl_01k9x8s6q0e3v8n5j2m4t7w9yb")]
    pub id: String,
    pub status: AnalysisStatus,
    pub deployment_id: String,
    pub pipeline_id: String,
    pub stage: String,
    pub step_id: String,
    /// The step's id in the definition.
    pub step: String,
    /// Zero: nothing of the step ever ran.
    pub attempt: u32,
    /// The commit whose files were looked at; null for a pipeline without a repository.
    pub commit_id: Option<String>,
    /// Who asked; the system, where the definition did.
    pub actor: Actor,
    /// Who answered: `rules`, or a provider and its model.
    #[schema(example = "rules")]
    pub analyser: Option<String>,
    /// Equal for failures that are the same.
    pub fingerprint: Option<String>,
    /// The same failure was looked into before: by this analysis.
    pub reused_from: Option<String>,
    /// In plain words. Null while nothing is known, and when there is not enough evidence.
    pub root_cause: Option<String>,
    #[schema(example = "dependency")]
    pub category: Option<String>,
    pub confidence: Option<AnalysisConfidence>,
    /// Lines of the log that show it, the most telling first; without a root cause those that are worth a look.
    pub evidence: Vec<AnalysisEvidence>,
    /// What to do.
    pub advice: Option<String>,
    /// The rule that says so.
    pub rule: Option<String>,
    /// Lines of a kind that the last good run of the step did not print.
    pub new_lines: Vec<AnalysisLines>,
    /// A change that would mend it; it applies to the commit.
    pub suggested_fix: Option<AnalysisFix>,
    /// The one that proposes a fix of this failure; in lists this is null.
    pub pull_request: Option<Box<FixPullRequest>>,
    /// Why another analyser answered than the one that was wanted.
    pub note: Option<String>,
    /// Tokens as the provider counts them; null where no model answered.
    pub usage: Option<AnalysisUsage>,
    /// Exactly what was sent to a model; in lists this is empty.
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

impl Replay for Analysis {}

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

/// Lines of a log, counted from 1, both included.
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
    /// What stands there, without colours and control characters, and not all of a long line.
    pub text: String,
    /// False: a model names these lines, but the log does not have them.
    pub supported: bool,
}

#[derive(Debug, Clone, Copy, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct AnalysisUsage {
    pub input_tokens: i64,
    pub output_tokens: i64,
}

/// One call of a model.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct AnalysisRequest {
    pub number: i64,
    pub analyser: String,
    pub url: String,
    /// Byte for byte, as it was sent. Null for callers without `analysis:source`: it holds source files.
    pub body: Option<String>,
    /// SHA-256 of the body, as the event has it.
    pub hash: String,
    /// Of the answer; null if none came.
    pub status: Option<i64>,
    pub error: Option<String>,
    pub usage: AnalysisUsage,
    #[schema(format = DateTime)]
    pub sent_at: String,
}

/// What would be sent to a model. The mark around data is another one each time.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct AnalysisPreview {
    /// `rules`: nothing would be sent.
    pub analyser: String,
    pub url: Option<String>,
    pub body: Option<String>,
}

/// An analysis, or what it would send.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(untagged)]
pub enum AnalysisAsked {
    Analysis(Box<Analysis>),
    Preview(AnalysisPreview),
}

impl Replay for AnalysisAsked {}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct AnalysisFix {
    /// One line, good as the title of a commit.
    pub summary: String,
    /// A unified diff as git writes it, file modes included. Null for callers without `analysis:source`.
    pub diff: Option<String>,
}

#[derive(Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct AnalysisNew {
    /// Id of the step, or its id in the definition. Absent: the step that failed first.
    #[schema(example = "deploy")]
    pub step_id: Option<String>,
    /// True: nothing is sent and nothing begun; the answer shows what would be sent to a model.
    pub preview: Option<bool>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum AnalysisProvider {
    /// The rules alone; nothing leaves the server.
    None,
    /// Anthropic's Messages API.
    Anthropic,
    /// Chat completions as OpenAI has them.
    Openai,
}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct AnalysisSettings {
    pub provider: AnalysisProvider,
    /// Null: the provider's own address.
    pub base_url: Option<String>,
    pub model: Option<String>,
    /// Name of the organization's secret that holds the key.
    pub api_key_secret: Option<String>,
    /// Of one answer.
    pub output_tokens_max: i64,
    /// Of 30 days, in and out; beyond it the rules answer.
    pub monthly_tokens_max: i64,
    /// Of one call.
    pub timeout_seconds: i64,
    /// Suggested fixes may change pipeline definitions, below `.berth/`.
    pub permit_definition: bool,
    /// Null: nobody has changed them yet.
    #[schema(format = DateTime)]
    pub updated_at: Option<String>,
}

impl Replay for AnalysisSettings {}

#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct AnalysisSettingsPut {
    pub provider: AnalysisProvider,
    #[schema(example = "http://llm.acme.test:11434/v1", max_length = 2048)]
    pub base_url: Option<String>,
    /// Needed with a provider.
    #[schema(max_length = 200)]
    pub model: Option<String>,
    /// Name of a secret of the organization.
    pub api_key_secret: Option<String>,
    #[schema(minimum = 256, maximum = 32000)]
    pub output_tokens_max: Option<i64>,
    #[schema(minimum = 0, maximum = 1000000000)]
    pub monthly_tokens_max: Option<i64>,
    #[schema(minimum = 1, maximum = 300)]
    pub timeout_seconds: Option<i64>,
    pub permit_definition: Option<bool>,
}
