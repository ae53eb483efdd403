//! Storage of image builds, apart from the images that steps use.
//!
//! ```text
//! WORK_DIR/builds/<key>-<number>/root   layers and images
//!                                run    state of mounts
//!                                used   its time of modification is the time of the last use
//! ```
//!
//! A build decides what is in its storage, and later builds with the same storage take base images and layers from it. The
//! key stands for those who trust each other: the commits that a pipeline builds for one environment or stage, without
//! those of forks. Builds that run at the same time have storages with different numbers.

use std::collections::HashSet;
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant, SystemTime};

use berth_api::runner::AttemptAssignment;
use parking_lot::Mutex;
use rustix::mount::{UnmountFlags, unmount};
use rustix::process::geteuid;
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use crate::attempt::removal::remove_tree;

const BUILDS: &str = "builds";
const USED: &str = "used";
/// Number of bytes of a hash that stand for a key.
const KEY_BYTES: usize = 16;
/// Maximum number of storages that are kept.
const STORAGES_MAX: usize = 16;
/// Maximum total size of the layers in storages that are kept, uncompressed.
const STORAGES_BYTES_MAX: u64 = 32 * 1024 * 1024 * 1024;
/// How long the removal of a storage in a user namespace may take.
const REMOVAL_TIME_MAX: Duration = Duration::from_secs(120);
const REMOVAL_POLL_INTERVAL: Duration = Duration::from_millis(50);

/// The storages of a runner.
pub(super) struct BuildStorages {
    dir: PathBuf,
    in_use: Mutex<HashSet<PathBuf>>,
}

/// A storage that no other build uses until this is dropped.
pub(super) struct BuildStorage<'a> {
    storages: &'a BuildStorages,
    dir: PathBuf,
}

impl BuildStorages {
    pub(super) fn new(work_dir: &Path) -> Self {
        Self { dir: work_dir.join(BUILDS), in_use: Mutex::default() }
    }

    pub(super) fn reserve(&self, assignment: &AttemptAssignment) -> io::Result<BuildStorage<'_>> {
        let key = storage_key(assignment);
        let storage = {
            let mut in_use = self.in_use.lock();
            let mut number = 0;
            let dir = loop {
                let dir = self.dir.join(format!("{key}-{number}"));
                if in_use.insert(dir.clone()) {
                    break dir;
                }
                number += 1;
            };
            BuildStorage { storages: self, dir }
        };
        DirBuilder::new().mode(0o700).recursive(true).create(&storage.dir)?;
        fs::write(storage.dir.join(USED), b"\n")?;
        Ok(storage)
    }

    /// Removes the least recently used storages beyond the limits. Those in use stay.
    pub(super) fn shrink(&self, buildah: &Path) {
        let entries = fs::read_dir(&self.dir).into_iter().flatten().flatten();
        let mut by_use: Vec<(SystemTime, PathBuf)> = entries
            .map(|entry| {
                let used = entry.path().join(USED).metadata().and_then(|found| found.modified());
                (used.unwrap_or(SystemTime::UNIX_EPOCH), entry.path())
            })
            .collect();
        by_use.sort_by(|a, b| b.cmp(a));
        let (mut kept, mut bytes) = (0, 0_u64);
        for (_, dir) in by_use {
            let with_this = bytes.saturating_add(layer_bytes(&dir));
            if kept < STORAGES_MAX && with_this <= STORAGES_BYTES_MAX {
                (kept, bytes) = (kept + 1, with_this);
            } else if self.in_use.lock().insert(dir.clone()) {
                let storage = BuildStorage { storages: self, dir };
                storage.remove(buildah);
            }
        }
    }
}

impl BuildStorage<'_> {
    /// Lets buildah use this storage and no other.
    pub(super) fn add_arguments(&self, command: &mut Command) {
        command.arg("--root").arg(self.dir.join("root")).arg("--runroot").arg(self.dir.join("run"));
    }

    /// Whether a build that was killed has left containers.
    pub(super) fn has_containers(&self) -> bool {
        let records = read_records(&self.dir, "containers");
        records.iter().any(|record| record.as_array().is_none_or(|containers| !containers.is_empty()))
    }

    fn remove(&self, buildah: &Path) {
        let overlay = self.dir.join("root/overlay");
        let layers = fs::read_dir(&overlay).into_iter().flatten().flatten();
        // A build that was killed leaves its mounts. All other paths are no mount points.
        for path in layers.map(|layer| layer.path().join("merged")).chain([overlay]) {
            unmount(&path, UnmountFlags::DETACH).ok();
        }
        if !geteuid().is_root()
            && let Err(error) = remove_in_user_namespace(buildah, &self.dir)
        {
            tracing::warn!(path = %self.dir.display(), %error, "cannot remove a build storage");
        }
        remove_tree(&self.dir);
    }
}

impl Drop for BuildStorage<'_> {
    fn drop(&mut self) {
        self.storages.in_use.lock().remove(&self.dir);
    }
}

/// Stands for the builds that share a storage.
fn storage_key(assignment: &AttemptAssignment) -> String {
    let fact = |name: &str| assignment.facts.get(name).map(String::as_str);
    let target = match fact("BERTH_ENVIRONMENT") {
        Some(name) => ["environment", name],
        None => ["stage", fact("BERTH_STAGE").unwrap_or_default()],
    };
    let trust = if assignment.is_untrusted { "untrusted" } else { "trusted" };
    let pipeline = fact("BERTH_PIPELINE_ID").unwrap_or_default();
    let parts = [assignment.attempt.organization_id.as_str(), pipeline, target[0], target[1], trust];
    let mut hash = Sha256::new();
    for part in parts {
        // No part contains a zero byte, so other parts have another hash.
        hash.update(part.as_bytes());
        hash.update([0]);
    }
    hash.finalize().iter().take(KEY_BYTES).map(|byte| format!("{byte:02x}")).collect()
}

/// The size of the layers in a storage. One that cannot be read counts as too large.
fn layer_bytes(dir: &Path) -> u64 {
    let records = read_records(dir, "layers");
    let layers = records.iter().map(|record| record.as_array().ok_or(()));
    layers.fold(0, |bytes, layers| match layers {
        Ok(layers) => layers
            .iter()
            .filter_map(|layer| layer.get("diff-size").and_then(Value::as_u64))
            .fold(bytes, u64::saturating_add),
        Err(()) => u64::MAX,
    })
}

/// Reads the records of a kind for every storage driver: `root/overlay-layers/layers.json` and `volatile-layers.json`. A
/// file that cannot be read is null.
fn read_records(dir: &Path, kind: &str) -> Vec<Value> {
    let entries = |dir: &Path| fs::read_dir(dir).into_iter().flatten().flatten();
    let ends_with = |path: &Path, suffix: &str| {
        path.file_name().is_some_and(|name| name.to_string_lossy().ends_with(suffix))
    };
    let drivers = entries(&dir.join("root")).map(|driver| driver.path());
    let drivers = drivers.filter(|driver| ends_with(driver, &format!("-{kind}")));
    let files = drivers.flat_map(|driver| entries(&driver)).map(|file| file.path());
    files
        .filter(|path| ends_with(path, &format!("{kind}.json")))
        .map(|path| {
            fs::read(path).ok().and_then(|text| serde_json::from_slice(&text).ok()).unwrap_or_default()
        })
        .collect()
}

/// Removes files that belong to subordinate user ids.
fn remove_in_user_namespace(buildah: &Path, dir: &Path) -> io::Result<()> {
    let mut command = Command::new(buildah);
    command.args(["unshare", "rm", "-rf", "--"]).arg(dir);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = command.spawn()?;
    let until = Instant::now() + REMOVAL_TIME_MAX;
    while child.try_wait()?.is_none() {
        if Instant::now() >= until {
            child.kill()?;
            child.wait()?;
            return Err(io::Error::other("it takes too long"));
        }
        std::thread::sleep(REMOVAL_POLL_INTERVAL);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;

    /// Makes a storage that was used this many seconds after the others.
    fn make_storage(storages: &BuildStorages, name: &str, seconds: u64, layer_bytes: u64) {
        let dir = storages.dir.join(name);
        let layers = dir.join("root/overlay-layers");
        fs::create_dir_all(&layers).expect("directory");
        fs::write(layers.join("layers.json"), format!("[{{\"diff-size\":{layer_bytes}}}]")).expect("layers");
        let used = File::create(dir.join(USED)).expect("file");
        used.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)).expect("time");
    }

    fn names(storages: &BuildStorages) -> Vec<String> {
        let entries = fs::read_dir(&storages.dir).expect("storages").flatten();
        let mut names: Vec<String> =
            entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }

    #[test]
    fn least_recently_used_storages_are_removed_beyond_the_limits() {
        let dir = tempfile::tempdir().expect("directory");
        let storages = BuildStorages::new(dir.path());
        for number in 0..STORAGES_MAX as u64 + 2 {
            make_storage(&storages, &format!("s{number:02}"), number, 1);
        }
        storages.in_use.lock().insert(storages.dir.join("s00"));
        storages.shrink(Path::new("/bin/true"));
        let expected: Vec<String> =
            (0..STORAGES_MAX as u64 + 2).filter(|it| *it != 1).map(|it| format!("s{it:02}")).collect();
        assert_eq!(names(&storages), expected, "the oldest that is not in use is removed");
        make_storage(&storages, "large", 100, STORAGES_BYTES_MAX);
        make_storage(&storages, "larger", 101, STORAGES_BYTES_MAX + 1);
        storages.shrink(Path::new("/bin/true"));
        assert_eq!(names(&storages), ["large", "s00"]);
    }
}
