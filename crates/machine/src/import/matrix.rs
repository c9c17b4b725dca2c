//! The matrix that `nvidia-smi topo -m` prints: classes of paths between each two devices.
//!
//! ```text
//!         GPU0    GPU1    NIC0    CPU Affinity    NUMA Affinity   GPU NUMA ID
//! GPU0     X      NV18    PIX     0-47            0               N/A
//! GPU1    NV18     X      SYS     48-95           1               N/A
//! NIC0    PIX     SYS      X
//!
//! NIC Legend:
//!   NIC0: mlx5_0
//! ```
//!
//! Source: NVIDIA System Management Interface manual, `topo -m` with its legend.
//! Read: drivers that name adapters in the head, and those with a legend; with or without NUMA columns, underlined or not; with tabs
//! or with blanks, of which copies from a terminal have one where a label fills its column. Only as many cells of a row as there are
//! devices count; the columns behind them vary by driver.
//! Not in such a file: rates, generations, what is between two GPUs that NVLink joins. The graph is the smallest one that has all
//! these classes; the generation of NVLink is the oldest whose GPUs have so many links.

use super::error::{ImportError, Mistake};
use crate::cpu_set::CpuSet;

/// What stands in a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cell {
    /// The device itself.
    Own,
    /// So many NVLinks.
    NvLink(u32),
    /// One switch.
    Pix,
    /// Several switches.
    Pxb,
    /// A host bridge.
    Phb,
    /// Several of one domain.
    Node,
    /// Several domains.
    Sys,
    /// Nothing.
    None,
}

/// A device with its row.
#[derive(Clone, Debug)]
pub(super) struct Row {
    /// `GPU0`, `NIC0` or `mlx5_0`.
    pub(super) label: String,
    pub(super) gpu: bool,
    pub(super) line: u32,
    pub(super) cells: Vec<Cell>,
    pub(super) cpus: CpuSet,
    pub(super) numa: Option<u32>,
}

/// All rows, and what adapters are called.
#[derive(Clone, Debug, Default)]
pub(super) struct Matrix {
    pub(super) rows: Vec<Row>,
    pub(super) names: Vec<(String, String)>,
}

/// Whether a line is the head of a matrix.
pub(super) fn is_head(line: &str) -> bool {
    let plain = without_escapes(line);
    let mut words = plain.split_whitespace();
    // A row begins with its device as well, and goes on with classes.
    let device = words.next().is_some_and(|word| numbered(word, "GPU"));
    let next = words.next();
    let indented = line.starts_with(char::is_whitespace) && next.is_none_or(|word| cell(word).is_none());
    device && (indented || plain.contains("Affinity") || next.is_some_and(|word| numbered(word, "GPU") || numbered(word, "NIC")))
}

/// The rows of the first matrix in the text.
pub(super) fn parse(text: &str) -> Result<Matrix, ImportError> {
    let mut lines = text.lines().enumerate().map(|(index, line)| (index as u32 + 1, without_escapes(line)));
    let (head_line, head) = lines.by_ref().find(|(_, line)| is_head(line)).ok_or(ImportError::Unknown)?;
    let labels = labels(&head);
    if labels.len() > MOST {
        return Err(Mistake::TooMany { what: "devices", most: MOST }.at(head_line));
    }
    for label in &labels {
        if labels.iter().filter(|other| *other == label).count() > 1 {
            return Err(Mistake::Twice { id: label.clone(), before: head_line }.at(head_line));
        }
    }
    let mut matrix = Matrix::default();
    let mut legend = false;
    for (line, text) in lines {
        let first = text.split_whitespace().next().unwrap_or_default();
        if legend || matrix.rows.len() == labels.len() {
            if let Some((label, name)) = text.split_once(": ") {
                matrix.names.push((label.trim().to_owned(), name.trim().to_owned()));
            }
            continue;
        }
        if labels.contains(&first.to_owned()) {
            let label = first.to_owned();
            if let Some(before) = matrix.rows.iter().find(|row| row.label == label) {
                return Err(Mistake::Twice { id: label, before: before.line }.at(line));
            }
            let found = classes(&text, labels.len());
            if found.len() < labels.len() {
                let what = format!("the row of {label} has cells:");
                return Err(Mistake::Short { what, found: found.len(), wanted: labels.len() }.at(line));
            }
            let read = found.iter().map(|text| cell(text).ok_or_else(|| unknown(text).at(line)));
            let read = read.collect::<Result<Vec<Cell>, ImportError>>()?;
            let behind = behind(&text, labels.len());
            let gpu = numbered(&label, "GPU");
            let text = |place: usize| behind.get(place).map(|text| text.trim()).filter(|text| !text.is_empty() && *text != "N/A");
            let cpus = text(0).and_then(CpuSet::of_list).unwrap_or_default();
            let numa = text(1).and_then(|text| text.split([',', '-']).next()?.parse().ok());
            matrix.rows.push(Row { label, gpu, line, cells: read, cpus, numa });
        } else if text.trim_start().starts_with("Legend") || text.trim_start().starts_with("NIC Legend") {
            legend = true;
        }
    }
    if matrix.rows.len() != labels.len() {
        let what = "the matrix has rows:".to_owned();
        return Err(Mistake::Short { what, found: matrix.rows.len(), wanted: labels.len() }.at(head_line));
    }
    // Rows stand in the order of the head.
    matrix.rows.sort_by_key(|row| labels.iter().position(|label| *label == row.label));
    agree(&matrix.rows)?;
    Ok(matrix)
}

/// Both directions of a path have one class.
fn agree(rows: &[Row]) -> Result<(), ImportError> {
    for (i, row) in rows.iter().enumerate() {
        for (j, other) in rows.iter().enumerate().skip(i + 1) {
            let (there, back) = (row.cells[j], other.cells[i]);
            if there != back || there == Cell::Own {
                let [there, back] = [there, back].map(word);
                let mistake =
                    Mistake::Disagree { from: other.label.clone(), to: row.label.clone(), there: back, back: there, before: row.line };
                return Err(mistake.at(other.line));
            }
        }
    }
    Ok(())
}

/// The labels of devices in the head: up to the columns of affinities, `CPU Affinity`, `NUMA Affinity`, `GPU NUMA ID`.
fn labels(head: &str) -> Vec<String> {
    let devices = head.split_whitespace().take_while(|word| !matches!(*word, "CPU" | "NUMA" | "GPU"));
    devices.map(str::to_owned).collect()
}

/// The cells of a row behind its label: words, however they are separated. Columns of affinities follow: they are no classes, and
/// where they are empty nothing is left.
fn classes(row: &str, most: usize) -> Vec<&str> {
    let affinity = |word: &&str| word.starts_with(|c: char| c.is_ascii_digit());
    row.split_whitespace().skip(1).take_while(|word| !affinity(word)).take(most).collect()
}

/// The columns of affinities. Where tabs separate them some may be empty; where a tool has made blanks of these, none is.
fn behind(row: &str, classes: usize) -> Vec<&str> {
    if row.contains('\t') {
        return row.trim_start().split('\t').skip(classes + 1).collect();
    }
    row.split_whitespace().skip(classes + 1).collect()
}

fn cell(text: &str) -> Option<Cell> {
    Some(match text.trim() {
        "X" => Cell::Own,
        "PIX" => Cell::Pix,
        "PXB" => Cell::Pxb,
        "PHB" => Cell::Phb,
        "NODE" => Cell::Node,
        "SYS" | "SOC" => Cell::Sys,
        "N/A" | "DIS" => Cell::None,
        other => Cell::NvLink(other.strip_prefix("NV")?.parse().ok().filter(|links| (1..=MOST_LINKS).contains(links))?),
    })
}

pub(super) fn word(cell: Cell) -> String {
    match cell {
        Cell::Own => "X".to_owned(),
        Cell::NvLink(links) => format!("NV{links}"),
        Cell::Pix => "PIX".to_owned(),
        Cell::Pxb => "PXB".to_owned(),
        Cell::Phb => "PHB".to_owned(),
        Cell::Node => "NODE".to_owned(),
        Cell::Sys => "SYS".to_owned(),
        Cell::None => "N/A".to_owned(),
    }
}

fn unknown(text: &str) -> Mistake {
    Mistake::Value { text: text.trim().to_owned(), what: "class of a path", expected: "use X, NV<n>, PIX, PXB, PHB, NODE or SYS" }
}

fn numbered(word: &str, prefix: &str) -> bool {
    word.strip_prefix(prefix).is_some_and(|rest| !rest.is_empty() && rest.bytes().all(|byte| byte.is_ascii_digit()))
}

/// The line without the escapes that underline the head.
fn without_escapes(line: &str) -> String {
    let mut plain = String::with_capacity(line.len());
    let mut rest = line;
    while let Some(at) = rest.find("\u{1b}[") {
        plain.push_str(&rest[..at]);
        let after = &rest[at + 2..];
        let end = after.find(|c: char| !c.is_ascii_digit() && c != ';').unwrap_or(after.len());
        rest = after.get(end..).unwrap_or_default();
        rest = rest.strip_prefix('m').unwrap_or(rest);
    }
    plain + rest
}

/// Devices of a node at most.
const MOST: usize = 512;
const MOST_LINKS: u32 = 1000;
