//! The tests of `fabriscope-fabric` from outside, in one program: built once, run on all cores. A file that is added is named here.
#![allow(missing_docs)]

mod aggregation;
mod analysis;
mod channel_dependencies;
mod chassis_and_rails;
mod dragonfly;
mod graph_routing;
mod grids;
mod independent;
mod lanes;
mod levels;
mod multicast;
mod opensm;
mod plans;
mod real_fabrics;
mod routing;
mod simulators;
mod slurm_forms;
mod speeds;
mod topologies;
