//! Live display: on a terminal its lines are redrawn in place; in a pipe only new lines are printed.

use std::io::{IsTerminal as _, Write as _};

pub(crate) struct LiveDisplay {
    is_terminal: bool,
    drawn: String,
}

impl LiveDisplay {
    /// Draws on standard error; standard output is for results.
    pub(crate) fn new() -> Self {
        Self { is_terminal: std::io::stderr().is_terminal(), drawn: String::new() }
    }

    pub(crate) fn show(&mut self, text: &str) {
        if text == self.drawn {
            return;
        }
        let mut out = anstream::stderr().lock();
        // Write errors are ignored, because the display is not the command's result.
        if self.is_terminal {
            self.wipe(&mut out);
            writeln!(out, "{text}").ok();
        } else {
            let known: Vec<&str> = self.drawn.lines().collect();
            for line in text.lines().filter(|line| !known.contains(line)) {
                writeln!(out, "{line}").ok();
            }
        }
        self.drawn = text.to_owned();
    }

    /// Erases the drawn lines before the final output.
    pub(crate) fn clear(&mut self) {
        if self.is_terminal {
            self.wipe(&mut anstream::stderr().lock());
        }
        self.drawn.clear();
    }

    fn wipe(&self, out: &mut impl std::io::Write) {
        let lines = self.drawn.lines().count();
        if lines > 0 {
            write!(out, "\x1b[{lines}A\x1b[J").ok();
        }
    }
}
