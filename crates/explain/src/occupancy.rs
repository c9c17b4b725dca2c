//! How long one message keeps each resource on its way busy: the shortest time from one message to the next.
//!
//! Modelled: the wire with its headers, the two directions of PCI Express at sender and receiver, the NIC's send
//! engine, the core that posts. Whatever is busy longest binds a stream of messages; where the time from message to
//! message is clearly longer than any of them, a window, a credit or a latency binds instead.
//! Not modelled: acknowledgements and completions, which take little of any of these.

use std::borrow::Cow;

use fabriscope_catalog::{Mpi, Psm2, RailPolicy, ResolvedCluster};
use fabriscope_engine::timing;
use fabriscope_psm2::AdapterSettings;
use fabriscope_report::Table;
use fabriscope_report::explain::nanoseconds;
use fabriscope_units::{Bytes, Rate, Span};
use fabriscope_wire::Opcode;

/// A resource and how long one message keeps it busy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Busy {
    /// The resource, in words.
    pub what: Cow<'static, str>,
    /// The time per message.
    pub span: Span,
}

/// The resources that a message of `size` bytes passes on `parts`, sent by perftest or by a program over MPI.
/// `pieces`: the adapters that share it, where that is known.
pub fn resources(parts: &ResolvedCluster, size: u64, perftest: bool, pieces: Option<u32>) -> Vec<Busy> {
    let (cpu, slot) = (&parts.sole().node.cpu, &parts.sole().node.pcie);
    let size = size.div_ceil(pieces.map_or_else(|| rails(parts, size, perftest), u64::from).max(1));
    let rate = slot.part.tlp_rate(slot.lanes);
    let fetch = tlps(rate, size, *cpu.root_complex.completion_payload, *slot.part.completion_overhead);
    let write = tlps(rate, size, *cpu.root_complex.max_payload, *slot.part.write_overhead);
    let loop_overhead = parts.perftest.perftest.as_ref().map_or(Span::ZERO, |p| *p.loop_overhead);
    let send_overhead = parts.sole().software.mpi.as_ref().map_or(Span::ZERO, |m| *m.send_overhead);
    let program = if perftest { loop_overhead } else { send_overhead };
    let psm2 = parts.sole().software.mpi.as_ref().and_then(|mpi| mpi.psm2.as_ref()).filter(|_| !perftest);
    if let (Some(psm2), Some(adapter)) = (psm2, timing::onload(parts)) {
        return onload(parts, psm2, adapter, size);
    }
    vec![
        Busy { what: "link".into(), span: wire(parts, size) },
        Busy { what: "PCIe of the sender".into(), span: fetch },
        Busy { what: "PCIe of the receiver".into(), span: write },
        Busy { what: "NIC's send engine".into(), span: timing::nic(parts).message_spacing() },
        Busy { what: "core that posts".into(), span: program + *cpu.wqe_build + *cpu.mmio_busy },
    ]
}

/// The same where the cores do the transport: with PSM2 they store short messages into the adapter and copy them out.
fn onload(parts: &ResolvedCluster, psm2: &Psm2, adapter: AdapterSettings, size: u64) -> Vec<Busy> {
    let (cpu, slot) = (timing::cpu(parts), &parts.sole().node.pcie);
    let (root, rate) = (&parts.sole().node.cpu.root_complex, slot.part.tlp_rate(slot.lanes));
    let packets = size.div_ceil(u64::from(adapter.parameters.mtu)).max(1);
    let payload = if size <= psm2.tiny_limit.as_u64() { 0 } else { size };
    let wire = Bytes(packets * u64::from(adapter.parameters.overhead) + payload);
    let stored = size <= psm2.sdma_limit.as_u64();
    let above = parts.sole().software.mpi.as_ref().map_or(Span::ZERO, |mpi| *mpi.send_overhead) + *psm2.send;
    let post = if stored {
        above + (*psm2.packet + cpu.mmio_busy) * packets + adapter.parameters.store_block * payload.div_ceil(64)
    } else {
        above + *psm2.system_call + *psm2.descriptor * packets
    };
    let eager = size <= psm2.eager_limit.as_u64();
    let take = *psm2.matching + if eager { *psm2.receive * packets + cpu.copy(Bytes(payload), Bytes(u64::MAX)) } else { *psm2.grant };
    let sender = if stored {
        rate.time(Bytes((packets + payload.div_ceil(64)) * (64 + slot.part.write_overhead.as_u64())))
    } else {
        tlps(rate, payload, *root.completion_payload, *slot.part.completion_overhead)
    };
    vec![
        Busy { what: "link".into(), span: parts.sole().link.data_rate().time(wire) },
        Busy { what: "PCIe of the sender".into(), span: sender },
        Busy { what: "PCIe of the receiver".into(), span: tlps(rate, payload, *root.max_payload, *slot.part.write_overhead) },
        Busy { what: "NIC's send engine".into(), span: timing::nic(parts).message_interval },
        Busy { what: "core that sends".into(), span: post },
        Busy { what: "core that receives".into(), span: take },
    ]
}

/// Adapters that share a message: long messages over MPI are cut into one piece for each.
fn rails(parts: &ResolvedCluster, size: u64, perftest: bool) -> u64 {
    let striped = |mpi: &&Mpi| mpi.rails == RailPolicy::Stripe && size > mpi.stripe_limit.as_u64();
    let cut = parts.sole().software.mpi.as_ref().filter(|mpi| !perftest && striped(mpi));
    cut.map_or(1, |mpi| u64::from(mpi.rails_of(parts.sole().node.nics).max(1)))
}

fn tlps(rate: Rate, size: u64, chunk: Bytes, overhead: Bytes) -> Span {
    let count = size.div_ceil(chunk.as_u64().max(1));
    rate.time(Bytes(size.saturating_add(count.saturating_mul(overhead.as_u64()))))
}

fn wire(parts: &ResolvedCluster, size: u64) -> Span {
    let layer = parts.link_layer.wire();
    let mtu = parts.mtu.saturating_u32().max(1);
    let (full, rest) = (size / u64::from(mtu), u32::try_from(size % u64::from(mtu)).unwrap_or(0));
    let opcode = Opcode::RC_SEND_MIDDLE;
    let full_bytes = full.saturating_mul(u64::from(layer.wire_bytes(opcode, mtu)));
    let last = if rest > 0 || full == 0 { u64::from(layer.wire_bytes(opcode, rest)) } else { 0 };
    parts.sole().link.data_rate().time(Bytes(full_bytes.saturating_add(last)))
}

/// The table of resources against the time from message to message, and the line that says what binds.
pub fn text(resources: &[Busy], interval: Span) -> String {
    let mut table = Table::new(["busy per message", "time (ns)", "share (%)"]);
    let share = |span: Span| 100.0 * span.as_ps() as f64 / interval.as_ps().max(1) as f64;
    for busy in resources {
        table.push([busy.what.to_string(), nanoseconds(busy.span), format!("{:.1}", share(busy.span))]);
    }
    let bound = resources.iter().max_by_key(|busy| busy.span).map_or_else(String::new, |most| {
        let share = share(most.span);
        if share >= 90.0 {
            format!("bound: the {} is busy {share:.1} % of the time\n", most.what)
        } else {
            format!(
                "bound: nothing is busy all the time (most of all the {}, {share:.1} %): work per message or waiting binds\n",
                most.what
            )
        }
    });
    format!("{table}{bound}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_busy_longest_binds() {
        let busy = |what: &'static str, ns| Busy { what: what.into(), span: Span::from_ns(ns) };
        let text = text(&[busy("link", 95), busy("core", 10)], Span::from_ns(100));
        assert!(text.contains("bound: the link is busy 95.0 % of the time"), "{text}");
        assert!(super::text(&[busy("link", 5)], Span::from_ns(100)).contains("nothing is busy all the time"));
    }

    #[test]
    fn pcie_counts_headers() {
        // 512 B in two TLPs of 256 B with 24 B of headers each: 560 B at 8 Gb/s = 560 ns.
        assert_eq!(tlps(Rate::from_gbps(8), 512, Bytes(256), Bytes(24)), Span::from_ns(560));
    }
}
