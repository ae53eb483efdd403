//! Queue of log bytes that have not been sent: in memory and, while the server is unavailable, in a spill file.
//!
//! The spill file is unlinked right after it was created, so that nothing remains of it after a crash and no step can
//! write to it. Its content is already masked.

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;

use rustix::fs::{FallocateFlags, fallocate};

/// Maximum number of bytes in memory. While a spill file exists, less memory is used.
pub(super) const BUFFER_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Number of bytes read back from the spill file at a time.
const REFILL_BYTES: usize = 1024 * 1024;

pub(super) struct PendingLog {
    memory: VecDeque<u8>,
    spill_file: Option<SpillFile>,
    dir: PathBuf,
    spill_bytes_max: u64,
    /// Number of bytes that could not be read back from the spill file.
    lost: u64,
}

struct SpillFile {
    file: File,
    /// Offset of the next byte to read.
    read: u64,
    written: u64,
    /// Disk space before this offset was released by punching a hole.
    freed: u64,
    /// A write has failed. Nothing more is appended, because the new bytes would follow a gap.
    has_failed: bool,
}

impl SpillFile {
    /// Number of bytes that occupy disk space.
    fn disk_bytes(&self) -> u64 {
        self.written - self.freed
    }

    /// Releases the disk space of bytes that were read. On a file system without hole punching, they keep counting as
    /// disk usage until the file is dropped.
    fn punch_hole(&mut self) {
        let how = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        if fallocate(&self.file, how, 0, self.read).is_ok() {
            self.freed = self.read;
        }
    }
}

impl PendingLog {
    /// Creates an empty queue. A limit of 0 disables the spill file.
    pub(super) fn new(dir: PathBuf, spill_bytes_max: u64) -> Self {
        Self { memory: VecDeque::new(), spill_file: None, dir, spill_bytes_max, lost: 0 }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.memory.is_empty() && self.spill_file.is_none()
    }

    pub(super) fn len(&self) -> u64 {
        self.memory.len() as u64 + self.spilled_bytes()
    }

    fn spilled_bytes(&self) -> u64 {
        self.spill_file.as_ref().map_or(0, |spill| spill.written - spill.read)
    }

    /// Whether the writer may continue without waiting.
    pub(super) fn has_room(&self) -> bool {
        match &self.spill_file {
            None => self.memory.len() < BUFFER_BYTES_MAX,
            Some(spill) => spill.disk_bytes() < self.spill_bytes_max,
        }
    }

    /// Whether `count` more bytes can be stored, assuming that the server accepts none in the meantime.
    pub(super) fn fits(&self, count: usize) -> bool {
        let held = self.spill_file.as_ref().map_or(0, SpillFile::disk_bytes);
        self.fits_memory(count) || held + count as u64 <= self.spill_bytes_max
    }

    pub(super) fn fits_memory(&self, count: usize) -> bool {
        self.spill_file.is_none() && self.memory.len() + count <= BUFFER_BYTES_MAX
    }

    /// Appends bytes; returns false if they could not be stored.
    pub(super) fn push(&mut self, bytes: &[u8]) -> bool {
        if self.spill_file.is_some() {
            return self.spill(bytes);
        }
        self.memory.extend(bytes);
        true
    }

    /// Puts bytes back at the front of the queue.
    pub(super) fn push_front(&mut self, bytes: &[u8]) {
        let mut memory: VecDeque<u8> = bytes.iter().copied().collect();
        memory.append(&mut self.memory);
        self.memory = memory;
    }

    /// Appends bytes to the spill file. After a failed write, nothing more is appended. Returns false if the bytes
    /// could not be stored.
    pub(super) fn spill(&mut self, bytes: &[u8]) -> bool {
        if self.spill_file.as_ref().is_some_and(|spill| spill.has_failed) {
            return false;
        }
        let done = self.append_to_spill_file(bytes);
        if let Err(error) = &done {
            tracing::warn!(%error, "cannot spill log to disk");
            self.spill_bytes_max = 0;
        }
        done.is_ok()
    }

    fn append_to_spill_file(&mut self, bytes: &[u8]) -> io::Result<()> {
        let spill = match &mut self.spill_file {
            Some(spill) => spill,
            none => none.insert(SpillFile {
                file: tempfile::tempfile_in(&self.dir)?,
                read: 0,
                written: 0,
                freed: 0,
                has_failed: false,
            }),
        };
        let done = spill.file.write_all_at(bytes, spill.written);
        match done {
            Ok(()) => spill.written += bytes.len() as u64,
            Err(_) if spill.written == 0 => self.spill_file = None,
            Err(_) => spill.has_failed = true,
        }
        done
    }

    /// Removes up to `count` bytes from the front and returns them.
    pub(super) fn take(&mut self, count: usize) -> Vec<u8> {
        if self.spill_file.is_some() && self.memory.len() < count {
            self.refill();
        }
        let length = self.memory.len().min(count);
        let (front, back) = self.memory.as_slices();
        let in_front = length.min(front.len());
        let taken = [&front[..in_front], &back[..length - in_front]].concat();
        self.memory.drain(..length);
        taken
    }

    fn refill(&mut self) {
        let Some(spill) = &mut self.spill_file else { return };
        let left = spill.written - spill.read;
        let mut bytes = vec![0; usize::try_from(left).unwrap_or(usize::MAX).min(REFILL_BYTES)];
        match spill.file.read_exact_at(&mut bytes, spill.read) {
            Ok(()) => {
                spill.read += bytes.len() as u64;
                spill.punch_hole();
                self.memory.extend(&bytes);
            }
            Err(error) => {
                tracing::warn!(%error, "cannot read spilled log");
                self.lost += left;
                spill.read = spill.written;
            }
        }
        if spill.read == spill.written {
            self.spill_file = None;
        }
    }

    /// Returns the number of queued bytes that were lost, and resets the count.
    pub(super) fn take_lost(&mut self) -> u64 {
        std::mem::take(&mut self.lost)
    }

    pub(super) fn clear(&mut self) {
        self.memory.clear();
        self.spill_file = None;
    }
}

#[cfg(test)]
impl PendingLog {
    /// Makes the spill file read-only, so that writes fail. The returned function undoes it.
    pub(super) fn break_disk(&mut self) -> impl FnOnce(&mut Self) + use<> {
        use std::os::fd::AsRawFd as _;
        let spill = self.spill_file.as_mut().unwrap();
        let same = File::open(format!("/proc/self/fd/{}", spill.file.as_raw_fd())).unwrap();
        let whole = std::mem::replace(&mut spill.file, same);
        move |pending| pending.spill_file.as_mut().unwrap().file = whole
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pending_with_limit(spill_bytes_max: u64) -> (PendingLog, tempfile::TempDir) {
        let dir = tempfile::tempdir().unwrap();
        (PendingLog::new(dir.path().to_owned(), spill_bytes_max), dir)
    }

    fn take_all(pending: &mut PendingLog) -> Vec<u8> {
        let mut taken = Vec::new();
        while !pending.is_empty() {
            taken.extend(pending.take(64 * 1024));
        }
        taken
    }

    #[test]
    fn pending_log_preserves_order_across_spill() {
        let (mut pending, _dir) = pending_with_limit(u64::MAX);
        let bytes: Vec<u8> = (0..3_000_000_u32).map(|number| (number % 251) as u8).collect();
        let mut taken = Vec::new();
        for (number, part) in bytes.chunks(70_001).enumerate() {
            assert!(if number % 7 == 3 { pending.spill(part) } else { pending.push(part) });
            if number % 5 == 4 {
                taken.extend(pending.take(40_000));
            }
        }
        assert_eq!(pending.len() as usize + taken.len(), bytes.len());
        taken.extend(take_all(&mut pending));
        assert!(taken == bytes, "{} of {}", taken.len(), bytes.len());
        assert!(pending.fits_memory(BUFFER_BYTES_MAX), "the file is gone");
    }

    #[test]
    fn pending_log_is_limited_and_its_file_unlinked() {
        let (mut pending, dir) = pending_with_limit(100);
        assert!(pending.fits(BUFFER_BYTES_MAX) && !pending.fits(BUFFER_BYTES_MAX + 1));
        assert!(pending.spill(&[b'x'; 60]) && pending.fits(40) && !pending.fits(41) && pending.has_room());
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
        assert!(pending.push(&[b'x'; 40]) && !pending.has_room(), "what comes after goes behind it");
        assert_eq!(take_all(&mut pending).len(), 100);
        let (mut pending, _dir) = pending_with_limit(0);
        assert!(pending.push(b"x") && pending.fits(1) && !pending.fits(BUFFER_BYTES_MAX));
    }

    #[test]
    fn pending_log_frees_disk_space_of_taken_bytes() {
        use std::os::unix::fs::MetadataExt as _;
        let most = 3 * REFILL_BYTES;
        let (mut pending, _dir) = pending_with_limit(most as u64);
        assert!(pending.spill(&vec![b'a'; most]) && !pending.fits(1) && !pending.has_room());
        assert_eq!(pending.take(9), [b'a'; 9]);
        assert!(pending.has_room() && pending.fits(REFILL_BYTES) && !pending.fits(REFILL_BYTES + 1));
        assert!(pending.spill(&vec![b'b'; REFILL_BYTES]));
        let blocks = pending.spill_file.as_ref().unwrap().file.metadata().unwrap().blocks();
        assert!(blocks * 512 < most as u64 + 64 * 1024, "{blocks}");
        let left = take_all(&mut pending);
        let (before, after) = left.split_at(most - 9);
        assert!(before.iter().all(|it| *it == b'a') && after == vec![b'b'; REFILL_BYTES]);
    }

    #[test]
    fn pending_log_stops_spilling_after_disk_error() {
        let (mut pending, dir) = pending_with_limit(u64::MAX);
        dir.close().unwrap();
        assert!(pending.push(b"kept") && !pending.spill(b"lost") && !pending.fits(BUFFER_BYTES_MAX));
        assert_eq!((take_all(&mut pending), pending.take_lost()), (b"kept".to_vec(), 0));
    }
}
