//! Cache of fetched registries, by digest.
//!
//! ```text
//! WORK_DIR/registries/<digest>
//! WORK_DIR/registries/.new-<random>   being fetched or removed
//! ```
//!
//! A directory that is named after a digest is always complete: it gets this name after the fetch, and is renamed again
//! before it is removed.

use std::collections::HashMap;
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use berth_api::runner::StepRunOutcome;
use parking_lot::{Condvar, Mutex, MutexGuard};

use super::dir_size::dir_size;
use super::{REGISTRIES_KEPT_BYTES_MAX, REGISTRIES_KEPT_MAX};
use crate::attempt::removal::remove_tree;
use crate::attempt::{RunningAttempt, invalid_outcome};
use crate::random;
use crate::sandbox::Confinement;

const TEMPORARY_PREFIX: &str = ".new-";
const DIGEST_CHARS_MAX: usize = 128;
/// How often a step that waits for another step's fetch checks whether it has to stop.
const STOP_POLL_INTERVAL: Duration = Duration::from_millis(50);

pub(crate) struct RegistryCache {
    confinement: Confinement,
    dir: PathBuf,
    /// `None` until a step needs a registry for the first time.
    state: Mutex<Option<HashMap<String, CacheEntry>>>,
    changed: Condvar,
}

struct CacheEntry {
    /// False while the registry is being fetched.
    is_fetched: bool,
    users: usize,
    used: Instant,
    bytes: u64,
}

/// A registry that is in use. It is not evicted until this is dropped.
pub(crate) struct HeldRegistry<'a> {
    cache: &'a RegistryCache,
    digest: String,
    path: PathBuf,
}

/// Removes the cache entry if the fetch fails, so that the next step can fetch the registry again.
struct FetchGuard<'a> {
    cache: &'a RegistryCache,
    name: &'a str,
}

impl Drop for FetchGuard<'_> {
    fn drop(&mut self) {
        if let Ok(mut state) = self.cache.lock() {
            loaded_entries(&mut state).remove(self.name);
        }
        self.cache.changed.notify_all();
    }
}

impl RegistryCache {
    pub(crate) fn new(work_dir: &Path, confinement: &Confinement) -> Self {
        let confinement = confinement.clone();
        Self {
            confinement,
            dir: work_dir.join("registries"),
            state: Mutex::new(None),
            changed: Condvar::new(),
        }
    }

    /// Returns the registry, and fetches it if it is not cached. Concurrent callers wait for the same fetch.
    pub(crate) fn get(
        &self,
        attempt: &RunningAttempt<'_>,
        digest: &str,
    ) -> Result<HeldRegistry<'_>, StepRunOutcome> {
        let name = dir_name_of(digest)
            .ok_or_else(|| invalid_outcome("the digest of the step registry is invalid".into()))?;
        let held = || HeldRegistry { cache: self, path: self.dir.join(&name), digest: name.clone() };
        loop {
            let mut state = self.lock().map_err(|error| cache_failure(&error))?;
            let known = loaded_entries(&mut state);
            match known.get_mut(&name) {
                Some(entry) if entry.is_fetched => {
                    (entry.users, entry.used) = (entry.users + 1, Instant::now());
                    return Ok(held());
                }
                Some(_) => {}
                None => {
                    let entry = CacheEntry { is_fetched: false, users: 1, used: Instant::now(), bytes: 0 };
                    known.insert(name.clone(), entry);
                    break;
                }
            }
            self.changed.wait_for(&mut state, STOP_POLL_INTERVAL);
            drop(state);
            if let Some(why) = attempt.stop_reason() {
                return Err(attempt.stopped_outcome(&why));
            }
            if Instant::now() >= attempt.deadline {
                let detail = "another step is still fetching its registry".into();
                return Err(StepRunOutcome::never_started(detail));
            }
        }
        let fetching = FetchGuard { cache: self, name: &name };
        let bytes = self.fetch(attempt, digest, &self.dir.join(&name))?;
        std::mem::forget(fetching);
        let mut state = self.lock().map_err(|error| cache_failure(&error))?;
        let known = loaded_entries(&mut state);
        if let Some(entry) = known.get_mut(&name) {
            (entry.is_fetched, entry.bytes) = (true, bytes);
        }
        let unneeded = evict_unused(known);
        drop(state);
        self.changed.notify_all();
        unneeded.iter().for_each(|name| self.remove(name));
        Ok(held())
    }

    fn fetch(&self, attempt: &RunningAttempt<'_>, digest: &str, path: &Path) -> Result<u64, StepRunOutcome> {
        let new = self.dir.join(format!(
            "{TEMPORARY_PREFIX}{}",
            random::random_hex().map_err(|error| cache_failure(&error))?
        ));
        let parts = attempt.parts();
        let fetched = attempt.retry_link_call("fetch the step registry", || {
            remove_tree(&new);
            make_dir(&new).map_err(|error| berth_api::runner::LinkError::Unavailable(error.to_string()))?;
            parts.link.fetch_registry(parts.attempt, digest, &new, &|| attempt.is_still_wanted())
        });
        let kept = fetched.and_then(|()| {
            let kept =
                remove_write_permission(&new).and_then(|()| dir_size(&new, u64::MAX)).and_then(|bytes| {
                    self.confinement.allow_read(&new)?;
                    fs::rename(&new, path)?;
                    Ok(bytes)
                });
            kept.map_err(|error| cache_failure(&error))
        });
        if kept.is_err() {
            remove_tree(&new);
        }
        kept
    }

    /// Removes a registry. Renames its directory first, because a directory that is named after a digest must always be
    /// complete.
    fn remove(&self, name: &str) {
        let Ok(random) = random::random_hex() else { return };
        let old = self.dir.join(format!("{TEMPORARY_PREFIX}{random}"));
        match fs::rename(self.dir.join(name), &old) {
            Ok(()) => remove_tree(&old),
            Err(error) => tracing::warn!(%error, "cannot remove step registry"),
        }
    }

    fn lock(&self) -> io::Result<MutexGuard<'_, Option<HashMap<String, CacheEntry>>>> {
        let mut state = self.state.lock();
        if state.is_none() {
            *state = Some(self.load()?);
        }
        Ok(state)
    }

    /// Loads the list of registries that an earlier process has cached.
    fn load(&self) -> io::Result<HashMap<String, CacheEntry>> {
        DirBuilder::new().recursive(true).mode(0o700).create(&self.dir)?;
        self.confinement.allow_traverse(&self.dir)?;
        let mut known = HashMap::new();
        for entry in fs::read_dir(&self.dir)? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            if dir_name_of(&name).is_none() || !entry.file_type()?.is_dir() {
                remove_tree(&entry.path());
                continue;
            }
            // The registry may have been cached for a different step user.
            self.confinement.allow_read(&entry.path())?;
            let bytes = dir_size(&entry.path(), REGISTRIES_KEPT_BYTES_MAX)?;
            known.insert(name, CacheEntry { is_fetched: true, users: 0, used: Instant::now(), bytes });
        }
        Ok(known)
    }
}

impl HeldRegistry<'_> {
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for HeldRegistry<'_> {
    fn drop(&mut self) {
        if let Ok(mut state) = self.cache.lock()
            && let Some(entry) = loaded_entries(&mut state).get_mut(&self.digest)
        {
            entry.users = entry.users.saturating_sub(1);
            entry.used = Instant::now();
        }
    }
}

fn loaded_entries<'a>(
    state: &'a mut MutexGuard<'_, Option<HashMap<String, CacheEntry>>>,
) -> &'a mut HashMap<String, CacheEntry> {
    state.get_or_insert_with(HashMap::new)
}

/// Evicts the least recently used registries until the cache is within its limits. Registries in use are never evicted.
fn evict_unused(known: &mut HashMap<String, CacheEntry>) -> Vec<String> {
    let mut unneeded = Vec::new();
    loop {
        let bytes: u64 = known.values().map(|entry| entry.bytes).sum();
        if known.len() <= REGISTRIES_KEPT_MAX && bytes <= REGISTRIES_KEPT_BYTES_MAX {
            return unneeded;
        }
        let free = known.iter().filter(|(_, entry)| entry.users == 0 && entry.is_fetched);
        let Some(name) = free.min_by_key(|(_, entry)| entry.used).map(|(name, _)| name.clone()) else {
            return unneeded;
        };
        known.remove(&name);
        unneeded.push(name);
    }
}

/// Returns the directory name for a digest, or `None` if the digest is not a safe file name.
fn dir_name_of(digest: &str) -> Option<String> {
    let is_good = (1..=DIGEST_CHARS_MAX).contains(&digest.len())
        && digest.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, ':' | '_' | '-'));
    is_good.then(|| digest.replace(':', "-"))
}

fn make_dir(path: &Path) -> io::Result<()> {
    DirBuilder::new().mode(0o700).create(path)
}

/// Removes write permission from everything in the directory. Without a sandbox, this at least prevents accidental
/// changes.
fn remove_write_permission(dir: &Path) -> io::Result<()> {
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

fn cache_failure(error: &io::Error) -> StepRunOutcome {
    StepRunOutcome::never_started(format!("cannot cache the step registry: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cache_evicts_least_recently_used_but_never_in_use() {
        let began = Instant::now();
        let entry = |age: u64, users: usize, bytes: u64| CacheEntry {
            is_fetched: true,
            users,
            used: began + Duration::from_secs(100 - age),
            bytes,
        };
        let mut known: HashMap<String, CacheEntry> =
            (0..REGISTRIES_KEPT_MAX as u64 + 2).map(|age| (age.to_string(), entry(age, 0, 1))).collect();
        known.insert("17".into(), entry(17, 1, 1));
        assert_eq!(evict_unused(&mut known), ["16", "15"], "17 is older, but in use");
        assert_eq!(evict_unused(&mut known), Vec::<String>::new());
        known.insert("large".into(), entry(50, 0, REGISTRIES_KEPT_BYTES_MAX));
        assert_eq!(evict_unused(&mut known), ["large"]);
        let mut all_used: HashMap<String, CacheEntry> =
            (0..40).map(|age| (age.to_string(), entry(age, 1, 1))).collect();
        assert_eq!(evict_unused(&mut all_used), Vec::<String>::new());
    }

    #[test]
    fn digest_that_is_a_path_is_rejected() {
        for digest in ["", ".", "..", "a/b", "../x", ".new-1", "a b", &"x".repeat(129)] {
            assert_eq!(dir_name_of(digest), None, "{digest}");
        }
        assert_eq!(dir_name_of("sha256:0a").as_deref(), Some("sha256-0a"));
    }
}
