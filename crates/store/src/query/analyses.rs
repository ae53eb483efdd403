//! Lists of analyses: of a deployment, those that wait, those of the same failure; and pull requests that wait.

use berth_core::analysis::Analysis;
use berth_core::deployment::run::StageRun;
use berth_core::id::{AnalysisId, DeploymentId, OrgId, PipelineId, StepRunId};
use berth_core::pipeline::grammar::StepId;

use super::{Batch, COUNTED_MAX, From, Slice, counted};
use crate::error::StoreError;
use crate::records::analysis::read;
use crate::sql::statements;
use crate::tx::Read;
use crate::value::{Row, text};

statements! {
    Org Read OF_DEPLOYMENT = "SELECT id, deployment_id, pipeline_id, stage, step_id, step, attempt, repository_id,
          commit_id, asked_by, status, fingerprint, analyser, result, fix_summary, fix_diff, note, reused_from,
          input_tokens, output_tokens, error, created_at, started_at, finished_at, version
        FROM analyses WHERE org_id = $1 AND deployment_id = $2 AND ($3 = '' OR id < $3)
        ORDER BY id DESC LIMIT $4 OFFSET $5";
    Org Read COUNT = "SELECT CAST(COUNT(*) AS BIGINT) FROM (SELECT 1 FROM analyses
        WHERE org_id = $1 AND deployment_id = $2 LIMIT $3) AS counted";
    // The one that others were reused from, not one of those.
    Org Read SAME = "SELECT id, deployment_id, pipeline_id, stage, step_id, step, attempt, repository_id,
          commit_id, asked_by, status, fingerprint, analyser, result, fix_summary, fix_diff, note, reused_from,
          input_tokens, output_tokens, error, created_at, started_at, finished_at, version
        FROM analyses
        WHERE org_id = $1 AND fingerprint = $2 AND pipeline_id = $3 AND analyser = $4 AND reused_from IS NULL
        ORDER BY id DESC LIMIT 1";
    Instance Read QUEUED = "SELECT org_id, id FROM (SELECT org_id, id, created_at,
            ROW_NUMBER() OVER (PARTITION BY org_id ORDER BY created_at, id) AS place
          FROM analyses WHERE finished_at IS NULL AND status = 'queued') AS ranked
        WHERE place <= $1 ORDER BY place, created_at, id LIMIT $2";
    Instance Read RUNNING = "SELECT org_id, id FROM analyses WHERE finished_at IS NULL AND status = 'running'
        ORDER BY created_at LIMIT $1";
    Org Read WAITING = "SELECT CAST(COUNT(*) AS BIGINT) FROM (SELECT 1 FROM analyses
        WHERE org_id = $1 AND finished_at IS NULL LIMIT $2) AS counted";
    // Of so many deployments before this one.
    Org Read GOOD = "SELECT s.deployment_id, s.id, s.tries, s.stage, r.stages FROM (SELECT id FROM deployments
          WHERE org_id = $1 AND pipeline_id = $2 AND id < $3 ORDER BY id DESC LIMIT $5) AS d
        JOIN step_runs s ON s.org_id = $1 AND s.deployment_id = d.id
        JOIN runs r ON r.org_id = $1 AND r.deployment_id = d.id
        WHERE s.step = $4 AND s.status = 'succeeded' AND s.tries > 0 ORDER BY s.deployment_id DESC";
    Instance Read OPENING = "SELECT org_id, analysis_id FROM (SELECT org_id, analysis_id, updated_at,
            ROW_NUMBER() OVER (PARTITION BY org_id ORDER BY updated_at, analysis_id) AS place
          FROM fix_pull_requests WHERE state = 'opening') AS ranked
        WHERE place <= $1 ORDER BY place, updated_at, analysis_id LIMIT $2";
    Instance Read OPEN_AFTER = "SELECT org_id, analysis_id FROM fix_pull_requests
        WHERE state IN ('open', 'pushed') AND analysis_id > $1 ORDER BY analysis_id LIMIT $2";
}

/// Deployments that are looked through for the last good run of a step.
const DEPLOYMENTS_BACK_MAX: i64 = 200;

/// Newest first.
pub fn of_deployment(
    db: &mut impl Read,
    deployment: DeploymentId,
    from: &From,
    limit: i64,
) -> Result<Slice<Analysis>, StoreError> {
    let (after, offset) = match from {
        From::After(id) => (id.as_str(), 0),
        From::Offset(offset) => ("", *offset),
    };
    let params = [text(deployment), after.into(), (limit + 1).into(), offset.into()];
    let rows = db.rows(&OF_DEPLOYMENT, &params)?;
    let total = db.row(&COUNT, &[text(deployment), (COUNTED_MAX + 1).into()])?;
    let total = total.map(|row| row.int(0)).transpose()?.and_then(counted);
    Ok(Slice::cut(rows.iter().map(read).collect::<Result<_, _>>()?, limit, total))
}

/// What this analyser last said about the same failure of the pipeline.
pub fn same(
    db: &mut impl Read,
    fingerprint: &str,
    pipeline: PipelineId,
    analyser: &str,
) -> Result<Option<Analysis>, StoreError> {
    db.row(&SAME, &[fingerprint.into(), text(pipeline), analyser.into()])?.as_ref().map(read).transpose()
}

/// Those that wait, of each organization, oldest first.
pub fn queued(db: &mut impl Read, batch: Batch) -> Result<Vec<(OrgId, AnalysisId)>, StoreError> {
    db.rows(&QUEUED, &[batch.share.into(), batch.total.into()])?.iter().map(pair).collect()
}

/// Those that somebody has begun, of all organizations.
pub fn running(db: &mut impl Read, limit: i64) -> Result<Vec<(OrgId, AnalysisId)>, StoreError> {
    db.rows(&RUNNING, &[limit.into()])?.iter().map(pair).collect()
}

/// How many of the organization have not ended, counted up to a bound.
pub fn unfinished(db: &mut impl Read, bound: i64) -> Result<i64, StoreError> {
    db.row(&WAITING, &[bound.into()])?.map_or(Ok(0), |row| row.int(0))
}

/// A run of a step that went well.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Good {
    pub deployment: DeploymentId,
    pub step: StepRunId,
    pub attempt: u32,
}

/// The last run of a step, in a stage of its pipeline, that went well before this deployment.
pub fn last_good(
    db: &mut impl Read,
    pipeline: PipelineId,
    stage: &str,
    step: &StepId,
    before: DeploymentId,
) -> Result<Option<Good>, StoreError> {
    let params = [text(pipeline), text(before), text(step), DEPLOYMENTS_BACK_MAX.into()];
    for row in db.rows(&GOOD, &params)? {
        let stages: Vec<StageRun> = row.json(4)?;
        let index = usize::try_from(row.int(3)?).unwrap_or(usize::MAX);
        if stages.get(index).is_some_and(|it| it.name == stage) {
            let attempt = u32::try_from(row.int(2)?).unwrap_or(u32::MAX);
            return Ok(Some(Good { deployment: row.parse(0)?, step: row.parse(1)?, attempt }));
        }
    }
    Ok(None)
}

/// Pull requests that somebody may have merged or closed, of all organizations, by their analyses and in their order.
pub fn open_after(
    db: &mut impl Read,
    after: Option<AnalysisId>,
    limit: i64,
) -> Result<Vec<(OrgId, AnalysisId)>, StoreError> {
    let after = after.map(|id| id.to_string()).unwrap_or_default();
    db.rows(&OPEN_AFTER, &[after.into(), limit.into()])?.iter().map(pair).collect()
}

/// Pull requests that were asked for and are not there yet, of each organization, by their analyses.
pub fn opening(db: &mut impl Read, batch: Batch) -> Result<Vec<(OrgId, AnalysisId)>, StoreError> {
    db.rows(&OPENING, &[batch.share.into(), batch.total.into()])?.iter().map(pair).collect()
}

fn pair(row: &Row) -> Result<(OrgId, AnalysisId), StoreError> {
    Ok((row.parse(0)?, row.parse(1)?))
}
