//! Operands joined, element by element.
//!
//! Floats of 16 bits are added in single precision and rounded to the nearest, ties to even.

use fabriscope_wire::{Element, Reducer};

/// Joins `from` into `into`; bytes beyond the last whole element stay as they are.
pub fn join(reducer: Reducer, element: Element, into: &mut [u8], from: &[u8]) {
    match element {
        Element::I8 => whole(into, from, i8::from_le_bytes, |a, b| integer(reducer, a, b, i8::wrapping_add).to_le_bytes()),
        Element::U8 => whole(into, from, u8::from_le_bytes, |a, b| integer(reducer, a, b, u8::wrapping_add).to_le_bytes()),
        Element::I16 => whole(into, from, i16::from_le_bytes, |a, b| integer(reducer, a, b, i16::wrapping_add).to_le_bytes()),
        Element::U16 => whole(into, from, u16::from_le_bytes, |a, b| integer(reducer, a, b, u16::wrapping_add).to_le_bytes()),
        Element::I32 => whole(into, from, i32::from_le_bytes, |a, b| integer(reducer, a, b, i32::wrapping_add).to_le_bytes()),
        Element::U32 => whole(into, from, u32::from_le_bytes, |a, b| integer(reducer, a, b, u32::wrapping_add).to_le_bytes()),
        Element::I64 => whole(into, from, i64::from_le_bytes, |a, b| integer(reducer, a, b, i64::wrapping_add).to_le_bytes()),
        Element::U64 => whole(into, from, u64::from_le_bytes, |a, b| integer(reducer, a, b, u64::wrapping_add).to_le_bytes()),
        Element::F32 if is_arithmetic(reducer) => whole(into, from, f32::from_le_bytes, |a, b| float(reducer, a, b).to_le_bytes()),
        Element::F64 if is_arithmetic(reducer) => whole(into, from, f64::from_le_bytes, |a, b| double(reducer, a, b).to_le_bytes()),
        Element::F16 if is_arithmetic(reducer) => {
            whole(into, from, u16::from_le_bytes, |a, b| from_half(float(reducer, to_single(a), to_single(b))).to_le_bytes());
        }
        Element::Bf16 if is_arithmetic(reducer) => {
            let single = |bits: u16| f32::from_bits(u32::from(bits) << 16);
            whole(into, from, u16::from_le_bytes, |a, b| to_brain(float(reducer, single(a), single(b))).to_le_bytes());
        }
        Element::F16 | Element::Bf16 => join(reducer, Element::U16, into, from),
        Element::F32 => join(reducer, Element::U32, into, from),
        Element::F64 => join(reducer, Element::U64, into, from),
    }
}

fn is_arithmetic(reducer: Reducer) -> bool {
    matches!(reducer, Reducer::Sum | Reducer::Min | Reducer::Max)
}

fn whole<const N: usize, T>(into: &mut [u8], from: &[u8], read: fn([u8; N]) -> T, joined: impl Fn(T, T) -> [u8; N]) {
    for (a, b) in into.chunks_exact_mut(N).zip(from.chunks_exact(N)) {
        if let (Ok(left), Ok(right)) = (<[u8; N]>::try_from(&*a), <[u8; N]>::try_from(b)) {
            a.copy_from_slice(&joined(read(left), read(right)));
        }
    }
}

fn integer<T>(reducer: Reducer, a: T, b: T, add: fn(T, T) -> T) -> T
where
    T: Ord + std::ops::BitAnd<Output = T> + std::ops::BitOr<Output = T> + std::ops::BitXor<Output = T>,
{
    match reducer {
        Reducer::Sum => add(a, b),
        Reducer::Min => a.min(b),
        Reducer::Max => a.max(b),
        Reducer::And => a & b,
        Reducer::Or => a | b,
        Reducer::Xor => a ^ b,
    }
}

fn float(reducer: Reducer, a: f32, b: f32) -> f32 {
    match reducer {
        Reducer::Min => a.min(b),
        Reducer::Max => a.max(b),
        _ => a + b,
    }
}

fn double(reducer: Reducer, a: f64, b: f64) -> f64 {
    match reducer {
        Reducer::Min => a.min(b),
        Reducer::Max => a.max(b),
        _ => a + b,
    }
}

/// Half to single precision (IEEE 754-2019 §3.6), exact.
fn to_single(bits: u16) -> f32 {
    let (sign, exponent, fraction) = (u32::from(bits >> 15) << 31, u32::from(bits >> 10) & 31, u32::from(bits) & 0x3FF);
    match exponent {
        0 => f32::from_bits(sign | (fraction as f32 * TINY).to_bits()),
        31 => f32::from_bits(sign | 0x7F80_0000 | fraction << 13),
        _ => f32::from_bits(sign | (exponent + 112) << 23 | fraction << 13),
    }
}

/// Single to half precision, to the nearest, ties to even.
fn from_half(value: f32) -> u16 {
    let bits = value.to_bits();
    let (sign, size) = ((bits >> 16) as u16 & 0x8000, bits & 0x7FFF_FFFF);
    if size > 0x7F80_0000 {
        return sign | 0x7E00;
    }
    if size >= 0x4780_0000 {
        return sign | 0x7C00;
    }
    if size < 0x3880_0000 {
        // Below the least normal number: the sum with one half leaves its fraction rounded.
        let shifted = f32::from_bits(size) + 0.5;
        return sign | (shifted.to_bits() - 0.5f32.to_bits()) as u16;
    }
    let odd = size >> 13 & 1;
    sign | ((size + 0xFFF + odd - (112 << 23)) >> 13) as u16
}

/// The upper half of single precision, to the nearest, ties to even.
fn to_brain(value: f32) -> u16 {
    let bits = value.to_bits();
    if value.is_nan() {
        return (bits >> 16) as u16 | 0x40;
    }
    ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16) as u16
}

/// The least number above zero in half precision, 2⁻²⁴.
const TINY: f32 = 1.0 / 16_777_216.0;

#[cfg(test)]
mod tests {
    use super::*;

    fn joined<const N: usize>(reducer: Reducer, element: Element, a: [u8; N], b: [u8; N]) -> [u8; N] {
        let mut into = a;
        join(reducer, element, &mut into, &b);
        into
    }

    #[test]
    fn integers_wrap_and_keep_their_sign() {
        let add = |a: i32, b: i32| i32::from_le_bytes(joined(Reducer::Sum, Element::I32, a.to_le_bytes(), b.to_le_bytes()));
        assert_eq!([add(3, -5), add(i32::MAX, 1)], [-2, i32::MIN]);
        assert_eq!(joined(Reducer::Min, Element::I8, [0xFF, 1], [1, 0xFF]), [0xFF, 0xFF]);
        assert_eq!(joined(Reducer::Max, Element::U8, [0xFF, 1], [1, 2]), [0xFF, 2]);
        assert_eq!(joined(Reducer::Xor, Element::U16, [0xF0, 0x0F], [0xFF, 0xFF]), [0x0F, 0xF0]);
        // A tail that is no element is left alone.
        assert_eq!(joined(Reducer::Sum, Element::U16, [1, 0, 9], [1, 0, 9]), [2, 0, 9]);
    }

    #[test]
    fn every_half_is_read_and_written_back() {
        for bits in 0..=u16::MAX {
            let value = to_single(bits);
            if !value.is_nan() {
                assert_eq!(from_half(value), bits, "{value}");
            }
        }
        // 1 + 2⁻¹¹ lies in the middle: to the even one; a little more goes up.
        assert_eq!([from_half(1.0 + 1.0 / 2048.0), from_half(1.0 + 1.001 / 2048.0), from_half(65_520.0)], [0x3C00, 0x3C01, 0x7C00]);
    }

    #[test]
    fn floats_add_and_compare() {
        let half = |a: f32, b: f32| joined(Reducer::Sum, Element::F16, from_half(a).to_le_bytes(), from_half(b).to_le_bytes());
        assert_eq!(to_single(u16::from_le_bytes(half(1.5, 2.25))), 3.75);
        let brain = joined(Reducer::Sum, Element::Bf16, to_brain(1.0).to_le_bytes(), to_brain(0.5).to_le_bytes());
        assert_eq!(u16::from_le_bytes(brain), to_brain(1.5));
        let double = joined(Reducer::Max, Element::F64, 1.0f64.to_le_bytes(), 2.0f64.to_le_bytes());
        assert_eq!(f64::from_le_bytes(double), 2.0);
        assert_eq!(joined(Reducer::Or, Element::F32, [1, 0, 0, 0], [2, 0, 0, 0]), [3, 0, 0, 0]);
    }
}
