//! Handwritten histories: correct ones pass, and each kind of error is detected.

use super::check_history;
use super::history::{Operation, parse_history};
use super::intervals;
use super::lock::LockSpec;
use super::search::{SearchVerdict, Specification, search};

/// Which of the two checks is expected to report an error.
#[derive(Debug, PartialEq, Eq)]
struct DetectedBy {
    by_search: bool,
    by_intervals: bool,
}

const NOT_AT_ALL: DetectedBy = DetectedBy { by_search: false, by_intervals: false };
const BY_BOTH: DetectedBy = DetectedBy { by_search: true, by_intervals: true };
const BY_SEARCH: DetectedBy = DetectedBy { by_search: true, by_intervals: false };
const BY_INTERVALS: DetectedBy = DetectedBy { by_search: false, by_intervals: true };

#[track_caller]
fn check_detection(expected: &DetectedBy, history: &str) {
    let history = parse_history(history);
    let found = DetectedBy {
        by_search: search::<LockSpec>(&history) != SearchVerdict::Linearizable,
        by_intervals: intervals::check(&history).is_err(),
    };
    assert_eq!(found, *expected, "{:?}", check_history(&history));
    assert_eq!(check_history(&history).is_err(), *expected != NOT_AT_ALL);
}

#[test]
fn sequential_history_passes() {
    check_detection(&NOT_AT_ALL, "");
    check_detection(
        &NOT_AT_ALL,
        "0-1 claim -> opened s1 #1
         2-3 claim -> held s1 #1
         4-5 get -> held s1 #1
         6-7 release s1 -> released
         8-9 release s1 -> not active
         8-9 get -> free #1
         10-11 force -> opened s2 #2
         12-13 force if #2 -> opened s3 #3
         14-15 force if #2 -> moved
         16-17 release s2 -> not active
         18-19 get -> held s3 #3",
    );
}

#[test]
fn overlapping_calls_may_take_effect_in_any_order() {
    check_detection(&NOT_AT_ALL, "0-9 claim -> held s1 #1\n1-10 claim -> opened s1 #1");
    check_detection(&NOT_AT_ALL, "0-9 get -> free #0\n1-2 claim -> opened s1 #1");
    check_detection(
        &NOT_AT_ALL,
        "0-20 force -> opened s2 #2
         10-42 claim -> opened s1 #1
         20-41 release s2 -> not active
         50-83 claim -> held s2 #2",
    );
    check_detection(
        &NOT_AT_ALL,
        "0-9 force -> opened s2 #2\n1-8 force -> opened s1 #1\n2-7 get -> held s1 #1",
    );
    check_detection(
        &NOT_AT_ALL,
        "0-1 claim -> opened s1 #1
         2-9 release s1 -> not active
         2-9 force if #1 -> opened s2 #2
         2-9 force if #1 -> moved
         2-9 get -> held s1 #1",
    );
}

#[test]
fn unanswered_call_may_take_effect_later_or_never() {
    let lost = "0-1 claim -> opened s1 #1\n2-? release s1\n";
    check_detection(&NOT_AT_ALL, &format!("{lost}10-11 get -> held s1 #1\n12-13 get -> held s1 #1"));
    check_detection(&NOT_AT_ALL, &format!("{lost}10-11 get -> held s1 #1\n12-13 get -> free #1"));
    check_detection(&NOT_AT_ALL, &format!("{lost}10-11 get -> free #1\n12-13 claim -> opened s2 #2"));
    check_detection(&BY_BOTH, &format!("{lost}10-11 get -> free #1\n12-13 get -> held s1 #1"));
}

#[test]
fn unacknowledged_session_is_identified_by_a_later_response() {
    let lost = "0-? claim\n0-? force if #1\n";
    check_detection(&NOT_AT_ALL, &format!("{lost}10-11 claim -> held s7 #1\n12-13 release s7 -> released"));
    check_detection(
        &NOT_AT_ALL,
        &format!("{lost}10-11 get -> held s8 #2\n12-13 force if #2 -> opened s9 #3"),
    );
    check_detection(&BY_SEARCH, &format!("{lost}10-11 claim -> held s7 #2\n12-13 force if #2 -> moved"));
    check_detection(&BY_BOTH, &format!("{lost}10-11 claim -> held s7 #1\n12-13 get -> held s8 #1"));
    check_detection(&BY_BOTH, &format!("{lost}10-11 claim -> held s7 #3"));
}

#[test]
fn two_holders_at_once_are_detected() {
    check_detection(
        &BY_BOTH,
        "0-1 claim -> opened s1 #1\n2-3 claim -> opened s2 #2\n4-5 release s1 -> released",
    );
    check_detection(&BY_SEARCH, "0-5 claim -> opened s1 #1\n1-6 claim -> opened s2 #2");
    check_detection(&BY_BOTH, "0-5 claim -> opened s1 #1\n1-6 claim -> opened s2 #1");
    check_detection(
        &BY_BOTH,
        "0-1 claim -> opened s1 #1
         2-3 force -> opened s2 #2
         4-5 claim -> held s1 #1",
    );
}

#[test]
fn fence_that_falls_repeats_or_jumps_is_detected() {
    let first = "0-1 claim -> opened s1 #1\n2-3 release s1 -> released\n";
    let second = "4-5 claim -> opened s2 #2\n6-7 release s2 -> released\n";
    check_detection(&NOT_AT_ALL, &format!("{first}{second}"));
    check_detection(&BY_BOTH, &format!("{first}{second}8-9 claim -> opened s3 #1"));
    check_detection(&BY_BOTH, &format!("{first}4-5 claim -> opened s2 #1"));
    check_detection(&BY_BOTH, &format!("{first}4-5 claim -> opened s2 #3"));
    check_detection(&BY_BOTH, &format!("{first}{second}8-9 get -> free #1"));
}

#[test]
fn refusal_that_names_the_wrong_holder_is_detected() {
    let first = "0-1 claim -> opened s1 #1\n";
    // The refusal names a later session, an earlier one, an unknown one, or the right session with a wrong fence.
    check_detection(&BY_BOTH, &format!("{first}2-3 claim -> held s2 #2\n4-5 force -> opened s2 #2"));
    check_detection(&BY_BOTH, &format!("{first}2-3 release s1 -> released\n4-5 claim -> held s1 #1"));
    check_detection(&BY_BOTH, &format!("{first}2-3 claim -> held s9 #1"));
    check_detection(&BY_BOTH, &format!("{first}2-3 claim -> held s1 #2"));
    check_detection(&BY_BOTH, "0-1 claim -> held s1 #1\n2-3 claim -> opened s1 #1");
}

#[test]
fn release_that_ends_another_session_is_detected() {
    let taken = "0-1 claim -> opened s1 #1\n2-3 force -> opened s2 #2\n";
    check_detection(&NOT_AT_ALL, &format!("{taken}4-5 release s1 -> not active\n6-7 get -> held s2 #2"));
    check_detection(&BY_BOTH, &format!("{taken}4-5 release s1 -> released\n6-7 get -> free #2"));
    check_detection(&BY_SEARCH, &format!("{taken}4-5 release s1 -> not active\n6-7 get -> free #2"));
    check_detection(&BY_SEARCH, &format!("{taken}4-? release s1\n6-7 get -> free #2"));
    check_detection(
        &BY_BOTH,
        "0-1 claim -> opened s1 #1\n2-3 release s1 -> not active\n4-5 get -> held s1 #1",
    );
    check_detection(
        &BY_BOTH,
        "0-1 claim -> opened s1 #1\n2-9 release s1 -> released\n3-9 release s1 -> released",
    );
}

#[test]
fn acknowledged_claim_lost_in_a_crash_is_detected() {
    // The server crashes at time 50; calls in flight at that time get no response.
    let before =
        "0-1 claim -> opened s1 #1\n2-3 release s1 -> released\n4-5 claim -> opened s2 #2\n48-? get\n";
    check_detection(&NOT_AT_ALL, &format!("{before}60-61 get -> held s2 #2"));
    check_detection(&BY_SEARCH, &format!("{before}60-61 get -> free #2"));
    check_detection(&BY_BOTH, &format!("{before}60-61 get -> free #1"));
    check_detection(&BY_BOTH, &format!("{before}60-61 claim -> opened s3 #2"));
    check_detection(&BY_SEARCH, &format!("{before}60-61 claim -> opened s3 #3"));
    // If a release was in flight, the same history is correct.
    check_detection(&NOT_AT_ALL, &format!("{before}49-? release s2\n60-61 claim -> opened s3 #3"));
}

#[test]
fn force_claim_that_ignores_if_match_is_detected() {
    let taken = "0-1 claim -> opened s1 #1\n2-3 force -> opened s2 #2\n";
    check_detection(&NOT_AT_ALL, &format!("{taken}4-5 force if #1 -> moved"));
    check_detection(&BY_SEARCH, &format!("{taken}4-5 force if #1 -> opened s3 #3"));
    check_detection(&BY_SEARCH, &format!("{taken}4-5 force if #2 -> moved"));
    check_detection(
        &BY_SEARCH,
        "0-1 claim -> opened s1 #1\n2-3 release s1 -> released\n4-5 force if #1 -> opened s2 #2",
    );
    check_detection(&BY_SEARCH, &format!("{taken}4-5 force -> moved"));
}

#[test]
fn force_claim_that_frees_the_lock_in_between_is_detected() {
    let first = "0-1 claim -> opened s1 #1\n";
    check_detection(&BY_SEARCH, &format!("{first}2-9 force -> opened s2 #2\n3-4 get -> free #1"));
    check_detection(&BY_SEARCH, &format!("{first}2-9 force -> opened s3 #3\n3-4 claim -> opened s2 #2"));
}

#[test]
fn session_id_used_twice_is_detected() {
    check_detection(
        &BY_INTERVALS,
        "0-1 claim -> opened s1 #1\n2-3 release s1 -> released\n4-5 claim -> opened s1 #2",
    );
}

#[test]
fn stale_read_is_detected() {
    let moved = "0-1 claim -> opened s1 #1\n2-3 release s1 -> released\n4-5 claim -> opened s2 #2\n";
    check_detection(&NOT_AT_ALL, &format!("{moved}3-6 get -> free #1"));
    check_detection(&BY_BOTH, &format!("{moved}6-7 get -> free #1"));
    check_detection(&BY_BOTH, &format!("{moved}6-7 get -> held s1 #1"));
    check_detection(&BY_BOTH, "0-9 claim -> opened s1 #1\n1-2 get -> held s1 #1\n3-4 get -> free #0");
}

#[test]
fn search_finds_the_order_of_many_overlapping_calls() {
    // All calls overlap, and only the order of the fences is valid. The search tries it last.
    let mut history = String::new();
    for number in (1..=60).rev() {
        history += &format!("0-1000 claim -> opened s{number} #{number}\n");
        history += &format!("0-1000 release s{number} -> released\n");
    }
    check_detection(&NOT_AT_ALL, &history);
    check_detection(&BY_BOTH, &format!("{history}2000-2001 get -> held s60 #60"));
}

#[test]
fn search_with_unanswered_calls_stays_small() {
    let mut history = String::from("0-1 claim -> opened s1 #1\n");
    for _ in 0..8 {
        history += "2-? force\n2-? claim\n2-? release s1\n2-? force if #1\n";
    }
    for number in 1..100 {
        let (at, fence) = (10 * number, 8 + number);
        history += &format!("{at}-{} force -> opened t{number} #{fence}\n", at + 15);
        history += &format!("{}-{} claim -> held t{number} #{fence}\n", at + 3, at + 14);
    }
    check_detection(&NOT_AT_ALL, &history);
    check_detection(
        &BY_SEARCH,
        &format!("{history}2000-2001 release t99 -> not active\n2002-2003 get -> free #107"),
    );
}

/// A counter that returns its value and then increments it. Shows that the search also works for other specifications
/// than the lock.
struct CounterSpec;

impl Specification for CounterSpec {
    type State = u64;
    type Operation = Operation;

    fn start() -> u64 {
        0
    }

    fn step(state: &u64, operation: &Operation) -> Option<u64> {
        let told = format!("{operation}").contains(&format!("free #{state}"));
        (told || operation.outcome.is_none()).then_some(state + 1)
    }

    fn invoked_at(operation: &Operation) -> u64 {
        operation.invoked
    }

    fn returned_at(operation: &Operation) -> Option<u64> {
        operation.outcome.as_ref().map(|outcome| outcome.returned)
    }
}

#[test]
fn search_works_for_any_specification_and_explains_failures() {
    let history = |text: &str| search::<CounterSpec>(&parse_history(text));
    assert_eq!(history("0-1 get -> free #0\n2-3 get -> free #1"), SearchVerdict::Linearizable);
    assert_eq!(history("0-5 get -> free #1\n1-3 get -> free #0"), SearchVerdict::Linearizable);
    assert_eq!(history("0-? get\n1-3 get -> free #1"), SearchVerdict::Linearizable);
    assert_eq!(
        history("0-1 get -> free #0\n2-3 get -> free #2\n4-5 get -> free #1"),
        SearchVerdict::Wrong { order: vec![0], stuck: 1 }
    );
}
