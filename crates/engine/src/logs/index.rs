//! Line index of a log: for each block, the number of newlines before it. Takes 32 bytes per MiB of log.

use memchr::memchr_iter;

/// Size of the blocks in which logs are indexed and compressed.
pub(super) const BLOCK_BYTES: usize = 256 * 1024;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct LineIndex {
    /// For each block, the number of newlines before it.
    before: Vec<u64>,
    line_ends: u64,
    length: u64,
    /// Whether the last line has no newline yet.
    ends_open: bool,
}

impl LineIndex {
    pub(super) fn push(&mut self, mut bytes: &[u8]) {
        while let Some(last) = bytes.last() {
            self.ends_open = *last != b'\n';
            let inside = offset_in_block(self.length);
            if inside == 0 {
                self.before.push(self.line_ends);
            }
            let (now, later) = bytes.split_at(bytes.len().min(BLOCK_BYTES - inside));
            self.line_ends += memchr_iter(b'\n', now).count() as u64;
            self.length += now.len() as u64;
            bytes = later;
        }
    }

    /// Restores a stored index. Returns `None` if the parts are inconsistent.
    pub(super) fn from_parts(before: Vec<u64>, line_ends: u64, length: u64, ends_open: bool) -> Option<Self> {
        let rises = before.windows(2).all(|pair| pair[0] <= pair[1]);
        let fits = before.last().is_none_or(|last| *last <= line_ends)
            && before.first().is_none_or(|first| *first == 0);
        let blocks = length.div_ceil(BLOCK_BYTES as u64);
        (rises && fits && before.len() as u64 == blocks).then_some(Self {
            before,
            line_ends,
            length,
            ends_open,
        })
    }

    pub(super) fn length(&self) -> u64 {
        self.length
    }

    pub(super) fn line_ends(&self) -> u64 {
        self.line_ends
    }

    pub(super) fn ends_open(&self) -> bool {
        self.ends_open
    }

    pub(super) fn before(&self) -> &[u64] {
        &self.before
    }

    /// Returns the number of lines, including a last line without a newline.
    pub(super) fn line_count(&self) -> u64 {
        self.line_ends + u64::from(self.ends_open)
    }

    /// Returns the block that contains the `nth` newline, counted from 1, and the number of newlines before that block.
    pub(super) fn block_of(&self, nth: u64) -> Option<(usize, u64)> {
        let block = self.before.partition_point(|before| *before < nth).checked_sub(1)?;
        (nth <= self.line_ends).then(|| (block, self.before[block]))
    }
}

/// Returns the number of the block that contains the byte at `offset`.
pub(super) fn block_at(offset: u64) -> usize {
    usize::try_from(offset / BLOCK_BYTES as u64).unwrap_or(usize::MAX)
}

/// Converts an offset in the log to an offset in its block.
pub(super) fn offset_in_block(offset: u64) -> usize {
    usize::try_from(offset % BLOCK_BYTES as u64).unwrap_or(0)
}

pub(super) fn block_start(block: usize) -> u64 {
    block as u64 * BLOCK_BYTES as u64
}
