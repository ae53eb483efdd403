//! `--jq`: evaluates a jq expression, with limits on time and output.

use std::io::IsTerminal as _;
use std::str::FromStr;
use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use jaq_core::load::{Arena, File, Loader};
use jaq_core::{Compiler, Ctx, Vars, data, load, unwrap_valr};
use jaq_json::Val;
use serde_json::Value;

use super::{print_line, strip_control_chars};

const TIMEOUT: Duration = Duration::from_secs(5);
const OUTPUT_BYTES_MAX: usize = 32 * 1024 * 1024;
const EXPRESSION_BYTES_MAX: usize = 64 * 1024;
/// Number of results that are computed ahead of the output.
const RESULTS_AHEAD: usize = 64;
/// Expressions recurse on this stack.
const STACK_BYTES: usize = 16 * 1024 * 1024;

/// A jq expression that compiles.
#[derive(Debug, Clone)]
pub(super) struct JqFilter(String);

impl FromStr for JqFilter {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.len() > EXPRESSION_BYTES_MAX {
            return Err(format!("longer than {EXPRESSION_BYTES_MAX} bytes"));
        }
        compile(text)?;
        Ok(Self(text.to_owned()))
    }
}

type JsonData = data::JustLut<Val>;

impl JqFilter {
    /// Prints each result on a line: strings as they are, everything else as JSON.
    pub(super) fn print(&self, input: &Value) -> anyhow::Result<()> {
        let is_terminal = std::io::stdout().is_terminal();
        self.run(input, TIMEOUT, &mut |text| match is_terminal {
            // A string can contain escape sequences.
            true => text.split('\n').try_for_each(|line| print_line(&strip_control_chars(line))),
            false => print_line(text),
        })
    }

    /// Passes each result to `print`. The expression runs on a thread of its own, which is abandoned after the timeout.
    fn run(
        &self,
        input: &Value,
        timeout: Duration,
        print: &mut dyn FnMut(&str) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        let (results, received) = sync_channel(RESULTS_AHEAD);
        let (expression, input) = (self.0.clone(), input.to_string());
        let thread = std::thread::Builder::new().name("jq".to_owned()).stack_size(STACK_BYTES);
        thread
            .spawn(move || evaluate(&expression, &input, &results))
            .context("cannot start a thread for --jq")?;
        let deadline = Instant::now() + timeout;
        let mut bytes = 0;
        loop {
            match received.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(Ok(text)) => {
                    bytes += text.len();
                    anyhow::ensure!(
                        bytes <= OUTPUT_BYTES_MAX,
                        "the output of the jq expression is longer than {OUTPUT_BYTES_MAX} bytes"
                    );
                    print(&text)?;
                }
                Ok(Err(text)) => anyhow::bail!("jq: {}", strip_control_chars(&text)),
                Err(RecvTimeoutError::Disconnected) => return Ok(()),
                Err(RecvTimeoutError::Timeout) => {
                    anyhow::bail!("the jq expression did not finish within {} s", timeout.as_secs())
                }
            }
        }
    }
}

/// Sends each result, until the receiver has gone.
fn evaluate(expression: &str, input: &str, results: &SyncSender<Result<String, String>>) {
    let evaluated = || -> Result<(), String> {
        let filter = compile(expression)?;
        let input = jaq_json::read::parse_single(input.as_bytes()).map_err(|error| error.to_string())?;
        let context = Ctx::<JsonData>::new(&filter.lut, Vars::new([]));
        for result in filter.id.run((context, input)).map(unwrap_valr) {
            let text = match result.map_err(|error| error.to_string())? {
                Val::TStr(text) => String::from_utf8_lossy(&text).into_owned(),
                other => other.to_string(),
            };
            if results.send(Ok(text)).is_err() {
                break;
            }
        }
        Ok(())
    };
    if let Err(error) = evaluated() {
        // The receiver may have timed out.
        results.send(Err(error)).ok();
    }
}

fn compile(expression: &str) -> Result<jaq_core::Filter<JsonData>, String> {
    let definitions = jaq_core::defs().chain(jaq_std::defs()).chain(jaq_json::defs());
    let functions = jaq_core::funs().chain(jaq_std::funs()).chain(jaq_json::funs());
    let arena = Arena::default();
    let modules = Loader::new(definitions)
        .load(&arena, File { code: expression, path: () })
        .map_err(|errors| errors.iter().map(|(_, error)| describe_load_error(error)).collect::<String>())?;
    Compiler::default().with_funs(functions).compile(modules).map_err(|errors| {
        let undefined = errors.iter().flat_map(|(_, undefined)| undefined);
        let undefined: Vec<_> =
            undefined.map(|(name, kind)| format!("undefined {} {name}", kind.as_str())).collect();
        undefined.join(", ")
    })
}

fn describe_load_error(error: &load::Error<&str>) -> String {
    let (expected, found) = match error {
        load::Error::Io(errors) => {
            return errors.first().map_or_else(String::new, |(path, error)| format!("{path}: {error}"));
        }
        load::Error::Lex(errors) => errors.first().map(|(expected, found)| (expected.as_str(), *found)),
        load::Error::Parse(errors) => errors.first().map(|(expected, found)| (expected.as_str(), *found)),
    }
    .unwrap_or_default();
    match found {
        "" => format!("expected {expected} at the end"),
        found => format!("expected {expected} at `{found}`"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn run(expression: &str, input: &Value, timeout: Duration) -> Result<Vec<String>, String> {
        let mut lines = Vec::new();
        let print = &mut |text: &str| {
            lines.push(text.to_owned());
            Ok(())
        };
        let filter: JqFilter = expression.parse()?;
        filter.run(input, timeout, print).map_err(|error| error.to_string())?;
        Ok(lines)
    }

    #[test]
    fn results_are_lines_and_strings_are_not_quoted() {
        let input = json!({"data": [{"id": "a", "n": 1}, {"id": "b", "n": 2}]});
        let lines = |expression| run(expression, &input, TIMEOUT);
        assert_eq!(lines(".data[].id"), Ok(vec!["a".to_owned(), "b".to_owned()]));
        assert_eq!(lines("[.data[] | select(.n > 1)]"), Ok(vec![r#"[{"id":"b","n":2}]"#.to_owned()]));
        assert_eq!(
            lines(r#".data[] | "\(.id) \(.n)" | ascii_upcase"#),
            Ok(vec!["A 1".to_owned(), "B 2".to_owned()])
        );
        assert_eq!(lines(".data[0] | keys | join(\"-\")"), Ok(vec!["id-n".to_owned()]));
    }

    #[test]
    fn invalid_expression_is_refused_before_it_runs() {
        assert!(JqFilter::from_str(".data[").is_err_and(|text| text.contains("expected")));
        assert!(JqFilter::from_str("nothing").is_err_and(|text| text.contains("undefined filter nothing")));
        assert!(run(".[].x", &json!("text"), TIMEOUT).is_err_and(|text| text.starts_with("jq: ")));
    }

    #[test]
    fn endless_expression_times_out() {
        let endless = run("def f: f; f", &json!(null), Duration::from_millis(100));
        assert!(endless.is_err_and(|text| text.contains("did not finish")));
        let long = run("repeat(\"x\" * 1000000)", &json!(null), Duration::from_secs(60));
        assert!(long.is_err_and(|text| text.contains("longer than")));
    }
}
