//! Inference of language models: requests that arrive, copies of a model that answer them, and when each token comes.
//!
//! A model of the catalogue, a [`Serving`] over GPUs and a GPU's [`compute`](fabriscope_catalog::Compute) numbers become what an iteration
//! takes ([`iteration`]), whose kernels are those of [`layer`]. Requests ([`request`], [`trace`]) queue at copies, which batch them
//! continuously within the memory for keys and values ([`memory`], [`copy`]); keys and values go from copies that read prompts to those
//! that generate ([`transfer`]). [`simulate`](simulate()) lets it happen, [`measures`] are what benchmarks of servers print. How long
//! messages take is asked of whoever knows the cluster ([`ServingTimes`]).
//!
//! ```text
//!  requests ─▶ copies: batches within memory ─▶ iteration: kernels, collectives ─▶ tokens in time ─▶ measures
//!                      ▲ keys and values              ▲ ServingTimes: a cluster by packets or flows
//! ```
//!
//! Source: Kwon et al., "PagedAttention" (SOSP 2023; vLLM); Yu et al., Orca (OSDI 2022): batching by iterations; Agrawal et al.,
//! Sarathi-Serve (OSDI 2024): prompts in chunks; Zhong et al., DistServe (OSDI 2024), Patel et al., Splitwise (ISCA 2024): pools.
//! Modelled: transformers, dense and with experts, in tensor, pipeline, data and expert parallelism, in one pool or two.
//! Not modelled: caches of prefixes, speculative decoding, adapters of weights, what tokens say.

pub mod copy;
pub mod iteration;
pub mod layer;
pub mod measures;
pub mod memory;
pub mod request;
mod serving;
pub mod simulate;
mod times;
pub mod trace;
pub mod transfer;

pub use request::{Arrivals, Lengths, Request};
pub use serving::{Admission, Serving, ServingError, Transfer};
pub use simulate::{Outcome, Pools, simulate};
pub use times::{Exchange, Mode, Phase, ServingTimes};
