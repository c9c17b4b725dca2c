//! What communicators do to the contents of buffers: reduced and moved in the memory of the programs, in the order of their calls.
//!
//! Modelled: types and operators of NCCL 2.2x; sums in the order of ranks. Not modelled: the order of additions that rings and trees have, which
//! rounds floating-point sums in another way.

use std::sync::Arc;

use fabriscope_nccl::Operation;

use super::{Collective, Gpus, Work};
use crate::memory::ProcessMemory;

/// The type of elements: the numbers of `ncclDataType_t`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Element {
    Int8,
    Uint8,
    Int32,
    Uint32,
    Int64,
    Uint64,
    Float16,
    Float32,
    Float64,
    Bfloat16,
}

impl Element {
    pub fn of(number: u64) -> Option<Element> {
        use Element::{Bfloat16, Float16, Float32, Float64, Int8, Int32, Int64, Uint8, Uint32, Uint64};
        [Int8, Uint8, Int32, Uint32, Int64, Uint64, Float16, Float32, Float64, Bfloat16].get(usize::try_from(number).ok()?).copied()
    }
    pub fn bytes(self) -> u64 {
        match self {
            Element::Int8 | Element::Uint8 => 1,
            Element::Float16 | Element::Bfloat16 => 2,
            Element::Int32 | Element::Uint32 | Element::Float32 => 4,
            Element::Int64 | Element::Uint64 | Element::Float64 => 8,
        }
    }
}

/// The operator: the numbers of `ncclRedOp_t`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reduction {
    Sum,
    Product,
    Max,
    Min,
    Average,
}

impl Reduction {
    pub fn of(number: u64) -> Option<Reduction> {
        [Reduction::Sum, Reduction::Product, Reduction::Max, Reduction::Min, Reduction::Average].get(usize::try_from(number).ok()?).copied()
    }
}

/// Half of a float: five bits of exponent, ten of fraction (IEEE 754).
fn from_half(bits: u16) -> f64 {
    let (sign, exponent, fraction) = (bits >> 15, i32::from(bits >> 10 & 0x1f), f64::from(bits & 0x3ff));
    let size = match exponent {
        0 => fraction / 1024.0 * 2.0_f64.powi(-14),
        31 if fraction == 0.0 => f64::INFINITY,
        31 => f64::NAN,
        _ => (1.0 + fraction / 1024.0) * 2.0_f64.powi(exponent - 15),
    };
    if sign == 1 { -size } else { size }
}

/// The nearest half, even where two are as near.
fn to_half(value: f64) -> u16 {
    let sign = if value.is_sign_negative() { 0x8000 } else { 0 };
    let size = value.abs();
    if size.is_nan() {
        return sign | 0x7e00;
    }
    if size >= 65520.0 {
        return sign | 0x7c00;
    }
    // Units of the last place: of 2^-24 below the smallest normal number.
    let exponent = if size < 2.0_f64.powi(-14) { -14 } else { size.log2().floor() as i32 };
    let exponent = if size / 2.0_f64.powi(exponent) >= 2.0 { exponent + 1 } else { exponent };
    let units = (size / 2.0_f64.powi(exponent - 10)).round_ties_even() as u16;
    let biased = if units >= 1024 { ((exponent + 15) as u16) << 10 } else { 0 };
    sign | (biased + (units - if units >= 1024 { 1024 } else { 0 }))
}

fn to_bfloat(value: f32) -> u16 {
    let bits = value.to_bits();
    if value.is_nan() {
        return (bits >> 16) as u16 | 0x40;
    }
    ((bits + 0x7fff + (bits >> 16 & 1)) >> 16) as u16
}

/// Adds the elements of `more` to those of `sum`.
macro_rules! reduce_as {
    ($type:ty, $sum:expr, $more:expr, $with:expr) => {{
        const SIZE: usize = size_of::<$type>();
        for (to, from) in $sum.chunks_exact_mut(SIZE).zip($more.chunks_exact(SIZE)) {
            let (a, b) = (
                <$type>::from_le_bytes(to.try_into().expect("one element")),
                <$type>::from_le_bytes(from.try_into().expect("one element")),
            );
            to.copy_from_slice(&$with(a, b).to_le_bytes());
        }
    }};
}

macro_rules! reduce_integers {
    ($type:ty, $sum:expr, $more:expr, $how:expr) => {
        match $how {
            Reduction::Sum | Reduction::Average => reduce_as!($type, $sum, $more, |a: $type, b: $type| a.wrapping_add(b)),
            Reduction::Product => reduce_as!($type, $sum, $more, |a: $type, b: $type| a.wrapping_mul(b)),
            Reduction::Max => reduce_as!($type, $sum, $more, |a: $type, b: $type| a.max(b)),
            Reduction::Min => reduce_as!($type, $sum, $more, |a: $type, b: $type| a.min(b)),
        }
    };
}

fn combine(how: Reduction, a: f64, b: f64) -> f64 {
    match how {
        Reduction::Sum | Reduction::Average => a + b,
        Reduction::Product => a * b,
        Reduction::Max => a.max(b),
        Reduction::Min => a.min(b),
    }
}

fn reduce(element: Element, how: Reduction, sum: &mut [u8], more: &[u8]) {
    match element {
        Element::Int8 => reduce_integers!(i8, sum, more, how),
        Element::Uint8 => reduce_integers!(u8, sum, more, how),
        Element::Int32 => reduce_integers!(i32, sum, more, how),
        Element::Uint32 => reduce_integers!(u32, sum, more, how),
        Element::Int64 => reduce_integers!(i64, sum, more, how),
        Element::Uint64 => reduce_integers!(u64, sum, more, how),
        Element::Float32 => reduce_as!(f32, sum, more, |a: f32, b: f32| combine(how, f64::from(a), f64::from(b)) as f32),
        Element::Float64 => reduce_as!(f64, sum, more, |a: f64, b: f64| combine(how, a, b)),
        Element::Float16 => reduce_as!(u16, sum, more, |a: u16, b: u16| to_half(combine(how, from_half(a), from_half(b)))),
        Element::Bfloat16 => {
            let wide = |bits: u16| f64::from(f32::from_bits(u32::from(bits) << 16));
            reduce_as!(u16, sum, more, |a: u16, b: u16| to_bfloat(combine(how, wide(a), wide(b)) as f32));
        }
    }
}

/// Divides a sum by the number of ranks.
fn divide(element: Element, sum: &mut [u8], ranks: u32) {
    let ranks = f64::from(ranks);
    macro_rules! each {
        ($type:ty, $with:expr) => {{
            for to in sum.chunks_exact_mut(size_of::<$type>()) {
                let of = <$type>::from_le_bytes((&*to).try_into().expect("one element"));
                to.copy_from_slice(&$with(of).to_le_bytes());
            }
        }};
    }
    match element {
        Element::Int8 => each!(i8, |of: i8| of / ranks as i8),
        Element::Uint8 => each!(u8, |of: u8| of / ranks as u8),
        Element::Int32 => each!(i32, |of: i32| of / ranks as i32),
        Element::Uint32 => each!(u32, |of: u32| of / ranks as u32),
        Element::Int64 => each!(i64, |of: i64| of / ranks as i64),
        Element::Uint64 => each!(u64, |of: u64| of / ranks as u64),
        Element::Float32 => each!(f32, |of: f32| (f64::from(of) / ranks) as f32),
        Element::Float64 => each!(f64, |of: f64| of / ranks),
        Element::Float16 => each!(u16, |of: u16| to_half(from_half(of) / ranks)),
        Element::Bfloat16 => each!(u16, |of: u16| to_bfloat((f64::from(f32::from_bits(u32::from(of) << 16)) / ranks) as f32)),
    }
}

impl Gpus {
    /// Moves contents as far as the calls of all ranks allow; `memory` is that of a process. False where ranks called different things.
    pub fn move_contents(&mut self, memory: impl Fn(u32) -> Option<Arc<ProcessMemory>>) -> bool {
        let mut moves = true;
        while moves {
            moves = false;
            for rank in 0..self.open.len() {
                let Some(call) = self.open[rank].front().copied() else { continue };
                let done = match &self.calls[call].work {
                    Work::Collective { collective, .. } => match self.collective(call, *collective, &memory) {
                        Some(done) => done,
                        None => return false,
                    },
                    Work::Group(_) => self.transfers(rank as u32, call, &memory),
                };
                moves |= done;
            }
        }
        true
    }

    /// Carries a collective out, if all ranks have called it; nothing where one called another.
    fn collective(&mut self, call: usize, of: Collective, memory: &impl Fn(u32) -> Option<Arc<ProcessMemory>>) -> Option<bool> {
        let communicator = self.calls[call].communicator;
        let ranks = self.communicators[communicator].ranks;
        let mut all = Vec::with_capacity(ranks as usize);
        for rank in 0..ranks as usize {
            let Some(head) = self.open[rank].front().copied() else { return Some(false) };
            match &self.calls[head].work {
                Work::Collective { collective, from, to, .. } if *collective == of => all.push((self.calls[head].program, *from, *to)),
                _ => return None,
            }
        }
        let size = usize::try_from(of.count * of.element.bytes()).ok()?;
        let blocks = if of.operation == Operation::ReduceScatter { ranks as usize } else { 1 };
        let sent = |rank: usize| {
            let mut bytes = vec![0; size * blocks];
            if let Some(memory) = memory(all[rank].0) {
                memory.read(all[rank].1, &mut bytes);
            }
            bytes
        };
        let reduced = || {
            let mut sum = sent(0);
            for rank in 1..ranks as usize {
                reduce(of.element, of.reduction, &mut sum, &sent(rank));
            }
            if of.reduction == Reduction::Average {
                divide(of.element, &mut sum, ranks);
            }
            sum
        };
        let result = match of.operation {
            Operation::Broadcast => sent(of.root as usize),
            Operation::AllGather => (0..ranks as usize).flat_map(sent).collect(),
            Operation::Reduce | Operation::ReduceScatter | Operation::AllReduce => reduced(),
        };
        for (rank, (program, _, to)) in all.iter().enumerate() {
            let own = match of.operation {
                Operation::ReduceScatter => &result[rank * size..][..size],
                Operation::Reduce if rank != of.root as usize => continue,
                _ => &result[..],
            };
            if let Some(memory) = memory(*program) {
                memory.write(*to, own);
            }
        }
        for open in &mut self.open[..ranks as usize] {
            open.pop_front();
        }
        Some(true)
    }

    /// Moves what both ends of a transfer have called; true where anything was.
    fn transfers(&mut self, rank: u32, call: usize, memory: &impl Fn(u32) -> Option<Arc<ProcessMemory>>) -> bool {
        let own = self.calls[call].clone();
        let Work::Group(transfers) = own.work else { return false };
        let mut moved = false;
        for (index, transfer) in transfers.iter().enumerate().filter(|(_, transfer)| !transfer.done && transfer.sends) {
            let Some(other) = self.open[transfer.peer as usize].front().copied() else { continue };
            let program = self.calls[other].program;
            let Work::Group(theirs) = &mut self.calls[other].work else { continue };
            let fits = |of: &&mut super::Transfer| !of.sends && !of.done && of.peer == rank;
            let Some(into) = theirs.iter_mut().find(fits) else { continue };
            into.done = true;
            let (to, size) = (into.at, into.bytes.min(transfer.bytes));
            let mut bytes = vec![0; usize::try_from(size).unwrap_or(0)];
            if let (Some(from), Some(into)) = (memory(own.program), memory(program)) {
                from.read(transfer.at, &mut bytes);
                into.write(to, &bytes);
            }
            if let Work::Group(mine) = &mut self.calls[call].work {
                mine[index].done = true;
            }
            moved = true;
        }
        // Heads that are done make way for what comes behind them.
        for open in &mut self.open {
            let is_done = |call: &usize| matches!(&self.calls[*call].work, Work::Group(all) if all.iter().all(|transfer| transfer.done));
            while open.front().is_some_and(is_done) {
                open.pop_front();
                moved = true;
            }
        }
        moved
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_are_those_of_ieee_754() {
        // 1, 1 + 2^-10, the largest, the smallest normal and subnormal numbers, and beyond.
        let pairs = [
            (0x3c00, 1.0),
            (0x3c01, 1.0 + 1.0 / 1024.0),
            (0x7bff, 65504.0),
            (0x0400, 2.0_f64.powi(-14)),
            (1, 2.0_f64.powi(-24)),
            (0x7c00, f64::INFINITY),
        ];
        for (bits, value) in pairs {
            assert_eq!((to_half(value), from_half(bits)), (bits, value));
            assert_eq!(to_half(-value), bits | 0x8000);
        }
        // Halfway between two: the even one. What is nearer to 2^16 than to the largest number is infinite.
        assert_eq!((to_half(1.0 + 1.0 / 2048.0), to_half(1.0 + 3.0 / 2048.0), to_half(65520.0)), (0x3c00, 0x3c02, 0x7c00));
        assert!((0..=u16::MAX).filter(|bits| bits & 0x7c00 != 0x7c00).all(|bits| to_half(from_half(bits)) == bits));
    }

    #[test]
    fn elements_are_reduced_as_their_types() {
        let mut sum = 3_i32.to_le_bytes().to_vec();
        reduce(Element::Int32, Reduction::Sum, &mut sum, &(-5_i32).to_le_bytes());
        assert_eq!(sum, (-2_i32).to_le_bytes());
        let mut most = 0xff_u8.to_le_bytes().to_vec();
        reduce(Element::Int8, Reduction::Max, &mut most, &[4]);
        assert_eq!(most, [4]);
        let mut product = [0x4000_u16, 0xc000].iter().flat_map(|half| half.to_le_bytes()).collect::<Vec<u8>>();
        reduce(Element::Float16, Reduction::Product, &mut product, &[0, 0x40, 0, 0x40]);
        assert_eq!(product, [0, 0x44, 0, 0xc4]);
        let mut average = 7.0_f32.to_le_bytes().to_vec();
        divide(Element::Float32, &mut average, 2);
        assert_eq!(average, 3.5_f32.to_le_bytes());
        let mut brain = 0x3f80_u16.to_le_bytes().to_vec();
        reduce(Element::Bfloat16, Reduction::Sum, &mut brain, &0x3f80_u16.to_le_bytes());
        assert_eq!(brain, 0x4000_u16.to_le_bytes());
    }
}
