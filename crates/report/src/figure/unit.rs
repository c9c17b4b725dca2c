//! Units of figures, and where the numbers of an axis stand: 1, 2 and 5 times powers of ten, powers of two of bytes, each with its unit.
//!
//! Not modelled: dates, angles, other bases than 2 and 10.

use super::Scale;

/// What values of an axis are values of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Bytes, by powers of 1024.
    Bytes,
    /// Seconds.
    Seconds,
    /// Bytes a second, by powers of 1000.
    BytesPerSecond,
    /// Bits a second, by powers of 1000.
    BitsPerSecond,
    /// Something a second, by powers of 1000.
    PerSecond,
    /// Percent, as they are.
    Percent,
    /// A share, as it is.
    Share,
    /// Whole things.
    Count,
    /// Times another thing.
    Times,
    /// Numbers of another unit, as they are.
    Other(&'static str),
}

impl Unit {
    /// A value as a person reads it, with at most three digits that count.
    #[must_use]
    pub fn exact(self, value: f64) -> String {
        // Nothing is nothing in every multiple.
        if value == 0.0 && !matches!(self, Unit::Percent | Unit::Times) {
            return "0".to_owned();
        }
        self.with(value, self.step(value), 3)
    }

    /// A value in the multiple that suits `like`, with so many digits that count.
    fn with(self, value: f64, (factor, prefix): (f64, &str), digits: i32) -> String {
        let scaled = value / factor;
        let number = match self {
            Unit::Count => grouped(value),
            _ => plain(scaled, digits),
        };
        match self {
            Unit::Bytes => format!("{number} {prefix}B"),
            Unit::Seconds => format!("{number} {prefix}s"),
            Unit::BytesPerSecond => format!("{number} {prefix}B/s"),
            Unit::BitsPerSecond => format!("{number} {prefix}b/s"),
            Unit::PerSecond => format!("{number} {prefix}/s").replace(" /s", "/s"),
            Unit::Percent => format!("{number} %"),
            Unit::Times => format!("{number}×"),
            Unit::Other(unit) if !unit.is_empty() => format!("{number} {unit}"),
            Unit::Share | Unit::Count | Unit::Other(_) => number,
        }
    }

    /// The multiple of the unit that a value is told in, and its prefix.
    fn step(self, value: f64) -> (f64, &'static str) {
        let size = value.abs();
        let of = |steps: &[(f64, &'static str)]| {
            let fits = steps.iter().find(|(factor, _)| size >= factor * 0.999_999);
            fits.or(steps.last()).copied().unwrap_or((1.0, ""))
        };
        let decimal = [(1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, "")];
        match self {
            Unit::Bytes => of(&[(1_099_511_627_776.0, "Ti"), (1_073_741_824.0, "Gi"), (1_048_576.0, "Mi"), (1024.0, "Ki"), (1.0, "")]),
            _ if size == 0.0 => (1.0, ""),
            Unit::Seconds => of(&[(1.0, ""), (1e-3, "m"), (1e-6, "µ"), (1e-9, "n"), (1e-12, "p")]),
            Unit::BytesPerSecond | Unit::BitsPerSecond | Unit::PerSecond => of(&decimal),
            _ => (1.0, ""),
        }
    }

    /// The numbers of an axis between two values, at most about `most` of them, with their words.
    #[must_use]
    pub fn ticks(self, scale: Scale, (from, to): (f64, f64), most: usize) -> Vec<(f64, String)> {
        let inside = |value: &f64| *value >= from - (to - from) * 1e-9 && *value <= to * (1.0 + 1e-9) + f64::MIN_POSITIVE;
        match scale {
            Scale::Linear => {
                let step = linear_step(from, to, most);
                let one = self.step(from.abs().max(to.abs()));
                let first = (from / step).ceil() as i64;
                let values = (0..=2 * most as i64).map(|number| (first + number) as f64 * step);
                let word = |value: f64| if value == 0.0 { self.with(0.0, one, 3) } else { self.with(value, one, 4) };
                values.take_while(|value| *value <= to + step * 1e-6).map(|value| (value, word(value))).collect()
            }
            Scale::Log2 => {
                let (low, high) = (from.log2().round() as i32, to.log2().round() as i32);
                let every = (((high - low) as f64 / most.max(1) as f64).ceil() as i32).max(1);
                // 1, 4, 16 rather than 1, 8, 64, so that KiB and MiB are among them.
                let every = if every == 3 { 4 } else { every };
                let first = low.div_euclid(every) * every;
                let values = (0..).map(|number| first + number * every).take_while(|exponent| *exponent <= high);
                values.map(|exponent| 2f64.powi(exponent)).filter(inside).map(|value| (value, self.exact(value))).collect()
            }
            Scale::Log10 => {
                let (low, high) = (from.log10().floor() as i32, to.log10().ceil() as i32);
                let decades = to.log10() - from.log10();
                let within: &[f64] = match decades {
                    few if few < 1.5 => &[1.0, 2.0, 5.0],
                    some if some < 2.5 && most > 5 => &[1.0, 3.0],
                    _ => &[1.0],
                };
                let every = ((decades / most.max(1) as f64).ceil() as i32).max(1) as usize;
                let exponents = (low..=high).filter(|exponent| exponent.rem_euclid(every as i32) == 0);
                let values = exponents.flat_map(|exponent| within.iter().map(move |factor| factor * 10f64.powi(exponent)));
                values.filter(inside).map(|value| (value, self.exact(value))).collect()
            }
        }
    }
}

/// A step of 1, 2 or 5 times a power of ten.
fn linear_step(from: f64, to: f64, most: usize) -> f64 {
    let rough = ((to - from) / most.max(1) as f64).max(f64::MIN_POSITIVE);
    let power = 10f64.powi(rough.log10().floor() as i32);
    let factor = [1.0, 2.0, 5.0, 10.0].into_iter().find(|factor| factor * power >= rough * 0.999_999).unwrap_or(10.0);
    factor * power
}

/// A number with so many digits that count, without zeros at its end.
fn plain(value: f64, digits: i32) -> String {
    if value == 0.0 {
        return "0".to_owned();
    }
    let decimals = (digits - 1 - value.abs().log10().floor() as i32).clamp(0, 9) as usize;
    let text = format!("{value:.decimals$}");
    let text = if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
    if text == "-0" { "0".to_owned() } else { text.replace('-', "−") }
}

/// A whole number with commas between thousands.
fn grouped(value: f64) -> String {
    if value.fract().abs() > 1e-9 {
        return plain(value, 3);
    }
    let digits = format!("{:.0}", value.abs());
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    if value < 0.0 { format!("−{text}") } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(unit: Unit, scale: Scale, from: f64, to: f64, most: usize) -> Vec<String> {
        unit.ticks(scale, (from, to), most).into_iter().map(|(_, word)| word).collect()
    }

    #[test]
    fn sizes_stand_at_powers_of_two() {
        let sizes = words(Unit::Bytes, Scale::Log2, 1.0, 4_194_304.0, 12);
        assert_eq!(sizes.join(" "), "1 B 4 B 16 B 64 B 256 B 1 KiB 4 KiB 16 KiB 64 KiB 256 KiB 1 MiB 4 MiB");
        assert_eq!(words(Unit::Bytes, Scale::Log2, 1.0, 4_194_304.0, 8).join(" "), "1 B 16 B 256 B 4 KiB 64 KiB 1 MiB");
        assert_eq!(words(Unit::Bytes, Scale::Log2, 8.0, 8.0, 8), ["8 B"]);
    }

    #[test]
    fn numbers_have_their_units() {
        assert_eq!(words(Unit::Seconds, Scale::Log10, 8e-7, 2e-3, 8), ["1 µs", "10 µs", "100 µs", "1 ms"]);
        assert_eq!(words(Unit::Seconds, Scale::Linear, 0.0, 1.3e-6, 6), ["0 µs", "0.5 µs", "1 µs"]);
        assert_eq!(words(Unit::BytesPerSecond, Scale::Log10, 2e9, 2e10, 8), ["2 GB/s", "5 GB/s", "10 GB/s", "20 GB/s"]);
        assert_eq!(words(Unit::Percent, Scale::Linear, -10.0, 10.0, 4), ["−10 %", "−5 %", "0 %", "5 %", "10 %"]);
        assert_eq!(Unit::Count.exact(65_536.0), "65,536");
        assert_eq!((Unit::BitsPerSecond.exact(1e11), Unit::PerSecond.exact(2.5e6)), ("100 Gb/s".to_owned(), "2.5 M/s".to_owned()));
        assert_eq!((Unit::Seconds.exact(1.234_56e-6), Unit::Share.exact(0.953_4)), ("1.23 µs".to_owned(), "0.953".to_owned()));
    }
}
