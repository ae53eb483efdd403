//! Tables and live displays on a narrow terminal.

use super::exec::command_on_terminal;
use super::{CliFixture, PATIENCE};
use crate::harness::{BerthProcess, program};

const COMMIT: &str = "4f2a1c9b0e3d4f2a1c9b0e3d4f2a1c9b0e3d4f2a";

#[test]
fn deployment_list_on_80_columns_keeps_ids_complete() {
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
    assert!(wide.iter().any(|line| line.contains(COMMIT)), "{wide:?}");
    let narrow = list("80");
    assert_eq!(narrow.len(), 2, "a heading and a deployment: {narrow:?}");
    assert!(narrow.iter().all(|line| line.chars().count() <= 80), "{narrow:?}");
    assert!(
        narrow[1].contains(id) && narrow[1].contains("4f2a1c9b0") && narrow[1].contains('…'),
        "{narrow:?}"
    );
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
    let drawn: Vec<&str> = display.lines().map(str::trim_end).collect();
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
