//! Software between a benchmark and the verbs: an MPI library's protocol, or perftest's defaults.
//!
//! Modelled: per-message overheads, the eager and rendezvous protocols with their switch points, several rails, shared memory
//! within a node, the choice of algorithms for collective operations.
//! Not modelled: tag matching by long lists, registration caches that miss, threads of progress.

use std::collections::BTreeMap;

use fabriscope_units::{Bytes, Span};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    CollectiveRule, CollectiveRules, DecisionTables, ExpertLibrary, GpuProtocol, Hcl, Interface, Kind, Lustre, MulticastProtocol, Nccl,
    NvmeStack, Offload, OneSidedRules, Part, Psm2, RpcLibrary, SharedMemory, Shmem, ShuffleLibrary, collective_rules, psm2,
};
use crate::error::Problem;
use crate::sourced::Sourced;

/// How an eager message travels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum EagerChannel {
    /// RDMA WRITE into a ring that the receiver spins on, up to `fast_path_limit`; SEND above.
    RdmaWrite,
    /// SEND into posted receive buffers.
    Send,
    /// Bytes of a TCP stream, through sockets of the kernel.
    Stream,
}

/// How the payload of a long message travels once both sides met.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Rendezvous {
    /// The sender announces its buffer; the receiver reads it and says so (RTS, READ, FIN).
    Read,
    /// The receiver answers with its buffer; the sender writes and says so (RTS, CTS, WRITE, FIN).
    Write,
    /// The receiver clears the way; the sender sends through its eager buffers (RTS, CTS, SEND …).
    Send,
}

/// Who finds the receive that a message belongs to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TagMatching {
    /// The receiving core: eager payload lands in a buffer of the library and is copied out.
    #[default]
    Core,
    /// The adapter: each receive is a command to it, and eager payload lands in the user's buffer.
    Adapter,
}

/// Which adapters of a node a message uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RailPolicy {
    /// The first one only.
    #[default]
    First,
    /// Whole messages in turn.
    RoundRobin,
    /// Messages in turn; those above `stripe_limit` are cut into one piece per adapter.
    Stripe,
}

/// The queue pairs that carry the messages of a library between nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum MpiTransport {
    /// A reliable connection to each rank elsewhere, with receives of its own.
    Rc,
    /// The same, with one shared receive queue for all connections of a rank.
    #[default]
    RcSrq,
    /// An extended reliable connection to each node, and shared receive queues that its ranks are reached by.
    Xrc,
    /// A few initiators of DC that connect to whom the next message goes, and one target.
    Dc,
    /// One queue pair of unreliable datagrams; the library cuts and acknowledges ([`Datagrams`]).
    Ud,
    /// One queue pair of scalable reliable datagrams.
    Srd,
    /// One queue pair of Ultra Ethernet (RUD).
    Uet,
}

impl MpiTransport {
    /// All of them, with the word for each.
    pub const WORDS: [(&'static str, MpiTransport); 7] = [
        ("rc", MpiTransport::Rc),
        ("rc-srq", MpiTransport::RcSrq),
        ("xrc", MpiTransport::Xrc),
        ("dc", MpiTransport::Dc),
        ("ud", MpiTransport::Ud),
        ("srd", MpiTransport::Srd),
        ("uet", MpiTransport::Uet),
    ];

    /// The word for it.
    #[must_use]
    pub fn word(self) -> &'static str {
        MpiTransport::WORDS.iter().find(|(_, transport)| *transport == self).map_or("rc-srq", |(word, _)| word)
    }
    /// Whether one queue pair of a rank serves all others, and messages may overtake each other on it or are numbered by the library.
    #[must_use]
    pub fn is_datagrams(self) -> bool {
        matches!(self, MpiTransport::Ud | MpiTransport::Srd | MpiTransport::Uet)
    }
    fn is_usual(&self) -> bool {
        *self == MpiTransport::default()
    }
}

/// Where a launcher puts the ranks of a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum MapBy {
    /// One core after the other.
    #[default]
    Core,
    /// On the sockets in turn: neighbours are on different ones.
    Socket,
}

/// Messages over unreliable datagrams: what the library does itself.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Datagrams {
    /// Largest packet, header included; the cluster's MTU where that is smaller.
    pub mtu: Sourced<Bytes>,
    /// Bytes in front of the payload of every packet: sequence number, acknowledgement.
    pub header: Sourced<Bytes>,
    /// Core time per packet at each end beyond what a message over a connection costs: numbers, window, list of sent packets.
    pub packet_overhead: Sourced<Span>,
    /// Packets to one process that may be in flight without acknowledgement.
    pub window: Sourced<u32>,
    /// Packets of one process that may wait for an acknowledgement; one more, and it is sent by itself.
    pub ack_interval: Sourced<u32>,
    /// How often the library looks for acknowledgements that it owes and packets that it misses one for.
    pub tick: Sourced<Span>,
    /// Until a packet without acknowledgement is sent again.
    pub retry_timeout: Sourced<Span>,
    /// How often it is.
    pub retries: Sourced<u32>,
    /// Requests in the send queue of a process.
    pub send_queue: Sourced<u32>,
    /// Receives that a process keeps posted.
    pub receives: Sourced<u32>,
}

/// Queues of reliable connections.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Connections {
    /// Requests in the send queue of each connection.
    pub send_queue: Sourced<u32>,
    /// Receives that a process keeps posted in the queue that all its connections share.
    pub receives: Sourced<u32>,
    /// Size of the buffer of each.
    pub buffer: Sourced<Bytes>,
    /// What making one takes, where they are made when two processes first talk.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_first_use: Option<FirstUse>,
}

/// Connections that are made when two processes first talk.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FirstUse {
    /// How long the connection manager of a node works at one end of one; it has one at a time, whoever asks.
    pub each: Sourced<Span>,
}

/// The point-to-point protocol of an MPI library.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Mpi {
    /// Core time of a send above the verbs: argument checks, request, header.
    pub send_overhead: Sourced<Span>,
    /// Core time of a receive above the verbs: matching and completing a message.
    pub recv_overhead: Sourced<Span>,
    /// Core time of each entry that a search of the queue of posted receives, or of unexpected messages, passes; nothing where a table
    /// by tag or the adapter finds them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub match_step: Option<Sourced<Span>>,
    /// Core time of one turn of the progress loop, hit or miss, beside the poll.
    pub progress_overhead: Sourced<Span>,
    /// Bytes in front of the payload of an eager message.
    pub header: Sourced<Bytes>,
    /// Core time of building a work request, where the library does it instead of the verbs driver.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wqe_build: Option<Sourced<Span>>,
    /// Core time of handling a completion, where the library does it instead of the verbs driver.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub poll_hit: Option<Sourced<Span>>,
    /// Who finds the receive that a message belongs to.
    #[serde(default)]
    pub tag_matching: TagMatching,
    /// How an eager message travels.
    pub eager_channel: EagerChannel,
    /// Largest message that takes the RDMA WRITE ring.
    pub fast_path_limit: Sourced<Bytes>,
    /// Largest message that the sender copies; above it is sent from the user's buffer.
    pub eager_copy_limit: Sourced<Bytes>,
    /// Largest eager message; above comes the rendezvous.
    pub eager_limit: Sourced<Bytes>,
    /// The same of a send that the program waits for (`MPI_Send`), where the library would rather copy than meet the receiver.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blocking_eager_limit: Option<Sourced<Bytes>>,
    /// Largest message of such a send that the sender copies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blocking_copy_limit: Option<Sourced<Bytes>>,
    /// Largest payload of one send, where the library cuts messages into packets; the adapter does where it is left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub packet_limit: Option<Sourced<Bytes>>,
    /// How the payload of a long message travels.
    pub rendezvous: Rendezvous,
    /// Packets that one grant of a rendezvous by send covers; the next follows when they are here. All where nothing is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grant: Option<Sourced<u32>>,
    /// Messages of this size and longer are read by the receiver even so, where the adapter can.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_from: Option<Sourced<Bytes>>,
    /// Size of a control message (RTS, CTS, FIN) with its header.
    pub control_bytes: Sourced<Bytes>,
    /// Core time of each side per rendezvous, above its control messages: registration look-up, state.
    pub rendezvous_overhead: Sourced<Span>,
    /// What registering memory of the host costs, where the library does it for every long message instead of keeping registrations.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub registration: Option<EachRegistration>,
    /// Largest message (with header) that is posted inline.
    pub inline_limit: Sourced<Bytes>,
    /// Which adapters of a node a message uses.
    #[serde(default)]
    pub rails: RailPolicy,
    /// Messages above this size are cut into one piece per adapter.
    pub stripe_limit: Sourced<Bytes>,
    /// The most adapters that a process uses, the nearest first; where nothing is said, all of the node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub most_rails: Option<Sourced<u32>>,
    /// Eager buffers per peer: unacknowledged eager messages in flight.
    pub window: Sourced<u32>,
    /// Every so many eager sends ask for a completion.
    pub signal_interval: Sourced<u32>,
    /// Queues of reliable connections, where many processes share an adapter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connections: Option<Connections>,
    /// The queue pairs of messages between nodes, over verbs.
    #[serde(default, skip_serializing_if = "MpiTransport::is_usual")]
    pub transport: MpiTransport,
    /// Messages over unreliable datagrams, if it has them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub datagrams: Option<Datagrams>,
    /// PSM2 below it, which then carries its messages; software with interface "psm2" has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub psm2: Option<Psm2>,
    /// Where its launcher puts the ranks of a job of more than two, unless it is told.
    #[serde(default)]
    pub map_by: MapBy,
    /// Messages between ranks of one node; where nothing is said, they go through the adapter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shared_memory: Option<SharedMemory>,
    /// Messages in the memory of a GPU; without it, the library knows nothing of GPUs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu: Option<GpuProtocol>,
    /// Broadcasts by multicast; without it, the library has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub multicast: Option<MulticastProtocol>,
    /// One-sided operations beyond put and get; without it, nothing is known of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub one_sided: Option<OneSidedRules>,
    /// Operations that cores on the adapters carry out, if it has them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offload: Option<Offload>,
    /// Core time per block that a collective operation packs, unpacks or moves, beside its bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub block_overhead: Option<Sourced<Span>>,
    /// Core time of telling the library which blocks a message is made of: a data type that is made, committed and freed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub layout_overhead: Option<Sourced<Span>>,
    /// Which algorithm it takes for collective operations, by the word for each: `allreduce`, `bcast` …
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub collectives: BTreeMap<String, CollectiveRules>,
    /// Rows that come before those where a job has several nodes with several ranks each.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub hierarchical: BTreeMap<String, CollectiveRules>,
}

/// What registering memory with an adapter costs each time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EachRegistration {
    /// The call, and the one that ends it.
    pub call: Sourced<Span>,
    /// Each page of host memory, of 4 KiB.
    pub page: Sourced<Span>,
}

/// Defaults of the perftest programs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Perftest {
    /// Send queue depth of the bandwidth tests.
    pub tx_depth: Sourced<u32>,
    /// Receive queue depth.
    pub rx_depth: Sourced<u32>,
    /// Iterations of the latency tests and of most bandwidth tests.
    pub iterations: Sourced<u32>,
    /// Iterations of `ib_write_bw`.
    pub iterations_write_bw: Sourced<u32>,
    /// Bandwidth tests ask for a completion every so many requests.
    pub cq_moderation: Sourced<u32>,
    /// Largest inline message of `ib_write_lat` (RC, UC).
    pub inline_write: Sourced<Bytes>,
    /// Largest inline message of `ib_send_lat` (RC, UC).
    pub inline_send: Sourced<Bytes>,
    /// Largest inline message of `ib_send_lat` (UD).
    pub inline_send_ud: Sourced<Bytes>,
    /// Message size of the latency tests.
    pub size_lat: Sourced<Bytes>,
    /// Message size of the bandwidth tests.
    pub size_bw: Sourced<Bytes>,
    /// Core time of one turn of the test's loop, beside the verbs: time stamps, counters.
    pub loop_overhead: Sourced<Span>,
}

/// A piece of software: an MPI library, NCCL, perftest, or several of them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Software {
    /// The name others refer to it by; equals the name of its file.
    pub name: String,
    /// One line that tells a person what it is.
    pub title: String,
    /// What a reader should know besides.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub notes: String,
    /// Through what it drives an adapter; it runs on adapters with the same interface only.
    #[serde(default)]
    pub interface: Interface,
    /// Whose decisions it takes for collective operations: a part of the kind `decisions`, whose tables lie under its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decisions: Option<Sourced<String>>,
    /// Its point-to-point protocol, if it is an MPI library.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mpi: Option<Mpi>,
    /// The OpenSHMEM library over the same transport, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shmem: Option<Shmem>,
    /// Its costs, if it is a collective communication library of GPUs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nccl: Option<Nccl>,
    /// How it cuts operations among the ports of accelerators, if it is HCL.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hcl: Option<Hcl>,
    /// Its costs, if it exchanges tokens among experts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub experts: Option<ExpertLibrary>,
    /// Its costs, if programs call procedures on other nodes with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rpc: Option<RpcLibrary>,
    /// Its limits and costs, if it shuffles data between stages of a job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shuffle: Option<ShuffleLibrary>,
    /// Its defaults, if it is perftest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub perftest: Option<Perftest>,
    /// Its costs and tunables, if it is a release of Lustre.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lustre: Option<Lustre>,
    /// Its costs, if it carries out commands of NVMe.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nvme: Option<NvmeStack>,
}

impl Software {
    /// Whether it drives adapters that are driven so: through their own interface, or sockets of the kernel, which all have.
    #[must_use]
    pub fn drives(&self, interface: Interface) -> bool {
        self.interface == interface || self.interface == Interface::Sockets
    }
    /// Puts `tables` under its own: what it says of an operation itself, counts.
    pub(crate) fn decide(&mut self, tables: &DecisionTables) -> Result<(), Problem> {
        let Some(mpi) = &mut self.mpi else {
            return Err(Problem::at(&["decisions"], "decisions without a library that takes them", "add an [mpi] table"));
        };
        for (own, under) in [(&mut mpi.collectives, &tables.collectives), (&mut mpi.hierarchical, &tables.hierarchical)] {
            for (operation, rules) in under {
                own.entry(operation.clone()).or_insert_with(|| rules.clone());
            }
        }
        Ok(())
    }
}

impl Part for Software {
    const KIND: Kind = Kind::Software;
    fn name(&self) -> &str {
        &self.name
    }
    fn title(&self) -> &str {
        &self.title
    }
    fn check(&self) -> Result<(), Problem> {
        let none = self.mpi.is_none() && self.nccl.is_none() && self.experts.is_none() && self.rpc.is_none() && self.shuffle.is_none();
        if none && self.perftest.is_none() && self.lustre.is_none() && self.nvme.is_none() {
            let help = "add an [mpi], [nccl], [experts], [rpc], [shuffle], [perftest], [lustre] or [nvme] table";
            return Err(Problem::at(&[], "software that does nothing", help));
        }
        self.nvme.as_ref().map_or(Ok(()), NvmeStack::check)?;
        self.lustre.as_ref().map_or(Ok(()), Lustre::check)?;
        self.nccl.as_ref().map_or(Ok(()), Nccl::check)?;
        self.experts.as_ref().map_or(Ok(()), ExpertLibrary::check)?;
        self.rpc.as_ref().map_or(Ok(()), RpcLibrary::check)?;
        self.shuffle.as_ref().map_or(Ok(()), ShuffleLibrary::check)?;
        self.hcl.as_ref().map_or(Ok(()), Hcl::check)?;
        if let Some(shmem) = &self.shmem {
            shmem.check()?;
            if self.mpi.is_none() {
                let help = "add an [mpi] table: its numbers are those of the transport";
                return Err(Problem::at(&["shmem"], "an OpenSHMEM library without a transport", help));
            }
        }
        if let Some(mpi) = &self.mpi {
            check_mpi(mpi)?;
            check_channel(mpi, self.interface)?;
            check_psm2(mpi, self.interface)?;
            collective_rules::check("collectives", &mpi.collectives, true)?;
            collective_rules::check("hierarchical", &mpi.hierarchical, false)?;
            check_slots(mpi)?;
            mpi.gpu.as_ref().map_or(Ok(()), GpuProtocol::check)?;
            mpi.multicast.as_ref().map_or(Ok(()), MulticastProtocol::check)?;
            mpi.offload.as_ref().map_or(Ok(()), Offload::check)?;
        }
        if let Some(perftest) = &self.perftest {
            for (key, count) in [
                ("tx_depth", &perftest.tx_depth),
                ("rx_depth", &perftest.rx_depth),
                ("iterations", &perftest.iterations),
                ("iterations_write_bw", &perftest.iterations_write_bw),
                ("cq_moderation", &perftest.cq_moderation),
            ] {
                if **count == 0 {
                    return Err(Problem::at(&["perftest", key, "value"], format!("`{key}` is zero"), "use at least 1"));
                }
            }
        }
        Ok(())
    }
}

/// Algorithms that go through slots need some.
fn check_slots(mpi: &Mpi) -> Result<(), Problem> {
    let asks = |rules: &CollectiveRules| rules.value.iter().any(CollectiveRule::has_slots);
    let has_slots = mpi.shared_memory.as_ref().is_some_and(|memory| memory.slots.is_some());
    if !has_slots && mpi.collectives.values().chain(mpi.hierarchical.values()).any(asks) {
        let help = "add [mpi.shared_memory.slots], or take other decisions";
        return Err(Problem::at(&["mpi"], "its collective operations go through slots, of which its shared memory has none", help));
    }
    Ok(())
}

/// Sockets carry streams and nothing else, and only sockets do.
fn check_channel(mpi: &Mpi, interface: Interface) -> Result<(), Problem> {
    let (stream, sockets) = (mpi.eager_channel == EagerChannel::Stream, interface == Interface::Sockets);
    if stream != sockets {
        let message = format!("`eager_channel` does not suit the interface `{interface}`");
        let help = if sockets { "use eager_channel = \"stream\"" } else { "use \"send\" or \"rdma_write\", or interface = \"sockets\"" };
        return Err(Problem::at(&["mpi", "eager_channel"], message, help));
    }
    if sockets && mpi.rendezvous != Rendezvous::Send {
        return Err(Problem::at(&["mpi", "rendezvous"], "sockets have no RDMA", "use rendezvous = \"send\""));
    }
    Ok(())
}

/// PSM2 is a library's only way to its adapter, and only to adapters for it.
fn check_psm2(mpi: &Mpi, interface: Interface) -> Result<(), Problem> {
    if mpi.psm2.is_some() != (interface == Interface::Psm2) {
        let message = format!("interface `{interface}` does not suit the table [mpi.psm2]");
        let help = "software with interface = \"psm2\" has an [mpi.psm2] table, other software does not";
        return Err(Problem::at(&["interface"], message, help));
    }
    mpi.psm2.as_ref().map_or(Ok(()), psm2::check)
}

impl Mpi {
    /// How many of `nics` adapters of a node a process uses.
    pub fn rails_of(&self, nics: u32) -> u32 {
        self.most_rails.as_ref().map_or(nics, |most| nics.min(**most))
    }
}

fn check_mpi(mpi: &Mpi) -> Result<(), Problem> {
    if mpi.most_rails.as_ref().is_some_and(|most| **most == 0) {
        let message = "`most_rails` is zero: nothing could be sent";
        return Err(Problem::at(&["mpi", "most_rails", "value"], message, "use at least 1, or leave it out"));
    }
    for (key, count) in [("window", &mpi.window), ("signal_interval", &mpi.signal_interval)] {
        if **count == 0 {
            return Err(Problem::at(&["mpi", key, "value"], format!("`{key}` is zero: nothing could be sent"), "use at least 1"));
        }
    }
    if *mpi.signal_interval > *mpi.window {
        let message = format!("`signal_interval` of {} exceeds the window of {}", *mpi.signal_interval, *mpi.window);
        return Err(Problem::at(
            &["mpi", "signal_interval", "value"],
            message,
            "the sender would wait for a completion that it never asked for",
        ));
    }
    if mpi.packet_limit.as_ref().is_some_and(|limit| **limit == Bytes::ZERO) {
        return Err(Problem::at(&["mpi", "packet_limit", "value"], "packets without payload", "use at least one byte"));
    }
    if let Some(connections) = &mpi.connections {
        let counts = [("send_queue", *connections.send_queue), ("receives", *connections.receives)];
        nothing_zero("connections", &counts)?;
        if *connections.buffer == Bytes::ZERO {
            return Err(Problem::at(&["mpi", "connections", "buffer", "value"], "buffers without room", "use at least one byte"));
        }
    }
    if let Some(datagrams) = &mpi.datagrams {
        let counts = [
            ("window", *datagrams.window),
            ("ack_interval", *datagrams.ack_interval),
            ("send_queue", *datagrams.send_queue),
            ("receives", *datagrams.receives),
        ];
        nothing_zero("datagrams", &counts)?;
        if *datagrams.ack_interval >= *datagrams.window {
            let message = format!("a window of {} is full before the acknowledgement after {}", *datagrams.window, *datagrams.ack_interval);
            return Err(Problem::at(&["mpi", "datagrams", "ack_interval", "value"], message, "make it smaller than `window`"));
        }
        super::nic::check_mtu(*datagrams.mtu, &["mpi", "datagrams", "mtu", "value"])?;
        if *datagrams.header >= Bytes(256) {
            let message = format!("a header of {} leaves no room in the smallest packet", *datagrams.header);
            return Err(Problem::at(&["mpi", "datagrams", "header", "value"], message, "use less than 256 B"));
        }
        if *datagrams.tick == Span::ZERO {
            return Err(Problem::at(&["mpi", "datagrams", "tick", "value"], "a tick of no time never ends", "use for example \"48 ms\""));
        }
    }
    mpi.shared_memory.as_ref().map_or(Ok(()), SharedMemory::check)?;
    if *mpi.eager_copy_limit > *mpi.eager_limit {
        let message = format!("`eager_copy_limit` of {} lies above `eager_limit` of {}", *mpi.eager_copy_limit, *mpi.eager_limit);
        return Err(Problem::at(&["mpi", "eager_copy_limit", "value"], message, "set it to at most `eager_limit`"));
    }
    Ok(())
}

fn nothing_zero(table: &str, counts: &[(&str, u32)]) -> Result<(), Problem> {
    match counts.iter().find(|(_, count)| *count == 0) {
        Some((key, _)) => {
            Err(Problem::at(&["mpi", table, key, "value"], format!("`{key}` is zero: nothing could be sent"), "use at least 1"))
        }
        None => Ok(()),
    }
}
