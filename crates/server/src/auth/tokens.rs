//! Tokens: `berth_<kind>_<30 random characters><6 characters of checksum>`.
//!
//! The prefix lets scanners find a leaked one, the checksum lets them tell it from a look-alike without asking us.
//! 178 random bits need no slow hash: only their SHA-256 is stored.

use aws_lc_rs::digest;

use berth_engine::credential::{BASE62, Redacted, random_base62};

const RANDOM_CHARS: usize = 30;
const CHECKSUM_CHARS: usize = 6;
/// Characters shown in lists.
const PREFIX_RANDOM_CHARS: usize = 4;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TokenKind {
    /// Of a user or a service account.
    Api,
    /// In the cookie of a signed-in browser.
    SignIn,
    /// What a runner registers with, and what it shows from then on.
    Runner,
    /// In the link of an invitation.
    Invitation,
    /// In a link to set a new password.
    PasswordReset,
}

impl TokenKind {
    const ALL: [Self; 5] = [Self::Api, Self::SignIn, Self::Runner, Self::Invitation, Self::PasswordReset];

    const fn prefix(self) -> &'static str {
        match self {
            TokenKind::Api => "berth_api_",
            TokenKind::SignIn => "berth_web_",
            TokenKind::Runner => "berth_runner_",
            TokenKind::Invitation => "berth_invite_",
            TokenKind::PasswordReset => "berth_reset_",
        }
    }
}

pub fn make(kind: TokenKind) -> Redacted {
    // 43 characters are 256 bits, what a cookie wants; 30 are plenty for a token people copy around.
    let chars = if kind == TokenKind::SignIn { 43 } else { RANDOM_CHARS };
    let body = format!("{}{}", kind.prefix(), random_base62(chars));
    let sum = checksum(&body);
    Redacted::new(body + &sum)
}

/// Is this text shaped like a token of this kind, checksum included? Says nothing about whether it is valid.
pub fn is_well_formed(kind: TokenKind, text: &str) -> bool {
    let Some(split) = text.len().checked_sub(CHECKSUM_CHARS) else { return false };
    text.is_ascii()
        && text.starts_with(kind.prefix())
        && text.bytes().skip(kind.prefix().len()).all(|byte| byte.is_ascii_alphanumeric())
        && checksum(&text[..split]) == text[split..]
}

/// Is there something in this text that begins like one of our tokens? For places where none may be kept.
pub fn looks_like_token(text: &str) -> bool {
    TokenKind::ALL.iter().any(|kind| text.contains(kind.prefix()))
}

pub fn hash(token: &str) -> Vec<u8> {
    digest::digest(&digest::SHA256, token.as_bytes()).as_ref().to_vec()
}

/// The beginning of a token, to recognise it by.
pub fn shown_prefix(token: &Redacted) -> String {
    token.reveal().chars().take(TokenKind::Api.prefix().len() + PREFIX_RANDOM_CHARS).collect()
}

fn checksum(body: &str) -> String {
    let mut rest = crc32fast::hash(body.as_bytes());
    let mut digits = [b'0'; CHECKSUM_CHARS];
    for digit in digits.iter_mut().rev() {
        *digit = BASE62[(rest % 62) as usize];
        rest /= 62;
    }
    digits.iter().copied().map(char::from).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_carries_its_kind_and_a_checksum() {
        let token = make(TokenKind::Api);
        assert_eq!(token.reveal().len(), "berth_api_".len() + 36);
        assert!(is_well_formed(TokenKind::Api, token.reveal()));
        assert!(!is_well_formed(TokenKind::SignIn, token.reveal()));
        assert_eq!(format!("{token:?}"), "[redacted]");

        let mut wrong = token.reveal().to_owned();
        let last = wrong.pop().unwrap();
        wrong.push(if last == 'x' { 'y' } else { 'x' });
        assert!(!is_well_formed(TokenKind::Api, &wrong));
        for bad in ["", "berth_api_", "Bearer", "berth_api_ä", &"x".repeat(10_000)] {
            assert!(!is_well_formed(TokenKind::Api, bad));
        }
    }

    #[test]
    fn two_tokens_differ() {
        assert_ne!(make(TokenKind::Api).reveal(), make(TokenKind::Api).reveal());
    }
}
