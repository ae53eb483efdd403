//! `berth admin rotate-keys`: replaces the root key.

use std::path::PathBuf;
use std::process::ExitCode;

use berth_engine::vault::{SecretVault, WhenMissing};
use berth_server::admin::{self, Answer, Request};
use berth_store::Store;
use berth_store::data_dir::DataDir;

use super::Place;
use crate::cmd::{open, say};

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    place: Place,
    /// Root key file, if the server is not running [default: DIR/root.key]
    #[arg(long, value_name = "FILE")]
    root_key_file: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let found = args.place.find_present()?;
    let database = found.database.as_deref();
    // Servers on a shared database would keep using the old key, so they have to be stopped.
    let asked = if database.is_none() { admin::ask(&found.data_dir, &Request::RotateKeys)? } else { None };
    let answer = match asked {
        Some(answer) => answer,
        None => {
            let (_dir, store) = match database {
                None => open(&found.data_dir, None)?,
                Some(url) => (DataDir::open_alone(&found.data_dir)?, Store::open_postgres(url)?),
            };
            let key = found.root_key(args.root_key_file.as_deref());
            let rotated = SecretVault::open(&store, &key, WhenMissing::Refuse)?.rotate(&store)?;
            Answer::Rotated { root_key_id: rotated.root_key_id, data_keys: rotated.data_keys }
        }
    };
    match &answer {
        Answer::Failed(why) => anyhow::bail!("{why}"),
        Answer::ResetLink { .. } => anyhow::bail!("unexpected response from the server"),
        Answer::Rotated { root_key_id, data_keys } => {
            say(&if args.json {
                serde_json::json!({ "rootKeyId": root_key_id, "dataKeys": data_keys }).to_string()
            } else {
                format!(
                    "The root key is now {root_key_id}; re-encrypted {data_keys} data keys. Store a copy of the new key file."
                )
            })?;
        }
    }
    Ok(ExitCode::SUCCESS)
}
