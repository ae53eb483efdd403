//! What a pull request says.
//!
//! Much of it was written by somebody else: a log, a model, a definition, a name. In a forge such text could mention
//! people, close issues, load images or give commands. So it stands in fenced blocks, which forges show as they are, or
//! is made [`inert`] first.

use std::fmt::Write as _;

use berth_analysis::clean;

const TITLE_CHARS_MAX: usize = 72;
const NAME_CHARS_MAX: usize = 80;
const WORDS_CHARS_MAX: usize = 2_000;
const LINE_CHARS_MAX: usize = 300;
/// Lines of the log that are quoted.
pub const LINES_QUOTED_MAX: usize = 20;
/// Longer lines of words are broken.
const COLUMNS: usize = 100;
const FENCE_CHARS_MIN: usize = 3;

/// A line of the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Quoted {
    pub line: u64,
    pub text: String,
}

/// What a pull request is about.
#[derive(Debug, Clone, Copy)]
pub struct About<'a> {
    /// What the change does, in a line.
    pub summary: &'a str,
    pub root_cause: &'a str,
    /// `rules`, or the model that answered.
    pub analyser: &'a str,
    pub evidence: &'a [Quoted],
    pub pipeline: &'a str,
    pub step: &'a str,
    pub stage: &'a str,
    pub deployment: &'a str,
    pub analysis: &'a str,
    /// Links for people, where the server knows its own address.
    pub deployment_url: Option<&'a str>,
    pub analysis_url: Option<&'a str>,
    /// Who pressed the button.
    pub asked_by: &'a str,
}

/// One line.
pub fn title(about: &About<'_>) -> String {
    let summary = cut(&inert(about.summary), TITLE_CHARS_MAX);
    if summary.is_empty() {
        return cut(
            &format!("Mend the step {} of {}", inert(about.step), inert(about.pipeline)),
            TITLE_CHARS_MAX,
        );
    }
    summary
}

/// The same for the same analysis: who asked is not in it.
pub fn commit_message(about: &About<'_>) -> String {
    let (step, pipeline) = (inert(about.step), inert(about.pipeline));
    format!(
        "{}\n\nSuggested by Berth for the step {step} of {pipeline}, which failed.\nDeployment {}, analysis {}.\n",
        title(about),
        inert(about.deployment),
        inert(about.analysis),
    )
}

/// As Markdown.
pub fn body(about: &About<'_>) -> String {
    let analyser = if about.analyser == "rules" {
        "rules, not by a model".to_owned()
    } else {
        format!("a model, {}", inert(about.analyser))
    };
    let mut out = format!(
        "Berth suggests this change because a deployment failed. **Nobody has tried it: read it before you merge it.**\n\n\
         What went wrong, found by {analyser}:\n\n"
    );
    out.push_str(&fenced(&wrapped(about.root_cause)));
    if !about.evidence.is_empty() {
        out.push_str("\nThe lines of the log that show it:\n\n");
        let lines: Vec<_> = about.evidence.iter().take(LINES_QUOTED_MAX).map(quoted).collect();
        out.push_str(&fenced(&lines.join("\n")));
    }
    let linked = |name: &str, url: Option<&str>| match url {
        Some(url) => format!("[{name}](<{url}>)"),
        None => name.to_owned(),
    };
    let _ = write!(
        out,
        "\n- pipeline {}, stage {}, step {}\n- {}\n- {}\n- asked for by {}\n",
        inert(about.pipeline),
        inert(about.stage),
        inert(about.step),
        linked(&format!("deployment {}", inert(about.deployment)), about.deployment_url),
        linked(&format!("analysis {}", inert(about.analysis)), about.analysis_url),
        cut(&inert(about.asked_by), NAME_CHARS_MAX),
    );
    out
}

/// Somebody else's words on one line, with nothing in them that a forge acts on: no mention, reference, link, image,
/// trailer or command.
pub fn inert(text: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || " .,'()-_/+=".contains(c);
    let line = text.lines().map(clean).collect::<Vec<_>>().join(" ");
    let plain: String = line.chars().map(|c| if is_plain(c) { c } else { ' ' }).collect();
    let words = plain.split_whitespace().map(|word| {
        let lower = word.to_lowercase();
        // What a forge takes for an address or a number of an issue even without a sign.
        if lower.contains("www.") || lower.contains("gh-") {
            word.replace(['.', '-'], " ")
        } else {
            word.to_owned()
        }
    });
    let joined = words.collect::<Vec<_>>().join(" ");
    // A line that begins with a slash is a command in some forges; with a dash or a plus, a list.
    joined.trim_start_matches(['/', '-', '+', '=', ' ']).to_owned()
}

fn quoted(line: &Quoted) -> String {
    format!("{:>6} | {}", line.line, cut(&clean(&line.text), LINE_CHARS_MAX))
}

/// A block that ends where we say: its fence is longer than any in the text.
fn fenced(text: &str) -> String {
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(FENCE_CHARS_MIN.max(longest + 1));
    format!("{fence}text\n{text}\n{fence}\n")
}

fn wrapped(text: &str) -> String {
    let cleaned: String = text.lines().map(clean).collect::<Vec<_>>().join(" ");
    let mut out = String::new();
    let mut column = 0;
    for word in cut(&cleaned, WORDS_CHARS_MAX).split_whitespace() {
        let length = word.chars().count();
        if column > 0 && column + 1 + length > COLUMNS {
            out.push('\n');
            column = 0;
        } else if column > 0 {
            out.push(' ');
            column += 1;
        }
        // Some forges read commands at the beginning of a line wherever it stands.
        if column == 0 && word.starts_with('/') {
            out.push(' ');
        }
        out.push_str(word);
        column += length;
    }
    out
}

fn cut(text: &str, chars_max: usize) -> String {
    if text.chars().count() <= chars_max {
        return text.to_owned();
    }
    let kept: String = text.chars().take(chars_max - 1).collect();
    format!("{}…", kept.trim_end())
}

#[cfg(test)]
mod tests;
