//! Reads files that a step may have replaced.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::BorrowedFd;
use std::path::Path;

use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::path::Arg;

/// Opens a regular file. Does not follow a symlink and does not block on a FIFO.
pub(super) fn open(path: &Path) -> io::Result<File> {
    open_in(CWD, path)
}

pub(super) fn open_in(dir: BorrowedFd<'_>, name: impl Arg) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let opened = File::from(openat(dir, name, flags, Mode::empty())?);
    if !opened.metadata()?.is_file() {
        return Err(io::Error::other("it is not a file"));
    }
    Ok(opened)
}

pub(super) fn read(file: File, bytes_max: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.take(bytes_max + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > bytes_max {
        return Err(io::Error::other(format!("it is longer than {bytes_max} bytes")));
    }
    Ok(bytes)
}
