//! Case-insensitive search for plain text in a log, in linear time.

use memchr::{memchr, memchr_iter, memrchr};
use regex::bytes::{Regex, RegexBuilder};

use super::index::{block_at, block_start, offset_in_block};
use super::reader::{LogLine, LogReader};
use super::{LOG_ANSWER_BYTES_MAX, LOG_MATCHES_MAX, LOG_SCAN_BYTES_MAX, LogError};

/// Maximum length of a query.
const QUERY_BYTES_MAX: usize = 1024;
/// The upper-case and lower-case forms of a letter may differ in UTF-8 length, by at most this factor.
const CASE_GROWTH_MAX: usize = 3;

/// A string to search for. Matches never span lines.
pub struct LogQuery {
    pattern: Regex,
    /// Maximum length of a match, in bytes.
    bytes_max: usize,
}

impl LogQuery {
    /// Returns `None` if the text is empty, is too long or contains a newline.
    pub fn new(text: &str) -> Option<Self> {
        if text.is_empty() || text.len() > QUERY_BYTES_MAX || text.contains(['\n', '\r']) {
            return None;
        }
        let pattern = RegexBuilder::new(&regex::escape(text)).case_insensitive(true).build().ok()?;
        Some(Self { pattern, bytes_max: text.len() * CASE_GROWTH_MAX })
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogMatches {
    /// Matching lines in order. A line with several matches is listed once.
    pub lines: Vec<LogLine>,
    /// Offset at which the next search should continue. `None` if the end of the log was reached.
    pub next: Option<u64>,
}

/// The bytes being searched: the last bytes of the previous block, followed by a block.
struct SearchChunk {
    bytes: Vec<u8>,
    /// The offset of `bytes` in the log.
    start: u64,
    /// The search position in `bytes`.
    at: usize,
    /// The number of the line at `at`.
    line: u64,
}

impl LogReader {
    /// Returns the lines that match the query, starting at offset `from`. Returns at most `limit` lines, within the
    /// limits of a response.
    pub fn search(&mut self, query: &LogQuery, from: u64, limit: usize) -> Result<LogMatches, LogError> {
        let (limit, length) = (limit.min(LOG_MATCHES_MAX), self.length());
        let (mut lines, mut shown) = (Vec::new(), 0);
        let mut seen = SearchChunk { bytes: Vec::new(), start: from, at: 0, line: self.line_at(from)? };
        let mut at = from;
        while at < length {
            if at - from >= LOG_SCAN_BYTES_MAX {
                return Ok(LogMatches { lines, next: Some(seen.start) });
            }
            let number = block_at(at);
            seen.bytes.extend_from_slice(&self.block(number)?[offset_in_block(at)..]);
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
                    return Ok(LogMatches { lines, next: Some(start) });
                }
                lines.push(found_line);
                match memchr(b'\n', &seen.bytes[found.end()..]) {
                    Some(line_end) => (seen.at, seen.line) = (found.end() + line_end + 1, line + 1),
                    // The line continues in later blocks, so find its end with the index.
                    None => {
                        seen = SearchChunk { bytes: Vec::new(), start: next, at: 0, line: line + 1 };
                        at = next;
                        break;
                    }
                }
            }
            seen.keep_last(query.bytes_max);
        }
        Ok(LogMatches { lines, next: None })
    }
}

impl SearchChunk {
    /// Keeps only the last bytes: a match may start in them and continue in the next block.
    fn keep_last(&mut self, bytes: usize) {
        let cut = self.bytes.len().saturating_sub(bytes).max(self.at);
        self.line += memchr_iter(b'\n', &self.bytes[self.at..cut]).count() as u64;
        self.bytes.drain(..cut);
        self.start += cut as u64;
        self.at = 0;
    }
}
