//! `berth admin sql --read-only`: runs a query on a connection that cannot write.

use std::process::ExitCode;

use serde_json::{Map, Value};

use super::InstallationArgs;
use crate::output::{JsonArgs, print_note};

/// Maximum value of `--rows`.
const ROWS_MAX: u32 = 10_000;

#[derive(clap::Args)]
pub(crate) struct SqlArgs {
    #[command(flatten)]
    place: InstallationArgs,
    /// Confirm that the query is read-only
    #[arg(long, required = true)]
    read_only: bool,
    /// Maximum number of rows
    #[arg(long, value_name = "COUNT", default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(1..=i64::from(ROWS_MAX)))]
    rows: u32,
    #[command(flatten)]
    json: JsonArgs,
    /// SELECT statement
    question: String,
}

pub(super) fn run(args: &SqlArgs) -> anyhow::Result<ExitCode> {
    let found = args.place.locate_existing()?;
    let table = found.open_read_only()?.sql(&args.question, usize::try_from(args.rows)?)?;
    let object = |row: &Vec<Option<String>>| {
        let cells = row.iter().map(|cell| cell.clone().map_or(Value::Null, Value::String));
        Value::Object(table.columns.iter().cloned().zip(cells).collect::<Map<_, _>>())
    };
    let raw = Value::Array(table.rows.iter().map(object).collect());
    let shown = |row: &Vec<Option<String>>| row.iter().map(|cell| cell.clone().unwrap_or_default()).collect();
    let heading: Vec<&str> = table.columns.iter().map(String::as_str).collect();
    let rows: Vec<_> = table.rows.iter().map(shown).collect();
    args.json.output().print_table(&raw, &heading, &rows, "No rows")?;
    if table.has_more {
        print_note(&format!("More than {} rows; increase --rows or narrow the query.", args.rows));
    }
    Ok(ExitCode::SUCCESS)
}
