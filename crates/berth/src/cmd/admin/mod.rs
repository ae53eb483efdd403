//! `berth admin`: operator commands; most work with the server running or stopped.

mod backup;
mod copy;
mod doctor;
mod raise_epoch;
mod reset_password;
mod restore;
mod rotate_keys;
mod sql;
mod verify;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use berth_server::upkeep::Settled;
use berth_store::admin::read_only::ReadOnly;

use crate::config::Settings;
use crate::logging;

#[derive(clap::Subcommand)]
pub(crate) enum Command {
    /// Back up to a new directory or a .tar file; the server can keep running
    Backup(backup::Args),
    /// Restore a backup into an empty data directory
    Restore(restore::Args),
    /// Verify the audit log, logs and artifacts
    Verify(verify::Args),
    /// Check whether this machine can run the server
    Doctor(doctor::Args),
    /// Copy the database from SQLite to PostgreSQL or back
    Copy(copy::Args),
    /// Raise fencing tokens above all issued ones, after PostgreSQL was restored or failed over
    RaiseEpoch(raise_epoch::Args),
    /// Create a link to set a new password
    ResetPassword(reset_password::Args),
    /// Create a new root key and re-encrypt the data keys; the server can keep running
    RotateKeys(rotate_keys::Args),
    /// Run a read-only SQL query
    Sql(sql::Args),
}

/// Flags that select an installation.
#[derive(clap::Args)]
struct Place {
    /// Data directory
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// PostgreSQL URL [default: SQLite in the data directory]
    #[arg(long, value_name = "URL")]
    database: Option<String>,
    /// Configuration file
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

/// An installation, with its settings loaded.
struct Found {
    data_dir: PathBuf,
    /// `None`: SQLite in the data directory.
    database: Option<String>,
    settings: Settings,
}

impl Place {
    fn find(&self) -> anyhow::Result<Found> {
        let settings = Settings::load(self.config.as_deref())?;
        logging::start(&settings.log, true);
        let data_dir = self.data_dir.clone().unwrap_or_else(|| settings.data_dir.clone());
        let database = self.database.clone().or_else(|| settings.database.clone());
        Ok(Found { data_dir, database, settings })
    }

    /// Fails if the data directory does not exist.
    fn find_present(&self) -> anyhow::Result<Found> {
        let found = self.find()?;
        let dir = found.data_dir.display();
        anyhow::ensure!(found.data_dir.is_dir(), "data directory {dir} does not exist");
        Ok(found)
    }
}

impl Found {
    fn read_only(&self) -> anyhow::Result<ReadOnly> {
        Ok(match &self.database {
            Some(url) => ReadOnly::postgres(url)?,
            None => {
                let file = self.data_dir.join("berth.db");
                anyhow::ensure!(file.is_file(), "no database at {}", file.display());
                ReadOnly::sqlite(&file)?
            }
        })
    }

    fn root_key(&self, given: Option<&Path>) -> PathBuf {
        let named = given.or(self.settings.root_key_file.as_deref());
        named.map_or_else(|| self.data_dir.join("root.key"), Path::to_owned)
    }
}

pub(crate) fn run(command: &Command) -> anyhow::Result<ExitCode> {
    match command {
        Command::Backup(args) => backup::run(args),
        Command::Restore(args) => restore::run(args),
        Command::Verify(args) => verify::run(args),
        Command::Doctor(args) => doctor::run(args),
        Command::Copy(args) => copy::run(args),
        Command::RaiseEpoch(args) => raise_epoch::run(args),
        Command::ResetPassword(args) => reset_password::run(args),
        Command::RotateKeys(args) => rotate_keys::run(args),
        Command::Sql(args) => sql::run(args),
    }
}

fn settled_json(settled: &Settled) -> serde_json::Value {
    serde_json::json!({
        "epoch": settled.epoch,
        "organizations": settled.organizations,
        "environments": settled.environments,
        "sessionsEnded": settled.sessions,
        "attemptsUnknown": settled.attempts,
        "pipelinesStopped": settled.pipelines,
        "webhooksSilenced": settled.webhooks,
    })
}

fn settled_text(settled: &Settled) -> String {
    format!(
        "Raised to epoch {}. Ended {} sessions; {} running attempts and {} environments have an unknown state.\n\
         Paused {} pipelines and {} webhooks: check what is actually running before you resume them.",
        settled.epoch,
        settled.sessions,
        settled.attempts,
        settled.environments,
        settled.pipelines,
        settled.webhooks,
    )
}
