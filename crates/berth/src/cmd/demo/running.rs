//! The file `demo.json` in a demo's data directory, which `berth demo` uses to find a running demo. Only its owner can
//! read it.

use std::io::{Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use rustix::fs::OFlags;
use rustix::process::{Pid, geteuid, test_kill_process};
use serde::{Deserialize, Serialize};

use crate::client::{ApiClient, ServerLogin};

pub(super) const PREFIX: &str = "berth-demo-";
const FILE: &str = "demo.json";
const FILE_BYTES_MAX: u64 = 16 * 1024;
const OPEN_FLAGS: i32 = OFlags::NOFOLLOW.union(OFlags::NONBLOCK).bits().cast_signed();
/// Maximum number of data directories to check.
const DEMOS_MAX: usize = 100;

#[derive(Serialize, Deserialize)]
pub(super) struct RunningDemo {
    /// Process id of the supervisor.
    pub(super) keeper: u32,
    pub(super) login: ServerLogin,
    #[serde(skip)]
    dir: PathBuf,
}

impl RunningDemo {
    pub(super) fn write(dir: &Path, login: ServerLogin) -> anyhow::Result<()> {
        let known = Self { keeper: std::process::id(), login, dir: dir.to_owned() };
        let path = dir.join(FILE);
        let file = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path);
        let written = file.and_then(|mut file| file.write_all(serde_json::to_string(&known)?.as_bytes()));
        written.with_context(|| format!("cannot write {}", path.display()))
    }

    /// Finds this user's running demo. If there are several, `address` selects one.
    pub(super) fn find(address: Option<&str>) -> anyhow::Result<Self> {
        let temp = std::env::temp_dir();
        let entries = std::fs::read_dir(&temp).with_context(|| format!("cannot read {}", temp.display()))?;
        let named = entries.flatten().filter(|it| it.file_name().to_string_lossy().starts_with(PREFIX));
        let dirs = named.map(|it| it.path()).filter(|it| is_own_dir(it)).take(DEMOS_MAX);
        let mut found: Vec<Self> = dirs.filter_map(|it| Self::read(&it)).collect();
        if let Some(address) = address {
            found.retain(|it| it.login.server == address.trim_end_matches('/'));
        }
        let count = found.len();
        match (found.pop(), count) {
            (Some(only), 1) => Ok(only),
            (None, _) => anyhow::bail!("no demo is running; start one with `berth serve --demo`"),
            _ => {
                anyhow::bail!("{count} demos are running; choose one with --server http://127.0.0.1:PORT")
            }
        }
    }

    fn read(dir: &Path) -> Option<Self> {
        let file = std::fs::OpenOptions::new().read(true).custom_flags(OPEN_FLAGS).open(dir.join(FILE));
        let file = file.ok().filter(|it| it.metadata().is_ok_and(|it| it.is_file()))?;
        let mut text = String::new();
        file.take(FILE_BYTES_MAX).read_to_string(&mut text).ok()?;
        let known: Self = serde_json::from_str(&text).ok()?;
        test_kill_process(parse_pid(known.keeper)?).ok()?;
        Some(Self { dir: dir.to_owned(), ..known })
    }

    pub(super) fn client(&self) -> ApiClient {
        ApiClient::new(self.login.clone())
    }

    /// Returns the server's process id from the lock file of the data directory.
    pub(super) fn server_pid(&self) -> anyhow::Result<Pid> {
        let path = self.dir.join("berth.lock");
        let text =
            std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        text.trim().parse().ok().and_then(parse_pid).context("the demo's server is restarting; try again")
    }
}

/// Returns whether this user owns the directory. Another user could have created one with the expected name in the
/// temporary directory.
fn is_own_dir(path: &Path) -> bool {
    path.symlink_metadata().is_ok_and(|it| it.is_dir() && it.uid() == geteuid().as_raw())
}

fn parse_pid(number: u32) -> Option<Pid> {
    i32::try_from(number).ok().and_then(Pid::from_raw)
}
