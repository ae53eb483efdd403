//! Tokens of action links. A token is the id of a link and an HMAC over everything that the link stands for, so it can
//! neither be guessed nor be forged with access to the database.

use berth_core::id::ActionLinkId;
use berth_engine::vault::KeyedHashes;
use berth_store::tables::action_link::ActionLink;

/// URL of the page of an action link, without origin and token.
pub(crate) const ACTION_PATH: &str = "/actions?token=";

/// What is signed. Everything that decides who may do what is part of it.
fn signed_text(link: &ActionLink) -> String {
    let subject = serde_json::to_string(&link.subject).unwrap_or_default();
    let (action, expires_at) = (link.action.as_str(), link.expires_at.as_micros());
    format!("{}.{}.{}.{action}.{expires_at}.{subject}", link.id, link.org, link.user)
}

/// Returns the token of a link.
pub fn token(hashes: &KeyedHashes, link: &ActionLink) -> String {
    format!("{}.{}", link.id, hashes.action_link(&signed_text(link)))
}

/// Returns the id of the link that a token names. The token is not verified yet.
pub(crate) fn id_of_token(token: &str) -> Option<ActionLinkId> {
    token.split_once('.')?.0.parse().ok()
}

/// Whether a token belongs to this link.
pub(crate) fn is_token_of(hashes: &KeyedHashes, link: &ActionLink, token: &str) -> bool {
    let Some((_, signature)) = token.split_once('.') else { return false };
    hashes.is_action_link(&signed_text(link), signature)
}
