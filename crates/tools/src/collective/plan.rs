//! What a collective benchmark does: operation, sizes, loops; and the algorithm that the library takes for each size.

use std::fmt;

use fabriscope_catalog::Mpi;
use fabriscope_collectives::{Algorithm, Call, Kind};
use fabriscope_mpi::{Buffer, MULTICAST_NAMES, MulticastSettings, OffloadSettings, Unable};
use fabriscope_platform::Target;
use fabriscope_tool::{Data, UsageError, algorithm};
use fabriscope_units::Bytes;
use fabriscope_wire::Element;

use crate::omb::Buffers;
use crate::osu::Repeats;
use fabriscope_tool::offload::OffloadOptions;

/// How the program calls the operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// It waits inside the call.
    Blocking,
    /// It computes between the call and the wait.
    NonBlocking {
        /// How often it asks in between whether the operation is done.
        tests: u32,
    },
}

/// By what an operation is carried out.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Implementation {
    /// Rounds of messages between ranks.
    Rounds(Algorithm),
    /// Datagrams to a group.
    Multicast(MulticastSettings),
}

/// How the sizes of a plan go: for each a `Way`.
#[derive(Debug)]
pub(crate) struct Implementations<Way = Implementation> {
    /// The multicast for all of them.
    pub multicast: Option<MulticastSettings>,
    /// Why there is none where it was asked for.
    pub unable: Option<Unable>,
    /// Of each size.
    pub each: Vec<Way>,
}

impl fmt::Display for Implementation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Implementation::Rounds(algorithm) => algorithm.fmt(f),
            Implementation::Multicast(settings) => settings.fmt(f),
        }
    }
}

/// What the command line asks for.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Plan {
    pub operation: Kind,
    pub form: Form,
    /// Bytes of a buffer, or of a block, in order.
    pub sizes: Vec<u32>,
    /// Bytes of an element: a reduction does not split it.
    pub width: u32,
    /// What an element is, for switches that reduce.
    pub element: Element,
    /// The root of a rooted operation.
    pub root: u32,
    /// Given by the user.
    pub repeats: Repeats,
    /// Name of an algorithm instead of the library's choice.
    pub algorithm: Option<String>,
    /// Ranks wait for each other after every iteration, out of band.
    pub separate: bool,
    /// Where the data is.
    pub buffers: Buffers,
    /// Contents are to be followed.
    pub validate: bool,
    /// Who carries it out.
    pub offload: OffloadOptions,
}

/// Who carries out an operation in place of the ranks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Offloaded {
    /// Workers on the DPU.
    Workers(OffloadSettings),
    /// The adapters, by triggered operations.
    Triggered,
}

impl Plan {
    /// A plan for `operation` with the defaults of `sizes`.
    pub fn new(operation: Kind, sizes: Vec<u32>, separate: bool) -> Plan {
        Plan {
            operation,
            form: Form::Blocking,
            sizes,
            width: 1,
            element: Element::I8,
            root: 0,
            repeats: Repeats::default(),
            algorithm: None,
            separate,
            buffers: Buffers::default(),
            validate: false,
            offload: OffloadOptions::default(),
        }
    }
    /// Measured iterations of a size: as many as have [`PACKETS`] packets, but no more than a share of the tool's own. Ranks drift
    /// apart in the first ones.
    pub fn iterations(&self, way: &Implementation, call: &Call) -> u32 {
        let usual = || {
            let of_a_rank: u64 = match way {
                Implementation::Rounds(algorithm) => algorithm
                    .outlines(call, call.root)
                    .flat_map(|outline| outline.round.sends)
                    .map(|message| packets(message.piece.bytes))
                    .sum(),
                Implementation::Multicast(_) => packets(call.size),
            };
            usual_iterations(of_a_rank * u64::from(call.ranks), call.size)
        };
        self.repeats.iterations.unwrap_or_else(usual)
    }
    /// Iterations before those.
    pub fn warm_up(&self, iterations: u32) -> u32 {
        self.repeats.warm_up.unwrap_or(u32::from(iterations > 1))
    }
    /// The call of a size.
    pub fn call(&self, size: u32, target: &Target) -> Call {
        let layout = target.layout;
        Call {
            operation: self.operation,
            ranks: layout.ranks(),
            per_node: layout.per_node,
            root: self.root,
            size: Bytes(size.into()),
            width: Bytes(self.width.into()),
        }
    }

    /// Looks at what only the machine can tell.
    pub fn check(&self, target: &Target) -> Result<(), UsageError> {
        let ranks = target.layout.ranks();
        if self.root >= ranks {
            let what = format!("root {} is not among the {ranks} ranks of the job, which are numbered from 0", self.root);
            return Err(UsageError::Conflict { what, remedy: format!("use a root up to {}", ranks.saturating_sub(1)) });
        }
        if let Some(size) = self.sizes.iter().find(|size| self.operation.reduces() && **size % self.width != 0) {
            let what = format!("{size} bytes are no whole number of elements of {} bytes", self.width);
            return Err(UsageError::Conflict { what, remedy: format!("use sizes that {} divides, or another -T", self.width) });
        }
        Ok(())
    }

    /// The broadcast by multicast that is asked for by name, if one is; or why there is none.
    pub fn multicast(&self, mpi: &Mpi, target: &Target) -> Result<Option<Result<MulticastSettings, Unable>>, UsageError> {
        let Some(text) = self.algorithm.as_deref().filter(|_| self.operation == Kind::Bcast) else { return Ok(None) };
        let (word, parameters) = text.split_once('(').map_or((text, ""), |(word, rest)| (word, rest.strip_suffix(')').unwrap_or(rest)));
        if !matches!(word.trim(), "multicast" | "multicast_gdr") {
            return Ok(None);
        }
        if self.form != Form::Blocking {
            let what = format!("{text} beside computation: a broadcast by multicast has only the blocking form here");
            return Err(UsageError::Conflict { what, remedy: "run osu_bcast, or use another algorithm".to_owned() });
        }
        let settings = match MulticastSettings::of(mpi, target, self.buffers.sender != Buffer::Host) {
            Ok(settings) => settings,
            Err(unable) => return Ok(Some(Err(unable))),
        };
        let wrong = || UsageError::NotOneOf { option: "--algorithm".to_owned(), value: text.to_owned(), known: MULTICAST_NAMES };
        Ok(Some(Ok(settings.with(parameters).ok_or_else(wrong)?)))
    }

    /// Who carries it out in place of the ranks, where somebody does.
    pub fn offloaded(&self, tool: &str, mpi: &Mpi, target: &Target) -> Result<Option<Offloaded>, UsageError> {
        let conflict = |what: String, remedy: String| Err(UsageError::Conflict { what, remedy });
        let triggered = self.offload.is_triggered();
        if triggered && self.operation == Kind::Barrier {
            if target.triggered {
                return Ok(Some(Offloaded::Triggered));
            }
            let remedy = "use adapters with [triggered]: --on lab-bxi, or a cluster on Slingshot 11".to_owned();
            return conflict(format!("{tool} --offload triggered: the adapters of this cluster count no messages"), remedy);
        }
        let beside = self.form != Form::Blocking;
        if self.offload.is_explicit() && !triggered {
            if !beside {
                let remedy = "leave it out, or run the non-blocking form: osu_i…".to_owned();
                return conflict(format!("{tool} waits inside the call, and --offload is for computation beside it"), remedy);
            }
            if self.buffers.sender != Buffer::Host {
                return conflict(format!("{tool} --offload: workers reach no memory of GPUs"), "leave -d out".to_owned());
            }
        }
        let own = mpi.offload.as_ref().is_some_and(|part| part.algorithm(self.operation).is_some());
        let by_default = own && beside && self.buffers.sender == Buffer::Host;
        let settled = self.offload.settle(tool, (by_default, false), target.layout.per_node, mpi, target)?;
        Ok(settled.map(Offloaded::Workers))
    }

    /// Refuses algorithms that workers cannot carry out: what switches do, and what lies in memory that cores of a node share.
    pub fn check_workers(&self, tool: &str, choices: &[(Call, Implementation)]) -> Result<(), UsageError> {
        for (call, way) in choices {
            let Implementation::Rounds(algorithm) = way else { continue };
            let shared = |round: fabriscope_collectives::Round| {
                round.joint.is_some() || round.receives.iter().chain(&round.sends).any(|message| message.slot)
            };
            // Other nodes do the same.
            if (0..=call.per_node).filter(|rank| *rank < call.ranks).any(|rank| algorithm.rounds(call, rank).any(shared)) {
                let what = format!("{tool} --offload: {algorithm} needs switches that reduce, or memory that the ranks of a node share");
                let remedy = format!("name another: --algorithm {}", Algorithm::known(self.operation));
                return Err(UsageError::Conflict { what, remedy });
            }
        }
        Ok(())
    }

    /// The same plan with the algorithm that workers take, where nothing else was asked for.
    pub fn of_workers(mut self, mpi: &Mpi) -> Plan {
        let own = mpi.offload.as_ref().and_then(|part| part.algorithm(self.operation).or_else(|| part.reduction(self.operation)));
        let own = own.map(str::to_owned);
        self.algorithm = self.algorithm.or(own);
        self
    }

    /// The same plan with the algorithm of Open MPI's coll/portals4, where nothing else was asked for.
    pub fn of_adapters(mut self) -> Plan {
        self.algorithm.get_or_insert_with(|| "recursive_doubling".to_owned());
        self
    }

    /// How messages of `sizes` go.
    pub fn ways(&self, tool: &str, sizes: impl Iterator<Item = u32>, mpi: &Mpi, target: &Target) -> Result<Implementations, UsageError> {
        let (multicast, unable) = match self.multicast(mpi, target)? {
            Some(Ok(settings)) => (Some(settings), None),
            Some(Err(unable)) => (None, Some(unable)),
            None => (None, None),
        };
        // Who cannot do what was asked for does as the library does.
        let own = Plan { algorithm: self.algorithm.clone().filter(|_| unable.is_none()), ..self.clone() };
        let way = |size: u32| match multicast {
            Some(settings) => Ok(Implementation::Multicast(settings)),
            None => own.choose(tool, size, mpi, target).map(Implementation::Rounds),
        };
        Ok(Implementations { multicast, unable, each: sizes.map(way).collect::<Result<_, UsageError>>()? })
    }

    /// What is called for each size, and how it goes.
    pub fn choices(&self, tool: &str, mpi: &Mpi, target: &Target) -> Result<Implementations<(Call, Implementation)>, UsageError> {
        let Implementations { multicast, unable, each } = self.ways(tool, self.sizes.iter().copied(), mpi, target)?;
        let each = self.sizes.iter().zip(each).map(|(size, way)| (self.call(*size, target), way)).collect();
        Ok(Implementations { multicast, unable, each })
    }

    /// The library's barrier between iterations, where the tool has one and the library a way to do it.
    pub fn barrier(&self, tool: &str, mpi: &Mpi, target: &Target) -> Option<(Call, Algorithm)> {
        let barrier = Plan::new(Kind::Barrier, Vec::new(), false);
        let algorithm = self.separate.then(|| barrier.choose(tool, 0, mpi, target).ok()).flatten()?;
        Some((barrier.call(0, target), algorithm))
    }

    /// The algorithm for `size`: what was asked for, else what the library takes.
    pub fn choose(&self, tool: &str, size: u32, mpi: &Mpi, target: &Target) -> Result<Algorithm, UsageError> {
        let data = if self.buffers.on_hosts() { Data::OnHosts } else { Data::OnGpus };
        algorithm(tool, self.algorithm.as_deref(), &self.call(size, target), data, mpi)
    }
}

/// Iterations of so many packets each, of messages or blocks of `size`.
pub(super) fn usual_iterations(packets: u64, size: Bytes) -> u32 {
    (PACKETS / packets.max(1)).clamp(1, if size.0 > LARGE.into() { FEW } else { MANY }) as u32
}

/// About how many packets a message of `size` has.
pub(super) fn packets(size: Bytes) -> u64 {
    1 + size.0 / PACKET
}

/// Packets of all iterations. Basis: assumed; less than a second of simulation.
const PACKETS: u64 = 50_000;
/// About the payload of one, in bytes.
const PACKET: u64 = 4096;
/// Most iterations of sizes up to [`LARGE`] bytes, and of longer ones. Basis: assumed, a tenth of those of OMB and of IMB.
const MANY: u64 = 100;
const FEW: u64 = 10;
const LARGE: u32 = 8192;
