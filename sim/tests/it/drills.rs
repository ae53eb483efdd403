//! Two thousand runs in which clients, runners and servers fail.

use berth_sim::drill::{self, Tally};

const SEEDS: u64 = 2_000;

#[test]
fn no_failure_of_clients_runners_and_servers_breaks_a_promise() {
    let mut total = Tally::default();
    for seed in 0..SEEDS {
        match drill::run(seed) {
            Ok(tally) => total += tally,
            Err(broken) => panic!("{broken}"),
        }
    }
    println!("{total}");
    // A drill in which nothing goes wrong proves nothing.
    let rare = [total.outdated, total.crashes, total.refused, total.lost];
    assert!(rare.into_iter().all(|count| count > SEEDS / 10), "{total}");
}

#[test]
fn a_seed_is_a_story() {
    for seed in 0..50 {
        assert_eq!(drill::trace(seed), drill::trace(seed), "seed {seed}");
    }
}
