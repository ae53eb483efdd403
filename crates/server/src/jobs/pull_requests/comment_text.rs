//! The text of the comment on a pull request.
//!
//! Names, failure details and answers are untrusted, so they are made inert. There are no relative times: the comment
//! is written only if its text has changed.

use std::fmt::Write as _;

use berth_core::forge::command::COMMANDS_HELP;
use berth_core::time::Timestamp;

use crate::integrations::forges::{code_span, inert};

const NAME_CHARS_MAX: usize = 100;
const DETAIL_CHARS_MAX: usize = 300;
const SHORT_HASH_CHARS: usize = 8;
/// Stands for the colon of a time while text is made inert. It is a letter, so it is kept.
const TIME_COLON: char = '\u{2d0}';

/// What the comment says.
#[derive(Debug, Clone, Default)]
pub(super) struct CommentContent {
    /// The first line, which identifies the comment. See [`render_marker`].
    pub(super) marker: String,
    pub(super) environments: Vec<EnvironmentSection>,
    /// The head of a fork that waits for approval.
    pub(super) unapproved_head: Option<String>,
    /// Why Berth could not act.
    pub(super) problem: Option<String>,
    pub(super) last_command: Option<LastCommand>,
}

#[derive(Debug, Clone)]
pub(super) struct LastCommand {
    pub(super) author: String,
    /// The text after `/berth`.
    pub(super) text: String,
    pub(super) answer: String,
}

/// The state of one environment or queue.
#[derive(Debug, Clone)]
pub(super) struct EnvironmentSection {
    /// Set if the repository has several pipelines.
    pub(super) pipeline: Option<String>,
    pub(super) environment: String,
    /// The environment's page.
    pub(super) url: Option<String>,
    pub(super) state: EnvironmentUse,
    /// The page with the deployment's steps and logs.
    pub(super) log_url: Option<String>,
    /// The service account that holds the session, and the author, for whom it does.
    pub(super) holder: Option<String>,
    pub(super) author: String,
    pub(super) expires_at: Option<Timestamp>,
    pub(super) failure: Option<FailureCause>,
    /// The deployment gets no secrets, because the commit comes from a fork.
    pub(super) is_untrusted: bool,
}

/// Why the deployment failed.
#[derive(Debug, Clone)]
pub(super) struct FailureCause {
    pub(super) text: String,
    /// The page of the step with its analysis.
    pub(super) url: Option<String>,
    pub(super) fix: Option<ProposedFix>,
}

/// A pull request of Berth with a fix for the failure.
#[derive(Debug, Clone)]
pub(super) struct ProposedFix {
    pub(super) number: i64,
    pub(super) url: String,
    pub(super) is_merged: bool,
}

#[derive(Debug, Clone)]
pub(super) enum EnvironmentUse {
    Queued {
        position: usize,
        expected_at: Option<Timestamp>,
    },
    /// Claimed without a deployment.
    Held,
    /// `at` is when the deployment ended, if it has.
    Deployment {
        commit: String,
        status: &'static str,
        at: Option<Timestamp>,
    },
    /// The session or ticket ended. `how` is the end's name in the API.
    Ended {
        how: &'static str,
        is_stopped: bool,
    },
}

/// Renders the line that identifies the comment: a link definition without a use, which no forge shows. `key` keeps
/// others from writing such a comment first.
pub(super) fn render_marker(key: &str) -> String {
    format!("[//]: # (berth:pull-request {key})")
}

/// Renders the comment. The same content gives the same text.
pub(super) fn render_comment(content: &CommentContent) -> String {
    let mut out = format!("{}\n\n", content.marker);
    for section in &content.environments {
        render_section(&mut out, section);
    }
    if let Some(head) = &content.unapproved_head {
        let _ = write!(
            out,
            "**Waiting for approval** · this pull request comes from a fork. A member who may deploy here can review it \
             and comment `/berth approve {}`. Its steps get no secrets.\n\n",
            inert(head)
        );
    }
    if content.environments.is_empty() && content.unapproved_head.is_none() {
        out.push_str("This pull request uses no environment.\n\n");
    }
    if let Some(problem) = &content.problem {
        let _ = write!(out, "Berth could not act: {}\n\n", shorten(problem, DETAIL_CHARS_MAX));
    }
    if let Some(last) = &content.last_command {
        let (author, answer) =
            (shorten(&last.author, NAME_CHARS_MAX), shorten(&last.answer, DETAIL_CHARS_MAX));
        let _ = write!(out, "Last command: `{}` by {author}: {answer}\n\n", shown_command(&last.text));
    }
    let _ = writeln!(out, "Commands: `/berth` and {COMMANDS_HELP}");
    out
}

fn render_section(out: &mut String, section: &EnvironmentSection) {
    let name = match &section.pipeline {
        Some(pipeline) => format!("{} / {}", inert(pipeline), inert(&section.environment)),
        None => inert(&section.environment),
    };
    let name = match &section.url {
        Some(url) => format!("**[{name}](<{url}>)**"),
        None => format!("**{name}**"),
    };
    let _ = match &section.state {
        EnvironmentUse::Queued { position, expected_at } => {
            let expected =
                expected_at.map(|at| format!(", expected at about {}", format_time(at))).unwrap_or_default();
            write!(out, "{} in queue for {name}{expected}", ordinal(*position))
        }
        EnvironmentUse::Held => write!(out, "{name} · claimed"),
        EnvironmentUse::Deployment { commit, status, at } => {
            let at = at.map(|at| format!(" · {}", format_time(at))).unwrap_or_default();
            write!(out, "{name} · {} {}{at}", deployment_word(status), short_hash(commit))
        }
        EnvironmentUse::Ended { how, is_stopped } => {
            let next = match is_stopped {
                true => "It is not claimed again until a member comments `/berth claim`",
                false => "A new commit or `/berth claim` claims an environment again",
            };
            write!(out, "{name} · {}. {next}", ended_word(how))
        }
    };
    if section.is_untrusted {
        out.push_str(" · from a fork, without secrets");
    }
    out.push_str("\n\n");
    let mut details = Vec::new();
    details.extend(section.log_url.as_ref().map(|url| format!("[Steps and logs](<{url}>)")));
    details.extend(section.holder.as_ref().map(|name| {
        let until = section.expires_at.map(|at| format!(" until {}", format_time(at))).unwrap_or_default();
        let (name, author) = (shorten(name, NAME_CHARS_MAX), shorten(&section.author, NAME_CHARS_MAX));
        format!("held by {name} for {author}{until}")
    }));
    if !details.is_empty() {
        let _ = write!(out, "{}\n\n", details.join(" · "));
    }
    if let Some(failure) = &section.failure {
        render_failure(out, failure);
    }
}

/// The cause is shown as code, which keeps its punctuation and is not interpreted.
fn render_failure(out: &mut String, failure: &FailureCause) {
    let _ = write!(out, "Cause: {}", code_span(&failure.text, DETAIL_CHARS_MAX));
    if let Some(url) = &failure.url {
        let _ = write!(out, " · [Analysis](<{url}>)");
    }
    if let Some(fix) = &failure.fix {
        let what = if fix.is_merged { "Fix merged" } else { "Proposed fix" };
        let _ = write!(out, " · {what}: [pull request {}](<{}>)", fix.number, fix.url);
    }
    out.push_str("\n\n");
}

/// Formats a time with minutes, in UTC.
pub(super) fn format_time(at: Timestamp) -> String {
    let text = at.to_string();
    let (day, time) = text.split_once('T').unwrap_or((&text, ""));
    format!("{day} {} UTC", time.get(..5).unwrap_or_default())
}

fn deployment_word(status: &str) -> &'static str {
    match status {
        "queued" => "waiting to deploy",
        "running" | "waiting" => "deploying",
        "cancelling" => "stopping the deployment of",
        "succeeded" => "deployed",
        "failed" => "failed to deploy",
        "superseded" => "replaced the deployment of",
        _ => "cancelled the deployment of",
    }
}

fn ended_word(how: &str) -> &'static str {
    match how {
        "released" => "released",
        "handed_over" => "handed over",
        "overridden" => "taken over by another member",
        "expired" => "the session expired",
        "idle" => "released after the idle timeout",
        "left_queue" => "left the queue",
        _ => "no longer held",
    }
}

fn ordinal(position: usize) -> String {
    let suffix = match (position % 10, position % 100) {
        (1, rest) if rest != 11 => "st",
        (2, rest) if rest != 12 => "nd",
        (3, rest) if rest != 13 => "rd",
        _ => "th",
    };
    format!("{position}{suffix}")
}

fn short_hash(commit: &str) -> String {
    inert(commit).chars().take(SHORT_HASH_CHARS).collect()
}

/// Makes text inert, but keeps the colons of times.
fn inert_line(text: &str) -> String {
    let chars: Vec<char> = text.chars().map(|c| if c == TIME_COLON { ' ' } else { c }).collect();
    let is_digit = |at: Option<usize>| at.and_then(|at| chars.get(at)).is_some_and(char::is_ascii_digit);
    let marked = chars.iter().enumerate().map(|(at, c)| {
        let is_time = *c == ':' && is_digit(at.checked_sub(1)) && is_digit(Some(at + 1));
        if is_time { TIME_COLON } else { *c }
    });
    inert(&marked.collect::<String>()).replace(TIME_COLON, ":")
}

fn shorten(text: &str, chars_max: usize) -> String {
    let text = inert_line(text);
    if text.chars().count() <= chars_max {
        return text;
    }
    let kept: String = text.chars().take(chars_max - 1).collect();
    format!("{}…", kept.trim_end())
}

/// The command as shown. A code that connects an account is left out.
fn shown_command(text: &str) -> String {
    let line = text.trim_start().lines().next().unwrap_or_default();
    match line.split_whitespace().next() {
        Some("connect") => "connect".to_owned(),
        Some(_) => shorten(line, NAME_CHARS_MAX),
        None => "help".to_owned(),
    }
}

#[cfg(test)]
mod tests;
