//! Errors of a table: how far the predictions lie from the measurements, in percent of the measured value.
//!
//! Error of a point: `e = 100 (predicted − measured) / measured`. Median, 90th percentile and maximum are of
//! `|e|`, the bias is the mean of `e`. Percentiles interpolate linearly between the sorted points.

use serde::Serialize;

/// A measured value and its prediction, in the same unit.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Point {
    /// The published value.
    pub measured: f64,
    /// The model's value.
    pub predicted: f64,
}

/// The errors of a table in percent of the measured values.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Summary {
    /// Median of the absolute errors [%].
    pub median: f64,
    /// 90th percentile of the absolute errors [%].
    pub p90: f64,
    /// Largest absolute error [%].
    pub max: f64,
    /// Mean signed error [%]; positive where the model reads high.
    pub bias: f64,
}

impl Point {
    /// Signed error in percent of the measured value.
    #[must_use]
    pub fn error_percent(&self) -> f64 {
        100.0 * (self.predicted - self.measured) / self.measured
    }
}

impl Summary {
    /// The errors of `points`; `None` where there are none.
    #[must_use]
    pub fn of(points: &[Point]) -> Option<Summary> {
        if points.is_empty() {
            return None;
        }
        let signed: Vec<f64> = points.iter().map(Point::error_percent).collect();
        let mut sizes: Vec<f64> = signed.iter().map(|e| e.abs()).collect();
        sizes.sort_by(f64::total_cmp);
        Some(Summary {
            median: percentile(&sizes, 50),
            p90: percentile(&sizes, 90),
            max: sizes[sizes.len() - 1],
            bias: signed.iter().sum::<f64>() / signed.len() as f64,
        })
    }
}

/// The `percent`-th percentile of sorted values, linear between neighbours: rank `percent/100 · (n − 1)`.
#[must_use]
pub fn percentile(sorted: &[f64], percent: usize) -> f64 {
    let scaled = percent * (sorted.len() - 1);
    let (below, rest) = (scaled / 100, scaled % 100);
    match sorted.get(below + 1) {
        Some(above) if rest > 0 => sorted[below] + (above - sorted[below]) * rest as f64 / 100.0,
        _ => sorted[below],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn points(errors: &[f64]) -> Vec<Point> {
        errors.iter().map(|e| Point { measured: 200.0, predicted: 200.0 + 2.0 * e }).collect()
    }

    #[test]
    fn percentiles_interpolate_and_the_bias_keeps_its_sign() {
        // |e| sorted: 1 2 3 4 5; median = 3; 90 %: rank 3.6 lies 0.6 of the way from 4 to 5 = 4.6.
        let summary = Summary::of(&points(&[-5.0, 1.0, -3.0, 4.0, -2.0])).unwrap();
        assert!((summary.median - 3.0).abs() < 1e-9 && (summary.p90 - 4.6).abs() < 1e-9);
        assert!((summary.max - 5.0).abs() < 1e-9 && (summary.bias + 1.0).abs() < 1e-9);
    }

    #[test]
    fn one_point_is_its_own_summary() {
        let summary = Summary::of(&points(&[-7.0])).unwrap();
        assert_eq!((summary.median, summary.p90, summary.max, summary.bias), (7.0, 7.0, 7.0, -7.0));
        assert!(Summary::of(&[]).is_none());
    }

    #[test]
    fn the_median_of_an_even_number_is_the_mean_of_the_two_in_the_middle() {
        let summary = Summary::of(&points(&[1.0, 2.0, 4.0, 8.0])).unwrap();
        assert!((summary.median - 3.0).abs() < 1e-9);
    }
}
