//! Random numbers that a seed decides: the same seed and the same name give the same numbers everywhere.

use std::time::Duration;

/// A stream of random numbers.
#[derive(Debug, Clone)]
pub(crate) struct Random(fastrand::Rng);

impl Random {
    /// The stream of this name. Streams of different names do not depend on each other, so that one more draw in one
    /// of them changes nothing elsewhere.
    pub(crate) fn new(seed: u64, name: &str) -> Self {
        // FNV-1a, which is enough to keep names apart.
        let mut hash = 0xcbf2_9ce4_8422_2325_u64;
        for byte in name.bytes().chain(seed.to_le_bytes()) {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
        Self(fastrand::Rng::with_seed(hash))
    }

    /// A number below `most`.
    pub(crate) fn below(&mut self, most: usize) -> usize {
        self.0.usize(..most.max(1))
    }

    /// Says yes so many times in a thousand.
    pub(crate) fn chance(&mut self, per_mille: u32) -> bool {
        self.0.u32(..1_000) < per_mille
    }

    /// A time between these, in whole milliseconds.
    pub(crate) fn millis(&mut self, from: u64, to: u64) -> Duration {
        Duration::from_millis(self.0.u64(from..=to))
    }

    /// One of these.
    pub(crate) fn pick<T: Clone>(&mut self, items: &[T]) -> T {
        items[self.below(items.len())].clone()
    }

    /// Sixteen bytes, for an id.
    pub(crate) fn bytes(&mut self) -> [u8; 16] {
        self.0.u128(..).to_le_bytes()
    }
}
