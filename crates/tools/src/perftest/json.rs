//! The file that perftest writes with `--out_json`.
//!
//! Source: perftest 6.29 (format: docs/formats.md). One measurement per file: with `-a` the last size, as the tool overwrites it.

use super::header::{self, link_name};
use super::report::{Row, bandwidth_value, needs_digits};
use super::settings::{Settings, Verbosity};
use super::test::Kind;

/// The whole file.
pub(crate) fn file(s: &Settings, row: &Row) -> String {
    format!("{{\n\"test_info\": {{\n{}\n}},\n\"results\": {{\n{}\n}}\n}}\n", test_info(s).join(",\n"), results(s, row).join(",\n"))
}

fn test_info(s: &Settings) -> Vec<String> {
    let text = |key: &str, value: &str| format!("{}: {}", quoted(key), quoted(value));
    let number = |key: &str, value: u32| format!("{}: {value}", quoted(key));
    let mut fields = vec![
        text("test", &header::title(s, '_')),
        text("Dual_port", "OFF"),
        text("Device", &s.device),
        number("Number_of_qps", s.qps),
        text("Transport_type", if s.iwarp { "IW" } else { "IB" }),
        text("Connection_type", s.connection.name()),
        text("Using_SRQ", "OFF"),
        text("PCIe_relax_order", "ON"),
        text("ibv_wr_API", if s.old_post_send { "OFF" } else { "ON" }),
        number("TX_depth", s.tx_depth),
    ];
    if s.post_list > 1 {
        fields.push(number("Post_List", s.post_list));
    }
    if s.receives() && s.bidirectional {
        fields.push(number("RX_depth", s.rx_depth));
    }
    if s.test.kind == Kind::Bandwidth {
        fields.push(number("CQ_Moderation", s.cq_mod));
    }
    fields.extend([number("Mtu", s.mtu), text("Link_type", link_name(s.link))]);
    if let Some(index) = s.gid_index {
        fields.push(number("GID_index", index));
    }
    if s.test.is_one_sided_round_trip() {
        fields.push(number("Outstand_reads", s.outs.into()));
    } else {
        fields.push(number("Max_inline_data", s.inline_size));
    }
    let (rdma_cm, method) = if s.rdma_cm { ("ON", "rdma_cm") } else { ("OFF", "Ethernet") };
    fields.extend([text("rdma_cm_QPs", rdma_cm), text("Data_ex_method", method)]);
    fields
}

fn results(s: &Settings, row: &Row) -> Vec<String> {
    match row {
        Row::Bandwidth(row) => {
            let digits = if needs_digits(s, row.average) { 6 } else { 2 };
            let (peak, average) = (bandwidth_value(s, row.peak), bandwidth_value(s, row.average));
            match s.verbosity {
                Verbosity::Bandwidth => vec![format!("\"bw_avg\": {average:.6}")],
                Verbosity::MessageRate => vec![format!("\"msgRate_avg\": {:.6}", row.message_rate)],
                _ => vec![
                    format!("\"MsgSize\": {}", row.size),
                    format!("\"n_iterations\": {}", row.iterations),
                    format!("\"BW_peak\": {peak:.digits$}"),
                    format!("\"BW_average\": {average:.digits$}"),
                    format!("\"MsgRate\": {:.6}", row.message_rate),
                ],
            }
        }
        Row::Latency(row) if s.verbosity == Verbosity::Latency => vec![format!("\"avg_lat\": {:.6}", row.average)],
        Row::Latency(row) => vec![
            format!("\"MsgSize\": {}", row.size),
            format!("\"n_iterations\": {}", row.iterations),
            format!("\"t_min\": {:.2}", row.min),
            format!("\"t_max\": {:.2}", row.max),
            format!("\"t_typical\": {:.2}", row.typical),
            format!("\"t_avg\": {:.2}", row.average),
            format!("\"t_stdev\": {:.2}", row.deviation),
            format!("\"percentile_99\": {:.2}", row.percentile_99),
            format!("\"percentile_99.9\": {:.2}", row.percentile_99_9),
        ],
        Row::LatencyDuration(row) => vec![
            format!("\"MsgSize\": {}", row.size),
            format!("\"n_iterations\": {}", row.iterations),
            format!("\"t_avg\": {:.2}", row.average),
            format!("\"tps_average\": {:.2}", row.per_second),
        ],
    }
}

/// A JSON string; a device name may hold anything.
fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            c if u32::from(c) < 0x20 => quoted.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}
