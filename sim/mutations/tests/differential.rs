//! Runs the differential test of `berth-store` with a mutated model, while the database uses the original rules on
//! another thread. Compiled in the scratch copy of `cargo xtask mutants`, as
//! `crates/store/tests/it/differential/mutations.rs`.

use std::ops::Range;

use berth_core::mutation::run_suite;

use super::backend::Database;
use super::compare;

/// Seeds to try before a mutation counts as missed.
const SEEDS: Range<u64> = 0..200;

#[test]
fn mutated_model_differs_from_the_database() {
    let database = Database::new();
    let mut number = 0;
    run_suite("differential", SEEDS, |seed| {
        number += 1;
        compare(&database, number, seed).err()
    });
}
