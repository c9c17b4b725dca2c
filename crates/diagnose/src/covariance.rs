//! How probable the errors of a table are where errors belong together: a Gaussian process over the logarithm of the size.
//!
//! Source: C. E. Rasmussen, C. K. I. Williams, "Gaussian Processes for Machine Learning", MIT Press 2006, §2.2 and algorithm 2.1.
//! Modelled: an offset of the whole table, a deviation that changes slowly with the size (exponential kernel), noise of single points;
//! each at one of several levels, of which every table has its own (a mixture: heavy tails).
//! Not modelled: errors that jump where a protocol changes.

/// A point as far as the errors of others tell something of its own.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Site {
    /// Logarithm of the size to base two.
    pub octave: f64,
    /// Which of the curves of the table it is on.
    pub series: usize,
    /// What an error of its kind is \[natural logarithm\].
    pub scale: f64,
}

/// How large each part of the error is, in scales; noise in shares of [`NOISE`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Level {
    offset: f64,
    slow: f64,
    noise: f64,
}

/// Noise of one measured point: what ±5 % evenly spread have as their standard deviation. Basis: assumed.
pub(crate) const NOISE: f64 = 0.03;
/// Sizes over which a slow deviation stays alike, in octaves. Basis: assumed; protocols change about every three octaves.
const REACH: f64 = 3.0;
/// What slow deviations of two curves of one table have in common. Basis: assumed.
const SHARED: f64 = 0.5;

/// Every combination of levels. Basis: assumed; steps of about three from much less than usual to much more.
pub(crate) fn levels() -> Vec<Level> {
    let steps = [0.1, 0.4, 1.0, 3.0, 10.0];
    let of = |offset: f64| steps.iter().flat_map(move |slow| [1.0, 3.0].map(move |noise| Level { offset, slow: *slow, noise }));
    steps.iter().flat_map(|offset| of(*offset)).collect()
}

/// A covariance matrix, factored.
#[derive(Debug, Clone)]
pub(crate) struct Factor {
    /// The lower triangle, row by row.
    rows: Vec<Vec<f64>>,
    /// The logarithm of the determinant of the covariance.
    log_det: f64,
}

impl Factor {
    /// The covariance of the errors at `sites`.
    pub(crate) fn of(sites: &[Site], level: Level) -> Factor {
        let entry = |i: usize, j: usize| {
            let (a, b) = (sites[i], sites[j]);
            let alike = if a.series == b.series { 1.0 } else { SHARED };
            let near = libm::exp(-(a.octave - b.octave).abs() / REACH);
            let together = level.offset * level.offset + level.slow * level.slow * alike * near;
            let own = if i == j { (level.noise * NOISE) * (level.noise * NOISE) } else { 0.0 };
            a.scale * b.scale * together + own
        };
        let mut rows: Vec<Vec<f64>> = Vec::with_capacity(sites.len());
        let mut log_det = 0.0;
        for i in 0..sites.len() {
            let mut row: Vec<f64> = Vec::with_capacity(i + 1);
            for (j, above) in rows.iter().map(Some).chain([None]).enumerate() {
                let done: f64 = row.iter().zip(above.unwrap_or(&row)).map(|(a, b)| a * b).sum();
                let rest = entry(i, j) - done;
                let Some(above) = above else {
                    // The noise of a point keeps its diagonal above zero, but for rounding.
                    let pivot = libm::sqrt(rest.max(1e-12));
                    log_det += 2.0 * libm::log(pivot);
                    row.push(pivot);
                    break;
                };
                row.push(rest / above[j]);
            }
            rows.push(row);
        }
        Factor { rows, log_det }
    }

    /// The logarithm of the density of `errors`.
    pub(crate) fn log_density(&self, errors: &[f64]) -> f64 {
        let mut white: Vec<f64> = Vec::with_capacity(errors.len());
        for (row, error) in self.rows.iter().zip(errors) {
            let known: f64 = row.iter().zip(&white).map(|(factor, value)| factor * value).sum();
            white.push((error - known) / row[white.len()]);
        }
        let squares: f64 = white.iter().map(|value| value * value).sum();
        -0.5 * (squares + self.log_det + errors.len() as f64 * LOG_TWO_PI)
    }
}

/// ln 2π.
const LOG_TWO_PI: f64 = 1.837_877_066_409_345_3;

/// The logarithm of a sum of terms that are given as logarithms.
pub(crate) fn log_sum(terms: &[f64]) -> f64 {
    let most = terms.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    if most == f64::NEG_INFINITY {
        return most;
    }
    most + libm::log(terms.iter().map(|term| libm::exp(term - most)).sum())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn site(octave: f64) -> Site {
        Site { octave, series: 0, scale: 0.1 }
    }

    #[test]
    fn one_point_has_the_density_of_a_normal_variable() {
        let level = Level { offset: 1.0, slow: 1.0, noise: 1.0 };
        // Variance: 0.1² twice and 0.03².
        let variance: f64 = 0.0209;
        let expected = -0.5 * (0.04 / variance + libm::log(variance) + libm::log(std::f64::consts::TAU));
        let found = Factor::of(&[site(3.0)], level).log_density(&[0.2]);
        assert!((found - expected).abs() < 1e-12, "{found} {expected}");
    }

    #[test]
    fn two_points_have_that_of_two_that_belong_together() {
        let level = Level { offset: 1.0, slow: 1.0, noise: 1.0 };
        let (own, both) = (0.0209, 0.01 + 0.01 * libm::exp(-1.0));
        let det = own * own - both * both;
        let (a, b) = (0.2, -0.1);
        let square = (own * a * a - 2.0 * both * a * b + own * b * b) / det;
        let expected = -0.5 * (square + libm::log(det)) - LOG_TWO_PI;
        let found = Factor::of(&[site(0.0), site(3.0)], level).log_density(&[a, b]);
        assert!((found - expected).abs() < 1e-9, "{found} {expected}");
    }

    #[test]
    fn sums_of_logarithms_do_not_run_over() {
        assert!((log_sum(&[-1000.0, -1000.0]) - (-1000.0 + libm::log(2.0))).abs() < 1e-12);
        assert_eq!(log_sum(&[f64::NEG_INFINITY]), f64::NEG_INFINITY);
    }
}
