//! Agents and leases.

use expect_test::expect_file;

use super::{CliFixture, Transcript};

#[test]
fn agents_create_list_stop_resume() {
    let cli = CliFixture::new();
    let mut transcript = Transcript::new(&cli);
    transcript.run_all(&["agents create claude --sessions 2 --session-time 2h --take-over agents"]);
    transcript.run_all(&["agents create claude --role king", "agents list", "agents status"]);
    transcript.run_all(&["agents stop --reason runaway", "agents resume", "agents status"]);
    for command in ["agents list", "agents stop", "agents resume", "agents status"] {
        transcript.run_with_invalid_token(command);
    }
    transcript.compare(&expect_file!["expected/agents.txt"]);
}

#[test]
fn env_heartbeat() {
    let cli = CliFixture::new();
    let mut transcript = Transcript::new(&cli);
    assert_eq!(cli.run("env claim shop/qa-1 --lease 10m").code, Some(0));
    transcript.run("env heartbeat shop/qa-1");
    assert_eq!(cli.run("env release shop/qa-1").code, Some(0));
    transcript.run("env heartbeat shop/qa-1");
    transcript.compare(&expect_file!["expected/heartbeat.txt"]);
}
