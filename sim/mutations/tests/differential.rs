//! Runs the differential test of `berth-store` with a mutation in the model, while the database, on another thread,
//! uses the original rules. Compiled only in the scratch copy of `cargo xtask mutants`, as
//! `crates/store/tests/it/differential/mutations.rs`.

use std::ops::Range;

use berth_core::mutation::run_suite;

use super::backend::SharedDatabase;
use super::run_and_compare;

/// Seeds to try. A mutation that none of them catches counts as missed.
const SEEDS: Range<u64> = 0..200;

#[test]
fn mutated_model_differs_from_the_database() {
    let database = SharedDatabase::new();
    let mut number = 0;
    run_suite("differential", SEEDS, |seed| {
        number += 1;
        run_and_compare(&database, number, seed).err()
    });
}
