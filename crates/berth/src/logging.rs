//! Logging to standard error: text on a terminal, JSON otherwise.

use std::io::IsTerminal as _;

use tracing_subscriber::EnvFilter;

use crate::config::{LogFormat, LogSettings};

/// Starts logging. With `quiet` only warnings and errors are logged, for commands whose output is read by people.
pub(crate) fn start(log: &LogSettings, quiet: bool) {
    // rmcp logs each MCP request, which the request log has already.
    let default = if quiet { "warn" } else { "info,rmcp=warn" };
    let level = log.level.as_deref().unwrap_or(default);
    let filter = EnvFilter::try_new(level).unwrap_or_else(|_| EnvFilter::new(default));
    let on_terminal = std::io::stderr().is_terminal();
    let lines = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    match log.format.unwrap_or(if on_terminal { LogFormat::Text } else { LogFormat::Json }) {
        LogFormat::Text => lines.with_ansi(on_terminal).with_target(false).init(),
        LogFormat::Json => lines.json().flatten_event(true).init(),
    }
}
