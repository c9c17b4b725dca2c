//! What binds `ior`: client, network, server or disk; and which striping would be best.

use fabriscope_tool::UsageError;

use crate::ior;
use crate::mount::Mount;

/// What an explanation has: a table of shares and a table of stripings.
#[derive(Debug, Clone, PartialEq)]
pub struct Explained {
    /// Direction, MiB/s.
    pub rates: Vec<(&'static str, f64)>,
    /// Direction, whose it is, what, share of the time at work.
    pub shares: Vec<(&'static str, &'static str, &'static str, f64)>,
    /// Direction, what binds and whose it is; latency where nothing does.
    pub binds: Vec<(&'static str, String)>,
    /// Stripe count, MiB/s of each direction.
    pub stripings: Vec<(i32, Vec<f64>)>,
}

/// Says what binds the run of these options, and what other stripe counts give.
///
/// # Errors
/// What is wrong with the command line.
pub fn explain(args: &[String], mount: &Mount) -> Result<Explained, UsageError> {
    let usages = ior::usages(args, mount)?;
    let mut explained = Explained { rates: Vec::new(), shares: Vec::new(), binds: Vec::new(), stripings: Vec::new() };
    for (direction, rate, usage) in &usages {
        explained.rates.push((direction, *rate));
        let shares = usage.shares().iter().map(|(what, share)| (*direction, what.whose(), what.name(), *share));
        explained.shares.extend(shares);
        let binds = usage.binds().map_or_else(
            || "latency: more processes, or more RPCs in flight, would give more".to_owned(),
            |(what, _)| format!("{}: {}", what.whose(), what.name()),
        );
        explained.binds.push((direction, binds));
    }
    let osts = i32::try_from(mount.system.osts()).unwrap_or(i32::MAX);
    let mut count = 1;
    while count < osts {
        explained.stripings.push((count, Vec::new()));
        count = count.saturating_mul(4);
    }
    explained.stripings.push((osts, Vec::new()));
    for (count, rates) in &mut explained.stripings {
        let mut other = args.to_vec();
        other.push(format!("--stripe-count={count}"));
        *rates = ior::usages(&other, mount)?.into_iter().map(|(_, rate, _)| rate).collect();
    }
    Ok(explained)
}
