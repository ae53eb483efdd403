//! Tables on a narrow terminal.

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
