//! `berth admin rotate-keys`: replaces the root key.

use std::path::PathBuf;
use std::process::ExitCode;

use berth_engine::vault::{SecretVault, WhenMissing};
use berth_server::admin::{self, AdminRequest, AdminResponse};
use berth_store::Store;
use berth_store::data_dir::DataDir;

use super::InstallationArgs;
use crate::cmd::open_store;
use crate::output::JsonArgs;

#[derive(clap::Args)]
pub(crate) struct RotateKeysArgs {
    #[command(flatten)]
    place: InstallationArgs,
    /// Root key file, if the server is not running [default: DIR/root.key]
    #[arg(long, value_name = "FILE")]
    root_key_file: Option<PathBuf>,
    #[command(flatten)]
    json: JsonArgs,
}

pub(super) fn run(args: &RotateKeysArgs) -> anyhow::Result<ExitCode> {
    let found = args.place.locate_existing()?;
    let database = found.database.as_deref();
    // Servers on a shared database would keep using the old key, so they must be stopped first.
    let asked = if database.is_none() {
        admin::send_request(&found.data_dir, &AdminRequest::RotateKeys)?
    } else {
        None
    };
    let answer = match asked {
        Some(answer) => answer,
        None => {
            let (_dir, store) = match database {
                None => open_store(&found.data_dir, None)?,
                Some(url) => (DataDir::open_alone(&found.data_dir)?, Store::open_postgres(url)?),
            };
            let key = found.root_key_path(args.root_key_file.as_deref());
            let rotated = SecretVault::open(&store, &key, WhenMissing::Refuse)?.rotate(&store)?;
            AdminResponse::Rotated { root_key_id: rotated.root_key_id, data_keys: rotated.data_keys }
        }
    };
    match &answer {
        AdminResponse::Failed(why) => anyhow::bail!("{why}"),
        AdminResponse::ResetLink { .. }
        | AdminResponse::SecondFactorReset
        | AdminResponse::InstanceAdmins { .. } => {
            anyhow::bail!("unexpected response from the server")
        }
        AdminResponse::Rotated { root_key_id, data_keys } => {
            let raw = serde_json::json!({ "rootKeyId": root_key_id, "dataKeys": data_keys });
            args.json.output().print_reply(&raw, || {
                format!(
                    "The root key is now {root_key_id}; re-encrypted {data_keys} data keys. Store a copy of the new key file."
                )
            })?;
        }
    }
    Ok(ExitCode::SUCCESS)
}
