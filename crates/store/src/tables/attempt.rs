//! Attempts: executions of steps by runners.

use berth_core::deployment::run::{Attempt, AttemptEnd, AttemptOutcome, RunChange};
use berth_core::id::{DeploymentId, OrgId, StepRunId};
use berth_core::step::NetworkAccess;
use berth_core::time::Timestamp;

use super::run::statement_for;
use crate::error::StoreError;
use crate::sql::value::{SqlValue, text, to_json};
use crate::sql::{
    FromRow, RowReader, SqlText, TableRow as _, ToParams, from_row, json_columns, sql, statements, table,
};
use crate::tx::{StoreRead, Tx};

table!(Org Attempt in attempts of deployment_id {
    key: [step: step_id, number],
    update: [runner, nonce, lost_ms, calls, parked_at, end: (ended_at, outcome)],
    insert: [granted_at],
});
json_columns!(AttemptOutcome);

const fn select_live(condition: &str) -> SqlText {
    sql("SELECT org_id, deployment_id, step_id, number, runner, nonce, renewal, lost_ms FROM attempts WHERE ")
        .then(condition)
}

statements! {
    Org Read LIVE_OF_RUN => Attempt::TABLE.select(
        "WHERE org_id = $1 AND deployment_id = $2 AND ended_at IS NULL AND parked_at IS NULL");
    Org Read OF_RUN => sql("SELECT ").columns(&Attempt::TABLE, "").then(", isolation, log_bytes, network, exposed, images
        FROM attempts WHERE org_id = $1 AND deployment_id = $2 ORDER BY step_id, number");
    Org Read LATEST = "SELECT number, ended_at FROM attempts
        WHERE org_id = $1 AND deployment_id = $2 AND step_id = $3 ORDER BY number DESC LIMIT 1";
    Org Read BY_NUMBER = "SELECT number, ended_at FROM attempts
        WHERE org_id = $1 AND deployment_id = $2 AND step_id = $3 AND number = $4";
    Instance Read LIVE => select_live("ended_at IS NULL AND parked_at IS NULL ORDER BY granted_at LIMIT $1");
    Instance Read LIVE_OF_RUNNER => select_live(
        "ended_at IS NULL AND parked_at IS NULL AND runner = $1 ORDER BY granted_at LIMIT $2");
    // Uses the partial index of live attempts.
    Org Read LIVE_BY_NONCE => select_live("org_id = $1 AND nonce = $2 AND ended_at IS NULL AND parked_at IS NULL");
    Org Read BY_NONCE => select_live("org_id = $1 AND nonce = $2");
    Org Write INSERT => Attempt::TABLE.insert("");
    Org Write PARK = "UPDATE attempts SET parked_at = $5
        WHERE org_id = $1 AND deployment_id = $2 AND step_id = $3 AND number = $4
          AND ended_at IS NULL AND parked_at IS NULL";
    // Continues a parked attempt of a custom step: calls the step again, in a new process.
    Org Write CALL = "UPDATE attempts SET runner = $5, nonce = $6, lost_ms = $7, calls = $8, parked_at = NULL, renewal = 0
        WHERE org_id = $1 AND deployment_id = $2 AND step_id = $3 AND number = $4
          AND ended_at IS NULL AND parked_at IS NOT NULL";
    // Ends an attempt. An attempt that has ended does not change any more.
    Org Write END = "UPDATE attempts SET ended_at = $5, outcome = $6
        WHERE org_id = $1 AND deployment_id = $2 AND step_id = $3 AND number = $4 AND ended_at IS NULL";
    Org Upkeep SET_DETAILS = "UPDATE attempts SET isolation = $5, log_bytes = $6, network = $7, exposed = $8
        WHERE org_id = $1 AND deployment_id = $2 AND step_id = $3 AND number = $4";
    Org Read IMAGES = "SELECT images FROM attempts
        WHERE org_id = $1 AND deployment_id = $2 AND step_id = $3 AND number = $4";
    Org Upkeep SET_IMAGES = "UPDATE attempts SET images = $5
        WHERE org_id = $1 AND deployment_id = $2 AND step_id = $3 AND number = $4";
    Org Upkeep RENEW = "UPDATE attempts SET renewal = renewal + 1
        WHERE org_id = $1 AND deployment_id = $2 AND step_id = $3 AND number = $4 AND nonce = $5
          AND ended_at IS NULL";
}

impl FromRow for Option<AttemptEnd> {
    fn from_row(row: &mut RowReader) -> Result<Self, StoreError> {
        let (at, outcome): (Option<_>, Option<_>) = row.take()?;
        Ok(at.zip(outcome).map(|(at, outcome)| AttemptEnd { at, outcome }))
    }
}

impl ToParams for Option<AttemptEnd> {
    fn to_params(&self, params: &mut Vec<SqlValue>) -> Result<(), StoreError> {
        (self.as_ref().map(|end| end.at), self.as_ref().map(|end| &end.outcome)).to_params(params)
    }
}

/// An attempt with the details that the runner reported when the attempt ended.
#[derive(Debug, Clone, PartialEq)]
pub struct AttemptReport {
    pub attempt: Attempt,
    pub isolation: Option<String>,
    pub log_bytes: Option<i64>,
    pub network: Option<String>,
    pub exposed: Vec<String>,
    /// Container images with their digests.
    pub images: Vec<String>,
}

impl FromRow for AttemptReport {
    fn from_row(row: &mut RowReader) -> Result<Self, StoreError> {
        let (attempt, isolation, log_bytes, network): (_, _, _, _) = row.take()?;
        let (exposed, images): (Option<_>, Option<_>) = row.take()?;
        let (exposed, images) = (exposed.unwrap_or_default(), images.unwrap_or_default());
        Ok(Self { attempt, isolation, log_bytes, network, exposed, images })
    }
}

/// Details that a runner reports in addition to the outcome of an attempt.
#[derive(Debug, Clone, PartialEq)]
pub struct AttemptDetails {
    pub isolation: &'static str,
    pub network: Option<NetworkAccess>,
    pub exposed: Vec<String>,
    pub log_bytes: i64,
}

/// The number of an attempt, and whether it has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AttemptState {
    pub number: u32,
    pub has_ended: bool,
}

impl FromRow for AttemptState {
    fn from_row(row: &mut RowReader) -> Result<Self, StoreError> {
        let (number, ended_at): (_, Option<Timestamp>) = row.take()?;
        Ok(Self { number, has_ended: ended_at.is_some() })
    }
}

/// An attempt that has not ended and is not parked, so a runner may be executing it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LiveAttempt {
    pub org: OrgId,
    pub deployment: DeploymentId,
    pub step: StepRunId,
    pub number: u32,
    pub runner: String,
    pub nonce: String,
    /// Incremented by every heartbeat of the runner.
    pub renewal: i64,
    /// After how many milliseconds without a heartbeat the attempt counts as lost. `None` if the runner did not report
    /// it.
    pub lost_ms: Option<i64>,
}
from_row!(LiveAttempt { org, deployment, step, number, runner, nonce, renewal, lost_ms });

pub(super) fn list_live_of_run(
    db: &mut impl StoreRead,
    id: DeploymentId,
) -> Result<Vec<Attempt>, StoreError> {
    db.fetch_all(&LIVE_OF_RUN, &[text(id)])
}

/// All attempts of a deployment, ordered by step and number.
pub fn list_of_run(db: &mut impl StoreRead, id: DeploymentId) -> Result<Vec<AttemptReport>, StoreError> {
    db.fetch_all(&OF_RUN, &[text(id)])
}

/// Finds the attempt with this number, or the latest one if no number is given.
pub fn find_state(
    db: &mut impl StoreRead,
    deployment: DeploymentId,
    step: StepRunId,
    number: Option<u32>,
) -> Result<Option<AttemptState>, StoreError> {
    let (deployment, step) = (text(deployment), text(step));
    match number {
        None => db.fetch_optional(&LATEST, &[deployment, step]),
        Some(number) => db.fetch_optional(&BY_NUMBER, &[deployment, step, i64::from(number).into()]),
    }
}

/// Live attempts of all organizations, oldest first.
pub fn list_live(db: &mut impl StoreRead, limit: i64) -> Result<Vec<LiveAttempt>, StoreError> {
    db.fetch_all(&LIVE, &[limit.into()])
}

pub fn list_live_of_runner(
    db: &mut impl StoreRead,
    runner: &str,
    limit: i64,
) -> Result<Vec<LiveAttempt>, StoreError> {
    db.fetch_all(&LIVE_OF_RUNNER, &[runner.into(), limit.into()])
}

pub fn find_live_by_nonce(db: &mut impl StoreRead, nonce: &str) -> Result<Option<LiveAttempt>, StoreError> {
    db.fetch_optional(&LIVE_BY_NONCE, &[nonce.into()])
}

/// Finds an attempt, live or not. Searches the index of live attempts first, because most lookups are for those.
pub fn find_by_nonce(db: &mut impl StoreRead, nonce: &str) -> Result<Option<LiveAttempt>, StoreError> {
    let live = find_live_by_nonce(db, nonce)?;
    if live.is_some() { Ok(live) } else { db.fetch_optional(&BY_NONCE, &[nonce.into()]) }
}

pub(super) fn put(tx: &mut Tx<'_>, change: &RunChange, it: &Attempt) -> Result<(), StoreError> {
    let key = (change.run.deployment, it.step, it.number);
    let mut params = Vec::new();
    let statement = match (&it.end, it.parked_at) {
        (Some(end), _) => {
            (key, end.at, &end.outcome).to_params(&mut params)?;
            &END
        }
        (None, Some(at)) => {
            (key, at).to_params(&mut params)?;
            &PARK
        }
        (None, None) if it.calls > 1 => {
            (key, &it.runner, &it.nonce, it.lost_ms, it.calls).to_params(&mut params)?;
            &CALL
        }
        (None, None) => {
            params.push(text(change.run.deployment));
            it.to_params(&mut params)?;
            &INSERT
        }
    };
    tx.execute_one(&statement_for(change, statement), &params)
}

pub fn set_details(
    tx: &mut Tx<'_>,
    run: DeploymentId,
    step: StepRunId,
    number: u32,
    details: &AttemptDetails,
) -> Result<(), StoreError> {
    let exposed = (!details.exposed.is_empty()).then(|| to_json(&details.exposed)).transpose()?;
    let params = [
        text(run),
        text(step),
        i64::from(number).into(),
        details.isolation.into(),
        details.log_bytes.into(),
        details.network.map(NetworkAccess::as_str).into(),
        exposed.into(),
    ];
    tx.execute(&SET_DETAILS, &params).map(drop)
}

/// Records an image that the attempt uses, with its digest.
pub fn add_image(
    tx: &mut Tx<'_>,
    run: DeploymentId,
    step: StepRunId,
    number: u32,
    image: String,
) -> Result<(), StoreError> {
    let key = [text(run), text(step), i64::from(number).into()];
    let known: Option<Option<Vec<String>>> = tx.fetch_optional(&IMAGES, &key)?;
    let mut images = known.flatten().unwrap_or_default();
    if images.contains(&image) {
        return Ok(());
    }
    images.push(image);
    let [run, step, number] = key;
    tx.execute(&SET_IMAGES, &[run, step, number, to_json(&images)?.into()]).map(drop)
}

/// Records a heartbeat. Returns false if the attempt has ended.
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
