//! Tests of what a step can access at each sandbox level. Levels that do not work on this machine are reported and
//! skipped.

use std::net::TcpListener;

use berth_api::runner::{
    AttemptAssignment, AttemptOrder, FailureCause, Isolation, Network, SecretText, StepRunOutcome,
};
use berth_runner::{Confinement, SandboxMode};

use serde_json::json;

use crate::fixture::{
    StepRunnerFixture, choose_confinement, expect_failure, expect_success, list_sleepers, script, step,
    unique_sleep,
};

/// Returns `None` if the sandbox level does not work on this machine.
fn start_fixture(sandbox: SandboxMode, hidden: &std::path::Path) -> Option<StepRunnerFixture> {
    let confinement = choose_confinement(sandbox, &[hidden.to_owned()])?;
    Some(StepRunnerFixture::with_options(|settings| settings.confinement = confinement))
}

/// Creates a directory like the server's data directory. It is outside of `/tmp`, which a sandbox replaces anyway.
fn server_dir() -> tempfile::TempDir {
    let dir = tempfile::tempdir_in("/var/tmp").expect("directory");
    std::fs::write(dir.path().join("root.key"), "key").expect("file");
    dir
}

fn check_confinement(sandbox: SandboxMode, isolation: Isolation) {
    let hidden = server_dir();
    let Some(fixture) = start_fixture(sandbox, hidden.path()) else { return };
    let key = hidden.path().join("root.key");
    let other = fixture.dir.path().join("work/lock");
    let outside = std::path::PathBuf::from(format!("/var/berth-test-{}", std::process::id()));
    let run = format!(
        "cat {} 2>/dev/null && echo LEAK key; cat {} 2>/dev/null && echo LEAK work\n\
         touch {outside} 2>/dev/null && echo LEAK write\n\
         echo a > a; cat a; echo b > $HOME/b; echo c > $TMPDIR/c; cat $KEY; echo x > /dev/null; mktemp > /dev/null\n\
         echo image=1 > $BERTH_OUTPUT; cat /etc/passwd > /dev/null; pwd",
        key.display(),
        other.display(),
        outside = outside.display(),
    );
    let mut assignment = script("a", &run);
    assignment.outputs = vec!["image".into()];
    assignment.secret_files.insert("KEY".into(), SecretText::new("hunter22".into()));
    let outcome = fixture.run(assignment);
    let log = fixture.link.text_of("a");
    assert!(!outside.exists() && !log.contains("LEAK"), "{log}");
    assert_eq!(expect_success(&outcome)["image"], "1", "{log}");
    assert!(log.starts_with("a\n***"), "{log}");
    assert_eq!(fixture.link.wait_for_report("a").isolation, isolation);

    assert_eq!(expect_failure(&fixture.run(script("b", "exit 3"))), (FailureCause::Exited, "exited with 3"));
    let mark = unique_sleep();
    expect_success(&fixture.run(script("c", &format!("setsid sleep {mark} >/dev/null 2>&1 &"))));
    assert_eq!(list_sleepers(&mark), Vec::<String>::new());
    let run = format!("trap '' TERM; setsid sleep {mark} & echo ready; while :; do sleep {mark}; done");
    fixture.link.enqueue(script("d", &run));
    fixture.link.wait_for_log("d", "ready");
    fixture.link.set_order("d", AttemptOrder::Cancel, Some("enough"));
    assert_eq!(fixture.link.wait_for_report("d").outcome, StepRunOutcome::Stopped);
    assert_eq!(list_sleepers(&mark), Vec::<String>::new());
}

#[test]
fn step_is_confined_by_landlock() {
    check_confinement(SandboxMode::Landlock, Isolation::Landlock);
}

#[test]
fn step_is_confined_by_bubblewrap() {
    check_confinement(SandboxMode::Bubblewrap, Isolation::Bubblewrap);
}

#[test]
fn step_in_bubblewrap_does_not_see_other_steps() {
    let hidden = server_dir();
    let Some(fixture) = start_fixture(SandboxMode::Bubblewrap, hidden.path()) else { return };
    let mut first = script("first", "echo ready; sleep 1000");
    first.env.insert("TOKEN".into(), "hunter22".into());
    fixture.link.enqueue(first);
    fixture.link.wait_for_log("first", "ready");
    let run = "cat /proc/[0-9]*/environ /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' '\\n'; ls -d /proc/[0-9]* | wc -l; ls /dev/shm";
    expect_success(&fixture.run(script("second", run)));
    let log = fixture.link.text_of("second");
    assert!(!log.contains("hunter22") && log.contains("BERTH_ATTEMPT_ID"), "{log}");
    fixture.link.set_order("first", AttemptOrder::Cancel, None);
    assert_eq!(fixture.link.wait_for_report("first").outcome, StepRunOutcome::Stopped);
}

#[test]
fn cancelled_step_in_bubblewrap_can_clean_up() {
    let hidden = server_dir();
    let Some(fixture) = start_fixture(SandboxMode::Bubblewrap, hidden.path()) else { return };
    let run = "trap 'sleep 0.3; echo cleaned; exit 1' TERM; echo ready; while :; do sleep 0.05; done";
    fixture.link.enqueue(script("a", run));
    fixture.link.wait_for_log("a", "ready");
    fixture.link.set_order("a", AttemptOrder::Cancel, Some("enough"));
    assert_eq!(fixture.link.wait_for_report("a").outcome, StepRunOutcome::Stopped);
    let log = fixture.link.text_of("a");
    assert!(log.contains("cleaned\n"), "{log}");
}

/// Returns the file descriptors that a child of the test process inherits in any case.
fn inherited_descriptors() -> Vec<u32> {
    const CLOEXEC: u32 = 0o2_000_000;
    let entries = std::fs::read_dir("/proc/self/fdinfo").expect("descriptors").flatten();
    let numbers = entries.filter_map(|entry| entry.file_name().into_string().ok()?.parse::<u32>().ok());
    let is_kept = |number: &u32| {
        let info = std::fs::read_to_string(format!("/proc/self/fdinfo/{number}")).unwrap_or_default();
        let flags = info.lines().find_map(|line| line.strip_prefix("flags:"));
        flags
            .and_then(|text| u32::from_str_radix(text.trim(), 8).ok())
            .is_some_and(|flags| flags & CLOEXEC == 0)
    };
    numbers.filter(is_kept).collect()
}

#[test]
fn step_inherits_no_descriptors() {
    let mut expected = inherited_descriptors();
    let fixture = StepRunnerFixture::new();
    expect_success(&fixture.run(script("a", "ls /proc/self/fd")));
    let mut found: Vec<u32> =
        fixture.link.text_of("a").lines().map(|line| line.parse().expect("a number")).collect();
    // `ls` itself has one more descriptor open, for the directory that it lists.
    expected.push((0..).find(|number| !expected.contains(number)).expect("a free number"));
    found.sort_unstable();
    expected.sort_unstable();
    assert_eq!(found, expected);
}

#[test]
fn command_in_bubblewrap_can_clean_up_on_cancel() {
    let hidden = server_dir();
    let Some(fixture) = start_fixture(SandboxMode::Bubblewrap, hidden.path()) else { return };
    let run = "sh -c 'trap \"sleep 0.3; echo cleaned; exit 0\" TERM; echo ready; while :; do sleep 0.05; done'; echo no";
    fixture.link.enqueue(script("a", run));
    fixture.link.wait_for_log("a", "ready");
    fixture.link.set_order("a", AttemptOrder::Cancel, Some("enough"));
    assert_eq!(fixture.link.wait_for_report("a").outcome, StepRunOutcome::Stopped);
    let log = fixture.link.text_of("a");
    assert!(log.ends_with("cleaned\n[berth] stopped: enough\n") && !log.contains("no\n"), "{log}");
}

fn check_hidden_file(sandbox: SandboxMode) {
    let dir = server_dir();
    let key = dir.path().join("root.key");
    let Some(fixture) = start_fixture(sandbox, &key) else { return };
    let run = format!(
        "cat {key} 2>/dev/null || true; cp {key} copy 2>/dev/null || true; cat copy 2>/dev/null || true\n\
         rm -f {key} 2>/dev/null || true; (echo x > {key}) 2>/dev/null || true; echo in sight",
        key = key.display(),
    );
    expect_success(&fixture.run(script("a", &run)));
    assert_eq!(fixture.link.text_of("a"), "in sight\n");
    assert_eq!(std::fs::read_to_string(&key).expect("still there"), "key");
}

fn check_exposed_path(sandbox: SandboxMode) {
    let dir = server_dir();
    if choose_confinement(sandbox, &[]).is_none() {
        return;
    }
    let confinement = Confinement::choose(sandbox, &[], &[dir.path().to_owned()]).expect("it works here");
    let fixture = StepRunnerFixture::with_options(|settings| settings.confinement = confinement);
    let path = dir.path().display();
    let run =
        format!("cat {path}/root.key; touch {path}/new 2>/dev/null || echo read-only; cat {path}/later");
    std::fs::write(dir.path().join("later"), " and later").expect("file");
    expect_success(&fixture.run(script("a", &run)));
    assert_eq!(fixture.link.text_of("a"), "keyread-only\n and later");
    let canonical = dir.path().canonicalize().expect("canonical");
    assert_eq!(fixture.link.wait_for_report("a").exposed, [canonical.display().to_string()]);
}

#[test]
fn exposed_path_is_readable_in_bubblewrap() {
    check_exposed_path(SandboxMode::Bubblewrap);
}

#[test]
fn exposed_path_is_readable_with_landlock() {
    check_exposed_path(SandboxMode::Landlock);
}

#[test]
fn hidden_file_is_unreadable_with_landlock() {
    check_hidden_file(SandboxMode::Landlock);
}

#[test]
fn hidden_file_is_unreadable_in_bubblewrap() {
    check_hidden_file(SandboxMode::Bubblewrap);
}

/// A mount over a single file would disappear when another file is renamed over that file, as in a key rotation.
#[test]
fn hidden_key_stays_hidden_after_rename_in_bubblewrap() {
    let dir = server_dir();
    let keys = dir.path().join("keys");
    std::fs::create_dir(&keys).expect("directory");
    let key = keys.join("root.key");
    std::fs::write(&key, "old key").expect("file");
    if choose_confinement(SandboxMode::Bubblewrap, &[]).is_none() {
        return;
    }
    let chosen =
        Confinement::choose(SandboxMode::Bubblewrap, std::slice::from_ref(&key), &[dir.path().to_owned()]);
    let fixture =
        StepRunnerFixture::with_options(|settings| settings.confinement = chosen.expect("it works here"));
    let go = dir.path().join("go");
    let run = format!(
        "echo ready; until [ -e {go} ]; do sleep 0.02; done; cat {keys}/* 2>/dev/null || true; echo looked",
        go = go.display(),
        keys = keys.display(),
    );
    fixture.link.enqueue(script("a", &run));
    fixture.link.wait_for_log("a", "ready");
    for name in ["root.key.next", "other.key"] {
        std::fs::write(keys.join(name), "new key").expect("file");
    }
    std::fs::rename(keys.join("root.key.next"), &key).expect("renamed");
    std::fs::write(&go, "").expect("file");
    expect_success(&fixture.link.wait_for_report("a").outcome);
    assert_eq!(fixture.link.text_of("a"), "ready\nlooked\n");
}

/// Returns a script that connects to a listener on this machine and lists the network interfaces.
fn network_script(listener: &TcpListener) -> String {
    let port = listener.local_addr().expect("an address").port();
    format!(
        "curl --silent --max-time 1 http://127.0.0.1:{port}/ >/dev/null 2>&1 || true\n\
         tail -n +3 /proc/net/dev | cut -d: -f1 | tr -d ' '; grep -q 127.0.0.1 /proc/net/fib_trie && echo up"
    )
}

#[test]
fn network_none_allows_loopback_only() {
    let Some(confinement) = choose_confinement(SandboxMode::Bubblewrap, &[]) else { return };
    let fixture = StepRunnerFixture::with_options(|settings| settings.confinement = confinement);
    let listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
    listener.set_nonblocking(true).expect("nonblocking");
    let alone = AttemptAssignment { network: Network::None, ..script("alone", &network_script(&listener)) };
    expect_success(&fixture.run(alone));
    assert_eq!(fixture.link.text_of("alone"), "lo\nup\n");
    assert!(listener.accept().is_err(), "the step has reached this machine");
    assert_eq!(fixture.link.wait_for_report("alone").network, Some(Network::None));

    expect_success(&fixture.run(script("host", &network_script(&listener))));
    listener.accept().expect("by default a step reaches what its machine does");
    assert_eq!(fixture.link.wait_for_report("host").network, Some(Network::Host));
}

fn check_network_refused(sandbox: SandboxMode) {
    let Some(confinement) = choose_confinement(sandbox, &[]) else { return };
    let fixture = StepRunnerFixture::with_options(|settings| settings.confinement = confinement);
    let mark = fixture.dir.path().join("ran");
    let run = format!("touch {}", mark.display());
    let outcome = fixture.run(AttemptAssignment { network: Network::None, ..script("a", &run) });
    let (cause, detail) = expect_failure(&outcome);
    assert_eq!(cause, FailureCause::Invalid);
    assert!(detail.contains("`network: none` needs the sandbox bubblewrap"), "{detail}");
    assert!(!mark.exists(), "it ran");
    let report = fixture.link.wait_for_report("a");
    assert_eq!((report.isolation, report.network), (Isolation::None, None));
}

#[test]
fn network_none_fails_closed_with_landlock() {
    check_network_refused(SandboxMode::Landlock);
}

#[test]
fn network_none_fails_closed_without_a_sandbox() {
    check_network_refused(SandboxMode::Off);
}

#[test]
fn network_none_rejects_http_check() {
    let Some(confinement) = choose_confinement(SandboxMode::Bubblewrap, &[]) else { return };
    let fixture = StepRunnerFixture::with_options(|settings| settings.confinement = confinement);
    let check = step("a", "http_check", json!({"url": "http://127.0.0.1:1/", "within": "1s"}));
    let outcome = fixture.run(AttemptAssignment { network: Network::None, ..check });
    assert_eq!(
        expect_failure(&outcome),
        (FailureCause::Invalid, "a step with `network: none` cannot send requests")
    );
}
