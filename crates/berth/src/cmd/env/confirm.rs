//! Confirmation questions on a terminal.

use std::io::{BufRead as _, IsTerminal as _, Write as _};

/// Whether a question can be asked: standard input and standard error are terminals.
pub(super) fn is_interactive() -> bool {
    std::io::stdin().is_terminal() && std::io::stderr().is_terminal()
}

/// Asks a question that only "y" or "yes" affirms.
pub(super) fn ask(question: &str) -> anyhow::Result<bool> {
    let mut err = std::io::stderr();
    write!(err, "{question} [y/N] ")?;
    err.flush()?;
    let mut answer = String::new();
    std::io::stdin().lock().read_line(&mut answer)?;
    Ok(["y", "yes"].contains(&answer.trim().to_lowercase().as_str()))
}
