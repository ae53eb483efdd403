//! The commands, one module each.

pub(crate) mod admin;
pub(crate) mod agents;
pub(crate) mod analyze;
pub(crate) mod approval;
mod artifacts;
pub(crate) mod chat;
mod commit;
pub(crate) mod demo;
pub(crate) mod deployment;
pub(crate) mod env;
pub(crate) mod event;
pub(crate) mod grant;
pub(crate) mod inbox;
pub(crate) mod init;
pub(crate) mod insights;
pub(crate) mod login;
pub(crate) mod logs;
pub(crate) mod mcp;
pub(crate) mod member;
pub(crate) mod open;
pub(crate) mod org;
pub(crate) mod pipeline;
pub(crate) mod pull_request;
mod reference;
pub(crate) mod registry;
pub(crate) mod repo;
mod repo_apps;
mod repo_connection;
pub(crate) mod run;
pub(crate) mod runner;
pub(crate) mod secret;
pub(crate) mod serve;
pub(crate) mod shell;
mod signals;
mod soak;
pub(crate) mod team;
pub(crate) mod token;
pub(crate) mod upgrade;
mod watch;
pub(crate) mod webhook;
pub(crate) mod whoami;

use anyhow::Context as _;
use berth_engine::vault::{SecretVault, WhenMissing};
use berth_server::error::AppError;
use berth_store::Store;
use berth_store::data_dir::DataDir;
use rustix::process::{Resource, Rlimit, setrlimit};

use crate::output::print_line;

/// Converts an application error into one for the terminal.
fn to_cli_error(error: AppError) -> anyhow::Error {
    match error {
        AppError::Store(error) => error.into(),
        AppError::Fault(text) => anyhow::anyhow!(text),
        AppError::Problem(problem) => anyhow::anyhow!(problem.detail),
    }
}

/// Opens the data directory and its SQLite database, or a PostgreSQL database that other servers may share.
fn open_store(data_dir: &std::path::Path, database: Option<&str>) -> anyhow::Result<(DataDir, Store)> {
    match database {
        None => {
            let dir = DataDir::open(data_dir)?;
            let store = Store::open_in(&dir);
            let store = store.with_context(|| format!("cannot open {}", dir.database().display()))?;
            Ok((dir, store))
        }
        Some(url) => Ok((DataDir::open_shared(data_dir)?, Store::open_postgres(url)?)),
    }
}

fn root_key_path(dir: &DataDir, given: Option<&std::path::Path>) -> std::path::PathBuf {
    given.map_or_else(|| dir.path().join("root.key"), std::path::Path::to_owned)
}

fn open_vault(
    store: &Store,
    dir: &DataDir,
    key: Option<&std::path::Path>,
    missing: WhenMissing,
) -> anyhow::Result<SecretVault> {
    Ok(SecretVault::open(store, &root_key_path(dir, key), missing)?)
}

/// Keeps keys and secret values out of core dumps.
pub(crate) fn disable_core_dumps() {
    let none = Rlimit { current: Some(0), maximum: Some(0) };
    if let Err(error) = setrlimit(Resource::Core, none) {
        tracing::warn!(%error, "cannot disable core dumps");
    }
}
