//! Random identifiers.

use rustix::rand::{GetRandomFlags, getrandom};

/// Returns 128 random bits in hexadecimal.
pub(crate) fn random_hex() -> std::io::Result<String> {
    let mut bytes = [0_u8; 16];
    let mut filled = 0;
    while filled < bytes.len() {
        filled += getrandom(&mut bytes[filled..], GetRandomFlags::empty())?;
    }
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}
