//! Deliveries of forges: checks their signatures and reads what they say.
//!
//! Payloads are untrusted even if the signature is valid: people on the forge choose titles, labels, branches and
//! comments. Texts are truncated, and a payload without the expected members is ignored.

mod bitbucket;
mod gitea;
mod github;
mod gitlab;
mod signature;

use aws_lc_rs::digest;
use berth_core::forge::{
    COMMAND_BYTES_MAX, ForgeKind, ForgeUser, LABELS_MAX, PullRequestSnapshot, TITLE_CHARS_MAX,
};
use berth_core::time::Timestamp;
use berth_engine::vault::hex;
use http::HeaderMap;
use serde_json::Value;

pub(crate) use signature::{decode_hex, single_header};
pub use signature::{new_hook_secret, sign_hook_body, verify_signature};

use super::location::check_link;

/// Part of every comment that Berth writes, so that Berth does not read its own comments as commands.
pub const COMMENT_MARKER: &str = "<!-- berth:";
/// How a comment starts that is a command.
const COMMAND_PREFIX: &str = "/berth";
const NAME_CHARS_MAX: usize = 200;
const BRANCH_CHARS_MAX: usize = 1_000;
const PATH_CHARS_MAX: usize = 1_000;
const DELIVERY_ID_CHARS_MAX: usize = 200;
/// Maximum number of branches read from one push.
const BRANCHES_MAX: usize = 100;
const COMMIT_CHARS_MIN: usize = 7;
const COMMIT_CHARS_MAX: usize = 64;

/// A delivery of a forge.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForgeDelivery {
    /// The forge's id of the delivery, or a hash if the forge sent none.
    pub id: String,
    /// As the forge names it: `push`, `pull_request.opened`.
    pub kind: String,
    /// The path of the repository on the forge.
    pub repository_path: Option<String>,
    pub effect: DeliveryEffect,
}

/// What a delivery says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DeliveryEffect {
    /// Branches were pushed or deleted.
    Push {
        branches: Vec<String>,
    },
    PullRequest {
        number: i64,
        snapshot: Box<PullRequestSnapshot>,
    },
    /// A comment on a pull request that starts with `/berth`.
    Command {
        number: i64,
        /// The pull request, if the payload describes it.
        snapshot: Option<Box<PullRequestSnapshot>>,
        /// The comment's id on the forge.
        comment: String,
        author: ForgeUser,
        /// The text after `/berth`.
        text: String,
    },
    /// The installation of a GitHub App has changed.
    Installation(InstallationChange),
    /// The forge tests the webhook.
    Ping,
    /// Nothing to do, and why.
    Ignored(&'static str),
}

/// What happened to the installation of a GitHub App.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InstallationChange {
    /// It was created or unsuspended, or got other permissions.
    Available,
    Deleted,
    Suspended,
    /// Repositories were added or removed.
    Repositories,
}

/// The body of a delivery is not JSON.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "the body of the delivery is not JSON; choose the content type application/json in the settings of the webhook"
)]
pub struct MalformedDelivery;

const NO_PULL_REQUEST: DeliveryEffect = DeliveryEffect::Ignored("no pull request in the payload");
const NO_COMMENT: DeliveryEffect = DeliveryEffect::Ignored("no comment in the payload");
const NO_BRANCH: DeliveryEffect = DeliveryEffect::Ignored("no branch was pushed");
const UNUSED_KIND: DeliveryEffect = DeliveryEffect::Ignored("Berth does not use events of this kind");
const NOT_A_COMMAND: DeliveryEffect = DeliveryEffect::Ignored("the comment is not a command");
const NOT_NEW: DeliveryEffect = DeliveryEffect::Ignored("only new comments are read");
const BY_A_BOT: DeliveryEffect = DeliveryEffect::Ignored("comments of bots are not read");

/// Reads a delivery whose signature is valid.
pub fn parse_delivery(
    forge: ForgeKind,
    headers: &HeaderMap,
    body: &[u8],
) -> Result<ForgeDelivery, MalformedDelivery> {
    let payload: Value = serde_json::from_slice(body).map_err(|_| MalformedDelivery)?;
    let payload = DeliveryPayload { headers, body, root: &payload };
    Ok(match forge {
        ForgeKind::GitHub => github::parse(&payload),
        ForgeKind::GitLab => gitlab::parse(&payload),
        ForgeKind::Gitea => gitea::parse(&payload),
        ForgeKind::Bitbucket => bitbucket::parse(&payload),
    })
}

/// The headers and the body of a delivery.
struct DeliveryPayload<'a> {
    headers: &'a HeaderMap,
    body: &'a [u8],
    root: &'a Value,
}

impl DeliveryPayload<'_> {
    fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok().filter(|value| !value.is_empty())
    }

    /// Returns the first of these headers as the delivery's id, or else a hash of the kind and the body.
    fn delivery_id(&self, names: &[&str], kind: &str) -> String {
        let sent = names.iter().find_map(|name| self.header(name));
        match sent.map(str::trim).filter(|id| id.chars().count() <= DELIVERY_ID_CHARS_MAX) {
            Some(id) if !id.is_empty() => id.to_owned(),
            _ => format!("sha256:{}", self.hash(kind)),
        }
    }

    fn hash(&self, kind: &str) -> String {
        let mut hash = digest::Context::new(&digest::SHA256);
        hash.update(kind.as_bytes());
        hash.update(&[0]);
        hash.update(self.body);
        hex(hash.finish().as_ref())
    }

    /// Returns the kind of the event, with the action if there is one.
    fn kind(&self, event: &str, action: &str) -> String {
        let action = text_at(self.root, action).map(|action| format!(".{action}")).unwrap_or_default();
        clip(&format!("{event}{action}"), NAME_CHARS_MAX)
    }
}

/// Returns the text at a JSON pointer.
fn text_at<'a>(value: &'a Value, pointer: &str) -> Option<&'a str> {
    value.pointer(pointer)?.as_str()
}

fn bool_at(value: &Value, pointer: &str) -> bool {
    value.pointer(pointer).and_then(Value::as_bool).unwrap_or(false)
}

/// Returns an id, which forges send as a number or as text.
fn id_at(value: &Value, pointer: &str) -> Option<String> {
    match value.pointer(pointer)? {
        Value::Number(number) => Some(number.to_string()),
        Value::String(text) if !text.is_empty() => Some(clip(text, NAME_CHARS_MAX)),
        _ => None,
    }
}

fn number_at(value: &Value, pointer: &str) -> Option<i64> {
    value.pointer(pointer)?.as_i64().filter(|number| *number > 0)
}

/// Parses a time. GitLab also sends `2026-11-18 10:30:00 UTC`.
fn time_at(value: &Value, pointer: &str) -> Option<Timestamp> {
    let text = text_at(value, pointer)?;
    if let Ok(time) = Timestamp::parse(text) {
        return Some(time);
    }
    let (date, rest) = text.split_once(' ')?;
    let (time, zone) = rest.split_once(' ')?;
    let zone = if zone == "UTC" { "Z" } else { zone };
    Timestamp::parse(&format!("{date}T{time}{zone}")).ok()
}

/// Truncates a text and removes control characters.
fn clip(text: &str, chars_max: usize) -> String {
    text.chars().filter(|c| !c.is_control()).take(chars_max).collect()
}

fn branch_at(value: &Value, pointer: &str) -> Option<String> {
    let branch = text_at(value, pointer)?;
    let branch = branch.strip_prefix("refs/heads/").unwrap_or(branch);
    let is_good = !branch.is_empty()
        && branch.chars().count() <= BRANCH_CHARS_MAX
        && !branch.chars().any(char::is_control);
    is_good.then(|| branch.to_owned())
}

/// Returns a commit hash. Bitbucket abbreviates it.
fn commit_at(value: &Value, pointer: &str) -> Option<String> {
    let commit = text_at(value, pointer)?.to_ascii_lowercase();
    let is_good = (COMMIT_CHARS_MIN..=COMMIT_CHARS_MAX).contains(&commit.len())
        && commit.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_good.then_some(commit)
}

fn link_at(value: &Value, pointer: &str) -> Option<String> {
    check_link(text_at(value, pointer)?)
}

fn path_at(value: &Value, pointer: &str) -> Option<String> {
    text_at(value, pointer).filter(|path| !path.is_empty()).map(|path| clip(path, PATH_CHARS_MAX))
}

/// Returns the names of labels in an array of objects.
fn labels_at(value: &Value, pointer: &str, member: &str) -> Vec<String> {
    let labels = value.pointer(pointer).and_then(Value::as_array).into_iter().flatten();
    let names = labels.filter_map(|label| label.get(member)?.as_str());
    names.map(|name| clip(name, NAME_CHARS_MAX)).filter(|name| !name.is_empty()).take(LABELS_MAX).collect()
}

fn title_at(value: &Value, pointer: &str) -> Option<String> {
    text_at(value, pointer).map(|title| clip(title, TITLE_CHARS_MAX))
}

fn user_at(value: &Value, id: &str, name: &str) -> Option<ForgeUser> {
    let id = id_at(value, id)?;
    let name = text_at(value, name).map_or_else(|| id.clone(), |name| clip(name, NAME_CHARS_MAX));
    Some(ForgeUser { id, name })
}

/// The time of a pull request whose payload has none. Any other payload counts as newer.
const UNKNOWN_TIME: Timestamp = Timestamp::from_micros(0);

/// A new comment on a pull request.
struct CommentFacts<'a> {
    number: Option<i64>,
    snapshot: Option<PullRequestSnapshot>,
    id: Option<String>,
    author: Option<ForgeUser>,
    body: Option<&'a str>,
}

impl CommentFacts<'_> {
    fn into_effect(self) -> DeliveryEffect {
        let Some(body) = self.body else { return NO_COMMENT };
        let Some(text) = command_text(body) else { return NOT_A_COMMAND };
        let Some(number) = self.number else { return NO_PULL_REQUEST };
        let (Some(comment), Some(author)) = (self.id, self.author) else { return NO_COMMENT };
        DeliveryEffect::Command { number, snapshot: self.snapshot.map(Box::new), comment, author, text }
    }
}

/// Returns the text after `/berth`. `None` if the comment is not a command or was written by Berth.
fn command_text(body: &str) -> Option<String> {
    if body.contains(COMMENT_MARKER) {
        return None;
    }
    let rest = body.trim_start().strip_prefix(COMMAND_PREFIX)?;
    if rest.chars().next().is_some_and(|c| !c.is_whitespace()) {
        return None;
    }
    let rest = rest.trim();
    let end = rest.floor_char_boundary(COMMAND_BYTES_MAX);
    Some(rest[..end].chars().filter(|c| !c.is_control() || *c == '\n').collect())
}
