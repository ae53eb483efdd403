//! Analyses, and exactly what was sent to models for them.

use berth_core::analysis::{Analysis, Answer, State, SuggestedFix, Usage};
use berth_core::id::{AnalysisId, StepRunId};
use berth_core::time::Timestamp;

use crate::error::StoreError;
use crate::sql::statements;
use crate::tx::{Read, Tx};
use crate::value::{Row, text, to_json};

statements! {
    Org Read BY_ID = "SELECT id, deployment_id, pipeline_id, stage, step_id, step, attempt, repository_id, commit_id,
          asked_by, status, fingerprint, analyser, result, fix_summary, fix_diff, note, reused_from, input_tokens,
          output_tokens, error, created_at, started_at, finished_at, version
        FROM analyses WHERE org_id = $1 AND id = $2 {for_update}";
    Org Read OF_ATTEMPT = "SELECT id, deployment_id, pipeline_id, stage, step_id, step, attempt, repository_id, commit_id,
          asked_by, status, fingerprint, analyser, result, fix_summary, fix_diff, note, reused_from, input_tokens,
          output_tokens, error, created_at, started_at, finished_at, version
        FROM analyses WHERE org_id = $1 AND step_id = $2 AND attempt = $3 AND status <> 'failed' {for_update}";
    Org Write PUT = "INSERT INTO analyses (org_id, id, deployment_id, pipeline_id, stage, step_id, step, attempt,
          repository_id, commit_id, asked_by, status, fingerprint, analyser, result, fix_summary, fix_diff, note,
          reused_from, input_tokens, output_tokens, error, created_at, started_at, finished_at, version)
        VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22,
          $23, $24, $25, $26)
        ON CONFLICT (org_id, id) DO UPDATE SET status = excluded.status, fingerprint = excluded.fingerprint,
          analyser = excluded.analyser, result = excluded.result, fix_summary = excluded.fix_summary,
          fix_diff = excluded.fix_diff, note = excluded.note, reused_from = excluded.reused_from,
          input_tokens = excluded.input_tokens, output_tokens = excluded.output_tokens, error = excluded.error,
          started_at = excluded.started_at, finished_at = excluded.finished_at, version = excluded.version
        WHERE analyses.version = excluded.version - 1";
    // The process that had begun it is gone.
    Org Upkeep REQUEUE = "UPDATE analyses SET status = 'queued', started_at = NULL
        WHERE org_id = $1 AND id = $2 AND status = 'running'";
    // What was sent has its event.
    Org Write SENT = "INSERT INTO analysis_requests (org_id, analysis_id, number, analyser, url, body, hash, status, error,
          input_tokens, output_tokens, sent_at)
        VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)";
    Org Read COUNT_SENT = "SELECT CAST(COUNT(*) AS BIGINT) FROM analysis_requests WHERE org_id = $1 AND analysis_id = $2";
    Org Read LIST_SENT = "SELECT number, analyser, url, body, hash, status, error, input_tokens, output_tokens, sent_at
        FROM analysis_requests WHERE org_id = $1 AND analysis_id = $2 ORDER BY number LIMIT $3";
    Org Read SPENT = "SELECT CAST(COALESCE(SUM(input_tokens + output_tokens), 0) AS BIGINT) FROM analysis_requests
        WHERE org_id = $1 AND sent_at >= $2";
}

/// Calls of one analysis that are listed; there are never so many.
const REQUESTS_LISTED_MAX: i64 = 50;

/// One call of a model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sent {
    /// From 1, in each analysis.
    pub number: i64,
    pub analyser: String,
    pub url: String,
    /// Byte for byte.
    pub body: String,
    /// SHA-256 of the body.
    pub hash: String,
    /// Of the answer; none if none came.
    pub status: Option<i64>,
    pub error: Option<String>,
    pub usage: Usage,
    pub sent_at: Timestamp,
}

pub(crate) fn read(row: &Row) -> Result<Analysis, StoreError> {
    let words = |column| Ok::<_, StoreError>(row.maybe(column, Row::text)?.map(str::to_owned));
    let missing = |what: &str| StoreError::Bug(format!("an analysis without {what}"));
    let state = match row.text(10)? {
        "queued" => State::Queued,
        "running" => State::Running,
        "succeeded" => {
            let fix = match (words(14)?, words(15)?) {
                (Some(summary), Some(diff)) => Some(SuggestedFix { summary, diff }),
                _ => None,
            };
            let usage = match (row.maybe(18, Row::int)?, row.maybe(19, Row::int)?) {
                (Some(input_tokens), Some(output_tokens)) => Some(Usage { input_tokens, output_tokens }),
                _ => None,
            };
            let answer = Answer {
                fingerprint: words(11)?.ok_or_else(|| missing("a fingerprint"))?,
                analyser: words(12)?.ok_or_else(|| missing("an analyser"))?,
                result: row.json(13)?,
                fix,
                note: words(16)?,
                reused_from: row.maybe(17, Row::parse)?,
                usage,
            };
            State::Succeeded { at: row.time(23)?, answer: Box::new(answer) }
        }
        "failed" => State::Failed { at: row.time(23)?, error: row.text(20)?.to_owned() },
        other => return Err(StoreError::Bug(format!("unknown status {other}"))),
    };
    let attempt = u32::try_from(row.int(6)?).map_err(|_| missing("a number of its attempt"))?;
    Ok(Analysis {
        id: row.parse(0)?,
        deployment: row.parse(1)?,
        pipeline: row.parse(2)?,
        stage: row.text(3)?.to_owned(),
        step: row.parse(4)?,
        step_name: row.name(5)?,
        attempt,
        repository: row.maybe(7, Row::parse)?,
        commit: words(8)?,
        asked_by: row.json(9)?,
        state,
        created_at: row.time(21)?,
        started_at: row.maybe(22, Row::time)?,
        version: row.int(24)?,
    })
}

pub fn by_id(db: &mut impl Read, id: AnalysisId) -> Result<Option<Analysis>, StoreError> {
    db.row(&BY_ID, &[text(id)])?.as_ref().map(read).transpose()
}

/// The one of this attempt that has not failed.
pub fn of_attempt(db: &mut impl Read, step: StepRunId, attempt: u32) -> Result<Option<Analysis>, StoreError> {
    db.row(&OF_ATTEMPT, &[text(step), i64::from(attempt).into()])?.as_ref().map(read).transpose()
}

pub(crate) fn put(tx: &mut Tx<'_>, it: &Analysis) -> Result<(), StoreError> {
    let answer = it.answer();
    let fix = answer.and_then(|answer| answer.fix.as_ref());
    let usage = answer.and_then(|answer| answer.usage);
    let error = match &it.state {
        State::Failed { error, .. } => Some(error.as_str()),
        State::Queued | State::Running | State::Succeeded { .. } => None,
    };
    let params = [
        text(it.id),
        text(it.deployment),
        text(it.pipeline),
        it.stage.as_str().into(),
        text(it.step),
        text(&it.step_name),
        i64::from(it.attempt).into(),
        it.repository.map(text).into(),
        it.commit.as_deref().into(),
        to_json(&it.asked_by)?.into(),
        it.state.as_str().into(),
        answer.map(|answer| answer.fingerprint.as_str()).into(),
        answer.map(|answer| answer.analyser.as_str()).into(),
        answer.map(|answer| to_json(&answer.result)).transpose()?.into(),
        fix.map(|fix| fix.summary.as_str()).into(),
        fix.map(|fix| fix.diff.as_str()).into(),
        answer.and_then(|answer| answer.note.as_deref()).into(),
        answer.and_then(|answer| answer.reused_from).map(text).into(),
        usage.map(|usage| usage.input_tokens).into(),
        usage.map(|usage| usage.output_tokens).into(),
        error.into(),
        it.created_at.into(),
        it.started_at.into(),
        it.finished_at().into(),
        it.version.into(),
    ];
    tx.execute_one(&PUT, &params)
}

/// Nobody works on it any more: it waits again.
pub fn requeue(tx: &mut Tx<'_>, id: AnalysisId) -> Result<(), StoreError> {
    tx.execute(&REQUEUE, &[text(id)]).map(drop)
}

/// Notes one call. Its number is given here.
pub fn sent(tx: &mut Tx<'_>, analysis: AnalysisId, call: &Sent) -> Result<(), StoreError> {
    let before = tx.row(&COUNT_SENT, &[text(analysis)])?.map_or(Ok(0), |row| row.int(0))?;
    let params = [
        text(analysis),
        (before + 1).into(),
        call.analyser.as_str().into(),
        call.url.as_str().into(),
        call.body.as_str().into(),
        call.hash.as_str().into(),
        call.status.into(),
        call.error.as_deref().into(),
        call.usage.input_tokens.into(),
        call.usage.output_tokens.into(),
        call.sent_at.into(),
    ];
    tx.execute_one(&SENT, &params)
}

/// Everything that was sent for an analysis, in order.
pub fn requests(db: &mut impl Read, analysis: AnalysisId) -> Result<Vec<Sent>, StoreError> {
    let read = |row: &Row| {
        Ok(Sent {
            number: row.int(0)?,
            analyser: row.text(1)?.to_owned(),
            url: row.text(2)?.to_owned(),
            body: row.text(3)?.to_owned(),
            hash: row.text(4)?.to_owned(),
            status: row.maybe(5, Row::int)?,
            error: row.maybe(6, Row::text)?.map(str::to_owned),
            usage: Usage { input_tokens: row.int(7)?, output_tokens: row.int(8)? },
            sent_at: row.time(9)?,
        })
    };
    db.rows(&LIST_SENT, &[text(analysis), REQUESTS_LISTED_MAX.into()])?.iter().map(read).collect()
}

/// Tokens of all calls since then.
pub fn spent_since(db: &mut impl Read, since: Timestamp) -> Result<i64, StoreError> {
    db.row(&SPENT, &[since.into()])?.map_or(Ok(0), |row| row.int(0))
}
