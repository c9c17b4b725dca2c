//! A buffer that all ports have in common, shared by dynamic thresholds.
//!
//! Source: A. Choudhury and E. Hahne, "Dynamic Queue Length Thresholds for Shared-Memory Packet Switches", IEEE/ACM Trans. Networking 6(2),
//! 1998.
//! Modelled: a queue may grow to a share of what is free. Not modelled: thresholds for pauses, cells of a chip's memory.

use fabriscope_units::{Bytes, parameters};

parameters! {
    /// A buffer that all ports have in common, shared by dynamic thresholds: a queue may grow to `alpha` times what is free.
    pub struct SharedBuffer as "Shared" {
        /// The size of the buffer.
        pub total: Bytes,
        /// The share of what is free that one queue may take.
        pub alpha: f64,
    }
}

impl SharedBuffer {
    /// What a queue may grow to while all of them hold `held`.
    #[must_use]
    pub fn limit(&self, held: Bytes) -> Bytes {
        Bytes((self.alpha * self.total.saturating_sub(held).0 as f64) as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_gets_its_share_of_what_is_free() {
        let buffer = SharedBuffer { total: Bytes(1000), alpha: 0.5 };
        // Half of 1000, half of what 400 leave, nothing where all is taken.
        assert_eq!([0, 400, 2000].map(|held| buffer.limit(Bytes(held))), [500, 300, 0].map(Bytes));
    }
}
