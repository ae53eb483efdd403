//! Command output: coloured tables on a terminal, tab-separated lines in a pipe, JSON with `--json`.

mod commit;
mod jq;
mod json;
mod live;
mod sanitizer;
mod table;
pub(crate) mod time;
mod wrap;

use std::io::IsTerminal as _;

use anstyle::{AnsiColor, Style};
use anyhow::Context as _;
use serde_json::Value;

pub(crate) use commit::{commit_title, describe_commit};
pub(crate) use json::{JsonArgs, JsonRecords, RawJson};
pub(crate) use live::LiveDisplay;
pub(crate) use sanitizer::LogPrinter;

pub(crate) struct CommandOutput {
    pub(crate) json: bool,
    pub(crate) is_terminal: bool,
    format: JsonArgs,
}

impl CommandOutput {
    fn new(format: JsonArgs) -> Self {
        let json = format.is_set();
        Self { json, is_terminal: !json && std::io::stdout().is_terminal(), format }
    }

    /// Prints what --json and --jq select.
    pub(crate) fn print_json(&self, raw: &(impl JsonRecords + ?Sized)) -> anyhow::Result<()> {
        self.format.print(raw)
    }

    /// Prints the raw response with --json, otherwise the text.
    pub(crate) fn print_reply(
        &self,
        raw: &(impl JsonRecords + ?Sized),
        text: impl FnOnce() -> String,
    ) -> anyhow::Result<()> {
        if self.json { self.print_json(raw) } else { print_line(&text()) }
    }

    /// Prints a hint for the next command to standard error, unless the output is for a program.
    pub(crate) fn print_hint(&self, text: &str) {
        if !self.json {
            print_note(&dim(text));
        }
    }

    /// Prints a table on a terminal, and tab-separated lines without a heading in a pipe.
    pub(crate) fn print_table(
        &self,
        raw: &(impl JsonRecords + ?Sized),
        heading: &[&str],
        rows: &[Vec<String>],
        empty: &str,
    ) -> anyhow::Result<()> {
        if self.json {
            return self.print_json(raw);
        }
        if !self.is_terminal {
            return rows.iter().try_for_each(|row| print_line(&row.join("\t")));
        }
        if rows.is_empty() {
            return print_line(empty);
        }
        print_line(&table::render_table(heading, rows, terminal_width()))
    }

    /// Prints a table that wraps long cells instead of truncating them.
    pub(crate) fn print_wrapped_table(
        &self,
        raw: &(impl JsonRecords + ?Sized),
        heading: &[&str],
        rows: &[Vec<String>],
        empty: &str,
    ) -> anyhow::Result<()> {
        match self.is_terminal && !rows.is_empty() {
            true => print_line(&table::render_wrapped_table(heading, rows, terminal_width())),
            false => self.print_table(raw, heading, rows, empty),
        }
    }
}

/// `None`: standard output is not a terminal.
fn terminal_width() -> Option<u16> {
    let size = rustix::termios::tcgetwinsize(std::io::stdout()).ok()?;
    Some(size.ws_col).filter(|columns| *columns > 0)
}

/// Prints to standard output. A closed pipe is returned as an error instead of causing a panic.
pub(crate) fn print_line(text: &str) -> anyhow::Result<()> {
    use std::io::Write as _;
    writeln!(anstream::stdout().lock(), "{text}").context("cannot print")
}

/// Prints progress and advice to standard error; a closed pipe is ignored.
pub(crate) fn print_note(text: &str) {
    use std::io::Write as _;
    writeln!(anstream::stderr().lock(), "{text}").ok();
}

/// Prints an error to standard error. On a terminal, its lines are wrapped at words.
pub(crate) fn print_error(text: &str) {
    let width = rustix::termios::tcgetwinsize(std::io::stderr()).ok().map(|size| usize::from(size.ws_col));
    match width.filter(|columns| *columns > 0) {
        Some(columns) => print_note(&wrap::wrap_words(text, columns)),
        None => print_note(text),
    }
}

fn apply_style(text: &str, style: Style) -> String {
    format!("{style}{text}{style:#}")
}

/// Colours a word if it is a known status.
pub(crate) fn colour_word(word: &str) -> String {
    colour_like(word, word)
}

/// Gives `shown` the colour of `word`.
pub(crate) fn colour_like(word: &str, shown: &str) -> String {
    let colour = match word {
        "succeeded" | "free" | "active" | "ready" | "approved" | "online" => AnsiColor::Green,
        "failed" | "rejected" | "overridden" | "taken over" | "lost" => AnsiColor::Red,
        "running" | "building" | "cancelling" => AnsiColor::Blue,
        "waiting" | "pending" | "paused" | "handing over" | "unknown" => AnsiColor::Yellow,
        "queued" | "skipped" | "cancelled" | "released" | "expired" | "-" => {
            return apply_style(shown, Style::new().dimmed());
        }
        _ => return shown.to_owned(),
    };
    apply_style(shown, Style::new().fg_color(Some(colour.into())))
}

pub(crate) fn bold(text: &str) -> String {
    apply_style(text, Style::new().bold())
}

pub(crate) fn dim(text: &str) -> String {
    apply_style(text, Style::new().dimmed())
}

/// Returns an enum value as it is spelled in the API.
pub(crate) fn wire_word(value: impl serde::Serialize) -> String {
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
pub(crate) fn strip_control_chars(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// Abbreviates a commit hash; branch and tag names stay as they are.
pub(crate) fn short_commit(commit: &str) -> &str {
    let is_hash = commit.len() == 40 && commit.bytes().all(|byte| byte.is_ascii_hexdigit());
    if is_hash { &commit[..8] } else { commit }
}
