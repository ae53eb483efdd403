//! `berth admin`: operator commands; most work with the server running or stopped.

mod backup;
mod copy;
mod doctor;
mod instance_admin;
mod raise_epoch;
mod reset_password;
mod reset_second_factor;
mod restore;
mod rotate_keys;
mod sql;
mod storage;
mod verify;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use berth_server::upkeep::SettleReport;
use berth_store::admin::read_only::ReadOnly;

use crate::config::ServerSettings;
use crate::logging;

#[derive(clap::Subcommand)]
pub(crate) enum AdminCommand {
    /// Back up to a new directory or a .tar file; the server can keep running
    Backup(backup::BackupArgs),
    /// Restore a backup into an empty data directory
    Restore(restore::RestoreArgs),
    /// Verify the audit log, logs and artifacts
    Verify(verify::VerifyArgs),
    /// Check whether this machine can run the server
    Doctor(doctor::DoctorArgs),
    /// Copy the database from SQLite to PostgreSQL or back
    Copy(copy::CopyArgs),
    /// Add or remove a person who may create, rename and delete organizations
    InstanceAdmin(instance_admin::InstanceAdminArgs),
    /// Raise fencing tokens above all issued ones, after PostgreSQL was restored or failed over
    RaiseEpoch(raise_epoch::RaiseEpochArgs),
    /// Create a link to set a new password
    ResetPassword(reset_password::ResetPasswordArgs),
    /// Remove the second factor of a user who has lost it
    ResetSecondFactor(reset_second_factor::ResetSecondFactorArgs),
    /// Create a new root key and re-encrypt the data keys; the server can keep running
    RotateKeys(rotate_keys::RotateKeysArgs),
    /// Run a read-only SQL query
    Sql(sql::SqlArgs),
    /// Move logs and artifacts to object storage, and confirm its use after a restore
    #[command(subcommand)]
    Storage(storage::StorageCommand),
}

/// Flags that select an installation.
#[derive(clap::Args)]
pub(super) struct InstallationArgs {
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
pub(super) struct LocatedInstallation {
    pub(super) data_dir: PathBuf,
    /// `None`: SQLite in the data directory.
    pub(super) database: Option<String>,
    settings: ServerSettings,
}

impl InstallationArgs {
    pub(super) fn locate(&self) -> anyhow::Result<LocatedInstallation> {
        let settings = ServerSettings::load(self.config.as_deref())?;
        logging::start(&settings.log, true);
        let data_dir = self.data_dir.clone().unwrap_or_else(|| settings.data_dir.clone());
        let database = self.database.clone().or_else(|| settings.database.clone());
        Ok(LocatedInstallation { data_dir, database, settings })
    }

    /// Fails if the data directory does not exist.
    fn locate_existing(&self) -> anyhow::Result<LocatedInstallation> {
        let found = self.locate()?;
        let dir = found.data_dir.display();
        anyhow::ensure!(found.data_dir.is_dir(), "data directory {dir} does not exist");
        Ok(found)
    }
}

impl LocatedInstallation {
    fn open_read_only(&self) -> anyhow::Result<ReadOnly> {
        Ok(match &self.database {
            Some(url) => ReadOnly::postgres(url)?,
            None => {
                let file = self.data_dir.join("berth.db");
                anyhow::ensure!(file.is_file(), "no database at {}", file.display());
                ReadOnly::sqlite(&file)?
            }
        })
    }

    fn root_key_path(&self, given: Option<&Path>) -> PathBuf {
        let named = given.or(self.settings.root_key_file.as_deref());
        named.map_or_else(|| self.data_dir.join("root.key"), Path::to_owned)
    }
}

pub(crate) fn run(command: &AdminCommand) -> anyhow::Result<ExitCode> {
    match command {
        AdminCommand::Backup(args) => backup::run(args),
        AdminCommand::Restore(args) => restore::run(args),
        AdminCommand::Verify(args) => verify::run(args),
        AdminCommand::Doctor(args) => doctor::run(args),
        AdminCommand::Copy(args) => copy::run(args),
        AdminCommand::InstanceAdmin(args) => instance_admin::run(args),
        AdminCommand::RaiseEpoch(args) => raise_epoch::run(args),
        AdminCommand::ResetPassword(args) => reset_password::run(args),
        AdminCommand::ResetSecondFactor(args) => reset_second_factor::run(args),
        AdminCommand::RotateKeys(args) => rotate_keys::run(args),
        AdminCommand::Sql(args) => sql::run(args),
        AdminCommand::Storage(command) => storage::run(command),
    }
}

fn recovery_json(settled: &SettleReport) -> serde_json::Value {
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

fn recovery_text(settled: &SettleReport) -> String {
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
