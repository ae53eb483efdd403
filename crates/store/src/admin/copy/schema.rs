//! Lists the tables of the SQLite database. A table comes after all tables that its foreign keys reference.

use std::collections::BTreeSet;

use rusqlite::Connection;

pub(super) struct CopyTable {
    pub(super) name: String,
    pub(super) columns: Vec<String>,
    /// The columns of the primary key. Rows are read in the order of this key.
    key: Vec<String>,
    points_at: BTreeSet<String>,
}

impl CopyTable {
    pub(super) fn select(&self) -> String {
        format!("SELECT {} FROM {} ORDER BY {}", self.columns.join(", "), self.name, self.key.join(", "))
    }

    /// An `INSERT` of several rows. `sign` is the character in front of a parameter number: `?` or `$`.
    pub(super) fn insert(&self, rows: usize, sign: &str) -> String {
        let width = self.columns.len();
        let row = |at: usize| {
            let cells: Vec<String> = (1..=width).map(|cell| format!("{sign}{}", at * width + cell)).collect();
            format!("({})", cells.join(", "))
        };
        let rows: Vec<String> = (0..rows).map(row).collect();
        format!("INSERT INTO {} ({}) VALUES {}", self.name, self.columns.join(", "), rows.join(", "))
    }
}

/// All tables except the migration history, in an order in which they can be filled without violating foreign keys.
pub(super) fn list_tables(db: &Connection) -> rusqlite::Result<Vec<CopyTable>> {
    let text = "SELECT name FROM sqlite_master WHERE type = 'table' AND name <> 'schema_migrations'
        AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' ORDER BY name";
    let mut query = db.prepare(text)?;
    let names = query.query_map([], |row| row.get::<_, String>(0))?;
    let mut waiting = names.map(|name| describe_table(db, name?)).collect::<rusqlite::Result<Vec<_>>>()?;
    let mut sorted: Vec<CopyTable> = Vec::new();
    while !waiting.is_empty() {
        let (ready, rest): (Vec<_>, Vec<_>) = waiting.into_iter().partition(|table| {
            table.points_at.iter().all(|other| sorted.iter().any(|sorted| sorted.name == *other))
        });
        assert!(!ready.is_empty(), "tables reference each other");
        sorted.extend(ready);
        waiting = rest;
    }
    Ok(sorted)
}

fn describe_table(db: &Connection, name: String) -> rusqlite::Result<CopyTable> {
    let mut columns = Vec::new();
    let mut key: Vec<(i64, String)> = Vec::new();
    let mut query = db.prepare("SELECT name, pk FROM pragma_table_info(?1) ORDER BY cid")?;
    let mut rows = query.query([&name])?;
    while let Some(row) = rows.next()? {
        let (column, place): (String, i64) = (row.get(0)?, row.get(1)?);
        if place > 0 {
            key.push((place, column.clone()));
        }
        columns.push(column);
    }
    key.sort();
    let mut query = db.prepare("SELECT DISTINCT \"table\" FROM pragma_foreign_key_list(?1)")?;
    let others = query
        .query_map([&name], |row| row.get::<_, String>(0))?
        .collect::<rusqlite::Result<BTreeSet<_>>>()?;
    let points_at = others.into_iter().filter(|other| *other != name).collect();
    Ok(CopyTable { name, columns, key: key.into_iter().map(|(_, column)| column).collect(), points_at })
}
