//! The manifest of a backup.

use std::io::{self, Read};

use aws_lc_rs::digest::{Context, SHA256};
use serde::{Deserialize, Serialize};

/// Name of the manifest in the backup. The manifest is written last, so an interrupted backup has none.
pub const FILE: &str = "manifest.json";
/// Version of the backup format. Incremented when older versions of Berth cannot restore the new backups.
pub const FORMAT: u32 = 1;
/// Maximum number of files in one backup.
pub const FILES_MAX: usize = 4_000_000;
/// Maximum size of the manifest, which is read into memory.
pub const MANIFEST_BYTES_MAX: u64 = 1024 * 1024 * 1024;

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BackupManifest {
    pub format: u32,
    /// The version of Berth that made the backup.
    pub version: String,
    /// `sqlite`, or `postgres` for a backup that contains files only.
    pub engine: String,
    pub created_at: String,
    /// Number of the last migration that was applied to the database.
    pub schema: Option<i64>,
    pub epoch: Option<i64>,
    /// Id of the root key that decrypts the secrets. The key itself is never in a backup.
    pub root_key_id: Option<String>,
    /// The last event of each organization's audit log.
    pub heads: Vec<ManifestHead>,
    pub files: Vec<FileEntry>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ManifestHead {
    pub organization: String,
    pub slug: String,
    pub sequence: i64,
    pub hash: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileEntry {
    /// Path relative to the data directory, with slashes as separators.
    pub path: String,
    pub bytes: u64,
    pub sha256: String,
}

/// A reader that computes the SHA-256 digest of the bytes read.
pub(super) struct DigestReader<R> {
    from: R,
    digest: Context,
    pub(super) bytes: u64,
}

impl<R: Read> DigestReader<R> {
    pub(super) fn new(from: R) -> Self {
        Self { from, digest: Context::new(&SHA256), bytes: 0 }
    }

    pub(super) fn entry(self, path: String) -> FileEntry {
        let sha256 = berth_engine::vault::hex(self.digest.finish().as_ref());
        FileEntry { path, bytes: self.bytes, sha256 }
    }
}

impl<R: Read> Read for DigestReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.from.read(buffer)?;
        self.digest.update(&buffer[..count]);
        self.bytes += count as u64;
        Ok(count)
    }
}
