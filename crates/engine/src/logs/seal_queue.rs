//! Queue of logs to be sealed after their attempts have ended. Steps do not wait for it, because their logs are already
//! durable.

use std::collections::BTreeSet;
use std::path::Path;

use parking_lot::Mutex;
use tokio::sync::Notify;

use super::files::none_if_missing;
use super::store::AFTER_FENCE;
use super::{LogError, LogKey, LogStore, LogStream};

/// Maximum queue length. Logs beyond it are sealed after the next start of the server.
const ENDED_MAX: usize = 65_536;
/// Maximum number of unsealed logs from an earlier process that are queued at startup.
const LEFT_MAX: usize = 65_536;

/// File extension of sealed logs.
pub(super) const SEALED: &str = ".zst";

#[derive(Default)]
pub(super) struct SealQueue {
    keys: Mutex<Vec<LogKey>>,
    more: Notify,
}

impl LogStore {
    /// Queues the log of an ended attempt for sealing.
    pub fn seal_later(&self, key: &LogKey) {
        let mut keys = self.seal_queue().keys.lock();
        if keys.len() < ENDED_MAX {
            keys.push(*key);
        }
        drop(keys);
        self.seal_queue().more.notify_one();
    }

    /// Waits until the queue contains logs for [`LogStore::seal_ended`].
    pub async fn wait_for_ended(&self) {
        self.seal_queue().more.notified().await;
    }

    /// Seals the queued logs. If a log cannot be sealed, it remains a readable plain file.
    pub fn seal_ended(&self) {
        let keys = std::mem::take(&mut *self.seal_queue().keys.lock());
        for key in keys {
            if let Err(error) = self.seal(&key) {
                tracing::error!(%error, deployment = %key.deployment, "sealing a log failed");
            }
        }
    }

    /// Lists the logs that are not sealed yet, in no particular order.
    pub fn list_unsealed(&self) -> Result<Vec<LogKey>, LogError> {
        let mut keys = Vec::new();
        for org in entries(self.dir())? {
            for deployment in entries(&self.dir().join(&org))? {
                for name in entries(&self.dir().join(&org).join(&deployment))? {
                    keys.extend(parse_file_name(&org, &deployment, &name));
                    if keys.len() >= LEFT_MAX {
                        return Ok(keys);
                    }
                }
            }
        }
        Ok(keys)
    }
}

impl LogStore {
    /// Calls `each` for every log in the directory, sealed or not.
    pub fn for_each_log<E: From<LogError>>(
        &self,
        mut each: impl FnMut(&LogKey) -> Result<(), E>,
    ) -> Result<(), E> {
        for org in entries(self.dir())? {
            for deployment in entries(&self.dir().join(&org))? {
                let names = entries(&self.dir().join(&org).join(&deployment))?;
                let plain: BTreeSet<&str> =
                    names.iter().map(|name| name.strip_suffix(SEALED).unwrap_or(name)).collect();
                for key in plain.into_iter().filter_map(|name| parse_file_name(&org, &deployment, name)) {
                    each(&key)?;
                }
            }
        }
        Ok(())
    }
}

pub(super) fn entries(dir: &Path) -> Result<Vec<String>, LogError> {
    let Some(entries) = none_if_missing(std::fs::read_dir(dir))? else { return Ok(Vec::new()) };
    entries.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned())).collect()
}

/// Parses the file name of a plain log. Returns `None` for other files, whose names have an additional extension.
pub(super) fn parse_file_name(org: &str, deployment: &str, name: &str) -> Option<LogKey> {
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
