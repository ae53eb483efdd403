//! Custom steps that are called until they are done.

use berth_core::plant::{Plant, with_plant};
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

/// A checker that never fails proves nothing.
#[test]
fn every_mistake_planted_into_calls_is_found() {
    let mut missed = Vec::new();
    for plant in Plant::CALLS {
        let found = with_plant(*plant, || (0..SEEDS).find_map(|seed| Some((seed, check(seed).err()?))));
        match found {
            Some((seed, violation)) => println!("{plant:?}: seed {seed}, {violation}"),
            None => missed.push(plant.what()),
        }
    }
    assert!(missed.is_empty(), "nothing noticed that {missed:#?}");
}
