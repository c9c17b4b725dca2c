//! What cannot be is refused with what is wrong and what to do.

use fabriscope_machine::{Link, LinkKind, Machine, Vertex, VertexKind};
use fabriscope_nccl::{
    Adapter, Algorithm, Architecture, Choice, Communicator, Facts, NodeKind, Operation, Plan, Processor, Protocol, RankPlacement, Settings,
    Topology, Tuner, search,
};
use fabriscope_units::Remedy;
use fabriscope_units::{Bytes, Rate, Span};

/// A processor with GPUs, and adapters beside them.
fn machine(gpus: u32, adapters: u32) -> Machine {
    let mut builder = Machine::builder();
    let (rate, latency) = (Rate::from_gbps(200), Span::from_ns(100));
    let numa = builder.vertex(Vertex::new(VertexKind::Numa { package: 0 }, "numa0"));
    let bridge = builder.vertex(Vertex::new(VertexKind::HostBridge, "bridge0"));
    builder.link(Link::new(numa, bridge, LinkKind::Die, rate, latency));
    let devices = (0..gpus).map(|number| (VertexKind::Gpu, format!("gpu{number}")));
    for (kind, name) in devices.chain((0..adapters).map(|number| (VertexKind::Nic, format!("nic{number}")))) {
        let device = builder.vertex(Vertex::new(kind, name));
        builder.link(Link::new(bridge, device, LinkKind::Pcie { generation: 4, lanes: 16 }, rate, latency));
    }
    builder.build().unwrap()
}

fn facts(adapters: usize) -> Facts {
    let adapter = Adapter { rate: Rate::from_gbps(200), latency: Span::ZERO, gpudirect: true, collectives: false };
    Facts { architecture: Architecture::Sm(80), processor: Processor::Amd, adapters: vec![adapter; adapters], hosts: 1, rails: 1 }
}

fn kind(gpus: u32, adapters: u32, alone: bool) -> NodeKind {
    let machine = machine(gpus, adapters);
    let settings = Settings::default();
    let topology = Topology::new(&machine, &machine.gpus(), facts(adapters as usize), &settings, alone).unwrap();
    let graphs = search(&topology, &settings);
    NodeKind { topology, graphs }
}

fn seats(nodes: u32, gpus: u32) -> Vec<RankPlacement> {
    (0..nodes * gpus).map(|rank| RankPlacement { node: rank / gpus, gpu: rank % gpus }).collect()
}

fn says<T: std::fmt::Debug>(result: Result<T, fabriscope_nccl::NcclError>, text: &str) {
    assert_eq!(result.unwrap_err().in_full(), text);
}

#[test]
fn topologies() {
    let machine = machine(2, 1);
    let settings = Settings::default();
    let new = |gpus: &[_], adapters| Topology::new(&machine, gpus, facts(adapters), &settings, true);
    says(new(&[], 1), "a node of the communicator has no GPU; give each at least 1");
    says(new(&machine.gpus(), 3), "the machine has 1 adapters, and facts were given for 3; give one for each");
    says("sm_hopper".parse::<Architecture>(), "`sm_hopper` is no architecture of a GPU; use one as sm_90 or gfx90a");
    says("sparc".parse::<Processor>(), "`sparc` is no kind of processor; use intel-broadwell, intel-skylake, amd, arm or power");
    assert_eq!("gfx90a".parse::<Architecture>().unwrap(), Architecture::Gfx(0x90a));
}

#[test]
fn communicators() {
    let new = |kinds: Vec<NodeKind>, nodes: &[u32], seats: &[RankPlacement]| Communicator::new(kinds, nodes, seats, Settings::default());
    says(new(vec![kind(2, 1, true)], &[0], &[]), "a communicator without ranks; use at least 1");
    let taken = "rank 1 is on GPU 0 of node 0, which is not there or taken; each rank needs a GPU of its own";
    says(new(vec![kind(2, 1, true)], &[0], &[RankPlacement { node: 0, gpu: 0 }, RankPlacement { node: 0, gpu: 0 }]), taken);
    let beyond = "rank 0 is on GPU 5 of node 0, which is not there or taken; each rank needs a GPU of its own";
    says(new(vec![kind(2, 1, true)], &[0], &[RankPlacement { node: 0, gpu: 5 }]), beyond);
    let missing = "rank 1 is on GPU 1 of node 0, which is not there or taken; each rank needs a GPU of its own";
    says(new(vec![kind(2, 1, true)], &[0], &[RankPlacement { node: 0, gpu: 0 }]), missing);
    let alone = "a node of the communicator has no adapter, and there are 2 nodes; give each an adapter, or use one node";
    says(new(vec![kind(2, 0, false)], &[0, 0], &seats(2, 2)), alone);
}

#[test]
fn plans_and_choices() {
    let communicator = Communicator::new(vec![kind(2, 1, false)], &[0, 0], &seats(2, 2), Settings::default()).unwrap();
    let choice =
        |operation, algorithm, protocol| Choice { operation, algorithm, protocol, channels: 1, threads: 512, estimate: Span::ZERO };
    let plan = |choice, root| Plan::new(&communicator, choice, 1000, Bytes(4), root, false);
    says(plan(choice(Operation::Broadcast, Algorithm::Ring, Protocol::Simple), 4), "root 4 of 4 ranks; use 0 to 3");
    for (operation, algorithm, protocol, text) in [
        (Operation::Broadcast, Algorithm::Tree, Protocol::Ll, "Broadcast by Tree with LL"),
        (Operation::AllReduce, Algorithm::Nvls, Protocol::Simple, "AllReduce by NVLS with Simple"),
        (Operation::AllReduce, Algorithm::CollnetChain, Protocol::Simple, "AllReduce by CollNetChain with Simple"),
    ] {
        let text = format!("{text} is not there in this communicator; the printed table shows what is");
        says(plan(choice(operation, algorithm, protocol), 0), &text);
        says(Tuner::new(&communicator).with(operation, algorithm, protocol, Bytes(1000)), &text);
    }
    let mut settings = Settings::default();
    settings.set("NCCL_PROTO", "LL128").unwrap();
    settings.set("NCCL_ALGO", "NVLS").unwrap();
    let communicator = Communicator::new(vec![kind(2, 1, true)], &[0], &seats(1, 2), settings).unwrap();
    // Rings remain where nothing else is left.
    let left = Tuner::new(&communicator).choose(Operation::AllReduce, Bytes(1 << 20)).unwrap();
    assert_eq!((left.algorithm, left.protocol), (Algorithm::Ring, Protocol::Ll128));
    let mut settings = Settings::default();
    settings.set("NCCL_PROTO", "^LL,LL128,Simple").unwrap();
    let communicator = Communicator::new(vec![kind(2, 1, true)], &[0], &seats(1, 2), settings).unwrap();
    let none = "AllReduce has no algorithm left: NCCL_ALGO and NCCL_PROTO leave none that it can use here; leave one of them out";
    says(Tuner::new(&communicator).choose(Operation::AllReduce, Bytes(1 << 20)), none);
    let empty = Plan::new(&communicator, choice(Operation::AllReduce, Algorithm::Ring, Protocol::Simple), 0, Bytes(4), 0, false).unwrap();
    assert!(empty.parts.is_empty());
}
