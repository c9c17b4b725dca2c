//! From a matrix of classes to the smallest machine that has them.
//!
//! Devices of one class or nearer form groups, and the groups of a nearer class lie within those of a farther one: switches
//! (PIX), switches of switches (PXB), host bridges (PHB), NUMA domains (NODE). NVLink says nothing of where two GPUs are; where
//! nothing else does, the affinities place them.

use std::collections::BTreeMap;

use super::assembly::Draft;
use super::error::{ImportError, Mistake};
use super::matrix::{Cell, Matrix, Row, word};
use super::rates::Rates;
use super::{Format, NodeFile};
use crate::export;
use crate::identity::{Identity, Port};
use crate::vertex::{Vertex, VertexId, VertexKind};

/// The machine of a matrix.
pub(super) fn build(matrix: &Matrix, rates: &Rates) -> Result<NodeFile, ImportError> {
    let rows = &matrix.rows;
    if let Some(gpu) = rows.iter().find(|row| row.gpu && rows.iter().any(|other| !other.gpu) && cut_off(row, rows)) {
        return Err(Mistake::NoWay { gpu: gpu.label.clone() }.at(gpu.line));
    }
    let mut draft = Draft::new(rates);
    let levels = [[Cell::Pix].as_slice(), &[Cell::Pix, Cell::Pxb], &[Cell::Pix, Cell::Pxb, Cell::Phb]];
    let [switches, trees, bridges] = levels.map(|classes| groups(rows, classes, false));
    let domains = groups(rows, &[Cell::Pix, Cell::Pxb, Cell::Phb, Cell::Node], true);
    let mut at = vec![VertexId(0); rows.len()];
    for (number, domain) in distinct(&domains).into_iter().enumerate() {
        let members: Vec<usize> = (0..rows.len()).filter(|row| domains[*row] == domain).collect();
        let vertex = domain_vertex(&members, rows, number as u32);
        let line = rows[members[0]].line;
        let numa = draft.domain(vertex, line)?;
        for bridge in within(&bridges, &members) {
            let below: Vec<usize> = members.iter().copied().filter(|row| bridges[*row] == bridge).collect();
            let bridge = draft.bridge(&[numa], line)?;
            for tree in within(&trees, &below) {
                let below: Vec<usize> = below.iter().copied().filter(|row| trees[*row] == tree).collect();
                let inner = within(&switches, &below);
                let top = if inner.len() > 1 { switch(&mut draft, bridge, line)? } else { bridge };
                for group in inner {
                    let below: Vec<usize> = below.iter().copied().filter(|row| switches[*row] == group).collect();
                    let above = if below.len() > 1 || top != bridge { switch(&mut draft, top, line)? } else { top };
                    for row in below {
                        at[row] = device(&mut draft, &rows[row], matrix, rows)?;
                        draft.slot(above, at[row], 0, 0);
                    }
                }
            }
        }
    }
    nvlinks(&mut draft, rows, &at)?;
    draft.notes.push("no rates in such a file: PCI Express is taken as NCCL takes it where it knows nothing".to_owned());
    let file = draft.finish(Format::NvidiaSmi, String::new())?;
    Ok(NodeFile { notes: contradictions(&file, rows, &at), ..file })
}

/// Whether no class leads from a GPU to any adapter.
fn cut_off(row: &Row, rows: &[Row]) -> bool {
    rows.iter().zip(&row.cells).all(|(other, cell)| other.gpu || *cell == Cell::None)
}

/// For each row the smallest row that it is joined to by `classes`; with `affinities` those of one NUMA domain as well.
fn groups(rows: &[Row], classes: &[Cell], affinities: bool) -> Vec<usize> {
    let mut group: Vec<usize> = (0..rows.len()).collect();
    let near = |a: usize, b: usize| {
        classes.contains(&rows[a].cells[b])
            || affinities
                && matches!(rows[a].cells[b], Cell::NvLink(_))
                && (!rows[a].cpus.is_empty() || rows[a].numa.is_some())
                && (&rows[a].cpus, rows[a].numa) == (&rows[b].cpus, rows[b].numa)
    };
    for a in 0..rows.len() {
        for b in a + 1..rows.len() {
            if near(a, b) && group[a] != group[b] {
                let (keep, gone) = (group[a].min(group[b]), group[a].max(group[b]));
                group.iter_mut().filter(|of| **of == gone).for_each(|of| *of = keep);
            }
        }
    }
    group
}

fn distinct(groups: &[usize]) -> Vec<usize> {
    within(groups, &(0..groups.len()).collect::<Vec<_>>())
}

/// The groups that `members` are in.
fn within(groups: &[usize], members: &[usize]) -> Vec<usize> {
    let mut found: Vec<usize> = members.iter().map(|row| groups[*row]).collect();
    found.sort_unstable();
    found.dedup();
    found
}

/// A NUMA domain, with what the rows of its devices say of it.
fn domain_vertex(members: &[usize], rows: &[Row], number: u32) -> Vertex {
    let known = members.iter().find_map(|row| rows[*row].numa);
    let taken = |wanted: u32| rows.iter().enumerate().any(|(row, other)| !members.contains(&row) && other.numa == Some(wanted));
    let free = (number..).find(|free| known.is_some() || !taken(*free)).unwrap_or(number);
    let cpus = members.iter().map(|row| &rows[*row].cpus).find(|cpus| !cpus.is_empty()).cloned().unwrap_or_default();
    let identity = Identity { number: known, cpus, ..Identity::default() };
    // Two groups of one domain are two to the matrix: it has SYS between them.
    let clash = known.is_some_and(|known| {
        rows.iter().enumerate().any(|(row, other)| row < members[0] && !members.contains(&row) && other.numa == Some(known))
    });
    let name = match known {
        Some(known) if clash => format!("numa{known} of {}", rows[members[0]].label),
        Some(known) => format!("numa{known}"),
        None => format!("numa{free}"),
    };
    Vertex { identity, ..Vertex::new(VertexKind::Numa { package: number }, name) }
}

fn switch(draft: &mut Draft<'_>, above: VertexId, line: u32) -> Result<VertexId, ImportError> {
    let name = draft.next_switch();
    let switch = draft.add(Vertex::new(VertexKind::PcieSwitch, name), line)?;
    draft.slot(above, switch, 0, 0);
    Ok(switch)
}

fn device(draft: &mut Draft<'_>, row: &Row, matrix: &Matrix, rows: &[Row]) -> Result<VertexId, ImportError> {
    let number = row.label.trim_start_matches(|c: char| !c.is_ascii_digit()).parse().ok();
    if row.gpu {
        let identity = Identity { number, cpus: row.cpus.clone(), ..Identity::default() };
        return draft.gpu(Vertex { identity, ..Vertex::new(VertexKind::Gpu, row.label.to_lowercase()) }, row.line);
    }
    let legend = matrix.names.iter().find(|(label, _)| *label == row.label).map(|(_, name)| name.as_str());
    let unique =
        |name: &str| matrix.names.iter().filter(|(_, other)| other == name).count() < 2 && rows.iter().all(|row| row.label != name);
    let name = legend.filter(|name| !name.is_empty() && unique(name)).unwrap_or(&row.label).to_owned();
    let ports = vec![Port { name: name.clone(), ..Port::default() }];
    let identity = Identity { ports, ..Identity::default() };
    draft.add(Vertex { identity, ..Vertex::new(VertexKind::Nic, name) }, row.line)
}

/// NVLinks: through a switch where each GPU has more to its peers than any GPU has in all, else between each two.
fn nvlinks(draft: &mut Draft<'_>, rows: &[Row], at: &[VertexId]) -> Result<(), ImportError> {
    let links = |a: usize, b: usize| if let Cell::NvLink(links) = rows[a].cells[b] { links } else { 0 };
    let to_all = |a: usize| (0..rows.len()).fold(0u32, |sum, b| sum.saturating_add(links(a, b)));
    let Some(most) = (0..rows.len()).map(to_all).max().filter(|most| *most > 0) else { return Ok(()) };
    let rates = draft.rates;
    let largest = rates.nvlink.iter().map(|nvlink| nvlink.links).max().unwrap_or(most);
    if most <= largest {
        let nvlink = rates.nvlink_of_links(most);
        for a in 0..rows.len() {
            for b in (a + 1..rows.len()).filter(|b| links(a, *b) > 0) {
                draft.nvlink(at[a], at[b], nvlink, links(a, b));
            }
        }
        return Ok(());
    }
    // Each class of GPUs that see each other with the same number of links has its switch.
    let mut switches: BTreeMap<u32, VertexId> = BTreeMap::new();
    for a in 0..rows.len() {
        let Some(count) = (0..rows.len()).map(|b| links(a, b)).max().filter(|count| *count > 0) else { continue };
        let next = format!("nvswitch{}", if switches.is_empty() { String::new() } else { switches.len().to_string() });
        let switch = match switches.get(&count) {
            Some(switch) => *switch,
            None => draft.add(Vertex::new(VertexKind::ScaleUpSwitch, next), rows[a].line)?,
        };
        switches.insert(count, switch);
        draft.nvlink(at[a], switch, rates.nvlink_of_links(count), count);
    }
    Ok(())
}

/// The notes of the file, and cells that the machine cannot have beside the others.
fn contradictions(file: &NodeFile, rows: &[Row], at: &[VertexId]) -> Vec<String> {
    let mut notes = file.notes.clone();
    for (a, row) in rows.iter().enumerate() {
        for (b, other) in rows.iter().enumerate().skip(a + 1) {
            let (said, found) = (word(row.cells[b]), export::cell(&file.machine, at[a], at[b]));
            if said != found {
                notes.push(format!(
                    "line {}: {said} from {} to {} does not go with the other classes: {found} here",
                    row.line, row.label, other.label
                ));
            }
        }
    }
    notes
}
