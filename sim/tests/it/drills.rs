//! Drills: simulated clients, runners and servers that fail.

use berth_sim::drill::{self, DrillTally};
use berth_testkit::outcome;

#[test]
fn drills_break_no_promise() {
    let seeds = 0..outcome::short_or_long(400, 2_000);
    let mut total = DrillTally::default();
    for seed in seeds.clone() {
        match drill::run(seed) {
            Ok(tally) => total += tally,
            Err(broken) => panic!("{broken}"),
        }
    }
    outcome::report_seed_coverage(&format!("drills ({total})"), &seeds);
    // Each kind of fault must have occurred.
    let rare = [total.outdated, total.crashes, total.refused, total.lost];
    assert!(rare.into_iter().all(|count| count > seeds.end / 10), "{total}");
}

#[test]
fn same_seed_gives_same_trace() {
    for seed in 0..50 {
        assert_eq!(drill::trace(seed), drill::trace(seed), "seed {seed}");
    }
}
