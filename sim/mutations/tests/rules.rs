//! Runs the suites of `berth-sim` with mutations of the rules. Compiled only in the scratch copy of `cargo xtask
//! mutants`, as `sim/tests/it/mutations.rs`.

use std::ops::Range;

use berth_core::mutation::run_suite;
use berth_sim::runs::{calls, compare, scenario, sequence, stage_queue};
use berth_sim::{drill, locks, runs};

/// Seeds to try. A mutation that none of them catches counts as missed.
const SEEDS: Range<u64> = 0..10_000;
const CALL_SEEDS: Range<u64> = 0..20_000;
const DRILL_SEEDS: Range<u64> = 0..2_000;

#[test]
fn lock_sequences_catch_mutations() {
    run_suite("locks", SEEDS, |seed| {
        let violation = locks::check(&locks::generate(seed, 60)).err()?;
        Some(violation.to_string())
    });
}

#[test]
fn run_sequences_scenarios_and_queues_catch_mutations() {
    run_suite("runs", SEEDS, |seed| {
        let sequence = runs::check(&sequence(seed)).err();
        let scenario = || compare(&scenario(seed)).err().map(|failed| failed.violation);
        let queue = || stage_queue::check(seed).err().map(|failed| failed.violation);
        let violation = sequence.or_else(scenario).or_else(queue)?;
        Some(violation.to_string())
    });
}

#[test]
fn calls_of_custom_steps_catch_mutations() {
    run_suite("calls", CALL_SEEDS, |seed| Some(calls::check(seed).err()?.to_string()));
}

/// Runs drills without the oracle: only the deployment target, which does not know the rules, can detect a violation.
#[test]
fn drills_seen_by_the_target_alone_catch_mutations() {
    run_suite("drill", DRILL_SEEDS, |seed| Some(drill::run_unwatched(seed).err()?.violation.to_string()));
}
