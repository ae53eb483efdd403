//! The runner's credential, stored in a file that only the runner's user can read.

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use berth_api::runner::SecretText;
use serde::{Deserialize, Serialize};

const NAME: &str = "credential.json";
const BYTES_MAX: u64 = 64 * 1024;

/// The credential that the server returned when the runner was registered.
#[derive(Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunnerCredential {
    /// URL of the server. The credential is sent to this server only.
    pub server: String,
    pub runner_id: String,
    pub name: String,
    pub credential: SecretText,
}

impl fmt::Debug for RunnerCredential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credential")
            .field("server", &self.server)
            .field("runner_id", &self.runner_id)
            .finish()
    }
}

impl RunnerCredential {
    /// Loads the credential. Returns `None` if the runner is not registered.
    pub fn load(work_dir: &Path) -> io::Result<Option<Self>> {
        let file = match File::open(work_dir.join(NAME)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            file => file?,
        };
        let mut text = String::new();
        file.take(BYTES_MAX).read_to_string(&mut text)?;
        Ok(Some(serde_json::from_str(&text)?))
    }

    /// Saves the credential durably (write, fsync, rename), with read permission for the owner only.
    pub fn save(&self, work_dir: &Path) -> io::Result<()> {
        let fresh = work_dir.join("credential.new");
        if let Err(error) = std::fs::remove_file(&fresh)
            && error.kind() != io::ErrorKind::NotFound
        {
            return Err(error);
        }
        let mut file = OpenOptions::new().create_new(true).write(true).mode(0o600).open(&fresh)?;
        file.write_all(serde_json::to_string_pretty(self)?.as_bytes())?;
        file.sync_all()?;
        std::fs::rename(&fresh, work_dir.join(NAME))?;
        File::open(work_dir)?.sync_all()
    }
}
