//! Packs and unpacks tar archives compressed with zstd. Only few checks are needed here, because the server validates
//! uploads.

use std::fs::File;
use std::io::{self, Read, Seek as _, Write};
use std::path::Path;

use berth_api::runner::{LinkError, WantedCheck};

/// Maximum size of an archive's content.
const BYTES_MAX: u64 = 4 * 1024 * 1024 * 1024;
const COMPRESSION_LEVEL: i32 = 3;
/// Maximum zstd window (8 MiB). The server uses windows of 2 MiB; a higher limit would only allow more memory usage.
const WINDOW_LOG_MAX: u32 = 23;

/// Unpacks an archive below `into`.
pub(super) fn unpack(packed: impl Read, into: &Path) -> Result<(), LinkError> {
    let failed = |error: io::Error| LinkError::Unavailable(format!("cannot unpack the archive: {error}"));
    let mut unpacker = zstd::Decoder::new(packed).map_err(failed)?;
    unpacker.window_log_max(WINDOW_LOG_MAX).map_err(failed)?;
    let mut archive = tar::Archive::new(unpacker.take(BYTES_MAX));
    archive.set_preserve_mtime(false);
    archive.set_overwrite(true);
    archive.unpack(into).map_err(failed)?;
    // Read to the end of the stream, so that a truncated transfer is noticed.
    io::copy(&mut archive.into_inner(), &mut io::sink()).map(drop).map_err(failed)
}

/// Packs the file or directory at `path` in the workspace. Does not follow symlinks.
pub(super) fn pack(workspace: &Path, path: &str, wanted: WantedCheck<'_>) -> Result<File, LinkError> {
    let refused = |text: String| LinkError::Refused(text);
    let mut at = workspace.to_owned();
    for part in Path::new(path).components() {
        at.push(part);
        let seen = at.symlink_metadata().map_err(|error| refused(format!("{path}: {error}")))?;
        if seen.is_symlink() {
            return Err(refused(format!("{path}: must not go through a symbolic link")));
        }
    }
    let packed = || -> io::Result<File> {
        let file = tempfile::tempfile_in(workspace.parent().unwrap_or(workspace))?;
        let mut tar = tar::Builder::new(zstd::Encoder::new(
            CancellableWriter { file: &file, wanted },
            COMPRESSION_LEVEL,
        )?);
        tar.follow_symlinks(false);
        tar.sparse(false);
        if at.is_dir() {
            tar.append_dir_all(path, &at)?;
        } else {
            tar.append_path_with_name(&at, path)?;
        }
        tar.into_inner()?.finish()?;
        (&file).rewind()?;
        Ok(file)
    };
    packed().map_err(|error| match wanted() {
        true => refused(format!("{path} cannot be packed: {error}")),
        false => LinkError::Unavailable(error.to_string()),
    })
}

/// A writer that returns an error once the transfer is no longer wanted.
struct CancellableWriter<'a> {
    file: &'a File,
    wanted: WantedCheck<'a>,
}

impl Write for CancellableWriter<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match (self.wanted)() {
            true => self.file.write(bytes),
            false => Err(io::Error::other("the transfer was cancelled")),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}
