//! A hundred thousand random sequences, each step looked at by the oracle. Four tests, so that two cores share them.

use berth_sim::locks::{Command, generate, run};

const LENGTH_MAX: u64 = 60;
const SEEDS_PER_TEST: u64 = 25_000;

fn commands(seed: u64) -> Vec<Command> {
    generate(seed, usize::try_from(1 + seed % LENGTH_MAX).expect("a small number"))
}

fn check_seeds(part: u64) {
    for seed in part * SEEDS_PER_TEST..(part + 1) * SEEDS_PER_TEST {
        if let Err(failed) = run(&commands(seed)) {
            panic!("seed {seed}: {failed}");
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
