//! Finding lines: a plain text without regard to case, in time linear to what is looked at.

use memchr::{memchr, memchr_iter, memrchr};
use regex::bytes::{Regex, RegexBuilder};

use super::index::{block_at, block_start, within};
use super::read::{Line, Log};
use super::{LOG_ANSWER_BYTES_MAX, LOG_MATCHES_MAX, LOG_SCAN_BYTES_MAX, LogError};

/// Longer texts cannot be looked for.
const QUERY_BYTES_MAX: usize = 1024;
/// A letter and its other case differ in length by no more than this factor.
const CASE_GROWTH_MAX: usize = 3;

/// What is looked for: a text within one line.
pub struct Query {
    pattern: Regex,
    /// A match is not longer.
    bytes_max: usize,
}

impl Query {
    /// `None`: no text to look for, too long, or more than a line.
    pub fn new(text: &str) -> Option<Self> {
        if text.is_empty() || text.len() > QUERY_BYTES_MAX || text.contains(['\n', '\r']) {
            return None;
        }
        let pattern = RegexBuilder::new(&regex::escape(text)).case_insensitive(true).build().ok()?;
        Some(Self { pattern, bytes_max: text.len() * CASE_GROWTH_MAX })
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// Each line once, in order.
    pub lines: Vec<Line>,
    /// The byte to go on from; `None`: everything was looked at.
    pub next: Option<u64>,
}

/// Bytes that are looked at together: the end of what came before, and a block.
struct Chunk {
    bytes: Vec<u8>,
    /// Where they begin in the log.
    start: u64,
    /// Nothing before this place is of interest any more.
    at: usize,
    /// The number of the line at `at`.
    line: u64,
}

impl Log {
    /// Lines that contain the text, from this byte on; at most `limit`, and not more than an answer holds.
    pub fn search(&mut self, query: &Query, from: u64, limit: usize) -> Result<Found, LogError> {
        let (limit, length) = (limit.min(LOG_MATCHES_MAX), self.length());
        let (mut lines, mut shown) = (Vec::new(), 0);
        let mut seen = Chunk { bytes: Vec::new(), start: from, at: 0, line: self.line_at(from)? };
        let mut at = from;
        while at < length {
            if at - from >= LOG_SCAN_BYTES_MAX {
                return Ok(Found { lines, next: Some(seen.start) });
            }
            let number = block_at(at);
            seen.bytes.extend_from_slice(&self.block(number)?[within(at)..]);
            at = block_start(number + 1);
            while let Some(found) = query.pattern.find_at(&seen.bytes, seen.at) {
                let before = &seen.bytes[seen.at..found.start()];
                let line = seen.line + memchr_iter(b'\n', before).count() as u64;
                let start = match memrchr(b'\n', &seen.bytes[..found.start()]) {
                    Some(line_end) => seen.start + line_end as u64 + 1,
                    None => self.line_start(line)?,
                };
                let (found_line, next) = self.line(line, start)?;
                shown += found_line.text.len();
                if lines.len() >= limit || (shown > LOG_ANSWER_BYTES_MAX && !lines.is_empty()) {
                    return Ok(Found { lines, next: Some(start) });
                }
                lines.push(found_line);
                match memchr(b'\n', &seen.bytes[found.end()..]) {
                    Some(line_end) => (seen.at, seen.line) = (found.end() + line_end + 1, line + 1),
                    // The line goes on past this block, perhaps far: the index knows where it ends.
                    None => {
                        seen = Chunk { bytes: Vec::new(), start: next, at: 0, line: line + 1 };
                        at = next;
                        break;
                    }
                }
            }
            seen.keep_last(query.bytes_max);
        }
        Ok(Found { lines, next: None })
    }
}

impl Chunk {
    /// Forgets all but the end, in which a match may have begun.
    fn keep_last(&mut self, bytes: usize) {
        let cut = self.bytes.len().saturating_sub(bytes).max(self.at);
        self.line += memchr_iter(b'\n', &self.bytes[self.at..cut]).count() as u64;
        self.bytes.drain(..cut);
        self.start += cut as u64;
        self.at = 0;
    }
}
