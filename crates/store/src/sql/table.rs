//! Table declarations. Each column is named once, and statements are composed from these names at compile time.

/// The columns of a table, declared with `table!`. Each list of columns is a string with a comma after every name.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TableColumns {
    pub(crate) name: &'static str,
    /// Key columns that are not fields of the record: `org_id`, which is always `$1`, and the id of a parent record.
    pub(crate) owner: &'static str,
    /// The other key columns. An upsert detects an existing row by these and the `owner` columns.
    pub(crate) key: &'static str,
    /// Columns that an update or an upsert overwrites.
    pub(crate) update: &'static str,
    /// Columns that are computed from the record when it is written. They are never read back.
    pub(crate) derived: &'static str,
    /// Columns that are written by the insert and never change.
    pub(crate) insert: &'static str,
    /// Columns that are read with the record but written only by other statements.
    pub(crate) read: &'static str,
}

impl TableColumns {
    /// `SELECT <columns> FROM <table> <rest>`
    pub(crate) const fn select(&self, rest: &str) -> SqlText {
        sql("SELECT ").columns(self, "").then(" FROM ").then(self.name).then(" ").then(rest)
    }

    /// `INSERT INTO <table> (<columns>) VALUES (<parameters>) <rest>`
    pub(crate) const fn insert(&self, rest: &str) -> SqlText {
        let columns = [self.owner, self.key, self.update, self.derived, self.insert];
        let text = sql("INSERT INTO ").then(self.name).then(" (").list(&columns, ListItem::Name(""), 0);
        text.then(") VALUES (").list(&columns, ListItem::Param, 0).then(") ").then(rest)
    }

    /// An insert that updates the existing row if there is one with the same key. `rest` can restrict when it is
    /// updated.
    pub(crate) const fn upsert(&self, rest: &str) -> SqlText {
        let text = self.insert("ON CONFLICT (").list(&[self.owner, self.key], ListItem::Name(""), 0);
        text.then(") DO UPDATE SET ")
            .list(&[self.update, self.derived], ListItem::Excluded, 0)
            .then(" ")
            .then(rest)
    }

    /// `UPDATE <table> SET <update and derived columns> <rest>`, where `rest` contains the WHERE clause. The parameters
    /// are the first [`TableColumns::update_params`] parameters of the insert.
    pub(crate) const fn update(&self, rest: &str) -> SqlText {
        let keys = count_names(self.owner) + count_names(self.key);
        let text = sql("UPDATE ").then(self.name).then(" SET ").list(
            &[self.update, self.derived],
            ListItem::Set,
            keys,
        );
        text.then(" ").then(rest)
    }

    /// Number of parameters of [`TableColumns::update`], without those for the organization and a parent record.
    pub(crate) const fn update_params(&self) -> usize {
        count_names(self.key) + count_names(self.update) + count_names(self.derived)
    }
}

/// The number of names in a comma-terminated list.
const fn count_names(list: &str) -> usize {
    let (mut at, mut names) = (0, 0);
    while at < list.len() {
        names += (list.as_bytes()[at] == b',') as usize;
        at += 1;
    }
    names
}

/// What is written for each column of a list.
#[derive(Clone, Copy)]
enum ListItem {
    /// `alias.column`, or `column` if the alias is empty.
    Name(&'static str),
    /// `$n`
    Param,
    /// `column = $n`
    Set,
    /// `column = excluded.column`
    Excluded,
}

/// SQL text under construction at compile time.
#[derive(Clone, Copy)]
pub(crate) struct SqlText {
    bytes: [u8; SqlText::BYTES_MAX],
    pub(crate) len: usize,
}

pub(crate) const fn sql(text: &str) -> SqlText {
    SqlText { bytes: [0; SqlText::BYTES_MAX], len: 0 }.then(text)
}

impl SqlText {
    const BYTES_MAX: usize = 4_096;

    pub(crate) const fn then(mut self, text: &str) -> Self {
        let mut at = 0;
        while at < text.len() {
            self.bytes[self.len] = text.as_bytes()[at];
            self.len += 1;
            at += 1;
        }
        self
    }

    /// Appends the columns that [`FromRow`](super::FromRow) reads, in the order in which it reads them.
    pub(crate) const fn columns(self, table: &TableColumns, alias: &'static str) -> Self {
        self.list(&[table.key, table.update, table.insert, table.read], ListItem::Name(alias), 0)
    }

    /// Appends lists of columns. `params` is the number of parameters that come before them.
    const fn list(mut self, lists: &[&str], item: ListItem, mut params: usize) -> Self {
        let (mut list, mut separator) = (0, "");
        while list < lists.len() {
            let mut rest = lists[list];
            while !rest.is_empty() {
                let mut end = 0;
                while rest.as_bytes()[end] != b',' {
                    end += 1;
                }
                let (column, after) = rest.split_at(end);
                params += 1;
                self = self.then(separator);
                self = match item {
                    ListItem::Name(alias) if alias.is_empty() => self.then(column),
                    ListItem::Name(alias) => self.then(alias).then(".").then(column),
                    ListItem::Param => self.then("$").number(params),
                    ListItem::Set => self.then(column).then(" = $").number(params),
                    ListItem::Excluded => self.then(column).then(" = excluded.").then(column),
                };
                (rest, separator) = (after.split_at(1).1, ", ");
            }
            list += 1;
        }
        self
    }

    const fn number(self, number: usize) -> Self {
        let digit = "0123456789".split_at(number % 10).1.split_at(1).0;
        if number < 10 { self.then(digit) } else { self.number(number / 10).then(digit) }
    }

    /// Returns the text as an array. `N` must be the length of the text.
    pub(crate) const fn trim<const N: usize>(&self) -> [u8; N] {
        let (mut bytes, mut at) = ([0; N], 0);
        while at < N {
            bytes[at] = self.bytes[at];
            at += 1;
        }
        bytes
    }
}

/// Maps the fields of a type to the columns of a table. Implements `TableRow`, `FromRow` and `ToParams`.
///
/// A field is stored in the column of the same name. `field: column` gives another name, and `field: (a, b)` uses
/// several columns. Only `key` is required. [`TableColumns`] explains the lists; fields listed as `unset` are not
/// stored, and are read as their default. `of` names a column with the id of a parent record, which statements take
/// as a parameter before those of the record itself.
///
/// ```ignore
/// table!(Org Comment in comments of ticket_id {
///     key: [number],
///     update: [text, edited_at],
///     derived: [search_key = |it| it.text.to_lowercase()],
///     insert: [author: author_id, created_at],
/// });
/// ```
macro_rules! table {
    ($scope:ident $type:ident in $table:ident $(of $parent:ident)? {
        key: [$($key:ident $(: $keys:tt)?),*]
        $(, update: [$($update:ident $(: $updates:tt)?),* $(,)?])?
        $(, derived: [$($derived:ident = $value:expr),* $(,)?])?
        $(, insert: [$($insert:ident $(: $inserts:tt)?),* $(,)?])?
        $(, read: [$($read:ident $(: $reads:tt)?),* $(,)?])?
        $(, unset: [$($unset:ident),*])?
        $(,)?
    }) => {
        impl $crate::sql::TableRow for $type {
            const TABLE: $crate::sql::TableColumns = $crate::sql::TableColumns {
                name: stringify!($table),
                owner: concat!($crate::sql::table!(@owner $scope) $(, stringify!($parent), ",")?),
                key: concat!($($crate::sql::table!(@names $key $($keys)?)),*),
                update: concat!($($($crate::sql::table!(@names $update $($updates)?)),*)?),
                derived: concat!($($(stringify!($derived), ","),*)?),
                insert: concat!($($($crate::sql::table!(@names $insert $($inserts)?)),*)?),
                read: concat!($($($crate::sql::table!(@names $read $($reads)?)),*)?),
            };
        }
        impl $crate::sql::FromRow for $type {
            fn from_row(row: &mut $crate::sql::RowReader) -> Result<Self, $crate::error::StoreError> {
                Ok(Self {
                    $($key: row.take()?,)*
                    $($($update: row.take()?,)*)?
                    $($($insert: row.take()?,)*)?
                    $($($read: row.take()?,)*)?
                    $($($unset: Default::default(),)*)?
                })
            }
        }
        impl $crate::sql::ToParams for $type {
            fn to_params(&self, params: &mut Vec<$crate::sql::value::SqlValue>) -> Result<(), $crate::error::StoreError> {
                $($crate::sql::ToParams::to_params(&self.$key, params)?;)*
                $($($crate::sql::ToParams::to_params(&self.$update, params)?;)*)?
                $($({
                    let value: fn(&Self) -> _ = $value;
                    $crate::sql::ToParams::to_params(&value(self), params)?;
                })*)?
                $($($crate::sql::ToParams::to_params(&self.$insert, params)?;)*)?
                Ok(())
            }
        }
    };
    (@owner Org) => { "org_id," };
    (@owner Instance) => { "" };
    (@names $field:ident) => { concat!(stringify!($field), ",") };
    (@names $field:ident $column:ident) => { concat!(stringify!($column), ",") };
    (@names $field:ident ($($column:ident),+)) => { concat!($(stringify!($column), ","),+) };
}
pub(crate) use table;

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use crate::error::StoreError;
    use crate::sql::value::{SqlRow, SqlValue};
    use crate::sql::{FromRow as _, RowReader, TableRow as _, ToParams as _, sql};

    #[derive(Debug, PartialEq)]
    struct Book {
        id: i64,
        title: String,
        pages: Option<i64>,
        printed: (String, i64),
        loans: i64,
    }

    table!(Org Book in books {
        key: [id: isbn],
        update: [title, pages],
        derived: [search_key = |it| it.title.to_lowercase()],
        insert: [printed: (place, year)],
        read: [loans],
    });

    fn book() -> Book {
        Book { id: 7, title: "Dune".into(), pages: None, printed: ("London".into(), 1965), loans: 3 }
    }

    #[test]
    fn table_statements_name_every_column() {
        let table = Book::TABLE;
        let texts = [
            table.select("WHERE isbn = $2"),
            sql("SELECT ").columns(&table, "b"),
            table.insert("ON CONFLICT DO NOTHING"),
            table.upsert("WHERE books.pages IS NULL"),
            table.update("WHERE org_id = $1 AND isbn = $2"),
        ];
        let texts: Vec<_> =
            texts.iter().map(|it| String::from_utf8_lossy(&it.bytes[..it.len]).into_owned()).collect();
        expect![[r#"
            SELECT isbn, title, pages, place, year, loans FROM books WHERE isbn = $2
            SELECT b.isbn, b.title, b.pages, b.place, b.year, b.loans
            INSERT INTO books (org_id, isbn, title, pages, search_key, place, year) VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT DO NOTHING
            INSERT INTO books (org_id, isbn, title, pages, search_key, place, year) VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT (org_id, isbn) DO UPDATE SET title = excluded.title, pages = excluded.pages, search_key = excluded.search_key WHERE books.pages IS NULL
            UPDATE books SET title = $3, pages = $4, search_key = $5 WHERE org_id = $1 AND isbn = $2"#]].assert_eq(&texts.join("\n"));
        assert_eq!(table.update_params(), 4);
    }

    #[test]
    fn table_row_survives_a_round_trip() {
        let mut params = Vec::new();
        book().to_params(&mut params).unwrap();
        let text = |text: &str| SqlValue::Text(text.into());
        let (isbn, year) = (SqlValue::Int(7), SqlValue::Int(1965));
        assert_eq!(params, [isbn, text("Dune"), SqlValue::Null, text("dune"), text("London"), year]);

        params.remove(3);
        params.push(SqlValue::Int(3));
        assert_eq!(SqlRow(params).read::<Book>().unwrap(), book());
    }

    #[test]
    fn row_with_too_few_columns_is_an_error() {
        let error = SqlRow(vec![SqlValue::Int(7)]).read::<Book>().unwrap_err();
        assert!(matches!(error, StoreError::Bug(_)));
        assert!(Book::from_row(&mut RowReader::new(SqlRow(Vec::new()))).is_err());
    }
}
