//! Fabriscope as a library: what the program does, for programs of your own.
//!
//! Sixteen questions, each with options that are added one after the other; each answer is one [`Outcome`], which
//! [`render`] prints as text, JSON or CSV. Nothing here prints, exits or reads a clock; the same question gives the same bytes.
//!
//! - [`bench()`]: what does a benchmark program print on a cluster?
//! - [`run`]: what happens in an experiment file?
//! - [`monitor()`]: what would operators see of an experiment while it runs?
//! - [`validate`]: how far are predictions from published measurements?
//! - [`diagnose()`]: is a measured table normal, and what is wrong if not?
//! - [`explain`]: where does the time of one message go?
//! - [`sweep()`]: what do all these tools on all these clusters give, with all these values?
//! - [`report`]: a page about a cluster, about several side by side, or about an experiment.
//! - [`sensitivity`]: which numbers of the catalogue matter?
//! - [`expect()`]: what should the usual tools show on a cluster?
//! - [`train()`]: what does a step of training take, and what of it is the network?
//! - [`infer()`]: what does a served model give by load, and what of it is the network?
//! - [`tuner_file()`]: by what should NCCL choose on a cluster?
//! - [`replay()`]: what do traces of real programs take on a cluster?
//! - [`storage()`]: what do `ior`, `mdtest` and others print on a parallel file system, and what binds them?
//! - [`calibrate()`]: which numbers of a cluster fit its measurements?
//!
//! ```
//! let outcome = fabriscope::bench("osu_latency", "ri2").args(["-m", "8:8", "-i", "10"]).outcome()?;
//! let latency_us = outcome.get("points").and_then(|points| points[0]["value"].as_f64()).expect("one size was run");
//! assert!((1.0..2.0).contains(&latency_us), "{latency_us}");
//! # Ok::<(), fabriscope::Error>(())
//! ```

mod ask;
mod calibrate;
mod diagnose;
mod dossier;
mod error;
mod expect;
pub mod experts;
mod infer;
mod monitor;
mod on_cluster;
pub mod own;
pub mod picture;
mod replay;
mod storage;
mod sweep;
mod train;
mod tuner;
mod validate;
mod vary;

pub use ask::{Bench, Explain, Run, bench, embedded, explain, run};
pub use calibrate::{Calibrate, calibrate};
pub use diagnose::{Diagnose, diagnose};
pub use dossier::{Report, report};
pub use error::Error;
pub use expect::{Expect, expect};
pub use fabriscope_catalog::{Catalog, ResolvedCluster};
pub use fabriscope_inference as inference;
pub use fabriscope_nccl as nccl;
pub use fabriscope_platform::nccl::TUNER_FILE;
pub use fabriscope_report::{Outcome, Verdict, render};
pub use fabriscope_storage::StorageTool;
pub use fabriscope_study::study_schema;
pub use fabriscope_study::sweep::Progress;
pub use fabriscope_timeline::sheet;
pub use fabriscope_training as training;
pub use infer::{Infer, Load, infer};
pub use monitor::{Watching, monitor};
pub use on_cluster::OnCluster;
pub use replay::replay;
pub use storage::{Storage, storage};
pub use sweep::{Sweep, sweep};
pub use train::{Beside, ByMessages, Exchange, Placement, StepFormat, Train, train};
pub use tuner::{TunerFile, tuner_file};
pub use validate::{Validate, cited, validate};
pub use vary::{Sensitivity, sensitivity};
