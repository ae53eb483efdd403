//! What a backup says about itself.

use std::io::{self, Read};

use aws_lc_rs::digest::{Context, SHA256};
use serde::{Deserialize, Serialize};

/// Name of the file in a backup; written last, so that a backup that was cut short has none.
pub const FILE: &str = "manifest.json";
/// Raised when an older program could not restore what this one writes.
pub const FORMAT: u32 = 1;
/// Files of one backup.
pub const FILES_MAX: usize = 4_000_000;
/// A manifest is read whole.
pub const MANIFEST_BYTES_MAX: u64 = 1024 * 1024 * 1024;

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Manifest {
    pub format: u32,
    /// Which version of the program made it.
    pub version: String,
    /// `sqlite`; or `postgres`: the files alone.
    pub engine: String,
    pub created_at: String,
    /// The last migration that had run.
    pub schema: Option<i64>,
    pub epoch: Option<i64>,
    /// Which root key is needed to read secrets. The key itself is never in a backup.
    pub root_key_id: Option<String>,
    /// Where the history of each organization ended.
    pub heads: Vec<ChainHead>,
    pub files: Vec<FileEntry>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ChainHead {
    pub organization: String,
    pub slug: String,
    pub sequence: i64,
    pub hash: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileEntry {
    /// With slashes, relative to the data directory.
    pub path: String,
    pub bytes: u64,
    pub sha256: String,
}

/// Reads, and remembers the digest of what went through.
pub(super) struct Hashing<R> {
    from: R,
    digest: Context,
    pub(super) bytes: u64,
}

impl<R: Read> Hashing<R> {
    pub(super) fn new(from: R) -> Self {
        Self { from, digest: Context::new(&SHA256), bytes: 0 }
    }

    pub(super) fn entry(self, path: String) -> FileEntry {
        let sha256 = berth_engine::vault::hex(self.digest.finish().as_ref());
        FileEntry { path, bytes: self.bytes, sha256 }
    }
}

impl<R: Read> Read for Hashing<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.from.read(buffer)?;
        self.digest.update(&buffer[..count]);
        self.bytes += count as u64;
        Ok(count)
    }
}
