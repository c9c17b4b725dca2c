//! Tokens to the experts of a model and back: the exchanges of DeepEP, UCCL-EP and pplx-kernels as programs of GPUs and their proxies.
//!
//! Source: DeepEP (<https://github.com/deepseek-ai/DeepEP>), UCCL-EP (<https://github.com/uccl-project/uccl>, ep), pplx-kernels
//! (<https://github.com/perplexityai/pplx-kernels>). The longer story: `docs/experts.md`.
//! Modelled: who sends which token where ([`Routing`]); kernels that forward ([`Exchange::Forwarded`]), by roles of warps, and kernels that
//! send each token by itself ([`Exchange::Scattered`]); posts by GPUs and by proxies; all-to-all along rails and across them ([`rails`]); the
//! all-to-all of NVSHMEM beside that of NCCL ([`whole`]). Adapters and fabric are those of the engine, packet by packet.
//! Not modelled: contents of tokens, kernels that compute beside the exchange.

mod forwarded;
mod forwarding;
mod gathered;
mod job;
pub mod links;
mod merge;
mod node;
mod plan;
mod program;
pub mod rails;
mod rank;
mod routing;
mod scattered;
pub mod whole;
pub mod wires;

pub use job::{Exchange, ExchangeError, Job, Kernel, NamedLibrary, Net, Phase};
pub use program::run;
pub use routing::{Routing, Shape};
