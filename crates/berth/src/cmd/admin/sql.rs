//! `berth admin sql --read-only`: a question to the database, which the engine itself does not let change anything.

use std::process::ExitCode;

use serde_json::{Map, Value};

use super::Place;
use crate::output::{Output, note};

/// Rows shown, unless fewer are asked for.
const ROWS_MAX: u32 = 10_000;

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    place: Place,
    /// Says that you know: nothing can be changed this way
    #[arg(long, required = true)]
    read_only: bool,
    /// At most so many rows
    #[arg(long, value_name = "COUNT", default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(1..=i64::from(ROWS_MAX)))]
    rows: u32,
    /// Print a list of JSON objects
    #[arg(long)]
    json: bool,
    /// One SELECT
    question: String,
}

pub(super) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let found = args.place.find_present()?;
    let table = found.read_only()?.sql(&args.question, usize::try_from(args.rows)?)?;
    let object = |row: &Vec<Option<String>>| {
        let cells = row.iter().map(|cell| cell.clone().map_or(Value::Null, Value::String));
        Value::Object(table.columns.iter().cloned().zip(cells).collect::<Map<_, _>>())
    };
    let raw = Value::Array(table.rows.iter().map(object).collect());
    let shown = |row: &Vec<Option<String>>| row.iter().map(|cell| cell.clone().unwrap_or_default()).collect();
    let heading: Vec<&str> = table.columns.iter().map(String::as_str).collect();
    let rows: Vec<_> = table.rows.iter().map(shown).collect();
    Output::new(args.json).table(&raw, &heading, &rows, "no rows")?;
    if table.has_more {
        note(&format!("There are more than {} rows; ask for more with --rows, or for less.", args.rows));
    }
    Ok(ExitCode::SUCCESS)
}
