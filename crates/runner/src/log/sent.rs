//! The last bytes of a log that a server has acknowledged. They are sent again if that server is lost before it has
//! passed them on to the other servers.

use std::collections::VecDeque;

/// Maximum number of bytes kept per running step. Servers pass bytes on about once a second.
pub(super) const SENT_BYTES_MAX: usize = 1024 * 1024;

pub(super) struct SentTail {
    bytes: VecDeque<u8>,
    bytes_max: usize,
}

impl SentTail {
    pub(super) fn new(bytes_max: usize) -> Self {
        Self { bytes: VecDeque::new(), bytes_max }
    }

    pub(super) fn push(&mut self, chunk: &[u8]) {
        if self.bytes_max == 0 {
            return;
        }
        self.bytes.extend(chunk);
        let over = self.bytes.len().saturating_sub(self.bytes_max);
        self.bytes.drain(..over);
    }

    /// Removes and returns the last `count` bytes. `None` if they are no longer kept.
    pub(super) fn take_last(&mut self, count: u64) -> Option<Vec<u8>> {
        let at = self.bytes.len().checked_sub(usize::try_from(count).ok()?)?;
        Some(self.bytes.split_off(at).into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sent_tail_returns_the_last_bytes_once() {
        let mut tail = SentTail::new(5);
        tail.push(b"abc");
        tail.push(b"defg");
        assert_eq!(tail.take_last(6), None, "only the last five are kept");
        assert_eq!(tail.take_last(2).unwrap(), b"fg");
        assert_eq!(tail.take_last(3).unwrap(), b"cde");
        assert_eq!(tail.take_last(1), None);
    }
}
