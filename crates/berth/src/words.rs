//! Parses the command line, in which `--json` may be followed by field names or by another argument.

use std::ffi::OsString;

use clap::error::Result;
use clap::parser::ValueSource;
use clap::{ArgMatches, Command};

const FLAG: &str = "--json";

/// `--json id,status` selects fields, while `shop` in `berth status --json shop` is the pipeline. The word after `--json`
/// is read as field names, unless the command line is complete only without them.
pub(crate) fn parse_words(command: &dyn Fn() -> Command, words: Vec<OsString>) -> Result<ArgMatches> {
    let parsed = command().try_get_matches_from(&words);
    if parsed.as_ref().is_ok_and(|matches| !has_default_target(matches)) {
        return parsed;
    }
    let Some(without_fields) = detach_fields(words) else { return parsed };
    // Both readings are wrong: the error of the first one is about what the user wrote.
    command().try_get_matches_from(without_fields).or(parsed)
}

/// Whether `berth deploy` would deploy the pipeline of BERTH_PIPELINE. `shop` in `berth deploy --json shop` must not turn
/// into a field name then.
fn has_default_target(matches: &ArgMatches) -> bool {
    matches.subcommand().is_some_and(|(name, deploy)| {
        name == "deploy" && deploy.value_source("pipeline") == Some(ValueSource::EnvVariable)
    })
}

/// Gives `--json` an empty value, so that the next word is an argument of its own. `None` if there is no such word.
fn detach_fields(mut words: Vec<OsString>) -> Option<Vec<OsString>> {
    let end = words.iter().position(|word| word == "--").unwrap_or(words.len());
    let flag = words[..end].iter().position(|word| word == FLAG)?;
    let next = words[..end].get(flag + 1)?;
    if next.as_encoded_bytes().starts_with(b"-") {
        return None;
    }
    words[flag] = format!("{FLAG}=").into();
    Some(words)
}

#[cfg(test)]
mod tests {
    use clap::{Arg, Command};

    use super::*;

    fn command() -> Command {
        let json = Arg::new("json").long("json").num_args(0..=1).default_missing_value("").global(true);
        let status = Command::new("status").arg(Arg::new("which").required(true));
        let list = Command::new("list");
        Command::new("berth").arg(json).subcommand_required(true).subcommand(status).subcommand(list)
    }

    fn parse(line: &str) -> Result<String, String> {
        let words = line.split(' ').map(OsString::from).collect();
        let matches = parse_words(&command, words).map_err(|error| error.to_string())?;
        let (name, of) = matches.subcommand().ok_or("no command")?;
        let value = |id| of.try_get_one::<String>(id).ok().flatten().map_or("-", String::as_str);
        Ok(format!("{name} {:?} {}", value("json"), value("which")))
    }

    #[test]
    fn word_after_json_is_a_field_or_an_argument() {
        assert_eq!(parse("berth list --json id,status").as_deref(), Ok("list \"id,status\" -"));
        assert_eq!(parse("berth list --json").as_deref(), Ok("list \"\" -"));
        assert_eq!(parse("berth status shop --json id").as_deref(), Ok("status \"id\" shop"));
        assert_eq!(parse("berth status --json shop").as_deref(), Ok("status \"\" shop"));
        assert_eq!(parse("berth --json list").as_deref(), Ok("list \"\" -"));
        assert!(parse("berth status --json").is_err());
    }
}
