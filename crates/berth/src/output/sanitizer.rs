//! Makes step output safe for a terminal: keeps colours and shows other control sequences as text.

use std::io::{IsTerminal as _, Write as _};

/// Maximum length of a colour sequence that is kept; `38;2;255;255;255` is a long one.
const COLOUR_BYTES_MAX: usize = 32;
const RESET: &[u8] = b"\x1b[0m";

/// Prints step output: unchanged to a pipe, sanitized on a terminal.
pub(crate) struct LogPrinter {
    calm: Option<TerminalSanitizer>,
}

impl LogPrinter {
    pub(crate) fn new() -> Self {
        Self { calm: std::io::stdout().is_terminal().then(TerminalSanitizer::default) }
    }

    pub(crate) fn write(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        let mut out = std::io::stdout().lock();
        match &mut self.calm {
            None => out.write_all(bytes)?,
            Some(calm) => out.write_all(&calm.sanitize(bytes))?,
        }
        out.flush()
    }

    /// Flushes incomplete sequences and resets colours.
    pub(crate) fn end(&mut self) -> std::io::Result<()> {
        let Some(calm) = self.calm.replace(TerminalSanitizer::default()).filter(|_| self.calm.is_some())
        else {
            self.calm = None;
            return Ok(());
        };
        std::io::stdout().lock().write_all(&calm.finish())
    }
}

/// State machine over the bytes. It keeps its state between chunks, because a chunk may end within a sequence.
#[derive(Default)]
struct TerminalSanitizer {
    state: SanitizerState,
    has_colour: bool,
}

#[derive(Default)]
enum SanitizerState {
    #[default]
    Text,
    /// After a carriage return, which a newline may follow.
    CarriageReturn,
    Escape,
    Colour(Vec<u8>),
    /// Within a multi-byte character, with the bytes so far.
    Multibyte(Vec<u8>),
}

impl TerminalSanitizer {
    fn sanitize(&mut self, bytes: &[u8]) -> Vec<u8> {
        let mut out = Vec::with_capacity(bytes.len() + bytes.len() / 8);
        for byte in bytes {
            self.push_byte(*byte, &mut out);
        }
        out
    }

    fn push_byte(&mut self, byte: u8, out: &mut Vec<u8>) {
        match std::mem::take(&mut self.state) {
            SanitizerState::Text => self.push_text_byte(byte, out),
            SanitizerState::CarriageReturn => {
                // A progress bar that redraws its line becomes a separate line per update.
                out.push(b'\n');
                if byte != b'\n' {
                    self.push_text_byte(byte, out);
                }
            }
            SanitizerState::Escape if byte == b'[' => self.state = SanitizerState::Colour(Vec::new()),
            SanitizerState::Escape => {
                out.extend_from_slice(b"^[");
                self.push_text_byte(byte, out);
            }
            SanitizerState::Colour(told) if byte == b'm' => {
                self.has_colour = true;
                out.extend_from_slice(b"\x1b[");
                out.extend_from_slice(&told);
                out.push(b'm');
            }
            SanitizerState::Colour(mut told)
                if told.len() < COLOUR_BYTES_MAX && matches!(byte, b'0'..=b'9' | b';' | b':') =>
            {
                told.push(byte);
                self.state = SanitizerState::Colour(told);
            }
            SanitizerState::Colour(told) => {
                out.extend_from_slice(b"^[[");
                out.extend_from_slice(&told);
                self.push_text_byte(byte, out);
            }
            SanitizerState::Multibyte(mut begun) if (0x80..=0xbf).contains(&byte) => {
                begun.push(byte);
                if begun.len() < utf8_len(begun[0]) {
                    self.state = SanitizerState::Multibyte(begun);
                } else {
                    push_multibyte(&begun, out);
                }
            }
            SanitizerState::Multibyte(begun) => {
                push_multibyte(&begun, out);
                self.push_text_byte(byte, out);
            }
        }
    }

    fn push_text_byte(&mut self, byte: u8, out: &mut Vec<u8>) {
        match byte {
            b'\n' | b'\t' => out.push(byte),
            b'\r' => self.state = SanitizerState::CarriageReturn,
            0x1b => self.state = SanitizerState::Escape,
            0xc2..=0xf4 => self.state = SanitizerState::Multibyte(vec![byte]),
            0x00..0x20 => out.extend_from_slice(&[b'^', byte + 0x40]),
            0x7f => out.extend_from_slice(b"^?"),
            byte => push_invalid_byte(byte, out),
        }
    }

    /// Returns what is left of an incomplete sequence, and a colour reset.
    fn finish(self) -> Vec<u8> {
        let mut out = Vec::new();
        match self.state {
            SanitizerState::Text => {}
            SanitizerState::CarriageReturn => out.push(b'\n'),
            SanitizerState::Escape => out.extend_from_slice(b"^["),
            SanitizerState::Colour(told) => out.extend([b"^[[".as_slice(), &told].concat()),
            SanitizerState::Multibyte(begun) => push_multibyte(&begun, &mut out),
        }
        if self.has_colour {
            out.extend_from_slice(RESET);
        }
        out
    }
}

/// Length of a UTF-8 character by its first byte.
fn utf8_len(first: u8) -> usize {
    match first {
        0xf0.. => 4,
        0xe0.. => 3,
        _ => 2,
    }
}

/// Writes a multi-byte sequence. C1 control characters (U+0080 to U+009F) are written as `\xNN`, whether they are
/// encoded in UTF-8 or are raw bytes.
fn push_multibyte(begun: &[u8], out: &mut Vec<u8>) {
    match (begun, std::str::from_utf8(begun)) {
        ([0xc2, control @ 0x80..=0x9f], _) => push_invalid_byte(*control, out),
        (_, Ok(_)) => out.extend_from_slice(begun),
        (_, Err(_)) => begun.iter().for_each(|byte| push_invalid_byte(*byte, out)),
    }
}

/// Writes a byte that is not valid UTF-8.
fn push_invalid_byte(byte: u8, out: &mut Vec<u8>) {
    match byte {
        0x80..=0x9f => out.extend_from_slice(format!("\\x{byte:02x}").as_bytes()),
        byte => out.push(byte),
    }
}

#[cfg(test)]
mod tests {
    use super::TerminalSanitizer;

    /// Checks that the output is `wanted`, whatever the size of the chunks in which `given` arrives.
    fn check(given: &str, wanted: &str) {
        check_bytes(given.as_bytes(), wanted.as_bytes());
    }

    fn check_bytes(given: &[u8], wanted: &[u8]) {
        for size in 1..=given.len() {
            let mut calm = TerminalSanitizer::default();
            let mut out: Vec<u8> = given.chunks(size).flat_map(|it| calm.sanitize(it)).collect();
            out.extend(calm.finish());
            assert_eq!(
                out.escape_ascii().to_string(),
                wanted.escape_ascii().to_string(),
                "in pieces of {size}"
            );
        }
    }

    #[test]
    fn sanitizer_keeps_text_and_colours() {
        check("plain ü € 🚢 Ý À text\tand\nlines\r\n", "plain ü € 🚢 Ý À text\tand\nlines\n");
        check("\u{1b}[1;31mred\u{1b}[0m", "\u{1b}[1;31mred\u{1b}[0m\u{1b}[0m");
        check("\u{1b}[38:2:1:2:3mx", "\u{1b}[38:2:1:2:3mx\u{1b}[0m");
    }

    #[test]
    fn sanitizer_shows_other_control_sequences() {
        check("\u{1b}]0;title\u{7}", "^[]0;title^G");
        check("\u{1b}[2J\u{1b}[1;1Hgone", "^[[2J^[[1;1Hgone");
        check("10%\r20%\r", "10%\n20%\n");
        check("a\u{8}\u{7f}\u{0}", "a^H^?^@");
        check("\u{9b}31m \u{a0}é", "\\x9b31m \u{a0}é");
        check("\u{1b}", "^[");
        check_bytes(b"\x9b31m a\xe9b", b"\\x9b31m a\xe9b");
        check_bytes(b"\xe2\x9b\x9b\x9b2J", b"\xe2\x9b\x9b\\x9b2J");
        check_bytes(b"\xe0\x82\x9b2J \xe2\x82", b"\xe0\\x82\\x9b2J \xe2\\x82");
        check_bytes(b"\xc3\x1b[2J", b"\xc3^[[2J");
        check(&format!("\u{1b}[{}m", "1".repeat(40)), &format!("^[[{}m", "1".repeat(40)));
    }
}
