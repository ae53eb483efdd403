//! Tests that logs are complete, in order, masked and limited in size.

use std::time::{Duration, Instant};

use berth_api::runner::{AttemptOrder, LinkError, SecretText};

use crate::fixture::{StepRunnerFixture, expect_success, script};

#[test]
fn secrets_are_masked_across_writes() {
    let fixture = StepRunnerFixture::new();
    let run = "printf hun; sleep 0.1; printf 'ter22\\n'; echo $TOKEN | base64; printf %s $TOKEN | od -An -tx1 | tr -d ' '\n\
               for c in h u n t e r 2 2; do printf $c; done; echo; echo plain";
    let mut assignment = script("a", run);
    assignment.env.insert("TOKEN".into(), "hunter22".into());
    assignment.masked = vec![SecretText::new("hunter22".into()), SecretText::new("abc".into())];
    expect_success(&fixture.run(assignment));
    assert_eq!(
        fixture.link.text_of("a"),
        "[berth] 1 secret values are too short, too common or too many to be masked\n***\n***K\n***\n***\nplain\n"
    );
}

#[test]
fn unterminated_last_line_is_sent() {
    let fixture = StepRunnerFixture::new();
    let mut assignment = script("a", "printf 'no newline'; sleep 1000");
    assignment.masked = vec![SecretText::new("hunter22".into())];
    fixture.link.enqueue(assignment);
    fixture.link.wait_for_log("a", "no newline");
    fixture.link.set_order("a", AttemptOrder::Cancel, Some("seen"));
    fixture.link.wait_for_report("a");
    assert_eq!(fixture.link.text_of("a"), "no newline\n[berth] stopped: seen\n");
}

#[test]
fn log_above_limit_is_truncated_once() {
    let fixture = StepRunnerFixture::with_options(|settings| settings.step_log_bytes_max = 100_000);
    expect_success(
        &fixture
            .run(script("a", "head -c 3000000 /dev/zero | tr '\\0' x; echo; echo end > end; test -e end")),
    );
    let log = fixture.link.text_of("a");
    let (kept, rest) = log.split_at(100_000);
    assert!(kept.bytes().all(|byte| byte == b'x'));
    assert_eq!(rest, "\n[berth] log truncated: it is longer than 100000 bytes\n");
    expect_success(&fixture.run(script("fits", "head -c 100000 /dev/zero | tr '\\0' x")));
    assert_eq!(fixture.link.log_of("fits").len(), 100_000);
}

#[test]
fn log_line_of_100_megabytes_is_stored_in_chunks() {
    let fixture = StepRunnerFixture::new();
    expect_success(&fixture.run(script("a", "head -c 100000000 /dev/zero")));
    assert_eq!(fixture.link.log_of("a").len(), 100_000_000);
    assert!(peak_memory_kib() < 600_000, "the server's copy is part of it: {}", peak_memory_kib());
}

fn peak_memory_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("status");
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).expect("VmHWM");
    line.split_ascii_whitespace().nth(1).and_then(|number| number.parse().ok()).expect("a number")
}

#[test]
fn log_of_many_tiny_writes_is_complete() {
    let fixture = StepRunnerFixture::new();
    expect_success(&fixture.run(script("a", "i=0; while [ $i -lt 50000 ]; do echo $i; i=$((i+1)); done")));
    let expected: String = (0..50_000).map(|i| format!("{i}\n")).collect();
    assert_eq!(fixture.link.text_of("a"), expected);
}

#[test]
fn log_chunk_with_lost_response_is_not_duplicated() {
    let fixture = StepRunnerFixture::new();
    fixture.link.lose_log_responses(3);
    expect_success(&fixture.run(script("a", "seq 1 20000")));
    let expected: String = (1..=20_000).map(|i| format!("{i}\n")).collect();
    assert_eq!(fixture.link.text_of("a"), expected);
}

/// Runs a step that writes ten million bytes while the server is unavailable and then waits until the server is back.
/// Returns the log.
fn run_with_outage(spill_bytes_max: u64, during_outage: impl FnOnce()) -> String {
    let fixture = StepRunnerFixture::with_options(|settings| {
        settings.heartbeat_wait = Duration::from_millis(50);
        settings.step_log_spill_bytes_max = spill_bytes_max;
    });
    fixture.link.set_unavailable_at_log_bytes(1);
    let run = "echo first; sleep 0.3; head -c 5000000 /dev/zero | tr '\\0' x; printf %s $T; head -c 5000000 /dev/zero | tr '\\0' x; touch done; while [ ! -e go ]; do sleep 0.02; done; echo; echo last";
    let mut step = script("a", run);
    step.env.insert("T".into(), SECRET.into());
    step.masked = vec![SecretText::new(SECRET.into())];
    fixture.link.enqueue(step);
    let attempts = fixture.dir.path().join("work/attempts");
    let find = |name: &str| {
        let entries = std::fs::read_dir(&attempts).expect("attempts").flatten();
        entries.map(|entry| entry.path().join("workspace")).find(|path| path.join(name).exists())
    };
    // The step does not block while the server is unavailable.
    crate::fixture::wait_until("it has written everything", || find("done").is_some());
    assert!(fixture.link.is_unavailable());
    during_outage();
    fixture.link.set_unavailable(false);
    fixture.link.wait_for_log("a", "xxx");
    std::fs::write(find("done").expect("workspace").join("go"), "").expect("file");
    expect_success(&fixture.link.wait_for_report("a").outcome);
    let log = fixture.link.text_of("a");
    assert!(log.starts_with("first\n") && log.ends_with("last\n"));
    log
}

const SECRET: &str = "s3cret-value-42";

/// Length of the output, including the asterisks that replace the secret.
const BYTES: usize = 10_000_003;

fn count_output_bytes(log: &str) -> usize {
    log.bytes().filter(|byte| matches!(byte, b'x' | b'*')).count()
}

fn check_gap(log: &str) -> usize {
    let markers: Vec<&str> = log.lines().filter_map(|line| line.strip_prefix("[berth] log gap: ")).collect();
    let lost: usize = markers
        .iter()
        .map(|line| line.split(' ').next().expect("number").parse::<usize>().expect("number"))
        .sum();
    assert_eq!(markers.len(), 1, "{markers:?}");
    assert_eq!(count_output_bytes(log) + lost, BYTES, "every byte is there, or counted");
    lost
}

#[test]
fn log_bytes_lost_while_server_is_away_are_counted() {
    check_gap(&run_with_outage(0, || {}));
}

#[test]
fn log_is_spilled_to_disk_while_server_is_away() {
    let log = run_with_outage(32 * 1024 * 1024, || {
        let kept = read_spilled_files();
        assert!(kept.iter().map(Vec::len).max().is_some_and(|length| length > 5_000_000), "{}", kept.len());
        let has_secret = |bytes: &Vec<u8>| bytes.windows(SECRET.len()).any(|part| part == SECRET.as_bytes());
        assert!(!kept.iter().any(has_secret), "it is masked before it is written");
        assert!(kept.iter().any(|bytes| bytes.windows(5).any(|part| part == b"x***x")));
    });
    assert_eq!(
        (count_output_bytes(&log), log.contains("log gap"), log.contains("x***x")),
        (BYTES, false, true)
    );
    assert_eq!(read_spilled_files(), Vec::<Vec<u8>>::new(), "nothing is left of it");
}

#[test]
fn log_above_spill_limit_keeps_first_part_and_counts_rest() {
    let lost = check_gap(&run_with_outage(2 * 1024 * 1024, || {}));
    let kept = BYTES - lost;
    assert!((5 << 20..=7 << 20).contains(&kept), "{kept}: four in memory and two on the disk");
}

/// Returns the contents of the unlinked files that this process has open. They belong to the current test, because each
/// test runs in a process of its own.
fn read_spilled_files() -> Vec<Vec<u8>> {
    let open = std::fs::read_dir("/proc/self/fd").expect("descriptors").flatten().map(|entry| entry.path());
    let nameless = open.filter(|path| {
        std::fs::read_link(path).is_ok_and(|to| {
            let to = to.to_string_lossy().into_owned();
            to.ends_with("(deleted)") && to.contains("/work/")
        })
    });
    nameless.map(|path| std::fs::read(path).expect("a file that is open")).collect()
}

#[test]
fn step_with_undeliverable_log_is_reported() {
    let fixture =
        StepRunnerFixture::with_options(|settings| settings.step_log_patience = Duration::from_millis(100));
    fixture.link.fail_log(Some(LinkError::Unavailable("the disk is broken".into())));
    expect_success(&fixture.run(script("short", "echo lost")));
    expect_success(&fixture.run(script("long", "echo lost; sleep 0.2; echo lost")));
    assert_eq!(
        (fixture.link.text_of("short"), fixture.link.wait_for_report("long").log_bytes),
        (String::new(), 0)
    );
}

/// Lets all running steps find a file `go` in their workspace.
fn let_go(fixture: &StepRunnerFixture) {
    let attempts = std::fs::read_dir(fixture.dir.path().join("work/attempts")).expect("attempts");
    for attempt in attempts.flatten() {
        std::fs::write(attempt.path().join("workspace/go"), "").expect("file");
    }
}

#[test]
fn log_that_a_lost_server_had_is_sent_again() {
    let fixture = StepRunnerFixture::with_options(|settings| settings.step_log_spill_bytes_max = 1024 * 1024);
    fixture.link.enqueue(script("a", "echo one; while [ ! -e go ]; do sleep 0.02; done; echo two"));
    fixture.link.wait_for_log("a", "one\n");
    fixture.link.lose_log_after("a", 2);
    let_go(&fixture);
    expect_success(&fixture.link.wait_for_report("a").outcome);
    assert_eq!(fixture.link.text_of("a"), "one\ntwo\n");
}

#[test]
fn log_that_cannot_be_sent_again_has_a_gap_line() {
    // Without a spill file, as in the embedded runner, nothing is kept after it was sent.
    let fixture =
        StepRunnerFixture::with_options(|settings| settings.step_log_patience = Duration::from_millis(100));
    fixture.link.enqueue(script("a", "echo one; while [ ! -e go ]; do sleep 0.02; done; echo two"));
    fixture.link.wait_for_log("a", "one\n");
    fixture.link.lose_log_after("a", 2);
    let_go(&fixture);
    let report = fixture.link.wait_for_report("a");
    expect_success(&report.outcome);
    let wanted = "on\n[berth] log gap: 2 bytes lost\ntwo\n";
    assert_eq!((fixture.link.text_of("a"), report.log_bytes), (wanted.to_owned(), wanted.len() as u64));
}

#[test]
fn refused_log_chunks_are_counted_as_gap() {
    let fixture = StepRunnerFixture::new();
    let run = "printf kept; sleep 0.2; echo lost; while [ ! -e go ]; do sleep 0.02; done; echo lost too";
    fixture.link.enqueue(script("a", run));
    fixture.link.wait_for_log("a", "kept");
    fixture.link.fail_log(Some(LinkError::Refused("the disk is full".into())));
    fixture.link.wait_for_log_failures(1);
    fixture.link.fail_log(None);
    let_go(&fixture);
    expect_success(&fixture.link.wait_for_report("a").outcome);
    assert_eq!(fixture.link.text_of("a"), "kept\n[berth] log gap: 14 bytes lost\n");
}

#[test]
fn log_delivery_after_step_end_survives_short_outage() {
    const LOG_PATIENCE: Duration = Duration::from_secs(2);
    const LONG: usize = 3 * berth_runner::LOG_CHUNK_BYTES_MAX;
    let fixture = StepRunnerFixture::with_options(|settings| settings.step_log_patience = LOG_PATIENCE);
    fixture.link.hold_log(true);
    fixture.link.set_unavailable_at_log_bytes(1);
    let done = fixture.dir.path().join("done");
    fixture.link.enqueue(script("a", &format!("head -c {LONG} /dev/zero; touch {}", done.display())));
    crate::fixture::wait_until("it is over", || done.exists());
    let over = Instant::now();
    crate::fixture::wait_until("it is over for long", || over.elapsed() > 2 * LOG_PATIENCE);
    fixture.link.hold_log(false);
    fixture.link.wait_for_log_failures(1);
    fixture.link.set_unavailable(false);
    expect_success(&fixture.link.wait_for_report("a").outcome);
    let log = fixture.link.log_of("a");
    assert!(log == vec![0; LONG], "{} of {LONG} bytes", log.len());
}
