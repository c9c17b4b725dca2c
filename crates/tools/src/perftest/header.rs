//! The part of a perftest report above its table.
//!
//! Source: perftest 6.29 (format: docs/formats.md), byte for byte.

use std::fmt::Write;

use fabriscope_platform::LinkType;

use super::settings::{AtomicType, Settings};
use super::test::{Kind, Verb};

/// What one end tells the other about one queue pair, as far as the report shows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Address {
    /// LID; 0 on Ethernet.
    pub lid: u32,
    /// Queue pair number.
    pub qpn: u32,
    /// First packet sequence number.
    pub psn: u32,
    /// Remote key of the buffer.
    pub rkey: u32,
    /// Address of the buffer.
    pub vaddr: u64,
    /// GID; printed on Ethernet.
    pub gid: [u8; 16],
}

/// The line that separates the parts of a report.
pub(crate) const LINE: &str = "---------------------------------------------------------------------------------------\n";

/// Title and settings, between two lines.
pub(crate) fn header(s: &Settings) -> String {
    let mut text = format!("{LINE}                    {}\n", title(s, ' '));
    let on = |yes: bool| if yes { "ON" } else { "OFF" };
    let mut line = |arguments: std::fmt::Arguments<'_>| {
        let _ = writeln!(text, " {arguments}");
    };
    line(format_args!("Dual-port       : OFF\t\tDevice         : {}", s.device));
    line(format_args!("Number of qps   : {}\t\tTransport type : {}", s.qps, if s.iwarp { "IW" } else { "IB" }));
    let srq = on(s.shares_receives());
    let connection = if s.test.verb == Verb::Raw { "RawEth" } else { s.connection.name() };
    line(format_args!("Connection type : {connection}\t\tUsing SRQ      : {srq}"));
    line(format_args!("PCIe relax order: ON\t\tLock-free      : OFF"));
    line(format_args!("ibv_wr* API     : {}\t\tUsing Enhanced Reorder      : OFF", on(!s.old_post_send)));
    line(format_args!("TX depth        : {}", s.tx_depth));
    if s.post_list > 1 {
        line(format_args!("Post List       : {}", s.post_list));
    }
    if s.receives() && s.bidirectional {
        line(format_args!("RX depth        : {}", s.rx_depth));
    }
    if s.test.kind == Kind::Bandwidth {
        line(format_args!("CQ Moderation   : {}", s.cq_mod));
        line(format_args!("CQE Poll Batch  : {POLL_BATCH}"));
    }
    line(format_args!("Mtu             : {}[B]", s.mtu));
    line(format_args!("Link type       : {}", link_name(s.link)));
    if let Some(index) = s.gid_index {
        line(format_args!("GID index       : {index}"));
    }
    if s.test.is_one_sided_round_trip() {
        line(format_args!("Outstand reads  : {}", s.outs));
    } else {
        line(format_args!("Max inline data : {}[B]", s.inline_size));
    }
    line(format_args!("rdma_cm QPs\t : {}", on(s.rdma_cm)));
    line(format_args!("Data ex. method : {}", if s.rdma_cm { "rdma_cm" } else { "Ethernet" }));
    text + LINE
}

/// `RDMA_Write BW Test`, its words joined by `gap`.
pub(crate) fn title(s: &Settings, gap: char) -> String {
    let mut words = vec![s.test.title()];
    if s.test.verb == Verb::Atomic {
        words.push(atomic_name(s.atomic));
    }
    if s.test.kind == Kind::Latency {
        words.push("Latency");
    } else {
        if s.bidirectional {
            words.push("Bidirectional");
        }
        if s.post_list > 1 {
            words.extend(["Post", "List"]);
        }
        words.push("BW");
    }
    words.push("Test");
    words.join(&gap.to_string())
}

/// The lines of both ends' queue pairs.
pub(crate) fn addresses(s: &Settings, local: &[Address], remote: &[Address]) -> String {
    if s.test.verb == Verb::Raw {
        return frames(s);
    }
    let mut text = String::new();
    for (side, ends) in [("local", local), ("remote", remote)] {
        for end in ends {
            let (lid, qpn, psn) = (hex(end.lid.into(), 2), hex(end.qpn.into(), 4), hex(end.psn.into(), 4));
            let _ = write!(text, " {side} address: LID {lid} QPN {qpn} PSN {psn}");
            if s.test.verb == Verb::Read {
                let _ = write!(text, " OUT {}", hex(s.outs.into(), 2));
            }
            if matches!(s.test.verb, Verb::Read | Verb::Write) {
                let _ = write!(text, " RKey {} VAddr {}", hex(end.rkey.into(), 6), hex(end.vaddr, 14));
            }
            text.push('\n');
            if s.multicast {
                let _ = writeln!(text, " MGID: {MGID}");
            } else if s.gid_index.is_some() {
                let bytes: Vec<String> = end.gid.iter().map(|byte| format!("{byte:02}")).collect();
                let _ = writeln!(text, " GID: {}", bytes.join(":"));
            }
        }
    }
    text
}

/// What the client shows of its frames, as the tool's own table has it.
fn frames(s: &Settings) -> String {
    let shown = |mac: &str, usual: &str| format!(" {:<17}", if mac.is_empty() { usual } else { mac });
    let rule = "|------------------------------------------------------------|\n";
    format!(
        "**raw ethernet header****************************************\n\n{}\n| Dest MAC         | Src MAC          | Packet Type          |\n{rule}|{}|{}|{:<22}|\n{rule}\n",
        "-".repeat(62),
        shown(&s.macs[0], "02:00:00:00:00:02"),
        shown(&s.macs[1], "02:00:00:00:00:01"),
        "DEFAULT"
    )
}

/// The group of `-g`: the tool's own. Basis: the tool.
pub(crate) const GROUP: [u8; 16] = [255, 1, 0, 0, 0, 2, 201, 133, 0, 0, 0, 0, 0, 0, 0, 0];
const MGID: &str = "255:01:00:00:00:02:201:133:00:00:00:00:00:00:00:00";

/// `%#0…x` of C: at least `digits` digits behind `0x`; zero is all zeros without the prefix.
fn hex(value: u64, digits: usize) -> String {
    let width = digits + 2;
    if value == 0 { format!("{value:0width$}") } else { format!("{value:#0width$x}") }
}

pub(crate) fn atomic_name(atomic: AtomicType) -> &'static str {
    match atomic {
        AtomicType::FetchAndAdd => "FETCH_AND_ADD",
        AtomicType::CompareAndSwap => "CMP_AND_SWAP",
    }
}

pub(crate) fn link_name(link: LinkType) -> &'static str {
    match link {
        LinkType::InfiniBand => "IB",
        LinkType::Ethernet => "Ethernet",
    }
}

/// Completions taken per poll (basis: the tool).
pub(crate) const POLL_BATCH: usize = 16;
