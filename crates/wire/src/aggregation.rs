//! What an adapter asks of switches that reduce: the header in front of a contribution.
//!
//! The layout of SHARP's header is not published. Here it takes the place and the 16 bytes of an RDMA extended header
//! ([`Reth`](crate::Reth)), whose address it is packed into.
//!
//! Source: R. L. Graham et al., COMHPC 2016 (operation, data type, group, root); libsharp's `sharp.h` (names of types and operators).
//! Modelled: barrier, broadcast, reduction to one and to all; sums, least, most and bits of integers and floats.
//! Not modelled: places of the least and most (MINLOC, MAXLOC), operands of two types.

/// What is done together.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
#[repr(u8)]
pub enum Collective {
    /// All have come.
    Barrier,
    /// From one to all.
    Bcast,
    /// To one.
    Reduce,
    /// To all.
    Allreduce,
}

/// How two operands become one.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
pub enum Reducer {
    /// Addition; integers wrap.
    Sum,
    /// The lesser.
    Min,
    /// The greater.
    Max,
    /// Bits that both have.
    And,
    /// Bits that either has.
    Or,
    /// Bits that one of both has.
    Xor,
}

/// An element of a vector; least byte first.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
pub enum Element {
    /// Whole numbers of 8 bits with sign.
    I8,
    /// The same without.
    U8,
    /// Of 16 bits with sign.
    I16,
    /// The same without.
    U16,
    /// Of 32 bits with sign.
    I32,
    /// The same without.
    U32,
    /// Of 64 bits with sign.
    I64,
    /// The same without.
    U64,
    /// Half precision.
    F16,
    /// The upper half of single precision.
    Bf16,
    /// Single precision.
    F32,
    /// Double precision.
    F64,
}

/// What is to be done with a message of all members.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Task {
    /// The operation.
    pub collective: Collective,
    /// How operands are joined.
    pub reducer: Reducer,
    /// What they are made of.
    pub element: Element,
    /// The member that sends or gets, for operations with a root.
    pub root: u32,
}

impl Collective {
    /// All of them.
    pub const ALL: [Collective; 4] = [Collective::Barrier, Collective::Bcast, Collective::Reduce, Collective::Allreduce];
    /// The word that parts use.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Collective::Barrier => "barrier",
            Collective::Bcast => "bcast",
            Collective::Reduce => "reduce",
            Collective::Allreduce => "allreduce",
        }
    }
}

impl Reducer {
    const ALL: [Reducer; 6] = [Reducer::Sum, Reducer::Min, Reducer::Max, Reducer::And, Reducer::Or, Reducer::Xor];
}

impl Element {
    /// All of them.
    pub const ALL: [Element; 12] = [
        Element::I8,
        Element::U8,
        Element::I16,
        Element::U16,
        Element::I32,
        Element::U32,
        Element::I64,
        Element::U64,
        Element::F16,
        Element::Bf16,
        Element::F32,
        Element::F64,
    ];
    /// The word that parts use.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Element::I8 => "int8",
            Element::U8 => "uint8",
            Element::I16 => "int16",
            Element::U16 => "uint16",
            Element::I32 => "int32",
            Element::U32 => "uint32",
            Element::I64 => "int64",
            Element::U64 => "uint64",
            Element::F16 => "float16",
            Element::Bf16 => "bfloat16",
            Element::F32 => "float32",
            Element::F64 => "float64",
        }
    }
    /// Its length in bytes.
    #[must_use]
    pub const fn bytes(self) -> usize {
        match self {
            Element::I8 | Element::U8 => 1,
            Element::I16 | Element::U16 | Element::F16 | Element::Bf16 => 2,
            Element::I32 | Element::U32 | Element::F32 => 4,
            Element::I64 | Element::U64 | Element::F64 => 8,
        }
    }
}

impl Task {
    /// All have come.
    pub const BARRIER: Task = Task { collective: Collective::Barrier, reducer: Reducer::Sum, element: Element::I32, root: 0 };

    /// The header's words.
    #[must_use]
    pub const fn pack(self) -> u64 {
        self.collective as u64 | (self.reducer as u64) << 8 | (self.element as u64) << 16 | (self.root as u64) << 32
    }
    /// The header's meaning; nothing where it has none.
    #[must_use]
    pub fn unpack(words: u64) -> Option<Task> {
        let [collective, reducer, element, zero, ..] = words.to_le_bytes();
        (zero == 0).then_some(())?;
        Some(Task {
            collective: *Collective::ALL.get(usize::from(collective))?,
            reducer: *Reducer::ALL.get(usize::from(reducer))?,
            element: *Element::ALL.get(usize::from(element))?,
            root: (words >> 32) as u32,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_come_out_as_they_went_in() {
        for collective in Collective::ALL {
            for reducer in Reducer::ALL {
                for element in Element::ALL {
                    let task = Task { collective, reducer, element, root: 70_000 };
                    assert_eq!(Task::unpack(task.pack()), Some(task));
                }
            }
        }
        for wrong in [4, 6 << 8, 12 << 16, 1 << 24] {
            assert_eq!(Task::unpack(wrong), None);
        }
    }
}
