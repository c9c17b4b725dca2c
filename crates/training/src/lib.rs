//! A step of training: what each GPU computes, what it sends to whom, and when.
//!
//! A model of the catalogue ([`shape`]), a [`Layout`] over GPUs and a GPU's [`compute`](fabriscope_catalog::Compute) numbers become the
//! kernels of one layer ([`layer`]), their times by a roofline ([`roofline`]), the order of micro-batches in the pipeline ([`pipeline`])
//! and the time line of a step ([`mod@step`]). How long messages take is asked of whoever knows the cluster ([`CommunicationTimes`]).
//!
//! ```text
//!  Model ─ Layout ─▶ layer: kernels, collectives ─ roofline ─▶ spans ─ pipeline order ─▶ step: time line of each stage
//!                                                     ▲ CommunicationTimes: a cluster's NCCL by packets or flows
//! ```
//!
//! Source: Narayanan et al., SC 2021 (arXiv 2104.04473): tensor and pipeline parallelism, interleaving, scatter/gather; Korthikanti et al.
//! (arXiv 2205.05198): sequence parallelism, recomputation, memory of activations; Rajbhandari et al., SC 2020 (arXiv 1910.02054): ZeRO.
//! Modelled: transformers, dense and with experts, in tensor, sequence, context, pipeline, data and expert parallelism.
//! What a step is made of, part by part, is [`mod@account`]; ranks that are not equally fast are [`stragglers`]; checkpoints are [`checkpoint`].
//! Convolutional nets ([`convolution`]), models that recommend ([`recommendation`]) and wafers that weights stream to ([`streaming`]) have steps
//! of their own.
//! Not modelled: reading of data; the values that are computed.

pub mod account;
pub mod checkpoint;
pub mod contention;
pub mod convolution;
pub mod gathering;
mod launches;
pub mod layer;
mod layout;
pub mod memory;
pub mod operations;
pub mod pipeline;
pub mod recommendation;
pub mod roofline;
pub mod shape;
pub mod step;
pub mod stragglers;
pub mod streaming;
mod times;
pub mod tokens;

pub use layout::{Attention, Dispatcher, Graphs, Indivisible, Layout, LayoutError, Precision, Recompute, Schedule, Sharding};
pub use step::{Step, StepError, step};
pub use times::{Bound, CommunicationTimes, Cost, Group, Operation};
