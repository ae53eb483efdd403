//! Local copies of checkouts, so that the second step of a commit does not check it out again.
//!
//! ```text
//! WORK_DIR/sources/<number>   the files of one commit, as they were checked out
//! ```
//!
//! Steps never see these directories: each attempt gets copies of the files, which share no writable data with them.
//! File systems with reflinks copy no data. Nothing is used after a restart of the runner.

use std::collections::HashMap;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use parking_lot::{Mutex, RwLock};

use crate::attempt::removal::remove_tree;
use crate::sandbox::Confinement;

const SOURCES: &str = "sources";
/// Maximum number of commits whose checkouts are kept.
const CHECKOUTS_MAX: usize = 8;
/// Maximum total size of the checkouts that are kept.
const CHECKOUTS_BYTES_MAX: u64 = 4 * 1024 * 1024 * 1024;
/// Maximum number of files of a checkout that is kept. Their names are in memory.
const FILES_MAX: usize = 100_000;
const COPY_THREADS_MAX: usize = 8;
/// Smaller copies are not worth a second thread.
const FILES_PER_THREAD_MIN: usize = 200;
const BUFFER_BYTES: usize = 128 * 1024;

/// The checkouts that a runner keeps.
pub(crate) struct SourceCache {
    dir: PathBuf,
    /// False if steps could write to the kept files.
    is_enabled: bool,
    checkouts: Mutex<HashMap<String, Arc<KeptCheckout>>>,
    /// Counts uses, and numbers the directories.
    uses: AtomicU64,
}

struct KeptCheckout {
    dir: PathBuf,
    used: AtomicU64,
    /// Locked for writing during the checkout, and for reading during a copy.
    state: RwLock<KeptState>,
}

enum KeptState {
    Empty,
    Ready(SourceTree),
    /// Too large to be kept, or removed: every attempt checks it out.
    NotKept,
}

/// The content of a checkout.
struct SourceTree {
    dir: PathBuf,
    /// Parents come before their children.
    entries: Vec<SourceEntry>,
    bytes: u64,
}

struct SourceEntry {
    /// Relative to the root of the checkout.
    path: PathBuf,
    kind: SourceEntryKind,
}

enum SourceEntryKind {
    Dir,
    File { mode: u32, bytes: u64 },
    Symlink { target: PathBuf },
}

pub(crate) fn sources_dir(work_dir: &Path) -> PathBuf {
    work_dir.join(SOURCES)
}

impl SourceCache {
    pub(crate) fn new(work_dir: &Path, confinement: &Confinement) -> Self {
        Self {
            dir: sources_dir(work_dir),
            is_enabled: confinement.hides_files(),
            checkouts: Mutex::default(),
            uses: AtomicU64::new(0),
        }
    }

    /// Puts the files of the checkout `key` into the empty directory `into`: those at or below `paths`, or all if there
    /// are none. Calls `checkout` with an empty directory if the files are not kept, or cannot be copied.
    pub(crate) fn fill<E>(
        &self,
        key: Option<&str>,
        paths: &[String],
        into: &Path,
        checkout: impl Fn(&Path) -> Result<(), E>,
    ) -> Result<(), FillError<E>> {
        let Some(key) = key.filter(|_| self.is_enabled) else {
            return self.fill_directly(paths, into, checkout);
        };
        let kept = self.find_or_add(key);
        let is_ready = self.checkout_once(&kept, &checkout).inspect_err(|_| self.discard(key, &kept))?;
        let copied = match &*kept.state.read() {
            KeptState::Ready(tree) if is_ready => tree.copy(paths, into),
            _ => return self.fill_directly(paths, into, checkout),
        };
        self.shrink();
        copied.or_else(|error| {
            tracing::warn!(%error, "cannot copy a kept checkout; checking out again");
            self.discard(key, &kept);
            clear_dir(into).map_err(FillError::Io)?;
            self.fill_directly(paths, into, checkout)
        })
    }

    fn find_or_add(&self, key: &str) -> Arc<KeptCheckout> {
        let used = self.uses.fetch_add(1, Ordering::Relaxed);
        let mut checkouts = self.checkouts.lock();
        let kept = checkouts.entry(key.to_owned()).or_insert_with(|| {
            Arc::new(KeptCheckout {
                dir: self.dir.join(used.to_string()),
                used: AtomicU64::new(used),
                state: RwLock::new(KeptState::Empty),
            })
        });
        kept.used.store(used, Ordering::Relaxed);
        kept.clone()
    }

    /// Checks the commit out unless that has been done. Returns false if the files are not kept, or if another attempt is
    /// checking them out: an attempt that waits for another one would miss its own cancellation.
    fn checkout_once<E>(
        &self,
        kept: &KeptCheckout,
        checkout: impl Fn(&Path) -> Result<(), E>,
    ) -> Result<bool, FillError<E>> {
        if let Some(state) = kept.state.try_read()
            && !matches!(*state, KeptState::Empty)
        {
            return Ok(matches!(*state, KeptState::Ready(_)));
        }
        let Some(mut state) = kept.state.try_write() else { return Ok(false) };
        if matches!(*state, KeptState::Empty) {
            let tree = checkout_into(&kept.dir, checkout).inspect_err(|_| remove_tree(&kept.dir))?;
            *state = KeptState::Ready(tree);
        }
        Ok(matches!(*state, KeptState::Ready(_)))
    }

    /// Checks out without keeping the files.
    fn fill_directly<E>(
        &self,
        paths: &[String],
        into: &Path,
        checkout: impl Fn(&Path) -> Result<(), E>,
    ) -> Result<(), FillError<E>> {
        if paths.is_empty() {
            return checkout(into).map_err(FillError::Checkout);
        }
        let number = self.uses.fetch_add(1, Ordering::Relaxed);
        let dir = self.dir.join(number.to_string());
        let copied = |tree: SourceTree| tree.copy(paths, into).map_err(FillError::Io);
        let done = checkout_into(&dir, checkout).and_then(copied);
        remove_tree(&dir);
        done
    }

    /// Stops keeping a checkout, unless another attempt uses it.
    fn discard(&self, key: &str, kept: &Arc<KeptCheckout>) {
        let mut checkouts = self.checkouts.lock();
        let Some(mut state) = kept.state.try_write() else { return };
        *state = KeptState::NotKept;
        if checkouts.get(key).is_some_and(|it| Arc::ptr_eq(it, kept)) {
            checkouts.remove(key);
        }
        drop((state, checkouts));
        remove_tree(&kept.dir);
    }

    /// Removes the least recently used checkouts beyond the limits. Those in use stay.
    fn shrink(&self) {
        let mut removed = Vec::new();
        {
            let mut checkouts = self.checkouts.lock();
            let mut by_use: Vec<(String, Arc<KeptCheckout>)> =
                checkouts.iter().map(|(key, kept)| (key.clone(), kept.clone())).collect();
            by_use.sort_by_key(|(_, kept)| std::cmp::Reverse(kept.used.load(Ordering::Relaxed)));
            let mut bytes = 0_u64;
            for (count, (key, kept)) in by_use.into_iter().enumerate() {
                let Some(mut state) = kept.state.try_write() else { continue };
                let is_too_large = matches!(&*state, KeptState::Ready(tree) if tree.is_too_large());
                if let KeptState::Ready(tree) = &*state
                    && !is_too_large
                {
                    bytes = bytes.saturating_add(tree.bytes);
                }
                let is_one_too_many = count >= CHECKOUTS_MAX || bytes > CHECKOUTS_BYTES_MAX;
                if is_one_too_many {
                    checkouts.remove(&key);
                }
                if is_one_too_many || is_too_large {
                    *state = KeptState::NotKept;
                    removed.push(kept.dir.clone());
                }
            }
        }
        removed.iter().for_each(|dir| remove_tree(dir));
    }
}

fn checkout_into<E>(
    dir: &Path,
    checkout: impl Fn(&Path) -> Result<(), E>,
) -> Result<SourceTree, FillError<E>> {
    DirBuilder::new().mode(0o700).recursive(true).create(dir).map_err(FillError::Io)?;
    checkout(dir).map_err(FillError::Checkout)?;
    SourceTree::read(dir.to_owned()).map_err(FillError::Io)
}

/// Why a workspace was not filled.
#[derive(Debug)]
pub(crate) enum FillError<E> {
    Checkout(E),
    Io(io::Error),
}

impl SourceTree {
    fn is_too_large(&self) -> bool {
        self.bytes > CHECKOUTS_BYTES_MAX || self.entries.len() > FILES_MAX
    }

    fn read(dir: PathBuf) -> io::Result<Self> {
        let (mut entries, mut bytes) = (Vec::new(), 0_u64);
        let mut pending = vec![PathBuf::new()];
        while let Some(parent) = pending.pop() {
            for entry in fs::read_dir(dir.join(&parent))? {
                let entry = entry?;
                let (path, found) = (parent.join(entry.file_name()), entry.metadata()?);
                let kind = if found.is_dir() {
                    pending.push(path.clone());
                    SourceEntryKind::Dir
                } else if found.is_symlink() {
                    SourceEntryKind::Symlink { target: fs::read_link(entry.path())? }
                } else if found.is_file() {
                    bytes = bytes.saturating_add(found.len());
                    SourceEntryKind::File { mode: found.mode() & 0o777, bytes: found.len() }
                } else {
                    return Err(io::Error::other(format!("{} is not a file", path.display())));
                };
                entries.push(SourceEntry { path, kind });
            }
        }
        Ok(Self { dir, entries, bytes })
    }

    /// Copies the entries at or below `paths`, with their parent directories; all entries if there are no paths.
    fn copy(&self, paths: &[String], into: &Path) -> io::Result<()> {
        let is_wanted = |entry: &&SourceEntry| {
            paths.is_empty()
                || paths.iter().any(|path| {
                    entry.path.starts_with(path)
                        || (matches!(entry.kind, SourceEntryKind::Dir)
                            && Path::new(path).starts_with(&entry.path))
                })
        };
        let (dirs, files): (Vec<_>, Vec<_>) = self
            .entries
            .iter()
            .filter(is_wanted)
            .partition(|entry| matches!(entry.kind, SourceEntryKind::Dir));
        for entry in dirs {
            fs::create_dir(into.join(&entry.path))?;
        }
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let threads = cores.min(COPY_THREADS_MAX).min(files.len() / FILES_PER_THREAD_MIN).max(1);
        let (next, has_reflinks) = (AtomicUsize::new(0), AtomicBool::new(true));
        let copy_all = || {
            let mut buffer = vec![0; BUFFER_BYTES];
            while let Some(entry) = files.get(next.fetch_add(1, Ordering::Relaxed)) {
                self.copy_entry(entry, into, &has_reflinks, &mut buffer)?;
            }
            Ok(())
        };
        std::thread::scope(|scope| {
            let others: Vec<_> = (1..threads).map(|_| scope.spawn(copy_all)).collect();
            let own = copy_all();
            let joined = others.into_iter().map(|it| {
                it.join().unwrap_or_else(|_| Err(io::Error::other("a thread that copies files panicked")))
            });
            joined.fold(own, Result::and)
        })
    }

    fn copy_entry(
        &self,
        entry: &SourceEntry,
        into: &Path,
        has_reflinks: &AtomicBool,
        buffer: &mut [u8],
    ) -> io::Result<()> {
        let (from, to) = (self.dir.join(&entry.path), into.join(&entry.path));
        match &entry.kind {
            SourceEntryKind::Dir => Ok(()),
            SourceEntryKind::Symlink { target } => symlink(target, to),
            SourceEntryKind::File { mode, bytes } => {
                let from = File::open(from)?;
                let mut to = OpenOptions::new().write(true).create_new(true).mode(*mode).open(to)?;
                if *bytes == 0 {
                    return Ok(());
                }
                if has_reflinks.load(Ordering::Relaxed) {
                    match rustix::fs::ioctl_ficlone(&to, &from) {
                        Ok(()) => return Ok(()),
                        // Not this file system. Other errors show again while copying.
                        Err(_) => has_reflinks.store(false, Ordering::Relaxed),
                    }
                }
                copy_bytes(&from, &mut to, *bytes, buffer)
            }
        }
    }
}

/// Copies a file whose size must not have changed.
fn copy_bytes(mut from: &File, to: &mut File, bytes: u64, buffer: &mut [u8]) -> io::Result<()> {
    let mut left = bytes;
    loop {
        match from.read(buffer)? as u64 {
            0 if left == 0 => return Ok(()),
            read if read > 0 && read <= left => {
                to.write_all(&buffer[..usize::try_from(read).unwrap_or_default()])?;
                left -= read;
                if left == 0 {
                    return Ok(());
                }
            }
            _ => return Err(io::Error::other("a kept file has changed")),
        }
    }
}

fn clear_dir(dir: &Path) -> io::Result<()> {
    for entry in fs::read_dir(dir)? {
        remove_tree(&entry?.path());
    }
    Ok(())
}
