//! The root key: 32 bytes in a file outside of the database. It wraps all other keys.

use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read as _, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use aws_lc_rs::aead::{AES_256_GCM, Aad, Nonce, RandomizedNonceKey};
use aws_lc_rs::{digest, hkdf};
use zeroize::Zeroizing;

use super::KeyError;
use super::keyed_hashes::hex;

pub(super) const KEY_BYTES: usize = 32;
const NONCE_BYTES: usize = 12;

/// A key in memory, zeroed on drop.
pub(super) type KeyBytes = Zeroizing<[u8; KEY_BYTES]>;

pub(super) struct RootKey {
    /// Identifies the key without revealing it.
    pub(super) id: String,
    bytes: KeyBytes,
}

impl RootKey {
    pub(super) fn new(bytes: KeyBytes) -> Self {
        let mut context = digest::Context::new(&digest::SHA256);
        context.update(b"berth root key id v1");
        context.update(&*bytes);
        Self { id: hex(&context.finish().as_ref()[..8]), bytes }
    }

    pub(super) fn load(path: &Path) -> Result<Self, KeyError> {
        let io = |source| KeyError::Io { path: path.to_owned(), source };
        let invalid = |why| KeyError::Invalid { path: path.to_owned(), why };
        let mut file = match File::open(path) {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                return Err(KeyError::Missing(path.to_owned()));
            }
            other => other.map_err(io)?,
        };
        if file.metadata().map_err(io)?.permissions().mode() & 0o077 != 0 {
            return Err(invalid("other users can read it; run chmod 600 on it"));
        }
        let mut found = Zeroizing::new(Vec::new());
        file.read_to_end(&mut found).map_err(io)?;
        let bytes =
            <[u8; KEY_BYTES]>::try_from(found.as_slice()).map_err(|_| invalid("it must hold 32 bytes"))?;
        Ok(Self::new(Zeroizing::new(bytes)))
    }

    /// Loads the key file. Creates it if it is missing.
    pub(super) fn load_or_create(path: &Path) -> Result<Self, KeyError> {
        let io = |source| KeyError::Io { path: path.to_owned(), source };
        if !path.exists() {
            // Write the key under a temporary name first, so that a crash cannot leave a partial key under the final
            // name.
            let draft = with_suffix(path, ".draft");
            let mut file = OpenOptions::new()
                .write(true)
                .create(true)
                .truncate(true)
                .mode(0o600)
                .open(&draft)
                .map_err(io)?;
            let bytes = random()?;
            file.write_all(&*bytes).and_then(|()| file.sync_all()).map_err(io)?;
            match std::fs::hard_link(&draft, path) {
                Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(io(error)),
                _ => {}
            }
            std::fs::remove_file(&draft).and_then(|()| sync_parent(path)).map_err(io)?;
        }
        Self::load(path)
    }

    pub(super) fn wrap(&self, key: &KeyBytes, bound_to: &[&str]) -> Result<Vec<u8>, KeyError> {
        seal(&self.bytes, &**key, bound_to)
    }

    pub(super) fn unwrap(&self, wrapped: &[u8], bound_to: &[&str]) -> Result<KeyBytes, KeyError> {
        let plain = open(&self.bytes, wrapped, bound_to)?;
        let bytes = <[u8; KEY_BYTES]>::try_from(plain.as_slice()).map_err(|_| KeyError::Damaged)?;
        Ok(Zeroizing::new(bytes))
    }
}

pub(super) fn random() -> Result<KeyBytes, KeyError> {
    let mut bytes = Zeroizing::new([0u8; KEY_BYTES]);
    aws_lc_rs::rand::fill(&mut *bytes).map_err(|_| KeyError::NoRandomness)?;
    Ok(bytes)
}

/// Derives a key for one purpose.
pub(super) fn derive(key: &KeyBytes, purpose: &[u8]) -> Result<KeyBytes, KeyError> {
    let extracted = hkdf::Salt::new(hkdf::HKDF_SHA256, b"berth derived keys v1").extract(&**key);
    let mut bytes = Zeroizing::new([0u8; KEY_BYTES]);
    let info = [purpose];
    let expanded = extracted.expand(&info, &AES_256_GCM).and_then(|okm| okm.fill(&mut *bytes));
    expanded.map_err(|_| KeyError::Damaged)?;
    Ok(bytes)
}

/// Encrypts with a random nonce. Decryption requires the same associated data `bound_to`.
pub(super) fn seal(key: &KeyBytes, plain: &[u8], bound_to: &[&str]) -> Result<Vec<u8>, KeyError> {
    let cipher = RandomizedNonceKey::new(&AES_256_GCM, &**key).map_err(|_| KeyError::Damaged)?;
    let mut sealed = plain.to_vec();
    let nonce = cipher
        .seal_in_place_append_tag(Aad::from(length_prefixed(bound_to)), &mut sealed)
        .map_err(|_| KeyError::Damaged)?;
    Ok([&nonce.as_ref()[..], &sealed].concat())
}

pub(super) fn open(key: &KeyBytes, sealed: &[u8], bound_to: &[&str]) -> Result<Zeroizing<Vec<u8>>, KeyError> {
    let (nonce, rest) = sealed.split_at_checked(NONCE_BYTES).ok_or(KeyError::Damaged)?;
    let nonce = Nonce::try_assume_unique_for_key(nonce).map_err(|_| KeyError::Damaged)?;
    let cipher = RandomizedNonceKey::new(&AES_256_GCM, &**key).map_err(|_| KeyError::Damaged)?;
    let mut buffer = Zeroizing::new(rest.to_vec());
    let bound = Aad::from(length_prefixed(bound_to));
    let length = cipher.open_in_place(nonce, bound, &mut buffer).map_err(|_| KeyError::Damaged)?.len();
    buffer.truncate(length);
    Ok(buffer)
}

/// Prefixes each part with its length, so that different lists never encode to the same bytes.
fn length_prefixed(parts: &[&str]) -> Vec<u8> {
    let part = |part: &&str| [&(part.len() as u64).to_be_bytes(), part.as_bytes()].concat();
    parts.iter().flat_map(part).collect()
}

/// The path with a suffix appended to its file name.
pub(super) fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

/// Fsyncs the parent directory, without which a new or renamed file is not durable.
pub(super) fn sync_parent(path: &Path) -> std::io::Result<()> {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    File::open(parent.map_or_else(|| PathBuf::from("."), Path::to_owned))?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn root_key_file_is_created_once_with_private_mode() {
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path().join("root.key");
        assert!(matches!(RootKey::load(&path), Err(KeyError::Missing(_))));
        let first = RootKey::load_or_create(&path).unwrap().id;
        assert_eq!(RootKey::load_or_create(&path).unwrap().id, first);
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);

        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
        assert!(RootKey::load(&path).err().unwrap().to_string().contains("chmod 600"));
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        std::fs::write(&path, b"short").unwrap();
        assert!(matches!(RootKey::load(&path), Err(KeyError::Invalid { .. })));
    }

    #[test]
    fn sealed_value_opens_only_with_its_key_and_binding() {
        let (key, other) = (random().unwrap(), random().unwrap());
        let sealed = seal(&key, b"hunter2", &["org", "name"]).unwrap();
        assert_eq!(open(&key, &sealed, &["org", "name"]).unwrap().as_slice(), b"hunter2");
        assert!(open(&other, &sealed, &["org", "name"]).is_err());
        for elsewhere in [&["orgn", "ame"][..], &["org", "name", ""], &["name", "org"], &["orgname"], &[]] {
            assert!(open(&key, &sealed, elsewhere).is_err(), "{elsewhere:?}");
        }
        for byte in 0..sealed.len() {
            let mut changed = sealed.clone();
            changed[byte] ^= 1;
            assert!(open(&key, &changed, &["org", "name"]).is_err(), "byte {byte}");
        }
        assert!(open(&key, b"", &[]).is_err());
        assert_ne!(seal(&key, b"hunter2", &[]).unwrap(), seal(&key, b"hunter2", &[]).unwrap());
    }
}
