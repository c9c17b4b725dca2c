//! Fabriscope as a library: what the program does, for programs of your own.
//!
//! Six questions, each with options that are added one after the other; each answer is one [`Outcome`], which
//! [`render`] prints as text, JSON or CSV. Nothing here prints, exits or reads a clock; the same question gives the same bytes.
//!
//! - [`bench()`]: what does a benchmark program print on a cluster?
//! - [`run`]: what happens in an experiment file?
//! - [`validate`]: how far are predictions from published measurements?
//! - [`diagnose()`]: is a measured table normal, and what is wrong if not?
//! - [`explain`]: where does the time of one message go?
//! - [`sensitivity`]: which numbers of the catalogue matter?
//!
//! ```
//! let outcome = fabriscope::bench("osu_latency", "ri2").args(["-m", "8:8", "-i", "10"]).outcome()?;
//! let latency_us = outcome.get("points").and_then(|points| points[0]["value"].as_f64()).expect("one size was run");
//! assert!((1.0..2.0).contains(&latency_us), "{latency_us}");
//! # Ok::<(), fabriscope::Error>(())
//! ```

mod ask;
mod diagnose;
mod error;
mod validate;
mod vary;

pub use ask::{Bench, Explain, Run, bench, explain, run};
pub use diagnose::{Diagnose, diagnose};
pub use error::Error;
pub use fabriscope_catalog::{Catalog, ResolvedCluster};
pub use fabriscope_report::{Outcome, Verdict, render};
pub use validate::{Validate, cited, validate};
pub use vary::{Sensitivity, sensitivity};
