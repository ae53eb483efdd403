//! Runs: the execution state of deployments.

use std::collections::BTreeMap;
use std::sync::Arc;

use berth_core::deployment::run::{Attempt, AttemptEnd, Run, RunChange, StageRun, StepRun, StepStatus};
use berth_core::id::{DeploymentId, StepRunId};
use berth_core::step::Network;

use crate::error::StoreError;
use crate::sql::value::{Row, Value, text, to_json};
use crate::sql::{Kind, Statement, statements};
use crate::tx::{Read, Tx};

statements! {
    Org Read HEAD = "SELECT pipeline_id, stages, version FROM runs
        WHERE org_id = $1 AND deployment_id = $2 {for_update}";
    Org Read VERSION = "SELECT version FROM runs WHERE org_id = $1 AND deployment_id = $2 {for_update}";
    Org Read STEPS = "SELECT stage, position, id, step, status, tries, failures, not_before, outputs, artifacts,
          failure, started_at, finished_at, losses, false_starts, memory FROM step_runs
        WHERE org_id = $1 AND deployment_id = $2 ORDER BY stage, position";
    Org Read LIVE = "SELECT step_id, number, runner, nonce, granted_at, calls, parked_at, lost_ms FROM attempts
        WHERE org_id = $1 AND deployment_id = $2 AND ended_at IS NULL AND parked_at IS NULL";
    Org Read ATTEMPTS = "SELECT step_id, number, runner, nonce, granted_at, calls, parked_at, lost_ms, ended_at, outcome,
          isolation, log_bytes, network, exposed
        FROM attempts WHERE org_id = $1 AND deployment_id = $2 ORDER BY step_id, number";
    Org Write INSERT_HEAD = "INSERT INTO runs (org_id, deployment_id, pipeline_id, stages, ready_at, queued_for,
          version, wakes_at)
        VALUES ($1, $2, $3, $4, $5, $6, $7, $8)";
    Org Write UPDATE_HEAD = "UPDATE runs SET stages = $3, ready_at = $4, queued_for = $5, version = $6, wakes_at = $7
        WHERE org_id = $1 AND deployment_id = $2 AND version = $8";
    Org Write INSERT_STEP = "INSERT INTO step_runs (org_id, deployment_id, stage, position, id, step, status, tries,
          failures, losses, false_starts, not_before, outputs, artifacts, failure, started_at, finished_at, memory)
        VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18)";
    Org Write UPDATE_STEP = "UPDATE step_runs SET status = $5, tries = $6, failures = $7, losses = $8, false_starts = $9,
          not_before = $10, outputs = $11, artifacts = $12, failure = $13, started_at = $14, finished_at = $15,
          memory = $16
        WHERE org_id = $1 AND deployment_id = $2 AND stage = $3 AND position = $4";
    Org Write OPEN = "INSERT INTO attempts (org_id, deployment_id, step_id, number, runner, nonce, lost_ms, granted_at)
        VALUES ($1, $2, $3, $4, $5, $6, $7, $8)";
    // A parked attempt continues without a process (PARK) until the next one is started for it (CALL).
    Org Write PARK = "UPDATE attempts SET parked_at = $5
        WHERE org_id = $1 AND deployment_id = $2 AND step_id = $3 AND number = $4
          AND ended_at IS NULL AND parked_at IS NULL";
    Org Write CALL = "UPDATE attempts SET runner = $5, nonce = $6, lost_ms = $7, calls = $8, parked_at = NULL, renewal = 0
        WHERE org_id = $1 AND deployment_id = $2 AND step_id = $3 AND number = $4
          AND ended_at IS NULL AND parked_at IS NOT NULL";
    // An attempt that has ended does not change.
    Org Write CLOSE = "UPDATE attempts SET ended_at = $5, outcome = $6
        WHERE org_id = $1 AND deployment_id = $2 AND step_id = $3 AND number = $4 AND ended_at IS NULL";
    Org Upkeep NOTE = "UPDATE attempts SET isolation = $5, log_bytes = $6, network = $7, exposed = $8
        WHERE org_id = $1 AND deployment_id = $2 AND step_id = $3 AND number = $4";
    // Heartbeat. Changes no row if the attempt has ended.
    Org Upkeep RENEW = "UPDATE attempts SET renewal = renewal + 1
        WHERE org_id = $1 AND deployment_id = $2 AND step_id = $3 AND number = $4 AND nonce = $5
          AND ended_at IS NULL";
}

/// The version of a run, incremented with every change.
pub fn version(db: &mut impl Read, id: DeploymentId) -> Result<Option<i64>, StoreError> {
    db.row(&VERSION, &[text(id)])?.map(|row| row.int(0)).transpose()
}

pub fn by_id(db: &mut impl Read, id: DeploymentId) -> Result<Option<Run>, StoreError> {
    let Some(head) = db.row(&HEAD, &[text(id)])? else { return Ok(None) };
    let mut live: BTreeMap<StepRunId, Attempt> = BTreeMap::new();
    for row in db.rows(&LIVE, &[text(id)])? {
        let attempt = attempt(&row, None)?;
        live.insert(attempt.step, attempt);
    }
    let rows = db.rows(&STEPS, &[text(id)])?;
    let steps =
        rows.iter().map(|row| step(row, &mut live).map(Arc::new)).collect::<Result<_, StoreError>>()?;
    Ok(Some(Run {
        deployment: id,
        pipeline: head.parse(0)?,
        stages: head.json(1)?,
        version: head.int(2)?,
        steps,
    }))
}

fn step(row: &Row, live: &mut BTreeMap<StepRunId, Attempt>) -> Result<StepRun, StoreError> {
    let id = row.parse(2)?;
    let word = row.text(4)?;
    let status = StepStatus::ALL.into_iter().find(|status| status.as_str() == word);
    let named = |column| Ok::<_, StoreError>(row.maybe(column, Row::json)?.unwrap_or_default());
    Ok(StepRun {
        id,
        stage: index(row, 0)?,
        index: index(row, 1)?,
        step: row.name(3)?,
        status: status.ok_or_else(|| StoreError::Bug(format!("unknown status {word}")))?,
        tries: count(row, 5)?,
        failures: count(row, 6)?,
        losses: count(row, 13)?,
        false_starts: count(row, 14)?,
        not_before: row.maybe(7, Row::time)?,
        live: live.remove(&id),
        memory: row.maybe(15, Row::json)?,
        outputs: named(8)?,
        artifacts: named(9)?,
        failure: row.maybe(10, Row::json)?,
        started_at: row.maybe(11, Row::time)?,
        finished_at: row.maybe(12, Row::time)?,
    })
}

fn attempt(row: &Row, end: Option<AttemptEnd>) -> Result<Attempt, StoreError> {
    Ok(Attempt {
        step: row.parse(0)?,
        number: count(row, 1)?,
        runner: row.text(2)?.to_owned(),
        nonce: row.text(3)?.to_owned(),
        lost_ms: row.maybe(7, Row::int)?,
        granted_at: row.time(4)?,
        calls: count(row, 5)?,
        parked_at: row.maybe(6, Row::time)?,
        end,
    })
}

fn index(row: &Row, column: usize) -> Result<usize, StoreError> {
    usize::try_from(row.int(column)?).map_err(|_| StoreError::Bug("a negative position".into()))
}

fn count(row: &Row, column: usize) -> Result<u32, StoreError> {
    u32::try_from(row.int(column)?).map_err(|_| StoreError::Bug("a count out of range".into()))
}

/// The stages of a deployment, for lists. Empty until the deployment has started.
pub fn stages(db: &mut impl Read, id: DeploymentId) -> Result<Vec<StageRun>, StoreError> {
    db.row(&HEAD, &[text(id)])?.map_or(Ok(Vec::new()), |row| row.json(1))
}

/// An attempt with what its runner reported.
#[derive(Debug, Clone, PartialEq)]
pub struct Told {
    pub attempt: Attempt,
    pub isolation: Option<String>,
    pub log_bytes: Option<i64>,
    pub network: Option<String>,
    pub exposed: Vec<String>,
}

/// What a runner reports about an attempt besides its outcome.
#[derive(Debug, Clone, PartialEq)]
pub struct AttemptNote {
    pub isolation: &'static str,
    pub network: Option<Network>,
    pub exposed: Vec<String>,
    pub log_bytes: i64,
}

/// All attempts of a deployment, by step and number.
pub fn attempts(db: &mut impl Read, id: DeploymentId) -> Result<Vec<Told>, StoreError> {
    let read = |row: &Row| {
        let end = match (row.maybe(8, Row::time)?, row.maybe(9, Row::json)?) {
            (Some(at), Some(outcome)) => Some(AttemptEnd { at, outcome }),
            _ => None,
        };
        let word = |column| Ok::<_, StoreError>(row.maybe(column, Row::text)?.map(str::to_owned));
        Ok(Told {
            attempt: attempt(row, end)?,
            isolation: word(10)?,
            log_bytes: row.maybe(11, Row::int)?,
            network: word(12)?,
            exposed: row.maybe(13, Row::json)?.unwrap_or_default(),
        })
    };
    db.rows(&ATTEMPTS, &[text(id)])?.iter().map(read).collect()
}

pub(crate) fn put(tx: &mut Tx<'_>, change: &RunChange) -> Result<(), StoreError> {
    let run = &change.run;
    let (stages, ready_at) = (to_json(&run.stages)?, run.ready_at());
    let is_new = change.since == 0;
    let queued_for = run.queued_for().map(|(_, stage)| stage);
    let rest = [stages.into(), ready_at.into(), queued_for.into(), run.version.into(), run.wakes_at().into()];
    let mut params = vec![text(run.deployment)];
    params.extend(is_new.then(|| text(run.pipeline)));
    params.extend(rest);
    params.extend((!is_new).then(|| change.since.into()));
    let head = if is_new { &INSERT_HEAD } else { &UPDATE_HEAD };
    tx.execute_one(&told(change, head), &params)?;
    for &at in &change.steps {
        put_step(tx, change, &run.steps[at])?;
    }
    change.attempts.iter().try_for_each(|attempt| put_attempt(tx, change, attempt))
}

/// Exempts a quiet change from the rule that a write must record an event.
const fn told(change: &RunChange, statement: &Statement) -> Statement {
    let kind = if change.is_quiet { Kind::Upkeep } else { statement.kind };
    Statement { kind, ..*statement }
}

fn put_step(tx: &mut Tx<'_>, change: &RunChange, step: &StepRun) -> Result<(), StoreError> {
    let (run, is_new) = (&change.run, change.since == 0);
    let mut params = vec![text(run.deployment), place(step.stage)?, place(step.index)?];
    if is_new {
        params.extend([text(step.id), text(&step.step)]);
    }
    let named = |map: &BTreeMap<String, String>| match map.is_empty() {
        true => Ok(Value::Null),
        false => to_json(map).map(Value::from),
    };
    params.extend([
        step.status.as_str().into(),
        i64::from(step.tries).into(),
        i64::from(step.failures).into(),
        i64::from(step.losses).into(),
        i64::from(step.false_starts).into(),
        step.not_before.into(),
        named(&step.outputs)?,
        named(&step.artifacts)?,
        step.failure.as_ref().map(to_json).transpose()?.into(),
        step.started_at.into(),
        step.finished_at.into(),
        step.memory.as_ref().map(to_json).transpose()?.into(),
    ]);
    tx.execute_one(&told(change, if is_new { &INSERT_STEP } else { &UPDATE_STEP }), &params)
}

fn place(index: usize) -> Result<Value, StoreError> {
    let index = i64::try_from(index).map_err(|_| StoreError::Bug("a position out of range".into()))?;
    Ok(index.into())
}

fn put_attempt(tx: &mut Tx<'_>, change: &RunChange, it: &Attempt) -> Result<(), StoreError> {
    let key = [text(change.run.deployment), text(it.step), i64::from(it.number).into()];
    let who = || [it.runner.as_str().into(), it.nonce.as_str().into(), it.lost_ms.into()];
    let (statement, rest) = match (&it.end, it.parked_at) {
        (Some(end), _) => (&CLOSE, vec![end.at.into(), to_json(&end.outcome)?.into()]),
        (None, Some(at)) => (&PARK, vec![at.into()]),
        (None, None) if it.calls > 1 => (&CALL, [&who()[..], &[i64::from(it.calls).into()]].concat()),
        (None, None) => (&OPEN, [&who()[..], &[it.granted_at.into()]].concat()),
    };
    tx.execute_one(&told(change, statement), &[key.as_slice(), rest.as_slice()].concat())
}

pub fn note(
    tx: &mut Tx<'_>,
    run: DeploymentId,
    step: StepRunId,
    number: u32,
    note: &AttemptNote,
) -> Result<(), StoreError> {
    let exposed = (!note.exposed.is_empty()).then(|| to_json(&note.exposed)).transpose()?;
    let params = [
        text(run),
        text(step),
        i64::from(number).into(),
        note.isolation.into(),
        note.log_bytes.into(),
        note.network.map(Network::as_str).into(),
        exposed.into(),
    ];
    tx.execute(&NOTE, &params).map(drop)
}

/// Stores a heartbeat of an attempt. Returns false if the attempt has ended.
pub fn renew(
    tx: &mut Tx<'_>,
    run: DeploymentId,
    step: StepRunId,
    number: u32,
    nonce: &str,
) -> Result<bool, StoreError> {
    let params = [text(run), text(step), i64::from(number).into(), nonce.into()];
    Ok(tx.execute(&RENEW, &params)? == 1)
}
