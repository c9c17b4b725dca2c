//! NVLink in XML of hwloc: matrices of bandwidth between devices.
//!
//! ```text
//! <distances2 nbobjs="2" type="OSDev" indexing="gp" kind="…" name="NVLinkBandwidth">
//!   <indexes length="5">30 34 </indexes>
//!   <u64values length="30">1000000 100000 100000 1000000 </u64values>
//! </distances2>
//! ```
//!
//! Source: hwloc, "Distances": `NVLinkBandwidth` in MB/s between GPUs, NVSwitches and POWER processors; `distances2hetero` where the
//! objects are of several types, with indexes such as `OSDev:30`.

use std::collections::BTreeMap;

use fabriscope_units::Rate;

use super::assembly::Draft;
use super::element::Element;
use super::error::{ImportError, Mistake};
use super::hwloc_devices::Devices;
use crate::vertex::{Vertex, VertexId, VertexKind};

/// Adds the NVLinks of all matrices.
pub(super) fn nvlinks(draft: &mut Draft<'_>, topology: Element<'_>, devices: &Devices<'_>) -> Result<(), ImportError> {
    let mut between: BTreeMap<[VertexId; 2], u64> = BTreeMap::new();
    let mut switched: BTreeMap<VertexId, u64> = BTreeMap::new();
    let mut first_line = None;
    let blocks = topology.below().filter(|element| element.name().starts_with("distances2"));
    for block in blocks.filter(|block| block.says("name") == Some("NVLinkBandwidth")) {
        let (indexes, values) = (words(block, "indexes")?, words(block, "u64values")?);
        let ends: Vec<Option<VertexId>> = indexes.iter().map(|index| devices.by_index.get(index).copied()).collect();
        if values.len() != indexes.len() * indexes.len() {
            let what = "the matrix of NVLinkBandwidth has values:".to_owned();
            return Err(block.wrong(Mistake::Short { what, found: values.len(), wanted: indexes.len() * indexes.len() }));
        }
        first_line.get_or_insert(block.line());
        for (place, megabytes) in values.iter().enumerate() {
            let (from, to) = (ends[place / indexes.len()], ends[place % indexes.len()]);
            let (Some(from), Some(to)) = (from, to) else { continue };
            if from == to || *megabytes == 0 {
                continue;
            }
            let kinds = [from, to].map(|id| draft.vertex_mut(id).kind);
            match kinds {
                [VertexKind::Gpu, VertexKind::Gpu] => {
                    let rate = between.entry([from.min(to), from.max(to)]).or_default();
                    *rate = (*rate).max(*megabytes);
                }
                // NVSwitches are PCI devices to hwloc; all of them are one switch here, as for NCCL.
                [VertexKind::Gpu, VertexKind::Device] => *switched.entry(from).or_default() += megabytes,
                _ => {}
            }
        }
    }
    let rate = |megabytes: u64| Rate::from_bps(megabytes.saturating_mul(8_000_000));
    let of_gpu = |gpu: VertexId| {
        let pairs = between.iter().filter(|(pair, _)| pair.contains(&gpu)).map(|(_, megabytes)| *megabytes).fold(0, u64::saturating_add);
        rate(pairs.saturating_add(switched.get(&gpu).copied().unwrap_or(0)))
    };
    let join = |draft: &mut Draft<'_>, gpu: VertexId, to: VertexId, megabytes: u64| {
        let rates = draft.rates;
        let ability = draft.vertex_mut(gpu).identity.compute_capability;
        let nvlink = ability.map_or_else(|| rates.nvlink_of_rate(of_gpu(gpu)), |sm| rates.nvlink_of_gpu(sm));
        let each = nvlink.map_or(0, |nvlink| nvlink.raw.as_bps()).max(1);
        let links = (rate(megabytes).as_bps().saturating_add(each / 2) / each).clamp(1, MOST_LINKS);
        draft.nvlink(gpu, to, nvlink, links as u32);
    };
    for ([a, b], megabytes) in &between {
        join(draft, *a, *b, *megabytes);
    }
    if !switched.is_empty() {
        let switch = draft.add(Vertex::new(VertexKind::ScaleUpSwitch, "nvswitch"), first_line.unwrap_or(1))?;
        for (gpu, megabytes) in &switched {
            join(draft, *gpu, switch, *megabytes);
        }
    }
    Ok(())
}

/// The numbers in elements of one name; of `OSDev:30` that behind the colon.
fn words(block: Element<'_>, name: &'static str) -> Result<Vec<u64>, ImportError> {
    let mut numbers = Vec::new();
    for element in block.children().filter(|child| child.name() == name) {
        for word in element.text().split_whitespace() {
            let digits = word.rsplit(':').next().unwrap_or(word);
            let number = digits
                .parse()
                .map_err(|_| element.wrong(Mistake::Value { text: word.to_owned(), what: "whole number", expected: "use digits" }))?;
            numbers.push(number);
        }
    }
    if numbers.len() > MOST_VALUES {
        return Err(block.wrong(Mistake::TooMany { what: "values of a matrix", most: MOST_VALUES }));
    }
    Ok(numbers)
}

const MOST_VALUES: usize = 1 << 20;
const MOST_LINKS: u64 = 1000;
