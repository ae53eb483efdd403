//! Cache of fetched registries, by digest.
//!
//! ```text
//! WORK_DIR/registries/<digest>
//! WORK_DIR/registries/.new-<random>   being fetched or removed
//! ```
//!
//! A directory named by a digest is complete: it is renamed to that name after the fetch, and away from it before
//! removal.

use std::collections::HashMap;
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use berth_api::runner::Outcome;
use parking_lot::{Condvar, Mutex, MutexGuard};

use super::{REGISTRIES_KEPT_BYTES_MAX, REGISTRIES_KEPT_MAX, size};
use crate::attempt::removal::remove;
use crate::attempt::{Attempt, invalid};
use crate::chance;
use crate::sandbox::Confinement;

const ON_ITS_WAY: &str = ".new-";
const DIGEST_CHARS_MAX: usize = 128;
/// How often a step that waits for another step's fetch checks for a stop.
const LOOK: Duration = Duration::from_millis(50);

pub(crate) struct Cache {
    confinement: Confinement,
    dir: PathBuf,
    /// `None` until the first registry is needed.
    state: Mutex<Option<HashMap<String, Entry>>>,
    changed: Condvar,
}

struct Entry {
    /// False while it is being fetched.
    is_there: bool,
    users: usize,
    used: Instant,
    bytes: u64,
}

/// A registry in use, which is not evicted.
pub(crate) struct Held<'a> {
    cache: &'a Cache,
    digest: String,
    path: PathBuf,
}

/// Removes the entry of a failed fetch, so that the next step can try.
struct Fetching<'a> {
    cache: &'a Cache,
    name: &'a str,
}

impl Drop for Fetching<'_> {
    fn drop(&mut self) {
        if let Ok(mut state) = self.cache.lock() {
            known(&mut state).remove(self.name);
        }
        self.cache.changed.notify_all();
    }
}

impl Cache {
    pub(crate) fn new(work_dir: &Path, confinement: &Confinement) -> Self {
        let confinement = confinement.clone();
        Self {
            confinement,
            dir: work_dir.join("registries"),
            state: Mutex::new(None),
            changed: Condvar::new(),
        }
    }

    /// Returns the registry, fetching it if needed. Concurrent callers wait for the same fetch.
    pub(crate) fn get(&self, attempt: &Attempt<'_>, digest: &str) -> Result<Held<'_>, Outcome> {
        let name =
            name_of(digest).ok_or_else(|| invalid("the digest of the step registry is invalid".into()))?;
        let held = || Held { cache: self, path: self.dir.join(&name), digest: name.clone() };
        loop {
            let mut state = self.lock().map_err(|error| cannot(&error))?;
            let known = known(&mut state);
            match known.get_mut(&name) {
                Some(entry) if entry.is_there => {
                    (entry.users, entry.used) = (entry.users + 1, Instant::now());
                    return Ok(held());
                }
                Some(_) => {}
                None => {
                    let entry = Entry { is_there: false, users: 1, used: Instant::now(), bytes: 0 };
                    known.insert(name.clone(), entry);
                    break;
                }
            }
            self.changed.wait_for(&mut state, LOOK);
            drop(state);
            if let Some(why) = attempt.asked() {
                return Err(attempt.halted(&why));
            }
            if Instant::now() >= attempt.by {
                let detail = "another step is still fetching its registry".into();
                return Err(Outcome::never_started(detail));
            }
        }
        let fetching = Fetching { cache: self, name: &name };
        let bytes = self.fetch(attempt, digest, &self.dir.join(&name))?;
        std::mem::forget(fetching);
        let mut state = self.lock().map_err(|error| cannot(&error))?;
        let known = known(&mut state);
        if let Some(entry) = known.get_mut(&name) {
            (entry.is_there, entry.bytes) = (true, bytes);
        }
        let unneeded = pick(known);
        drop(state);
        self.changed.notify_all();
        unneeded.iter().for_each(|name| self.remove(name));
        Ok(held())
    }

    fn fetch(&self, attempt: &Attempt<'_>, digest: &str, path: &Path) -> Result<u64, Outcome> {
        let new = self.dir.join(format!("{ON_ITS_WAY}{}", chance::name().map_err(|error| cannot(&error))?));
        let parts = attempt.parts();
        let fetched = attempt.insist("fetch the step registry", || {
            remove(&new);
            make_dir(&new).map_err(|error| berth_api::runner::LinkError::Unavailable(error.to_string()))?;
            parts.link.fetch_registry(parts.attempt, digest, &new, &|| attempt.goes_on())
        });
        let kept = fetched.and_then(|()| {
            let kept = protect(&new).and_then(|()| size::of(&new, u64::MAX)).and_then(|bytes| {
                self.confinement.show(&new)?;
                fs::rename(&new, path)?;
                Ok(bytes)
            });
            kept.map_err(|error| cannot(&error))
        });
        if kept.is_err() {
            remove(&new);
        }
        kept
    }

    /// Renames the directory first, because a directory named by a digest must be complete.
    fn remove(&self, name: &str) {
        let Ok(random) = chance::name() else { return };
        let old = self.dir.join(format!("{ON_ITS_WAY}{random}"));
        match fs::rename(self.dir.join(name), &old) {
            Ok(()) => remove(&old),
            Err(error) => tracing::warn!(%error, "cannot remove step registry"),
        }
    }

    fn lock(&self) -> io::Result<MutexGuard<'_, Option<HashMap<String, Entry>>>> {
        let mut state = self.state.lock();
        if state.is_none() {
            *state = Some(self.load()?);
        }
        Ok(state)
    }

    /// Loads what an earlier process has cached.
    fn load(&self) -> io::Result<HashMap<String, Entry>> {
        DirBuilder::new().recursive(true).mode(0o700).create(&self.dir)?;
        self.confinement.admit(&self.dir)?;
        let mut known = HashMap::new();
        for entry in fs::read_dir(&self.dir)? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            if name_of(&name).is_none() || !entry.file_type()?.is_dir() {
                remove(&entry.path());
                continue;
            }
            // It may have been cached for a different step user.
            self.confinement.show(&entry.path())?;
            let bytes = size::of(&entry.path(), REGISTRIES_KEPT_BYTES_MAX)?;
            known.insert(name, Entry { is_there: true, users: 0, used: Instant::now(), bytes });
        }
        Ok(known)
    }
}

impl Held<'_> {
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        if let Ok(mut state) = self.cache.lock()
            && let Some(entry) = known(&mut state).get_mut(&self.digest)
        {
            entry.users = entry.users.saturating_sub(1);
            entry.used = Instant::now();
        }
    }
}

fn known<'a>(
    state: &'a mut MutexGuard<'_, Option<HashMap<String, Entry>>>,
) -> &'a mut HashMap<String, Entry> {
    state.get_or_insert_with(HashMap::new)
}

/// Evicts the least recently used entries until the cache is within its limits; never one in use.
fn pick(known: &mut HashMap<String, Entry>) -> Vec<String> {
    let mut unneeded = Vec::new();
    loop {
        let bytes: u64 = known.values().map(|entry| entry.bytes).sum();
        if known.len() <= REGISTRIES_KEPT_MAX && bytes <= REGISTRIES_KEPT_BYTES_MAX {
            return unneeded;
        }
        let free = known.iter().filter(|(_, entry)| entry.users == 0 && entry.is_there);
        let Some(name) = free.min_by_key(|(_, entry)| entry.used).map(|(name, _)| name.clone()) else {
            return unneeded;
        };
        known.remove(&name);
        unneeded.push(name);
    }
}

/// The directory name of a digest; `None` if it is not a safe file name.
fn name_of(digest: &str) -> Option<String> {
    let is_good = (1..=DIGEST_CHARS_MAX).contains(&digest.len())
        && digest.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, ':' | '_' | '-'));
    is_good.then(|| digest.replace(':', "-"))
}

fn make_dir(path: &Path) -> io::Result<()> {
    DirBuilder::new().mode(0o700).create(path)
}

/// Removes write permission from everything inside, which prevents accidents where there is no sandbox.
fn protect(dir: &Path) -> io::Result<()> {
    let mut waiting = vec![dir.to_owned()];
    while let Some(dir) = waiting.pop() {
        for entry in fs::read_dir(&dir)? {
            let entry = entry?;
            let found = entry.metadata()?;
            if found.is_symlink() {
                continue;
            }
            if found.is_dir() {
                waiting.push(entry.path());
            }
            let mode = found.permissions().mode() & !0o222;
            fs::set_permissions(entry.path(), fs::Permissions::from_mode(mode))?;
        }
    }
    Ok(())
}

fn cannot(error: &io::Error) -> Outcome {
    Outcome::never_started(format!("cannot cache the step registry: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cache_evicts_least_recently_used_but_never_in_use() {
        let began = Instant::now();
        let entry = |age: u64, users: usize, bytes: u64| Entry {
            is_there: true,
            users,
            used: began + Duration::from_secs(100 - age),
            bytes,
        };
        let mut known: HashMap<String, Entry> =
            (0..REGISTRIES_KEPT_MAX as u64 + 2).map(|age| (age.to_string(), entry(age, 0, 1))).collect();
        known.insert("17".into(), entry(17, 1, 1));
        assert_eq!(pick(&mut known), ["16", "15"], "17 is older, but in use");
        assert_eq!(pick(&mut known), Vec::<String>::new());
        known.insert("large".into(), entry(50, 0, REGISTRIES_KEPT_BYTES_MAX));
        assert_eq!(pick(&mut known), ["large"]);
        let mut all_used: HashMap<String, Entry> =
            (0..40).map(|age| (age.to_string(), entry(age, 1, 1))).collect();
        assert_eq!(pick(&mut all_used), Vec::<String>::new());
    }

    #[test]
    fn digest_that_is_a_path_is_rejected() {
        for digest in ["", ".", "..", "a/b", "../x", ".new-1", "a b", &"x".repeat(129)] {
            assert_eq!(name_of(digest), None, "{digest}");
        }
        assert_eq!(name_of("sha256:0a").as_deref(), Some("sha256-0a"));
    }
}
