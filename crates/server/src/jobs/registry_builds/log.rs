//! The log of a registry build: one file with a size limit.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::PathBuf;

use crate::limits::BUILD_LOG_BYTES_MAX;

pub(crate) struct BuildLog {
    path: PathBuf,
}

/// A build log that is being written.
pub(super) struct BuildLogWriter {
    file: File,
    left: u64,
    is_cut: bool,
}

impl BuildLog {
    pub(super) fn at_path(path: PathBuf) -> Self {
        Self { path }
    }

    pub(super) fn create(&self) -> io::Result<BuildLogWriter> {
        if let Some(dir) = self.path.parent() {
            std::fs::create_dir_all(dir)?;
        }
        let file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&self.path)?;
        Ok(BuildLogWriter { file, left: BUILD_LOG_BYTES_MAX, is_cut: false })
    }

    /// Returns the log written so far. Empty if there is no log.
    pub(crate) fn read(&self) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        match File::open(&self.path) {
            // Read beyond the limit, to include the truncation notice in the last line.
            Ok(file) => file.take(2 * BUILD_LOG_BYTES_MAX).read_to_end(&mut bytes).map(|_| bytes),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(bytes),
            Err(error) => Err(error),
        }
    }

    pub(super) fn remove(&self) {
        if let Err(error) = std::fs::remove_file(&self.path)
            && error.kind() != io::ErrorKind::NotFound
        {
            tracing::warn!(%error, "cannot remove build log");
        }
    }
}

impl BuildLogWriter {
    /// Appends output. At the size limit, the log is truncated with a notice. If the disk is full, output is lost but
    /// the build continues.
    pub(super) fn append(&mut self, bytes: &[u8]) {
        let fits = usize::try_from(self.left).unwrap_or(usize::MAX).min(bytes.len());
        self.write(&bytes[..fits]);
        self.left -= fits as u64;
        if fits < bytes.len() && !self.is_cut {
            self.is_cut = true;
            self.write(format!("\n[log truncated after {BUILD_LOG_BYTES_MAX} bytes]\n").as_bytes());
        }
    }

    /// Appends a line written by the server, even if the log has reached its limit.
    pub(super) fn write_line(&mut self, line: &str) {
        self.write(format!("{line}\n").as_bytes());
    }

    fn write(&mut self, bytes: &[u8]) {
        if let Err(error) = self.file.write_all(bytes) {
            tracing::warn!(%error, "cannot write build log");
        }
    }
}
