//! Shell completion with values from the server.

use std::net::TcpListener;
use std::time::{Duration, Instant};

use super::{CliFixture, PATIENCE};
use crate::harness::{BerthProcess, ProcessOutput, wait_until};

/// Much longer than a completion waits for a server.
const NOTICEABLE: Duration = Duration::from_secs(8);

/// Completes the last word as bash does.
fn complete(cli: &CliFixture, words: &[&str], server: Option<&str>) -> ProcessOutput {
    let line: Vec<&str> = ["--", "berth"].iter().chain(words).copied().collect();
    let mut command = cli.command(&line);
    command.env("BERTH_COMPLETE", "bash").env("_CLAP_IFS", "\n");
    command.env("_CLAP_COMPLETE_INDEX", words.len().to_string());
    command.envs(server.map(|server| ("BERTH_SERVER", server)));
    BerthProcess::start(&mut command).wait(PATIENCE)
}

#[test]
fn pipelines_environments_and_deployments_are_completed() {
    let cli = CliFixture::new();
    assert_eq!(cli.run("deploy shop v1 --detach").code, Some(0));
    for (words, expected) in [
        (&["deploy", ""][..], "shop"),
        (&["deploy", "sh"], "shop"),
        (&["env", "claim", "qa"], "qa-1\nqa-2"),
        (&["env", "list", "--pipeline", ""], "shop"),
        (&["deployment", "cancel", ""], "shop#1"),
        (&["logs", "shop#"], "shop#1"),
        (&["member", "access", ""], "ada@acme.test"),
        (&["env", "ta"], "take-over"),
    ] {
        // On a slow machine, the server may not respond in time for a completion.
        let values = wait_until(PATIENCE, "completion", || {
            let told = complete(&cli, words, None);
            assert_eq!((told.code, told.stderr.as_str()), (Some(0), ""), "{words:?}");
            let values: Vec<&str> = told.stdout.lines().filter(|line| !line.starts_with('-')).collect();
            (!values.is_empty()).then(|| values.join("\n"))
        });
        assert_eq!(values, expected, "{words:?}");
    }
}

#[test]
fn completion_without_an_answer_is_empty_silent_and_fast() {
    let cli = CliFixture::new();
    let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
    let silent = format!("http://{}", silent.local_addr().expect("an address"));
    for server in ["http://127.0.0.1:1", &silent] {
        let started = Instant::now();
        let told = complete(&cli, &["env", "show", "q"], Some(server));
        assert_eq!((told.code, told.stdout.trim(), told.stderr.as_str()), (Some(0), "", ""), "{server}");
        assert!(started.elapsed() < NOTICEABLE, "{server}: {:?}", started.elapsed());
    }
}
