//! Validates paths and links in archives: they must be relative and must not lead outside the archive.

use super::{ARCHIVE_DEPTH_MAX, ARCHIVE_PATH_BYTES_MAX, ArtifactError};

/// Splits a path into its components. Skips `.` and repeated slashes; refuses `..`, absolute paths and NUL bytes.
pub(super) fn parts(path: &[u8]) -> Result<Vec<&[u8]>, ArtifactError> {
    let refused = |why| Err(ArtifactError::refusal(display_path(path), why));
    if path.len() > ARCHIVE_PATH_BYTES_MAX {
        return refused("is too long");
    }
    if path.starts_with(b"/") {
        return refused("must not begin with /");
    }
    if path.contains(&0) {
        return refused("contains a NUL byte");
    }
    let parts: Vec<&[u8]> =
        path.split(|byte| *byte == b'/').filter(|part| !matches!(*part, b"" | b".")).collect();
    if parts.contains(&b"..".as_slice()) {
        return refused("must not contain ..");
    }
    if parts.len() > ARCHIVE_DEPTH_MAX {
        return refused("is nested too deeply");
    }
    Ok(parts)
}

/// Checks that a symlink does not lead outside the archive. Its target may start with `..` components, at most up to
/// the root, but must not contain `..` after a name: in `name/..`, the name could be another symlink, and `..` would
/// then refer to the parent of that symlink's target.
pub(super) fn check_link(path: &[u8], depth: usize, target: &[u8]) -> Result<(), ArtifactError> {
    let refused = |why| Err(ArtifactError::refusal(display_path(path), why));
    if target.is_empty() || target.len() > ARCHIVE_PATH_BYTES_MAX || target.contains(&0) {
        return refused("is a link to an invalid path");
    }
    if target.starts_with(b"/") {
        return refused("is a link to an absolute path");
    }
    let names = target.split(|byte| *byte == b'/').filter(|part| !matches!(*part, b"" | b"."));
    let (mut up, mut went_down) = (0, false);
    for name in names {
        match name {
            b".." if went_down => return refused("is a link with `..` after a name"),
            b".." => up += 1,
            _ => went_down = true,
        }
    }
    if up > depth {
        return refused("is a link that points outside the artifact");
    }
    Ok(())
}

pub(super) fn display_path(path: &[u8]) -> String {
    String::from_utf8_lossy(path).into_owned()
}
