//! Conversions between rows and Rust types.
//!
//! A row is read from left to right: a type takes as many columns as it needs. So nothing is looked up by position or by
//! name, and types compose: a tuple reads its members in turn, an `Option` is null or its value.

use super::column::{FromValue, ToValue};
use super::table::TableColumns;
use crate::error::StoreError;
use crate::sql::value::{SqlRow, SqlValue};

/// A type that is read from one or more consecutive columns.
pub trait FromRow: Sized {
    fn from_row(row: &mut RowReader) -> Result<Self, StoreError>;
}

/// The opposite of [`FromRow`]: appends one parameter for each column.
pub trait ToParams {
    fn to_params(&self, params: &mut Vec<SqlValue>) -> Result<(), StoreError>;
}

/// The table in which values of a type are stored.
pub(crate) trait TableRow {
    const TABLE: TableColumns;
}

/// The columns of a row that have not been read yet.
#[derive(Debug)]
pub struct RowReader {
    values: std::vec::IntoIter<SqlValue>,
    column: usize,
}

impl RowReader {
    pub(crate) fn new(row: SqlRow) -> Self {
        Self { values: row.0.into_iter(), column: 0 }
    }

    /// Reads the next value, from one column or several.
    pub fn take<T: FromRow>(&mut self) -> Result<T, StoreError> {
        T::from_row(self)
    }

    /// Skips columns, such as the rest of a group that is null.
    pub(crate) fn skip(&mut self, columns: usize) {
        self.column += columns;
        self.values.by_ref().take(columns).for_each(drop);
    }

    /// Reads the optional side of a join, which is null in every column. It must come last.
    pub(crate) fn take_joined<T: FromRow>(&mut self) -> Result<Option<T>, StoreError> {
        let is_null = self.values.as_slice().iter().all(|value| *value == SqlValue::Null);
        if is_null { Ok(None) } else { self.take().map(Some) }
    }
}

impl SqlRow {
    /// Reads the whole row.
    pub fn read<T: FromRow>(self) -> Result<T, StoreError> {
        RowReader::new(self).take()
    }
}

/// Implements `FromRow` for a struct: its columns have the order of the listed fields.
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

/// Implements `FromRow` and `ToParams` for a struct that takes several columns of a table.
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
