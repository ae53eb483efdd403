//! Stage ends: how each attempt to pass a stage ended for a deployment. Rows never change.

use berth_core::deployment::stages::stage::{PastStageEnd, StageEnd};
use berth_core::id::{DeploymentId, PipelineId};
use berth_core::insights::LastStageEnd;
use berth_core::time::Timestamp;

use crate::error::StoreError;
use crate::sql::value::text;
use crate::sql::{SqlText, TableRow as _, from_row, sql, statements, table};
use crate::tx::{StoreRead, Tx};

table!(Org StageEnd in stage_ends {
    key: [pipeline: pipeline_id, stage, deployment: deployment_id, tries],
    insert: [is_success, at: ended_at, origin: origin_id, rolled_back: of_id, committed_at, is_last],
});
from_row!(PastStageEnd { end, is_rolled_back });
from_row!(LastStageEnd { past, created_at });

/// Selects the columns of a [`PastStageEnd`]: the stage end, and how often it was rolled back.
const fn select_past(rest: &str) -> SqlText {
    sql("SELECT ")
        .columns(&StageEnd::TABLE, "e")
        .then(
            ", (SELECT CAST(COUNT(*) AS BIGINT) FROM stage_ends r WHERE r.org_id = e.org_id
            AND r.pipeline_id = e.pipeline_id AND r.stage = e.stage AND r.of_id = e.deployment_id)",
        )
        .then(rest)
}

/// Selects the ends in last stages of pipelines, with the creation times of the deployments.
const fn select_last_stages(condition: &str) -> SqlText {
    select_past(
        ", d.created_at FROM stage_ends e JOIN deployments d ON d.org_id = e.org_id AND d.id = e.deployment_id
        WHERE e.org_id = $1 AND e.ended_at >= $2 AND e.ended_at < $3 AND e.is_last = 1 ",
    )
    .then(condition)
    .then(" ORDER BY e.ended_at DESC LIMIT $4")
}

statements! {
    Org Write INSERT => StageEnd::TABLE.insert("");
    Org Read PAST => select_past(" FROM stage_ends e WHERE e.org_id = $1 AND e.pipeline_id = $2 AND e.stage = $3
        ORDER BY e.ended_at DESC, e.deployment_id DESC LIMIT $4");
    Org Read SUCCEEDED = "SELECT origin_id, is_last FROM stage_ends
        WHERE org_id = $1 AND pipeline_id = $2 AND stage = $3 AND deployment_id = $4 AND is_success = 1";
    Org Read LAST_STAGES => select_last_stages("");
    Org Read LAST_STAGES_OF_PIPELINE => select_last_stages("AND e.pipeline_id = $5");
}

pub(crate) fn put(tx: &mut Tx<'_>, end: &StageEnd) -> Result<(), StoreError> {
    tx.put(&INSERT, end)
}

/// The ends of deployments in a stage, newest first.
pub fn list_of_stage(
    db: &mut impl StoreRead,
    pipeline: PipelineId,
    stage: &str,
    limit: i64,
) -> Result<Vec<PastStageEnd>, StoreError> {
    db.fetch_all(&PAST, &[text(pipeline), stage.into(), limit.into()])
}

/// Finds the deployment whose plan was executed when `deployment` succeeded in a stage, and whether that was the last
/// stage. A rollback executes the plan of an earlier deployment.
pub fn find_origin(
    db: &mut impl StoreRead,
    pipeline: PipelineId,
    stage: &str,
    deployment: DeploymentId,
) -> Result<Option<(DeploymentId, bool)>, StoreError> {
    db.fetch_optional(&SUCCEEDED, &[text(pipeline), stage.into(), text(deployment)])
}

/// Ends in last stages from `from` (inclusive) to `to` (exclusive), oldest first. If there are more than `limit`,
/// returns the newest ones.
pub fn list_last_stages(
    db: &mut impl StoreRead,
    pipeline: Option<PipelineId>,
    from: Timestamp,
    to: Timestamp,
    limit: i64,
) -> Result<Vec<LastStageEnd>, StoreError> {
    let mut params = vec![from.into(), to.into(), limit.into()];
    params.extend(pipeline.map(text));
    let statement = if pipeline.is_some() { &LAST_STAGES_OF_PIPELINE } else { &LAST_STAGES };
    let mut ends: Vec<LastStageEnd> = db.fetch_all(statement, &params)?;
    ends.reverse();
    Ok(ends)
}
