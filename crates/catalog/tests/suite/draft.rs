//! Nodes that other tools described, as parts.

use fabriscope_catalog::draft::node;
use fabriscope_catalog::{AnyPart, Catalog, Kind};
use fabriscope_machine::import::NodeFile;

fn file(text: &str) -> NodeFile {
    let rates = Catalog::embedded().unwrap().node_file_rates("nccl").unwrap();
    fabriscope_machine::import::read(text, &rates).unwrap()
}

#[test]
fn devices_hang_where_the_file_says() {
    let catalog = Catalog::embedded().unwrap();
    let text = node(&catalog, &file(include_str!("../../../../fabrics/nodes/hgx-h100.nccl.xml")), "gpu01", None).unwrap();
    let AnyPart::Node(part) = catalog.parse_part(Kind::Node, "gpu01", &text).unwrap() else { panic!("{text}") };
    assert_eq!((part.sockets, part.gpus(), part.nics()), (2, 8, 8));
    // The file has a switch of its own for each GPU and its adapter, four at each socket.
    let switches: Vec<String> = (0..8).map(|number| format!("sw{number}")).collect();
    assert_eq!(part.switches[0].under, ["numa0", "numa0", "numa0", "numa0", "numa1", "numa1", "numa1", "numa1"], "{text}");
    assert_eq!(part.gpus.as_ref().unwrap().under, switches, "{text}");
    assert_eq!(part.nics.as_ref().unwrap().under, switches, "{text}");
}

#[test]
fn a_matrix_without_rates_is_a_node_too() {
    let catalog = Catalog::embedded().unwrap();
    let text = node(&catalog, &file(include_str!("../../../../fabrics/nodes/hgx-h100.topo")), "gpu01", None).unwrap();
    assert!(text.contains("uplink = { generation = 4, lanes = 16 }"), "{text}");
}

#[test]
fn what_no_node_suits_is_refused() {
    let catalog = Catalog::embedded().unwrap();
    let hopper = file(include_str!("../../../../fabrics/nodes/hgx-h100.nccl.xml"));
    let error = node(&catalog, &hopper, "gpu01", Some("gh200-quad")).unwrap_err().to_string();
    assert!(error.contains("the file has 8 GPUs, and the node `gh200-quad` has 4"), "{error}");
    assert!(node(&catalog, &hopper, "gpu01", Some("hgx-h10")).unwrap_err().to_string().contains("hgx-h10"));
}
