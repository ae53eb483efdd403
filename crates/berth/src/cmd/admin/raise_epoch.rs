//! `berth admin raise-epoch`: makes a database usable again after it was replaced with an older copy or lost
//! acknowledged commits.

use std::process::ExitCode;

use berth_server::upkeep::settle;
use berth_store::Store;
use berth_store::data_dir::DataDir;
use berth_store::incarnation;

use super::{InstallationArgs, recovery_json, recovery_text};
use crate::cmd::to_cli_error;
use crate::output::JsonArgs;

#[derive(clap::Args)]
pub(crate) struct RaiseEpochArgs {
    #[command(flatten)]
    place: InstallationArgs,
    #[command(flatten)]
    json: JsonArgs,
}

pub(super) fn run(args: &RaiseEpochArgs) -> anyhow::Result<ExitCode> {
    let found = args.place.locate_existing()?;
    // No server may be running, because servers read the epoch only at startup.
    let settled = match &found.database {
        None => {
            let dir = DataDir::open(&found.data_dir)?;
            let mut store = Store::open_sqlite(&dir.database())?;
            let settled = settle(&mut store, incarnation::stored_epoch(&dir)?).map_err(to_cli_error)?;
            // Must come last, so that after an interruption of this command servers refuse to start until it is run
            // again.
            store.begin_in(&dir)?;
            settled
        }
        Some(url) => {
            let _dir = DataDir::open_alone(&found.data_dir)?;
            settle(&mut Store::open_postgres(url)?, None).map_err(to_cli_error)?
        }
    };
    args.json.output().print_reply(&recovery_json(&settled), || recovery_text(&settled))?;
    Ok(ExitCode::SUCCESS)
}
