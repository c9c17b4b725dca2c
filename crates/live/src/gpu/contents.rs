//! What communicators do to the contents of buffers: reduced and moved in the memory of the programs, in the order
//! of their calls in streams and communicators.
//!
//! Modelled: types and operators of NCCL 2.2x; sums in the order of ranks. Not modelled: the order of additions that rings and trees have, which
//! rounds floating-point sums in another way.

use std::collections::VecDeque;
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

/// The operator: the numbers of `ncclRedOp_t`; from 5 on they are operators of programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reduction {
    Sum,
    Product,
    Max,
    Min,
    Average,
    /// `ncclRedOpCreatePreMulSum`: each rank's elements are multiplied by a scalar of its own first.
    ScaledSum,
}

impl Reduction {
    pub fn of(number: u64) -> Option<Reduction> {
        use Reduction::{Average, Max, Min, Product, ScaledSum, Sum};
        [Sum, Product, Max, Min, Average, ScaledSum].get(usize::try_from(number).ok()?).copied()
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
            Reduction::Sum | Reduction::Average | Reduction::ScaledSum => {
                reduce_as!($type, $sum, $more, |a: $type, b: $type| a.wrapping_add(b))
            }
            Reduction::Product => reduce_as!($type, $sum, $more, |a: $type, b: $type| a.wrapping_mul(b)),
            Reduction::Max => reduce_as!($type, $sum, $more, |a: $type, b: $type| a.max(b)),
            Reduction::Min => reduce_as!($type, $sum, $more, |a: $type, b: $type| a.min(b)),
        }
    };
}

fn combine(how: Reduction, a: f64, b: f64) -> f64 {
    match how {
        Reduction::Sum | Reduction::Average | Reduction::ScaledSum => a + b,
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

/// Multiplies elements by a scalar, which is bits of their type.
fn scale(element: Element, scalar: u64, elements: &mut [u8]) {
    let size = element.bytes() as usize;
    let scalars = scalar.to_le_bytes()[..size].repeat(elements.len() / size);
    reduce(element, Reduction::Product, elements, &scalars);
}

/// What moving the contents of the first call of a rank came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Moved {
    Yes,
    /// Other calls have to come first.
    NotYet,
    /// Another rank called something else.
    Unlike,
}

impl Gpus {
    /// Moves contents as far as the calls of all ranks allow; `memory` is that of a process. False where ranks called different things.
    pub fn move_contents(&mut self, memory: impl Fn(u32) -> Option<Arc<ProcessMemory>>) -> bool {
        let mut moves = true;
        while moves {
            moves = false;
            for id in self.open.clone() {
                for rank in 0..self.communicators[id].ranks {
                    let Some(call) = self.first(id, rank) else { continue };
                    let moved = match &self.calls[call].work {
                        _ if !self.is_next(call) => Moved::NotYet,
                        Work::Collective { collective, .. } => self.collective(id, *collective, &memory),
                        Work::Group(_) => self.transfers(id, rank, call, &memory),
                        Work::All(_) => Moved::Yes,
                    };
                    match moved {
                        Moved::Yes => moves = true,
                        Moved::NotYet => {}
                        Moved::Unlike => return false,
                    }
                }
                if self.communicators[id].open.iter().all(VecDeque::is_empty) {
                    self.open.remove(&id);
                }
            }
        }
        true
    }

    /// The first call of a rank whose contents were not moved.
    fn first(&self, id: usize, rank: u32) -> Option<usize> {
        self.communicators[id].open.get(rank as usize)?.front().copied()
    }
    /// Whether the contents of all that a call comes behind were moved.
    fn is_next(&self, call: usize) -> bool {
        self.calls[call].before.iter().all(|before| self.calls[*before].moved)
    }
    fn moved(&mut self, id: usize, rank: u32) {
        if let Some(call) = self.communicators[id].open[rank as usize].pop_front() {
            self.calls[call].moved = true;
        }
    }

    /// Carries a collective out, if all ranks have called it.
    fn collective(&mut self, id: usize, of: Collective, memory: &impl Fn(u32) -> Option<Arc<ProcessMemory>>) -> Moved {
        let ranks = self.communicators[id].ranks;
        let mut all = Vec::with_capacity(ranks as usize);
        for rank in 0..ranks {
            let Some(head) = self.first(id, rank) else { return Moved::NotYet };
            match &self.calls[head].work {
                Work::Collective { collective, .. } if *collective != of => return Moved::Unlike,
                Work::Collective { scalar, from, to, .. } if self.is_next(head) => {
                    all.push((self.calls[head].member.program, *from, *to, *scalar));
                }
                _ => return Moved::NotYet,
            }
        }
        let Ok(size) = usize::try_from(of.count * of.element.bytes()) else { return Moved::Unlike };
        let blocks = if of.operation == Operation::ReduceScatter { ranks as usize } else { 1 };
        let sent = |rank: usize| {
            let (program, from, _, scalar) = all[rank];
            let mut bytes = vec![0; size * blocks];
            if let Some(memory) = memory(program) {
                memory.read(from, &mut bytes);
            }
            if of.reduction == Reduction::ScaledSum {
                scale(of.element, scalar, &mut bytes);
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
        for (rank, (program, _, to, _)) in all.iter().enumerate() {
            let own = match of.operation {
                Operation::ReduceScatter => &result[rank * size..][..size],
                Operation::Reduce if rank != of.root as usize => continue,
                _ => &result[..],
            };
            if let Some(memory) = memory(*program) {
                memory.write(*to, own);
            }
        }
        (0..ranks).for_each(|rank| self.moved(id, rank));
        Moved::Yes
    }

    /// Takes what a group sends, and brings what it receives as far as that was sent.
    fn transfers(&mut self, id: usize, rank: u32, call: usize, memory: &impl Fn(u32) -> Option<Arc<ProcessMemory>>) -> Moved {
        let own = memory(self.calls[call].member.program);
        let mail = &mut self.communicators[id].mail;
        let Work::Group(transfers) = &mut self.calls[call].work else { return Moved::NotYet };
        let mut moved = false;
        // What a rank sends to itself is there before it is received.
        for sends in [true, false] {
            for transfer in transfers.iter_mut().filter(|transfer| !transfer.done && transfer.sends == sends) {
                let size = usize::try_from(transfer.bytes).unwrap_or(0);
                if sends {
                    let mut bytes = vec![0; size];
                    if let Some(memory) = &own {
                        memory.read(transfer.at, &mut bytes);
                    }
                    mail.entry((rank, transfer.peer)).or_default().push_back(bytes);
                } else {
                    let Some(bytes) = mail.get_mut(&(transfer.peer, rank)).and_then(VecDeque::pop_front) else { continue };
                    if let Some(memory) = &own {
                        memory.write(transfer.at, &bytes[..size.min(bytes.len())]);
                    }
                }
                (transfer.done, moved) = (true, true);
            }
        }
        if transfers.iter().all(|transfer| transfer.done) {
            self.moved(id, rank);
            moved = true;
        }
        if moved { Moved::Yes } else { Moved::NotYet }
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
        let mut scaled = [2.0_f32, -3.0].iter().flat_map(|of| of.to_le_bytes()).collect::<Vec<u8>>();
        scale(Element::Float32, u64::from(0.5_f32.to_bits()), &mut scaled);
        assert_eq!(scaled, [1.0_f32, -1.5].iter().flat_map(|of| of.to_le_bytes()).collect::<Vec<u8>>());
        let mut brain = 0x3f80_u16.to_le_bytes().to_vec();
        reduce(Element::Bfloat16, Reduction::Sum, &mut brain, &0x3f80_u16.to_le_bytes());
        assert_eq!(brain, 0x4000_u16.to_le_bytes());
    }
}
