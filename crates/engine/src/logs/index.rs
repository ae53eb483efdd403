//! Where lines begin: how many line ends lie before each block of a log. A megabyte of log costs 32 bytes here.

use memchr::memchr_iter;

/// Logs are indexed and compressed in blocks of so many bytes.
pub(super) const BLOCK_BYTES: usize = 256 * 1024;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct LineIndex {
    /// For each block, the line ends before it.
    before: Vec<u64>,
    line_ends: u64,
    length: u64,
    /// The last byte is no line end.
    ends_open: bool,
}

impl LineIndex {
    pub(super) fn push(&mut self, mut bytes: &[u8]) {
        while let Some(last) = bytes.last() {
            self.ends_open = *last != b'\n';
            let inside = within(self.length);
            if inside == 0 {
                self.before.push(self.line_ends);
            }
            let (now, later) = bytes.split_at(bytes.len().min(BLOCK_BYTES - inside));
            self.line_ends += memchr_iter(b'\n', now).count() as u64;
            self.length += now.len() as u64;
            bytes = later;
        }
    }

    /// As it was stored; `None` when the parts cannot belong together.
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

    /// What follows the last line end is a line, too.
    pub(super) fn line_count(&self) -> u64 {
        self.line_ends + u64::from(self.ends_open)
    }

    /// The block with the `nth` line end, counted from 1, and how many line ends lie before that block.
    pub(super) fn block_of(&self, nth: u64) -> Option<(usize, u64)> {
        let block = self.before.partition_point(|before| *before < nth).checked_sub(1)?;
        (nth <= self.line_ends).then(|| (block, self.before[block]))
    }
}

/// The block a byte lies in.
pub(super) fn block_at(offset: u64) -> usize {
    usize::try_from(offset / BLOCK_BYTES as u64).unwrap_or(usize::MAX)
}

/// The place of a byte in its block.
pub(super) fn within(offset: u64) -> usize {
    usize::try_from(offset % BLOCK_BYTES as u64).unwrap_or(0)
}

pub(super) fn block_start(block: usize) -> u64 {
    block as u64 * BLOCK_BYTES as u64
}
