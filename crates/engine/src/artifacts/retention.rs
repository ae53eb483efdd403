//! Removes artifacts that have not been stored again for a long time. Storing and removing both check the modification
//! time while holding a file lock, so an artifact that is being stored again is not removed.

use std::fs::File;
use std::io::{self, ErrorKind};
use std::path::Path;
use std::time::SystemTime;

use berth_core::id::OrgId;

use super::{ArtifactError, ArtifactStore};

/// Name of the lock file. Backups skip files with the prefix `part-`.
const LOCK: &str = "part-lock";

/// Writers hold the lock in shared mode, and a removal holds it exclusively.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum ArtifactLockMode {
    Shared,
    Alone,
}

impl ArtifactStore {
    /// Returns the digests of artifacts that were last stored before `limit`, in ascending order, starting after the
    /// digest `after`.
    pub fn list_older(
        &self,
        org: OrgId,
        limit: SystemTime,
        after: Option<&str>,
        count: usize,
    ) -> Result<Vec<String>, ArtifactError> {
        if let Some(objects) = &self.objects {
            return objects.list_older(org, limit, after, count);
        }
        let dir = self.dir.join(org.to_string()).join("sha256");
        let mut found = Vec::new();
        for first in names(&dir, 2)? {
            if after.is_some_and(|after| format!("sha256:{first}~").as_str() < after) {
                continue;
            }
            for rest in names(&dir.join(&first), 62)? {
                let digest = format!("sha256:{first}{rest}");
                let is_old = || is_older(&dir.join(&first).join(&rest), limit);
                if after.is_none_or(|after| digest.as_str() > after) && is_old()? {
                    found.push(digest);
                }
                if found.len() == count {
                    return Ok(found);
                }
            }
        }
        Ok(found)
    }

    /// Removes an artifact that was last stored before `limit`. Returns false if the artifact was stored again in the
    /// meantime or no longer exists.
    pub fn remove_older(&self, org: OrgId, digest: &str, limit: SystemTime) -> Result<bool, ArtifactError> {
        let place = self.archive_path(org, digest)?;
        if let Some(objects) = &self.objects {
            return objects.remove_older(org, digest, limit);
        }
        let _lock = self.lock(org, ArtifactLockMode::Alone)?;
        if !is_older(&place, limit)? {
            return Ok(false);
        }
        std::fs::remove_file(&place)?;
        Ok(true)
    }

    pub(super) fn lock(&self, org: OrgId, how: ArtifactLockMode) -> Result<File, ArtifactError> {
        let path = self.dir.join(org.to_string()).join(LOCK);
        let file = File::options().create(true).truncate(false).write(true).open(path)?;
        match how {
            ArtifactLockMode::Shared => file.lock_shared()?,
            ArtifactLockMode::Alone => file.lock()?,
        }
        Ok(file)
    }

    /// Returns whether the artifact exists. If it does, updates its modification time.
    pub(super) fn renew(&self, place: &Path) -> Result<bool, ArtifactError> {
        match File::options().write(true).open(place) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error.into()),
            Ok(file) => {
                file.set_modified(SystemTime::now())?;
                Ok(true)
            }
        }
    }
}

fn is_older(place: &Path, limit: SystemTime) -> io::Result<bool> {
    match std::fs::metadata(place) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
        found => Ok(found?.modified()? < limit),
    }
}

/// Returns the sorted names of the directory's entries that consist of `digits` hexadecimal digits.
fn names(dir: &Path, digits: usize) -> io::Result<Vec<String>> {
    let listed = match std::fs::read_dir(dir) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        listed => listed?,
    };
    let mut names = Vec::new();
    for entry in listed {
        let name = entry?.file_name().to_string_lossy().into_owned();
        if name.len() == digits && name.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            names.push(name);
        }
    }
    names.sort_unstable();
    Ok(names)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::time::Duration;

    use berth_core::time::Timestamp;

    use super::*;

    #[test]
    fn old_artifacts_are_listed_in_order_and_renewed_ones_kept() {
        let [org, other] = [1, 2].map(|number| OrgId::from_parts(Timestamp::from_micros(1), [number; 10]));
        let dir = tempfile::tempdir().unwrap();
        let artifacts = ArtifactStore::new(dir.path().join("artifacts"));
        let keep = |number: u8| {
            fs::write(dir.path().join("page"), format!("page {number}")).unwrap();
            artifacts.store_path(org, dir.path(), "page").unwrap().digest
        };
        let mut digests: Vec<String> = (0..5).map(keep).collect();
        let long_ago = SystemTime::now() - Duration::from_secs(1_000);
        let limit = long_ago + Duration::from_secs(1);
        assert_eq!(artifacts.list_older(org, limit, None, 9).unwrap(), [""; 0], "all are new");
        for digest in &digests {
            let place = artifacts.archive_path(org, digest).unwrap();
            File::options().write(true).open(place).unwrap().set_modified(long_ago).unwrap();
        }
        let again = digests.pop().unwrap();
        assert_eq!(keep(4), again);
        digests.sort_unstable();
        let first = artifacts.list_older(org, limit, None, 3).unwrap();
        assert_eq!(first, digests[..3]);
        assert_eq!(artifacts.list_older(org, limit, Some(&first[2]), 3).unwrap(), digests[3..]);
        assert!(!artifacts.remove_older(org, &again, limit).unwrap(), "it was kept again");
        assert!(artifacts.contains(org, &again).unwrap());
        assert!(artifacts.remove_older(org, &digests[0], limit).unwrap());
        assert!(!artifacts.contains(org, &digests[0]).unwrap());
        assert_eq!(artifacts.list_older(other, limit, None, 9).unwrap(), [""; 0]);
    }
}
