//! Deployments that ended in the last stage of their pipeline, for delivery insights.

use berth_core::id::PipelineId;
use berth_core::insights::Seen;
use berth_core::time::Timestamp;

use crate::error::StoreError;
use crate::records::stage::read_past;
use crate::sql::statements;
use crate::sql::value::{Row, text};
use crate::tx::Read;

statements! {
    Org Read ENDS = "SELECT e.pipeline_id, e.stage, e.deployment_id, e.tries, e.is_success, e.ended_at, e.origin_id,
          e.of_id, e.committed_at, e.is_last,
          (SELECT CAST(COUNT(*) AS BIGINT) FROM stage_ends r WHERE r.org_id = e.org_id AND r.pipeline_id = e.pipeline_id
            AND r.stage = e.stage AND r.of_id = e.deployment_id), d.created_at
        FROM stage_ends e JOIN deployments d ON d.org_id = e.org_id AND d.id = e.deployment_id
        WHERE e.org_id = $1 AND e.ended_at >= $2 AND e.ended_at < $3 AND e.is_last = 1
        ORDER BY e.ended_at DESC LIMIT $4";
    Org Read ENDS_OF_PIPELINE = "SELECT e.pipeline_id, e.stage, e.deployment_id, e.tries, e.is_success, e.ended_at,
          e.origin_id, e.of_id, e.committed_at, e.is_last,
          (SELECT CAST(COUNT(*) AS BIGINT) FROM stage_ends r WHERE r.org_id = e.org_id AND r.pipeline_id = e.pipeline_id
            AND r.stage = e.stage AND r.of_id = e.deployment_id), d.created_at
        FROM stage_ends e JOIN deployments d ON d.org_id = e.org_id AND d.id = e.deployment_id
        WHERE e.org_id = $1 AND e.pipeline_id = $5 AND e.ended_at >= $2 AND e.ended_at < $3 AND e.is_last = 1
        ORDER BY e.ended_at DESC LIMIT $4";
}

/// Ends in last stages from `from` (inclusive) to `to` (exclusive), oldest first. If there are more than `limit`, the
/// newest ones.
pub fn last_stages(
    db: &mut impl Read,
    pipeline: Option<PipelineId>,
    from: Timestamp,
    to: Timestamp,
    limit: i64,
) -> Result<Vec<Seen>, StoreError> {
    let mut params = vec![from.into(), to.into(), limit.into()];
    let rows = match pipeline {
        None => db.rows(&ENDS, &params)?,
        Some(id) => {
            params.push(text(id));
            db.rows(&ENDS_OF_PIPELINE, &params)?
        }
    };
    let read = |row: &Row| Ok(Seen { past: read_past(row)?, created_at: row.time(11)? });
    rows.iter().rev().map(read).collect()
}
