//! The catalogue that comes with the program: it loads, it checks, every cluster and lab resolves.

use std::path::Path;

use fabriscope_catalog::{Basis, Catalog, Kind};
use fabriscope_lab::schemas;
use fabriscope_units::{Bytes, Rate, Span};

pub fn catalog() -> Catalog {
    Catalog::embedded().unwrap_or_else(|error| panic!("{:?}", miette::Report::new(error)))
}

#[test]
fn it_loads_and_nothing_is_broken() {
    let catalog = catalog();
    let broken: Vec<String> = catalog.check().into_iter().map(|error| format!("{:?}", miette::Report::new(error))).collect();
    assert!(broken.is_empty(), "{}", broken.join("\n"));
    for kind in Kind::ALL {
        assert!(!catalog.names(kind).is_empty(), "no {kind}");
    }
}

#[test]
fn every_cluster_resolves_and_wires() {
    let catalog = catalog();
    for name in catalog.names(Kind::Cluster) {
        let cluster = catalog.target(name).unwrap_or_else(|error| panic!("{:?}", miette::Report::new(error)));
        assert_eq!(cluster.name, name);
        let fabric = cluster.fabric().unwrap();
        // A hypercube may have places without nodes.
        assert!(fabric.counts().endpoints >= cluster.endpoints(), "{name}");
    }
}

#[test]
fn ri2_is_what_its_description_says() {
    let ri2 = catalog().target("ri2").unwrap();
    assert_eq!((ri2.nodes(), ri2.mtu), (2, Bytes(4096)));
    assert_eq!(ri2.sole().link.data_rate(), Rate::from_gbps(100));
    assert_eq!(*ri2.switch.as_ref().unwrap().latency, Span::from_ns(90));
    assert_eq!(*ri2.sole().node.nic.message_interval, Span::from_ns(5));
    // 16 lanes of 8 Gb/s at 128/130, less 8/168, 8/168 and 4/1538: 14.21 GB/s as pcie-model has it.
    let tlp = ri2.sole().node.pcie.part.tlp_rate(ri2.sole().node.pcie.lanes);
    assert_eq!(tlp.as_bps() / 80_000_000, 1_421, "{tlp}");
    assert_eq!(ri2.sole().host_delay(), Span::from_ns(10));
}

#[test]
fn nodes_can_be_asked_for_and_are_limited() {
    let catalog = catalog();
    assert_eq!(catalog.target("ri2:36").unwrap().fabric().unwrap().counts().endpoints, 36);
    let error = catalog.target("ri2:37").unwrap_err().to_string();
    assert!(error.contains("37") && error.contains("36"), "{error}");
}

#[test]
fn the_slot_is_the_lesser_of_connector_and_socket() {
    let ibex = catalog().target("ibex-cpu").unwrap();
    assert_eq!((ibex.sole().node.pcie.part.generation, ibex.sole().node.pcie.lanes), (3, 16));
    let betzy = catalog().target("betzy-hdr").unwrap();
    assert_eq!((betzy.sole().node.pcie.part.generation, betzy.sole().node.pcie.lanes), (4, 16));
}

#[test]
fn what_rests_on_a_base_differs_only_where_it_says() {
    let catalog = catalog();
    let (four, five) = (catalog.nic("connectx-4").unwrap(), catalog.nic("connectx-5").unwrap());
    assert_eq!(four.tx_latency, five.tx_latency);
    assert_eq!(*four.message_interval, Span::from_ps(6_667));
    let across = catalog.target("oci-optimized3-across").unwrap();
    assert_ne!(across.placement, catalog.target("oci-optimized3").unwrap().placement);
}

#[test]
fn every_number_has_an_origin_and_few_are_fitted() {
    let catalog = catalog();
    let rows = catalog.parts_table();
    assert!(rows.len() > 300, "{}", rows.len());
    for row in &rows {
        assert!(!row.source.is_empty() || !row.note.is_empty(), "{row:?}");
    }
    let fitted = catalog.fitted_numbers("ri2", None).unwrap();
    assert!(!fitted.is_empty() && fitted.len() <= 14, "{} fitted numbers: {fitted:#?}", fitted.len());
    assert!(fitted.iter().all(|row| row.basis == Basis::Fitted && row.source.contains("ri2-")));
    // A number fitted for one cluster alone would not be in a part that others use.
    assert!(!catalog.fitted_numbers("oci-optimized3", None).unwrap().is_empty());
}

#[test]
fn the_generations_of_efa_have_their_published_latency() {
    let catalog = catalog();
    let c5n = catalog.target("aws-c5n-efa").unwrap();
    let (cpu, hop) = (&c5n.sole().node.cpu, *c5n.switch.as_ref().unwrap().latency);
    let root = &cpu.root_complex;
    // Post, doorbell, fetch of the payload; write of payload and completion, seen by a spinning core.
    let node = [*cpu.wqe_build, *cpu.mmio_latency, *root.dma_read_latency, *root.dma_write_latency, *cpu.detect, *cpu.poll_hit];
    let network = hop + hop + hop + c5n.sole().host_delay() + c5n.sole().host_delay() + c5n.trunk_delay() + c5n.trunk_delay();
    for (name, published_us) in [("efa-1", 14.0), ("efa-2", 9.5), ("efa-3", 6.5)] {
        let nic = catalog.nic(name).unwrap();
        let all = node.into_iter().sum::<Span>() + network + *nic.tx_latency + *nic.rx_latency + *nic.recv_latency;
        let all = all + **nic.srd_latency.as_ref().unwrap();
        let error = all.as_ps() as f64 / 1e6 / published_us - 1.0;
        assert!(error.abs() < 0.1, "{name}: {all}");
    }
}

#[test]
fn every_lab_loads() {
    let catalog = catalog();
    let mut labs = 0;
    for entry in std::fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../labs")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "toml") {
            fabriscope_lab::load(&catalog, &path).unwrap_or_else(|error| panic!("{:?}", miette::Report::new(error)));
            labs += 1;
        }
    }
    assert!(labs >= 5, "{labs}");
}

#[test]
fn the_permutation_lab_is_the_one_of_the_speed_goal() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../labs/permutation-1024.toml");
    let lab = fabriscope_lab::load(&catalog(), &path).unwrap();
    // Three levels of 16-port switches: 16³ / 4 hosts, 1024 / 8 leaves, as many above them, half as many on top.
    let counts = lab.cluster.fabric().unwrap().counts();
    assert_eq!((counts.endpoints, counts.switches), (1024, 320));
    assert_eq!(lab.cluster.sole().link.data_rate(), Rate::from_gbps(400));
    // The adapter is not the bottleneck: PCIe carries more than 50 GB/s of payload each way.
    let (slot, root) = (&lab.cluster.sole().node.pcie, &lab.cluster.sole().node.cpu.root_complex);
    let tlp = slot.part.tlp_rate(slot.lanes).as_bps();
    for (payload, overhead) in [(*root.completion_payload, *slot.part.completion_overhead), (*root.max_payload, *slot.part.write_overhead)]
    {
        assert!(tlp * payload.as_u64() / (payload.as_u64() + overhead.as_u64()) > 410_000_000_000);
    }
}

#[test]
fn every_input_has_a_schema() {
    let schemas = schemas();
    assert_eq!(schemas.len(), Kind::ALL.len() + 1);
    for (name, schema) in schemas {
        assert!(schema["properties"].is_object(), "{name}");
    }
}

/// Tables of `decisions` lie under a library's own and over those of what it rests on; a library with decisions of its own has none of
/// its base.
#[test]
fn decisions_lie_between_a_library_and_its_base() {
    let catalog = Catalog::embedded().unwrap();
    let first = |name: &str, operation: &str| {
        let mpi = catalog.software(name).unwrap().mpi.as_ref().unwrap();
        (mpi.collectives[operation].value[0].algorithm.clone(), mpi.hierarchical.contains_key("allreduce"))
    };
    assert_eq!(first("openmpi-ucx", "barrier"), ("recursive_doubling".to_owned(), false));
    assert_eq!(first("openmpi-5-ucx", "allreduce"), ("recursive_doubling".to_owned(), true));
    assert_eq!(first("openmpi-cxi", "barrier"), ("recursive_doubling".to_owned(), true));
    assert_eq!(first("intelmpi-2018-dapl", "barrier"), ("dissemination".to_owned(), false), "its base is openmpi-ucx");
    assert_eq!(first("mvapich2-gdr-2.3.7", "alltoall"), ("bruck".to_owned(), true), "as mvapich2-2.3.7");
}
