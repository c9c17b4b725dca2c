//! How a file lies on targets: stripes, and layouts whose number of stripes grows with the file.
//!
//! Source: Lustre Operations Manual, "Managing file layout (striping) and free space" and "Progressive file layout".
//! Modelled: components with an end, a count and a size; targets given out in turn, as the round-robin allocator does while targets are
//! about equally full.
//! Not modelled: pools, mirrors, self-extending layouts, the weighted allocator.

use fabriscope_units::Bytes;

/// A component of a layout: it lasts up to `end` of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Component {
    /// The first byte behind it; none for the last.
    pub end: Option<Bytes>,
    /// Objects.
    pub count: u32,
    /// What goes to an object before the next.
    pub size: Bytes,
}

/// The layout of files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    components: Vec<Component>,
    targets: u32,
}

/// A piece of a file on one object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// The target.
    pub target: u32,
    /// The object of the file, counted through all components.
    pub object: u32,
    /// Where it begins in the object.
    pub begin: u64,
    /// How long it is.
    pub bytes: u64,
}

/// What is wrong with a layout.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, miette::Diagnostic)]
pub enum LayoutError {
    /// More stripes than targets.
    #[error("{count} stripes on {targets} OSTs")]
    #[diagnostic(code(lustre::stripes), help("use at least 1 and at most {targets} stripes, or -1 for all OSTs"))]
    Stripes {
        /// Asked for.
        count: u32,
        /// There are.
        targets: u32,
    },
    /// A size that pages do not fit into.
    #[error("a stripe size of {size}")]
    #[diagnostic(code(lustre::stripe_size), help("use a multiple of 64 KiB below 4 GiB, such as 1M"))]
    Size {
        /// Asked for.
        size: Bytes,
    },
    /// Components that do not follow each other.
    #[error("a component that ends at {end}, at or before the one in front of it")]
    #[diagnostic(code(lustre::components), help("let the ends of components grow: -E 4M -c 1 -E 1G -c 4 -E -1 -c -1"))]
    Order {
        /// The end.
        end: Bytes,
    },
    /// The last component ends.
    #[error("the last component ends: nothing says where the rest of a file goes")]
    #[diagnostic(code(lustre::last_component), help("end the last component with -E -1"))]
    Open,
}

impl Layout {
    /// Stripes of one count and size. A count of -1 is all targets.
    ///
    /// # Errors
    /// More stripes than targets, a size that is no multiple of 64 KiB.
    pub fn plain(count: i32, size: Bytes, targets: u32) -> Result<Layout, LayoutError> {
        let count = u32::try_from(count).unwrap_or(targets);
        Layout::composite(vec![Component { end: None, count, size }], targets)
    }
    /// Components one behind the other.
    ///
    /// # Errors
    /// As above, and components that do not follow each other.
    pub fn composite(components: Vec<Component>, targets: u32) -> Result<Layout, LayoutError> {
        let mut before = Bytes(0);
        for (number, component) in components.iter().enumerate() {
            if component.count == 0 || component.count > targets {
                return Err(LayoutError::Stripes { count: component.count, targets });
            }
            if component.size.0 == 0 || !component.size.0.is_multiple_of(64 << 10) || component.size.0 >= 4 << 30 {
                return Err(LayoutError::Size { size: component.size });
            }
            match component.end {
                Some(end) if end <= before => return Err(LayoutError::Order { end }),
                Some(_) if number + 1 == components.len() => return Err(LayoutError::Open),
                Some(end) => before = end,
                None if number + 1 < components.len() => return Err(LayoutError::Order { end: before }),
                None => {}
            }
        }
        if components.is_empty() { Err(LayoutError::Open) } else { Ok(Layout { components, targets }) }
    }
    /// Objects of a file, all components.
    #[must_use]
    pub fn objects(&self) -> u32 {
        self.components.iter().map(|component| component.count).sum()
    }
    /// The components.
    #[must_use]
    pub fn components(&self) -> &[Component] {
        &self.components
    }
    /// The target of an object of file number `file`: targets are given out in turn.
    #[must_use]
    pub fn target(&self, file: u64, object: u32) -> u32 {
        let first = file.wrapping_mul(u64::from(self.objects())) % u64::from(self.targets);
        ((first + u64::from(object)) % u64::from(self.targets)) as u32
    }
    /// The pieces of `bytes` from `begin` on of file number `file`, in the order of the file.
    pub fn pieces(&self, file: u64, begin: u64, bytes: u64, mut each: impl FnMut(Piece)) {
        let (mut at, end) = (begin, begin.saturating_add(bytes));
        let (mut first_object, mut first_byte) = (0, 0);
        for component in &self.components {
            let last = component.end.map_or(u64::MAX, |end| end.0);
            while at < end && at < last {
                let (size, count) = (component.size.0, u64::from(component.count));
                let (stripe, within) = ((at - first_byte) / size, (at - first_byte) % size);
                let bytes = (size - within).min(end - at).min(last - at);
                let object = first_object + (stripe % count) as u32;
                each(Piece { target: self.target(file, object), object, begin: stripe / count * size + within, bytes });
                at += bytes;
            }
            first_object += component.count;
            first_byte = last;
        }
    }
}

#[cfg(test)]
mod tests {
    use fabriscope_units::Remedy;

    use super::*;

    fn pieces(layout: &Layout, file: u64, begin: u64, bytes: u64) -> Vec<(u32, u64, u64)> {
        let mut all = Vec::new();
        layout.pieces(file, begin, bytes, |piece| all.push((piece.target, piece.begin >> 10, piece.bytes >> 10)));
        all
    }

    /// Two stripes of 1 MiB on four targets; the second file begins on target 2. In KiB.
    #[test]
    fn stripes_go_round() {
        let layout = Layout::plain(2, Bytes::from_mib(1), 4).unwrap();
        assert_eq!(pieces(&layout, 0, 512 << 10, 2 << 20), [(0, 512, 512), (1, 0, 1024), (0, 1024, 512)]);
        assert_eq!(pieces(&layout, 1, 0, 1 << 20), [(2, 0, 1024)]);
    }

    /// One stripe up to 1 MiB, then all: the second component counts from its own begin.
    #[test]
    fn later_components_have_more_stripes() {
        let parts = [(Some(Bytes::from_mib(1)), 1), (None, 3)];
        let parts = parts.map(|(end, count)| Component { end, count, size: Bytes::from_mib(1) });
        let layout = Layout::composite(parts.to_vec(), 4).unwrap();
        assert_eq!(pieces(&layout, 0, 0, 5 << 20), [(0, 0, 1024), (1, 0, 1024), (2, 0, 1024), (3, 0, 1024), (1, 1024, 1024)]);
    }

    #[test]
    fn what_cannot_be_is_said() {
        let told = |error: LayoutError| error.in_full();
        let mib = Bytes::from_mib(1);
        assert_eq!(
            told(Layout::plain(5, mib, 4).unwrap_err()),
            "5 stripes on 4 OSTs; use at least 1 and at most 4 stripes, or -1 for all OSTs"
        );
        assert_eq!(Layout::plain(0, mib, 4).unwrap_err(), LayoutError::Stripes { count: 0, targets: 4 });
        assert_eq!(Layout::plain(1, Bytes(1000), 4).unwrap_err(), LayoutError::Size { size: Bytes(1000) });
        let ends = Component { end: Some(mib), count: 1, size: mib };
        assert_eq!(Layout::composite(vec![ends], 4).unwrap_err(), LayoutError::Open);
        assert_eq!(Layout::composite(vec![ends, ends], 4).unwrap_err(), LayoutError::Order { end: mib });
    }
}
