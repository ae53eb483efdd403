//! Statements together with their parameters, for drivers that send several of them at once.

use std::ops::Range;

use super::value::SqlValue;
use super::{SqlStatement, StatementScope};
use crate::error::StoreError;

/// A read with its parameters, without the organization's id.
#[derive(Debug)]
pub struct BoundRead {
    pub(crate) statement: &'static SqlStatement,
    pub(crate) params: Vec<SqlValue>,
}

impl BoundRead {
    pub(crate) fn new(statement: &'static SqlStatement, params: impl Into<Vec<SqlValue>>) -> Self {
        Self { statement, params: params.into() }
    }
}

/// A write that must change a known number of rows. A driver may run it later than it was queued, but before it runs
/// any other statement, and before the job ends.
#[derive(Debug)]
pub struct QueuedWrite {
    /// The value of `$1` for statements that are limited to an organization.
    pub(crate) org: Option<SqlValue>,
    params: Vec<SqlValue>,
    rows: u64,
    pub(crate) first: WriteStep,
    /// Run in this order if the first statement changes fewer rows than required. The rows that the last of them
    /// changes count, too.
    pub(crate) otherwise: Vec<WriteStep>,
}

/// A statement, and which of the parameters of a [`QueuedWrite`] it takes.
#[derive(Debug)]
pub(crate) struct WriteStep {
    pub(crate) statement: &'static SqlStatement,
    params: Range<usize>,
}

impl QueuedWrite {
    /// A write with all parameters.
    pub(crate) fn new(statement: &'static SqlStatement, params: Vec<SqlValue>, rows: u64) -> Self {
        let first = WriteStep { statement, params: 0..params.len() };
        Self { org: None, params, rows, first, otherwise: Vec::new() }
    }

    /// Limits the first statement to the first `count` parameters.
    pub(crate) fn with_first_params(mut self, count: usize) -> Self {
        self.first.params = 0..count;
        self
    }

    /// Adds a statement that runs if the first one changes too few rows.
    pub(crate) fn or_else(mut self, statement: &'static SqlStatement, params: Range<usize>) -> Self {
        self.otherwise.push(WriteStep { statement, params });
        self
    }

    /// The parameters of one of the statements.
    pub(crate) fn params_of(&self, step: &WriteStep) -> Vec<&SqlValue> {
        self.org.iter().chain(&self.params[step.params.clone()]).collect()
    }

    pub(crate) fn all_params(&self) -> &[SqlValue] {
        &self.params
    }

    /// Whether the other statements have to run, because the first one has changed too few rows.
    pub(crate) fn needs_other(&self, changed: u64) -> bool {
        changed < self.rows && !self.otherwise.is_empty()
    }

    /// Any other number of rows means a failed version check or a bug.
    pub(crate) fn check(&self, changed: u64) -> Result<(), StoreError> {
        let (rows, name) = (self.rows, self.first.statement.name);
        if changed == rows {
            return Ok(());
        }
        Err(StoreError::Bug(format!("{name} changed {changed} rows, expected {rows}")))
    }
}

/// All parameters of a statement. The organization's id is the first one, if the statement takes it.
pub(crate) fn bind_org<'v>(
    statement: &SqlStatement,
    org: Option<&'v SqlValue>,
    params: &'v [SqlValue],
) -> Result<Vec<&'v SqlValue>, StoreError> {
    refuse_nul(params)?;
    Ok(org_param(statement, org)?.into_iter().chain(params).collect())
}

pub(crate) fn refuse_nul(params: &[SqlValue]) -> Result<(), StoreError> {
    let has_nul = |param: &SqlValue| matches!(param, SqlValue::Text(text) if text.as_bytes().contains(&0));
    if params.iter().any(has_nul) { Err(StoreError::Nul) } else { Ok(()) }
}

/// The organization's id, if the statement takes it as a parameter.
pub(crate) fn org_param<'v>(
    statement: &SqlStatement,
    org: Option<&'v SqlValue>,
) -> Result<Option<&'v SqlValue>, StoreError> {
    match (statement.scope, org) {
        (StatementScope::Instance, _) => Ok(None),
        (StatementScope::Org, Some(org)) => Ok(Some(org)),
        (StatementScope::Org, None) => {
            Err(StoreError::Bug(format!("{} needs an organization", statement.name)))
        }
    }
}
