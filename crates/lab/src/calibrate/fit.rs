//! Least squares of a few logarithms: which directions the points tell apart, steps towards the least, and how sure they are.
//!
//! Residuals are `ln(predicted / measured)`, parameters `u = ln(value / value of the catalogue)`. Each parameter is held back by `(u / scale)²` of
//! its own, in units of the noise, so that what the points do not tell stays where it was (Levenberg and Marquardt, with a prior). Single points far
//! off count with less weight (Huber's, at 2.5 times the median residual).

/// Columns of derivatives: `jacobian[parameter][point]`.
pub(super) type Jacobian = Vec<Vec<f64>>;

/// The parameters that the points tell apart, and those that they do not.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Chosen {
    /// Those to be fitted, the most telling first.
    pub kept: Vec<usize>,
    /// Those that move the points as one of the kept does: the parameter, that one, and the cosine between both.
    pub alike: Vec<(usize, usize, f64)>,
}

/// Chooses at most `most` parameters by how much of each the others do not explain, in steps of their `scales`.
pub(super) fn choose(jacobian: &Jacobian, scales: &[f64], most: usize) -> Chosen {
    let scaled = |at: usize| -> Vec<f64> { jacobian[at].iter().map(|value| value * scales[at]).collect() };
    let mut rest: Vec<Vec<f64>> = (0..jacobian.len()).map(scaled).collect();
    let whole: Vec<f64> = rest.iter().map(|column| norm(column)).collect();
    let points = jacobian.first().map_or(1, Vec::len).max(1) as f64;
    let telling = |norm: f64| norm / points.sqrt() > LEAST;
    let mut chosen = Chosen::default();
    while chosen.kept.len() < most {
        let open = (0..rest.len()).filter(|at| !chosen.kept.contains(at));
        let apart = open.filter(|at| telling(norm(&rest[*at])) && norm(&rest[*at]) > APART * whole[*at]);
        let Some(next) = apart.max_by(|a, b| norm(&rest[*a]).total_cmp(&norm(&rest[*b]))) else { break };
        let length = norm(&rest[next]);
        let direction: Vec<f64> = rest[next].iter().map(|value| value / length).collect();
        for column in &mut rest {
            let along = dot(column, &direction);
            column.iter_mut().zip(&direction).for_each(|(value, direction)| *value -= along * direction);
        }
        chosen.kept.push(next);
    }
    for at in (0..rest.len()).filter(|at| !chosen.kept.contains(at) && telling(whole[*at])) {
        let cosine =
            |kept: &usize| dot(&jacobian[at], &jacobian[*kept]) / (norm(&jacobian[at]) * norm(&jacobian[*kept])).max(f64::MIN_POSITIVE);
        let nearest = chosen.kept.iter().max_by(|a, b| cosine(a).abs().total_cmp(&cosine(b).abs()));
        chosen.alike.extend(nearest.map(|kept| (at, *kept, cosine(kept))));
    }
    chosen
}

/// The step from `at` towards the least, and the covariance there. `weights` are of the points.
pub(super) fn step(
    jacobian: &Jacobian,
    residuals: &[f64],
    weights: &[f64],
    at: &[f64],
    scales: &[f64],
    noise: f64,
) -> (Vec<f64>, Vec<Vec<f64>>) {
    let count = jacobian.len();
    let mut normal = vec![vec![0.0; count]; count];
    let mut right = vec![0.0; count];
    for row in 0..count {
        for column in 0..count {
            normal[row][column] = weighted(&jacobian[row], &jacobian[column], weights);
        }
        let prior = (noise / scales[row]).powi(2);
        normal[row][row] += prior;
        right[row] = -weighted(&jacobian[row], residuals, weights) - prior * at[row];
    }
    let inverse = inverted(normal);
    let step = inverse.iter().map(|row| dot(row, &right)).collect();
    (step, inverse)
}

/// Weights of points by their residuals.
pub(super) fn weights(residuals: &[f64]) -> Vec<f64> {
    let cut = 2.5 * noise_of(residuals).max(FINEST);
    residuals.iter().map(|residual| (cut / residual.abs().max(f64::MIN_POSITIVE)).min(1.0)).collect()
}

/// The size of usual residuals: the median, as of a normal distribution.
pub(super) fn noise_of(residuals: &[f64]) -> f64 {
    let mut sizes: Vec<f64> = residuals.iter().map(|residual| residual.abs()).collect();
    sizes.sort_by(f64::total_cmp);
    sizes.get(sizes.len() / 2).map_or(FINEST, |median| 1.4826 * median).max(FINEST)
}

/// What is minimised.
pub(super) fn cost(residuals: &[f64], weights: &[f64], at: &[f64], scales: &[f64], noise: f64) -> f64 {
    let prior: f64 = at.iter().zip(scales).map(|(at, scale)| (at / scale * noise).powi(2)).sum();
    weighted(residuals, residuals, weights) + prior
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

fn weighted(a: &[f64], b: &[f64], weights: &[f64]) -> f64 {
    a.iter().zip(b).zip(weights).map(|((a, b), weight)| a * b * weight).sum()
}

fn norm(column: &[f64]) -> f64 {
    dot(column, column).sqrt()
}

/// The inverse of a symmetric positive matrix by elimination with the largest pivots; the prior keeps it from being singular.
fn inverted(mut matrix: Vec<Vec<f64>>) -> Vec<Vec<f64>> {
    let count = matrix.len();
    let mut inverse: Vec<Vec<f64>> = (0..count).map(|row| (0..count).map(|column| f64::from(u8::from(row == column))).collect()).collect();
    for at in 0..count {
        let pivot = (at..count).max_by(|a, b| matrix[*a][at].abs().total_cmp(&matrix[*b][at].abs())).unwrap_or(at);
        matrix.swap(at, pivot);
        inverse.swap(at, pivot);
        let by = if matrix[at][at] == 0.0 { 1.0 } else { matrix[at][at] };
        matrix[at].iter_mut().for_each(|value| *value /= by);
        inverse[at].iter_mut().for_each(|value| *value /= by);
        let (row, unit) = (matrix[at].clone(), inverse[at].clone());
        for other in (0..count).filter(|other| *other != at) {
            let by = matrix[other][at];
            matrix[other].iter_mut().zip(&row).for_each(|(value, row)| *value -= by * row);
            inverse[other].iter_mut().zip(&unit).for_each(|(value, unit)| *value -= by * unit);
        }
    }
    inverse
}

/// A parameter whose step by its scale moves the points by less on average tells nothing. Basis: assumed, a thousandth.
const LEAST: f64 = 1e-3;
/// The share of a parameter's effect that those already chosen must leave unexplained. Basis: assumed.
const APART: f64 = 0.35;
/// No measurement is better than this. Basis: assumed, half a percent.
const FINEST: f64 = 0.005;

#[cfg(test)]
mod tests {
    use super::*;

    /// Ten points `a + b x` in two parameters, and a third that is the first by another name.
    fn line() -> (Jacobian, Vec<f64>) {
        let x = |at: usize| at as f64 / 10.0;
        let jacobian = vec![vec![1.0; 10], (0..10).map(x).collect(), vec![0.5; 10]];
        // Measured with a = 0.1, b = −0.2, seen from 0: predicted − measured.
        (jacobian, (0..10).map(|at| -(0.1 - 0.2 * x(at))).collect())
    }

    #[test]
    fn what_moves_points_alike_is_not_told_apart() {
        let (jacobian, _) = line();
        let chosen = choose(&jacobian, &[0.3, 0.3, 0.3], 14);
        assert_eq!(chosen.kept, [0, 1]);
        let [(of, like, cosine)] = chosen.alike[..] else { panic!("{chosen:?}") };
        assert_eq!((of, like), (2, 0));
        assert!((cosine - 1.0).abs() < 1e-12);
        assert_eq!(choose(&jacobian, &[0.3, 0.3, 0.3], 1).kept.len(), 1);
    }

    #[test]
    fn a_line_is_found_and_a_loose_prior_holds_nothing_back() {
        let (jacobian, residuals) = line();
        let jacobian = jacobian[..2].to_vec();
        let (step, covariance) = step(&jacobian, &residuals, &[1.0; 10], &[0.0; 2], &[1e3, 1e3], 0.01);
        assert!((step[0] - 0.1).abs() < 1e-6 && (step[1] + 0.2).abs() < 1e-6, "{step:?}");
        // Of the slope: 1 / Σ (x − x̄)² = 1 / 0.825.
        assert!((covariance[1][1] - 1.0 / 0.825).abs() < 1e-3, "{covariance:?}");
        // A prior of a thousandth keeps it where it was.
        let (held, _) = super::step(&jacobian, &residuals, &[1.0; 10], &[0.0; 2], &[1e-4, 1e-4], 0.01);
        assert!(held.iter().all(|step| step.abs() < 1e-3), "{held:?}");
    }
}
