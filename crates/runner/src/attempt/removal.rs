//! Removes what a step has left, whatever that is.
//!
//! A step can nest directories deeper than any stack is and wider than descriptors last. So nothing descends: a
//! directory that is found inside another one is moved up into one flat directory, under the next number, and has its
//! turn there. Three descriptors are open at most, and nothing is remembered but two numbers.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, chmod, mkdirat, openat, renameat, unlinkat};
use rustix::io::Errno;
use rustix::path::Arg;

use crate::chance;

/// As far as it can be done: what cannot be removed is said, and hinders nobody.
pub fn remove(path: &Path) {
    match remove_all(path) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => tracing::warn!(path = %path.display(), "cannot remove what a step has left: {error}"),
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
    // Inside of what is removed, so that an end of this process in between leaves nothing anywhere else.
    let top = open_dir(CWD, path)?;
    let mut flat = Flat { top: top.as_fd(), name: chance::name()?, dir: None, done: 0, found: 0 };
    let mut problem = flat.empty(top.as_fd()).err();
    while let Some(dir) = &flat.dir
        && flat.done < flat.found
    {
        let (dir, name) = (dir.try_clone()?, flat.done.to_string());
        flat.done += 1;
        let emptied = open_dir(dir.as_fd(), name.as_str()).and_then(|below| flat.empty(below.as_fd()));
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

struct Flat<'a> {
    top: BorrowedFd<'a>,
    /// Of the flat directory below `top`; random, so that a step cannot have taken it.
    name: String,
    /// Most steps leave too little to need one.
    dir: Option<OwnedFd>,
    done: u64,
    found: u64,
}

impl Flat<'_> {
    /// Removes the files of a directory and moves its directories up. A listing may miss what stood behind something
    /// that was removed meanwhile, so it is read again until it shows nothing new.
    fn empty(&mut self, dir: BorrowedFd<'_>) -> Result<(), Errno> {
        loop {
            let (mut removed, mut problem) = (0_u64, None);
            for entry in Dir::read_from(dir)? {
                let entry = entry?;
                let name = entry.file_name();
                if matches!(name.to_bytes(), b"." | b"..") || name.to_bytes() == self.name.as_bytes() {
                    continue;
                }
                let done = match entry.file_type() {
                    FileType::Directory => self.take(dir, name),
                    _ => match unlinkat(dir, name, AtFlags::empty()) {
                        Err(Errno::ISDIR) => self.take(dir, name),
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

    /// A directory that is empty is gone at once; another one gets its number.
    fn take(&mut self, from: BorrowedFd<'_>, name: impl Arg + Copy) -> Result<(), Errno> {
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
            // Its own entry `..` changes, so it must be writable itself.
            Err(Errno::ACCESS) => {
                open_up(from, name)?;
                renameat(from, name, dir, number.as_str())?;
            }
            other => other?,
        }
        self.found += 1;
        Ok(())
    }
}

/// Opens a directory and makes it ours to change: a step may leave directories that it has made read-only.
fn open_dir(at: BorrowedFd<'_>, name: impl Arg + Copy) -> Result<OwnedFd, Errno> {
    open_up(at, name)?;
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    openat(at, name, flags, Mode::empty())
}

/// By a descriptor that needs no right, so that it is the directory that changes and not where a link leads.
fn open_up(at: BorrowedFd<'_>, name: impl Arg + Copy) -> Result<(), Errno> {
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
    fn directories_nested_deeper_than_any_stack_are_removed() {
        // In memory, because a disk takes its time for so many.
        let dir = tempfile::tempdir_in("/dev/shm").expect("directory");
        let top = dir.path().join("top");
        fs::create_dir(&top).expect("directory");
        nest(&top, 20_000);
        remove(&top);
        assert!(!top.exists());
    }

    #[test]
    fn what_is_wide_or_read_only_or_a_link_is_removed() {
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
        remove(&top);
        assert!(!top.exists() && outside.join("kept").exists());
        fs::write(&top, "a file").expect("file");
        remove(&top);
        assert!(!top.exists());
        remove(&top);
    }
}
