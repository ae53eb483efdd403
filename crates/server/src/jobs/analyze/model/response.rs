//! Parses a model's response: checks it against a schema and the log, and reduces it to plain text.

use std::sync::LazyLock;

use berth_analysis::{LineRange, clean};
use berth_definition::step::params::ParamsSchema;
use regex::Regex;
use serde::Deserialize;
use serde_json::Value;

use super::prompt::{PromptFacts, response_schema};
use crate::jobs::analyze::result::{StoredFindings, model_evidence};

/// Maximum number of log lines per piece of evidence.
const EVIDENCE_LINES_MAX: usize = 20;
const ROOT_CAUSE_CHARS_MAX: usize = 1_000;
const ADVICE_CHARS_MAX: usize = 2_000;

static SCHEMA: LazyLock<ParamsSchema> =
    LazyLock::new(|| ParamsSchema::compile(&response_schema().to_string()).expect("a test compiles it"));

/// Patterns of links, images and HTML tags, with their replacements.
static LINKS: LazyLock<Vec<(Regex, &'static str)>> = LazyLock::new(|| {
    [
        (r"!\[[^\]]*\]\([^)]*\)", ""),
        (r"\[([^\]]*)\]\([^)]*\)", "$1"),
        (r"(?i)</?(?:a|img|script|iframe|svg|link|object|embed)\b[^>]*>", ""),
        (r"(?i)\b(?:https?|ftp|file|data|javascript|vbscript):\S*", "(link left out)"),
    ]
    .into_iter()
    .map(|(pattern, with)| (Regex::new(pattern).expect("a test compiles it"), with))
    .collect()
});

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ModelResponse {
    root_cause: String,
    category: String,
    confidence: String,
    evidence: Vec<CitedLines>,
    advice: String,
    diff: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct CitedLines {
    first_line: usize,
    last_line: usize,
}

/// Returns the findings and the suggested diff. `Err` lists the errors that the model should correct.
pub(super) fn parse_response(
    text: &str,
    facts: &PromptFacts,
) -> Result<(StoredFindings, Option<String>), Vec<String>> {
    let value: Value = serde_json::from_str(extract_object(text))
        .map_err(|error| vec![format!("it is not JSON: {error}")])?;
    let problems = SCHEMA.check(&value, |_| false);
    if !problems.is_empty() {
        return Err(problems.into_iter().map(|it| format!("{} {}", it.pointer, it.message)).collect());
    }
    let said = ModelResponse::deserialize(&value).map_err(|error| vec![error.to_string()])?;
    let last_line = facts.first_line + facts.lines.len();
    let evidence: Vec<_> = said
        .evidence
        .iter()
        .map(|it| {
            let range = LineRange { first: it.first_line, last: it.last_line };
            let exists = range.is_within(facts.first_line, last_line.saturating_sub(1))
                && range.last - range.first < EVIDENCE_LINES_MAX;
            model_evidence(range, exists, &facts.lines, facts.first_line)
        })
        .collect();
    // A finding without evidence in the log is a guess, so its confidence is low.
    let is_shown = evidence.iter().any(|it| it.supported);
    let found = StoredFindings {
        root_cause: Some(to_plain_text(&said.root_cause, ROOT_CAUSE_CHARS_MAX)),
        category: Some(said.category).filter(|category| category != "unknown"),
        confidence: Some(if is_shown { said.confidence } else { "low".to_owned() }),
        evidence,
        advice: Some(to_plain_text(&said.advice, ADVICE_CHARS_MAX)).filter(|advice| !advice.is_empty()),
        rule: None,
        new_lines: Vec::new(),
    };
    Ok((found, said.diff.filter(|diff| !diff.trim().is_empty())))
}

/// Extracts the JSON object, because models often surround it with prose or a code fence.
fn extract_object(text: &str) -> &str {
    match (text.find('{'), text.rfind('}')) {
        (Some(first), Some(last)) if first < last => &text[first..=last],
        _ => text,
    }
}

/// Removes links, images, terminal colours and invisible characters.
fn to_plain_text(text: &str, chars_max: usize) -> String {
    let lines: Vec<String> = text.lines().map(clean).collect();
    let mut text = lines.join("\n");
    for (pattern, with) in LINKS.iter() {
        text = pattern.replace_all(&text, *with).into_owned();
    }
    text.chars().take(chars_max).collect::<String>().trim().to_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn facts() -> PromptFacts {
        PromptFacts {
            step_type: "script".into(),
            script: None,
            cause: "step_failed",
            exit_code: None,
            detail: String::new(),
            lines: vec!["one".into(), "two".into()],
            first_line: 5,
            files: Vec::new(),
        }
    }

    fn response_text(evidence: &Value) -> String {
        json!({"rootCause": "It broke.", "category": "disk", "confidence": "high", "evidence": evidence, "advice": "Mend it."}).to_string()
    }

    #[test]
    fn evidence_outside_log_is_unsupported_and_lowers_confidence() {
        let good =
            parse_response(&response_text(&json!([{"firstLine": 6, "lastLine": 6}])), &facts()).unwrap().0;
        assert_eq!((good.evidence[0].text.as_str(), good.confidence.as_deref()), ("two", Some("high")));
        for (first, last) in [(7, 7), (4, 5), (6, 5), (6, usize::MAX)] {
            let told =
                parse_response(&response_text(&json!([{"firstLine": first, "lastLine": last}])), &facts())
                    .unwrap()
                    .0;
            assert!(!told.evidence[0].supported && told.evidence[0].text.is_empty(), "{first} {last}");
            assert_eq!(told.confidence.as_deref(), Some("low"));
        }
    }

    #[test]
    fn response_without_valid_json_is_rejected() {
        for text in ["", "I cannot help with that", "{}", r#"{"rootCause": 1}"#, "[1]"] {
            assert!(parse_response(text, &facts()).is_err(), "{text}");
        }
        let fenced = format!("Here it is:\n```json\n{}\n```", response_text(&json!([])));
        assert_eq!(parse_response(&fenced, &facts()).unwrap().0.root_cause.as_deref(), Some("It broke."));
    }

    #[test]
    fn plain_text_omits_links_images_and_control_characters() {
        for (text, shown) in [
            ("see [here](https://evil.test) now", "see here now"),
            ("![leak](https://evil.test/x.png)ok", "ok"),
            ("go to https://evil.test/?q=1 now", "go to (link left out) now"),
            ("<a href='x'>hi</a><img src=x>", "hi"),
            ("run javascript:alert(1)", "run (link left out)"),
            ("a\u{1b}[31mb\u{202e}", "ab"),
        ] {
            assert_eq!(to_plain_text(text, 100), shown, "{text}");
        }
    }
}
