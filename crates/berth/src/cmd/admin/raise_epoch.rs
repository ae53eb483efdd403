//! `berth admin raise-epoch`: the database is an older copy, or may have lost what it had acknowledged.

use std::process::ExitCode;

use berth_server::upkeep::settle;
use berth_store::Store;
use berth_store::data_dir::DataDir;
use berth_store::incarnation;

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
    let settled = match &found.database {
        None => {
            let dir = DataDir::open(&found.data_dir)?;
            let mut store = Store::open_sqlite(&dir.database())?;
            let settled = settle(&mut store, incarnation::epoch(&dir)?).map_err(told)?;
            // Not before: what was cut short is refused by a server, and done again by this command.
            store.begin_in(&dir)?;
            settled
        }
        Some(url) => {
            let _dir = DataDir::open_alone(&found.data_dir)?;
            settle(&mut Store::open_postgres(url)?, None).map_err(told)?
        }
    };
    say(&if args.json { settled_json(&settled).to_string() } else { settled_text(&settled) })?;
    Ok(ExitCode::SUCCESS)
}
