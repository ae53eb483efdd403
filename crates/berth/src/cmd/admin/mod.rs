//! `berth admin`: what the operator of the machine does, with the server running or not.

mod backup;
mod copy;
mod doctor;
mod raise_epoch;
mod reset_password;
mod restore;
mod rotate;
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
    /// Copy everything into a new directory or a .tar file; the server may go on running
    Backup(backup::Args),
    /// Make a data directory of a backup, in an empty place
    Restore(restore::Args),
    /// Look whether histories, logs and artifacts are as they were written
    Verify(verify::Args),
    /// Look whether this machine is fit to serve, and say what to do
    Doctor(doctor::Args),
    /// Move everything from SQLite to PostgreSQL, or back
    Copy(copy::Args),
    /// After PostgreSQL was restored or failed over: let fences rise above all that were given
    RaiseEpoch(raise_epoch::Args),
    /// Make a link with which a person sets a new password
    ResetPassword(reset_password::Args),
    /// Make a new root key and wrap everything by it; the server may go on running
    RotateKeys(rotate::Args),
    /// Ask the database a question; it cannot be changed this way
    Sql(sql::Args),
}

/// Which installation is meant.
#[derive(clap::Args)]
struct Place {
    /// Where Berth keeps its data
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// Address of a PostgreSQL database [default: SQLite in the data directory]
    #[arg(long, value_name = "URL")]
    database: Option<String>,
    /// Configuration file
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

/// The same, with what the settings say.
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

    /// For commands that need one.
    fn find_present(&self) -> anyhow::Result<Found> {
        let found = self.find()?;
        let dir = found.data_dir.display();
        anyhow::ensure!(found.data_dir.is_dir(), "there is no data directory at {dir}");
        Ok(found)
    }
}

impl Found {
    fn read_only(&self) -> anyhow::Result<ReadOnly> {
        Ok(match &self.database {
            Some(url) => ReadOnly::postgres(url)?,
            None => {
                let file = self.data_dir.join("berth.db");
                anyhow::ensure!(file.is_file(), "there is no database at {}", file.display());
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
        Command::RotateKeys(args) => rotate::run(args),
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
        "Fences begin at epoch {} now. {} sessions ended, {} running attempts are unknown, {} environments are in an \
         unknown state.\n{} pipelines are stopped and {} webhooks are silent until somebody resumes them: look first at \
         what really runs.",
        settled.epoch,
        settled.sessions,
        settled.attempts,
        settled.environments,
        settled.pipelines,
        settled.webhooks,
    )
}
