//! Custom steps that are called until they are done.

use berth_sim::runs::calls::check;
use berth_testkit::outcome;

#[test]
fn custom_step_has_one_effect_and_resumes() {
    let seeds = 0..outcome::short_or_long(2_000, 20_000);
    for seed in seeds.clone() {
        if let Err(violation) = check(seed) {
            panic!("seed {seed}: {violation}");
        }
    }
    outcome::report_seed_coverage("custom steps that are called until they are done", &seeds);
}
