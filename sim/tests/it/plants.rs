//! A checker that never fails proves nothing: every mistake that can be planted into the rules is found.

use berth_core::plant::{Plant, with_plant};
use berth_sim::locks::{check, generate};

const SEQUENCES_MAX: u64 = 10_000;

/// The first seed that shows the mistake, and which promise it breaks.
fn find(plant: Plant) -> Option<(u64, String)> {
    with_plant(plant, || {
        (0..SEQUENCES_MAX).find_map(|seed| {
            let commands = generate(seed, 60);
            check(&commands).err().map(|violation| (seed, violation.to_string()))
        })
    })
}

#[test]
fn every_planted_mistake_is_found() {
    let mut missed = Vec::new();
    for plant in Plant::LOCKS {
        match find(*plant) {
            Some((seed, what)) => {
                let line: String = what.lines().next().unwrap_or_default().chars().take(90).collect();
                println!("{plant:<24} seed {seed:>5}  {line}", plant = format!("{plant:?}"));
            }
            None => missed.push(plant.what()),
        }
    }
    assert!(missed.is_empty(), "nothing noticed that {missed:#?}");
}
