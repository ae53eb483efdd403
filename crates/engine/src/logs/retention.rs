//! Log retention: replaces the content of old logs with a one-line note.

use std::collections::BTreeSet;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt as _;
use std::time::SystemTime;

use berth_core::id::{DeploymentId, OrgId};

use super::files::{LogFiles, none_if_missing};
use super::index::LineIndex;
use super::seal_queue::{SEALED, entries, parse_file_name};
use super::{LogError, LogStore, sealed_log};

/// The result of [`LogStore::replace_older`] for one deployment.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct ReplaceReport {
    pub replaced: usize,
    /// Number of logs that were too recent to be replaced.
    pub kept: usize,
}

impl LogStore {
    /// Replaces the content of every log of the deployment that was last written before `before` with `text`.
    pub fn replace_older(
        &self,
        org: OrgId,
        deployment: DeploymentId,
        text: &[u8],
        before: SystemTime,
    ) -> Result<ReplaceReport, LogError> {
        if let Some(objects) = self.objects() {
            return self.replace_older_objects(objects, (org, deployment), text, before);
        }
        let (org_name, name) = (org.to_string(), deployment.to_string());
        let listed = entries(&self.dir().join(&org_name).join(&name))?;
        let plain: BTreeSet<&str> =
            listed.iter().map(|file| file.strip_suffix(SEALED).unwrap_or(file)).collect();
        let mut done = ReplaceReport::default();
        for key in plain.into_iter().filter_map(|file| parse_file_name(&org_name, &name, file)) {
            let files = self.files(&key);
            match last_written_at(&files)? {
                None => {}
                Some(at) if at >= before => done.kept += 1,
                Some(at) => {
                    replace(&files, text, at)?;
                    self.remove_entry(&key);
                    done.replaced += 1;
                }
            }
        }
        Ok(done)
    }
}

fn last_written_at(files: &LogFiles) -> Result<Option<SystemTime>, LogError> {
    let mut last = None;
    for path in [&files.plain, &files.packed] {
        if let Some(info) = none_if_missing(std::fs::metadata(path))? {
            last = last.max(Some(info.modified()?));
        }
    }
    Ok(last)
}

/// Replaces the content of a log. A crash at any time leaves either the old content or the note. The note keeps the
/// log's modification time, so that a later pass does not mistake it for a recent log.
fn replace(files: &LogFiles, text: &[u8], at: SystemTime) -> Result<(), LogError> {
    let unfinished = files.packed.with_extension("part");
    let file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&unfinished)?;
    let mut index = LineIndex::default();
    index.push(text);
    sealed_log::write(&file, &index, None, |_, block| {
        block.clear();
        block.extend_from_slice(text);
        Ok(())
    })?;
    file.set_modified(at)?;
    std::fs::rename(&unfinished, &files.packed)?;
    if let Some(dir) = files.packed.parent() {
        File::open(dir)?.sync_all()?;
    }
    none_if_missing(std::fs::remove_file(&files.plain))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use berth_core::id::StepRunId;
    use berth_core::time::Timestamp;

    use super::*;
    use crate::logs::{AppendResult, LogKey, LogStream};

    fn key(attempt: u32) -> LogKey {
        let at = Timestamp::from_micros(1);
        LogKey {
            org: OrgId::from_parts(at, [1; 10]),
            deployment: DeploymentId::from_parts(at, [2; 10]),
            step: StepRunId::from_parts(at, [3; 10]),
            attempt,
            stream: LogStream::Step,
        }
    }

    #[test]
    fn old_logs_are_replaced_and_recent_ones_kept() {
        let dir = tempfile::tempdir().unwrap();
        let (store, [sealed, plain, young]) = (LogStore::new(dir.path().to_owned()), [1, 2, 3].map(key));
        for key in [&sealed, &plain, &young] {
            store.append(key, 0, b"printed\n").unwrap();
        }
        let limit = SystemTime::now() - Duration::from_secs(60);
        let old = limit - Duration::from_secs(60);
        for key in [&sealed, &plain] {
            let file = File::options().write(true).open(store.files(key).plain).unwrap();
            file.set_modified(old).unwrap();
        }
        // Sealing keeps the modification time.
        store.seal(&sealed).unwrap();
        let text = |key| store.open(key).unwrap().unwrap().read_bytes(0, 99).unwrap();
        let replace = |limit| store.replace_older(young.org, young.deployment, b"gone\n", limit).unwrap();
        // The second pass finds the notes that the first pass wrote.
        for _ in 0..2 {
            assert_eq!(replace(limit), ReplaceReport { replaced: 2, kept: 1 });
            assert_eq!([&sealed, &plain, &young].map(text), [&b"gone\n"[..], b"gone\n", b"printed\n"]);
        }
        assert_eq!(store.append(&young, 8, b"more\n").unwrap(), AppendResult::Written { length: 13 });
        assert_eq!(
            replace(SystemTime::now() + Duration::from_secs(60)),
            ReplaceReport { replaced: 3, kept: 0 }
        );
        assert_eq!(text(&young), b"gone\n");
        assert_eq!(store.list_unsealed().unwrap(), []);
    }
}
