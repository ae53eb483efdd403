//! The commands, a file each.

pub(crate) mod admin;
pub(crate) mod event;
pub(crate) mod init;
pub(crate) mod pipeline;
mod plan_text;
pub(crate) mod registry;
pub(crate) mod runner;
pub(crate) mod serve;

use std::io::Write as _;

use anyhow::Context as _;
use berth_server::error::AppError;
use berth_server::vault::{Vault, WhenMissing};
use berth_store::Store;
use berth_store::data_dir::DataDir;

/// A use case's refusal, in words for the terminal.
fn told(error: AppError) -> anyhow::Error {
    match error {
        AppError::Store(error) => error.into(),
        AppError::Fault(text) => anyhow::anyhow!(text),
        AppError::Problem(problem) => anyhow::anyhow!(problem.detail),
    }
}

/// Prints to standard output; a reader that has gone away is an error, not a panic.
fn say(text: &str) -> anyhow::Result<()> {
    writeln!(std::io::stdout().lock(), "{text}").context("cannot print")
}

fn open_store(dir: &DataDir) -> anyhow::Result<Store> {
    Store::open_sqlite(&dir.database()).with_context(|| format!("cannot open {}", dir.database().display()))
}

fn key_path(dir: &DataDir, given: Option<&std::path::Path>) -> std::path::PathBuf {
    given.map_or_else(|| dir.path().join("root.key"), std::path::Path::to_owned)
}

fn open_vault(
    store: &Store,
    dir: &DataDir,
    key: Option<&std::path::Path>,
    missing: WhenMissing,
) -> anyhow::Result<Vault> {
    Ok(Vault::open(store, &key_path(dir, key), missing)?)
}
