//! Output: colours and tables on a terminal, tab-separated lines in a pipe, JSON with --json.

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

    /// Prints the raw response with --json, otherwise the text.
    pub(crate) fn told(&self, raw: &Value, text: impl FnOnce() -> String) -> anyhow::Result<()> {
        if self.json { say(&raw.to_string()) } else { say(&text()) }
    }

    /// Prints a table on a terminal, and tab-separated lines without a heading in a pipe.
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

    /// Prints a table that wraps long cells instead of truncating them.
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

/// `None`: standard output is not a terminal.
fn width() -> Option<u16> {
    let size = rustix::termios::tcgetwinsize(std::io::stdout()).ok()?;
    Some(size.ws_col).filter(|columns| *columns > 0)
}

/// Prints to standard output; a closed pipe is an error, not a panic.
pub(crate) fn say(text: &str) -> anyhow::Result<()> {
    use std::io::Write as _;
    writeln!(anstream::stdout().lock(), "{text}").context("cannot print")
}

/// Prints progress and advice to standard error; a closed pipe is ignored.
pub(crate) fn note(text: &str) {
    use std::io::Write as _;
    writeln!(anstream::stderr().lock(), "{text}").ok();
}

fn styled(text: &str, style: Style) -> String {
    format!("{style}{text}{style:#}")
}

/// Colours known status words.
pub(crate) fn coloured(word: &str) -> String {
    coloured_as(word, word)
}

/// Gives `shown` the colour of `word`.
pub(crate) fn coloured_as(word: &str, shown: &str) -> String {
    let colour = match word {
        "succeeded" | "free" | "active" | "ready" | "approved" | "online" => AnsiColor::Green,
        "failed" | "rejected" | "overridden" | "taken over" | "lost" => AnsiColor::Red,
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

/// Returns an enum value as it is spelled in the API.
pub(crate) fn word(value: impl serde::Serialize) -> String {
    match serde_json::to_value(value) {
        Ok(Value::String(word)) => word,
        _ => "-".to_owned(),
    }
}

/// Returns "-" for an empty cell.
pub(crate) fn or_dash(text: Option<&str>) -> String {
    text.filter(|it| !it.is_empty()).unwrap_or("-").to_owned()
}

/// Replaces control characters in untrusted text.
pub(crate) fn harmless(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// Abbreviates a commit hash; branch and tag names stay as they are.
pub(crate) fn short_commit(commit: &str) -> &str {
    let is_hash = commit.len() == 40 && commit.bytes().all(|byte| byte.is_ascii_hexdigit());
    if is_hash { &commit[..10] } else { commit }
}
