//! Writes AICB workloads (physical): the collectives and messages of the first rank of a trace, in the order of its records.
//!
//! Source: as [`aicb`](super::aicb); names of groups: aliyun/aicb, `utils/utils.py` (`CommGroup`).
//! Not written: computation, which the format has without a unit of time; what records wait for; fields of measurements.

use std::fmt::Write as _;

use fabriscope_units::Bytes;

use crate::{Kind, Trace};

use super::simai::WriteError;

/// The text of an AICB workload from the first rank of a trace. What one call repeats at once is a row with its count.
///
/// # Errors
/// A trace without records, messages of anybody.
pub fn write(trace: &Trace) -> Result<String, WriteError> {
    let of = trace.ranks.first().filter(|of| !of.records.is_empty()).ok_or(WriteError::Empty)?;
    let mut rows: Vec<(String, u64)> = Vec::new();
    for record in &of.records {
        let (word, bytes, group, ends) = match &record.kind {
            Kind::Compute | Kind::Wait => continue,
            Kind::Collective(collective) => {
                let root = collective.root.map_or_else(|| "None".to_owned(), |root| root.to_string());
                (collective.operation.name(), collective.bytes, collective.group, ["None".to_owned(), root])
            }
            Kind::Send(message) | Kind::Recv(message) => {
                let peer = message.peer.map(|peer| peer.to_string()).ok_or_else(|| WriteError::NoForm {
                    rank: of.rank,
                    id: record.id.0,
                    what: "a message of anybody".to_owned(),
                })?;
                let sends = matches!(record.kind, Kind::Send(_));
                let ends = if sends { [peer, "None".to_owned()] } else { ["None".to_owned(), peer] };
                (if sends { "isend" } else { "irecv" }, Some(message.bytes), message.group, ends)
            }
        };
        let known = group.and_then(|id| trace.groups.get(id));
        let size = known.and_then(|group| group.size).unwrap_or(trace.world);
        let name = match known.map(|group| group.name.as_str()) {
            Some("TP") => "tp_group",
            Some("DP") => "dp_group",
            Some("EP") => "ep_group",
            Some("DP_EP") => "ep_dp_group",
            Some("CP") => "cp_group",
            None if matches!(record.kind, Kind::Collective(_)) => "all",
            None | Some("PP") => "pp_group",
            Some(other) => other,
        };
        let [to, from] = ends;
        let stage: String = record.name.chars().map(|letter| if letter == ',' || letter == '"' { ' ' } else { letter }).collect();
        let bytes = bytes.unwrap_or(Bytes::ZERO).0;
        let row = format!("CommType.{word},CommGroup.{name},{size},{bytes},{stage},{to},{from},,None,None,None");
        match rows.last_mut() {
            Some((last, count)) if *last == row => *count += 1,
            _ => rows.push((row, 1)),
        }
    }
    let mut text = format!("[rank0 ~ rank{}]\n{HEAD}\n", trace.world.saturating_sub(1));
    for (row, count) in rows {
        writeln!(text, "{row},{count}").expect("text takes all that is written");
    }
    Ok(text)
}

const HEAD: &str = "comm_type,comm_group,comm_group_size,msg_size,stage,dst,src,additional,_elapsed_time,algbw,busbw,count";
