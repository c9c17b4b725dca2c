//! Headers as the figures of the standards draw them: fields from left to right, each with its width in bits.

/// The bytes of these fields, the most significant bit of each first.
///
/// # Panics
/// A value is wider than its field, or the fields end inside a byte: the figure was copied wrongly.
pub fn pack(fields: &[(u64, u32)]) -> Vec<u8> {
    let mut bits = Vec::new();
    for (value, width) in fields {
        assert!(*width == 64 || value >> width == 0, "{value:#x} has more than {width} bits");
        bits.extend((0..*width).rev().map(|at| (value >> at & 1) as u8));
    }
    assert!(bits.len().is_multiple_of(8), "{} bits", bits.len());
    bits.chunks(8).map(|byte| byte.iter().fold(0, |value, bit| value << 1 | bit)).collect()
}

/// The bytes that hexadecimal digits say; blanks are for the eye.
#[allow(dead_code, reason = "not every file has packets as text")]
pub fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.chars().filter_map(|digit| digit.to_digit(16)).map(|digit| digit as u8).collect();
    digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect()
}
