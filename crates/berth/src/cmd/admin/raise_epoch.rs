//! `berth admin raise-epoch`: the database is an older copy, or may have lost what it had acknowledged.

use std::process::ExitCode;

use berth_server::upkeep::settle;
use berth_store::Store;
use berth_store::data_dir::DataDir;

use super::{Place, settled_json, settled_text};
use crate::cmd::{say, told};

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    place: Place,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let found = args.place.find_present()?;
    // Servers know the epoch from their start: none may be running.
    let (_dir, mut store) = match &found.database {
        None => {
            let dir = DataDir::open(&found.data_dir)?;
            let store = Store::adopt_in(&dir)?;
            (dir, store)
        }
        Some(url) => (DataDir::open_alone(&found.data_dir)?, Store::open_postgres(url)?),
    };
    let settled = settle(&mut store).map_err(told)?;
    say(&if args.json { settled_json(&settled).to_string() } else { settled_text(&settled) })?;
    Ok(ExitCode::SUCCESS)
}
