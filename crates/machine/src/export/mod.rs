//! A node in the formats of other tools: topology files of NCCL, and the matrix of `nvidia-smi topo -m`.

mod matrix;
mod nccl;

pub use matrix::{cell, nvidia_smi};
pub use nccl::{NcclError, Unknown, nccl};
