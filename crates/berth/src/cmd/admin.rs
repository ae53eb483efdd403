//! `berth admin`: what the operator of the machine does, with the server running or not.

use std::path::PathBuf;
use std::process::ExitCode;

use berth_server::admin::{self, Answer, Request};
use berth_server::vault::WhenMissing;
use berth_store::Store;
use berth_store::data_dir::DataDir;

use super::{open_vault, say};
use crate::config::Settings;
use crate::logging;

#[derive(clap::Subcommand)]
pub(crate) enum Command {
    /// Make a new root key and wrap everything by it; the server may go on running
    RotateKeys(Args),
}

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Where Berth keeps its data
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// Address of a PostgreSQL database [default: SQLite in the data directory]
    #[arg(long, value_name = "URL")]
    database: Option<String>,
    /// File with the root key, if the server is not running [default: DIR/root.key]
    #[arg(long, value_name = "FILE")]
    root_key_file: Option<PathBuf>,
    /// Configuration file
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(command: &Command) -> anyhow::Result<ExitCode> {
    let Command::RotateKeys(args) = command;
    let settings = Settings::load(args.config.as_deref())?;
    logging::start(&settings.log, true);
    let data_dir = args.data_dir.as_deref().unwrap_or(&settings.data_dir);
    anyhow::ensure!(data_dir.is_dir(), "there is no data directory at {}", data_dir.display());
    let database = args.database.as_deref().or(settings.database.as_deref());
    // Servers that share a database would not all hear of it: there they are stopped first.
    let asked = if database.is_none() { admin::ask(data_dir, Request::RotateKeys)? } else { None };
    let answer = match asked {
        Some(answer) => answer,
        None => {
            let dir = DataDir::open(data_dir)?;
            let store = match database {
                None => Store::open_sqlite(&dir.database())?,
                Some(url) => Store::open_postgres(url)?,
            };
            let key = args.root_key_file.as_deref().or(settings.root_key_file.as_deref());
            let vault = open_vault(&store, &dir, key, WhenMissing::Refuse)?;
            let rotated = vault.rotate(&store)?;
            Answer::Rotated { root_key_id: rotated.root_key_id, data_keys: rotated.data_keys }
        }
    };
    match &answer {
        Answer::Failed(why) => anyhow::bail!("{why}"),
        Answer::Rotated { root_key_id, data_keys } => {
            say(&if args.json {
                serde_json::json!({ "rootKeyId": root_key_id, "dataKeys": data_keys }).to_string()
            } else {
                format!(
                    "The root key is now {root_key_id}; {data_keys} data keys were wrapped anew. Keep a copy of the new file."
                )
            })?;
        }
    }
    Ok(ExitCode::SUCCESS)
}
