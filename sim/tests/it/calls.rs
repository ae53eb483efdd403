//! Custom steps that are called until they are done.

use berth_sim::budget;
use berth_sim::runs::calls::check;

#[test]
fn a_custom_step_takes_effect_once_and_goes_on_where_it_was() {
    let seeds = 0..budget::size(2_000, 20_000);
    for seed in seeds.clone() {
        if let Err(violation) = check(seed) {
            panic!("seed {seed}: {violation}");
        }
    }
    budget::report("custom steps that are called until they are done", &seeds);
}
