//! Reads bytes, lines and tails from a snapshot of a log.

use std::fs::File;
use std::sync::Arc;

use memchr::{memchr, memchr_iter, memrchr};

use super::group::{self, LineGroup};
use super::index::{BLOCK_BYTES, LineIndex, block_at, block_start, offset_in_block};
use super::sealed_log::{LogSeal, SealedLog, read_plain};
use super::{LOG_ANSWER_BYTES_MAX, LOG_LINE_SHOWN_BYTES_MAX, LOG_LINES_MAX, LogError};

/// A snapshot of a log, taken when it was opened. It does not include later appends.
pub struct LogReader {
    source: LogSource,
    index: LineIndex,
    damaged: Option<u64>,
    /// Number of the block that `block` contains.
    cached: Option<usize>,
    block: Vec<u8>,
}

enum LogSource {
    Plain(Arc<File>),
    Packed(Box<SealedLog>),
    Empty,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogLine {
    /// Line number, counted from 1.
    pub number: u64,
    /// Without the newline; invalid UTF-8 is replaced.
    pub text: String,
    /// The line was longer than the limit, and its end was cut off.
    pub truncated: bool,
    pub group: Option<LineGroup>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogLines {
    pub lines: Vec<LogLine>,
    /// The number of the next line, if there is one.
    pub next: Option<u64>,
}

impl LogReader {
    pub(super) fn from_plain(file: Option<Arc<File>>, index: LineIndex, damaged: Option<u64>) -> Self {
        Self::new(file.map_or(LogSource::Empty, LogSource::Plain), index, damaged)
    }

    pub(super) fn from_sealed(mut pack: SealedLog) -> Self {
        let (index, damaged) = (std::mem::take(&mut pack.index), pack.sealed.damaged);
        pack.index = index.clone();
        Self::new(LogSource::Packed(Box::new(pack)), index, damaged)
    }

    fn new(source: LogSource, index: LineIndex, damaged: Option<u64>) -> Self {
        Self { source, index, damaged, cached: None, block: Vec::new() }
    }

    pub fn length(&self) -> u64 {
        self.index.length()
    }

    pub fn line_count(&self) -> u64 {
        self.index.line_count()
    }

    /// Returns the seal of the log, or `None` while the log may still grow.
    pub fn seal(&self) -> Option<LogSeal> {
        match &self.source {
            LogSource::Packed(pack) => Some(pack.sealed),
            LogSource::Plain(_) | LogSource::Empty => None,
        }
    }

    /// Returns the offset from which on data was lost because of a disk error.
    pub fn damaged_from(&self) -> Option<u64> {
        self.damaged
    }

    /// Reads up to `max` bytes. Returns fewer only at the end of the log.
    pub fn read_bytes(&mut self, from: u64, max: usize) -> Result<Vec<u8>, LogError> {
        let count = self.length().saturating_sub(from).min(max as u64);
        let mut bytes = Vec::with_capacity(usize::try_from(count).unwrap_or(0));
        let end = from + count;
        let mut at = from;
        while at < end {
            let block = self.block(block_at(at))?;
            let wanted = usize::try_from(end - at).unwrap_or(usize::MAX);
            let part = &block[offset_in_block(at)..];
            let part = &part[..part.len().min(wanted)];
            bytes.extend_from_slice(part);
            at += part.len() as u64;
        }
        Ok(bytes)
    }

    /// Returns the lines `from` to `to`, counted from 1, both inclusive. Returns fewer if they exceed the limits of a
    /// response.
    pub fn lines(&mut self, from: u64, to: u64) -> Result<LogLines, LogError> {
        let last = self.line_count().min(to);
        let (mut lines, mut number, mut bytes) = (Vec::new(), from.max(1), 0);
        let mut start = self.line_start(number)?;
        while number <= last && lines.len() < LOG_LINES_MAX {
            let (line, next) = self.line(number, start)?;
            bytes += line.text.len();
            if bytes > LOG_ANSWER_BYTES_MAX && !lines.is_empty() {
                break;
            }
            lines.push(line);
            (number, start) = (number + 1, next);
        }
        Ok(LogLines { lines, next: (number <= self.line_count()).then_some(number) })
    }

    /// Returns the last `count` lines. Returns fewer if they exceed the limits of a response.
    pub fn tail(&mut self, count: u64) -> Result<LogLines, LogError> {
        let last = self.line_count();
        let least = last.saturating_sub(count.min(LOG_LINES_MAX as u64)) + 1;
        let (mut from, mut end, mut shown) = (last + 1, self.length(), 0);
        while from > least {
            let start = self.start_before(from - 1, end)?;
            // Measure the decoded text: each invalid byte is replaced by a character of three bytes.
            let line = self.read_bytes(start, visible_bytes(end - start))?;
            shown += String::from_utf8_lossy(&line).len();
            if shown > LOG_ANSWER_BYTES_MAX && from <= last {
                break;
            }
            (from, end) = (from - 1, start);
        }
        self.lines(from, last)
    }

    /// Returns the line at offset `start`, and the offset of the next line.
    pub(super) fn line(&mut self, number: u64, start: u64) -> Result<(LogLine, u64), LogError> {
        let (end, next) = self.line_end(number, start)?;
        let bytes = self.read_bytes(start, visible_bytes(end - start))?;
        let truncated = (bytes.len() as u64) < end - start;
        let bytes = if truncated { whole_chars(&bytes) } else { bytes.strip_suffix(b"\r").unwrap_or(&bytes) };
        let text = String::from_utf8_lossy(bytes).into_owned();
        let group = group::parse_group(&text);
        Ok((LogLine { number, text, truncated, group }, next))
    }

    /// Returns the offset of a line. For a number past the last line, returns the length of the log.
    pub fn line_start(&mut self, number: u64) -> Result<u64, LogError> {
        if number <= 1 {
            return Ok(0);
        }
        let Some((block, before)) = self.index.block_of(number - 1) else { return Ok(self.length()) };
        let skipped = usize::try_from(number - 2 - before).unwrap_or(usize::MAX);
        let line_end = memchr_iter(b'\n', self.block(block)?).nth(skipped);
        let line_end = line_end.ok_or(LogError::Corrupt("another number of lines"))?;
        Ok(block_start(block) + line_end as u64 + 1)
    }

    /// Returns the number of the line that contains the byte at `offset`.
    pub(super) fn line_at(&mut self, offset: u64) -> Result<u64, LogError> {
        let number = block_at(offset);
        let Some(before) = self.index.before().get(number).copied() else {
            return Ok(self.index.line_ends() + 1);
        };
        let block = self.block(number)?;
        let inside = &block[..offset_in_block(offset).min(block.len())];
        Ok(before + memchr_iter(b'\n', inside).count() as u64 + 1)
    }

    /// Returns the offset of the line's end, without its newline, and the offset of the next line. Uses the index, so
    /// that a long line is not read completely.
    fn line_end(&mut self, number: u64, start: u64) -> Result<(u64, u64), LogError> {
        if start < self.length() {
            let block = self.block(block_at(start))?;
            if let Some(found) = memchr(b'\n', &block[offset_in_block(start)..]) {
                let end = start + found as u64;
                return Ok((end, end + 1));
            }
        }
        let next = self.line_start(number + 1)?;
        Ok((if number <= self.index.line_ends() { next - 1 } else { next }, next))
    }

    /// Returns the offset of a line, given the offset `end` of the line after it.
    fn start_before(&mut self, number: u64, end: u64) -> Result<u64, LogError> {
        if end >= 2 {
            let last = end - 2;
            let block = self.block(block_at(last))?;
            // The byte at `end - 1` is the newline of this line, or the last byte of a line without a newline.
            if let Some(found) = memrchr(b'\n', &block[..=offset_in_block(last)]) {
                return Ok(block_start(block_at(last)) + found as u64 + 1);
            }
        }
        self.line_start(number)
    }

    pub(super) fn block(&mut self, number: usize) -> Result<&[u8], LogError> {
        if self.cached != Some(number) {
            self.cached = None;
            match &mut self.source {
                LogSource::Packed(pack) => pack.block(number, &mut self.block)?,
                LogSource::Plain(file) => {
                    let left = self.index.length().saturating_sub(block_start(number));
                    let count = usize::try_from(left).unwrap_or(usize::MAX).min(BLOCK_BYTES);
                    read_plain(file, block_start(number), &mut self.block, count)?;
                }
                LogSource::Empty => self.block.clear(),
            }
            self.cached = Some(number);
        }
        Ok(&self.block)
    }
}

fn visible_bytes(length: u64) -> usize {
    usize::try_from(length).unwrap_or(usize::MAX).min(LOG_LINE_SHOWN_BYTES_MAX)
}

/// Removes an incomplete UTF-8 character from the end.
pub fn whole_chars(bytes: &[u8]) -> &[u8] {
    const CHAR_BYTES_MAX: usize = 4;
    for back in 1..CHAR_BYTES_MAX.min(bytes.len() + 1) {
        let at = bytes.len() - back;
        if bytes[at] & 0xC0 != 0x80 {
            let is_cut = str::from_utf8(&bytes[at..]).is_err_and(|error| error.error_len().is_none());
            return if is_cut { &bytes[..at] } else { bytes };
        }
    }
    bytes
}
