//! Values of parameters and columns, which have one of the four types that both databases support.

use std::fmt::Display;
use std::str::FromStr;

use berth_core::time::Timestamp;

use crate::error::StoreError;

#[derive(Debug, Clone, PartialEq)]
pub enum SqlValue {
    Null,
    Int(i64),
    Text(String),
    Bytes(Vec<u8>),
}

/// Converts an id, a name or a word to a text value.
pub fn text(value: impl Display) -> SqlValue {
    SqlValue::Text(value.to_string())
}

impl From<i64> for SqlValue {
    fn from(value: i64) -> Self {
        SqlValue::Int(value)
    }
}

impl From<bool> for SqlValue {
    fn from(value: bool) -> Self {
        SqlValue::Int(i64::from(value))
    }
}

impl From<&str> for SqlValue {
    fn from(value: &str) -> Self {
        SqlValue::Text(value.to_owned())
    }
}

impl From<String> for SqlValue {
    fn from(value: String) -> Self {
        SqlValue::Text(value)
    }
}

impl From<Timestamp> for SqlValue {
    fn from(value: Timestamp) -> Self {
        SqlValue::Int(value.as_micros())
    }
}

impl From<&[u8]> for SqlValue {
    fn from(value: &[u8]) -> Self {
        SqlValue::Bytes(value.to_vec())
    }
}

impl<T: Into<SqlValue>> From<Option<T>> for SqlValue {
    fn from(value: Option<T>) -> Self {
        value.map_or(SqlValue::Null, Into::into)
    }
}

/// A row of a query result.
#[derive(Debug)]
pub struct SqlRow(pub(crate) Vec<SqlValue>);

impl SqlRow {
    pub fn int(&self, column: usize) -> Result<i64, StoreError> {
        match self.0.get(column) {
            Some(SqlValue::Int(value)) => Ok(*value),
            other => Err(unexpected_column(column, "an integer", other)),
        }
    }

    pub fn text(&self, column: usize) -> Result<&str, StoreError> {
        match self.0.get(column) {
            Some(SqlValue::Text(value)) => Ok(value),
            other => Err(unexpected_column(column, "text", other)),
        }
    }

    pub fn bytes(&self, column: usize) -> Result<&[u8], StoreError> {
        match self.0.get(column) {
            Some(SqlValue::Bytes(value)) => Ok(value),
            other => Err(unexpected_column(column, "bytes", other)),
        }
    }

    pub fn time(&self, column: usize) -> Result<Timestamp, StoreError> {
        self.int(column).map(Timestamp::from_micros)
    }

    /// Reads a column that may be NULL. `read` is one of the methods above.
    pub fn maybe<'r, T>(
        &'r self,
        column: usize,
        read: impl FnOnce(&'r Self, usize) -> Result<T, StoreError>,
    ) -> Result<Option<T>, StoreError> {
        match self.0.get(column) {
            Some(SqlValue::Null) => Ok(None),
            _ => read(self, column).map(Some),
        }
    }

    /// Parses an id, a name or a word. Berth writes only valid ones, so it is an error if this fails.
    pub fn parse<T: FromStr>(&self, column: usize) -> Result<T, StoreError>
    where
        T::Err: Display,
    {
        self.text(column)?.parse().map_err(|error| StoreError::Bug(format!("column {column}: {error}")))
    }

    pub fn name<T: TryFrom<String>>(&self, column: usize) -> Result<T, StoreError>
    where
        T::Error: Display,
    {
        T::try_from(self.text(column)?.to_owned())
            .map_err(|error| StoreError::Bug(format!("column {column}: {error}")))
    }

    pub fn json<T: serde::de::DeserializeOwned>(&self, column: usize) -> Result<T, StoreError> {
        serde_json::from_str(self.text(column)?)
            .map_err(|error| StoreError::Bug(format!("column {column}: {error}")))
    }
}

pub(crate) fn to_json(value: &impl serde::Serialize) -> Result<String, StoreError> {
    serde_json::to_string(value).map_err(|error| StoreError::Bug(format!("cannot write JSON: {error}")))
}

// Does not quote the value, which may be a hash or personal data.
fn unexpected_column(column: usize, wanted: &str, found: Option<&SqlValue>) -> StoreError {
    let found = match found {
        None => "no such column",
        Some(SqlValue::Null) => "null",
        Some(SqlValue::Int(_)) => "an integer",
        Some(SqlValue::Text(_)) => "text",
        Some(SqlValue::Bytes(_)) => "bytes",
    };
    StoreError::Bug(format!("column {column}: wanted {wanted}, found {found}"))
}
