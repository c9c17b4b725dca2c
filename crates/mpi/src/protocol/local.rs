//! A library's numbers for messages through the memory of a node.

use fabriscope_catalog::{Mechanism, SharedMemory, SharedMemoryParameters, SingleCopyParameters};
use fabriscope_units::Span;

/// Messages through the memory of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Local {
    /// The library's numbers.
    pub memory: SharedMemoryParameters,
    /// Long messages are copied by the receiver alone.
    pub single: Option<Single>,
}

/// A single copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Single {
    /// Its name.
    pub mechanism: Mechanism,
    /// Longer messages are copied so: the larger one of what its costs say and the eager limit.
    pub above: u32,
    /// What it costs beside its bytes.
    pub costs: SingleCopyParameters,
}

impl Local {
    /// How a message of `size` bytes is copied once, if it is.
    #[must_use]
    pub fn single(&self, size: u32) -> Option<Single> {
        self.single.filter(|single| size > single.above)
    }
}

impl Single {
    /// The sender's core time: `declare + ⌈size / page⌉ declare_page`.
    #[must_use]
    pub fn declaring(&self, size: u32) -> Span {
        let SingleCopyParameters { declare, declare_page, .. } = self.costs;
        declare.unwrap_or_default() + declare_page.unwrap_or_default() * pages(size)
    }
    /// The receiver's core time before it copies: `call + ⌈size / page⌉ page`, and for what of the buffer is not `attached` yet
    /// `attach + n attach_page`.
    #[must_use]
    pub fn reaching(&self, size: u32, attached: u32) -> Span {
        let SingleCopyParameters { call, page, attach, attach_page, .. } = self.costs;
        let fresh = pages(size).saturating_sub(pages(attached));
        let attaching = if fresh > 0 { attach.unwrap_or_default() + attach_page.unwrap_or_default() * fresh } else { Span::ZERO };
        call + page * pages(size) + attaching
    }
}

impl From<&SharedMemory> for Local {
    fn from(part: &SharedMemory) -> Local {
        let memory = part.plain();
        let single = |costs: &SingleCopyParameters| Single {
            mechanism: memory.mechanism,
            above: costs.above.max(memory.eager_limit),
            costs: *costs,
        };
        let chunk = memory.chunk.max(1);
        Local { memory: SharedMemoryParameters { chunk, ..memory }, single: memory.costs(memory.mechanism).map(single) }
    }
}

/// Pages of host memory.
pub(crate) fn pages(size: u32) -> u64 {
    u64::from(size.div_ceil(PAGE))
}

/// A page of host memory, in bytes. Basis: standard (x86-64 and Arm base pages).
const PAGE: u32 = 4096;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_single_copy_costs_a_call_and_its_pages() {
        let ns = Span::from_ns;
        let costs = SingleCopyParameters {
            above: 8192,
            call: ns(500),
            page: ns(50),
            declare: None,
            declare_page: None,
            attach: None,
            attach_page: None,
        };
        let cma = Single { mechanism: Mechanism::Cma, above: 8192, costs };
        // 1 MiB are 256 pages, a byte more is another.
        assert_eq!(cma.reaching(1 << 20, 0), ns(500 + 256 * 50));
        assert_eq!(cma.reaching((1 << 20) + 1, 0), ns(500 + 257 * 50));
        assert_eq!(cma.declaring(1 << 20), Span::ZERO);
        let costs = SingleCopyParameters { call: ns(100), page: ns(0), attach: Some(ns(2000)), attach_page: Some(ns(250)), ..costs };
        let xpmem = Single { mechanism: Mechanism::Xpmem, costs, ..cma };
        // A region is mapped once.
        assert_eq!(xpmem.reaching(8192, 0), ns(100 + 2000 + 2 * 250));
        assert_eq!(xpmem.reaching(8192, 8192), ns(100));
        assert_eq!(xpmem.reaching(12_288, 8192), ns(100 + 2000 + 250));
        let memory = SharedMemoryParameters {
            eager_limit: 4096,
            mechanism: Mechanism::Cma,
            chunk: 4096,
            lines: 2,
            inline: 24,
            slots: None,
            cma: Some(cma.costs),
            knem: None,
            xpmem: None,
        };
        let local = Local { memory, single: Some(cma) };
        assert_eq!((local.single(8192), local.single(8193)), (None, Some(cma)));
    }
}
