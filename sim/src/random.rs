//! Deterministic pseudo-random numbers: the same seed gives the same run on every machine.

/// A splitmix64 generator.
#[derive(Debug, Clone)]
pub struct SeededRandom(u64);

impl SeededRandom {
    pub const fn from_seed(seed: u64) -> Self {
        Self(seed)
    }

    pub const fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Returns a number from 0 to just below `end`.
    pub const fn below(&mut self, end: u64) -> u64 {
        self.draw() % end
    }

    /// Like `below`, for numbers that fit into a byte.
    pub fn below_u8(&mut self, end: u8) -> u8 {
        u8::try_from(self.below(u64::from(end))).unwrap_or(0)
    }

    /// Returns true with a probability of `share` percent.
    pub const fn percent(&mut self, share: u64) -> bool {
        self.below(100) < share
    }

    pub fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        let index = self.below(from.len() as u64);
        from[usize::try_from(index).unwrap_or(0)]
    }
}
