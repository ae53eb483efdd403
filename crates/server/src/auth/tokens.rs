//! Tokens: `berth_<kind>_<30 random characters><6 characters of checksum>`.
//!
//! The prefix lets secret scanners find a leaked token; the checksum lets them verify it offline. Tokens have 178
//! random bits, so a plain SHA-256 is stored instead of a slow hash.

use aws_lc_rs::digest;

use berth_engine::credential::{BASE62, RedactedString, random_base62};

const RANDOM_CHARS: usize = 30;
const CHECKSUM_CHARS: usize = 6;
/// Number of a token's random characters that are shown in lists.
const PREFIX_RANDOM_CHARS: usize = 4;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TokenKind {
    /// API token of a user or a service account.
    Api,
    /// Cookie of a browser session.
    SignIn,
    /// Registration token and credential of a runner.
    Runner,
    /// Part of an invitation link.
    Invitation,
    /// Part of a password reset link.
    PasswordReset,
    /// Token of one session in an environment.
    Session,
    /// Device code of a CLI login, and the code of its redirect.
    CliLogin,
}

impl TokenKind {
    const ALL: [Self; 7] = [
        Self::Api,
        Self::SignIn,
        Self::Runner,
        Self::Invitation,
        Self::PasswordReset,
        Self::Session,
        Self::CliLogin,
    ];

    const fn prefix(self) -> &'static str {
        match self {
            TokenKind::Api => "berth_api_",
            TokenKind::SignIn => "berth_web_",
            TokenKind::Runner => "berth_runner_",
            TokenKind::Invitation => "berth_invite_",
            TokenKind::PasswordReset => "berth_reset_",
            TokenKind::Session => "berth_ses_",
            TokenKind::CliLogin => "berth_cli_",
        }
    }
}

pub fn generate_token(kind: TokenKind) -> RedactedString {
    // 43 characters have 256 bits, for a cookie. 30 characters are enough for a token, which users have to copy.
    let chars = if kind == TokenKind::SignIn { 43 } else { RANDOM_CHARS };
    let body = format!("{}{}", kind.prefix(), random_base62(chars));
    let sum = checksum(&body);
    RedactedString::new(body + &sum)
}

/// Whether a string has the format and checksum of a token of this kind. Does not check that the token exists.
pub fn is_well_formed(kind: TokenKind, text: &str) -> bool {
    let Some(split) = text.len().checked_sub(CHECKSUM_CHARS) else { return false };
    text.is_ascii()
        && text.starts_with(kind.prefix())
        && text.bytes().skip(kind.prefix().len()).all(|byte| byte.is_ascii_alphanumeric())
        && checksum(&text[..split]) == text[split..]
}

/// Whether a string contains the prefix of a token. Used to keep tokens out of logs and public fields.
pub fn looks_like_token(text: &str) -> bool {
    TokenKind::ALL.iter().any(|kind| text.contains(kind.prefix()))
}

pub fn hash_token(token: &str) -> Vec<u8> {
    digest::digest(&digest::SHA256, token.as_bytes()).as_ref().to_vec()
}

/// The first characters of a token, for display.
pub fn display_prefix(token: &RedactedString) -> String {
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
    fn token_with_wrong_kind_or_checksum_is_malformed() {
        let token = generate_token(TokenKind::Api);
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
    fn generated_tokens_differ() {
        assert_ne!(generate_token(TokenKind::Api).reveal(), generate_token(TokenKind::Api).reveal());
    }
}
