//! Logs whose attempt has ended, until they are sealed. A step does not wait for that: its log is durable already.

use std::path::Path;

use parking_lot::Mutex;
use tokio::sync::Notify;

use super::open::found;
use super::store::AFTER_FENCE;
use super::{LogError, LogKey, LogStore, LogStream};

/// Beyond it, a log stays as it is until the next start.
const ENDED_MAX: usize = 65_536;
/// Logs that an earlier process left: as many are looked for at a start.
const LEFT_MAX: usize = 65_536;

/// At the end of the name of a sealed log.
pub(super) const SEALED: &str = ".zst";

#[derive(Default)]
pub(super) struct Ended {
    keys: Mutex<Vec<LogKey>>,
    more: Notify,
}

impl LogStore {
    /// The attempt has ended: its log is sealed as soon as there is time for it.
    pub fn seal_later(&self, key: &LogKey) {
        let mut keys = self.ended().keys.lock();
        if keys.len() < ENDED_MAX {
            keys.push(*key);
        }
        drop(keys);
        self.ended().more.notify_one();
    }

    /// Returns when there is something for [`LogStore::seal_ended`].
    pub async fn has_ended(&self) {
        self.ended().more.notified().await;
    }

    /// Seals what waits for it. One that cannot be sealed stays a plain file, which is read like the others.
    pub fn seal_ended(&self) {
        let keys = std::mem::take(&mut *self.ended().keys.lock());
        for key in keys {
            if let Err(error) = self.seal(&key) {
                tracing::error!(%error, deployment = %key.deployment, "a log could not be sealed");
            }
        }
    }

    /// Logs that are still plain files, in no order.
    pub fn unsealed(&self) -> Result<Vec<LogKey>, LogError> {
        let mut keys = Vec::new();
        for org in entries(self.dir())? {
            for deployment in entries(&self.dir().join(&org))? {
                for name in entries(&self.dir().join(&org).join(&deployment))? {
                    keys.extend(key(&org, &deployment, &name));
                    if keys.len() >= LEFT_MAX {
                        return Ok(keys);
                    }
                }
            }
        }
        Ok(keys)
    }
}

pub(super) fn entries(dir: &Path) -> Result<Vec<String>, LogError> {
    let Some(entries) = found(std::fs::read_dir(dir))? else { return Ok(Vec::new()) };
    entries.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned())).collect()
}

/// Of a plain log; other forms have one more ending.
pub(super) fn key(org: &str, deployment: &str, name: &str) -> Option<LogKey> {
    let (stream, name) = match name.strip_prefix(AFTER_FENCE) {
        Some(rest) => (LogStream::AfterFence, rest),
        None => (LogStream::Step, name),
    };
    let (step, attempt) = name.split_once('.')?;
    Some(LogKey {
        org: org.parse().ok()?,
        deployment: deployment.parse().ok()?,
        step: step.parse().ok()?,
        attempt: attempt.parse().ok()?,
        stream,
    })
}
