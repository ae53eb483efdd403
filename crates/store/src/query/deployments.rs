//! Deployment lists with filters, newest first.

use berth_core::deployment::Deployment;
use berth_core::id::{EnvironmentId, PipelineId, SessionId, UserId};
use berth_core::time::Timestamp;

use crate::error::StoreError;
use crate::pagination::{From, Slice, counted};
use crate::records::deployment::{self, select};
use crate::sql::value::{Value, text};
use crate::sql::{Statement, statements};
use crate::tx::Read;

/// A deployment must match every condition that is set.
#[derive(Debug, Clone, Default)]
pub struct Filter {
    pub pipeline: Option<PipelineId>,
    /// Id or name of the environment.
    pub environment: Option<String>,
    pub session: Option<SessionId>,
    /// Name of a stage of the deployment, or of its environment.
    pub stage: Option<String>,
    /// The commit as requested, or a prefix of the resolved hash.
    pub commit: Option<String>,
    /// A status, as the API names it.
    pub status: Option<String>,
    pub actor: Option<UserId>,
    /// Earliest creation time, inclusive.
    pub since: Option<Timestamp>,
    /// Latest creation time, exclusive.
    pub until: Option<Timestamp>,
}

/// The conditions of a [`Filter`]. An empty text disables a condition; `lead` is the one that an index serves.
macro_rules! filtered {
    ($lead:literal, $after:literal) => {
        concat!(
            $lead,
            " AND ($2 = '' OR d.status = $2) AND ($3 = '' OR d.pipeline_id = $3)
              AND ($4 = '' OR d.environment_id = $4 OR (d.environment_id IS NOT NULL AND d.stage = $4))
              AND ($5 = '' OR d.session_id = $5)
              AND ($6 = '' OR d.stage = $6 OR EXISTS (SELECT 1 FROM runs r
                WHERE r.org_id = $1 AND r.deployment_id = d.id AND r.stages LIKE $7 ESCAPE '\\'))
              AND ($8 = '' OR d.commit_id = $8 OR substr(d.resolved_commit, 1, length($8)) = $8)
              AND ($9 = '' OR d.requested_by LIKE $9 ESCAPE '\\')
              AND d.created_at >= $10 AND d.created_at < $11 ",
            $after
        )
    };
}

macro_rules! page {
    ($lead:literal) => {
        select!(filtered!($lead, "AND ($13 = '' OR d.id < $13) ORDER BY d.id DESC LIMIT $12 OFFSET $14"))
    };
}

macro_rules! count {
    ($lead:literal) => {
        concat!(
            "SELECT CAST(COUNT(*) AS BIGINT) FROM (SELECT 1 FROM deployments d WHERE d.org_id = $1 AND ",
            filtered!($lead, "LIMIT $12) AS counted")
        )
    };
}

statements! {
    Org Read ALL = page!("1 = 1");
    Org Read OF_PIPELINE = page!("d.pipeline_id = $3");
    Org Read OF_ENVIRONMENT = page!("d.environment_id = $4");
    Org Read OF_SESSION = page!("d.session_id = $5");
    Org Read COUNT = count!("1 = 1");
    Org Read COUNT_OF_PIPELINE = count!("d.pipeline_id = $3");
    Org Read COUNT_OF_ENVIRONMENT = count!("d.environment_id = $4");
    Org Read COUNT_OF_SESSION = count!("d.session_id = $5");
    Org Read LATEST = select!("pipeline_id = $2 AND environment_id IS NULL ORDER BY id DESC LIMIT 1");
}

impl Filter {
    /// The statements to list and to count, chosen by the most selective condition.
    fn statements(&self) -> [&'static Statement; 2] {
        let is_id = |it: &String| it.parse::<EnvironmentId>().is_ok();
        if self.session.is_some() {
            [&OF_SESSION, &COUNT_OF_SESSION]
        } else if self.environment.as_ref().is_some_and(is_id) {
            [&OF_ENVIRONMENT, &COUNT_OF_ENVIRONMENT]
        } else if self.pipeline.is_some() {
            [&OF_PIPELINE, &COUNT_OF_PIPELINE]
        } else {
            [&ALL, &COUNT]
        }
    }

    fn params(&self) -> Vec<Value> {
        let given = |text: &Option<String>| Value::from(text.as_deref().unwrap_or_default());
        // Names and ids need no JSON escaping, and unescaped quotes only delimit JSON strings, so LIKE finds exact
        // members.
        let stage = self.stage.as_deref().map(|name| format!("%\"name\":\"{}\"%", escaped(name)));
        let actor = self.actor.map(|id| format!("%\"id\":\"{}\"%", escaped(&id.to_string())));
        vec![
            given(&self.status),
            self.pipeline.map_or_else(|| "".into(), text),
            given(&self.environment),
            self.session.map_or_else(|| "".into(), text),
            given(&self.stage),
            given(&stage),
            given(&self.commit),
            given(&actor),
            self.since.map_or(i64::MIN, Timestamp::as_micros).into(),
            self.until.map_or(i64::MAX, Timestamp::as_micros).into(),
        ]
    }
}

/// Escapes the wildcards of LIKE.
fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('%', "\\%").replace('_', "\\_")
}

/// Lists deployments. The total is counted only on request, and up to a bound.
pub fn list(
    db: &mut impl Read,
    filter: &Filter,
    from: &From,
    limit: i64,
    with_total: bool,
) -> Result<Slice<Deployment>, StoreError> {
    let (after, offset) = match from {
        From::After(id) => (id.as_str(), 0),
        From::Offset(offset) => ("", *offset),
    };
    let [listed, count] = filter.statements();
    let mut params = filter.params();
    params.extend([(limit + 1).into(), after.into(), offset.into()]);
    let items = db.rows(listed, &params)?.iter().map(deployment::read).collect::<Result<_, _>>()?;
    let total = if with_total { total(db, filter, count)? } else { None };
    Ok(Slice::cut(items, limit, total))
}

fn total(db: &mut impl Read, filter: &Filter, count: &'static Statement) -> Result<Option<i64>, StoreError> {
    let mut params = filter.params();
    params.push((COUNTED_MAX + 1).into());
    Ok(db.row(count, &params)?.map(|row| row.int(0)).transpose()?.and_then(counted))
}

/// The newest deployment through the stages of a pipeline.
pub fn latest(db: &mut impl Read, pipeline: PipelineId) -> Result<Option<Deployment>, StoreError> {
    db.row(&LATEST, &[text(pipeline)])?.as_ref().map(deployment::read).transpose()
}
