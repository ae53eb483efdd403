//! Archives on their way: tar, compressed with zstd. The server believes nothing in one, so little is checked here.

use std::fs::File;
use std::io::{self, Read, Seek as _, Write};
use std::path::Path;

use berth_api::runner::{LinkError, Wanted};

/// What is unpacked from one archive.
const BYTES_MAX: u64 = 4 * 1024 * 1024 * 1024;
const COMPRESSION_LEVEL: i32 = 3;
/// The server's archives are compressed with windows of 2 MiB; a larger one only takes memory.
const WINDOW_LOG_MAX: u32 = 23;

/// Below a directory, and nowhere else.
pub(super) fn unpack(packed: impl Read, into: &Path) -> Result<(), LinkError> {
    let failed =
        |error: io::Error| LinkError::Unavailable(format!("what was fetched cannot be unpacked: {error}"));
    let mut unpacker = zstd::Decoder::new(packed).map_err(failed)?;
    unpacker.window_log_max(WINDOW_LOG_MAX).map_err(failed)?;
    let mut archive = tar::Archive::new(unpacker.take(BYTES_MAX));
    archive.set_preserve_mtime(false);
    archive.set_overwrite(true);
    archive.unpack(into).map_err(failed)?;
    // The end of the archive is not the end of what was sent: a cut one must not be taken for a whole one.
    io::copy(&mut archive.into_inner(), &mut io::sink()).map(drop).map_err(failed)
}

/// What lies at `path` below the workspace, under that path. No link is followed, neither on the way nor inside.
pub(super) fn pack(workspace: &Path, path: &str, wanted: Wanted<'_>) -> Result<File, LinkError> {
    let refused = |text: String| LinkError::Refused(text);
    let mut at = workspace.to_owned();
    for part in Path::new(path).components() {
        at.push(part);
        let seen = at.symlink_metadata().map_err(|error| refused(format!("{path}: {error}")))?;
        if seen.is_symlink() {
            return Err(refused(format!("{path}: must not lead through a link")));
        }
    }
    let packed = || -> io::Result<File> {
        let file = tempfile::tempfile_in(workspace.parent().unwrap_or(workspace))?;
        let mut tar =
            tar::Builder::new(zstd::Encoder::new(Watched { file: &file, wanted }, COMPRESSION_LEVEL)?);
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

/// Whatever takes long ends soon after nobody wants it any more.
struct Watched<'a> {
    file: &'a File,
    wanted: Wanted<'a>,
}

impl Write for Watched<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match (self.wanted)() {
            true => self.file.write(bytes),
            false => Err(io::Error::other("nobody wants it any more")),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}
