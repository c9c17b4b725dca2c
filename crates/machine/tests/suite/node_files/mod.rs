//! Files about nodes: what is read out of them, what is written again, and what is said where one is wrong.
#![allow(missing_docs)]

mod errors;
mod hwloc;
mod matrix;
mod nccl;
mod strict;

use std::path::{Path, PathBuf};

use fabriscope_machine::import::{ImportError, NodeFile, NvLinkRate, PcieRate, Rates, SocketRate, XgmiRate, read};
use fabriscope_machine::{Framing, Machine, PathClass};
use fabriscope_units::{Rate, Span};

/// Round numbers, so that a test can say what comes out.
fn rates() -> Rates {
    let pcie = |generation: u32, tenths: u64, tens: u64| PcieRate {
        generation,
        signal: Rate::from_bps(tenths * 100_000_000),
        coded: Rate::from_bps(tenths * 1_000_000 * tens / 10),
        packets: Rate::from_gbps(u64::from(generation)),
        framing: Framing::NONE,
    };
    let nvlink = |compute_capability, generation, links, raw: u64, data: u64| NvLinkRate {
        compute_capability,
        generation,
        links,
        raw: Rate::from_gbps(raw * 8),
        data: Rate::from_gbps(data * 8),
        latency: Span::from_ns(300),
    };
    let xgmi = |architecture: &str, gigabytes: u64| XgmiRate {
        architectures: vec![architecture.to_owned()],
        data: Rate::from_gbps(gigabytes * 8),
        latency: Span::from_ns(250),
    };
    let intel = |from, to, gigabytes: u64| SocketRate {
        architecture: "x86_64".to_owned(),
        vendor: "GenuineIntel".to_owned(),
        families: vec![6],
        models: vec![(from, to)],
        rate: Rate::from_gbps(gigabytes * 8),
    };
    Rates {
        pcie: vec![pcie(1, 25, 800), pcie(2, 50, 800), pcie(3, 80, 985), pcie(4, 160, 985), pcie(5, 320, 985)],
        pcie_unknown: (3, 16),
        pcie_latency: Span::from_ns(100),
        nvlink: vec![nvlink(60, 1, 4, 20, 18), nvlink(70, 2, 6, 25, 20), nvlink(80, 3, 12, 25, 21), nvlink(90, 4, 18, 25, 22)],
        xgmi: vec![xgmi("gfx908", 40), xgmi("gfx90a", 38), xgmi("gfx942", 52)],
        sockets: vec![
            intel(143, 206, 22),
            intel(85, 142, 10),
            SocketRate { architecture: "arm64".to_owned(), rate: Rate::from_gbps(48), ..SocketRate::default() },
        ],
        socket_latency: Span::from_ns(60),
        local: Rate::from_gbps(40_000),
        local_latency: Span::from_ns(20),
        memory_latency: Span::from_ns(80),
        coherent_latency: Span::from_ns(100),
    }
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fabrics/nodes")
}
fn text(name: &str) -> String {
    std::fs::read_to_string(folder().join(name)).unwrap()
}
fn node(name: &str) -> NodeFile {
    read(&text(name), &rates()).unwrap_or_else(|error| panic!("{name}: {error}"))
}
pub fn class(machine: &Machine, from: &str, to: &str) -> PathClass {
    machine.class(machine.find(from).unwrap(), machine.find(to).unwrap())
}
fn refused(text: &str) -> ImportError {
    read(text, &rates()).unwrap_err()
}
