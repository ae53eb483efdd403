//! Transcripts: commands with their output and exit codes, recorded against a real server. For every command there is a
//! transcript in which it succeeds and one in which it fails.

mod agents;
mod chat;
mod definitions;
mod deployments;
mod environments;
mod operations;
mod records;
mod settings;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use expect_test::ExpectFile;

use super::{CliFixture, PATIENCE, help};
use crate::harness::{BerthProcess, ProcessOutput};

/// Number of lines to record of a long output.
const HEAD_LINES: usize = 3;

/// A recorded sequence of commands with their output.
struct Transcript<'a> {
    cli: &'a CliFixture,
    text: String,
    hidden: Vec<(String, String)>,
}

impl<'a> Transcript<'a> {
    fn new(cli: &'a CliFixture) -> Self {
        let here = cli.config.path().display().to_string();
        let data = cli.home.path().display().to_string();
        Self { cli, text: String::new(), hidden: vec![(here, "HERE".into()), (data, "DATA".into())] }
    }

    /// Replaces a value that differs between runs.
    fn hide(&mut self, what: &str, shown: &str) {
        assert!(!what.is_empty());
        self.hidden.push((what.to_owned(), shown.to_owned()));
    }

    fn run(&mut self, command: &str) -> ProcessOutput {
        let ran = self.cli.run(command);
        self.record(command, &[&ran.stdout, &ran.stderr], &ran);
        ran
    }

    fn run_all(&mut self, commands: &[&str]) {
        for command in commands {
            self.run(command);
        }
    }

    /// Runs a command with a token that the server rejects.
    fn run_with_invalid_token(&mut self, command: &str) {
        let words: Vec<&str> = command.split(' ').collect();
        let mut program = self.cli.command(&words);
        let ran = BerthProcess::start(program.env("BERTH_TOKEN", "wrong")).wait(PATIENCE);
        self.record(command, &[&ran.stdout, &ran.stderr], &ran);
    }

    /// Runs a command without its live display, which differs between runs.
    fn run_without_display(&mut self, command: &str) {
        let ran = self.cli.run(command);
        self.record(command, &[&ran.stdout], &ran);
    }

    /// Runs a command and records the beginning of its output.
    fn run_long(&mut self, command: &str) {
        let ran = self.cli.run(command);
        let head: Vec<&str> = ran.stdout.lines().take(HEAD_LINES).collect();
        self.record(command, &[&head.join("\n"), "…"], &ran);
    }

    fn run_with_input(&mut self, command: &str, input: &str) -> ProcessOutput {
        let ran = self.cli.run_with_input(command, input);
        self.record(command, &[&ran.stdout, &ran.stderr], &ran);
        ran
    }

    fn record(&mut self, command: &str, said: &[&str], ran: &ProcessOutput) {
        self.text.push_str(&format!("$ berth {command}\n"));
        for text in said {
            for line in self.cli.normalize(text).lines() {
                self.text.push_str(&format!("{line}\n"));
            }
        }
        if ran.code != Some(0) {
            let code = ran.code.map_or_else(|| "by a signal".into(), |code| code.to_string());
            self.text.push_str(&format!("exit {code}\n"));
        }
    }

    fn compare(self, expected: &ExpectFile) {
        let mut text = self.cli.normalize(&self.text);
        for (what, shown) in &self.hidden {
            text = text.replace(what, shown);
        }
        expected.assert_eq(&text);
    }
}

/// Commands that need no failing transcript, because they have no way to fail, or because other tests cover them.
const NEVER_FAIL: &[&str] = &["logout", "mcp", "pipeline schema"];
/// Commands that run until interrupted, or until their standard input ends.
const UNTIL_INTERRUPTED: &[&str] = &["event follow", "mcp"];

#[test]
fn every_command_has_a_success_and_a_failure_transcript() {
    let (well, badly) = recorded_commands();
    let commands = help::leaf_commands();
    assert!(commands.len() > 60, "{commands:?}");
    let all: BTreeSet<&String> = commands.iter().collect();
    let missing = |told: &BTreeSet<String>, exceptions: &[&str]| -> Vec<String> {
        let is_missing = |it: &&&String| !told.contains(**it) && !exceptions.contains(&it.as_str());
        all.iter().filter(is_missing).map(ToString::to_string).collect()
    };
    assert_eq!(missing(&well, UNTIL_INTERRUPTED), [""; 0], "commands without a successful transcript");
    assert_eq!(missing(&badly, NEVER_FAIL), [""; 0], "commands without a failed transcript");
}

/// Returns the commands of all transcripts: those that succeeded, and those that failed.
fn recorded_commands() -> (BTreeSet<String>, BTreeSet<String>) {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/cli/transcripts/expected");
    let commands = help::leaf_commands();
    let mut codes: BTreeMap<bool, BTreeSet<String>> = BTreeMap::new();
    for file in std::fs::read_dir(dir).expect("the transcripts") {
        let text = std::fs::read_to_string(file.expect("an entry").path()).expect("a transcript");
        for part in text.split("$ berth ").skip(1) {
            let (said, answer) = part.split_once('\n').unwrap_or((part, ""));
            let is_it = |name: &&String| said == **name || said.starts_with(&format!("{name} "));
            let command = commands.iter().find(is_it);
            let is_well = !answer.lines().any(|line| line.starts_with("exit "));
            codes.entry(is_well).or_default().extend(command.cloned());
        }
    }
    (codes.remove(&true).unwrap_or_default(), codes.remove(&false).unwrap_or_default())
}
