//! Commands in comments on pull requests: `/berth extend 2h`.

use super::COMMAND_BYTES_MAX;
use crate::environment::limits::{TTL_S_MAX, TTL_S_MIN};
use crate::name::{EnvName, Reason};
use crate::pipeline::seconds::DurationSeconds;

/// Number of digits of a full SHA-1 and SHA-256 commit hash.
const HASH_CHARS: [usize; 2] = [40, 64];
/// Maximum length of a code that connects an account.
const CODE_CHARS_MAX: usize = 64;

/// The commands, as the comment and the help list them.
pub const COMMANDS_HELP: &str =
    "claim [NAME], release, deploy, queue, extend 2h, take-over NAME REASON, approve SHA, connect CODE, help";

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CommentCommand {
    /// Claims any matching environment, or the named one.
    Claim(Option<EnvName>),
    Release,
    /// Deploys the head again.
    Deploy,
    Queue,
    Extend {
        seconds: i64,
    },
    TakeOver {
        environment: EnvName,
        reason: Reason,
    },
    /// Approves exactly this commit of a fork.
    Approve {
        commit: String,
    },
    /// Links the author's account on the forge to the member who created the code.
    Connect {
        code: String,
    },
    Help,
}

/// Parses the text after `/berth`. Only the first line counts. The error says what to write.
pub fn parse(text: &str) -> Result<CommentCommand, String> {
    if text.len() > COMMAND_BYTES_MAX {
        return Err(format!("a command has at most {COMMAND_BYTES_MAX} bytes"));
    }
    let line = text.trim_start_matches([' ', '\t']).lines().next().unwrap_or_default().trim();
    let (verb, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    let rest = rest.trim();
    let command = match verb {
        "" | "help" => CommentCommand::Help,
        "claim" if rest.is_empty() => CommentCommand::Claim(None),
        "claim" => CommentCommand::Claim(Some(parse_environment(rest)?)),
        "release" => CommentCommand::Release,
        "deploy" => CommentCommand::Deploy,
        "queue" => CommentCommand::Queue,
        "extend" => CommentCommand::Extend { seconds: parse_length(rest)? },
        "take-over" => {
            let (name, reason) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
            let environment = parse_environment(name)?;
            let reason = Reason::parse(reason.trim()).ok().filter(|reason| !reason.as_str().is_empty());
            let reason = reason.ok_or_else(|| "say why: take-over NAME REASON".to_owned())?;
            CommentCommand::TakeOver { environment, reason }
        }
        "approve" => CommentCommand::Approve { commit: parse_hash(rest)? },
        "connect" => CommentCommand::Connect { code: parse_code(rest)? },
        _ => return Err(format!("unknown command; the commands are {COMMANDS_HELP}")),
    };
    let takes_nothing = matches!(
        command,
        CommentCommand::Release | CommentCommand::Deploy | CommentCommand::Queue | CommentCommand::Help
    );
    if takes_nothing && !rest.is_empty() {
        return Err(format!("nothing may follow {verb}"));
    }
    Ok(command)
}

pub(crate) fn parse_environment(text: &str) -> Result<EnvName, String> {
    EnvName::parse(text).map_err(|_| "that is not the name of an environment".to_owned())
}

pub(crate) fn parse_length(text: &str) -> Result<i64, String> {
    let length = DurationSeconds::parse(text).map_err(|_| "write the length like extend 2h".to_owned())?;
    let seconds = i64::try_from(length.as_secs()).unwrap_or(i64::MAX);
    if (TTL_S_MIN..=TTL_S_MAX).contains(&seconds) {
        return Ok(seconds);
    }
    Err("a session can be extended by 1 minute to 30 days".to_owned())
}

/// Only full hashes are accepted: an abbreviated one could match another commit that is pushed later.
fn parse_hash(text: &str) -> Result<String, String> {
    let is_hash = HASH_CHARS.contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    if is_hash {
        Ok(text.to_ascii_lowercase())
    } else {
        Err("write the full commit hash: approve SHA".to_owned())
    }
}

pub(crate) fn parse_code(text: &str) -> Result<String, String> {
    let is_code = (1..=CODE_CHARS_MAX).contains(&text.len())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    if is_code { Ok(text.to_owned()) } else { Err("write the code from Berth: connect CODE".to_owned()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> EnvName {
        EnvName::parse(text).unwrap()
    }

    #[test]
    fn command_is_parsed_from_first_line() {
        let hash = "4d6d0ebe".repeat(5);
        for (text, expected) in [
            ("", CommentCommand::Help),
            ("help", CommentCommand::Help),
            (" claim\n\nthanks", CommentCommand::Claim(None)),
            ("claim qa-1", CommentCommand::Claim(Some(name("qa-1")))),
            ("release \r\nplease", CommentCommand::Release),
            ("deploy", CommentCommand::Deploy),
            ("queue", CommentCommand::Queue),
            ("extend 1h30m", CommentCommand::Extend { seconds: 5_400 }),
            (
                "take-over qa-1 demo at noon",
                CommentCommand::TakeOver {
                    environment: name("qa-1"),
                    reason: Reason::parse("demo at noon").unwrap(),
                },
            ),
            (&format!("approve {}", hash.to_uppercase()), CommentCommand::Approve { commit: hash.clone() }),
            ("connect abc-DEF-123", CommentCommand::Connect { code: "abc-DEF-123".into() }),
        ] {
            assert_eq!(parse(text).unwrap(), expected, "{text:?}");
        }
    }

    #[test]
    fn command_with_wrong_arguments_is_refused_with_a_hint() {
        for (text, hint) in [
            ("destroy", "unknown command"),
            ("claim qa 1", "not the name"),
            ("claim ../prod", "not the name"),
            ("release now", "nothing may follow"),
            ("extend", "write the length"),
            ("extend 1s", "1 minute to 30 days"),
            ("extend 31d", "1 minute to 30 days"),
            ("take-over qa-1", "say why"),
            ("take-over", "not the name"),
            ("approve 4d6d0eb", "full commit hash"),
            ("approve", "full commit hash"),
            ("connect", "code from Berth"),
            ("connect a b", "code from Berth"),
        ] {
            let refused = parse(text).unwrap_err();
            assert!(refused.contains(hint), "{text:?}: {refused}");
        }
        assert!(parse(&format!("claim {}", "a".repeat(COMMAND_BYTES_MAX))).is_err());
    }
}
