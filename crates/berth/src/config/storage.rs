//! Settings for object storage.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context as _;
use berth_engine::object_storage::{ObjectStorage, StorageCredentials, StorageSettings, StorageUrl};
use berth_server::upkeep::storage::bind;
use berth_store::Store;
use serde::Deserialize;

/// Default size limit of local copies of objects.
const CACHE_BYTES: u64 = 4 * 1024 * 1024 * 1024;
/// Maximum size of the file with the secret access key.
const SECRET_BYTES_MAX: usize = 4_096;

#[derive(Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct ObjectStorageSettings {
    /// `s3://bucket/prefix` or `file:///directory`. `None`: logs and artifacts are in the data directory.
    pub(crate) url: Option<String>,
    /// URL of an S3-compatible service [default: AWS].
    endpoint: Option<String>,
    region: Option<String>,
    access_key_id: Option<String>,
    secret_access_key: Option<String>,
    /// File with the secret access key, instead of `secret_access_key`.
    secret_access_key_file: Option<PathBuf>,
    session_token: Option<String>,
    /// Size limit of local copies of objects.
    cache_bytes: u64,
}

impl Default for ObjectStorageSettings {
    fn default() -> Self {
        Self {
            url: None,
            endpoint: None,
            region: None,
            access_key_id: None,
            secret_access_key: None,
            secret_access_key_file: None,
            session_token: None,
            cache_bytes: CACHE_BYTES,
        }
    }
}

// The settings contain a secret.
impl std::fmt::Debug for ObjectStorageSettings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ObjectStorageSettings")
            .field("url", &self.url)
            .field("endpoint", &self.endpoint)
            .field("region", &self.region)
            .finish_non_exhaustive()
    }
}

impl ObjectStorageSettings {
    /// Returns the file with the secret access key, which steps must not read.
    pub(crate) fn secret_file(&self) -> Option<&Path> {
        self.secret_access_key_file.as_deref()
    }

    /// Opens the configured object storage, without connecting to it. `None` if none is configured.
    pub(crate) fn open(&self) -> anyhow::Result<Option<Arc<ObjectStorage>>> {
        self.url.as_deref().filter(|url| !url.is_empty()).map(|url| self.open_at(url)).transpose()
    }

    /// Opens the configured object storage of an installation, and checks that they belong together.
    pub(crate) fn open_for(
        &self,
        store: &Store,
        data_dir: &Path,
    ) -> anyhow::Result<Option<Arc<ObjectStorage>>> {
        let storage = self.open()?;
        bind(store, data_dir, storage.as_deref())?;
        Ok(storage)
    }

    /// Like [`ObjectStorageSettings::open`], at another URL.
    pub(crate) fn open_at(&self, url: &str) -> anyhow::Result<Arc<ObjectStorage>> {
        let url: StorageUrl = url.parse().map_err(anyhow::Error::msg)?;
        let settings = StorageSettings {
            url,
            endpoint: self.endpoint.clone(),
            region: self.region.clone(),
            credentials: self.load_credentials()?,
            cache_bytes_max: self.cache_bytes,
        };
        Ok(Arc::new(ObjectStorage::open(&settings)?))
    }

    fn load_credentials(&self) -> anyhow::Result<Option<StorageCredentials>> {
        let secret = match (&self.secret_access_key, &self.secret_access_key_file) {
            (Some(_), Some(_)) => {
                anyhow::bail!("set storage.secret_access_key or storage.secret_access_key_file, not both")
            }
            (Some(secret), None) => Some(secret.clone()),
            (None, Some(path)) => {
                let text = std::fs::read_to_string(path)
                    .with_context(|| format!("storage.secret_access_key_file {}", path.display()))?;
                let text = text.trim().to_owned();
                anyhow::ensure!(
                    (1..=SECRET_BYTES_MAX).contains(&text.len()),
                    "storage.secret_access_key_file {} must contain the secret access key and nothing else",
                    path.display()
                );
                Some(text)
            }
            (None, None) => None,
        };
        match (&self.access_key_id, secret) {
            (Some(id), Some(secret)) => Ok(Some(StorageCredentials {
                access_key_id: id.clone(),
                secret_access_key: secret,
                session_token: self.session_token.clone(),
            })),
            (None, None) => Ok(None),
            _ => anyhow::bail!("set both storage.access_key_id and its secret, or neither"),
        }
    }
}
