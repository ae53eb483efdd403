//! Leaving the queue of an environment.

use std::io::Write as _;
use std::process::Stdio;

use super::CliFixture;
use super::exec::command_on_terminal;
use crate::harness::program;

/// Joins the queue for qa-1 and returns the ticket.
fn join_queue(cli: &CliFixture) -> String {
    let joined = cli.run("env claim qa-1 --queue --detach --json");
    assert_eq!(joined.code, Some(0), "{joined:?}");
    joined.json()["ticketId"].as_str().expect("a ticket").to_owned()
}

fn queue_length(cli: &CliFixture) -> usize {
    cli.run("env queue qa-1 --json").json()["data"].as_array().expect("a queue").len()
}

/// Takes over qa-1 on a terminal and confirms it.
fn take_over_on_terminal(cli: &CliFixture, options: &str) -> String {
    let line = format!("{} env take-over qa-1 --why hotfix {options}", program().display());
    let mut terminal = command_on_terminal(cli, &line);
    terminal.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut process = terminal.spawn().expect("script");
    process.stdin.take().expect("its input").write_all(b"y\n").expect("it is read");
    let ran = process.wait_with_output().expect("it ends");
    let said = String::from_utf8_lossy(&ran.stdout).into_owned();
    assert_eq!(ran.status.code(), Some(0), "{said}");
    said
}

#[test]
fn queue_leave_without_ticket_leaves_with_the_only_one() {
    let cli = CliFixture::new();
    assert_eq!(cli.run("env claim qa-1").code, Some(0));
    let none = cli.run("env queue qa-1 --leave");
    assert_eq!(none.code, Some(3), "{none:?}");
    assert!(none.stderr.contains("you are not in the queue for qa-1"), "{none:?}");
    let first = join_queue(&cli);
    assert_eq!(cli.run("env queue qa-1 --leave").code, Some(0));
    assert_eq!(queue_length(&cli), 0);
    let (second, third) = (join_queue(&cli), join_queue(&cli));
    assert_ne!(first, second);
    let several = cli.run("env queue qa-1 --leave");
    assert_eq!(several.code, Some(2), "{several:?}");
    assert!(several.stderr.contains(&second) && several.stderr.contains(&third), "{several:?}");
    assert_eq!(cli.run(&format!("env queue qa-1 --leave {second}")).code, Some(0));
    assert_eq!(queue_length(&cli), 1);
}

#[test]
fn take_over_on_a_terminal_leaves_the_queue() {
    let cli = CliFixture::new();
    assert_eq!(cli.run("env claim qa-1").code, Some(0));
    join_queue(&cli);
    let said = take_over_on_terminal(&cli, "");
    assert!(said.contains("Left the queue for qa-1."), "{said}");
    assert_eq!(queue_length(&cli), 0);

    join_queue(&cli);
    take_over_on_terminal(&cli, "--grace 5m");
    let queue = cli.run("env queue qa-1 --json").json();
    let tickets = queue["data"].as_array().expect("a queue");
    assert_eq!(tickets.len(), 1, "{queue}");
    assert!(tickets[0]["takeoverAt"].is_string(), "{queue}");
}

#[test]
fn take_over_by_a_script_leaves_the_tickets_of_other_jobs() {
    let cli = CliFixture::new();
    assert_eq!(cli.run("env claim qa-1").code, Some(0));
    join_queue(&cli);
    assert_eq!(cli.run("env take-over qa-1 --why hotfix").code, Some(0));
    assert_eq!(queue_length(&cli), 1);
}
