//! What a step printed, for a terminal: colours stay, and whatever else would steer the terminal is shown instead.

use std::io::{IsTerminal as _, Write as _};

/// Of one colour: `38;2;255;255;255`, with room to spare.
const COLOUR_BYTES_MAX: usize = 32;
const RESET: &[u8] = b"\x1b[0m";

/// Prints to standard output: as it is into a pipe, and calm on a terminal.
pub(crate) struct Printer {
    calm: Option<Calm>,
}

impl Printer {
    pub(crate) fn new() -> Self {
        Self { calm: std::io::stdout().is_terminal().then(Calm::default) }
    }

    pub(crate) fn print(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        let mut out = std::io::stdout().lock();
        match &mut self.calm {
            None => out.write_all(bytes)?,
            Some(calm) => out.write_all(&calm.calmed(bytes))?,
        }
        out.flush()
    }

    /// Whatever comes next is printed as if nothing had been.
    pub(crate) fn end(&mut self) -> std::io::Result<()> {
        let Some(calm) = self.calm.replace(Calm::default()).filter(|_| self.calm.is_some()) else {
            self.calm = None;
            return Ok(());
        };
        std::io::stdout().lock().write_all(&calm.rest())
    }
}

/// Goes on where it was: a colour may be in two pieces.
#[derive(Default)]
struct Calm {
    state: State,
    has_colour: bool,
}

#[derive(Default)]
enum State {
    #[default]
    Text,
    /// Perhaps the end of a line.
    Return,
    Escape,
    Colour(Vec<u8>),
    /// Perhaps a control character of two bytes.
    Latin,
}

impl Calm {
    fn calmed(&mut self, bytes: &[u8]) -> Vec<u8> {
        let mut out = Vec::with_capacity(bytes.len() + bytes.len() / 8);
        for byte in bytes {
            self.take(*byte, &mut out);
        }
        out
    }

    fn take(&mut self, byte: u8, out: &mut Vec<u8>) {
        match std::mem::take(&mut self.state) {
            State::Text => self.text(byte, out),
            State::Return => {
                // A bar that draws over itself becomes a line each time.
                out.push(b'\n');
                if byte != b'\n' {
                    self.text(byte, out);
                }
            }
            State::Escape if byte == b'[' => self.state = State::Colour(Vec::new()),
            State::Escape => {
                out.extend_from_slice(b"^[");
                self.text(byte, out);
            }
            State::Colour(told) if byte == b'm' => {
                self.has_colour = true;
                out.extend_from_slice(b"\x1b[");
                out.extend_from_slice(&told);
                out.push(b'm');
            }
            State::Colour(mut told)
                if told.len() < COLOUR_BYTES_MAX && matches!(byte, b'0'..=b'9' | b';' | b':') =>
            {
                told.push(byte);
                self.state = State::Colour(told);
            }
            State::Colour(told) => {
                out.extend_from_slice(b"^[[");
                out.extend_from_slice(&told);
                self.text(byte, out);
            }
            State::Latin if (0x80..=0x9f).contains(&byte) => {
                out.extend_from_slice(format!("\\x{byte:02x}").as_bytes());
            }
            State::Latin => {
                out.push(0xc2);
                self.text(byte, out);
            }
        }
    }

    fn text(&mut self, byte: u8, out: &mut Vec<u8>) {
        match byte {
            b'\n' | b'\t' => out.push(byte),
            b'\r' => self.state = State::Return,
            0x1b => self.state = State::Escape,
            0xc2 => self.state = State::Latin,
            0x00..0x20 => out.extend_from_slice(&[b'^', byte + 0x40]),
            0x7f => out.extend_from_slice(b"^?"),
            byte => out.push(byte),
        }
    }

    /// What was begun and never ended; and the colours are ours again.
    fn rest(self) -> Vec<u8> {
        let mut out = match self.state {
            State::Text => Vec::new(),
            State::Return => b"\n".to_vec(),
            State::Escape => b"^[".to_vec(),
            State::Colour(told) => [b"^[[".as_slice(), &told].concat(),
            State::Latin => vec![0xc2],
        };
        if self.has_colour {
            out.extend_from_slice(RESET);
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::Calm;

    /// In pieces of every size, always the same.
    fn check(given: &str, wanted: &str) {
        for size in 1..=given.len() {
            let mut calm = Calm::default();
            let mut out: Vec<u8> = given.as_bytes().chunks(size).flat_map(|it| calm.calmed(it)).collect();
            out.extend(calm.rest());
            assert_eq!(String::from_utf8_lossy(&out), wanted, "in pieces of {size}");
        }
    }

    #[test]
    fn colours_and_text_stay() {
        check("plain ü € text\tand\nlines\r\n", "plain ü € text\tand\nlines\n");
        check("\u{1b}[1;31mred\u{1b}[0m", "\u{1b}[1;31mred\u{1b}[0m\u{1b}[0m");
        check("\u{1b}[38:2:1:2:3mx", "\u{1b}[38:2:1:2:3mx\u{1b}[0m");
    }

    #[test]
    fn whatever_else_steers_a_terminal_is_shown() {
        check("\u{1b}]0;title\u{7}", "^[]0;title^G");
        check("\u{1b}[2J\u{1b}[1;1Hgone", "^[[2J^[[1;1Hgone");
        check("10%\r20%\r", "10%\n20%\n");
        check("a\u{8}\u{7f}\u{0}", "a^H^?^@");
        check("\u{9b}31m \u{a0}é", "\\x9b31m \u{a0}é");
        check("\u{1b}", "^[");
        check(&format!("\u{1b}[{}m", "1".repeat(40)), &format!("^[[{}m", "1".repeat(40)));
    }
}
