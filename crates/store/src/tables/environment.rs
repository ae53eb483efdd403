//! Environments, and the [`Lock`]: an environment together with everything that a decision about it depends on.

use berth_core::environment::fence::Fence;
use berth_core::environment::{Environment, EnvironmentCondition, Lock, LockAgenda, Session};
use berth_core::id::{DeploymentId, EnvironmentId, OrgId, PipelineId, UserId};
use berth_core::name::{CommitId, EnvName, Slug};
use berth_core::pipeline::model::{EnvironmentDefinition, ReleaseAction};
use berth_core::time::Timestamp;

use super::deployment;
use super::{first_after, ticket};
use crate::error::StoreError;
use crate::pagination::FairBatch;
use crate::sql::value::{SqlRow, SqlValue, text};
use crate::sql::{
    BoundRead, FromValue, QueuedWrite, RowReader, SqlText, TableRow as _, ToParams as _, ToValue,
    column_group, json_columns, sql, statements, table,
};
use crate::tx::{StoreRead, Tx};

table!(Org Environment in environments {
    key: [pipeline: pipeline_id, name],
    update: [
        fence, sessions, tickets, deployments, condition, deployed_commit,
        agenda: (waiting, unfinished, holder_id, due_at, startable_id), version,
    ],
    insert: [definition_hash, is_declared, configuration, id, created_at],
});
column_group!(LockAgenda { waiting, unfinished, holder, due_at, startable });
json_columns!(EnvironmentDefinition);

/// Selects an environment, the status of its pipeline, and its open session (if any) as one row.
const fn select_lock(condition: &str) -> SqlText {
    let text =
        sql("SELECT ").columns(&Environment::TABLE, "e").then(", p.status, ").columns(&Session::TABLE, "s");
    let text = text.then(
        " FROM environments e
         JOIN pipelines p ON p.org_id = e.org_id AND p.id = e.pipeline_id
         LEFT JOIN sessions s ON s.org_id = e.org_id AND s.environment_id = e.id AND s.ended_at IS NULL
         WHERE e.org_id = $1 AND ",
    );
    text.then(condition).then(" {for_update_of_e}")
}

statements! {
    Org Read BY_SLUG => select_lock("p.org_id = $1 AND p.slug = $2 AND p.deleted_at IS NULL AND e.name = $3");
    Org Read BY_PIPELINE => select_lock("e.pipeline_id = $2 AND e.name = $3");
    Org Read BY_ID => select_lock("e.id = $2");
    Org Read OF_PIPELINE => select_lock("e.pipeline_id = $2
        AND (e.is_declared = 1 OR e.holder_id IS NOT NULL OR e.unfinished > 0) ORDER BY e.name");
    Org Write INSERT => Environment::TABLE.insert("");
    // The fence must not decrease. The configuration is long and rarely changes, so only `REDEFINE` writes it.
    Org Write UPDATE => Environment::TABLE.update("WHERE org_id = $1 AND pipeline_id = $2 AND name = $3
        AND version + 1 = $15 AND definition_hash = $16 AND is_declared = $17 AND fence <= $4");
    Org Write REDEFINE => Environment::TABLE.update(", definition_hash = $16, is_declared = $17, configuration = $18
        WHERE org_id = $1 AND pipeline_id = $2 AND name = $3 AND version + 1 = $15 AND fence <= $4");
    Org Read LAST_FENCE = "SELECT fence FROM environments WHERE org_id = $1 AND name = $3 AND pipeline_id IN
          (SELECT id FROM pipelines WHERE org_id = $1 AND slug = $2)
        ORDER BY fence DESC LIMIT 1";
    Org Read HEAD = "SELECT head FROM pipelines WHERE org_id = $1 AND id = $2";
    // The commit that last succeeded in the last stage. After a rollback, that is the restored commit.
    Org Read LAST_OUT = "SELECT d.commit_id FROM stage_ends e
        JOIN deployments d ON d.org_id = e.org_id AND d.id = e.deployment_id
        WHERE e.org_id = $1 AND e.pipeline_id = $2 AND e.is_last = 1 AND e.is_success = 1
        ORDER BY e.ended_at DESC LIMIT 1";
    // Used if `LAST_OUT` finds nothing: the commit of the last successful deployment that is not a rollback.
    Org Read TRACKED = "SELECT commit_id FROM deployments WHERE org_id = $1 AND pipeline_id = $2
        AND environment_id IS NULL AND status = 'succeeded'
        AND (cause_kind IS NULL OR cause_kind NOT LIKE '{\"kind\":\"rollback\"%') ORDER BY id DESC LIMIT 1";
    Org Upkeep HASTEN_OF_USER = "UPDATE environments SET due_at = $3 WHERE (org_id, id) IN
        (SELECT org_id, environment_id FROM tickets WHERE org_id = $1 AND user_id = $2 AND status = 'waiting')";
    Org Upkeep RESCHEDULE = "UPDATE environments SET due_at = $3 WHERE org_id = $1 AND id = $2 AND version = $4";
    Instance Read DUE = "SELECT org_id, id FROM environments WHERE due_at IS NOT NULL AND due_at <= $1
        ORDER BY due_at LIMIT $2";
    Instance Read NEXT_DUE = "SELECT due_at FROM environments WHERE due_at IS NOT NULL ORDER BY due_at LIMIT 1";
    Instance Read STARTABLE = "SELECT org_id, id, startable_id FROM (SELECT e.org_id, e.id, e.startable_id,
            ROW_NUMBER() OVER (PARTITION BY e.org_id ORDER BY e.startable_id) AS place
          FROM environments e JOIN pipelines p ON p.org_id = e.org_id AND p.id = e.pipeline_id
          WHERE e.startable_id IS NOT NULL AND p.status = 'active') AS ranked
        WHERE place <= $1 ORDER BY place, startable_id LIMIT $2";
    Org Read IDS_AFTER = "SELECT id FROM environments WHERE org_id = $1 AND id > $2 ORDER BY id LIMIT $3";
}

impl FromValue for EnvironmentCondition {
    fn from_value(value: SqlValue) -> Result<Self, String> {
        Ok(match String::from_value(value)?.as_str() {
            "clean" => EnvironmentCondition::Clean,
            "dirty" => EnvironmentCondition::Dirty,
            _ => EnvironmentCondition::Unknown,
        })
    }
}

impl ToValue for EnvironmentCondition {
    fn to_value(&self) -> Result<SqlValue, StoreError> {
        let word = match self {
            EnvironmentCondition::Clean => "clean",
            EnvironmentCondition::Dirty => "dirty",
            EnvironmentCondition::Unknown => "unknown",
        };
        Ok(word.into())
    }
}

/// Loads the rest of a lock. Counters in the environment's row tell whether there are tickets and deployments to load.
fn load_lock(db: &mut impl StoreRead, row: SqlRow) -> Result<Lock, StoreError> {
    let mut row = RowReader::new(row);
    let (environment, status): (Environment, String) = row.take()?;
    let session = row.take_joined()?;
    let agenda = &environment.agenda;
    let tickets = if agenda.waiting > 0 { ticket::list_waiting(db, &environment)? } else { Vec::new() };
    let deployments = if agenda.unfinished > 0 {
        deployment::list_unfinished_of_environment(db, environment.id)?
    } else {
        Vec::new()
    };
    let tracked = match environment.configuration.on_release {
        ReleaseAction::DeployTracked => tracked_commit(db, environment.pipeline)?,
        ReleaseAction::None => None,
    };
    Ok(Lock { environment, session, tickets, deployments, is_paused: status == "stopped", tracked })
}

/// The first read of [`find`]. `None` if no pipeline can have this id or slug.
pub fn read_of_find(pipeline: &str, name: &EnvName) -> Option<BoundRead> {
    match (pipeline.parse::<PipelineId>(), Slug::parse(pipeline)) {
        (Ok(id), _) => Some(BoundRead::new(&BY_PIPELINE, [text(id), text(name)])),
        (_, Ok(slug)) => Some(BoundRead::new(&BY_SLUG, [text(slug), text(name)])),
        _ => None,
    }
}

/// Finds an environment by its name and by the id or slug of its pipeline. If the pipeline was deleted, only its id
/// works.
pub fn find(db: &mut impl StoreRead, pipeline: &str, name: &EnvName) -> Result<Option<Lock>, StoreError> {
    let Some(BoundRead { statement, params }) = read_of_find(pipeline, name) else { return Ok(None) };
    db.row(statement, &params)?.map(|row| load_lock(db, row)).transpose()
}

pub fn by_id(db: &mut impl StoreRead, id: EnvironmentId) -> Result<Option<Lock>, StoreError> {
    db.row(&BY_ID, &[text(id)])?.map(|row| load_lock(db, row)).transpose()
}

/// Environments that the definition declares or that are still in use, sorted by name.
pub fn list_of_pipeline(db: &mut impl StoreRead, pipeline: PipelineId) -> Result<Vec<Lock>, StoreError> {
    let rows = db.rows(&OF_PIPELINE, &[text(pipeline)])?;
    rows.into_iter().map(|row| load_lock(db, row)).collect()
}

/// The highest fence that an environment with this name ever had in any pipeline with this slug, including deleted
/// pipelines.
pub fn last_fence(db: &mut impl StoreRead, pipeline: &Slug, name: &EnvName) -> Result<Fence, StoreError> {
    Ok(db.fetch_optional(&LAST_FENCE, &[text(pipeline), text(name)])?.unwrap_or_default())
}

/// The commit that is deployed to reset an environment: the head of the tracked branch or, without a repository, the
/// last commit that passed all stages.
fn tracked_commit(db: &mut impl StoreRead, pipeline: PipelineId) -> Result<Option<CommitId>, StoreError> {
    let params = [text(pipeline)];
    if let Some(Some(head)) = db.fetch_optional(&HEAD, &params)? {
        return Ok(Some(head));
    }
    let last = db.fetch_optional(&LAST_OUT, &params)?;
    if last.is_some() { Ok(last) } else { db.fetch_optional(&TRACKED, &params) }
}

/// Makes all environments due in whose queues `user` waits, because the user may no longer claim environments. The next
/// sweep then cancels the tickets.
pub fn make_queues_due(tx: &mut Tx<'_>, user: UserId) -> Result<(), StoreError> {
    let now = tx.now();
    tx.execute(&HASTEN_OF_USER, &[text(user), now.into()]).map(drop)
}

/// Corrects the due time of an environment that was found not to be due yet.
pub fn reschedule(
    tx: &mut Tx<'_>,
    environment: &Environment,
    due_at: Option<Timestamp>,
) -> Result<(), StoreError> {
    let params = [text(environment.id), due_at.into(), environment.version.into()];
    tx.execute(&RESCHEDULE, &params).map(drop)
}

pub(crate) fn put(tx: &mut Tx<'_>, environment: &Environment) -> Result<(), StoreError> {
    if environment.version == 1 {
        return tx.put(&INSERT, environment);
    }
    let mut params = Vec::new();
    environment.to_params(&mut params)?;
    let updated = Environment::TABLE.update_params();
    let write = QueuedWrite::new(&UPDATE, params, 1).with_first_params(updated + 2);
    tx.queue(write.or_else(&REDEFINE, 0..updated + 3))
}

/// Lists environments in which something is due, such as the end of a session.
pub fn list_due(
    db: &mut impl StoreRead,
    now: Timestamp,
    limit: i64,
) -> Result<Vec<(OrgId, EnvironmentId)>, StoreError> {
    db.fetch_all(&DUE, &[now.into(), limit.into()])
}

/// The earliest time at which any environment is due.
pub fn find_next_due(db: &mut impl StoreRead) -> Result<Option<Timestamp>, StoreError> {
    db.fetch_optional(&NEXT_DUE, &[])
}

/// Deployments that may start, oldest first. Each organization gets a share of the batch.
pub fn list_startable(
    db: &mut impl StoreRead,
    batch: FairBatch,
) -> Result<Vec<(OrgId, EnvironmentId, DeploymentId)>, StoreError> {
    db.fetch_all(&STARTABLE, &[batch.share.into(), batch.total.into()])
}

/// Ids of the organization's environments, one page at a time.
pub fn list_ids(
    db: &mut impl StoreRead,
    after: Option<EnvironmentId>,
) -> Result<Vec<EnvironmentId>, StoreError> {
    db.fetch_all(&IDS_AFTER, &[first_after(after), super::PAGE_ROWS.into()])
}
