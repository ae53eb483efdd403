//! Random command sequences for a run, checked by the oracle; scenarios compared with the reference model; and several
//! runs that queue for the same stages. Split into several tests, so that they run in parallel.

use std::collections::BTreeMap;

use berth_core::deployment::environment::report::RunnerOrder;
use berth_sim::runs::{
    RunAnswer, RunRequest, RunSimulation, compare, run, scenario, sequence, stage_queue, trace,
};
use berth_testkit::outcome;

fn check_sequences(part: u64) {
    let seeds = outcome::seed_range(part, outcome::short_or_long(2_500, 25_000));
    for seed in seeds.clone() {
        if let Err(failed) = run(&sequence(seed)) {
            panic!("{failed}\nseed {seed}\nagain: cargo xtask sim runs --seed {seed}");
        }
    }
    outcome::report_seed_coverage("run sequences", &seeds);
}

#[test]
fn no_sequence_breaks_a_promise_part_1() {
    check_sequences(0);
}

#[test]
fn no_sequence_breaks_a_promise_part_2() {
    check_sequences(1);
}

#[test]
fn no_sequence_breaks_a_promise_part_3() {
    check_sequences(2);
}

#[test]
fn no_sequence_breaks_a_promise_part_4() {
    check_sequences(3);
}

fn check_scenarios(part: u64) {
    let seeds = outcome::seed_range(part, outcome::short_or_long(2_000, 10_000));
    for seed in seeds.clone() {
        if let Err(failed) = compare(&scenario(seed)) {
            panic!("{failed}\nseed {seed}\nagain: cargo xtask sim runs --seed {seed}");
        }
    }
    outcome::report_seed_coverage("run scenarios against the reference", &seeds);
}

#[test]
fn scenarios_match_reference_part_1() {
    check_scenarios(0);
}

#[test]
fn scenarios_match_reference_part_2() {
    check_scenarios(1);
}

#[test]
fn stage_has_one_run_and_newest_enters() {
    let seeds = 0..outcome::short_or_long(1_000, 5_000);
    for seed in seeds.clone() {
        if let Err(failed) = stage_queue::check(seed) {
            panic!("{failed}\nseed {seed}\nagain: cargo xtask sim runs --seed {seed}");
        }
    }
    outcome::report_seed_coverage("queues of runs for the same stages", &seeds);
}

#[test]
fn same_seed_gives_same_trace() {
    for seed in 0..300 {
        assert_eq!(trace(&sequence(seed)), trace(&sequence(seed)), "seed {seed}");
        assert_eq!(stage_queue::trace(seed), stage_queue::trace(seed), "seed {seed}");
    }
}

/// The generated sequences must contain rare cases.
#[test]
fn sequences_cover_rare_events() {
    let (mut events, mut answers) = (BTreeMap::new(), BTreeMap::new());
    for seed in 0..3_000 {
        let sequence = sequence(seed);
        let mut simulation = RunSimulation::begin(&sequence.shape, sequence.tries, sequence.is_built)
            .unwrap_or_else(|violation| panic!("{violation}"));
        for command in &sequence.commands {
            let steps = simulation.perform(command).unwrap_or_else(|violation| panic!("{violation}"));
            for (asked, told) in steps {
                for event in &told.events {
                    *events.entry(event.kind.as_str()).or_insert(0) += 1;
                }
                let word = match (&asked, &told.answer) {
                    _ if told.is_conflict => "a nonce twice",
                    (RunRequest::Grant { .. }, RunAnswer::Granted(_)) if !told.is_change => "the same grant",
                    (RunRequest::Grant { .. }, RunAnswer::Refused(_)) => "a grant refused",
                    (RunRequest::Report { .. }, RunAnswer::Order(RunnerOrder::Stale)) if !told.is_change => {
                        "a late report"
                    }
                    (RunRequest::Heartbeat { .. }, RunAnswer::Order(RunnerOrder::Cancel)) => "told to stop",
                    (RunRequest::Resolve { .. }, RunAnswer::Refused(_)) => "nothing to resolve",
                    (RunRequest::Retry { .. }, RunAnswer::Refused(_)) => "nothing to retry",
                    (RunRequest::Cancel, RunAnswer::Done) if !told.is_change => "cancelled already",
                    _ => continue,
                };
                *answers.entry(word).or_insert(0) += 1;
            }
        }
    }
    println!("{events:#?}\n{answers:#?}");
    // All fourteen kinds of run events and all eight cases of the match above must have occurred.
    assert_eq!((events.len(), answers.len()), (14, 8));
    let rarest = events.values().chain(answers.values()).min().copied();
    assert!(rarest.is_some_and(|count| count >= 10), "met too seldom: {events:?} {answers:?}");
}
