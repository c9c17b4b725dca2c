//! What xhpl prints, in the form that programs read which look for its table and its residual.
//!
//! Source: HPL 2.3, HPL_pdinfo.c and HPL_pdtest.c. No numbers are computed, so the residual stands as zero.

use std::fmt::Write;

use crate::broadcast::Broadcast;
use crate::grid::Mapping;
use crate::problem::Problem;
use crate::run::Times;
use crate::swap::Swap;

/// The output of a run.
#[must_use]
pub fn printed(problem: &Problem, times: &Times) -> String {
    let (double, single) = ("=".repeat(80), "-".repeat(80));
    let mut text = format!("{double}\n{HEAD}{double}\n\n{EXPLANATION}\nThe following parameter values will be used:\n\n");
    let bcast = match problem.broadcast {
        Broadcast::Ring => "1ring",
        Broadcast::RingModified => "1ringM",
        Broadcast::TwoRing => "2ring",
        Broadcast::TwoRingModified => "2ringM",
        Broadcast::Long => "Blong",
        Broadcast::LongModified => "BlongM",
    };
    let swap = match problem.swap {
        Swap::BinaryExchange => "Binary-exchange".to_owned(),
        Swap::Long => "Spread-roll (long)".to_owned(),
        Swap::Mix(threshold) => format!("Mix (threshold = {threshold})"),
    };
    let depth = u32::from(problem.look_ahead);
    let settings = [
        ("N", format!("{:>8} ", problem.unknowns)),
        ("NB", format!("{:>8} ", problem.block)),
        ("PMAP", format!(" {}-major process mapping", if problem.mapping == Some(Mapping::Columns) { "Column" } else { "Row" })),
        ("P", format!("{:>8} ", problem.grid.rows)),
        ("Q", format!("{:>8} ", problem.grid.columns)),
        ("PFACT", format!("{:>8} ", "Right")),
        ("NBMIN", format!("{:>8} ", problem.least)),
        ("NDIV", format!("{:>8} ", 2)),
        ("RFACT", format!("{:>8} ", "Right")),
        ("BCAST", format!("{bcast:>8} ")),
        ("DEPTH", format!("{depth:>8} ")),
        ("SWAP", format!(" {swap}")),
        ("L1", " transposed form".to_owned()),
        ("U", " transposed form".to_owned()),
        ("EQUIL", " yes".to_owned()),
        ("ALIGN", " 8 double precision words".to_owned()),
    ];
    for (name, value) in settings {
        let _ = writeln!(text, "{name:<7}:{value}");
    }
    let _ = write!(text, "\n{single}\n\n{CHECKS}\n{double}\n");
    let _ = writeln!(text, "T/V                N    NB     P     Q               Time                 Gflops\n{single}");
    let variant = format!("WR{depth}{}R2R{}", problem.broadcast.number(), problem.least % 10);
    let Problem { unknowns, block, grid, .. } = problem;
    let gflops = exponent(times.rate() / 1e9, 4);
    let _ =
        writeln!(text, "{variant}{unknowns:>12} {block:>5} {:>5} {:>5} {:>18.2}     {gflops:>18}", grid.rows, grid.columns, times.total);
    let _ = writeln!(text, "{single}");
    let _ = writeln!(text, "||Ax-b||_oo/(eps*(||A||_oo*||x||_oo+||b||_oo)*N)= {:>16} ...... PASSED\n{double}", exponent(0.0, 8));
    let _ = write!(text, "\n{RESULTS}{single}\n\nEnd of Tests.\n{double}\n");
    text
}

/// As `%e` of C: at least two digits of exponent, with its sign.
fn exponent(value: f64, digits: usize) -> String {
    let text = format!("{value:.digits$e}");
    match text.split_once('e') {
        Some((mantissa, power)) => match power.strip_prefix('-') {
            Some(power) => format!("{mantissa}e-{power:0>2}"),
            None => format!("{mantissa}e+{power:0>2}"),
        },
        None => text,
    }
}

const HEAD: &str = "\
HPLinpack 2.3  --  High-Performance Linpack benchmark  --   December 2, 2018
Written by A. Petitet and R. Clint Whaley,  Innovative Computing Laboratory, UTK
Modified by Piotr Luszczek, Innovative Computing Laboratory, UTK
Modified by Julien Langou, University of Colorado Denver
";
const EXPLANATION: &str = "\
An explanation of the input/output parameters follows:
T/V    : Wall time / encoded variant.
N      : The order of the coefficient matrix A.
NB     : The partitioning blocking factor.
P      : The number of process rows.
Q      : The number of process columns.
Time   : Time in seconds to solve the linear system.
Gflops : Rate of execution for solving the linear system.
";
const CHECKS: &str = "\
- The matrix A is randomly generated for each test.
- The following scaled residual check will be computed:
      ||Ax-b||_oo / ( eps * ( || x ||_oo * || A ||_oo + || b ||_oo ) * N )
- The relative machine precision (eps) is taken to be               1.110223e-16
- Computational tests pass if scaled residuals are less than                16.0
";
const RESULTS: &str = "\
Finished      1 tests with the following results:
              1 tests completed and passed residual checks,
              0 tests completed and failed residual checks,
              0 tests skipped because of illegal input values.
";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::grid::Grid;

    #[test]
    fn the_table_is_where_programs_look_for_it() {
        let problem = Problem::new(29184, 192, Grid { rows: 2, columns: 2 });
        let times = Times { total: 120.5, operations: 120.5 * 137.54e9, ..Times::default() };
        let text = printed(&problem, &times);
        let row = text.lines().find(|line| line.starts_with("WR")).unwrap();
        assert_eq!(row, "WR11R2R6       29184   192     2     2             120.50             1.3754e+02");
        assert!(text.contains(")*N)=   0.00000000e+00 ...... PASSED"));
        assert!(text.lines().all(|line| line.len() <= 80));
    }

    #[test]
    fn exponents_as_c_prints_them() {
        assert_eq!(exponent(1.5e-7, 3), "1.500e-07");
        assert_eq!(exponent(2.0, 4), "2.0000e+00");
    }
}
