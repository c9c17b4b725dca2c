//! How large flows are: distributions as points of a cumulative distribution function.
//!
//! Source: the custom of the artifacts of pFabric (SIGCOMM 2013) and HPCC (SIGCOMM 2019): a text of `bytes share` lines.
//! Modelled: sizes between two points are equally likely (linear interpolation); where the share grows at one size, and at the
//! first point, that share of the flows has exactly that size.
//! Not modelled: dependence of a size on the sizes before it, on the sender or on the time.

use fabriscope_units::Bytes;

/// How large flows are.
#[derive(Debug, Clone, PartialEq)]
pub struct SizeDistribution {
    /// Bytes, and the share of flows that are no larger [0..1]; neither falls, the last share is 1.
    points: Vec<(f64, f64)>,
}

/// Why a text is no distribution of sizes.
#[derive(Debug, Clone, PartialEq, thiserror::Error, miette::Diagnostic)]
#[non_exhaustive]
pub enum SizesError {
    /// A line that is not two numbers.
    #[error("line {line}: `{text}` is not two numbers")]
    #[diagnostic(help("write the bytes and the share of the flows that are no larger: `10000 15`"))]
    Line {
        /// Its number, from 1.
        line: usize,
        /// What stands there.
        text: String,
    },
    /// Sizes or shares that go back.
    #[error("line {line}: sizes and shares have to grow")]
    #[diagnostic(help("sort the lines, the smallest size and share first"))]
    Order {
        /// Its number, from 1.
        line: usize,
    },
    /// No largest size.
    #[error("the last share is {last}")]
    #[diagnostic(help("end with the largest size at a share of 1, or at 100 where shares are percent"))]
    Open {
        /// The last share.
        last: f64,
    },
    /// A size that is no number of bytes.
    #[error("line {line}: a flow of {bytes} bytes")]
    #[diagnostic(help("use sizes of 0 to 2147483648 bytes"))]
    Size {
        /// Its number, from 1.
        line: usize,
        /// The size.
        bytes: f64,
    },
}

impl SizeDistribution {
    /// Reads `bytes share` lines; `#` begins a comment. The last share says whether they are shares of 1 or of 100.
    ///
    /// # Errors
    /// What is no distribution, with its line.
    pub fn parse(text: &str) -> Result<SizeDistribution, SizesError> {
        let mut points: Vec<(f64, f64)> = Vec::new();
        for (number, written) in text.lines().enumerate() {
            let line = number + 1;
            let content = written.split('#').next().unwrap_or_default().trim();
            if content.is_empty() {
                continue;
            }
            let mut words = content.split([' ', '\t', ',']).filter(|word| !word.is_empty()).map(str::parse::<f64>);
            let (Some(Ok(bytes)), Some(Ok(share)), None) = (words.next(), words.next(), words.next()) else {
                return Err(SizesError::Line { line, text: content.to_owned() });
            };
            if !(0.0..=LARGEST).contains(&bytes) {
                return Err(SizesError::Size { line, bytes });
            }
            let grows = points.last().is_none_or(|(before, below)| bytes >= *before && share >= *below);
            if !grows || !(0.0..=100.0).contains(&share) {
                return Err(SizesError::Order { line });
            }
            points.push((bytes, share));
        }
        let last = points.last().map_or(0.0, |(_, share)| *share);
        let whole = if (last - 100.0).abs() < 1e-6 { 100.0 } else { 1.0 };
        if (last - whole).abs() > 1e-6 {
            return Err(SizesError::Open { last });
        }
        points.iter_mut().for_each(|(_, share)| *share = (*share / whole).min(1.0));
        Ok(SizeDistribution { points })
    }

    /// Flows of one size.
    #[must_use]
    pub fn fixed(size: Bytes) -> SizeDistribution {
        SizeDistribution { points: vec![(size.as_u64() as f64, 1.0)] }
    }

    /// The mean size in bytes.
    #[must_use]
    pub fn mean(&self) -> f64 {
        let first = self.points.first().map_or(0.0, |(bytes, share)| bytes * share);
        let between = self.points.windows(2).map(|pair| (pair[0].0 + pair[1].0) / 2.0 * (pair[1].1 - pair[0].1));
        first + between.sum::<f64>()
    }

    /// The size that a share `share` of the flows does not exceed; at least one byte.
    #[must_use]
    pub fn quantile(&self, share: f64) -> Bytes {
        let at = self.points.partition_point(|(_, below)| *below < share);
        let bytes = match (at.checked_sub(1).and_then(|before| self.points.get(before)), self.points.get(at)) {
            (Some((low, from)), Some((high, to))) => low + (high - low) * (share - from) / (to - from),
            (None, Some((only, _))) => *only,
            (Some((largest, _)), None) => *largest,
            (None, None) => 0.0,
        };
        Bytes((bytes.round() as u64).max(1))
    }
}

/// The largest size of a flow in bytes: the largest RDMA message (InfiniBand Architecture Specification volume 1, 2³¹).
const LARGEST: f64 = 2_147_483_648.0;

#[cfg(test)]
mod tests {
    use fabriscope_units::Remedy;

    use super::*;

    #[test]
    fn sizes_between_points_are_equally_likely() {
        let sizes = SizeDistribution::parse("# two\n0 0\n1000 50 # half\n\n3000,100\n").unwrap();
        // Half of the flows have 500 bytes on the average, the others 2000.
        assert!((sizes.mean() - 1250.0).abs() < 1e-9);
        let quantiles = [0.25, 0.5, 0.75, 1.0].map(|share| sizes.quantile(share).as_u64());
        assert_eq!(quantiles, [500, 1000, 2000, 3000]);
        assert_eq!(sizes.quantile(0.0), Bytes(1));
        // Shares of one mean the same.
        assert_eq!(SizeDistribution::parse("0 0\n1000 0.5\n3000 1").unwrap(), sizes);
    }

    #[test]
    fn a_share_at_the_first_point_has_its_size() {
        let sizes = SizeDistribution::parse("1000 40\n2000 100").unwrap();
        assert_eq!([0.1, 0.4, 0.7].map(|share| sizes.quantile(share).as_u64()), [1000, 1000, 1500]);
        // 0.4 · 1000 + 0.6 · 1500.
        assert!((sizes.mean() - 1300.0).abs() < 1e-9);
        // Two sizes and nothing between them.
        let steps = SizeDistribution::parse("10 0\n10 0.5\n20 0.5\n20 1").unwrap();
        assert_eq!([0.1, 0.5, 0.51, 1.0].map(|share| steps.quantile(share).as_u64()), [10, 10, 20, 20]);
        assert!((steps.mean() - 15.0).abs() < 1e-9);
        let fixed = SizeDistribution::fixed(Bytes(64));
        assert_eq!((fixed.mean() as u64, fixed.quantile(0.3), fixed.quantile(1.0)), (64, Bytes(64), Bytes(64)));
    }

    #[test]
    fn errors_name_the_line_and_the_remedy() {
        let message = |text: &str| SizeDistribution::parse(text).unwrap_err().in_full();
        assert!(message("0 0\nfive 5\n").contains("line 2: `five 5`"));
        assert!(message("0 0\n1 2 3\n").contains("not two numbers"));
        assert!(message("10 0\n5 100\n").contains("line 2") && message("0 50\n5 40\n6 100").contains("sort the lines"));
        assert!(message("0 0\n10 90\n").contains("the last share is 90") && message("").contains("end with the largest size"));
        assert!(message("-1 0\n10 100\n").contains("-1 bytes") && message("0 0\nNaN 100\n").contains("bytes"));
    }
}
