//! Opens files below a directory without following symlinks.

use std::ffi::OsStr;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;

use rustix::fs::{Mode, OFlags, ResolveFlags, openat, openat2};
use rustix::io::Errno;

pub(super) const DIRECTORY: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

/// Opens the path `parts` below `root`. The kernel rejects symlinks in any component. If `openat2` is unavailable, the
/// components are opened one by one instead.
pub(super) fn open(root: impl AsFd, parts: &[&[u8]], flags: OFlags) -> Result<OwnedFd, Errno> {
    let path = if parts.is_empty() { b".".to_vec() } else { parts.join(&b'/') };
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    match openat2(&root, OsStr::from_bytes(&path), flags | OFlags::CLOEXEC, Mode::empty(), resolve) {
        // `openat2` requires Linux 5.6, and some sandboxes forbid it.
        Err(Errno::NOSYS | Errno::PERM) => open_by_name(root, parts, flags),
        opened => opened,
    }
}

pub(super) fn open_by_name(root: impl AsFd, parts: &[&[u8]], flags: OFlags) -> Result<OwnedFd, Errno> {
    let mut dir = openat(root, ".", DIRECTORY, Mode::empty())?;
    let Some((last, above)) = parts.split_last() else { return Ok(dir) };
    for part in above {
        dir = openat(&dir, OsStr::from_bytes(part), DIRECTORY | OFlags::NOFOLLOW, Mode::empty())?;
    }
    openat(&dir, OsStr::from_bytes(last), flags | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())
}
