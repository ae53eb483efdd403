//! Filtered lists of deployments, newest first.

use berth_core::deployment::Deployment;
use berth_core::id::{EnvironmentId, PipelineId, SessionId, UserId};
use berth_core::time::Timestamp;

use super::deployment::DeploymentRow;
use crate::error::StoreError;
use crate::pagination::{ListPage, PageStart, fetch_bounded_count};
use crate::sql::value::{SqlValue, text};
use crate::sql::{SqlStatement, SqlText, TableRow as _, sql, statements};
use crate::tx::StoreRead;

/// A deployment matches if it meets all conditions that are set.
#[derive(Debug, Clone, Default)]
pub struct DeploymentFilter {
    pub pipeline: Option<PipelineId>,
    /// Id or name of an environment.
    pub environment: Option<String>,
    pub session: Option<SessionId>,
    /// Name of one of the deployment's stages, or of its environment.
    pub stage: Option<String>,
    /// The commit as requested, or a prefix of the resolved hash.
    pub commit: Option<String>,
    pub status: Option<String>,
    pub actor: Option<UserId>,
    /// Only deployments created at this time or later.
    pub since: Option<Timestamp>,
    /// Only deployments created before this time.
    pub until: Option<Timestamp>,
}

/// The conditions of a [`DeploymentFilter`]. A condition whose parameter is empty is ignored.
const CONDITIONS: &str = " AND ($2 = '' OR d.status = $2) AND ($3 = '' OR d.pipeline_id = $3)
    AND ($4 = '' OR d.environment_id = $4 OR (d.environment_id IS NOT NULL AND d.stage = $4))
    AND ($5 = '' OR d.session_id = $5)
    AND ($6 = '' OR d.stage = $6 OR EXISTS (SELECT 1 FROM runs r
      WHERE r.org_id = $1 AND r.deployment_id = d.id AND r.stages LIKE $7 ESCAPE '\\'))
    AND ($8 = '' OR d.commit_id = $8 OR substr(d.resolved_commit, 1, length($8)) = $8)
    AND ($9 = '' OR d.requested_by LIKE $9 ESCAPE '\\')
    AND d.created_at >= $10 AND d.created_at < $11 ";

/// `indexed` is one of the conditions without its `$n = '' OR` part, which would prevent the use of an index.
const fn page(indexed: &str) -> SqlText {
    let text = sql("SELECT ")
        .columns(&DeploymentRow::TABLE, "d")
        .then(" FROM deployments d WHERE d.org_id = $1 AND ");
    text.then(indexed)
        .then(CONDITIONS)
        .then("AND ($13 = '' OR d.id < $13) ORDER BY d.id DESC LIMIT $12 OFFSET $14")
}

const fn count(indexed: &str) -> SqlText {
    let text =
        sql("SELECT CAST(COUNT(*) AS BIGINT) FROM (SELECT 1 FROM deployments d WHERE d.org_id = $1 AND ");
    text.then(indexed).then(CONDITIONS).then("LIMIT $12) AS counted")
}

statements! {
    Org Read ALL => page("1 = 1");
    Org Read OF_PIPELINE => page("d.pipeline_id = $3");
    Org Read OF_ENVIRONMENT => page("d.environment_id = $4");
    Org Read OF_SESSION => page("d.session_id = $5");
    Org Read COUNT => count("1 = 1");
    Org Read COUNT_OF_PIPELINE => count("d.pipeline_id = $3");
    Org Read COUNT_OF_ENVIRONMENT => count("d.environment_id = $4");
    Org Read COUNT_OF_SESSION => count("d.session_id = $5");
}

impl DeploymentFilter {
    /// The statements that list and count the deployments. Chosen by the most selective condition that has an index.
    fn statements(&self) -> [&'static SqlStatement; 2] {
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

    fn params(&self) -> Vec<SqlValue> {
        let optional = |text: &Option<String>| SqlValue::from(text.as_deref().unwrap_or_default());
        // These patterns search in JSON text. Names and ids contain no quotes and nothing that JSON escapes, so a
        // pattern matches only a whole name or id.
        let stage = self.stage.as_deref().map(|name| format!("%\"name\":\"{}\"%", escape_pattern(name)));
        let actor = self.actor.map(|id| format!("%\"id\":\"{}\"%", escape_pattern(&id.to_string())));
        vec![
            optional(&self.status),
            self.pipeline.map_or_else(|| "".into(), text),
            optional(&self.environment),
            self.session.map_or_else(|| "".into(), text),
            optional(&self.stage),
            optional(&stage),
            optional(&self.commit),
            optional(&actor),
            self.since.map_or(i64::MIN, Timestamp::as_micros).into(),
            self.until.map_or(i64::MAX, Timestamp::as_micros).into(),
        ]
    }
}

/// Escapes the wildcards of a `LIKE` pattern.
fn escape_pattern(text: &str) -> String {
    text.replace('\\', "\\\\").replace('%', "\\%").replace('_', "\\_")
}

/// Lists deployments. With `with_total`, also counts them, up to a limit.
pub fn list(
    db: &mut impl StoreRead,
    filter: &DeploymentFilter,
    from: &PageStart,
    limit: i64,
    with_total: bool,
) -> Result<ListPage<Deployment>, StoreError> {
    let [after, offset] = from.by_id();
    let [list, count] = filter.statements();
    let conditions = filter.params();
    let params = [&conditions[..], &[(limit + 1).into(), after, offset]].concat();
    let rows: Vec<DeploymentRow> = db.fetch_all(list, &params)?;
    let items = rows.into_iter().map(DeploymentRow::into_deployment).collect::<Result<_, _>>()?;
    let total = if with_total { fetch_bounded_count(db, count, &conditions)? } else { None };
    Ok(ListPage::from_rows(items, limit, total))
}
