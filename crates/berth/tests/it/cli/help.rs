//! Help texts, and the reference page generated from them.

use std::process::Stdio;

use expect_test::expect_file;

use super::PATIENCE;
use crate::harness::{BerthProcess, berth, run};

/// Maximum nesting of commands.
const DEPTH_MAX: usize = 3;
/// Headings of `berth --help`.
const GROUPS: [&str; 4] =
    ["Environments and deployments:", "Pipelines and settings:", "Login and access:", "Server and setup:"];
/// `berth --help` must not have more lines than this, so that it fits on one screen.
const SCREEN_LINES: usize = 40;

#[test]
fn cli_reference_matches_the_program() {
    let mut page = String::from(
        "# Command reference\n\n\
         The output of `--help` for every command. For a guide, see [Command line](cli.md).\n",
    );
    describe(&[], &mut page);
    expect_file!["../../../../../docs/cli-reference.md"].assert_eq(&page);
}

fn describe(words: &[&str], page: &mut String) {
    let help = help(words);
    let name = ["berth"].iter().chain(words).copied().collect::<Vec<_>>().join(" ");
    let text: Vec<&str> = help.trim_end().lines().map(str::trim_end).collect();
    page.push_str(&format!("\n## {name}\n\n```text\n{}\n```\n", text.join("\n")));
    for command in listed_commands(&help) {
        describe(&[words, &[command]].concat(), page);
    }
}

fn help(words: &[&str]) -> String {
    assert!(words.len() <= DEPTH_MAX);
    let help = run(&[words, &["--help"]].concat());
    assert_eq!((help.code, help.stderr.as_str()), (Some(0), ""), "{words:?}");
    help.stdout
}

/// Commands listed in a help text.
fn listed_commands(help: &str) -> impl Iterator<Item = &str> {
    // A row of `berth --help` can name several commands: "login, logout".
    let sections = help.split("\n\n").filter(|section| {
        let heading = section.lines().next().unwrap_or_default();
        heading == "Commands:" || GROUPS.contains(&heading)
    });
    let is_command = |line: &&str| {
        line.strip_prefix("  ").is_some_and(|name| name.starts_with(|c: char| c.is_ascii_lowercase()))
    };
    let lines = sections.flat_map(str::lines).filter(is_command);
    lines.flat_map(|line| line.trim_start().split("  ").next().expect("commands").split(", "))
}

#[test]
fn top_level_help_fits_on_one_screen() {
    let help = help(&[]);
    assert!(help.lines().count() <= SCREEN_LINES, "{help}");
    assert!(help.lines().all(|line| line.len() <= 80), "{help}");
}

/// All leaf commands: "env claim", not "env".
pub(super) fn leaf_commands() -> Vec<String> {
    let mut found = Vec::new();
    collect(&[], &mut found);
    found
}

fn collect(words: &[&str], found: &mut Vec<String>) {
    let help = help(words);
    let before = found.len();
    for command in listed_commands(&help) {
        collect(&[words, &[command]].concat(), found);
    }
    if found.len() == before {
        found.push(words.join(" "));
    }
}

#[test]
fn completions_and_man_pages_list_the_commands() {
    for shell in ["bash", "zsh", "fish"] {
        let told = run(&["completion", shell]);
        assert_eq!(told.code, Some(0));
        assert!(told.stdout.contains("BERTH_COMPLETE"), "{shell}");
    }
    let dir = tempfile::tempdir().expect("a directory");
    let made = run(&["man", dir.path().to_str().expect("a path")]);
    assert_eq!(made.code, Some(0), "{made:?}");
    let page = std::fs::read_to_string(dir.path().join("berth-env-claim.1")).expect("a page");
    assert!(page.contains("Wait in the queue"), "{page}");
}

#[test]
fn closed_stdout_is_not_an_error() {
    let mut command = berth(&["completion", "bash"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the program");
    drop(child.stdout.take());
    let told = child.wait_with_output().expect("its end");
    assert_eq!(String::from_utf8_lossy(&told.stderr), "");
}

#[test]
fn missing_token_and_missing_server_are_different_errors() {
    let home = tempfile::tempdir().expect("a directory");
    let asked = |server: Option<&str>| {
        let mut command = berth(&["env", "list"]);
        command.env("XDG_CONFIG_HOME", home.path()).env_remove("BERTH_TOKEN").env_remove("BERTH_SERVER");
        command.envs(server.map(|server| ("BERTH_SERVER", server)));
        BerthProcess::start(&mut command).wait(PATIENCE)
    };
    for (server, wanted) in
        [(None, "not logged in"), (Some("http://127.0.0.1:1"), "no token for http://127.0.0.1:1")]
    {
        let told = asked(server);
        assert!(told.code == Some(4) && told.stderr.contains(wanted), "{told:?}");
    }
}
