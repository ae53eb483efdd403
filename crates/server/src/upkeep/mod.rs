//! Operator commands for an installation: backup, restore and verification.

mod after_restore;
pub mod backup;
pub mod manifest;
pub mod restore;
mod restore_note;
pub mod storage;
pub mod verify;
mod verify_objects;

pub use after_restore::{SettleReport, settle};

/// Subdirectories of the data directory that are backed up along with the database.
const KEPT: [&str; 2] = ["logs", "artifacts"];
/// File name of the database, in a backup and in the data directory.
const DATABASE: &str = "berth.db";

#[derive(Debug, thiserror::Error)]
pub enum UpkeepError {
    #[error("{0}")]
    Refused(String),
    #[error("{action} {path}: {source}")]
    Io { action: &'static str, path: String, source: std::io::Error },
    #[error(transparent)]
    Open(#[from] berth_store::OpenError),
    #[error(transparent)]
    Store(#[from] berth_store::StoreError),
    #[error(transparent)]
    Key(#[from] berth_engine::vault::KeyError),
}

impl From<crate::error::AppError> for UpkeepError {
    fn from(error: crate::error::AppError) -> Self {
        match error {
            crate::error::AppError::Store(error) => error.into(),
            crate::error::AppError::Fault(text) => Self::Refused(text),
            crate::error::AppError::Problem(problem) => Self::Refused(problem.detail),
        }
    }
}

/// Returns the parent directory, or `.` for a plain file name.
fn parent(path: &std::path::Path) -> &std::path::Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(std::path::Path::new("."))
}

fn io<'p>(
    action: &'static str,
    path: &'p std::path::Path,
) -> impl FnOnce(std::io::Error) -> UpkeepError + use<'p> {
    move |source| UpkeepError::Io { action, path: path.display().to_string(), source }
}
