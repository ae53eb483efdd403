//! Extracts values from responses. They are untrusted: texts are cleaned and truncated, links are checked.

use berth_core::forge::{ForgeUser, LABELS_MAX, PullRequestStatus, TITLE_CHARS_MAX};
use berth_core::time::Timestamp;
use serde_json::Value;

use super::location::check_link;
use super::{ForgePullRequestState, PullRequest};

/// Maximum length of a branch name, a label or a user name.
const NAME_CHARS_MAX: usize = 255;
/// Maximum length of an id.
const ID_CHARS_MAX: usize = 100;
/// Maximum length of a path.
const PATH_CHARS_MAX: usize = 4_096;
/// Lengths of SHA-1 and SHA-256 commit hashes in hexadecimal.
const HASH_CHARS: [usize; 2] = [40, 64];

/// Returns the member at a path of names.
pub(super) fn member<'a>(answer: &'a Value, path: &[&str]) -> Option<&'a Value> {
    path.iter().try_fold(answer, |value, name| value.get(name))
}

fn text<'a>(answer: &'a Value, path: &[&str]) -> Option<&'a str> {
    member(answer, path)?.as_str()
}

fn clean_text(text: &str, chars_max: usize) -> String {
    let line: Vec<_> = text.lines().map(berth_analysis::clean).collect();
    line.join(" ").chars().take(chars_max).collect()
}

pub(super) fn title(answer: &Value) -> Option<String> {
    Some(clean_text(text(answer, &["title"])?, TITLE_CHARS_MAX))
}

/// Returns a branch name. Unlike display texts, it is refused if cleaning would change it.
pub(super) fn branch(answer: &Value, path: &[&str]) -> Option<String> {
    let name = text(answer, path)?;
    (!name.is_empty() && clean_text(name, NAME_CHARS_MAX) == name).then(|| name.to_owned())
}

pub(super) fn link(answer: &Value, path: &[&str]) -> Option<String> {
    check_link(text(answer, path)?)
}

/// Returns a commit hash of full length.
pub(super) fn hash(answer: &Value, path: &[&str]) -> Option<String> {
    abbreviated_hash(answer, path).filter(|hash| is_full_hash(hash))
}

pub(super) fn is_full_hash(hash: &str) -> bool {
    HASH_CHARS.contains(&hash.len())
}

/// Returns a commit hash that may be abbreviated.
pub(super) fn abbreviated_hash(answer: &Value, path: &[&str]) -> Option<String> {
    let hash = text(answer, path)?;
    let is_hash = (7..=64).contains(&hash.len()) && hash.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_hash.then(|| hash.to_ascii_lowercase())
}

/// Returns an id, which is a positive number or a text.
pub(super) fn id(answer: &Value, name: &str) -> Option<String> {
    match answer.get(name)? {
        Value::Number(number) => number.as_u64().filter(|id| *id > 0).map(|id| id.to_string()),
        Value::String(text) => {
            let is_id = |c: char| c.is_ascii_alphanumeric() || "-_:{}".contains(c);
            let is_good = !text.is_empty() && text.len() <= ID_CHARS_MAX && text.chars().all(is_id);
            is_good.then(|| text.clone())
        }
        _ => None,
    }
}

pub(super) fn user(answer: &Value, id_name: &str, display: &str) -> Option<ForgeUser> {
    let name = clean_text(text(answer, &[display]).unwrap_or_default(), NAME_CHARS_MAX);
    Some(ForgeUser { id: id(answer, id_name)?, name })
}

/// Returns the labels, which are texts or objects with a name.
pub(super) fn labels(answer: &Value) -> Vec<String> {
    let listed = answer.get("labels").and_then(Value::as_array);
    let name = |label: &Value| {
        let name = label.as_str().or_else(|| label.get("name")?.as_str())?;
        Some(clean_text(name, NAME_CHARS_MAX)).filter(|name| !name.is_empty())
    };
    listed.into_iter().flatten().filter_map(name).take(LABELS_MAX).collect()
}

pub(super) fn flag(answer: &Value, name: &str) -> bool {
    answer.get(name).and_then(Value::as_bool).unwrap_or(false)
}

/// Returns the named paths of a changed file, without repetition.
pub(super) fn paths(file: &Value, names: &[&[&str]]) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for path in names.iter().filter_map(|name| text(file, name)) {
        if !path.is_empty() && path.len() <= PATH_CHARS_MAX && !found.iter().any(|known| known == path) {
            found.push(path.to_owned());
        }
    }
    found
}

pub(super) fn time(answer: &Value, name: &str) -> Option<Timestamp> {
    Timestamp::parse(answer.get(name)?.as_str()?).ok()
}

/// Reads the number and the web page's URL from the named members of the response.
pub(super) fn pull_request(answer: &Value, number: &str, url: &[&str]) -> Option<PullRequest> {
    let number = answer.get(number)?.as_i64().filter(|number| *number > 0)?;
    Some(PullRequest { number, url: link(answer, url)? })
}

pub(super) fn status(state: ForgePullRequestState) -> PullRequestStatus {
    match state {
        ForgePullRequestState::Open => PullRequestStatus::Open,
        ForgePullRequestState::Merged(_) => PullRequestStatus::Merged,
        ForgePullRequestState::Closed(_) => PullRequestStatus::Closed,
    }
}
