//! The catalogue with numbers changed: what rests on them changes with them, everything else stays.

use fabriscope_catalog::{Alteration, Basis, Catalog, Kind};
use fabriscope_units::Span;

use super::embedded::catalog;

fn alteration(kind: Kind, part: &str, field: &str, value: &str) -> Alteration {
    let (part, field, value) = (part.to_owned(), field.to_owned(), value.to_owned());
    Alteration { kind, part, field, value, basis: Basis::Assumed, because: "for a \"test\"".to_owned() }
}

fn sent(catalog: &Catalog, name: &str) -> Span {
    catalog.nic(name).unwrap().tx_latency.value
}

#[test]
fn parts_that_rest_on_a_number_change_with_it() {
    let before = catalog();
    let after = before.altered(&[alteration(Kind::Nic, "connectx-5", "tx_latency", "333 ns")]).unwrap();
    // connectx-6 takes the number over; efa-1 rests on the same adapter and writes its own.
    assert_eq!(before.base_of(Kind::Nic, "connectx-6").as_deref(), Some("connectx-5"));
    for name in ["connectx-5", "connectx-6"] {
        assert_eq!((sent(&before, name), sent(&after, name)), (Span::from_ns(210), Span::from_ns(333)), "{name}");
    }
    assert_eq!(sent(&before, "efa-1"), sent(&after, "efa-1"));
    // And so does a cluster with it.
    assert_eq!(*after.target("ibex-cpu").unwrap().sole().node.nic.tx_latency, Span::from_ns(333));
    let number = after.number(Kind::Nic, "connectx-6", "tx_latency").unwrap();
    assert_eq!((number.basis, number.note.as_str()), (Basis::Assumed, "for a \"test\""));
}

#[test]
fn several_numbers_of_one_file_change_together() {
    let changes = [
        alteration(Kind::Cpu, "xeon-e5-2680v4", "root_complex.dma_read_latency", "900 ns"),
        alteration(Kind::Cpu, "xeon-e5-2680v4", "poll_hit", "1 ns"),
    ];
    let after = catalog().altered(&changes).unwrap();
    let number = |field: &str| after.number(Kind::Cpu, "xeon-e5-2680v4", field).unwrap().value;
    assert_eq!((number("root_complex.dma_read_latency").as_str(), number("poll_hit").as_str()), ("900 ns", "1 ns"));
}

#[test]
fn a_number_belongs_to_the_file_that_writes_it() {
    let catalog = catalog();
    let own = catalog.own_numbers();
    let with =
        |field: &str| own.iter().filter(|row| row.kind == "nics" && row.field == field).map(|row| row.part.as_str()).collect::<Vec<_>>();
    assert!(with("wqe_interval").contains(&"connectx-5") && !with("wqe_interval").contains(&"connectx-6"));
    // Every number of a part is written by it or by one that it rests on.
    let all = catalog.parts_table();
    assert!(own.len() < all.len());
    assert!(own.iter().all(|row| all.contains(row)));
}

#[test]
fn what_cannot_be_changed_is_said() {
    let told =
        |kind, part: &str, field: &str, value: &str| catalog().altered(&[alteration(kind, part, field, value)]).unwrap_err().to_string();
    assert!(told(Kind::Nic, "connectx-6", "wqe_interval", "1 ns").contains("its file does not write it"));
    assert!(told(Kind::Nic, "connectx-99", "wqe_interval", "1 ns").contains("no such part"));
    assert!(told(Kind::Nic, "connectx-5", "wqe_interval", "5 GB").contains("GB"));
}
