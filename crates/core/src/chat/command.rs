//! Slash commands in a chat: `/berth claim shop/qa-1`.

use crate::forge::COMMAND_BYTES_MAX;
use crate::forge::command::{parse_code, parse_environment, parse_length};
use crate::name::{CommitId, EnvName, Slug};

/// The commands, as the help lists them.
pub const CHAT_COMMANDS_HELP: &str = "status [ENV], claim ENV [COMMIT], queue ENV, release ENV, extend ENV [2h], \
    deploy ENV COMMIT, connect [CODE], help. ENV is the name of an environment, such as qa-1 or shop/qa-1.";

/// An environment that a command names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EnvironmentName {
    /// Needed only if several pipelines have an environment of this name.
    pub pipeline: Option<Slug>,
    pub name: EnvName,
}

/// What is done in an environment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EnvironmentCommand {
    Status,
    Claim {
        commit: Option<CommitId>,
        /// Whether to join the queue if the environment is held.
        queue: bool,
    },
    Release,
    Extend {
        /// `None` extends by the original length.
        seconds: Option<i64>,
    },
    Deploy {
        commit: CommitId,
    },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChatCommand {
    Help,
    /// Lists the environments.
    StatusOfAll,
    /// Links the chat account to the member who created the code. Without a code, says where to create one.
    Connect(Option<String>),
    On(EnvironmentName, EnvironmentCommand),
}

/// Parses the text after `/berth`. The error says what to write.
pub fn parse(text: &str) -> Result<ChatCommand, String> {
    if text.len() > COMMAND_BYTES_MAX {
        return Err(format!("a command has at most {COMMAND_BYTES_MAX} bytes"));
    }
    let mut words = text.split_whitespace();
    let verb = words.next().unwrap_or("help");
    let (first, second) = (words.next(), words.next());
    if words.next().is_some() {
        return Err(format!("too many words; the commands are {CHAT_COMMANDS_HELP}"));
    }
    let at_most = |most: usize| match (most, first, second) {
        (0, Some(_), _) | (1, _, Some(_)) => Err(format!("too many words after {verb}")),
        _ => Ok(()),
    };
    let environment = || parse_name(first.ok_or_else(|| format!("name an environment: {verb} shop/qa-1"))?);
    let command = match verb {
        "help" => {
            at_most(0)?;
            return Ok(ChatCommand::Help);
        }
        "connect" => {
            at_most(1)?;
            return first.map(parse_code).transpose().map(ChatCommand::Connect);
        }
        "status" if first.is_none() => return Ok(ChatCommand::StatusOfAll),
        "status" => {
            at_most(1)?;
            EnvironmentCommand::Status
        }
        "claim" => EnvironmentCommand::Claim { commit: second.map(parse_commit).transpose()?, queue: false },
        "queue" => {
            at_most(1)?;
            EnvironmentCommand::Claim { commit: None, queue: true }
        }
        "release" => {
            at_most(1)?;
            EnvironmentCommand::Release
        }
        "extend" => EnvironmentCommand::Extend { seconds: second.map(parse_length).transpose()? },
        "deploy" => {
            let commit = second.ok_or_else(|| "name a commit: deploy shop/qa-1 COMMIT".to_owned())?;
            EnvironmentCommand::Deploy { commit: parse_commit(commit)? }
        }
        _ => return Err(format!("unknown command; the commands are {CHAT_COMMANDS_HELP}")),
    };
    Ok(ChatCommand::On(environment()?, command))
}

fn parse_name(text: &str) -> Result<EnvironmentName, String> {
    let (pipeline, name) = match text.split_once('/') {
        Some((pipeline, name)) => (Some(pipeline), name),
        None => (None, text),
    };
    let pipeline = pipeline.map(Slug::parse).transpose();
    let pipeline = pipeline.map_err(|_| "that is not the name of a pipeline".to_owned())?;
    Ok(EnvironmentName { pipeline, name: parse_environment(name)? })
}

fn parse_commit(text: &str) -> Result<CommitId, String> {
    CommitId::parse(text).map_err(|_| "that is not a commit".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_is_parsed() {
        let environment = |pipeline: Option<&str>| EnvironmentName {
            pipeline: pipeline.map(|slug| Slug::parse(slug).unwrap()),
            name: EnvName::parse("qa-1").unwrap(),
        };
        let commit = || CommitId::parse("9fceb02").unwrap();
        let on = |command| ChatCommand::On(environment(Some("shop")), command);
        for (text, expected) in [
            ("", ChatCommand::Help),
            (" help ", ChatCommand::Help),
            ("status", ChatCommand::StatusOfAll),
            ("status qa-1", ChatCommand::On(environment(None), EnvironmentCommand::Status)),
            ("connect", ChatCommand::Connect(None)),
            ("connect abc", ChatCommand::Connect(Some("abc".into()))),
            ("claim shop/qa-1", on(EnvironmentCommand::Claim { commit: None, queue: false })),
            (
                "claim  shop/qa-1 9fceb02",
                on(EnvironmentCommand::Claim { commit: Some(commit()), queue: false }),
            ),
            ("queue shop/qa-1", on(EnvironmentCommand::Claim { commit: None, queue: true })),
            ("release shop/qa-1", on(EnvironmentCommand::Release)),
            ("extend shop/qa-1", on(EnvironmentCommand::Extend { seconds: None })),
            ("extend shop/qa-1 2h", on(EnvironmentCommand::Extend { seconds: Some(7_200) })),
            ("deploy shop/qa-1 9fceb02", on(EnvironmentCommand::Deploy { commit: commit() })),
        ] {
            assert_eq!(parse(text).unwrap(), expected, "{text:?}");
        }
    }

    #[test]
    fn command_with_wrong_arguments_is_refused_with_a_hint() {
        for (text, hint) in [
            ("destroy", "unknown command"),
            ("claim", "name an environment"),
            ("claim ../prod", "not the name"),
            ("claim a/b/c", "not the name"),
            ("release qa-1 now", "too many words"),
            ("help me", "too many words"),
            ("extend qa-1 1s", "1 minute to 30 days"),
            ("deploy qa-1", "name a commit"),
            ("deploy qa-1 x y", "too many words"),
            ("connect a_b", "code from Berth"),
        ] {
            let refused = parse(text).unwrap_err();
            assert!(refused.contains(hint), "{text:?}: {refused}");
        }
        assert!(parse(&"a".repeat(COMMAND_BYTES_MAX + 1)).is_err());
    }
}
