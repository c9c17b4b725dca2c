//! The engine of RPCs against what can be worked out by hand.

use fabriscope_catalog::Catalog;
use fabriscope_engine_storage::{DataRun, Direction, MetadataRun, Operation, Resource, Sharing, StridedRun};
use fabriscope_lustre::{Clients, Layout, System};
use fabriscope_units::{Bytes, Rate, Span};

/// Clients with an adapter of 25 GB/s each on LUMI-P: 32 OSTs of disks behind 32 servers.
fn system(nodes: u32, per_node: u32) -> System {
    let catalog = Catalog::embedded().unwrap();
    let files = catalog.resolve_file_system("lumi-p").unwrap();
    let copy = Rate::from_gbps(80);
    let clients = Clients { nodes, per_node, cores: 128, adapters: 1, rate: Rate::from_gbps(200), copy, delay: Span::from_us(1) };
    System::of(clients, &files, false).unwrap()
}

fn write(system: &System, count: i32, bytes: u64) -> DataRun {
    DataRun {
        direction: Direction::Write,
        sharing: Sharing::Own,
        layout: Layout::plain(count, Bytes::from_mib(1), system.osts()).unwrap(),
        transfer: Bytes::from_mib(16),
        bytes: Bytes(bytes),
        random: false,
        direct: false,
        fsync: true,
    }
}

/// Many writers get what the drives stream, 32 times; within a twentieth, as queues are not always deep.
#[test]
fn drives_bind_many_writers() {
    let system = system(64, 16);
    let done = write(&system, 1, 8 << 30).run(&system);
    let streaming = system.oss.array.streaming(true).as_bytes_per_s_f64() * 32.0;
    assert!((done.rate() / streaming - 1.0).abs() < 0.05, "{} of {streaming}", done.rate());
    assert_eq!(done.usage.binds().unwrap().0, Resource::OssDrives);
}

/// A client behind one adapter gets what LNet leaves of its link, 95 % of 25 GB/s, however many OSTs there are; none is lost on the way.
#[test]
fn an_adapter_binds_a_client() {
    let system = system(1, 32);
    let done = write(&system, 1, 8 << 30).run(&system);
    assert!((done.rate() / (25e9 * 0.95) - 1.0).abs() < 0.25, "{}", done.rate());
    assert!(done.rate() < 25e9 * 0.95 * 1.01);
}

/// A whole run moves each byte once, whatever the striping: writers whose pages fill the room of others come to an end.
#[test]
fn shared_room_is_given_back() {
    for count in [1, 4, 32] {
        let system = system(16, 16);
        let mut run = write(&system, count, 1 << 30);
        run.sharing = Sharing::Shared;
        let done = run.run(&system);
        assert!(done.whole && done.bytes == Bytes(256 << 30));
        let most = system.oss.array.streaming(true).as_bytes_per_s_f64() * f64::from(count.unsigned_abs());
        assert!(done.rate() <= most * 1.3, "{count} stripes: {} of {most}", done.rate());
    }
}

/// Ranks of one node write a file one after the other and share its locks: hardly any is asked for. On two nodes that write in turns the
/// first of a node's ranks in a stripe asks, and takes the lock from the other node.
#[test]
fn locks_go_between_nodes_and_not_within() {
    let run = |nodes| {
        let system = system(nodes, 8);
        let layout = Layout::plain(4, Bytes::from_mib(1), 32).unwrap();
        StridedRun { direction: Direction::Write, layout, transfer: Bytes(47_008), segments: 64 }.run(&system)
    };
    let (one, two) = (run(1), run(2));
    assert_eq!((one.revoked, one.calls), (0, 512));
    assert!(one.enqueued < 20, "{}", one.enqueued);
    assert!(two.revoked >= 16 && two.enqueued > one.enqueued + 16, "{} {}", two.revoked, two.enqueued);
}

/// One process makes one name after the other: two messages to the MDT and back for the open, two for the close, and what its core takes.
#[test]
fn one_process_pays_latency() {
    let system = system(1, 1);
    let done = MetadataRun { operation: Operation::Create, shared: false, mdts: 1, bytes: Bytes(0), names: 100 }.run(&system);
    let (mds, client) = (&system.costs.mds, &system.costs.client);
    let array = &system.mds.array;
    let log = Rate::from_bps(array.rates[1].as_bps() * array.data).time(*mds.journal_bytes);
    let messages = Span::from_ps(system.message.as_ps() * 4);
    let each = *client.call + *client.rpc + *client.rpc + messages + *mds.open + *mds.create + *mds.journal + log + *mds.close;
    assert_eq!(done.each, each);
}

/// Names of one directory are made one at a time by each client: twice as many clients, twice the rate, not so twice as many processes.
#[test]
fn a_directory_is_locked_at_each_client() {
    let rate = |nodes, per_node| {
        MetadataRun { operation: Operation::Create, shared: true, mdts: 1, bytes: Bytes(3901), names: 1000 }
            .run(&system(nodes, per_node))
            .rate()
    };
    let base = rate(2, 4);
    assert!((rate(4, 4) / base - 2.0).abs() < 0.1);
    assert!((rate(2, 8) / base - 1.0).abs() < 0.05);
}
