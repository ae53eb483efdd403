//! Exchanges logs with object storage: puts what this server receives, and fetches what other servers have put.
//!
//! Object storage is authoritative. If two servers have received different bytes at the same offset, those that were
//! put first are the log.

use std::fs::File;
use std::sync::Arc;
use std::time::SystemTime;

use aws_lc_rs::digest::{SHA256, digest};
use berth_core::id::{DeploymentId, OrgId};
use berth_core::time::Timestamp;
use berth_store::tables::log_object::{self, LogObject};

use super::files::{count, load, none_if_missing, write_sealed};
use super::index::LineIndex;
use super::log_objects::LogObjects;
use super::open_log::{LogPhase, OpenLog, OpenLogState};
use super::reader::LogReader;
use super::sealed_log::{self, LogSeal, SealedLog, read_plain};
use super::store::LogAccess;
use super::{LOG_CHUNK_BYTES_MAX, LogError, LogKey, LogStore, LogStream, ReplaceReport};
use crate::object_storage::{ObjectTier, StoredObject};
use crate::vault::hex;

/// Smaller parts are replaced by a larger one that also contains what follows.
const PART_BYTES_MIN: u64 = 256 * 1024;
/// Maximum size of a part, which is in memory while it is put.
const PART_BYTES_MAX: u64 = 4 * 1024 * 1024;
/// How often an operation is repeated because another server has changed the log.
const CONFLICTS_MAX: usize = 5;
/// Maximum number of logs that are put at the same time.
const PUTS_AT_ONCE: usize = 8;
/// Why a log cannot be read if a row names an object that does not exist.
const MISSING: &str = "its object is missing";

impl OpenLog {
    /// Fetches what other servers have put. Local bytes that are not in object storage yet are kept.
    pub(super) fn fetch(&self) -> Result<(), LogError> {
        let Some(objects) = &self.objects else { return Ok(()) };
        let _turn = self.sealing.lock();
        self.fetch_next(objects)
    }

    fn fetch_next(&self, objects: &LogObjects) -> Result<(), LogError> {
        match self.fetch_existing(objects)? {
            true => Ok(()),
            false => Err(LogError::Corrupt(MISSING)),
        }
    }

    /// Returns false if an object that a row names is missing. What is before it was fetched.
    fn fetch_existing(&self, objects: &LogObjects) -> Result<bool, LogError> {
        let mut missing = None;
        for _ in 0..CONFLICTS_MAX {
            let mut state = self.state.lock();
            match state.phase {
                LogPhase::Sealed(_) => return Ok(true),
                LogPhase::Unknown => {
                    // Stays unknown until all objects were fetched.
                    *state = OpenLogState { phase: LogPhase::Unknown, ..load(&self.files)? };
                }
                LogPhase::Open | LogPhase::Sealing => {}
            }
            let stored = state.stored;
            drop(state);
            let Some(object) = self.fetch_all(objects, &objects.list_after(stored)?)? else {
                let mut state = self.state.lock();
                if matches!(state.phase, LogPhase::Unknown) {
                    state.phase = LogPhase::Open;
                }
                self.publish_progress(&state);
                return Ok(true);
            };
            // A row is deleted before its object, so the object was not replaced if a row still names it.
            if missing.as_ref() == Some(&object) {
                return Ok(false);
            }
            missing = Some(object);
        }
        Err(LogError::Corrupt("its objects change too often"))
    }

    /// Stops at an object that is missing, perhaps because it was replaced in the meantime, and returns its name.
    fn fetch_all(&self, objects: &LogObjects, found: &[LogObject]) -> Result<Option<String>, LogError> {
        for object in found {
            if object.is_sealed {
                self.become_sealed(objects, object)?;
                return Ok(None);
            }
            if !self.has_bytes_of(object)? {
                let Some(bytes) = objects.read(object)? else { return Ok(Some(object.object.clone())) };
                self.apply(object.start.unsigned_abs(), &bytes)?;
            }
            let mut state = self.state.lock();
            state.stored = object.end.unsigned_abs();
            state.last = Some(object.clone());
        }
        Ok(None)
    }

    /// Whether the plain file already has the bytes of an object.
    fn has_bytes_of(&self, object: &LogObject) -> Result<bool, LogError> {
        let state = self.state.lock();
        let (start, end) = (object.start.unsigned_abs(), object.end.unsigned_abs());
        let Some(file) = state.file.clone().filter(|_| end <= state.index.length()) else { return Ok(false) };
        drop(state);
        let mut bytes = Vec::new();
        read_plain(&file, start, &mut bytes, usize::try_from(end - start).unwrap_or(usize::MAX))?;
        Ok(hex(digest(&SHA256, &bytes).as_ref()) == object.sha256)
    }

    /// Adds bytes from object storage to the plain file. They replace local bytes that differ.
    fn apply(&self, start: u64, bytes: &[u8]) -> Result<(), LogError> {
        let mut state = self.state.lock();
        let known = usize::try_from(state.index.length().saturating_sub(start)).unwrap_or(usize::MAX);
        let known = known.min(bytes.len());
        let mut local = Vec::new();
        if let Some(file) = state.file.clone() {
            read_plain(&file, start, &mut local, known)?;
            let same = local.iter().zip(bytes).take_while(|(one, other)| one == other).count();
            if same < known {
                let at = start + same as u64;
                tracing::warn!(log = %self.files.plain.display(), at, "another server has put other bytes of a log");
                file.set_len(at)?;
                state.flushed = state.flushed.min(at);
                state.index = LineIndex::default();
                count(&file, &mut state.index)?;
                local.truncate(same);
            }
        }
        let new = &bytes[local.len()..];
        if !new.is_empty() {
            self.write(&mut state, new)?;
            state.index.push(new);
        }
        Ok(())
    }

    fn become_sealed(&self, objects: &LogObjects, object: &LogObject) -> Result<(), LogError> {
        let stored = StoredObject::new(&object.object, &object.sha256, object.bytes);
        let sealed = SealedLog::open(objects.open(&stored)?)?.sealed;
        let mut state = self.state.lock();
        if state.index.length() > sealed.bytes {
            let lost = state.index.length() - sealed.bytes;
            tracing::warn!(log = %self.files.plain.display(), lost, "end of a log came too late");
        }
        self.finish_sealed(&mut state, sealed, Some(stored));
        Ok(())
    }

    fn finish_sealed(&self, state: &mut OpenLogState, sealed: LogSeal, object: Option<StoredObject>) {
        let phase = LogPhase::Sealed(sealed);
        *state = OpenLogState { phase, sealed_object: object, ..OpenLogState::default() };
        // If this fails, the file is removed after the next start.
        let _ = std::fs::remove_file(&self.files.plain);
        self.publish_progress(state);
    }

    /// Puts the bytes that are not in object storage yet.
    pub(super) fn put_appended(&self) -> Result<(), LogError> {
        let Some(objects) = &self.objects else { return Ok(()) };
        let _turn = self.sealing.lock();
        for _ in 0..CONFLICTS_MAX {
            if matches!(self.state.lock().phase, LogPhase::Unknown) {
                self.fetch_next(objects)?;
            }
            if self.put_rest(objects)? {
                return Ok(());
            }
            self.fetch_next(objects)?;
        }
        Err(LogError::Corrupt("its objects change too often"))
    }

    /// Returns false if another server has changed the log.
    fn put_rest(&self, objects: &LogObjects) -> Result<bool, LogError> {
        loop {
            let state = self.state.lock();
            let (from, to) = (state.stored, state.index.length());
            let Some(file) = state.file.clone().filter(|_| from < to) else { return Ok(true) };
            let last = state.last.clone();
            drop(state);
            let size = |last: &LogObject| (last.end - last.start).unsigned_abs();
            let replaced = last.as_ref().filter(|last| size(last) < PART_BYTES_MIN);
            let start = replaced.map_or(from, |last| last.start.unsigned_abs());
            let end = to.min(start + PART_BYTES_MAX);
            let mut bytes = Vec::new();
            read_plain(&file, start, &mut bytes, usize::try_from(end - start).unwrap_or(usize::MAX))?;
            let Some(put) = objects.put_part(last.as_ref(), start, bytes)? else { return Ok(false) };
            let mut state = self.state.lock();
            (state.stored, state.last) = (end, Some(put));
        }
    }

    /// Seals a log in object storage. Unless it is forced, a log is not sealed while bytes that the runner reported, or
    /// objects, are missing.
    pub(super) fn seal_object(&self, is_forced: bool) -> Result<LogSeal, LogError> {
        let Some(objects) = &self.objects else { return self.seal() };
        let _turn = self.sealing.lock();
        for _ in 0..CONFLICTS_MAX {
            let is_lost = !self.fetch_existing(objects)?;
            if is_lost && !is_forced {
                return Err(LogError::Corrupt(MISSING));
            }
            // Replaces also the objects after the missing one.
            let lost_end = if is_lost { objects.find_last()? } else { None };
            let reported = objects.reported_length()?;
            let mut state = self.state.lock();
            if let LogPhase::Sealed(sealed) = state.phase {
                return Ok(sealed);
            }
            let length = state.index.length();
            let is_incomplete = (is_lost || length < reported) && state.damaged.is_none();
            if is_incomplete && !is_forced {
                return Err(LogError::Incomplete { length, reported });
            }
            let damaged = state.damaged.or(is_incomplete.then_some(length));
            let file = state.file.clone().filter(|_| length > 0);
            if file.is_none() && !is_lost {
                let sealed = LogSeal { damaged, ..LogSeal::empty() };
                self.finish_sealed(&mut state, sealed, None);
                return Ok(sealed);
            }
            state.phase = LogPhase::Sealing;
            let (index, last) = (state.index.clone(), lost_end.or_else(|| state.last.clone()));
            drop(state);
            let put = (|| {
                let into = objects.new_file()?;
                let plain = file.as_deref().unwrap_or(into.as_file());
                let sealed = write_sealed(into.as_file(), plain, &index, damaged)?;
                let Some(object) = objects.put_sealed(last.as_ref(), &into, length)? else { return Ok(None) };
                objects.cache_sealed(&object, into)?;
                Ok::<_, LogError>(Some((sealed, object)))
            })();
            let mut state = self.state.lock();
            match put {
                Ok(Some((sealed, object))) => {
                    self.finish_sealed(&mut state, sealed, Some(object));
                    return Ok(sealed);
                }
                other => {
                    state.phase = LogPhase::Open;
                    self.publish_progress(&state);
                    other?;
                }
            }
        }
        Err(LogError::Corrupt("its objects change too often"))
    }
}

impl LogStore {
    /// Opens a log that is sealed in object storage.
    pub(super) fn open_sealed_object(&self, key: &LogKey) -> Result<Option<LogReader>, LogError> {
        let Some(tier) = self.objects() else { return Ok(None) };
        let Some(file) = LogObjects::new(*key, tier.clone()).open_sealed()? else { return Ok(None) };
        Ok(Some(LogReader::from_sealed(SealedLog::open(file)?)))
    }

    /// Whether a part of the log is in object storage.
    pub(super) fn has_objects(&self, key: &LogKey) -> Result<bool, LogError> {
        let Some(tier) = self.objects() else { return Ok(false) };
        Ok(LogObjects::new(*key, tier.clone()).find_last()?.is_some())
    }

    /// Puts what was appended to all logs since the last call. What cannot be put is kept, and put by a later call.
    pub fn put_appended(&self) {
        let Some(tier) = self.objects() else { return };
        let keys: Vec<LogKey> = self.unstored().lock().iter().copied().collect();
        let threads = keys.len().min(PUTS_AT_ONCE);
        let queue = parking_lot::Mutex::new(keys.into_iter());
        let next = || queue.lock().next();
        std::thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(|| {
                    while let Some(key) = next().filter(|_| tier.storage.is_worth_trying()) {
                        self.put_log(&key);
                    }
                });
            }
        });
    }

    fn put_log(&self, key: &LogKey) {
        // Removed first, so that an append in the meantime adds it again.
        self.unstored().lock().remove(key);
        let put = self.log(key, LogAccess::Write).and_then(|log| log.put_appended());
        if let Err(error) = put {
            tracing::warn!(%error, deployment = %key.deployment, "putting a log into object storage failed; retrying");
            self.unstored().lock().insert(*key);
        }
    }

    /// Number of logs with bytes that are not in object storage yet.
    pub fn unstored_count(&self) -> usize {
        self.unstored().lock().len()
    }

    /// Queues the logs in the local directory, which an earlier process may not have put completely.
    pub fn put_later(&self, key: &LogKey) {
        if self.objects().is_some() {
            self.unstored().lock().insert(*key);
        }
    }

    /// Copies a log from a directory into object storage. Returns false if it is sealed there already.
    pub fn import(&self, from: &LogStore, key: &LogKey) -> Result<bool, LogError> {
        let Some(tier) = self.objects() else { return Ok(false) };
        let objects = LogObjects::new(*key, tier.clone());
        if objects.find_sealed()?.is_some() {
            return Ok(false);
        }
        let files = from.files(key);
        if let Some(mut sealed) = none_if_missing(File::open(&files.packed))? {
            let length = SealedLog::open(sealed.try_clone()?)?.sealed.bytes;
            let mut copy = objects.new_file()?;
            std::io::copy(&mut sealed, copy.as_file_mut())?;
            objects.put_sealed(objects.find_last()?.as_ref(), &copy, length)?;
            return Ok(true);
        }
        let Some(mut log) = from.open(key)? else { return Ok(false) };
        let mut at = 0;
        while at < log.length() {
            let bytes = log.read_bytes(at, LOG_CHUNK_BYTES_MAX)?;
            self.append(key, at, &bytes)?;
            at += bytes.len() as u64;
        }
        self.log(key, LogAccess::Write)?.put_appended()?;
        self.unstored().lock().remove(key);
        Ok(true)
    }

    /// Seals a log whose attempt has ended, even if a part of it was lost together with the server that had it.
    pub fn seal_abandoned(&self, key: &LogKey, is_forced: bool) -> Result<LogSeal, LogError> {
        self.log(key, LogAccess::Write)?.seal_object(is_forced)
    }

    pub(super) fn replace_older_objects(
        &self,
        tier: &Arc<ObjectTier>,
        (org, deployment): (OrgId, DeploymentId),
        text: &[u8],
        before: SystemTime,
    ) -> Result<ReplaceReport, LogError> {
        let limit = before.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_micros();
        let limit = Timestamp::from_micros(i64::try_from(limit).unwrap_or(i64::MAX));
        let found =
            tier.store.read_blocking(Some(org), move |db| log_object::list_of_deployment(db, deployment))?;
        let mut done = ReplaceReport::default();
        for (log, stored_at) in found {
            if stored_at >= limit {
                done.kept += 1;
                continue;
            }
            let stream = if log.is_after_fence { LogStream::AfterFence } else { LogStream::Step };
            let key = LogKey { org, deployment, step: log.step, attempt: log.attempt, stream };
            let objects = LogObjects::new(key, tier.clone());
            let last = objects.find_last()?;
            let (mut index, note) = (LineIndex::default(), objects.new_file()?);
            index.push(text);
            sealed_log::write(note.as_file(), &index, None, |_, block| {
                block.clear();
                block.extend_from_slice(text);
                Ok(())
            })?;
            match objects.put_note(last.as_ref(), &note, text.len() as u64, stored_at)? {
                true => done.replaced += 1,
                false => done.kept += 1,
            }
            self.remove_entry(&key);
            none_if_missing(std::fs::remove_file(self.files(&key).plain))?;
        }
        Ok(done)
    }
}
