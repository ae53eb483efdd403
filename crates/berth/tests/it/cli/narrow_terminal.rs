//! Tables and live displays on a narrow terminal.

use super::exec::command_on_terminal;
use super::{CliFixture, PATIENCE};
use crate::harness::{BerthProcess, program};

const COMMIT: &str = "4f2a1c9b0e3d4f2a1c9b0e3d4f2a1c9b0e3d4f2a";

#[test]
fn deployment_list_on_80_columns_names_each_deployment_and_its_time() {
    let cli = CliFixture::new();
    let started = cli.run(&format!("deploy shop {COMMIT} --detach --json")).json();
    let id = started["id"].as_str().expect("an id");
    let list = |columns: &str| {
        let program = program().display().to_string();
        let line = format!("stty cols {columns}; {program} deployment list");
        let ran = BerthProcess::start(&mut command_on_terminal(&cli, &line)).wait(PATIENCE);
        assert_eq!(ran.code, Some(0), "{ran:?}");
        let plain = anstream::adapter::strip_str(&ran.stdout).to_string();
        plain.lines().map(str::to_owned).collect::<Vec<_>>()
    };
    let wide = list("200");
    assert!(wide.iter().any(|line| line.contains(id)), "{wide:?}");
    let narrow = list("80");
    assert_eq!(narrow.len(), 2, "a heading and a deployment: {narrow:?}");
    assert!(narrow.iter().all(|line| line.chars().count() <= 80), "{narrow:?}");
    assert!(!narrow[1].contains('…') && !narrow[1].contains("dep_"), "{narrow:?}");
    for cell in ["shop #1", " 4f2a1c9b ", " ada", "just now"] {
        assert!(narrow[1].contains(cell), "{narrow:?}");
    }
    let shown = cli.run("deployment show shop#1 --json").json();
    assert_eq!(shown["id"], id);
    let piped = cli.run("deployment list").stdout;
    assert!(piped.contains(COMMIT), "{piped}");
}

#[test]
fn watched_deployment_on_a_narrow_terminal_draws_no_line_that_wraps() {
    let cli = CliFixture::new();
    let columns = 40;
    let line = format!("stty cols {columns} rows 24; {} deploy shop bad", program().display());
    let ran = BerthProcess::start(&mut command_on_terminal(&cli, &line)).wait(PATIENCE);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    let plain = anstream::adapter::strip_str(&ran.stdout).to_string();
    // The outcome is printed after the display and may wrap.
    let (display, _) = plain.split_once("failed in").expect("an outcome");
    // The URL is printed once, before the display.
    let drawn = display.lines().map(str::trim_end).filter(|line| !line.starts_with("http"));
    let drawn: Vec<&str> = drawn.collect();
    assert!(drawn.iter().any(|line| line.ends_with('…')), "{drawn:?}");
    let longest = drawn.iter().map(|line| line.chars().count()).max();
    assert!(longest <= Some(columns), "{drawn:?}");
}

#[test]
fn environment_list_on_80_columns_shows_the_reason_and_the_whole_expiry() {
    let cli = CliFixture::new();
    let why = "customer demo at noon";
    assert_eq!(cli.run_words(&["env", "claim", "qa-1", "--why", why]).code, Some(0));
    let line = format!("stty cols 80; {} env list", program().display());
    let ran = BerthProcess::start(&mut command_on_terminal(&cli, &line)).wait(PATIENCE);
    let plain = anstream::adapter::strip_str(&ran.stdout).to_string();
    assert!(plain.contains(why) && plain.contains("in 2 h"), "{plain}");
}

#[test]
fn error_on_a_terminal_is_wrapped_at_words() {
    let cli = CliFixture::new();
    let line = format!("stty cols 40; {} secret set KEY value", program().display());
    let ran = BerthProcess::start(&mut command_on_terminal(&cli, &line)).wait(PATIENCE);
    assert_eq!(ran.code, Some(2), "{ran:?}");
    let plain = anstream::adapter::strip_str(&ran.stdout).to_string();
    let lines: Vec<&str> = plain.lines().map(str::trim_end).collect();
    assert!(lines.iter().all(|line| line.chars().count() <= 40), "{lines:?}");
    assert!(lines.contains(&"error: the value is not an argument,"), "{lines:?}");
}

#[test]
fn audit_log_on_80_columns_is_not_truncated() {
    let cli = CliFixture::new();
    let why = "customer demo at noon, please do not release this environment before the meeting";
    assert_eq!(cli.run_words(&["env", "claim", "qa-1", "--why", why]).code, Some(0));
    let line = format!("stty cols 80; {} event list --kind session_claimed", program().display());
    let ran = BerthProcess::start(&mut command_on_terminal(&cli, &line)).wait(PATIENCE);
    let plain = anstream::adapter::strip_str(&ran.stdout).to_string();
    assert!(plain.contains("ada") && !plain.contains('…'), "{plain}");
    assert!(plain.lines().all(|line| line.trim_end().chars().count() <= 80), "{plain}");
}
