//! Analyses of failed steps, and the exact requests that they sent to language models.

use berth_core::analysis::{Analysis, AnalysisOutput, AnalysisState, SuggestedFix, TokenUsage};
use berth_core::deployment::run::StageRun;
use berth_core::id::{AnalysisId, DeploymentId, OrgId, PipelineId, StepRunId};
use berth_core::pipeline::grammar::StepId;
use berth_core::time::Timestamp;

use crate::error::StoreError;
use crate::pagination::{FairBatch, ListPage, PageStart, fetch_bounded_count, fetch_page};
use crate::sql::value::{SqlValue, text};
use crate::sql::{
    FromRow, RowReader, TableRow as _, ToParams, column_group, json_columns, statements, table,
};
use crate::tx::{StoreRead, Tx};

table!(Org Analysis in analyses {
    key: [id],
    update: [
        state: (status, fingerprint, analyser, result, fix_summary, fix_diff, note, reused_from, input_tokens,
          output_tokens, error, finished_at),
        started_at, version,
    ],
    insert: [
        deployment: deployment_id, pipeline: pipeline_id, stage, step: step_id, step_name: step, attempt,
        repository: repository_id, commit: commit_id, asked_by, created_at,
    ],
});
table!(Org ModelRequest in analysis_requests of analysis_id {
    key: [number],
    insert: [analyser, url, body, hash, status, error, usage: (input_tokens, output_tokens), sent_at],
});
column_group!(TokenUsage { input_tokens, output_tokens });
json_columns!(serde_json::Value, Vec<StageRun>);

statements! {
    Org Read BY_ID => Analysis::TABLE.select("WHERE org_id = $1 AND id = $2 {for_update}");
    Org Read OF_ATTEMPT => Analysis::TABLE.select(
        "WHERE org_id = $1 AND step_id = $2 AND attempt = $3 AND status <> 'failed' {for_update}");
    Org Write PUT => Analysis::TABLE.upsert("WHERE analyses.version = excluded.version - 1");
    // For an analysis whose process has ended before there was a result.
    Org Upkeep REQUEUE = "UPDATE analyses SET status = 'queued', started_at = NULL
        WHERE org_id = $1 AND id = $2 AND status = 'running'";
    Org Read OF_DEPLOYMENT => Analysis::TABLE.select(
        "WHERE org_id = $1 AND deployment_id = $2 AND ($3 = '' OR id < $3) ORDER BY id DESC LIMIT $4 OFFSET $5");
    Org Read COUNT = "SELECT CAST(COUNT(*) AS BIGINT) FROM (SELECT 1 FROM analyses
        WHERE org_id = $1 AND deployment_id = $2 LIMIT $3) AS counted";
    // Only original analyses, not copies that reuse an earlier result.
    Org Read SAME => Analysis::TABLE.select(
        "WHERE org_id = $1 AND fingerprint = $2 AND pipeline_id = $3 AND analyser = $4 AND reused_from IS NULL
         ORDER BY id DESC LIMIT 1");
    Instance Read QUEUED = "SELECT org_id, id FROM (SELECT org_id, id, created_at,
            ROW_NUMBER() OVER (PARTITION BY org_id ORDER BY created_at, id) AS place
          FROM analyses WHERE finished_at IS NULL AND status = 'queued') AS ranked
        WHERE place <= $1 ORDER BY place, created_at, id LIMIT $2";
    Instance Read RUNNING = "SELECT org_id, id FROM analyses WHERE finished_at IS NULL AND status = 'running'
        ORDER BY created_at LIMIT $1";
    Org Read UNFINISHED = "SELECT CAST(COUNT(*) AS BIGINT) FROM (SELECT 1 FROM analyses
        WHERE org_id = $1 AND finished_at IS NULL LIMIT $2) AS counted";
    Org Read SUCCESSES = "SELECT s.deployment_id, s.id, s.tries, s.stage, r.stages FROM (SELECT id FROM deployments
          WHERE org_id = $1 AND pipeline_id = $2 AND id < $3 ORDER BY id DESC LIMIT $5) AS d
        JOIN step_runs s ON s.org_id = $1 AND s.deployment_id = d.id
        JOIN runs r ON r.org_id = $1 AND r.deployment_id = d.id
        WHERE s.step = $4 AND s.status = 'succeeded' AND s.tries > 0 ORDER BY s.deployment_id DESC";
    Org Write INSERT_REQUEST => ModelRequest::TABLE.insert("");
    Org Read COUNT_REQUESTS = "SELECT CAST(COUNT(*) AS BIGINT) FROM analysis_requests
        WHERE org_id = $1 AND analysis_id = $2";
    Org Read LIST_REQUESTS => ModelRequest::TABLE.select("WHERE org_id = $1 AND analysis_id = $2 ORDER BY number LIMIT $3");
    Org Read SPENT = "SELECT CAST(COALESCE(SUM(input_tokens + output_tokens), 0) AS BIGINT) FROM analysis_requests
        WHERE org_id = $1 AND sent_at >= $2";
}

/// Maximum number of requests listed for one analysis. No analysis sends that many.
const REQUESTS_LISTED_MAX: i64 = 50;
/// How many earlier deployments are searched for the last success of a step.
const DEPLOYMENTS_BACK_MAX: i64 = 200;

/// A request that was sent to a language model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelRequest {
    /// Number of the request within its analysis, starting at 1.
    pub number: i64,
    pub analyser: String,
    pub url: String,
    /// The request body, byte for byte as it was sent.
    pub body: String,
    /// SHA-256 of the body.
    pub hash: String,
    /// HTTP status of the response, if there was one.
    pub status: Option<i64>,
    pub error: Option<String>,
    pub usage: TokenUsage,
    pub sent_at: Timestamp,
}

/// The last successful run of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LastSuccess {
    pub deployment: DeploymentId,
    pub step: StepRunId,
    pub attempt: u32,
}

impl FromRow for AnalysisState {
    fn from_row(row: &mut RowReader) -> Result<Self, StoreError> {
        let status: String = row.take()?;
        let state = match status.as_str() {
            "queued" => AnalysisState::Queued,
            "running" => AnalysisState::Running,
            "failed" => {
                row.skip(9);
                let (error, at) = row.take()?;
                return Ok(AnalysisState::Failed { at, error });
            }
            "succeeded" => {
                let (fingerprint, analyser, result) = row.take()?;
                let fix: (Option<String>, Option<String>) = row.take()?;
                let fix = fix.0.zip(fix.1).map(|(summary, diff)| SuggestedFix { summary, diff });
                let (note, reused_from) = row.take()?;
                let usage: (Option<i64>, Option<i64>) = row.take()?;
                let usage = usage.0.zip(usage.1);
                let usage =
                    usage.map(|(input_tokens, output_tokens)| TokenUsage { input_tokens, output_tokens });
                row.skip(1);
                let answer = AnalysisOutput { analyser, fingerprint, result, fix, note, reused_from, usage };
                return Ok(AnalysisState::Succeeded { at: row.take()?, answer: Box::new(answer) });
            }
            other => return Err(StoreError::Bug(format!("unknown status {other}"))),
        };
        row.skip(11);
        Ok(state)
    }
}

impl ToParams for AnalysisState {
    fn to_params(&self, params: &mut Vec<SqlValue>) -> Result<(), StoreError> {
        let (answer, error, at) = match self {
            AnalysisState::Queued | AnalysisState::Running => (None, None, None),
            AnalysisState::Succeeded { at, answer } => (Some(answer), None, Some(at)),
            AnalysisState::Failed { at, error } => (None, Some(error), Some(at)),
        };
        let fix = answer.and_then(|answer| answer.fix.as_ref());
        let usage = answer.and_then(|answer| answer.usage);
        let found = (
            answer.map(|answer| &answer.fingerprint),
            answer.map(|answer| &answer.analyser),
            answer.map(|answer| &answer.result),
        );
        (self.as_str(), found, fix.map(|fix| &fix.summary), fix.map(|fix| &fix.diff)).to_params(params)?;
        let note = answer.and_then(|answer| answer.note.as_ref());
        let reused_from = answer.and_then(|answer| answer.reused_from);
        let usage = (usage.map(|usage| usage.input_tokens), usage.map(|usage| usage.output_tokens));
        (note, reused_from, usage, error, at).to_params(params)
    }
}

pub fn by_id(db: &mut impl StoreRead, id: AnalysisId) -> Result<Option<Analysis>, StoreError> {
    db.fetch_optional(&BY_ID, &[text(id)])
}

/// Finds the analysis of an attempt. Ignores analyses that failed themselves.
pub fn find_of_attempt(
    db: &mut impl StoreRead,
    step: StepRunId,
    attempt: u32,
) -> Result<Option<Analysis>, StoreError> {
    db.fetch_optional(&OF_ATTEMPT, &[text(step), i64::from(attempt).into()])
}

pub(crate) fn put(tx: &mut Tx<'_>, analysis: &Analysis) -> Result<(), StoreError> {
    tx.put(&PUT, analysis)
}

/// Returns a running analysis to the queue, because the process that ran it has ended.
pub fn requeue(tx: &mut Tx<'_>, id: AnalysisId) -> Result<(), StoreError> {
    tx.execute(&REQUEUE, &[text(id)]).map(drop)
}

/// Lists the analyses of a deployment, newest first.
pub fn list_of_deployment(
    db: &mut impl StoreRead,
    deployment: DeploymentId,
    from: &PageStart,
    limit: i64,
) -> Result<ListPage<Analysis>, StoreError> {
    let filter = [text(deployment)];
    let total = fetch_bounded_count(db, &COUNT, &filter)?;
    Ok(fetch_page(db, &OF_DEPLOYMENT, &filter, from.by_id(), limit)?.with_total(total))
}

/// Finds the latest analysis of the same failure in this pipeline by the same analyzer.
pub fn find_same_failure(
    db: &mut impl StoreRead,
    fingerprint: &str,
    pipeline: PipelineId,
    analyser: &str,
) -> Result<Option<Analysis>, StoreError> {
    db.fetch_optional(&SAME, &[fingerprint.into(), text(pipeline), analyser.into()])
}

/// Queued analyses, oldest first. Each organization gets a share of the batch.
pub fn list_queued(
    db: &mut impl StoreRead,
    batch: FairBatch,
) -> Result<Vec<(OrgId, AnalysisId)>, StoreError> {
    db.fetch_all(&QUEUED, &[batch.share.into(), batch.total.into()])
}

/// Running analyses of all organizations.
pub fn list_running(db: &mut impl StoreRead, limit: i64) -> Result<Vec<(OrgId, AnalysisId)>, StoreError> {
    db.fetch_all(&RUNNING, &[limit.into()])
}

/// Counts the organization's unfinished analyses, up to `bound`.
pub fn count_unfinished(db: &mut impl StoreRead, bound: i64) -> Result<i64, StoreError> {
    db.fetch_count(&UNFINISHED, &[bound.into()])
}

/// Finds the last successful run of a step in this stage of its pipeline, before the given deployment.
pub fn find_last_success(
    db: &mut impl StoreRead,
    pipeline: PipelineId,
    stage: &str,
    step: &StepId,
    before: DeploymentId,
) -> Result<Option<LastSuccess>, StoreError> {
    let params = [text(pipeline), text(before), text(step), DEPLOYMENTS_BACK_MAX.into()];
    type SuccessColumns = (DeploymentId, StepRunId, u32, u32, Vec<StageRun>);
    for (deployment, step, attempt, index, stages) in db.fetch_all::<SuccessColumns>(&SUCCESSES, &params)? {
        if stages.get(index as usize).is_some_and(|it| it.name == stage) {
            return Ok(Some(LastSuccess { deployment, step, attempt }));
        }
    }
    Ok(None)
}

/// Records a request to a language model and assigns its number.
pub fn record_request(
    tx: &mut Tx<'_>,
    analysis: AnalysisId,
    request: &ModelRequest,
) -> Result<(), StoreError> {
    let before = tx.fetch_count(&COUNT_REQUESTS, &[text(analysis)])?;
    tx.put(&INSERT_REQUEST, &(analysis, ModelRequest { number: before + 1, ..request.clone() }))
}

/// Every request that was sent for an analysis, in order.
pub fn list_requests(db: &mut impl StoreRead, analysis: AnalysisId) -> Result<Vec<ModelRequest>, StoreError> {
    db.fetch_all(&LIST_REQUESTS, &[text(analysis), REQUESTS_LISTED_MAX.into()])
}

/// Number of tokens that the organization's requests have used since this time.
pub fn count_tokens_since(db: &mut impl StoreRead, since: Timestamp) -> Result<i64, StoreError> {
    db.fetch_count(&SPENT, &[since.into()])
}
