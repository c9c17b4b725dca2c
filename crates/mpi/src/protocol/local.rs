//! A library's numbers for messages through the memory of a node.

use fabriscope_catalog::{Mechanism, SharedMemory};
use fabriscope_units::{Bytes, Span};

/// Messages through the memory of a node; sizes in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Local {
    /// Largest message that is copied in and out at once.
    pub eager_limit: u32,
    /// Size of a chunk of longer ones that go through shared memory.
    pub chunk: u32,
    /// Lines that each side of a message fetches from another core, beside the one that the receiver waits for.
    pub lines: u32,
    /// Payload that travels in that line.
    pub inline: u32,
    /// Long messages are copied by the receiver alone.
    pub single: Option<Single>,
}

/// What a single copy costs beside its bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Single {
    /// Its name.
    pub mechanism: Mechanism,
    /// Longer messages are copied so.
    pub above: u32,
    /// The receiver's core time of a message, and of each of its pages.
    pub call: (Span, Span),
    /// The sender's.
    pub declare: (Span, Span),
    /// The receiver's of a buffer that it maps, and of each page that it touches first.
    pub attach: (Span, Span),
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
        self.declare.0 + self.declare.1 * pages(size)
    }
    /// The receiver's core time before it copies: `call + ⌈size / page⌉ page`, and for what of the buffer is not `attached` yet
    /// `attach + n attach_page`.
    #[must_use]
    pub fn reaching(&self, size: u32, attached: u32) -> Span {
        let fresh = pages(size).saturating_sub(pages(attached));
        let attaching = if fresh > 0 { self.attach.0 + self.attach.1 * fresh } else { Span::ZERO };
        self.call.0 + self.call.1 * pages(size) + attaching
    }
}

impl From<&SharedMemory> for Local {
    fn from(part: &SharedMemory) -> Local {
        let bytes = Bytes::saturating_u32;
        let span = |span: &Option<fabriscope_catalog::Sourced<Span>>| span.as_ref().map_or(Span::ZERO, |span| **span);
        let eager_limit = bytes(*part.eager_limit);
        Local {
            eager_limit,
            chunk: bytes(*part.chunk).max(1),
            lines: *part.lines,
            inline: bytes(*part.inline),
            single: part.costs(part.mechanism).map(|costs| Single {
                mechanism: part.mechanism,
                above: bytes(*costs.above).max(eager_limit),
                call: (*costs.call, *costs.page),
                declare: (span(&costs.declare), span(&costs.declare_page)),
                attach: (span(&costs.attach), span(&costs.attach_page)),
            }),
        }
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
        let cma = Single {
            mechanism: Mechanism::Cma,
            above: 8192,
            call: (ns(500), ns(50)),
            declare: Default::default(),
            attach: Default::default(),
        };
        // 1 MiB are 256 pages, a byte more is another.
        assert_eq!(cma.reaching(1 << 20, 0), ns(500 + 256 * 50));
        assert_eq!(cma.reaching((1 << 20) + 1, 0), ns(500 + 257 * 50));
        assert_eq!(cma.declaring(1 << 20), Span::ZERO);
        let xpmem = Single { mechanism: Mechanism::Xpmem, call: (ns(100), ns(0)), attach: (ns(2000), ns(250)), ..cma };
        // A region is mapped once.
        assert_eq!(xpmem.reaching(8192, 0), ns(100 + 2000 + 2 * 250));
        assert_eq!(xpmem.reaching(8192, 8192), ns(100));
        assert_eq!(xpmem.reaching(12_288, 8192), ns(100 + 2000 + 250));
        let local = Local { eager_limit: 4096, chunk: 4096, lines: 2, inline: 24, single: Some(cma) };
        assert_eq!((local.single(8192), local.single(8193)), (None, Some(cma)));
    }
}
