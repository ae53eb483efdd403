//! The root key, and the keys made from it. The root key is a file beside the database, never a row in it.

use std::fs::OpenOptions;
use std::io::{ErrorKind, Read as _, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use aws_lc_rs::{constant_time, hkdf, hmac};
use zeroize::Zeroizing;

const ROOT_KEY_BYTES: usize = 32;

#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    #[error("there is no root key at {0}. Run `berth init` first, or name the key with --root-key-file.")]
    Missing(PathBuf),
    #[error("{path} is not a root key: {why}")]
    Invalid { path: PathBuf, why: &'static str },
    #[error("cannot use the root key {path}: {source}")]
    Io { path: PathBuf, source: std::io::Error },
}

/// Keys for marking things as ours. Each use has a key of its own.
pub struct Keys {
    request_hash: hmac::Key,
    csrf: hmac::Key,
}

impl Keys {
    pub fn load(path: &Path) -> Result<Self, KeyError> {
        let io = |source| KeyError::Io { path: path.to_owned(), source };
        let mut file = match std::fs::File::open(path) {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                return Err(KeyError::Missing(path.to_owned()));
            }
            other => other.map_err(io)?,
        };
        if file.metadata().map_err(io)?.permissions().mode() & 0o077 != 0 {
            let why = "others may read it; run chmod 600 on it";
            return Err(KeyError::Invalid { path: path.to_owned(), why });
        }
        let mut root = Zeroizing::new(Vec::new());
        file.read_to_end(&mut root).map_err(io)?;
        if root.len() != ROOT_KEY_BYTES {
            return Err(KeyError::Invalid { path: path.to_owned(), why: "it must hold 32 bytes" });
        }
        Ok(Self::from_root(&root))
    }

    /// Makes the key file if there is none, and loads it.
    pub fn load_or_create(path: &Path) -> Result<Self, KeyError> {
        let io = |source| KeyError::Io { path: path.to_owned(), source };
        match OpenOptions::new().write(true).create_new(true).mode(0o600).open(path) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            Err(error) => return Err(io(error)),
            Ok(mut file) => {
                let mut root = Zeroizing::new([0u8; ROOT_KEY_BYTES]);
                aws_lc_rs::rand::fill(&mut *root).map_err(|_| io(ErrorKind::Other.into()))?;
                file.write_all(&*root).and_then(|()| file.sync_all()).map_err(io)?;
            }
        }
        Self::load(path)
    }

    pub fn from_root(root: &[u8]) -> Self {
        let salt = hkdf::Salt::new(hkdf::HKDF_SHA256, b"berth root key v1");
        let derived = salt.extract(root);
        let key = |purpose: &[u8]| {
            let info = [purpose];
            let okm = derived.expand(&info, hmac::HMAC_SHA256).map(hmac::Key::from);
            okm.unwrap_or_else(|_| unreachable!("32 bytes are always available from HKDF-SHA256"))
        };
        Self { request_hash: key(b"idempotency request hash"), csrf: key(b"csrf token") }
    }

    /// A hash of a request's body that says nothing about it to somebody without the key.
    pub fn request_hash(&self, body: &[u8]) -> Vec<u8> {
        hmac::sign(&self.request_hash, body).as_ref().to_vec()
    }

    /// The token a browser must send with changes, bound to its sign-in.
    pub fn csrf_token(&self, sign_in: &str) -> String {
        hex(hmac::sign(&self.csrf, sign_in.as_bytes()).as_ref())
    }

    pub fn is_csrf_token(&self, sign_in: &str, sent: &str) -> bool {
        let wanted = self.csrf_token(sign_in);
        constant_time::verify_slices_are_equal(wanted.as_bytes(), sent.as_bytes()).is_ok()
    }
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_file_is_made_once_and_kept_private() {
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path().join("root.key");
        assert!(matches!(Keys::load(&path), Err(KeyError::Missing(_))));
        let first = Keys::load_or_create(&path).unwrap().csrf_token("x");
        assert_eq!(Keys::load_or_create(&path).unwrap().csrf_token("x"), first);
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);

        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
        assert!(Keys::load(&path).err().unwrap().to_string().contains("chmod 600"));
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        std::fs::write(&path, b"short").unwrap();
        assert!(matches!(Keys::load(&path), Err(KeyError::Invalid { .. })));
    }

    #[test]
    fn a_csrf_token_belongs_to_one_sign_in() {
        let keys = Keys::from_root(&[7; 32]);
        let token = keys.csrf_token("sgn_a");
        assert!(keys.is_csrf_token("sgn_a", &token));
        assert!(!keys.is_csrf_token("sgn_b", &token));
        assert!(!keys.is_csrf_token("sgn_a", ""));
    }
}
