//! Tests that leftovers of an earlier process are cleaned up at startup.

use std::process::{Command, Stdio};
use std::sync::Arc;

use berth_runner::{LeftoverCounts, StepRunner, kill_leftovers};

use crate::fixture::{list_sleepers, runner_options, unique_sleep};
use crate::link::TestLink;

#[test]
fn leftover_processes_directories_and_secrets_are_removed_at_start() {
    let dir = tempfile::tempdir().expect("directory");
    let work = dir.path().join("work");
    let attempt = work.join("attempts/0123");
    std::fs::create_dir_all(attempt.join("workspace")).expect("directory");
    let secrets = std::path::PathBuf::from(format!("/dev/shm/berth-{}", "0123"));
    std::fs::create_dir_all(&secrets).expect("directory");
    std::fs::write(attempt.with_extension("secrets"), secrets.to_str().expect("text")).expect("file");
    let (marked, stranger) = (unique_sleep(), unique_sleep());
    // Simulate the processes of a crashed runner. Two of the three have sessions of their own. One of these lacks the
    // environment variable, but descends from a process that has it.
    let text = format!("setsid env -i sleep {marked} & setsid sleep {marked} & exec sleep {marked}");
    let mut left = Command::new("sh")
        .args(["-c", &text])
        .env("BERTH_WORKSPACE", attempt.join("workspace"))
        .stdin(Stdio::null())
        .spawn()
        .expect("process");
    let mut other = Command::new("sleep").arg(&stranger).spawn().expect("process");
    crate::fixture::wait_until("they run", || list_sleepers(&marked).len() == 3);
    let found = kill_leftovers(&work).expect("looked");
    left.wait().expect("waited");
    assert_eq!(found, LeftoverCounts { processes: 3, attempts: 1 });
    assert_eq!(list_sleepers(&marked), Vec::<String>::new());
    assert_eq!(list_sleepers(&stranger).len(), 1, "others are left alone");
    other.kill().and_then(|()| other.wait()).expect("ended");
    assert!(!attempt.exists() && !secrets.exists() && !attempt.with_extension("secrets").exists());
    assert_eq!(kill_leftovers(&work).expect("looked"), LeftoverCounts { processes: 0, attempts: 0 });
    assert_eq!(
        kill_leftovers(&dir.path().join("none")).expect("looked"),
        LeftoverCounts { processes: 0, attempts: 0 }
    );
}

#[test]
fn secrets_note_with_foreign_directory_is_ignored() {
    let dir = tempfile::tempdir().expect("directory");
    let work = dir.path().join("work");
    let attempt = work.join("attempts/0123");
    let foreign = dir.path().join("foreign");
    for dir in [&attempt, &foreign] {
        std::fs::create_dir_all(dir).expect("directory");
    }
    std::fs::write(attempt.with_extension("secrets"), foreign.to_str().expect("text")).expect("file");
    let runner = StepRunner::start(runner_options(work), Arc::new(TestLink::default())).expect("runner");
    assert!(!attempt.exists() && foreign.exists());
    runner.stop();
}

#[test]
fn secrets_note_replaced_by_fifo_or_endless_file_does_not_block() {
    let dir = tempfile::tempdir().expect("directory");
    let work = dir.path().join("work");
    let attempts = work.join("attempts");
    for id in ["pipe", "endless", "tree"] {
        std::fs::create_dir_all(attempts.join(id)).expect("directory");
    }
    // Create the files inside the attempt's directory, where any step can write, and next to it, where a step without a
    // sandbox can write.
    let text = "mkfifo pipe/secrets pipe.secrets; ln -s /dev/zero endless/secrets; ln -s /dev/zero endless.secrets\n\
                mkdir -p tree.secrets/a; cp /bin/sh alone.secrets";
    let made = Command::new("sh").args(["-ec", text]).current_dir(&attempts).status().expect("made");
    assert!(made.success());
    assert_eq!(kill_leftovers(&work).expect("looked"), LeftoverCounts { processes: 0, attempts: 4 });
    assert_eq!(std::fs::read_dir(&attempts).expect("attempts").count(), 0);
}
