//! Random bytes for ids. Reads them from the operating system in blocks, to save system calls.

use std::cell::RefCell;

use berth_core::id::IdEntropy;

use crate::error::StoreError;

/// Number of bytes that one system call reads.
const DRAWN_BYTES: usize = 1_024;

thread_local! {
    /// Unused bytes of the current block. No byte is used twice.
    static LEFT: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

pub(crate) fn draw_entropy() -> Result<IdEntropy, StoreError> {
    LEFT.with_borrow_mut(|left| {
        if left.len() < size_of::<IdEntropy>() {
            left.resize(DRAWN_BYTES, 0);
            if aws_lc_rs::rand::fill(left).is_err() {
                left.clear();
                return Err(StoreError::Unavailable("the system gave no random bytes".into()));
            }
        }
        Ok(take_entropy(left))
    })
}

fn take_entropy(left: &mut Vec<u8>) -> IdEntropy {
    let mut entropy = IdEntropy::default();
    let given = left.len().saturating_sub(entropy.len());
    entropy.copy_from_slice(&left[given..]);
    left.truncate(given);
    entropy
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn entropy_bytes_are_used_once() {
        let mut left: Vec<u8> = (0..200).collect();
        let given: BTreeSet<u8> = (0..20).flat_map(|_| take_entropy(&mut left)).collect();
        assert_eq!((given.len(), left.len()), (200, 0));
        let drawn: BTreeSet<_> = (0..1_000).map(|_| draw_entropy().unwrap()).collect();
        assert_eq!(drawn.len(), 1_000);
    }
}
