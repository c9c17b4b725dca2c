//! What happens to the bytes of a message inside its nodes: by which means, over which links, what binds there.
//!
//! Modelled: the ways that the run itself takes, out of the same graph and the library's own choices; each alone.
//! Not modelled: further adapters of a message that is cut over several, what others do on the same links.

pub mod copies;
mod leg;
mod reasons;

use fabriscope_catalog::{GpuProtocol, RailPolicy, ResolvedCluster};
use fabriscope_machine::{Access, Machine, PathClass, Purpose, VertexId};
use fabriscope_mpi::{Between, Buffer, CopyMethod, Decision, RankLocation};
use fabriscope_platform::{Binding, Target, device};
use fabriscope_tools::perftest::Verb;
use fabriscope_tools::{Measures, Operation, Tool, omb, perftest};
use fabriscope_units::Bytes;

pub use leg::Leg;
use reasons::Seen;

/// One end of a message.
#[derive(Debug, Clone)]
pub struct MessageEnd {
    /// Which: `sender`.
    pub who: &'static str,
    /// By which means its bytes move, and why.
    pub how: String,
    /// Their ways, in order.
    pub legs: Vec<Leg>,
}

/// Both ends of a message on nodes with GPUs.
#[derive(Debug)]
pub struct Inside {
    /// The node.
    pub machine: Machine,
    /// The ends, the sender first.
    pub ends: Vec<MessageEnd>,
    /// Where the ranks sit; empty for tools without MPI.
    pub homes: Vec<RankLocation>,
    /// A buffer is on a GPU.
    pub on_device: bool,
    /// Both ends are on one node.
    pub local: bool,
    /// Adapters that a message is cut over.
    pub pieces: u32,
    /// Adapters that reach both buffers.
    pub rails: u32,
    /// Both directions of an exchange are alike.
    pub symmetric: bool,
}

/// What is asked of it.
pub struct DataPathRequest<'a> {
    /// The tool.
    pub tool: Tool,
    /// Its options.
    pub options: &'a [String],
    /// The cluster.
    pub parts: &'a ResolvedCluster,
    /// GPUs of the ranks.
    pub binding: &'a Binding,
    /// The machine as the tool sees it.
    pub target: &'a Target,
    /// Size of the message in bytes.
    pub size: u64,
}

impl Inside {
    /// The ends of a message; none between nodes without GPUs, or for tools whose messages have no two ends.
    pub fn of(asked: &DataPathRequest<'_>) -> Option<Inside> {
        let within = asked.target.layout.nodes == 1 && asked.parts.sole().software.mpi.is_some();
        if asked.parts.sole().node.gpu.is_none() && !within {
            return None;
        }
        let machine = asked.parts.sole().node.machine().ok()?;
        match asked.tool {
            Tool::Omb(benchmark) => Inside::of_mpi(asked, benchmark, machine),
            Tool::Perftest(test) => Inside::of_perftest(asked, test, machine),
            _ => None,
        }
    }

    fn of_mpi(asked: &DataPathRequest<'_>, benchmark: &'static omb::Benchmark, machine: Machine) -> Option<Inside> {
        let settings = omb::Settings::parse(benchmark, asked.options, asked.target).ok()?;
        let (node, mpi) = (&asked.parts.sole().node, asked.parts.sole().software.mpi.as_ref()?);
        let local = asked.target.layout.nodes == 1 || benchmark.is_within_a_node();
        let home = |rank| RankLocation::on(Some(&machine), node.nics as usize, asked.binding, rank);
        let homes = vec![home(0), home(u32::from(local))];
        let (sender, receiver) = (settings.buffers.of(true), settings.buffers.of(false));
        let size = Bytes(asked.size).saturating_u32();
        let mapped = node.gpu.as_ref().is_some_and(|gpu| gpu.mapped.is_some());
        let waits = benchmark.traits().measures == Measures::Latency;
        let numas = machine.numas();
        let numa = |home: &RankLocation| numas.get(home.numa as usize).copied();
        let beside = local && numa(&homes[0]).zip(numa(&homes[1])).is_some_and(|(own, other)| !machine.system_of(own)[other.index()]);
        let local = local && !beside;
        let message = Between { size, sender: (&homes[0], sender), receiver: (&homes[1], receiver), local, beside, waits, mapped };
        let decision = Decision::of(mpi, &message);
        let local = local || matches!(decision.sender, CopyMethod::Peers { .. });
        let gpu = mpi.gpu.as_ref().filter(|gpu| gpu.aware);
        let cut = !local && mpi.psm2.is_none() && mpi.rails == RailPolicy::Stripe && asked.size > mpi.stripe_limit.as_u64();
        let rails = [(&homes[0], decision.sender), (&homes[1], decision.receiver)].map(|(home, means)| rails(home, means, gpu));
        let rails = rails.into_iter().min().unwrap_or(1).clamp(1, mpi.rails_of(node.nics).max(1));
        let pieces = if cut && decision.rendezvous { rails } else { 1 };
        let ends = [(true, decision.sender, sender), (false, decision.receiver, receiver)].map(|(sends, means, buffer)| {
            let (own, other) = if sends { (&homes[0], &homes[1]) } else { (&homes[1], &homes[0]) };
            let class = own.nics.first().map_or(PathClass::Dis, |(_, class)| *class);
            let rendezvous = decision.rendezvous;
            let seen = Seen { gpu, sends, buffer, class, local, rendezvous, size: Bytes(asked.size) };
            let pieces = if pieces > 1 { format!("; over {pieces} adapters") } else { String::new() };
            let who = if sends { "sender" } else { "receiver" };
            if let Some(shared) =
                mpi.shared_memory.as_ref().filter(|_| local && means == CopyMethod::Host && decision.sender == decision.receiver)
            {
                let one_sided = matches!(benchmark.traits().operation, Operation::Put | Operation::Get | Operation::GetAccumulate);
                let how = if one_sided { reasons::directly(sends) } else { reasons::shared(shared, Bytes(asked.size), sends) };
                return MessageEnd { who, how, legs: crossing(&machine, own, other, sends) };
            }
            let how = format!("{}{pieces}", seen.say(means));
            MessageEnd { who, how, legs: legs(asked.parts, &machine, (own, other), Move { means, sends, local }) }
        });
        let on_device = [sender, receiver].iter().any(|buffer| *buffer != Buffer::Host);
        let symmetric = sender == receiver && (local || homes[0] == homes[1]);
        Some(Inside { ends: ends.into(), homes, on_device, local, machine, pieces, rails, symmetric })
    }

    fn of_perftest(asked: &DataPathRequest<'_>, test: perftest::Test, machine: Machine) -> Option<Inside> {
        let settings = perftest::Settings::parse(test, asked.options, asked.target).ok()?;
        let nic = *machine.nics().get(settings.nic)?;
        let index = settings.gpu.as_ref().map(|gpu| gpu.index as usize);
        let (memory, name, how) = match index {
            Some(index) => {
                let gpu = *machine.gpus().get(index)?;
                let how = format!("GPUDirect RDMA: the adapter is {} of gpu{index}", machine.class(gpu, nic));
                (machine.own_memory(gpu), format!("the memory of gpu{index}"), how)
            }
            None => (machine.host_memory_of(nic)?, "host memory".to_owned(), "the buffer is in host memory beside the adapter".to_owned()),
        };
        let adapter = device(asked.parts.sole().node.nic.interface, settings.nic as u32);
        let out = Leg::between(&machine, format!("{adapter} reads {name}"), (memory, nic), Purpose::Dma, Access::Read);
        let into = Leg::between(&machine, format!("{adapter} writes to {name}"), (nic, memory), Purpose::Dma, Access::Write);
        // Data of a read leaves the node that was asked.
        let (first, second) = if test.verb == Verb::Read { ("responder", "requester") } else { ("sender", "receiver") };
        let end = |who, leg: Option<Leg>| MessageEnd { who, how: how.clone(), legs: leg.into_iter().collect() };
        let ends = vec![end(first, out), end(second, into)];
        Some(Inside { ends, homes: Vec::new(), on_device: index.is_some(), local: false, machine, pieces: 1, rails: 1, symmetric: true })
    }

    /// Both ends as text.
    pub fn text(&self) -> String {
        let end = |end: &MessageEnd| {
            let legs: String = end.legs.iter().map(|leg| leg.text(&self.machine)).collect();
            format!("\n{}: {}\n{legs}", end.who, end.how)
        };
        self.ends.iter().map(end).collect()
    }

    /// The same for programs.
    pub fn json(&self) -> serde_json::Value {
        let end = |end: &MessageEnd| {
            let legs: Vec<serde_json::Value> = end.legs.iter().map(|leg| leg.json(&self.machine)).collect();
            serde_json::json!({ "end": end.who, "how": end.how, "ways": legs })
        };
        self.ends.iter().map(end).collect()
    }
}

/// The way of a copy between the memories of two ranks, which is the receiver's; none within one memory.
fn crossing(machine: &Machine, own: &RankLocation, other: &RankLocation, sends: bool) -> Vec<Leg> {
    let numas = machine.numas();
    let at = |home: &RankLocation| numas.get(home.numa as usize).map(|numa| machine.memory_of(*numa).unwrap_or(*numa));
    let ends = at(other).zip(at(own)).filter(|(from, to)| !sends && from != to);
    let leg =
        ends.and_then(|ends| Leg::between(machine, "a core copies from the other socket".to_owned(), ends, Purpose::Dma, Access::Write));
    leg.into_iter().collect()
}

/// How many adapters reach the memory that one end uses.
fn rails(home: &RankLocation, means: CopyMethod, gpu: Option<&GpuProtocol>) -> u32 {
    let farthest = gpu.and_then(|gpu| gpu.direct.as_ref()).map(|direct| direct.farthest.class());
    let reached = |class: PathClass| means != CopyMethod::Direct || farthest.is_some_and(|farthest| class <= farthest);
    home.nics.iter().take_while(|(_, class)| reached(*class)).count() as u32
}

/// What one end of a message does with its bytes.
struct Move {
    means: CopyMethod,
    /// It sends them, and does not receive.
    sends: bool,
    /// Both ends are in one node.
    local: bool,
}

/// The ways of one end.
fn legs(
    parts: &ResolvedCluster,
    machine: &Machine,
    (own, other): (&RankLocation, &RankLocation),
    Move { means, sends, local }: Move,
) -> Vec<Leg> {
    let gpu = |home: &RankLocation| machine.gpus().get(home.gpu? as usize).map(|gpu| machine.own_memory(*gpu));
    let (device_memory, peer) = (gpu(own), gpu(other));
    let host = machine.numas().get(own.numa as usize).map(|numa| machine.own_memory(*numa));
    let number = own.nics.first().map_or(0, |(nic, _)| *nic);
    let nic = machine.nics().get(number).copied();
    let adapter = device(parts.sole().node.nic.interface, number as u32);
    let leg = |what: String, inner: Option<VertexId>, outer: Option<VertexId>, purpose, accesses: [Access; 2]| {
        let ends = if sends { (inner?, outer?) } else { (outer?, inner?) };
        Leg::between(machine, what, ends, purpose, accesses[usize::from(!sends)])
    };
    let does = |reads: &str, writes: &str| if sends { reads.to_owned() } else { writes.to_owned() };
    let dma = [Access::Read, Access::Write];
    let wire =
        |from: Option<VertexId>, name: &str| leg(format!("{adapter} {} {name}", does("reads", "writes to")), from, nic, Purpose::Dma, dma);
    let through = |first: Option<Leg>| -> Vec<Leg> {
        let second = if local { None } else { wire(host, "host memory") };
        // A receiver's bytes come from the adapter first.
        if sends { [first, second] } else { [second, first] }.into_iter().flatten().collect()
    };
    let name = own.gpu.map_or_else(|| "the GPU".to_owned(), |gpu| format!("gpu{gpu}"));
    match means {
        CopyMethod::Host => through(None),
        CopyMethod::Core => {
            let what = format!("a core {} {name}", does("loads from", "stores to"));
            through(leg(what, device_memory, host, Purpose::Dma, dma))
        }
        CopyMethod::Copy | CopyMethod::Chunks { .. } | CopyMethod::Program => {
            let what = format!("{name} copies {} host memory", does("to", "from"));
            through(leg(what, device_memory, host, Purpose::Copy, [Access::Write, Access::Read]))
        }
        CopyMethod::Direct => wire(device_memory, &format!("the memory of {name}")).into_iter().collect(),
        // One copy moves the bytes: it is the sender's way.
        CopyMethod::Peers { .. } if !sends => Vec::new(),
        CopyMethod::Peers { by_kernels } => {
            let access = if by_kernels { Access::Read } else { Access::Write };
            let there = other.gpu.map_or_else(|| "the peer".to_owned(), |gpu| format!("gpu{gpu}"));
            leg(format!("{name} to {there}"), device_memory, peer, Purpose::Copy, [access; 2]).into_iter().collect()
        }
    }
}
