//! Numbers as iperf prints them.
//!
//! Source: iperf3, src/units.c: bytes by powers of 1024, bits by powers of 1000, three digits where they fit.

const NAMES: [&str; 5] = ["", "K", "M", "G", "T"];

/// `2.75 GByte`.
pub(super) fn bytes(value: f64) -> String {
    scaled(value, 1024.0, "Byte")
}
/// `23.6 Gbit`.
pub(super) fn bits(value: f64) -> String {
    scaled(value, 1000.0, "bit")
}
/// Bits in a unit that the user chose.
pub(super) fn bits_in(value: f64, power: usize) -> String {
    number(value / 1000f64.powi(power as i32), &format!("{}bit", NAMES[power]))
}

fn scaled(value: f64, base: f64, unit: &str) -> String {
    let (mut rest, mut at) = (value, 0);
    while rest >= base && at + 1 < NAMES.len() {
        rest /= base;
        at += 1;
    }
    number(rest, &format!("{}{unit}", NAMES[at]))
}

fn number(value: f64, unit: &str) -> String {
    match value {
        v if v < 9.995 => format!("{v:4.2} {unit}"),
        v if v < 99.95 => format!("{v:4.1} {unit}"),
        v => format!("{v:4.0} {unit}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_digits_where_they_fit() {
        assert_eq!(bytes(2.75 * 1024.0 * 1024.0 * 1024.0), "2.75 GByte");
        assert_eq!((bits(23.6e9), bits(943e6), bits(0.0)), ("23.6 Gbit".to_owned(), " 943 Mbit".to_owned(), "0.00 bit".to_owned()));
        assert_eq!(bits_in(23.6e9, 2), "23600 Mbit");
    }
}
