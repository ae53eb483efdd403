//! A hundred thousand random sequences, each step looked at by the oracle. Four tests, so that cores share them.

use berth_sim::locks::{run, sequence, trace};

const SEEDS_PER_TEST: u64 = 25_000;

fn check_seeds(part: u64) {
    for seed in part * SEEDS_PER_TEST..(part + 1) * SEEDS_PER_TEST {
        if let Err(failed) = run(&sequence(seed)) {
            panic!("{failed}\nseed {seed}\nagain: cargo xtask sim sequences --seed {seed}");
        }
    }
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
fn a_seed_is_a_story() {
    for seed in 0..500 {
        assert_eq!(sequence(seed), sequence(seed));
        assert_eq!(trace(&sequence(seed)), trace(&sequence(seed)), "seed {seed}");
    }
}
