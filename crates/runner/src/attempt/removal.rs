//! Removes directory trees that a step has left behind.
//!
//! A step can nest directories too deeply for recursion, and can create more of them than there are file descriptors.
//! Removal therefore never descends: each subdirectory is moved into a single flat directory, where its name is a
//! consecutive number, and emptied there. At most three descriptors are open at a time.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, chmod, mkdirat, openat, renameat, unlinkat};
use rustix::io::Errno;
use rustix::path::Arg;

use crate::random;

/// Removes as much of the tree as possible. Failures are only logged.
pub fn remove_tree(path: &Path) {
    match remove_all(path) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => tracing::warn!(path = %path.display(), %error, "cannot remove leftover files"),
    }
}

fn remove_all(path: &Path) -> io::Result<()> {
    match unlinkat(CWD, path, AtFlags::empty()) {
        Err(Errno::ISDIR) => {}
        other => return Ok(other?),
    }
    if unlinkat(CWD, path, AtFlags::REMOVEDIR).is_ok() {
        return Ok(());
    }
    // The flat directory is created inside the removed directory, so a crash leaves nothing anywhere else.
    let top = open_dir(CWD, path)?;
    let mut flat =
        FlatRemoval { top: top.as_fd(), name: random::random_hex()?, dir: None, done: 0, found: 0 };
    let mut problem = flat.empty_dir(top.as_fd()).err();
    while let Some(dir) = &flat.dir
        && flat.done < flat.found
    {
        let (dir, name) = (dir.try_clone()?, flat.done.to_string());
        flat.done += 1;
        let emptied = open_dir(dir.as_fd(), name.as_str()).and_then(|below| flat.empty_dir(below.as_fd()));
        let removed = emptied.and_then(|()| unlinkat(&dir, name.as_str(), AtFlags::REMOVEDIR));
        problem = problem.or(removed.err());
    }
    if flat.dir.is_some() {
        problem = problem.or(unlinkat(&top, flat.name.as_str(), AtFlags::REMOVEDIR).err());
    }
    match problem {
        Some(problem) => Err(problem.into()),
        None => Ok(unlinkat(CWD, path, AtFlags::REMOVEDIR)?),
    }
}

struct FlatRemoval<'a> {
    top: BorrowedFd<'a>,
    /// Name of the flat directory inside `top`. It is random, so that a step cannot have created it in advance.
    name: String,
    /// Created when the first non-empty subdirectory is found.
    dir: Option<OwnedFd>,
    done: u64,
    found: u64,
}

impl FlatRemoval<'_> {
    /// Removes the files in a directory and moves its subdirectories away. readdir may skip entries while others are
    /// being removed, so the scan is repeated until it removes nothing.
    fn empty_dir(&mut self, dir: BorrowedFd<'_>) -> Result<(), Errno> {
        loop {
            let (mut removed, mut problem) = (0_u64, None);
            for entry in Dir::read_from(dir)? {
                let entry = entry?;
                let name = entry.file_name();
                if matches!(name.to_bytes(), b"." | b"..") || name.to_bytes() == self.name.as_bytes() {
                    continue;
                }
                let done = match entry.file_type() {
                    FileType::Directory => self.move_up(dir, name),
                    _ => match unlinkat(dir, name, AtFlags::empty()) {
                        Err(Errno::ISDIR) => self.move_up(dir, name),
                        other => other,
                    },
                };
                match done {
                    Ok(()) => removed += 1,
                    Err(error) => problem = Some(error),
                }
            }
            if removed == 0 {
                return problem.map_or(Ok(()), Err);
            }
        }
    }

    /// Removes a subdirectory if it is empty. Otherwise moves it to the flat directory.
    fn move_up(&mut self, from: BorrowedFd<'_>, name: impl Arg + Copy) -> Result<(), Errno> {
        if unlinkat(from, name, AtFlags::REMOVEDIR).is_ok() {
            return Ok(());
        }
        if self.dir.is_none() {
            mkdirat(self.top, self.name.as_str(), Mode::RWXU)?;
            self.dir = Some(open_dir(self.top, self.name.as_str())?);
        }
        let Some(dir) = &self.dir else { return Err(Errno::NOENT) };
        let number = self.found.to_string();
        match renameat(from, name, dir, number.as_str()) {
            // Moving a directory changes its `..` entry, so the directory itself must be writable.
            Err(Errno::ACCESS) => {
                make_writable(from, name)?;
                renameat(from, name, dir, number.as_str())?;
            }
            other => other?,
        }
        self.found += 1;
        Ok(())
    }
}

/// Makes a directory writable and opens it. A step may have left read-only directories.
fn open_dir(at: BorrowedFd<'_>, name: impl Arg + Copy) -> Result<OwnedFd, Errno> {
    make_writable(at, name)?;
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    openat(at, name, flags, Mode::empty())
}

/// Makes a directory writable. Uses an O_PATH descriptor, so that a symlink is never followed.
fn make_writable(at: BorrowedFd<'_>, name: impl Arg + Copy) -> Result<(), Errno> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let found = openat(at, name, flags, Mode::empty())?;
    chmod(format!("/proc/self/fd/{}", found.as_raw_fd()), Mode::RWXU)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn nest(dir: &Path, levels: usize) {
        let mut at = open_dir(CWD, dir).expect("directory");
        for _ in 0..levels {
            mkdirat(&at, "d", Mode::RWXU).expect("made");
            at = open_dir(at.as_fd(), "d").expect("opened");
        }
        mkdirat(&at, "twin", Mode::RWXU).expect("made");
        openat(&at, "file", OFlags::CREATE | OFlags::WRONLY, Mode::RUSR).expect("made");
    }

    #[test]
    fn deeply_nested_directories_are_removed() {
        // Use a tmpfs, because creating this many directories on a disk is slow.
        let dir = tempfile::tempdir_in("/dev/shm").expect("directory");
        let top = dir.path().join("top");
        fs::create_dir(&top).expect("directory");
        nest(&top, 20_000);
        remove_tree(&top);
        assert!(!top.exists());
    }

    #[test]
    fn wide_read_only_and_symlinked_trees_are_removed() {
        let dir = tempfile::tempdir().expect("directory");
        let (top, outside) = (dir.path().join("top"), dir.path().join("outside"));
        fs::create_dir_all(outside.join("kept")).expect("directory");
        for number in 0..300 {
            fs::create_dir_all(top.join(format!("{number}/0/1"))).expect("directory");
            fs::write(top.join(format!("{number}/file")), "").expect("file");
            fs::write(top.join(format!("{number}/0/file")), "").expect("file");
            std::os::unix::fs::symlink(&outside, top.join(format!("{number}/link"))).expect("link");
        }
        for closed in ["7/0", "7", "8", ""] {
            fs::set_permissions(top.join(closed), fs::Permissions::from_mode(0o000)).expect("closed");
        }
        remove_tree(&top);
        assert!(!top.exists() && outside.join("kept").exists());
        fs::write(&top, "a file").expect("file");
        remove_tree(&top);
        assert!(!top.exists());
        remove_tree(&top);
    }
}
