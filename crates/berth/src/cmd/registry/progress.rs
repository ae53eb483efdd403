//! Prints the registry's log and the test results.

use std::io::{IsTerminal as _, Write as _};
use std::time::{Duration, Instant};

use super::interrupt::InterruptFlag;

/// Ctrl-C is noticed within this time.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

pub(super) struct ProgressPrinter {
    is_terminal: bool,
    has_colour: bool,
    at_line_start: bool,
}

#[derive(Clone, Copy)]
pub(super) enum ProgressMark {
    Running,
    Passed,
    Hint,
    Failed,
}

impl ProgressPrinter {
    pub(super) fn new() -> Self {
        let is_terminal = std::io::stdout().is_terminal();
        let has_colour = is_terminal && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        Self { is_terminal, has_colour, at_line_start: true }
    }

    pub(super) fn print_mark(&mut self, mark: ProgressMark, text: &str) -> anyhow::Result<()> {
        let (sign, colour) = match mark {
            ProgressMark::Running => ("..", "2"),
            ProgressMark::Passed => ("ok", "32"),
            ProgressMark::Hint => ("hint", "33"),
            ProgressMark::Failed => ("ERROR", "31"),
        };
        let sign =
            if self.has_colour { format!("\x1b[{colour}m{sign:<5}\x1b[0m") } else { format!("{sign:<5}") };
        let mut lines = text.lines();
        let mut out = format!("{sign} {}\n", lines.next().unwrap_or_default());
        for line in lines {
            out.push_str(&format!("      {line}\n"));
        }
        self.begin_line()?;
        Ok(std::io::stdout().lock().write_all(out.as_bytes())?)
    }

    /// Prints the registry's own output, indented.
    pub(super) fn write_log(&mut self, bytes: &[u8]) {
        let mut out = Vec::with_capacity(bytes.len() + 16);
        for line in bytes.split_inclusive(|byte| *byte == b'\n') {
            if self.at_line_start {
                out.extend_from_slice(b"    | ");
            }
            out.extend_from_slice(line);
            self.at_line_start = line.ends_with(b"\n");
        }
        let mut stdout = std::io::stdout().lock();
        // Ignore a closed pipe here; printing the next status line reports it.
        stdout.write_all(&out).and_then(|()| stdout.flush()).ok();
    }

    /// Waits, with a countdown on a terminal.
    pub(super) fn wait_with_countdown(
        &mut self,
        pause: Duration,
        interrupt: &InterruptFlag,
    ) -> anyhow::Result<()> {
        let until = Instant::now() + pause;
        if !self.is_terminal {
            self.print_mark(ProgressMark::Running, &format!("polls again in {}", format_seconds(pause)))?;
        }
        while !interrupt.is_set() {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            if self.is_terminal {
                let mut stdout = std::io::stdout().lock();
                write!(stdout, "\r..    polls again in {}   ", format_seconds(left))?;
                stdout.flush()?;
            }
            std::thread::sleep(left.min(POLL_INTERVAL));
        }
        if self.is_terminal {
            write!(std::io::stdout().lock(), "\r\x1b[K")?;
        }
        Ok(())
    }

    fn begin_line(&mut self) -> std::io::Result<()> {
        if !std::mem::replace(&mut self.at_line_start, true) {
            writeln!(std::io::stdout().lock())?;
        }
        Ok(())
    }
}

pub(super) fn format_seconds(length: Duration) -> String {
    if length < Duration::from_secs(10) {
        return format!("{:.1} s", length.as_secs_f64());
    }
    format!("{} s", length.as_secs())
}
