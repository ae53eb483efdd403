//! Random bytes for ids: drawn from the system many at once, since most of a draw is the way there.

use std::cell::RefCell;

use berth_core::id::Entropy;

use crate::error::StoreError;

/// Bytes of one draw.
const DRAWN_BYTES: usize = 1_024;

thread_local! {
    /// What is left of the last one; each byte is given once.
    static LEFT: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

pub(crate) fn draw() -> Result<Entropy, StoreError> {
    LEFT.with_borrow_mut(|left| {
        if left.len() < size_of::<Entropy>() {
            left.resize(DRAWN_BYTES, 0);
            if aws_lc_rs::rand::fill(left).is_err() {
                left.clear();
                return Err(StoreError::Unavailable("the system gave no random bytes".into()));
            }
        }
        Ok(take(left))
    })
}

fn take(left: &mut Vec<u8>) -> Entropy {
    let mut entropy = Entropy::default();
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
    fn no_byte_is_given_twice() {
        let mut left: Vec<u8> = (0..200).collect();
        let given: BTreeSet<u8> = (0..20).flat_map(|_| take(&mut left)).collect();
        assert_eq!((given.len(), left.len()), (200, 0));
        let drawn: BTreeSet<_> = (0..1_000).map(|_| draw().unwrap()).collect();
        assert_eq!(drawn.len(), 1_000);
    }
}
