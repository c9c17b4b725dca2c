//! Experiments: what a lab file says, and how it is run.
//!
//! A [`Lab`] names a cluster and a workload; [`load`] reads it and gives a [`ResolvedLab`]. [`launch`] runs a benchmark program
//! on a cluster, [`traffic`] makes the messages of a pattern, [`sweep`] runs one setting after the other, [`run`] does what a lab file says, and [`prediction`]
//! answers the questions of published tables. Nothing here prints.

pub mod bench;
pub mod beside_storage;
pub mod breakage;
pub mod calibrate;
pub mod collective;
pub mod counting;
pub mod devices;
pub mod energy;
pub mod engines;
mod error;
pub mod expect;
pub mod fast_forward;
mod fault;
mod fault_plan;
mod flow_app;
mod flow_bench;
pub mod hpl;
mod job_library;
mod jobs;
mod lab;
pub mod launch;
pub mod leave_out;
pub mod machines;
pub mod memory;
pub mod message_times;
pub mod mix;
pub mod monitor;
pub mod mpi_transports;
mod picture;
pub mod points;
pub mod prediction;
pub mod published;
mod quantiles;
pub mod run;
mod schedule_programs;
mod schema;
pub mod sensitivity;
mod series;
pub mod subnet;
pub mod sweep;
pub mod tap;
pub mod timeline;
mod to_group;
pub mod traffic;
pub mod training;
mod unlike;
mod workload;

pub use error::LabError;
pub use fault::{
    BitErrors, FaultEvent, FaultKind, Flapping, LaneLoss, LinkDown, LinkUp, PausedPort, RandomLoss, SlowReceiver, SwitchDeath,
};
pub use fault_plan::load_faults;
pub use job_library::JobLibrary;
pub use jobs::{Job, JobPattern, Jobs};
pub use lab::{ClusterChoice, EngineChoice, Lab, ResolvedLab, load, load_under, parse, with_scheme};
pub use schema::{lab_schema, schemas};
pub use to_group::ToGroup;
pub use workload::{
    AllToAll, AllToAllV, Bench, BesideStorage, BurstOf, Capture, ClosedLoop, Collective, Compare, ComparedPattern, Flows, GradientExchange,
    Graphed, Halo, HotSpot, Incast, IncastMix, Interference, Messages, Mix, OpenLoop, OpenPattern, Order, Overlap, Permutation, Recomputed,
    Scheme, Scores, Shared, Shift, StorageTraffic, Strategy, TokenDispatcher, Training, Uniform, Workload,
};
