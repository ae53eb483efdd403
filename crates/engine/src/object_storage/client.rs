//! Client of object storage.

use std::fmt;
use std::fs::File;
use std::io::Write as _;
use std::os::unix::fs::{DirBuilderExt as _, FileExt as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use aws_lc_rs::digest::{Context, SHA256, digest};
use berth_core::time::Timestamp;
use futures_util::StreamExt as _;
use object_store::aws::AmazonS3Builder;
use object_store::local::LocalFileSystem;
use object_store::path::Path as ObjectPath;
use object_store::prefix::PrefixStore;
use object_store::{
    ClientOptions, Error, MultipartUpload as _, ObjectStore, ObjectStoreExt as _, PutPayload, RetryConfig,
};
use parking_lot::Mutex;
use tokio::runtime::Runtime;

use super::settings::{StorageSettings, StorageUrl, is_plain_http};
use super::{StorageError, StoredObject, unique_suffix};
use crate::vault::hex;

/// Objects up to this size are put in one request, larger ones in parts of this size. One part is in memory at a time.
const PART_BYTES: usize = 8 * 1024 * 1024;
/// Timeouts of a connection attempt, of waiting for the next bytes of a response, and of retries.
const CONNECT_MAX: Duration = Duration::from_secs(5);
const READ_MAX: Duration = Duration::from_secs(30);
const RETRY_MAX: Duration = Duration::from_secs(10);
const RETRIES_MAX: usize = 2;
/// Timeout of an operation on a small object, with all of its retries.
const OPERATION_MAX: Duration = Duration::from_secs(45);
/// Timeout of a transfer of a large object.
const TRANSFER_MAX: Duration = Duration::from_secs(30 * 60);
/// Number of objects per page of a listing.
const LIST_PAGE: usize = 1_000;
/// After a failure, callers that can continue without object storage do not wait for it for this long.
const AVOID_FOR: Duration = Duration::from_secs(10);
/// Number of threads that drive requests.
const THREADS: usize = 2;

pub struct ObjectStorage {
    store: Arc<dyn ObjectStore>,
    url: StorageUrl,
    /// `None` only while it is being dropped.
    runtime: Option<Runtime>,
    health: Mutex<StorageHealth>,
    /// Whether another installation may use the objects, so that none is deleted.
    keeps_objects: AtomicBool,
    cache_bytes_max: u64,
}

#[derive(Default)]
struct StorageHealth {
    failed_at: Option<Instant>,
    failures: u64,
}

/// An object in a listing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedObject {
    pub name: String,
    pub bytes: u64,
    pub modified: Timestamp,
}

impl ObjectStorage {
    /// Does not connect. [`ObjectStorage::check`] does.
    pub fn open(settings: &StorageSettings) -> Result<Self, StorageError> {
        let store: Arc<dyn ObjectStore> = match &settings.url {
            StorageUrl::Directory(path) => {
                std::fs::DirBuilder::new().recursive(true).mode(0o700).create(path)?;
                let local = LocalFileSystem::new_with_prefix(path).map_err(|error| invalid(&error))?;
                Arc::new(local.with_fsync(true).with_automatic_cleanup(true))
            }
            StorageUrl::S3 { bucket, prefix } => {
                let s3 = open_s3(settings, bucket)?;
                match prefix.as_str() {
                    "" => Arc::new(s3),
                    prefix => Arc::new(PrefixStore::new(s3, prefix)),
                }
            }
        };
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(THREADS)
            .thread_name("object-storage")
            .enable_all()
            .build()?;
        Ok(Self {
            store,
            url: settings.url.clone(),
            runtime: Some(runtime),
            health: Mutex::default(),
            keeps_objects: AtomicBool::default(),
            cache_bytes_max: settings.cache_bytes_max,
        })
    }

    /// Maximum size of local copies.
    pub(super) fn cache_bytes_max(&self) -> u64 {
        self.cache_bytes_max
    }

    /// From now on, the objects of logs and artifacts are not deleted.
    pub fn keep_objects(&self) {
        self.keeps_objects.store(true, Ordering::Relaxed);
    }

    pub(super) fn may_delete(&self) -> bool {
        !self.keeps_objects.load(Ordering::Relaxed)
    }

    pub fn url(&self) -> &StorageUrl {
        &self.url
    }

    /// Checks that objects can be written, read, listed and deleted.
    pub fn check(&self) -> Result<(), StorageError> {
        let name = format!("probe/{}", unique_suffix()?);
        let written = self.put(&name, name.clone().into_bytes())?;
        let read = self.get(&written);
        let mut is_listed = false;
        let listed = self.list("probe", |page| {
            is_listed |= page.iter().any(|object| object.name == name);
            Ok(())
        });
        self.delete(&name)?;
        listed?;
        match read? == name.as_bytes() && is_listed {
            true => Ok(()),
            false => {
                Err(StorageError::Invalid("object storage does not return what was just written".into()))
            }
        }
    }

    /// Whether the last operation succeeded, or failed so long ago that it is worth trying again.
    pub fn is_worth_trying(&self) -> bool {
        self.health.lock().failed_at.is_none_or(|at| at.elapsed() > AVOID_FOR)
    }

    /// Whether the last operation succeeded.
    pub fn is_up(&self) -> bool {
        self.health.lock().failed_at.is_none()
    }

    /// Number of failed operations since the start.
    pub fn failures(&self) -> u64 {
        self.health.lock().failures
    }

    /// Writes a small object.
    pub fn put(&self, name: &str, bytes: Vec<u8>) -> Result<StoredObject, StorageError> {
        let sha256 = hex(digest(&SHA256, &bytes).as_ref());
        let object = StoredObject { name: name.to_owned(), sha256, bytes: bytes.len() as u64 };
        self.run(name, OPERATION_MAX, self.store.put(&ObjectPath::from(name), bytes.into()))?;
        Ok(object)
    }

    /// Writes a file. A large file is sent in parts; the object becomes visible after the last one.
    pub fn put_file(&self, name: &str, file: &File) -> Result<StoredObject, StorageError> {
        let length = file.metadata()?.len();
        if length <= PART_BYTES as u64 {
            let mut bytes = vec![0; usize::try_from(length).unwrap_or(PART_BYTES)];
            file.read_exact_at(&mut bytes, 0)?;
            return self.put(name, bytes);
        }
        let path = ObjectPath::from(name);
        let mut upload = self.run(name, OPERATION_MAX, self.store.put_multipart(&path))?;
        let mut hash = Context::new(&SHA256);
        let sent = (0..length.div_ceil(PART_BYTES as u64)).try_for_each(|number| {
            let from = number * PART_BYTES as u64;
            let mut part = vec![0; usize::try_from(length - from).unwrap_or(PART_BYTES).min(PART_BYTES)];
            file.read_exact_at(&mut part, from)?;
            hash.update(&part);
            self.run(name, OPERATION_MAX, upload.put_part(PutPayload::from(part)))
        });
        let sent = sent.and_then(|()| self.run(name, OPERATION_MAX, upload.complete()).map(drop));
        if let Err(error) = sent {
            // If this fails too, the storage's lifecycle rule removes the parts.
            let _ = self.run(name, OPERATION_MAX, upload.abort());
            return Err(error);
        }
        let sha256 = hex(hash.finish().as_ref());
        Ok(StoredObject { name: name.to_owned(), sha256, bytes: length })
    }

    /// Reads a small object and verifies its digest.
    pub fn get(&self, object: &StoredObject) -> Result<Vec<u8>, StorageError> {
        let path = ObjectPath::from(object.name.as_str());
        let bytes = self.run(&object.name, OPERATION_MAX, async {
            let found = self.store.get(&path).await?;
            // Do not read an object into memory that is larger than the one that was stored.
            if found.meta.size != object.bytes { Ok(None) } else { found.bytes().await.map(Some) }
        })?;
        let is_same = |bytes: &[u8]| hex(digest(&SHA256, bytes).as_ref()) == object.sha256;
        match bytes.filter(|bytes| is_same(bytes)) {
            Some(bytes) => Ok(bytes.into()),
            None => Err(StorageError::Corrupt(object.name.clone())),
        }
    }

    /// Writes the bytes of an object to a file, and verifies their digest.
    pub fn get_file(&self, object: &StoredObject, mut into: &File) -> Result<(), StorageError> {
        let path = ObjectPath::from(object.name.as_str());
        let mut hash = Context::new(&SHA256);
        let mut left = object.bytes;
        let written = self.run(&object.name, TRANSFER_MAX, async {
            let mut parts = self.store.get(&path).await?.into_stream();
            while let Some(part) = parts.next().await {
                let part = part?;
                let Some(rest) = left.checked_sub(part.len() as u64) else { return Ok(Err(None)) };
                left = rest;
                hash.update(&part);
                if let Err(error) = into.write_all(&part) {
                    return Ok(Err(Some(error)));
                }
            }
            Ok(Ok(()))
        })?;
        let is_same = left == 0 && hex(hash.finish().as_ref()) == object.sha256;
        match written {
            Err(Some(error)) => Err(error.into()),
            Ok(()) if is_same => Ok(()),
            Ok(()) | Err(None) => Err(StorageError::Corrupt(object.name.clone())),
        }
    }

    /// Whether there is an object with this name.
    pub fn contains(&self, name: &str) -> Result<bool, StorageError> {
        Ok(self.size_of(name)?.is_some())
    }

    /// Returns the size of an object, or `None` if it does not exist.
    pub fn size_of(&self, name: &str) -> Result<Option<u64>, StorageError> {
        match self.run(name, OPERATION_MAX, self.store.head(&ObjectPath::from(name))) {
            Ok(found) => Ok(Some(found.size)),
            Err(StorageError::Missing(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Reads a small object that no row describes. `None` if it does not exist.
    pub fn read_unverified(&self, name: &str, bytes_max: u64) -> Result<Option<Vec<u8>>, StorageError> {
        let path = ObjectPath::from(name);
        let read = self.run(name, OPERATION_MAX, async {
            let found = self.store.get(&path).await?;
            if found.meta.size > bytes_max { Ok(None) } else { found.bytes().await.map(Some) }
        });
        match read {
            Ok(Some(bytes)) => Ok(Some(bytes.into())),
            Ok(None) => Err(StorageError::Corrupt(name.to_owned())),
            Err(StorageError::Missing(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Deletes an object. It may be gone already.
    pub fn delete(&self, name: &str) -> Result<(), StorageError> {
        match self.run(name, OPERATION_MAX, self.store.delete(&ObjectPath::from(name))) {
            Err(StorageError::Missing(_)) => Ok(()),
            other => other,
        }
    }

    /// Calls `each` with pages of the objects below a prefix, in no particular order.
    pub fn list(
        &self,
        prefix: &str,
        mut each: impl FnMut(&[ListedObject]) -> Result<(), StorageError>,
    ) -> Result<(), StorageError> {
        let mut pages = self.store.list(Some(&ObjectPath::from(prefix))).chunks(LIST_PAGE);
        loop {
            let page = self.run(prefix, OPERATION_MAX, async {
                pages.next().await.map(|page| page.into_iter().collect::<Result<Vec<_>, _>>()).transpose()
            })?;
            let Some(page) = page else { return Ok(()) };
            let listed: Vec<ListedObject> = page
                .into_iter()
                .map(|found| ListedObject {
                    name: found.location.to_string(),
                    bytes: found.size,
                    modified: Timestamp::from_micros(found.last_modified.timestamp_micros()),
                })
                .collect();
            each(&listed)?;
        }
    }

    /// Runs an operation to its end, at most for `time_max`, and records whether the storage works.
    fn run<T>(
        &self,
        name: &str,
        time_max: Duration,
        work: impl Future<Output = object_store::Result<T>>,
    ) -> Result<T, StorageError> {
        let Some(runtime) = &self.runtime else { return Err(StorageError::Unreachable("stopping".into())) };
        let done = runtime.block_on(async { tokio::time::timeout(time_max, work).await });
        let done = match done {
            Ok(done) => done.map_err(|error| storage_error(name, &error)),
            Err(_) => Err(StorageError::Unreachable(format!("no response within {} s", time_max.as_secs()))),
        };
        let mut health = self.health.lock();
        match &done {
            Err(StorageError::Unreachable(_) | StorageError::Refused(_)) => {
                health.failed_at = Some(Instant::now());
                health.failures += 1;
            }
            _ => health.failed_at = None,
        }
        done
    }
}

impl fmt::Debug for ObjectStorage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ObjectStorage").field("url", &self.url).finish_non_exhaustive()
    }
}

impl Drop for ObjectStorage {
    fn drop(&mut self) {
        // A plain drop would panic on a thread of another runtime.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

fn open_s3(settings: &StorageSettings, bucket: &str) -> Result<object_store::aws::AmazonS3, StorageError> {
    let mut builder = match &settings.credentials {
        Some(key) => {
            let builder = AmazonS3Builder::new()
                .with_access_key_id(&key.access_key_id)
                .with_secret_access_key(&key.secret_access_key);
            match &key.session_token {
                Some(token) => builder.with_token(token),
                None => builder,
            }
        }
        None => AmazonS3Builder::from_env(),
    };
    if let Some(region) = &settings.region {
        builder = builder.with_region(region);
    }
    let mut is_http = false;
    if let Some(endpoint) = &settings.endpoint {
        is_http = is_plain_http(endpoint).map_err(StorageError::Invalid)?;
        builder = builder.with_endpoint(endpoint.trim_end_matches('/'));
    }
    let retry = RetryConfig { max_retries: RETRIES_MAX, retry_timeout: RETRY_MAX, ..RetryConfig::default() };
    builder
        .with_bucket_name(bucket)
        .with_client_options(client_options().with_allow_http(is_http))
        .with_allow_http(is_http)
        .with_retry(retry)
        .build()
        .map_err(|error| invalid(&error))
}

/// A request has no timeout of its own, because it would include the transfer of a large body; `run` limits operations.
pub(super) fn client_options() -> ClientOptions {
    ClientOptions::new().with_connect_timeout(CONNECT_MAX).with_timeout_disabled().with_read_timeout(READ_MAX)
}

fn invalid(error: &Error) -> StorageError {
    StorageError::Invalid(format!("the settings of object storage are invalid: {error}"))
}

fn storage_error(name: &str, error: &Error) -> StorageError {
    let text = error.to_string();
    match error {
        // S3 reports a missing bucket like a missing object.
        Error::NotFound { .. } if text.contains("NoSuchBucket") => {
            StorageError::Refused("the bucket does not exist".into())
        }
        Error::NotFound { .. } => StorageError::Missing(name.to_owned()),
        Error::PermissionDenied { .. } | Error::Unauthenticated { .. } => StorageError::Refused(text),
        _ => StorageError::Unreachable(text),
    }
}
