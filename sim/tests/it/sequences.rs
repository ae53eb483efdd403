//! Random sequences of commands, with the oracle checking every step. Split into four tests, so that they run in
//! parallel.

use berth_sim::locks::{run, sequence, trace};
use berth_testkit::outcome;

fn check_seeds(part: u64) {
    let seeds = outcome::seed_range(part, outcome::short_or_long(2_500, 25_000));
    for seed in seeds.clone() {
        if let Err(failed) = run(&sequence(seed)) {
            panic!("{failed}\nseed {seed}\nagain: cargo xtask sim sequences --seed {seed}");
        }
    }
    outcome::report_seed_coverage("lock sequences", &seeds);
}

#[test]
fn no_sequence_breaks_a_promise_part_1() {
    check_seeds(0);
}

#[test]
fn no_sequence_breaks_a_promise_part_2() {
    check_seeds(1);
}

#[test]
fn no_sequence_breaks_a_promise_part_3() {
    check_seeds(2);
}

#[test]
fn no_sequence_breaks_a_promise_part_4() {
    check_seeds(3);
}

#[test]
fn same_seed_gives_same_trace() {
    for seed in 0..500 {
        assert_eq!(sequence(seed), sequence(seed));
        assert_eq!(trace(&sequence(seed)), trace(&sequence(seed)), "seed {seed}");
    }
}
