//! A job of one exchange: the library, who is where, what is measured.

use std::sync::Arc;

use fabriscope_catalog::{ExpertLibrary, Interface, Poster, Rdma};
use fabriscope_node::{Process, Record, exchange_keys};
use fabriscope_platform::{Binding, Target, path_mtu};
use fabriscope_units::{Bytes, Rate, Span};
use fabriscope_verbs::{Lid, Mtu, QpNum, Rkey};

use crate::plan::Plan;
use crate::routing::{Routing, Shape};

/// Towards the experts, or back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Tokens to their experts.
    Dispatch,
    /// What experts made of them back, where it is added up.
    Combine,
}

/// How tokens travel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exchange {
    /// Once to each node, to the GPU of the same number, and from there over the links of the node.
    Forwarded {
        /// Processors of the GPU that take part.
        processors: u32,
        /// Tokens of a message between nodes.
        chunk: u32,
    },
    /// To each expert by itself.
    Scattered,
}

/// A kernel to be measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Kernel {
    /// Where tokens go.
    pub way: Phase,
    /// How.
    pub exchange: Exchange,
    /// Bytes of a token with what goes with it.
    pub bytes: Bytes,
}

/// Why an exchange cannot be run.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, miette::Diagnostic)]
#[non_exhaustive]
pub enum ExchangeError {
    /// Experts that do not go onto the GPUs.
    #[error("{experts} experts do not go evenly onto {ranks} GPUs")]
    #[diagnostic(help("give a multiple of {ranks} experts, up to 65536, or another number of nodes"))]
    Experts {
        /// Experts.
        experts: u32,
        /// GPUs.
        ranks: u32,
    },
    /// More experts for a token than there are.
    #[error("{topk} experts for each token of {experts} that it may go to")]
    #[diagnostic(help("give --num-topk {experts} or less"))]
    Topk {
        /// Asked for.
        topk: u32,
        /// That there are.
        experts: u32,
    },
    /// No nodes to go to, or a size of nothing.
    #[error("{what} of 0")]
    #[diagnostic(help("give 1 or more"))]
    Nothing {
        /// What.
        what: &'static str,
    },
    /// More nodes or GPUs than masks have room for.
    #[error("{nodes} nodes of {per_node} GPUs are more than this model of the exchange takes")]
    #[diagnostic(help("give up to 64 nodes of up to 32 GPUs"))]
    TooMany {
        /// Nodes.
        nodes: u32,
        /// GPUs of each.
        per_node: u32,
    },
    /// The library has no such kernels.
    #[error("`{library}` has no kernels that forward tokens")]
    #[diagnostic(help("use deepep_low_latency with it, or another --library"))]
    NoForwarding {
        /// The library.
        library: String,
    },
    /// A library for other adapters.
    #[error("`{library}` {posts}, and the adapters here are driven through `{adapters}`")]
    #[diagnostic(help("give --library with one of: {others}, or run on one node, whose links need no adapter"))]
    OtherAdapters {
        /// The library.
        library: String,
        /// What it does with which.
        posts: String,
        /// Those of the cluster.
        adapters: Interface,
        /// Libraries for these.
        others: String,
    },
    /// Adapters without writes.
    #[error("the adapters do not write remote memory, which the exchange between nodes needs")]
    #[diagnostic(help("use another cluster, or one node"))]
    NoWrites,
}

exchange_keys! {
    /// What an end of a connection tells the other.
    contacts: ContactOf { from: u32, to: u32, lane: u32 } => Contact;
}

/// One end of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Contact {
    pub lid: Lid,
    pub qp: QpNum,
    pub addr: u64,
    pub rkey: Rkey,
}

/// How ranks meet.
pub struct Net {
    /// The adapters' transport is SRD.
    pub(crate) unordered: bool,
    pub(crate) mtu: Mtu,
    pub(crate) store: fabriscope_node::exchange::Exchange<Tables>,
}

impl Net {
    /// For the adapters of a machine like `target`.
    #[must_use]
    pub fn of(target: &Target) -> Net {
        let store = fabriscope_node::exchange::Exchange::default();
        Net { unordered: target.interface == Interface::Efa, mtu: path_mtu(target.mtu), store }
    }
    /// Waits until all ranks have told what they tell.
    pub async fn fence(&self, process: &Process) {
        self.store.fence(process).await;
    }
}

/// What each rank measured of each kernel: from the begin that is common to all to its end there.
pub(crate) type Measured = Record<Vec<Vec<Span>>>;

/// A library as a part has it.
#[derive(Debug, Clone, Copy)]
pub struct NamedLibrary<'t> {
    /// The part's name.
    pub name: &'t str,
    /// Through what it drives adapters.
    pub interface: Interface,
    /// What it costs.
    pub library: &'t ExpertLibrary,
}

impl NamedLibrary<'_> {
    /// Whether it drives the adapters of a machine like `target`.
    ///
    /// # Errors
    /// Adapters of another interface; those that do not write.
    pub fn drives(&self, target: &Target) -> Result<(), ExchangeError> {
        if self.interface != target.interface {
            let posts = match self.library.poster {
                Poster::Gpu => format!("posts from the GPU (IBGDA), to adapters with `{}`", self.interface),
                Poster::Proxy => format!("drives adapters through `{}`", self.interface),
            };
            let others = target.experts.iter().filter(|(_, interface, _)| *interface == target.interface);
            let others: Vec<&str> = others.map(|(name, ..)| name.as_str()).collect();
            let others = if others.is_empty() { "none in the catalogue".to_owned() } else { others.join(", ") };
            return Err(ExchangeError::OtherAdapters { library: self.name.to_owned(), posts, adapters: target.interface, others });
        }
        if target.rdma != Rdma::ReadWrite {
            return Err(ExchangeError::NoWrites);
        }
        Ok(())
    }
}

/// What all ranks of a job know.
pub struct Job {
    pub(crate) library: ExpertLibrary,
    pub(crate) shape: Shape,
    pub(crate) routing: Routing,
    pub(crate) plan: Option<Plan>,
    pub(crate) kernels: Vec<Kernel>,
    pub(crate) net: Net,
    /// What kernels read of a GPU's memory.
    pub(crate) memory: Rate,
    pub(crate) binding: Binding,
    pub(crate) measured: Measured,
    /// Whose memory the nodes share.
    pub(crate) owner: Arc<Owner>,
}

/// What tells one job from another.
pub(crate) struct Owner;

impl Job {
    /// A job of `kernels`, one after the other, on a machine like `target`.
    ///
    /// # Errors
    /// Experts that do not fit the GPUs, adapters or a library that cannot do it.
    pub fn new(of: NamedLibrary<'_>, target: &Target, shape: Shape, kernels: Vec<Kernel>) -> Result<Job, ExchangeError> {
        let NamedLibrary { name, library, .. } = of;
        check(&shape)?;
        let scattered = kernels.iter().any(|kernel| kernel.exchange == Exchange::Scattered);
        if shape.nodes > 1 || scattered && shape.per_node > 1 && !library.within_node {
            of.drives(target)?;
        }
        let routing = Routing::draw(shape);
        let forwarded = kernels.iter().find_map(|kernel| match kernel.exchange {
            Exchange::Forwarded { processors, .. } => Some(processors),
            Exchange::Scattered => None,
        });
        let plan = match (forwarded, &library.forwarding) {
            (None, _) => None,
            (Some(_), None) => return Err(ExchangeError::NoForwarding { library: name.to_owned() }),
            (Some(processors), Some(of)) => Some(Plan::new(&routing, (processors / *of.processors_per_channel).max(1))),
        };
        let measured = Record::new(vec![vec![Span::ZERO; shape.ranks() as usize]; kernels.len()]);
        Ok(Job {
            library: library.clone(),
            shape,
            routing,
            plan,
            kernels,
            net: Net::of(target),
            memory: target.gpu.as_ref().map_or(Rate::default(), |gpu| gpu.read_rate),
            binding: target.binding.clone(),
            measured,
            owner: Arc::new(Owner),
        })
    }
    /// The draw.
    #[must_use]
    pub fn routing(&self) -> &Routing {
        &self.routing
    }
    /// The kernels.
    #[must_use]
    pub fn kernels(&self) -> &[Kernel] {
        &self.kernels
    }
    /// What each rank measured of a kernel, once the job has run.
    #[must_use]
    pub fn times(&self, kernel: usize) -> Vec<Span> {
        self.measured.lock()[kernel].clone()
    }
    /// Of the slowest rank: the next kernel of all waits for it.
    #[must_use]
    pub fn longest(&self, kernel: usize) -> Span {
        self.times(kernel).into_iter().max().unwrap_or_default()
    }
    /// The queue pairs to each peer in exchanges that scatter.
    pub(crate) fn queue_pairs(&self) -> u32 {
        self.library.queue_pairs.as_ref().map_or(self.shape.local_experts(), |count| **count).max(1)
    }
}

fn check(shape: &Shape) -> Result<(), ExchangeError> {
    let sizes = [("tokens", shape.tokens), ("top-k experts", shape.topk), ("groups", shape.groups), ("elements", shape.hidden)];
    if let Some((what, _)) = sizes.into_iter().find(|(_, size)| *size == 0) {
        return Err(ExchangeError::Nothing { what });
    }
    if shape.nodes > 64 || shape.per_node > 32 {
        return Err(ExchangeError::TooMany { nodes: shape.nodes, per_node: shape.per_node });
    }
    if shape.local_experts() == 0 || !shape.experts.is_multiple_of(shape.ranks()) || shape.experts > 65536 {
        return Err(ExchangeError::Experts { experts: shape.experts, ranks: shape.ranks() });
    }
    let within = shape.experts / shape.nodes * shape.groups.min(shape.nodes);
    if shape.topk > within {
        return Err(ExchangeError::Topk { topk: shape.topk, experts: within });
    }
    Ok(())
}
