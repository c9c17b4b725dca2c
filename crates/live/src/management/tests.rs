//! Datagrams on a torus of 4 x 4 x 4 switches with a host each: what agents say, what a manager writes, who is asked.

use fabriscope_catalog::Catalog;
use fabriscope_engine::{Cluster, Control};
use fabriscope_fabric::{EndpointId, SwitchId};
use fabriscope_units::{Span, Time};

use super::{BY_LID, DATAGRAM, GET, HEAD, Management, RESPONSE, SET, set_word};

const HOSTS: u16 = 64;
const LINEAR_FORWARDING: u16 = 0x19;
const PORT_INFO: u16 = 0x15;
const SA: u8 = 0x03;

fn management() -> (Management, Control) {
    let catalog = Catalog::embedded().expect("the catalogue is sound");
    let torus = catalog.cluster("lab-torus-4x4x4").expect("it is there");
    let cluster = Cluster::new(catalog.resolve(torus, None).expect("its parts are there")).expect("it can be built");
    let control = Control::default();
    (Management::new(&cluster, &[], &[], control.clone()), control)
}

/// A datagram to a LID.
fn mad(lid: u16, (class, method): (u8, u8), (attribute, modifier): (u16, u32), data: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; HEAD + DATAGRAM];
    set_word(&mut bytes, 8, 100);
    bytes[28..30].copy_from_slice(&lid.to_be_bytes());
    let mad = &mut bytes[HEAD..];
    (mad[0], mad[1], mad[2], mad[3]) = (1, class, 1, method);
    mad[8..16].copy_from_slice(&0x0102_0304_0506_0708_u64.to_be_bytes());
    mad[16..18].copy_from_slice(&attribute.to_be_bytes());
    mad[20..24].copy_from_slice(&modifier.to_be_bytes());
    mad[64..64 + data.len()].copy_from_slice(data);
    bytes
}

fn ask(of: &mut Management, open: u32, sent: &[u8]) -> Vec<u8> {
    of.send(open, (Time::ZERO, 0), sent).unwrap();
    let late = Time::ZERO + Span::from_us(1_000_000);
    let (answer, whole) = of.take(open, late, HEAD + DATAGRAM).unwrap();
    assert!(whole);
    answer[HEAD..].to_vec()
}

fn status(mad: &[u8]) -> u16 {
    u16::from_be_bytes([mad[4], mad[5]])
}

/// Dimension order goes along x first. Switch (0,0,0) has its own host at port 1, then a port for each way of each dimension.
#[test]
fn tables_hold_the_routing_until_they_are_written() {
    let (mut of, control) = management();
    let open = of.open(0, false);
    let first = HOSTS + 1;
    let block = ask(&mut of, open, &mad(first, (BY_LID, GET), (LINEAR_FORWARDING, 0), &[]));
    let table = &block[64..];
    // LID 0 is nobody's, LID 1 the own host; the second host is one step along x, the fourth one step back around the ring.
    assert_eq!((table[0], table[1], table[2], table[4]), (255, 1, 2, 3));
    // Switches have the way with the fewest hops: themselves, and their neighbours.
    let block = ask(&mut of, open, &mad(first, (BY_LID, GET), (LINEAR_FORWARDING, 1), &[]));
    assert_eq!((block[64 + 1], block[64 + 2], block[64 + 4]), (0, 2, 3));

    let mut written = table.to_vec();
    written.truncate(64);
    written[2] = 3;
    let answer = ask(&mut of, open, &mad(first, (BY_LID, SET), (LINEAR_FORWARDING, 0), &written));
    assert_eq!((answer[3], status(&answer)), (RESPONSE, 0));
    let mut taken = None;
    control.serve(
        |_| fabriscope_engine::PortCounts::new(),
        |tables| {
            taken = Some(tables);
            Err("they lead in a cycle".to_owned())
        },
    );
    let tables = taken.expect("all that was written is acknowledged");
    let port = |host| tables.port(SwitchId(0), EndpointId(host), 0).map(|port| port.0 + 1);
    assert_eq!((port(0), port(1), port(3)), (Some(1), Some(3), Some(3)));
    assert!(of.complaint().unwrap().ends_with("have no effect: they lead in a cycle"));
}

#[test]
fn a_manager_sets_what_it_may() {
    let (mut of, _) = management();
    let open = of.open(0, true);
    let mut port = ask(&mut of, open, &mad(1, (BY_LID, GET), (PORT_INFO, 1), &[]))[64..128].to_vec();
    // It runs here.
    assert_eq!((port[16..18].to_vec(), port[23] & 2), (vec![0, 1], 2));
    port[18..20].copy_from_slice(&7_u16.to_be_bytes());
    port[32] = 0;
    let answer = ask(&mut of, open, &mad(1, (BY_LID, SET), (PORT_INFO, 1), &port));
    // The LID of the manager is taken; a state of zero asks for no change.
    assert_eq!((status(&answer), &answer[64 + 18..64 + 20], answer[64 + 32] & 15), (0, &[0, 7][..], 4));
    port[16..18].copy_from_slice(&9_u16.to_be_bytes());
    let answer = ask(&mut of, open, &mad(1, (BY_LID, SET), (PORT_INFO, 1), &port));
    assert_eq!(status(&answer), 0x1c);
    let answer = ask(&mut of, open, &mad(1, (BY_LID, SET), (0x10, 0), &[1]));
    assert_eq!(status(&answer), 0xc);
}

/// A request goes to the program that registered for its class, its answer back to whoever asked, under the number that it was asked by; nobody
/// answers for a program that is gone.
#[test]
fn programs_answer_programs() {
    let (mut of, _) = management();
    let (manager, asker) = (of.open(0, true), of.open(5, false));
    of.register(manager, (3, SA), 1 << 0x12);
    let question = mad(1, (SA, 0x12), (0x35, 0), &[42]);
    of.send(asker, (Time::ZERO, 5), &question).unwrap();
    let soon = Time::ZERO + Span::from_us(50);
    let (mut asked, _) = of.take(manager, soon, HEAD + DATAGRAM).unwrap();
    assert_eq!((asked[0], &asked[28..30], asked[HEAD + 64]), (3, &[0, 6][..], 42));
    asked[HEAD + 3] |= 0x80;
    // An answer of several datagrams is one here.
    asked.resize(HEAD + 1000, 9);
    of.send(manager, (soon, 0), &asked).unwrap();
    let later = soon + Span::from_us(50);
    let (front, whole) = of.take(asker, later, HEAD + DATAGRAM).unwrap();
    assert!(!whole && front.len() == HEAD + DATAGRAM);
    let (answer, whole) = of.take(asker, later, 4096).unwrap();
    assert!(whole && answer.len() == HEAD + 1000);
    assert_eq!((answer[HEAD + 3], &answer[HEAD + 8..HEAD + 16]), (0x92, &question[HEAD + 8..HEAD + 16]));
    assert_eq!(of.readable_at(asker), None);

    of.close(manager);
    let answer = ask(&mut of, asker, &question);
    assert_eq!(status(&answer), 0xc);
}
