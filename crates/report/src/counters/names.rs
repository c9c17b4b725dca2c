//! The names and units under which a counter is read on a real machine.
//!
//! Source: `ports/N/counters` and `ports/N/hw_counters` of InfiniBand devices in Linux (documentation of mlx5, drivers hfi1 and
//! efa); statistics of mlx5 in ethtool; PortStatus of Omni-Path's fabric manager; telemetry of Cassini (HPE, `/sys/class/cxi`);
//! port statistics of the Switch Abstraction Interface; `perfquery` of infiniband-diags; metrics of node_exporter.
//! Modelled: what each of them has a name for, as far as published; docs/counters.md has the table.
//! Not modelled: the ticks of waiting on InfiniBand, which vendors choose (one nanosecond is assumed); counters of Rosetta,
//! which are not published (its ports go by the names of other Ethernet switches).

use fabriscope_engine::Counter;

/// Whose names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dialect {
    /// InfiniBand adapters and switches.
    InfiniBand,
    /// Ethernet with RoCE.
    Roce,
    /// Omni-Path.
    OmniPath,
    /// Amazon's adapters.
    Efa,
    /// Slingshot's Cassini.
    Slingshot,
}

/// What counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum At {
    /// The port of an adapter.
    AdapterPort,
    /// The port of a switch.
    SwitchPort,
    /// What an adapter counts for its queue pairs.
    Adapter,
}

/// The unit of a counter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Things.
    Count,
    /// Bytes.
    Bytes,
    /// Words of four bytes, as InfiniBand counts data.
    Words,
    /// Flits of eight bytes, as Omni-Path counts data.
    Flits,
    /// The time of a flit on the link.
    FlitTimes,
    /// Nanoseconds.
    Nanoseconds,
    /// Microseconds.
    Microseconds,
}

impl Unit {
    /// For the head of a column.
    #[must_use]
    pub const fn symbol(self) -> &'static str {
        match self {
            Unit::Count => "",
            Unit::Bytes => "B",
            Unit::Words => "4 B",
            Unit::Flits => "8 B",
            Unit::FlitTimes => "flits",
            Unit::Nanoseconds => "ns",
            Unit::Microseconds => "us",
        }
    }
    /// Bytes, picoseconds or things in this unit; `rate` in bit/s is that of the link.
    #[must_use]
    pub const fn of(self, raw: u64, rate: u64) -> u64 {
        match self {
            Unit::Count | Unit::Bytes => raw,
            Unit::Words => raw / 4,
            Unit::Flits => raw / 8,
            // A flit carries 64 bits.
            Unit::FlitTimes => (raw as u128 * rate as u128 / 64_000_000_000_000) as u64,
            Unit::Nanoseconds => raw / 1000,
            Unit::Microseconds => raw / 1_000_000,
        }
    }
}

/// One name of a counter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Name {
    /// The name; `#` stands for the priority.
    pub name: &'static str,
    /// Its metric in Prometheus, without `_total`; likewise. Metrics that node_exporter does not have begin with `fabriscope_`.
    pub metric: &'static str,
    /// In which unit.
    pub unit: Unit,
    /// How much of the unit's base each counted thing adds: frames add four bytes of FCS each.
    pub scale: u64,
    /// Files have it; the table does not, because it says the same as another.
    pub doubles: bool,
}

const fn name(name: &'static str, metric: &'static str, unit: Unit) -> Name {
    Name { name, metric, unit, scale: 1, doubles: false }
}

const fn count(text: &'static str, metric: &'static str) -> Name {
    name(text, metric, Unit::Count)
}

/// The same thing under another name, and `scale` bytes for each.
const fn double(text: &'static str, metric: &'static str, unit: Unit, scale: u64) -> Name {
    Name { name: text, metric, unit, scale, doubles: true }
}

/// The names of a counter; none where the machine has none.
#[must_use]
pub fn names(dialect: Dialect, at: At, counter: Counter) -> Vec<Name> {
    match (dialect, at) {
        (Dialect::InfiniBand, At::AdapterPort | At::SwitchPort) => infiniband_port(counter),
        (Dialect::InfiniBand, At::Adapter) => match counter {
            Counter::RcvMarks => vec![count("PortPktRcvFECN", "fabriscope_port_pkt_rcv_fecn")],
            Counter::CnpHandled => vec![count("PortPktRcvBECN", "fabriscope_port_pkt_rcv_becn")],
            other => mlx5(other),
        },
        (Dialect::Roce, At::AdapterPort) => ethtool(counter),
        (Dialect::Roce, At::Adapter) => match counter {
            Counter::RcvMarks => vec![count("np_ecn_marked_roce_packets", "node_infiniband_np_ecn_marked_roce_packets_received")],
            Counter::CnpSent => vec![count("np_cnp_sent", "node_infiniband_np_cnp_packets_sent")],
            Counter::CnpHandled => vec![count("rp_cnp_handled", "node_infiniband_rp_cnp_packets_handled")],
            other => mlx5(other),
        },
        (Dialect::Roce | Dialect::Efa | Dialect::Slingshot, At::SwitchPort) => sai(counter),
        (Dialect::OmniPath, At::AdapterPort | At::SwitchPort) => omni_path_port(counter),
        (Dialect::OmniPath, At::Adapter) => hfi1(counter),
        (Dialect::Efa, At::AdapterPort) => own_port(counter),
        (Dialect::Efa, At::Adapter) => efa(counter),
        (Dialect::Slingshot, At::AdapterPort) => cassini_port(counter),
        (Dialect::Slingshot, At::Adapter) => cassini(counter),
    }
}

fn infiniband_port(counter: Counter) -> Vec<Name> {
    match counter {
        Counter::XmitBytes => vec![name("port_xmit_data", "node_infiniband_port_data_transmitted_bytes", Unit::Words)],
        Counter::RcvBytes => vec![name("port_rcv_data", "node_infiniband_port_data_received_bytes", Unit::Words)],
        Counter::XmitPackets => vec![count("port_xmit_packets", "node_infiniband_port_packets_transmitted")],
        Counter::RcvPackets => vec![count("port_rcv_packets", "node_infiniband_port_packets_received")],
        Counter::XmitWait => vec![name("port_xmit_wait", "node_infiniband_port_transmit_wait", Unit::Nanoseconds)],
        Counter::RcvErrors => vec![count("port_rcv_errors", "node_infiniband_port_errors_received")],
        Counter::LinkDowned => vec![count("link_downed", "node_infiniband_link_downed")],
        Counter::SymbolErrors => vec![count("symbol_error", "node_infiniband_symbol_error")],
        Counter::LinkRecoveries => vec![count("link_error_recovery", "node_infiniband_link_error_recovery")],
        Counter::XmitConstraints => vec![count("port_xmit_constraint_errors", "node_infiniband_port_constraint_errors_transmitted")],
        Counter::RcvConstraints => vec![count("port_rcv_constraint_errors", "node_infiniband_port_constraint_errors_received")],
        Counter::XmitDiscards => vec![count("port_xmit_discards", "node_infiniband_port_discards_transmitted")],
        other => own_port(other),
    }
}

/// `hw_counters` of mlx5.
fn mlx5(counter: Counter) -> Vec<Name> {
    match counter {
        Counter::WriteRequests => vec![count("rx_write_requests", "node_infiniband_rx_write_requests")],
        Counter::ReadRequests => vec![count("rx_read_requests", "node_infiniband_rx_read_requests")],
        Counter::AtomicRequests => vec![count("rx_atomic_requests", "node_infiniband_rx_atomic_requests")],
        Counter::OutOfSequence => vec![count("out_of_sequence", "node_infiniband_out_of_sequence_packets_received")],
        Counter::DuplicateRequest => vec![count("duplicate_request", "node_infiniband_duplicate_requests_packets")],
        Counter::OutOfBuffer => vec![count("out_of_buffer", "node_infiniband_out_of_buffer_drops")],
        Counter::PacketSeqErr => vec![count("packet_seq_err", "node_infiniband_packet_sequence_errors")],
        Counter::ImpliedNakSeqErr => vec![count("implied_nak_seq_err", "node_infiniband_implied_nak_seq_errors")],
        Counter::RnrNakRetryErr => vec![count("rnr_nak_retry_err", "node_infiniband_rnr_nak_retry_packets_received")],
        Counter::RemoteAccessErr => vec![count("req_remote_access_errors", "node_infiniband_req_remote_access_errors")],
        Counter::RemoteInvalidRequest => vec![count("req_remote_invalid_request", "node_infiniband_req_remote_invalid_request_errors")],
        Counter::LocalAckTimeoutErr => vec![count("local_ack_timeout_err", "node_infiniband_local_ack_timeout_errors")],
        Counter::ReqCqeError => vec![count("req_cqe_error", "node_infiniband_req_cqes_errors")],
        Counter::ReqCqeFlushError => vec![count("req_cqe_flush_error", "node_infiniband_req_cqes_flush_errors")],
        Counter::RespCqeError => vec![count("resp_cqe_error", "node_infiniband_resp_cqes_errors")],
        Counter::RespCqeFlushError => vec![count("resp_cqe_flush_error", "node_infiniband_resp_cqes_flush_errors")],
        other => own_adapter(other),
    }
}

/// Port counters and ethtool statistics of mlx5. The latter count bytes with the FCS.
fn ethtool(counter: Counter) -> Vec<Name> {
    const TX_BYTES: (&str, &str) = ("tx_bytes_phy", "node_ethtool_tx_bytes_phy");
    const RX_BYTES: (&str, &str) = ("rx_bytes_phy", "node_ethtool_rx_bytes_phy");
    const TX_BYTES_AT: (&str, &str) = ("tx_prio#_bytes", "node_ethtool_tx_prio#_bytes");
    const RX_BYTES_AT: (&str, &str) = ("rx_prio#_bytes", "node_ethtool_rx_prio#_bytes");
    match counter {
        Counter::XmitBytes => vec![
            name("port_xmit_data", "node_infiniband_port_data_transmitted_bytes", Unit::Words),
            double(TX_BYTES.0, TX_BYTES.1, Unit::Bytes, 1),
        ],
        Counter::RcvBytes => vec![
            name("port_rcv_data", "node_infiniband_port_data_received_bytes", Unit::Words),
            double(RX_BYTES.0, RX_BYTES.1, Unit::Bytes, 1),
        ],
        Counter::XmitPackets => vec![
            count("port_xmit_packets", "node_infiniband_port_packets_transmitted"),
            double("tx_packets_phy", "node_ethtool_tx_packets_phy", Unit::Count, 1),
            double(TX_BYTES.0, TX_BYTES.1, Unit::Bytes, FCS),
        ],
        Counter::RcvPackets => vec![
            count("port_rcv_packets", "node_infiniband_port_packets_received"),
            double("rx_packets_phy", "node_ethtool_rx_packets_phy", Unit::Count, 1),
            double(RX_BYTES.0, RX_BYTES.1, Unit::Bytes, FCS),
        ],
        Counter::XmitBytesAt(_) => vec![double(TX_BYTES_AT.0, TX_BYTES_AT.1, Unit::Bytes, 1)],
        Counter::RcvBytesAt(_) => vec![double(RX_BYTES_AT.0, RX_BYTES_AT.1, Unit::Bytes, 1)],
        Counter::XmitPacketsAt(_) => vec![
            double("tx_prio#_packets", "node_ethtool_tx_prio#_packets", Unit::Count, 1),
            double(TX_BYTES_AT.0, TX_BYTES_AT.1, Unit::Bytes, FCS),
        ],
        Counter::RcvPacketsAt(_) => vec![
            double("rx_prio#_packets", "node_ethtool_rx_prio#_packets", Unit::Count, 1),
            double(RX_BYTES_AT.0, RX_BYTES_AT.1, Unit::Bytes, FCS),
        ],
        Counter::XmitWait => vec![name("port_xmit_wait", "node_infiniband_port_transmit_wait", Unit::Nanoseconds)],
        Counter::RcvErrors => vec![count("rx_crc_errors_phy", "node_ethtool_rx_crc_errors_phy")],
        Counter::RcvDiscards => vec![count("rx_discards_phy", "node_ethtool_rx_discards_phy")],
        Counter::XmitDiscards => vec![count("tx_discards_phy", "node_ethtool_tx_discards_phy")],
        Counter::LinkDowned => vec![count("link_down_events_phy", "node_ethtool_link_down_events_phy")],
        Counter::SymbolErrors => vec![count("rx_symbol_err_phy", "node_ethtool_rx_symbol_err_phy")],
        Counter::TxPause(_) => vec![count("tx_prio#_pause", "node_ethtool_tx_prio#_pause")],
        Counter::RxPause(_) => vec![count("rx_prio#_pause", "node_ethtool_rx_prio#_pause")],
        Counter::TxPauseTime(_) => vec![name("tx_prio#_pause_duration", "node_ethtool_tx_prio#_pause_duration", Unit::Microseconds)],
        Counter::RxPauseTime(_) => vec![name("rx_prio#_pause_duration", "node_ethtool_rx_prio#_pause_duration", Unit::Microseconds)],
        other => own_port(other),
    }
}

/// Switch ports on Ethernet, as SONiC and others read them. Octets include the FCS.
fn sai(counter: Counter) -> Vec<Name> {
    const OUT: (&str, &str) = ("SAI_PORT_STAT_IF_OUT_OCTETS", "fabriscope_sai_if_out_octets_bytes");
    const IN: (&str, &str) = ("SAI_PORT_STAT_IF_IN_OCTETS", "fabriscope_sai_if_in_octets_bytes");
    const fn frames(name: (&'static str, &'static str), scale: u64) -> Name {
        Name { name: name.0, metric: name.1, unit: Unit::Bytes, scale, doubles: false }
    }
    match counter {
        Counter::XmitBytes => vec![frames(OUT, 1)],
        Counter::RcvBytes => vec![frames(IN, 1)],
        Counter::XmitPackets => vec![count("SAI_PORT_STAT_IF_OUT_UCAST_PKTS", "fabriscope_sai_if_out_ucast_pkts"), frames(OUT, FCS)],
        Counter::RcvPackets => vec![count("SAI_PORT_STAT_IF_IN_UCAST_PKTS", "fabriscope_sai_if_in_ucast_pkts"), frames(IN, FCS)],
        Counter::RcvErrors => vec![count("SAI_PORT_STAT_IF_IN_ERRORS", "fabriscope_sai_if_in_errors")],
        Counter::RcvDiscards => vec![count("SAI_PORT_STAT_IF_IN_DISCARDS", "fabriscope_sai_if_in_discards")],
        Counter::XmitDiscards => vec![count("SAI_PORT_STAT_IF_OUT_DISCARDS", "fabriscope_sai_if_out_discards")],
        Counter::Trims => vec![count("SAI_PORT_STAT_TRIM_PACKETS", "fabriscope_sai_trim_packets")],
        Counter::XmitMarks => vec![count("SAI_PORT_STAT_ECN_MARKED_PACKETS", "fabriscope_sai_ecn_marked_packets")],
        Counter::TxPause(_) => vec![count("SAI_PORT_STAT_PFC_#_TX_PKTS", "fabriscope_sai_pfc_#_tx_pkts")],
        Counter::RxPause(_) => vec![count("SAI_PORT_STAT_PFC_#_RX_PKTS", "fabriscope_sai_pfc_#_rx_pkts")],
        Counter::TxPauseTime(_) => {
            vec![name("SAI_PORT_STAT_PFC_#_TX_PAUSE_DURATION_US", "fabriscope_sai_pfc_#_tx_pause_duration_us", Unit::Microseconds)]
        }
        Counter::RxPauseTime(_) => {
            vec![name("SAI_PORT_STAT_PFC_#_RX_PAUSE_DURATION_US", "fabriscope_sai_pfc_#_rx_pause_duration_us", Unit::Microseconds)]
        }
        other => own_port(other),
    }
}

/// PortStatus of Omni-Path.
fn omni_path_port(counter: Counter) -> Vec<Name> {
    match counter {
        Counter::XmitBytes => vec![name("PortXmitData", "fabriscope_opa_port_xmit_data_bytes", Unit::Flits)],
        Counter::RcvBytes => vec![name("PortRcvData", "fabriscope_opa_port_rcv_data_bytes", Unit::Flits)],
        Counter::XmitPackets => vec![count("PortXmitPkts", "fabriscope_opa_port_xmit_pkts")],
        Counter::RcvPackets => vec![count("PortRcvPkts", "fabriscope_opa_port_rcv_pkts")],
        Counter::XmitBytesAt(_) => vec![double("PortVLXmitData[#]", "fabriscope_opa_port_vl#_xmit_data_bytes", Unit::Flits, 1)],
        Counter::RcvBytesAt(_) => vec![double("PortVLRcvData[#]", "fabriscope_opa_port_vl#_rcv_data_bytes", Unit::Flits, 1)],
        Counter::XmitPacketsAt(_) => vec![double("PortVLXmitPkts[#]", "fabriscope_opa_port_vl#_xmit_pkts", Unit::Count, 1)],
        Counter::RcvPacketsAt(_) => vec![double("PortVLRcvPkts[#]", "fabriscope_opa_port_vl#_rcv_pkts", Unit::Count, 1)],
        Counter::XmitWait => vec![name("PortXmitWait", "fabriscope_opa_port_xmit_wait", Unit::FlitTimes)],
        Counter::RcvErrors => vec![count("PortRcvErrors", "fabriscope_opa_port_rcv_errors")],
        Counter::XmitDiscards => vec![count("PortXmitDiscards", "fabriscope_opa_port_xmit_discards")],
        Counter::LinkDowned => vec![count("LinkDowned", "fabriscope_opa_link_downed")],
        Counter::LinkRecoveries => vec![count("LinkErrorRecovery", "fabriscope_opa_link_error_recovery")],
        Counter::XmitConstraints => vec![count("PortXmitConstraintErrors", "fabriscope_opa_port_xmit_constraint_errors")],
        Counter::RcvConstraints => vec![count("PortRcvConstraintErrors", "fabriscope_opa_port_rcv_constraint_errors")],
        Counter::XmitMarks => vec![count("PortMarkFECN", "fabriscope_opa_port_mark_fecn")],
        other => own_port(other),
    }
}

/// What the driver of Omni-Path's adapters counts.
fn hfi1(counter: Counter) -> Vec<Name> {
    match counter {
        Counter::RcvMarks => vec![count("PortRcvFECN", "fabriscope_opa_port_rcv_fecn")],
        Counter::CnpHandled => vec![count("PortRcvBECN", "fabriscope_opa_port_rcv_becn")],
        Counter::Retransmissions => vec![count("RcResend", "fabriscope_hfi1_rc_resend")],
        Counter::PacketSeqErr => vec![count("SeqNak", "fabriscope_hfi1_seq_nak")],
        Counter::ImpliedNakSeqErr => vec![count("RdmaSeq", "fabriscope_hfi1_rdma_seq")],
        Counter::RnrNakRetryErr => vec![count("RnrNak", "fabriscope_hfi1_rnr_nak")],
        Counter::RemoteAccessErr | Counter::RemoteInvalidRequest => vec![count("OtherNak", "fabriscope_hfi1_other_nak")],
        Counter::LocalAckTimeoutErr => vec![count("RcTimeOut", "fabriscope_hfi1_rc_time_out")],
        Counter::DuplicateRequest => vec![count("RcDupRew", "fabriscope_hfi1_rc_dup_rew")],
        other => own_adapter(other),
    }
}

/// `hw_counters` of Amazon's adapters.
fn efa(counter: Counter) -> Vec<Name> {
    match counter {
        Counter::TxPayload => vec![name("tx_bytes", "fabriscope_efa_tx_bytes", Unit::Bytes)],
        Counter::TxPackets => vec![count("tx_pkts", "fabriscope_efa_tx_pkts")],
        Counter::RxPayload => vec![name("rx_bytes", "fabriscope_efa_rx_bytes", Unit::Bytes)],
        Counter::RxPackets => vec![count("rx_pkts", "fabriscope_efa_rx_pkts")],
        Counter::OutOfBuffer => vec![count("rx_drops", "fabriscope_efa_rx_drops")],
        Counter::Retransmissions => vec![count("retrans_pkts", "fabriscope_efa_retrans_pkts")],
        Counter::RetransmittedPayload => vec![name("retrans_bytes", "fabriscope_efa_retrans_bytes", Unit::Bytes)],
        Counter::LocalAckTimeoutErr => vec![count("retrans_timeout_events", "fabriscope_efa_retrans_timeout_events")],
        other => own_adapter(other),
    }
}

/// The link of Cassini. A cycle of its clock is a nanosecond.
fn cassini_port(counter: Counter) -> Vec<Name> {
    const TX: (&str, &str) = ("hni_sts_tx_ok_octets", "fabriscope_cxi_hni_sts_tx_ok_octets_bytes");
    const RX: (&str, &str) = ("hni_sts_rx_ok_octets", "fabriscope_cxi_hni_sts_rx_ok_octets_bytes");
    match counter {
        Counter::XmitBytes => vec![name(TX.0, TX.1, Unit::Bytes)],
        Counter::RcvBytes => vec![name(RX.0, RX.1, Unit::Bytes)],
        Counter::XmitPackets => vec![Name { scale: FCS, ..name(TX.0, TX.1, Unit::Bytes) }],
        Counter::RcvPackets => vec![Name { scale: FCS, ..name(RX.0, RX.1, Unit::Bytes) }],
        Counter::XmitPacketsAt(_) => vec![count("hni_pkts_sent_by_tc_#", "fabriscope_cxi_hni_pkts_sent_by_tc_#")],
        Counter::RcvPacketsAt(_) => vec![count("hni_pkts_recv_by_tc_#", "fabriscope_cxi_hni_pkts_recv_by_tc_#")],
        Counter::TxPauseTime(_) => vec![name("hni_rx_paused_#", "fabriscope_cxi_hni_rx_paused_#", Unit::Nanoseconds)],
        Counter::RxPauseTime(_) => vec![name("hni_tx_paused_#", "fabriscope_cxi_hni_tx_paused_#", Unit::Nanoseconds)],
        other => own_port(other),
    }
}

/// The transport of Cassini.
fn cassini(counter: Counter) -> Vec<Name> {
    match counter {
        Counter::RcvMarks => vec![count("ixe_tc_req_ecn_pkts_0", "fabriscope_cxi_ixe_tc_req_ecn_pkts_0")],
        Counter::Retransmissions => vec![count("pct_retry_srb_requests", "fabriscope_cxi_pct_retry_srb_requests")],
        Counter::LocalAckTimeoutErr => vec![count("pct_spt_timeouts", "fabriscope_cxi_pct_spt_timeouts")],
        other => own_adapter(other),
    }
}

/// What is worth showing of a port although the machine has no name for it.
fn own_port(counter: Counter) -> Vec<Name> {
    match counter {
        Counter::XmitWait => vec![name("xmit_wait", "fabriscope_xmit_wait", Unit::Nanoseconds)],
        Counter::LinkDowned => vec![count("link_downs", "fabriscope_link_downs")],
        Counter::Trims => vec![count("trimmed_packets", "fabriscope_trimmed_packets")],
        Counter::XmitMarks => vec![count("marked_packets", "fabriscope_marked_packets")],
        Counter::RcvErrors => vec![count("rcv_errors", "fabriscope_rcv_errors")],
        Counter::XmitDiscards => vec![count("xmit_discards", "fabriscope_xmit_discards")],
        Counter::RcvDiscards => vec![count("rcv_discards", "fabriscope_rcv_discards")],
        Counter::LinkRecoveries => vec![count("link_recoveries", "fabriscope_link_recoveries")],
        _ => Vec::new(),
    }
}

/// The same of an adapter.
fn own_adapter(counter: Counter) -> Vec<Name> {
    match counter {
        Counter::Retransmissions => vec![count("retransmitted_packets", "fabriscope_retransmitted_packets")],
        _ => Vec::new(),
    }
}

/// Bytes of the FCS that frames end with. Basis: standard.
const FCS: u64 = 4;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_of_the_originals() {
        assert_eq!(Unit::Words.of(4118, 0), 1029);
        assert_eq!(Unit::Flits.of(4118, 0), 514);
        assert_eq!(Unit::Nanoseconds.of(1_234_567, 0), 1234);
        // A flit of 64 bits takes 0.64 ns at 100 Gb/s.
        assert_eq!(Unit::FlitTimes.of(6_400, 100_000_000_000), 10);
        // An hour at 1.6 Tb/s.
        assert_eq!(Unit::FlitTimes.of(3_600_000_000_000_000, 1_600_000_000_000), 90_000_000_000_000);
    }

    /// A counter with a priority has it in its name, and none other has.
    #[test]
    fn priorities_stand_in_names() {
        let dialects = [Dialect::InfiniBand, Dialect::Roce, Dialect::OmniPath, Dialect::Efa, Dialect::Slingshot];
        let with = [Counter::TxPause(3), Counter::RxPause(3), Counter::TxPauseTime(3), Counter::XmitPacketsAt(3), Counter::RcvBytesAt(3)];
        let without = [Counter::XmitBytes, Counter::XmitPackets, Counter::RcvMarks, Counter::OutOfSequence, Counter::Trims];
        for dialect in dialects {
            for at in [At::AdapterPort, At::SwitchPort, At::Adapter] {
                for (counters, has) in [(with, true), (without, false)] {
                    for name in counters.iter().flat_map(|counter| names(dialect, at, *counter)) {
                        assert_eq!((name.name.contains('#'), name.metric.contains('#')), (has, has), "{}", name.name);
                    }
                }
            }
        }
    }
}
