//! SQL text composed at compile time.
//!
//! [`Table`] holds a table's columns. Its methods are `const`, so a statement that lists them is still a constant: see
//! `statements!` in [`super`].

const BYTES_MAX: usize = 4_096;

/// Columns by field: most fields have one column, some have several.
pub type Columns = &'static [&'static [&'static str]];

/// The columns of a table, declared with `table!`.
#[derive(Debug, Clone, Copy)]
pub struct Table {
    pub name: &'static str,
    /// Whether rows belong to an organization: then `org_id` is the first key column and `$1`.
    pub has_org: bool,
    /// The conflict target of an upsert, without `org_id`.
    pub key: Columns,
    /// Columns that an update or an upsert overwrites.
    pub update: Columns,
    /// Columns that follow from others and are written only, such as search keys.
    pub derived: Columns,
    /// Columns that never change after the insert.
    pub insert: Columns,
    /// Columns that other statements write.
    pub read: Columns,
}

/// What is written for each column of a list.
#[derive(Clone, Copy)]
enum Item {
    /// `alias.column`, or `column` without an alias.
    Name(&'static str),
    /// `$n`
    Param,
    /// `column = $n`
    Set,
    /// `column = excluded.column`
    Excluded,
}

impl Table {
    /// The columns in the order in which the table's type reads them; `alias` may be empty.
    pub const fn columns(&self, alias: &'static str) -> SqlText {
        SqlText::EMPTY.list(&[self.key, self.update, self.insert, self.read], Item::Name(alias), ", ", 0)
    }

    /// `SELECT <columns> FROM <table> <rest>`
    pub const fn select(&self, rest: &str) -> SqlText {
        SqlText::EMPTY.then("SELECT ").then_text(&self.columns("")).then(" FROM ").then(self.name).then(" ").then(rest)
    }

    /// `INSERT INTO <table> (<columns>) VALUES (<parameters>) <rest>`, with parameters in the order of `ToParams`.
    pub const fn insert(&self, rest: &str) -> SqlText {
        let columns = [self.key, self.update, self.derived, self.insert];
        let (org, first, start) = if self.has_org { ("org_id", "$1", 1) } else { ("", "", 0) };
        let text = SqlText::EMPTY.then("INSERT INTO ").then(self.name).then(" (").then(org);
        let text = text.list(&columns, Item::Name(""), ", ", start).then(") VALUES (").then(first);
        text.list(&columns, Item::Param, ", ", start).then(") ").then(rest)
    }

    /// An insert that overwrites the `update` and `derived` columns of a row with the same key. `rest` may add a condition.
    pub const fn upsert(&self, rest: &str) -> SqlText {
        let (org, start) = if self.has_org { ("org_id", 1) } else { ("", 0) };
        let text = self.insert("ON CONFLICT (").then(org).list(&[self.key], Item::Name(""), ", ", start);
        let text = text.then(") DO UPDATE SET ").list(&[self.update, self.derived], Item::Excluded, ", ", 0);
        text.then(" ").then(rest)
    }

    /// `UPDATE <table> SET <update> WHERE <key> <rest>`. Its parameters are the first ones of the insert.
    pub const fn update(&self, rest: &str) -> SqlText {
        let (org, start) = if self.has_org { ("org_id = $1", 1) } else { ("", 0) };
        let text = SqlText::EMPTY.then("UPDATE ").then(self.name).then(" SET ");
        let set = text.list_from(&[self.update], Item::Set, ", ", 0, start + count(self.key));
        set.then(" WHERE ").then(org).list(&[self.key], Item::Set, " AND ", start).then(" ").then(rest)
    }

    /// How many values of `ToParams` an [`update`](Table::update) takes.
    pub const fn update_params(&self) -> usize {
        count(self.key) + count(self.update)
    }
}

const fn count(columns: Columns) -> usize {
    let (mut field, mut total) = (0, 0);
    while field < columns.len() {
        total += columns[field].len();
        field += 1;
    }
    total
}

/// SQL under construction.
#[derive(Debug, Clone, Copy)]
pub struct SqlText {
    bytes: [u8; BYTES_MAX],
    len: usize,
}

impl SqlText {
    pub const EMPTY: Self = Self { bytes: [0; BYTES_MAX], len: 0 };

    pub const fn len(&self) -> usize {
        self.len
    }

    #[must_use]
    pub const fn then(mut self, text: &str) -> Self {
        let mut at = 0;
        while at < text.len() {
            self.bytes[self.len] = text.as_bytes()[at];
            self.len += 1;
            at += 1;
        }
        self
    }

    #[must_use]
    pub const fn then_text(mut self, text: &SqlText) -> Self {
        let mut at = 0;
        while at < text.len {
            self.bytes[self.len] = text.bytes[at];
            self.len += 1;
            at += 1;
        }
        self
    }

    const fn then_number(self, number: usize) -> Self {
        let digit = "0123456789".split_at(number % 10).1.split_at(1).0;
        if number < 10 { self.then(digit) } else { self.then_number(number / 10).then(digit) }
    }

    /// A list that continues one with `start` items; the next parameter is `$start + 1`.
    const fn list(self, lists: &[Columns], item: Item, separator: &str, start: usize) -> Self {
        self.list_from(lists, item, separator, start, start)
    }

    const fn list_from(mut self, lists: &[Columns], item: Item, separator: &str, start: usize, params: usize) -> Self {
        let (mut list, mut items) = (0, 0);
        while list < lists.len() {
            let mut field = 0;
            while field < lists[list].len() {
                let mut at = 0;
                while at < lists[list][field].len() {
                    let column = lists[list][field][at];
                    self = if start + items > 0 { self.then(separator) } else { self };
                    self = match item {
                        Item::Name("") => self.then(column),
                        Item::Name(alias) => self.then(alias).then(".").then(column),
                        Item::Param => self.then("$").then_number(params + items + 1),
                        Item::Set => self.then(column).then(" = $").then_number(params + items + 1),
                        Item::Excluded => self.then(column).then(" = excluded.").then(column),
                    };
                    items += 1;
                    at += 1;
                }
                field += 1;
            }
            list += 1;
        }
        self
    }

    /// The text without the unused part of the buffer; `N` is its length.
    pub const fn trim<const N: usize>(&self) -> [u8; N] {
        let (mut bytes, mut at) = ([0; N], 0);
        while at < N {
            bytes[at] = self.bytes[at];
            at += 1;
        }
        bytes
    }
}
