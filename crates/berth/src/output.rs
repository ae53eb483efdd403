//! What people and programs see: colour and tables on a terminal, plain lines in a pipe, JSON when asked for.

mod live;
mod sanitizer;
mod table;
pub(crate) mod time;

use std::io::IsTerminal as _;

use anstyle::{AnsiColor, Style};
use anyhow::Context as _;
use serde_json::Value;

pub(crate) use live::Live;
pub(crate) use sanitizer::Printer;

pub(crate) struct Output {
    pub(crate) json: bool,
    pub(crate) is_terminal: bool,
}

impl Output {
    pub(crate) fn new(json: bool) -> Self {
        Self { json, is_terminal: !json && std::io::stdout().is_terminal() }
    }

    /// The server's own answer, or a sentence about it.
    pub(crate) fn told(&self, raw: &Value, text: impl FnOnce() -> String) -> anyhow::Result<()> {
        if self.json { say(&raw.to_string()) } else { say(&text()) }
    }

    /// A table for people; in a pipe one line per row, with tabs between the cells and without a heading.
    pub(crate) fn table(
        &self,
        raw: &Value,
        heading: &[&str],
        rows: &[Vec<String>],
        empty: &str,
    ) -> anyhow::Result<()> {
        if self.json {
            return say(&raw.to_string());
        }
        if !self.is_terminal {
            return rows.iter().try_for_each(|row| say(&row.join("\t")));
        }
        if rows.is_empty() {
            return say(empty);
        }
        say(&table::drawn(heading, rows, width()))
    }

    /// The same for sentences, which go on in the next line where they are too long.
    pub(crate) fn sentences(
        &self,
        raw: &Value,
        heading: &[&str],
        rows: &[Vec<String>],
    ) -> anyhow::Result<()> {
        match self.is_terminal {
            true => say(&table::wrapped(heading, rows, width())),
            false => self.table(raw, heading, rows, ""),
        }
    }
}

/// Columns of the terminal, where they are known.
fn width() -> Option<u16> {
    let size = rustix::termios::tcgetwinsize(std::io::stdout()).ok()?;
    Some(size.ws_col).filter(|columns| *columns > 0)
}

/// Prints to standard output; a reader that has gone away is an error, not a panic.
pub(crate) fn say(text: &str) -> anyhow::Result<()> {
    use std::io::Write as _;
    writeln!(anstream::stdout().lock(), "{text}").context("cannot print")
}

/// For what is not the answer itself: progress, and what to do next. Nobody who reads it is no reason to stop.
pub(crate) fn note(text: &str) {
    use std::io::Write as _;
    writeln!(anstream::stderr().lock(), "{text}").ok();
}

fn styled(text: &str, style: Style) -> String {
    format!("{style}{text}{style:#}")
}

/// Words that say how something stands have a colour; others stay as they are.
pub(crate) fn coloured(word: &str) -> String {
    coloured_as(word, word)
}

/// Something else in the colour of that word.
pub(crate) fn coloured_as(word: &str, shown: &str) -> String {
    let colour = match word {
        "succeeded" | "free" | "active" | "ready" | "approved" | "online" => AnsiColor::Green,
        "failed" | "rejected" | "needs a look" | "overridden" | "lost" => AnsiColor::Red,
        "running" | "building" | "cancelling" => AnsiColor::Blue,
        "waiting" | "pending" | "paused" | "handing over" | "unknown" => AnsiColor::Yellow,
        "queued" | "skipped" | "cancelled" | "released" | "expired" | "-" => {
            return styled(shown, Style::new().dimmed());
        }
        _ => return shown.to_owned(),
    };
    styled(shown, Style::new().fg_color(Some(colour.into())))
}

pub(crate) fn bold(text: &str) -> String {
    styled(text, Style::new().bold())
}

pub(crate) fn dim(text: &str) -> String {
    styled(text, Style::new().dimmed())
}

/// A value of the API as its word.
pub(crate) fn word(value: impl serde::Serialize) -> String {
    match serde_json::to_value(value) {
        Ok(Value::String(word)) => word,
        _ => "-".to_owned(),
    }
}

/// For a cell that may have nothing in it.
pub(crate) fn or_dash(text: Option<&str>) -> String {
    text.filter(|it| !it.is_empty()).unwrap_or("-").to_owned()
}

/// Text of others is shown, not obeyed: what steers a terminal is left out.
pub(crate) fn harmless(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}
