//! Conversions between rows and Rust types.
//!
//! A row is read from left to right, and each type takes as many columns as it needs. No column is looked up by
//! position or by name. Types can be combined: a tuple reads its members one after the other, and an `Option` reads
//! NULL or a value.

use super::column::{FromValue, ToValue};
use super::table::TableColumns;
use crate::error::StoreError;
use crate::sql::value::{SqlRow, SqlValue};

/// A type that is read from one or more consecutive columns.
pub trait FromRow: Sized {
    fn from_row(row: &mut RowReader) -> Result<Self, StoreError>;
}

/// Converts a value to statement parameters, the opposite of [`FromRow`]. Appends one parameter per column.
pub trait ToParams {
    fn to_params(&self, params: &mut Vec<SqlValue>) -> Result<(), StoreError>;
}

/// A type whose values are stored as the rows of a table.
pub(crate) trait TableRow {
    const TABLE: TableColumns;
}

/// A row that is read from left to right. Contains the columns that have not been read yet.
#[derive(Debug)]
pub struct RowReader {
    values: std::vec::IntoIter<SqlValue>,
    column: usize,
}

impl RowReader {
    pub(crate) fn new(row: SqlRow) -> Self {
        Self { values: row.0.into_iter(), column: 0 }
    }

    /// Reads the next value, which may take several columns.
    pub fn take<T: FromRow>(&mut self) -> Result<T, StoreError> {
        T::from_row(self)
    }

    /// Skips columns, such as the remaining columns of a group that is NULL.
    pub(crate) fn skip(&mut self, columns: usize) {
        self.column += columns;
        self.values.by_ref().take(columns).for_each(drop);
    }

    /// Reads the columns of a LEFT JOIN's optional side, which are all NULL if there is no matching row. Must be the
    /// last read.
    pub(crate) fn take_joined<T: FromRow>(&mut self) -> Result<Option<T>, StoreError> {
        let is_null = self.values.as_slice().iter().all(|value| *value == SqlValue::Null);
        if is_null { Ok(None) } else { self.take().map(Some) }
    }
}

impl SqlRow {
    /// Reads the whole row into one value.
    pub fn read<T: FromRow>(self) -> Result<T, StoreError> {
        RowReader::new(self).take()
    }
}

/// Implements `FromRow` for a struct. The columns must be in the order of the listed fields.
macro_rules! from_row {
    ($type:ident { $($field:ident),+ $(,)? }) => {
        impl $crate::sql::FromRow for $type {
            fn from_row(row: &mut $crate::sql::RowReader) -> Result<Self, $crate::error::StoreError> {
                Ok(Self { $($field: row.take()?),+ })
            }
        }
    };
}
pub(crate) use from_row;

/// Implements `FromRow` and `ToParams` for a struct that is stored in several columns of a table.
macro_rules! column_group {
    ($type:ident { $($field:ident),+ $(,)? }) => {
        $crate::sql::from_row!($type { $($field),+ });
        impl $crate::sql::ToParams for $type {
            fn to_params(&self, params: &mut Vec<$crate::sql::value::SqlValue>) -> Result<(), $crate::error::StoreError> {
                $($crate::sql::ToParams::to_params(&self.$field, params)?;)+
                Ok(())
            }
        }
    };
}
pub(crate) use column_group;

impl<T: FromValue> FromRow for T {
    fn from_row(row: &mut RowReader) -> Result<Self, StoreError> {
        row.column += 1;
        let value = row.values.next();
        let value = value.ok_or_else(|| StoreError::Bug(format!("there is no column {}", row.column)))?;
        T::from_value(value).map_err(|problem| StoreError::Bug(format!("column {}: {problem}", row.column)))
    }
}

impl<T: ToValue> ToParams for T {
    fn to_params(&self, params: &mut Vec<SqlValue>) -> Result<(), StoreError> {
        params.push(self.to_value()?);
        Ok(())
    }
}

macro_rules! tuples {
    ($(($($member:ident $field:ident),+))+) => {$(
        impl<$($member: FromRow),+> FromRow for ($($member,)+) {
            fn from_row(row: &mut RowReader) -> Result<Self, StoreError> {
                Ok(($($member::from_row(row)?,)+))
            }
        }
        impl<$($member: ToParams),+> ToParams for ($($member,)+) {
            fn to_params(&self, params: &mut Vec<SqlValue>) -> Result<(), StoreError> {
                let ($($field,)+) = self;
                $($field.to_params(params)?;)+
                Ok(())
            }
        }
    )+};
}
tuples! {
    (A a, B b)
    (A a, B b, C c)
    (A a, B b, C c, D d)
    (A a, B b, C c, D d, E e)
    (A a, B b, C c, D d, E e, F f)
    (A a, B b, C c, D d, E e, F f, G g)
    (A a, B b, C c, D d, E e, F f, G g, H h)
}
