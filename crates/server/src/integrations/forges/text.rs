//! Title, body and commit message of a pull request.
//!
//! Much of the content is untrusted: logs, model output, definitions, names. On a forge, such text could mention
//! people, close issues, load images or run commands, so it is put into fenced code blocks or made [`inert`].

use std::fmt::Write as _;

use berth_analysis::clean;

const TITLE_CHARS_MAX: usize = 72;
const NAME_CHARS_MAX: usize = 80;
const WORDS_CHARS_MAX: usize = 2_000;
const LINE_CHARS_MAX: usize = 300;
/// Maximum number of log lines quoted in a pull request.
pub const LINES_QUOTED_MAX: usize = 20;
/// Column at which text is wrapped.
const COLUMNS: usize = 100;
const FENCE_CHARS_MIN: usize = 3;

/// A line quoted from the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QuotedLine {
    pub line: u64,
    pub text: String,
}

/// What the text of a pull request is about.
#[derive(Debug, Clone, Copy)]
pub struct PullRequestContext<'a> {
    /// A description of the change in one line.
    pub summary: &'a str,
    pub root_cause: &'a str,
    /// `rules`, or the name of the model.
    pub analyser: &'a str,
    pub evidence: &'a [QuotedLine],
    pub pipeline: &'a str,
    pub step: &'a str,
    pub stage: &'a str,
    pub deployment: &'a str,
    pub analysis: &'a str,
    /// Links to the dashboard, if the server knows its public URL.
    pub deployment_url: Option<&'a str>,
    pub analysis_url: Option<&'a str>,
    /// Name of the person who requested the pull request.
    pub asked_by: &'a str,
}

/// Renders the title as a single line.
pub fn render_title(about: &PullRequestContext<'_>) -> String {
    let summary = truncate(&inert(about.summary), TITLE_CHARS_MAX);
    if summary.is_empty() {
        return truncate(
            &format!("Fix the step {} of {}", inert(about.step), inert(about.pipeline)),
            TITLE_CHARS_MAX,
        );
    }
    summary
}

/// Renders the commit message. It does not name the requester, so it is always the same for an analysis.
pub fn render_commit_message(about: &PullRequestContext<'_>) -> String {
    let (step, pipeline) = (inert(about.step), inert(about.pipeline));
    format!(
        "{}\n\nSuggested by Berth for the step {step} of {pipeline}, which failed.\nDeployment {}, analysis {}.\n",
        render_title(about),
        inert(about.deployment),
        inert(about.analysis),
    )
}

/// Renders the body in Markdown.
pub fn render_body(about: &PullRequestContext<'_>) -> String {
    let analyser = if about.analyser == "rules" {
        "built-in rules".to_owned()
    } else {
        format!("a model, {}", inert(about.analyser))
    };
    let mut out = format!(
        "Berth suggests this change because a deployment failed. **It has not been tested: review it before you merge it.**\n\n\
         What went wrong, found by {analyser}:\n\n"
    );
    out.push_str(&fence_code(&wrap_text(about.root_cause)));
    if !about.evidence.is_empty() {
        out.push_str("\nLog lines that show it:\n\n");
        let lines: Vec<_> = about.evidence.iter().take(LINES_QUOTED_MAX).map(format_quoted_line).collect();
        out.push_str(&fence_code(&lines.join("\n")));
    }
    let linked = |name: &str, url: Option<&str>| match url {
        Some(url) => format!("[{name}](<{url}>)"),
        None => name.to_owned(),
    };
    let _ = write!(
        out,
        "\n- pipeline {}, stage {}, step {}\n- {}\n- {}\n- requested by {}\n",
        inert(about.pipeline),
        inert(about.stage),
        inert(about.step),
        linked(&format!("deployment {}", inert(about.deployment)), about.deployment_url),
        linked(&format!("analysis {}", inert(about.analysis)), about.analysis_url),
        truncate(&inert(about.asked_by), NAME_CHARS_MAX),
    );
    out
}

/// Reduces untrusted text to one line without anything that a forge interprets: mentions, references, links, images,
/// trailers or commands.
pub fn inert(text: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || " .,'()-_/+=".contains(c);
    let line = text.lines().map(clean).collect::<Vec<_>>().join(" ");
    let plain: String = line.chars().map(|c| if is_plain(c) { c } else { ' ' }).collect();
    let words = plain.split_whitespace().map(|word| {
        let lower = word.to_lowercase();
        // Forges turn these into links without any markup.
        if lower.contains("www.") || lower.contains("gh-") {
            word.replace(['.', '-'], " ")
        } else {
            word.to_owned()
        }
    });
    let joined = words.collect::<Vec<_>>().join(" ");
    // A leading slash is a command on some forges; a leading dash or plus starts a list.
    joined.trim_start_matches(['/', '-', '+', '=', ' ']).to_owned()
}

/// Reduces untrusted text to one line of code, in which forges interpret nothing. Backticks become apostrophes.
pub fn code_span(text: &str, chars_max: usize) -> String {
    let line = text.lines().map(clean).collect::<Vec<_>>().join(" ");
    let words: Vec<_> = line.split_whitespace().collect();
    let plain = words.join(" ").replace('`', "'");
    match plain.is_empty() {
        true => "unknown".to_owned(),
        false => format!("`{}`", truncate(&plain, chars_max)),
    }
}

fn format_quoted_line(line: &QuotedLine) -> String {
    format!("{:>6} | {}", line.line, truncate(&clean(&line.text), LINE_CHARS_MAX))
}

/// Puts the text into a code block whose fence is longer than any fence in the text.
fn fence_code(text: &str) -> String {
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(FENCE_CHARS_MIN.max(longest + 1));
    format!("{fence}text\n{text}\n{fence}\n")
}

fn wrap_text(text: &str) -> String {
    let cleaned: String = text.lines().map(clean).collect::<Vec<_>>().join(" ");
    let mut out = String::new();
    let mut column = 0;
    for word in truncate(&cleaned, WORDS_CHARS_MAX).split_whitespace() {
        let length = word.chars().count();
        if column > 0 && column + 1 + length > COLUMNS {
            out.push('\n');
            column = 0;
        } else if column > 0 {
            out.push(' ');
            column += 1;
        }
        // Some forges run commands at the start of any line.
        if column == 0 && word.starts_with('/') {
            out.push(' ');
        }
        out.push_str(word);
        column += length;
    }
    out
}

fn truncate(text: &str, chars_max: usize) -> String {
    if text.chars().count() <= chars_max {
        return text.to_owned();
    }
    let kept: String = text.chars().take(chars_max - 1).collect();
    format!("{}…", kept.trim_end())
}

#[cfg(test)]
mod tests;
