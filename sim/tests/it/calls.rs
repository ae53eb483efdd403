//! Custom steps that are called until they are done.

use berth_sim::runs::calls::check;

const SEEDS: u64 = 20_000;

#[test]
fn a_custom_step_takes_effect_once_and_goes_on_where_it_was() {
    for seed in 0..SEEDS {
        if let Err(violation) = check(seed) {
            panic!("seed {seed}: {violation}");
        }
    }
}
