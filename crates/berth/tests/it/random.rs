//! Reproducible random numbers.

use std::time::{SystemTime, UNIX_EPOCH};

use berth_testkit::outcome;

const SEED: u64 = 1;

/// A small pseudo-random generator with a seed.
#[derive(Debug, Clone)]
pub(crate) struct SeededRandom(u64);

impl SeededRandom {
    pub(crate) fn from_seed(seed: u64) -> Self {
        Self(seed)
    }

    /// Takes the seed from this environment variable. By default the seed is fixed in short runs and taken from the
    /// clock in long ones. Prints the seed.
    pub(crate) fn from_env(variable: &str) -> Self {
        let given = std::env::var(variable).ok().and_then(|seed| seed.parse().ok());
        let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock after 1970");
        let seed = given.unwrap_or(outcome::short_or_long(SEED, now.subsec_nanos().into()));
        println!("{variable}={seed}");
        Self(seed)
    }

    /// Returns the next number, with the `SplitMix64` algorithm.
    pub(crate) fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub(crate) fn next_in(&mut self, range: std::ops::Range<u64>) -> u64 {
        range.start + self.next_u64() % (range.end - range.start)
    }

    /// Returns one of these at random.
    pub(crate) fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.next_in(0..from.len() as u64) as usize]
    }
}
