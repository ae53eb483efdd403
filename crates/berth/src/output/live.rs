//! Live display: on a terminal its lines are redrawn in place; in a pipe only new lines are printed.

use std::io::{IsTerminal as _, Write as _};

/// Ends all styles of a truncated line.
const RESET_STYLE: &str = "\x1b[0m";

pub(crate) struct LiveDisplay {
    is_terminal: bool,
    drawn: String,
    /// Number of rows on the terminal.
    rows: usize,
}

impl LiveDisplay {
    /// Draws on standard error; standard output is for results.
    pub(crate) fn new() -> Self {
        Self { is_terminal: std::io::stderr().is_terminal(), drawn: String::new(), rows: 0 }
    }

    pub(crate) fn show(&mut self, text: &str) {
        if text == self.drawn {
            return;
        }
        let mut out = anstream::stderr().lock();
        // Write errors are ignored, because the display is not the command's result.
        if self.is_terminal {
            self.wipe(&mut out);
            // A line that wraps, or a row that scrolls off the screen, could not be erased before the next redraw.
            let lines = fit_to_screen(text, screen_size());
            self.rows = lines.len();
            writeln!(out, "{}", lines.join("\n")).ok();
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
        self.rows = 0;
    }

    fn wipe(&self, out: &mut impl std::io::Write) {
        if self.rows > 0 {
            write!(out, "\x1b[{}A\x1b[J", self.rows).ok();
        }
    }
}

/// Columns and rows of the terminal; `None` if it does not report them.
fn screen_size() -> Option<(usize, usize)> {
    let size = rustix::termios::tcgetwinsize(std::io::stderr()).ok()?;
    let size = (usize::from(size.ws_col), usize::from(size.ws_row));
    (size.0 > 0 && size.1 > 0).then_some(size)
}

/// Returns the lines truncated to the width, without the rows after the first that exceed the height. One row is left
/// for the cursor.
fn fit_to_screen(text: &str, size: Option<(usize, usize)>) -> Vec<String> {
    let Some((columns, rows)) = size else { return text.lines().map(str::to_owned).collect() };
    let lines: Vec<String> = text.lines().map(|line| truncate_line(line, columns)).collect();
    let excess = (lines.len() + 1).saturating_sub(rows.max(2));
    lines.into_iter().enumerate().filter(|(at, _)| *at == 0 || *at > excess).map(|(_, line)| line).collect()
}

/// Truncates a line to this number of columns. Escape sequences take no column.
fn truncate_line(line: &str, columns: usize) -> String {
    if anstream::adapter::strip_str(line).to_string().chars().count() <= columns {
        return line.to_owned();
    }
    let mut kept = String::new();
    let (mut count, mut is_escape) = (0, false);
    for letter in line.chars() {
        if letter == '\x1b' {
            is_escape = true;
        } else if !is_escape {
            count += 1;
        }
        if count == columns {
            break;
        }
        kept.push(letter);
        is_escape &= !letter.is_ascii_alphabetic();
    }
    format!("{kept}…{RESET_STYLE}")
}

#[cfg(test)]
mod tests {
    use super::{fit_to_screen, truncate_line};

    #[test]
    fn truncated_line_fills_the_width_and_ends_its_styles() {
        assert_eq!(truncate_line("\x1b[1mDeployment\x1b[0m shop", 15), "\x1b[1mDeployment\x1b[0m shop");
        assert_eq!(truncate_line("\x1b[1mDeployment\x1b[0m shop", 8), "\x1b[1mDeploym…\x1b[0m");
        assert_eq!(truncate_line("\x1b[1mDeployment\x1b[0m shop", 12), "\x1b[1mDeployment\x1b[0m …\x1b[0m");
    }

    #[test]
    fn display_keeps_the_headline_and_the_last_rows() {
        let text = "head\none\ntwo\nthree";
        assert_eq!(fit_to_screen(text, Some((80, 5))), ["head", "one", "two", "three"]);
        assert_eq!(fit_to_screen(text, Some((80, 4))), ["head", "two", "three"]);
        assert_eq!(fit_to_screen(text, Some((80, 1))), ["head"]);
        assert_eq!(fit_to_screen(text, None), ["head", "one", "two", "three"]);
    }
}
