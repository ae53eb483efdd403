//! TLS termination in the server. The certificate and key files can be replaced while the server runs.
//!
//! If the new files are unreadable or do not match each other, the server logs an error and keeps the current
//! certificate.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use parking_lot::Mutex;
use rustls::ServerConfig;
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

/// Timeout of the TLS handshake.
const HANDSHAKE_MAX: Duration = Duration::from_secs(10);
/// Maximum number of certificates in one file: the server's own and its intermediates.
const CHAIN_MAX: usize = 16;

#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    #[error("{path} contains no certificates in PEM format: {why}")]
    Certificate { path: PathBuf, why: String },
    #[error("{path} contains no private key in PEM format: {why}")]
    Key { path: PathBuf, why: String },
    #[error("the certificate and the key cannot be used: {0}. Do they belong together?")]
    Unfit(#[from] rustls::Error),
}

/// Whether to reload the files in any case or only if they have changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReloadTrigger {
    Asked,
    IfChanged,
}

pub struct TlsTerminator {
    certificate: PathBuf,
    key: PathBuf,
    current: Mutex<LoadedCertificate>,
}

struct LoadedCertificate {
    config: Arc<ServerConfig>,
    /// Modification times of the files when they were last loaded.
    seen: ModifiedTimes,
}

type ModifiedTimes = [Option<SystemTime>; 2];

impl TlsTerminator {
    pub fn load(certificate: &Path, key: &Path) -> Result<Self, TlsError> {
        // Read the modification times before the files, so that the next check notices a concurrent change.
        let seen = modified_times(certificate, key);
        let config = Arc::new(read_config(certificate, key)?);
        let current = Mutex::new(LoadedCertificate { config, seen });
        Ok(Self { certificate: certificate.to_owned(), key: key.to_owned(), current })
    }

    /// Reloads the certificate and key if they are valid. This affects only new connections.
    pub fn reload(&self, when: ReloadTrigger) {
        let seen = modified_times(&self.certificate, &self.key);
        let before = self.current.lock().seen;
        if when == ReloadTrigger::IfChanged && seen == before {
            return;
        }
        let read = read_config(&self.certificate, &self.key);
        let mut current = self.current.lock();
        current.seen = seen;
        match read {
            Ok(config) => {
                current.config = Arc::new(config);
                tracing::info!(certificate = %self.certificate.display(), "certificate reloaded");
            }
            Err(error) => tracing::error!(%error, "cannot load the new certificate; keeping the current one"),
        }
    }

    pub(crate) async fn accept(&self, stream: TcpStream) -> io::Result<TlsStream<TcpStream>> {
        let config = self.current.lock().config.clone();
        let handshake = tokio::time::timeout(HANDSHAKE_MAX, TlsAcceptor::from(config).accept(stream)).await;
        handshake.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
    }
}

fn modified_times(certificate: &Path, key: &Path) -> ModifiedTimes {
    [certificate, key].map(|path| std::fs::metadata(path).and_then(|info| info.modified()).ok())
}

fn read_config(certificate: &Path, key: &Path) -> Result<ServerConfig, TlsError> {
    let unreadable = |why: String| TlsError::Certificate { path: certificate.to_owned(), why };
    let chain = CertificateDer::pem_file_iter(certificate).map_err(|error| unreadable(error.to_string()))?;
    let chain = chain.take(CHAIN_MAX + 1).collect::<Result<Vec<_>, _>>();
    let chain = chain.map_err(|error| unreadable(error.to_string()))?;
    if chain.is_empty() || chain.len() > CHAIN_MAX {
        return Err(unreadable(format!("it has {} of them, 1 to {CHAIN_MAX} are wanted", chain.len())));
    }
    let key = PrivateKeyDer::from_pem_file(key)
        .map_err(|error| TlsError::Key { path: key.to_owned(), why: error.to_string() })?;
    let mut config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(chain, key)?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(config)
}
