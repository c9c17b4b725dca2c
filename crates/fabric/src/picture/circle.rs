//! Points on a circle, the same bits on every platform.
//!
//! Sine and cosine by their Taylor series after folding to an eighth of a turn: additions and products alone, which IEEE
//! 754 rounds the same everywhere. The error is below 10⁻¹², a picture needs 10⁻⁴.

use super::sketch::Point;

/// The point of the unit circle at this share of a turn; 0 is above, and it goes round as a clock does.
pub(super) fn at(share: f64) -> Point {
    let share = share - share.floor();
    // Eighths of a turn, and what is left of the eighth, folded so that it grows from 0.
    let eighth = (share * 8.0).floor() as u32 % 8;
    let rest = share * 8.0 - f64::from(eighth);
    let (folded, swap) = if eighth.is_multiple_of(2) { (rest, false) } else { (1.0 - rest, true) };
    let angle = folded * std::f64::consts::FRAC_PI_4;
    let square = angle * angle;
    let series = |first: f64, start: f64| {
        let (mut sum, mut term, mut n) = (first, first, start);
        for _ in 0..8 {
            term *= -square / (n * (n + 1.0));
            sum += term;
            n += 2.0;
        }
        sum
    };
    let (cos, sin) = (series(1.0, 1.0), series(angle, 2.0));
    let (along, across) = if swap { (sin, cos) } else { (cos, sin) };
    // `along` is measured from where the quarter begins.
    match eighth / 2 {
        0 => Point { x: across, y: -along },
        1 => Point { x: along, y: across },
        2 => Point { x: -across, y: along },
        _ => Point { x: -along, y: -across },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_the_circle() {
        for step in -100..300 {
            let share = f64::from(step) / 77.0;
            let Point { x, y } = at(share);
            let (sin, cos) = (share * std::f64::consts::TAU).sin_cos();
            assert!((x - sin).abs() < 1e-10 && (y + cos).abs() < 1e-10, "{share}: {x} {y}");
        }
    }
}
