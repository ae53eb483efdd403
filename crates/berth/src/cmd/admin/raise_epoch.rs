//! `berth admin raise-epoch`: recovers from a database that is an older copy or lost acknowledged commits.

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
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let found = args.place.find_present()?;
    // Servers read the epoch at startup, so none may be running.
    let settled = match &found.database {
        None => {
            let dir = DataDir::open(&found.data_dir)?;
            let mut store = Store::open_sqlite(&dir.database())?;
            let settled = settle(&mut store, incarnation::epoch(&dir)?).map_err(told)?;
            // Last, so that a server refuses an interrupted run until this command is repeated.
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
