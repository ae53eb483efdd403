//! Follows the log file of a custom step. Each line is a JSON object, which is rendered as plain text.

use std::fs::File;
use std::io;
use std::os::fd::BorrowedFd;
use std::os::unix::fs::FileExt;
use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;

use super::file;
use crate::executor::ExecutionHost;

/// Maximum length of a line that is parsed. A longer line is passed through in pieces, without parsing.
const LINE_BYTES_MAX: usize = 64 * 1024;
const READ_BYTES: usize = 64 * 1024;
/// Maximum number of reads per poll, so that a step that logs without end cannot keep the runner from noticing its
/// exit.
const READS_MAX: usize = 16;
/// Maximum number of bytes read from the file after the step has ended, because a process that was not found may still
/// be writing to it.
const REST_BYTES_MAX: usize = 256 * 1024 * 1024;
/// Interval between two checks for room in a full log buffer.
const FULL_TICK: Duration = Duration::from_millis(5);

pub(super) struct StepLogFile {
    name: String,
    file: Option<File>,
    offset: u64,
    /// The part of an incomplete line that has been read so far.
    line: Vec<u8>,
    /// The current line is too long, so the rest of it is passed through without parsing.
    is_raw: bool,
}

#[derive(Deserialize)]
struct StepLogEntry {
    level: Option<String>,
    message: Value,
    data: Option<Value>,
}

impl StepLogFile {
    pub(super) fn new(name: String) -> Self {
        Self { name, file: None, offset: 0, line: Vec::new(), is_raw: false }
    }

    /// Writes new lines of the file to the log. `dir` must have been opened before the process started.
    pub(super) fn write_new_lines(&mut self, dir: BorrowedFd<'_>, host: &dyn ExecutionHost) {
        for _ in 0..READS_MAX {
            if !host.has_room() || !matches!(self.read(dir, host), Ok(length) if length > 0) {
                return;
            }
        }
    }

    /// Writes the rest of the file to the log after the process has ended. The last line may lack a newline.
    pub(super) fn finish(&mut self, dir: BorrowedFd<'_>, host: &dyn ExecutionHost) {
        let mut bytes = 0;
        while bytes < REST_BYTES_MAX {
            if !host.has_room() {
                host.tick_log();
                std::thread::sleep(FULL_TICK);
                continue;
            }
            match self.read(dir, host) {
                Ok(0) | Err(_) => break,
                Ok(length) => bytes += length,
            }
        }
        let line = std::mem::take(&mut self.line);
        self.write_entry(&line, host);
    }

    fn read(&mut self, dir: BorrowedFd<'_>, host: &dyn ExecutionHost) -> io::Result<usize> {
        let file = match self.file.take() {
            Some(file) => file,
            None => file::open_in(dir, self.name.as_str())?,
        };
        // The step has truncated the file, so read it from the start.
        if file.metadata()?.len() < self.offset {
            self.offset = 0;
        }
        let mut bytes = vec![0; READ_BYTES];
        let length = file.read_at(&mut bytes, self.offset)?;
        self.file = Some(file);
        self.offset += length as u64;
        let mut rest = &bytes[..length];
        while let Some(at) = rest.iter().position(|byte| *byte == b'\n') {
            self.line.extend_from_slice(&rest[..at]);
            rest = &rest[at + 1..];
            let line = std::mem::take(&mut self.line);
            self.write_entry(&line, host);
        }
        self.line.extend_from_slice(rest);
        if self.line.len() > LINE_BYTES_MAX || (self.is_raw && !self.line.is_empty()) {
            let piece = std::mem::take(&mut self.line);
            self.is_raw = true;
            host.write_aside(&piece);
        }
        Ok(length)
    }

    fn write_entry(&mut self, line: &[u8], host: &dyn ExecutionHost) {
        let is_raw = std::mem::take(&mut self.is_raw);
        if !line.iter().all(u8::is_ascii_whitespace) {
            let mut text = if is_raw { line.to_vec() } else { render_entry(line) };
            text.push(b'\n');
            host.write_aside(&text);
        }
    }
}

/// Renders a JSON log entry as `[warn] message {"data":1}`. Other lines are left unchanged.
fn render_entry(line: &[u8]) -> Vec<u8> {
    let Ok(StepLogEntry { level, message, data }) = serde_json::from_slice(line) else {
        return line.to_vec();
    };
    let mut text = String::new();
    let level = level.map(|level| level.to_lowercase()).filter(|level| level != "info");
    if let Some(level) = level {
        text = format!("[{level}] ");
    }
    match message {
        Value::String(message) => text.push_str(&message),
        other => text.push_str(&other.to_string()),
    }
    let is_empty = |data: &Value| data.is_null() || data.as_object().is_some_and(serde_json::Map::is_empty);
    if let Some(data) = data.filter(|data| !is_empty(data)) {
        text = format!("{text} {data}");
    }
    text.into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn log_entries_are_rendered_as_text() {
        let cases = [
            (r#"{"timestamp":"t","level":"info","message":"begins"}"#, "begins"),
            (r#"{"level":"INFO","message":"begins","data":{}}"#, "begins"),
            (r#"{"level":"warn","message":"slow","data":{"ms":1200}}"#, r#"[warn] slow {"ms":1200}"#),
            (r#"{"level":"ERROR","message":"no","data":null}"#, "[error] no"),
            (r#"{"message":{"a":1}}"#, r#"{"a":1}"#),
            (r#"{"text":"no message"}"#, r#"{"text":"no message"}"#),
            ("not json", "not json"),
            ("7", "7"),
        ];
        for (line, expected) in cases {
            assert_eq!(String::from_utf8(render_entry(line.as_bytes())).expect("text"), expected);
        }
    }
}
