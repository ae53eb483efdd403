//! Environments, and everything a decision about one needs: see [`lock`].

use berth_core::environment::fence::Fence;
use berth_core::environment::{Agenda, Condition, Environment, Lock, Session};
use berth_core::id::{EnvironmentId, PipelineId, UserId};
use berth_core::name::{CommitId, EnvName, Slug};
use berth_core::pipeline::model::OnRelease;
use berth_core::time::Timestamp;

use super::{deployment, ticket};
use crate::error::StoreError;
use crate::sql::{RowReader, SqlText, TableRow as _, sql, statements};
use crate::tx::{Read, Tx};
use crate::value::{Row, text, to_json};

/// An environment, the status of its pipeline and its open session in one row. The columns of the session come last.
const fn select_lock(condition: &str) -> SqlText {
    let text = sql(
        "SELECT e.id, e.pipeline_id, e.name, e.configuration, e.definition_hash, e.is_declared, e.fence, e.sessions,
           e.tickets, e.deployments, e.condition, e.deployed_commit, e.holder_id, e.waiting, e.unfinished, e.due_at,
           e.startable_id, e.version, e.created_at, p.status, ",
    );
    let text = text.columns(&Session::TABLE, "s").then(
        " FROM environments e
         JOIN pipelines p ON p.org_id = e.org_id AND p.id = e.pipeline_id
         LEFT JOIN sessions s ON s.org_id = e.org_id AND s.environment_id = e.id AND s.ended_at IS NULL
         WHERE e.org_id = $1 AND ",
    );
    text.then(condition).then(" {for_update_of_e}")
}
const STATUS: usize = 19;
const SESSION: usize = 20;

statements! {
    Org Read BY_SLUG => select_lock("p.org_id = $1 AND p.slug = $2 AND p.deleted_at IS NULL AND e.name = $3");
    Org Read BY_PIPELINE => select_lock("e.pipeline_id = $2 AND e.name = $3");
    Org Read BY_ID => select_lock("e.id = $2");
    Org Read OF_PIPELINE => select_lock("e.pipeline_id = $2
        AND (e.is_declared = 1 OR e.holder_id IS NOT NULL OR e.unfinished > 0) ORDER BY e.name");
    Org Write INSERT = "INSERT INTO environments (org_id, pipeline_id, name, id, configuration, definition_hash,
          is_declared, fence, sessions, tickets, deployments, condition, deployed_commit, holder_id, waiting,
          unfinished, due_at, startable_id, version, created_at)
        VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20)";
    // The fence never falls.
    Org Write UPDATE = "UPDATE environments SET fence = $4, sessions = $5, tickets = $6, deployments = $7,
          condition = $8, deployed_commit = $9, holder_id = $10, waiting = $11, unfinished = $12, due_at = $13,
          startable_id = $14, version = $15
        WHERE org_id = $1 AND pipeline_id = $2 AND name = $3 AND version + 1 = $15 AND definition_hash = $16
          AND is_declared = $17 AND fence <= $4";
    // What a definition says is long and changes seldom: it is written apart.
    Org Write REDEFINE = "UPDATE environments SET fence = $4, sessions = $5, tickets = $6, deployments = $7,
          condition = $8, deployed_commit = $9, holder_id = $10, waiting = $11, unfinished = $12, due_at = $13,
          startable_id = $14, version = $15, definition_hash = $16, is_declared = $17, configuration = $18
        WHERE org_id = $1 AND pipeline_id = $2 AND name = $3 AND version + 1 = $15 AND fence <= $4";
    Org Read LAST_FENCE = "SELECT fence FROM environments WHERE org_id = $1 AND name = $3 AND pipeline_id IN
          (SELECT id FROM pipelines WHERE org_id = $1 AND slug = $2)
        ORDER BY fence DESC LIMIT 1";
    Org Read HEAD = "SELECT head FROM pipelines WHERE org_id = $1 AND id = $2";
    // What the last stage has: after a rollback, what it went back to.
    Org Read LAST_OUT = "SELECT d.commit_id FROM stage_ends e
        JOIN deployments d ON d.org_id = e.org_id AND d.id = e.deployment_id
        WHERE e.org_id = $1 AND e.pipeline_id = $2 AND e.is_last = 1 AND e.is_success = 1
        ORDER BY e.ended_at DESC LIMIT 1";
    // Nobody has noted that yet. The rollback of an earlier stage does not tell it.
    Org Read TRACKED = "SELECT commit_id FROM deployments WHERE org_id = $1 AND pipeline_id = $2
        AND environment_id IS NULL AND status = 'succeeded'
        AND (cause_kind IS NULL OR cause_kind NOT LIKE '{\"kind\":\"rollback\"%') ORDER BY id DESC LIMIT 1";
    // Whoever may no longer claim leaves the lines they stand in; the sweep sees to it.
    Org Upkeep HASTEN_OF_USER = "UPDATE environments SET due_at = $3 WHERE (org_id, id) IN
        (SELECT org_id, environment_id FROM tickets WHERE org_id = $1 AND user_id = $2 AND status = 'waiting')";
    Org Upkeep RESCHEDULE = "UPDATE environments SET due_at = $3 WHERE org_id = $1 AND id = $2 AND version = $4";
}

pub(crate) fn read(row: &Row) -> Result<Environment, StoreError> {
    let condition = match row.text(10)? {
        "clean" => Condition::Clean,
        "dirty" => Condition::Dirty,
        _ => Condition::Unknown,
    };
    Ok(Environment {
        id: row.parse(0)?,
        pipeline: row.parse(1)?,
        name: row.name(2)?,
        configuration: row.json(3)?,
        definition_hash: row.text(4)?.to_owned(),
        is_declared: row.int(5)? == 1,
        fence: Fence::from_number(row.int(6)?),
        sessions: row.int(7)?,
        tickets: row.int(8)?,
        deployments: row.int(9)?,
        condition,
        deployed_commit: row.maybe(11, Row::name)?,
        agenda: Agenda {
            holder: row.maybe(12, Row::parse)?,
            waiting: row.int(13)?,
            unfinished: row.int(14)?,
            due_at: row.maybe(15, Row::time)?,
            startable: row.maybe(16, Row::parse)?,
        },
        version: row.int(17)?,
        created_at: row.time(18)?,
    })
}

const fn word(condition: Condition) -> &'static str {
    match condition {
        Condition::Clean => "clean",
        Condition::Dirty => "dirty",
        Condition::Unknown => "unknown",
    }
}

/// An environment with everything around it. What the environment says is not there is not looked for.
fn lock(db: &mut impl Read, mut row: Row) -> Result<Lock, StoreError> {
    let session = RowReader::new(Row(row.0.split_off(SESSION))).take_joined()?;
    let environment = read(&row)?;
    let is_paused = row.text(STATUS)? == "stopped";
    let agenda = &environment.agenda;
    let tickets = if agenda.waiting > 0 { ticket::waiting_for(db, environment.id)? } else { Vec::new() };
    let deployments =
        if agenda.unfinished > 0 { deployment::unfinished_in(db, environment.id)? } else { Vec::new() };
    let tracked = match environment.configuration.on_release {
        OnRelease::DeployTracked => tracked_commit(db, environment.pipeline)?,
        OnRelease::None => None,
    };
    Ok(Lock { environment, session, tickets, deployments, is_paused, tracked })
}

/// By the pipeline's id or slug in a URL, and the environment's name. By the id, also of a deleted pipeline: its history
/// stays.
pub fn find(db: &mut impl Read, pipeline: &str, name: &EnvName) -> Result<Option<Lock>, StoreError> {
    let row = match (pipeline.parse::<PipelineId>(), Slug::parse(pipeline)) {
        (Ok(id), _) => db.row(&BY_PIPELINE, &[text(id), text(name)])?,
        (_, Ok(slug)) => db.row(&BY_SLUG, &[text(slug), text(name)])?,
        _ => None,
    };
    row.map(|row| lock(db, row)).transpose()
}

pub fn by_id(db: &mut impl Read, id: EnvironmentId) -> Result<Option<Lock>, StoreError> {
    db.row(&BY_ID, &[text(id)])?.map(|row| lock(db, row)).transpose()
}

/// Those the definition names, and those in which something still goes on; by name.
pub fn of_pipeline(db: &mut impl Read, pipeline: PipelineId) -> Result<Vec<Lock>, StoreError> {
    let rows = db.rows(&OF_PIPELINE, &[text(pipeline)])?;
    rows.into_iter().map(|row| lock(db, row)).collect()
}

/// The highest number an environment of this name has had in any pipeline of this name.
pub fn last_fence(db: &mut impl Read, pipeline: &Slug, name: &EnvName) -> Result<Fence, StoreError> {
    let row = db.row(&LAST_FENCE, &[text(pipeline), text(name)])?;
    row.map_or(Ok(Fence::default()), |row| row.int(0).map(Fence::from_number))
}

/// What a reset deploys: the head of the tracked branch; without a repository, the last commit that went through the
/// whole pipeline.
fn tracked_commit(db: &mut impl Read, pipeline: PipelineId) -> Result<Option<CommitId>, StoreError> {
    let head = db.row(&HEAD, &[text(pipeline)])?.map(|row| row.maybe(0, Row::name)).transpose()?;
    if let Some(Some(head)) = head {
        return Ok(Some(head));
    }
    let found = match db.row(&LAST_OUT, &[text(pipeline)])? {
        Some(row) => Some(row),
        None => db.row(&TRACKED, &[text(pipeline)])?,
    };
    found.map(|row| row.name(0)).transpose()
}

/// `user` may no longer claim, here or with one of their tokens: the lines they stand in are looked at soon.
pub fn hasten_lines_of(tx: &mut Tx<'_>, user: UserId) -> Result<(), StoreError> {
    let now = tx.now();
    tx.execute(&HASTEN_OF_USER, &[text(user), now.into()]).map(drop)
}

/// An environment was looked at too early: the next look is when something is really due.
pub fn reschedule(
    tx: &mut Tx<'_>,
    looked_at: &Environment,
    due_at: Option<Timestamp>,
) -> Result<(), StoreError> {
    let params = [text(looked_at.id), due_at.into(), looked_at.version.into()];
    tx.execute(&RESCHEDULE, &params).map(drop)
}

pub(crate) fn put(tx: &mut Tx<'_>, it: &Environment) -> Result<(), StoreError> {
    let agenda = &it.agenda;
    if it.version == 1 {
        let params = [
            text(it.pipeline),
            text(&it.name),
            text(it.id),
            to_json(&it.configuration)?.into(),
            it.definition_hash.as_str().into(),
            it.is_declared.into(),
            it.fence.number().into(),
            it.sessions.into(),
            it.tickets.into(),
            it.deployments.into(),
            word(it.condition).into(),
            it.deployed_commit.as_ref().map(text).into(),
            agenda.holder.map(text).into(),
            agenda.waiting.into(),
            agenda.unfinished.into(),
            agenda.due_at.into(),
            agenda.startable.map(text).into(),
            it.version.into(),
            it.created_at.into(),
        ];
        return tx.execute_one(&INSERT, &params);
    }
    let mut params = vec![
        text(it.pipeline),
        text(&it.name),
        it.fence.number().into(),
        it.sessions.into(),
        it.tickets.into(),
        it.deployments.into(),
        word(it.condition).into(),
        it.deployed_commit.as_ref().map(text).into(),
        agenda.holder.map(text).into(),
        agenda.waiting.into(),
        agenda.unfinished.into(),
        agenda.due_at.into(),
        agenda.startable.map(text).into(),
        it.version.into(),
        it.definition_hash.as_str().into(),
        it.is_declared.into(),
    ];
    if tx.execute(&UPDATE, &params)? == 1 {
        return Ok(());
    }
    params.push(to_json(&it.configuration)?.into());
    tx.execute_one(&REDEFINE, &params)
}
