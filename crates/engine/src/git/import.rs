//! Creates the demo repository.

use std::io::{Seek as _, Write as _};
use std::path::Path;
use std::time::Duration;

use super::GitError;
use super::process::{GitCommand, GitProcesses};

/// Timeout of the import. The demo repository has only a few files.
const IMPORT_MAX: Duration = Duration::from_secs(30);

pub fn make_bare(dir: &Path) -> Result<(), GitError> {
    let live = GitProcesses::default();
    GitCommand::without_repository(&live, IMPORT_MAX)
        .args(["init", "--quiet", "--bare"])
        .arg(dir)
        .run()?
        .ok()
        .map(|_| ())
}

/// Imports commits from a stream in the format of `git fast-import`.
pub fn import(dir: &Path, history: &str) -> Result<(), GitError> {
    let io = GitError::io("there is no place for a history");
    let written = tempfile::tempfile().and_then(|mut file| {
        file.write_all(history.as_bytes())?;
        file.rewind()?;
        Ok(file)
    });
    let (live, file) = (GitProcesses::default(), written.map_err(io)?);
    let git =
        GitCommand::in_mirror(&live, IMPORT_MAX, dir).args(["fast-import", "--quiet", "--date-format=now"]);
    git.stdin_file(file).run()?.ok().map(|_| ())
}
