//! The OSU benchmarks: of MPI, OpenSHMEM and NCCL, releases 3 to 7.
//!
//! Source: OMB 7.4 and the forms of older releases (docs/formats.md). The title names the benchmark, the last line with `#` above the rows the
//! columns. Fields are apart by blanks, or by commas and semicolons where a script made CSV of it.
//! Not read: graphs (`-G`); lines of derived data types.

use super::columns::{self, Column};
use super::launch::Launch;
use super::line::Line;
use super::rows::{Position, Rows, Sheet, Value, number};
use super::{Format, Run};

/// The suite.
pub(super) struct Omb;

impl Format for Omb {
    fn begins(&self, line: &Line<'_>, rows: &mut Rows<'_>) -> Option<Box<dyn Run>> {
        let title = line.text.trim_start().strip_prefix('#')?.trim_start().strip_prefix("OSU ")?;
        let (title, release) = match title.rsplit_once(" v") {
            Some((title, release)) if release.starts_with(|c: char| c.is_ascii_digit()) => (title, format!("OMB {release}")),
            _ => (title, "OMB".to_owned()),
        };
        // What is no title says something else of the run.
        let lower = title.to_ascii_lowercase();
        if !(lower.contains("test") || lower.contains("latency") || lower.contains("bandwidth")) {
            return None;
        }
        let (title, accelerator) = without_accelerator(title);
        let name = name_of(&title);
        let mut sheet = Sheet { release, ..Sheet::of(name.clone()) };
        let launch = rows.launched(|tool| tool == name || alike(tool, &name)).unwrap_or_default();
        if !launch.tool.is_empty() {
            // Some benchmarks share a title; the command tells them apart.
            sheet.benchmark.clone_from(&launch.tool);
        }
        (sheet.nodes, sheet.ranks) = (launch.nodes, launch.ranks);
        Some(Box::new(Output {
            sheet,
            launch,
            accelerator,
            begin: Position::from(line),
            columns: Vec::new(),
            separator: None,
            buffers: None,
        }))
    }
}

/// One benchmark's output.
struct Output {
    sheet: Sheet,
    launch: Launch,
    accelerator: Option<String>,
    begin: Position,
    columns: Vec<Column>,
    separator: Option<char>,
    /// Where the buffers are, as the output says.
    buffers: Option<String>,
}

impl Run for Output {
    fn line(&mut self, line: &Line<'_>, rows: &mut Rows<'_>) {
        let text = line.text.trim_start();
        if let Some(remark) = text.strip_prefix('#') {
            return self.remark(remark.trim());
        }
        if self.columns.is_empty() {
            // A head without its `#`, as scripts write it.
            if text.starts_with("Size") {
                self.head(text);
            }
            return;
        }
        let fields = columns::fields(text, self.separator);
        let Some(first) = fields.first() else { return };
        let by_operation = matches!(self.columns[0], Column::Other);
        let sized = matches!(self.columns[0], Column::Size);
        let begins = if by_operation { first.starts_with("shmem_") } else { number(first).is_some() || (!sized && is_spoiled(first)) };
        if !begins {
            return;
        }
        if fields.len() != self.columns.len() {
            // Words behind a number are somebody else's.
            if fields[1..].iter().all(|field| number(field).is_some() || is_spoiled(field)) {
                let problem = format!("this row has {} fields, the head has {}", fields.len(), self.columns.len());
                rows.fault(&mut self.sheet, line.into(), problem, "copy the whole line".to_owned());
            }
            return;
        }
        self.row(&fields, line.into(), rows);
    }

    fn end(&mut self, rows: &mut Rows<'_>) {
        rows.none_of(&mut self.sheet, self.begin);
    }
}

impl Output {
    /// A line with `#` in front of the rows.
    fn remark(&mut self, remark: &str) {
        if let Some(rest) = remark.strip_prefix("[ pairs:") {
            let mut counts = rest.split(|c: char| !c.is_ascii_digit()).filter_map(|word| word.parse::<u32>().ok());
            if let Some(pairs) = counts.next() {
                self.sheet.said.push(format!("{pairs} pairs"));
                self.sheet.ranks = pairs.checked_mul(2).or(self.sheet.ranks);
            }
            self.sheet.said.extend(counts.next().map(|window| format!("window {window}")));
        } else if remark.starts_with("Send Buffer on") {
            let marks: Vec<&str> = remark.split('(').skip(1).filter_map(|rest| rest.split(')').next()).collect();
            self.buffers = Some(marks.join(" "));
        } else if let Some(way) = remark.strip_prefix("Synchronization:") {
            self.sheet.notes = format!("synchronization {}", way.trim());
            let call = match way.trim() {
                "MPI_Win_flush_local" => Some("flush_local"),
                "MPI_Win_lock/unlock" => Some("lock"),
                "MPI_Win_lock_all/unlock_all" => Some("lock_all"),
                "MPI_Win_post/start/complete/wait" => Some("pscw"),
                "MPI_Win_fence" => Some("fence"),
                // What the benchmarks take by themselves.
                _ => None,
            };
            self.sheet.said.extend(call.map(|call| format!("--sync-option {call}")));
        } else if let Some(of) = remark.strip_prefix("Datatype:") {
            let of = of.trim().trim_end_matches('.');
            if of != "MPI_CHAR" {
                self.sheet.said.push(format!("-T {}", of.to_ascii_lowercase()));
            }
        } else if remark.contains("(us)") || remark.contains("B/s)") || remark.contains("/s") || remark.starts_with("Size") {
            self.head(remark);
        }
    }

    fn head(&mut self, head: &str) {
        self.separator = columns::separator(head);
        let names = columns::names(head);
        self.columns = names
            .iter()
            .enumerate()
            .map(|(at, name)| if at == 0 && *name == "Operation" { Column::Other } else { Column::of(name) })
            .collect();
        self.say();
    }

    /// What the command and the title say of buffers and options, once all of it is known.
    fn say(&mut self) {
        let collective = !PAIRWISE.iter().any(|name| self.sheet.benchmark.ends_with(name));
        let xccl = self.sheet.benchmark.starts_with("osu_xccl");
        let places = |word: &&String| matches!(word.as_str(), "D" | "H" | "M" | "MD" | "MH");
        let given: Vec<String> = self.launch.options.iter().filter(places).take(2).cloned().collect();
        match (&self.buffers.take(), given.len() == 2, &self.accelerator.take()) {
            // NCCL takes no others.
            _ if xccl => {}
            (Some(buffers), ..) if buffers == "H H" => {}
            (Some(buffers), ..) => self.sheet.said.push(buffers.clone()),
            (None, true, _) => self.sheet.said.push(given.join(" ")),
            (None, false, Some(_)) if collective => self.sheet.said.push("device buffers".to_owned()),
            _ => {}
        }
        if let Some(window) = self.launch.value(&["-W", "--window-size"])
            && !self.sheet.said.iter().any(|phrase| phrase.starts_with("window"))
        {
            self.sheet.said.push(format!("window {window}"));
        }
        let variables: Vec<String> = self.launch.variables().collect();
        self.sheet.said.extend(variables);
        self.launch = Launch::default();
    }

    fn row(&mut self, fields: &[&str], at: Position, rows: &mut Rows<'_>) {
        let sized = matches!(self.columns[0], Column::Size);
        let operation = if matches!(self.columns[0], Column::Other) { fields[0] } else { "" };
        let bytes = match (sized, operation) {
            (true, _) => match fields[0].parse::<u64>() {
                Ok(bytes) => Some(bytes),
                Err(_) => {
                    let problem = format!("`{}` is not a size in bytes", fields[0]);
                    return rows.fault(&mut self.sheet, at, problem, "run the benchmark again, or remove the line".to_owned());
                }
            },
            (false, "") => None,
            (false, operation) => Some(if operation.contains("longlong") { 8 } else { 4 }),
        };
        let columns = std::mem::take(&mut self.columns);
        for (column, text) in columns.iter().zip(fields) {
            match column {
                Column::Value { metric, unit } => {
                    let said: &[&str] = if operation.is_empty() { &[] } else { &[operation] };
                    rows.push_as(&mut self.sheet, at, Value { bytes, metric, unit, text }, said);
                }
                Column::Check if *text != "Pass" => {
                    let problem = format!("the benchmark found wrong data here: {text}");
                    rows.fault(&mut self.sheet, at, problem, "find out why before the values are used".to_owned());
                }
                _ => {}
            }
        }
        self.columns = columns;
    }
}

/// What stands where a number should.
fn is_spoiled(field: &str) -> bool {
    field.bytes().all(|byte| byte == b'*') || matches!(field.to_ascii_lowercase().trim_start_matches(['-', '+']), "nan" | "inf")
}

/// A title without the name of the accelerator, and that name.
fn without_accelerator(title: &str) -> (String, Option<String>) {
    for accelerator in ["CUDA", "ROCM", "OPENACC", "MANAGED", "CXL", "SYCL"] {
        let mark = format!("-{accelerator}");
        if title.contains(&mark) {
            return (title.replacen(&mark, "", 1), Some(accelerator.to_owned()));
        }
    }
    (title.to_owned(), None)
}

/// Whether two programs share a title: `osu_put_nb` and `osu_put_overlap` of OpenSHMEM.
fn alike(tool: &str, name: &str) -> bool {
    let family = |name: &str| name.starts_with("osu_oshm_");
    (family(tool) && family(name) && tool.contains("_put") == name.contains("_put"))
        || (tool.starts_with("osu_latency_") && name == "osu_multi_lat")
}

/// The program whose title this is.
fn name_of(title: &str) -> String {
    let mut lower = title.to_ascii_lowercase();
    if let Some(at) = lower.rfind(" test") {
        lower.truncate(at);
    }
    let lower = lower.trim().replace("bi-directional", "bidirectional");
    let plain = |text: &str| text.replace([' ', '/', '-'], "_").replace("___", "_");
    if let Some(rest) = lower.strip_prefix("openshmem ") {
        let name = plain(rest.trim_end_matches(" latency")).replace("_nbi", "_nb").replace("non_blocking", "nb");
        return format!(
            "osu_oshm_{}",
            name.replace("put_nb_message_rate", "put_mr_nb")
                .replace("get_nb_message_rate", "get_mr_nb")
                .replace("message_rate", "mr")
                .replace("atomic_operation_rate", "atomics")
        );
    }
    for library in ["nccl ", "rccl ", "xccl "] {
        if let Some(rest) = lower.strip_prefix(library) {
            return format!("osu_xccl_{}", pairwise(rest).map_or_else(|| operation(rest), str::to_owned));
        }
    }
    // `One Sided MPI_Put latency` of release 3.
    let lower = lower.trim_start_matches("one sided ");
    let rest = lower.strip_prefix("mpi_").map(|rest| ("one-sided", rest)).or_else(|| lower.strip_prefix("mpi ").map(|rest| ("", rest)));
    let Some((kind, rest)) = rest else { return format!("osu_{}", plain(lower)) };
    if kind == "one-sided" {
        let (act, what) = rest.split_once(' ').unwrap_or((rest, "latency"));
        let act = match act {
            "accumulate" => "acc",
            "get_accumulate" => "get_acc",
            "fetch_and_op" => "fop",
            "compare_and_swap" => "cas",
            other => other,
        };
        return format!("osu_{act}_{}", pairwise(what).unwrap_or("latency"));
    }
    if let Some(name) = pairwise(rest) {
        return format!("osu_{name}");
    }
    for form in ["non-blocking ", "nonblocking "] {
        if let Some(rest) = rest.strip_prefix(form) {
            return format!("osu_i{}", operation(rest));
        }
    }
    if let Some(rest) = rest.strip_suffix(" persistent latency").or_else(|| rest.strip_suffix(" persistent")) {
        return format!("osu_{}_persistent", pairwise(rest).map_or_else(|| operation(rest), str::to_owned));
    }
    format!("osu_{}", operation(rest))
}

/// Benchmarks between pairs, by the rest of their titles.
fn pairwise(rest: &str) -> Option<&'static str> {
    Some(match rest {
        "latency" => "latency",
        "bandwidth" => "bw",
        "bidirectional bandwidth" => "bibw",
        "multiple bandwidth / message rate" => "mbw_mr",
        "multi latency" | "multi-pair latency" => "multi_lat",
        "multi-process latency" => "latency_mp",
        "multi-threaded latency" | "multithreaded latency" => "latency_mt",
        _ => return None,
    })
}

/// Collective operations, by the rest of their titles.
fn operation(rest: &str) -> String {
    let rest = rest.trim_end_matches(" latency").trim_end_matches(" personalized exchange");
    match rest {
        "broadcast" => "bcast".to_owned(),
        "all-to-all" => "alltoall".to_owned(),
        "all-to-allv" => "alltoallv".to_owned(),
        "all-to-allw" => "alltoallw".to_owned(),
        other => other.replace([' ', '-'], "_"),
    }
}

/// How the names of those end whose ranks have each a buffer of their own place.
const PAIRWISE: [&str; 7] = ["_latency", "_bw", "_bibw", "_mbw_mr", "_multi_lat", "_latency_mp", "_latency_mt"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn titles_of_all_releases() {
        for (title, name) in [
            ("MPI Latency Test", "osu_latency"),
            ("MPI Bi-Directional Bandwidth Test", "osu_bibw"),
            ("MPI Multiple Bandwidth / Message Rate Test", "osu_mbw_mr"),
            ("MPI Multi Latency Test", "osu_multi_lat"),
            ("MPI All-to-All Personalized Exchange Latency Test", "osu_alltoall"),
            ("MPI Reduce_scatter_block Latency Test", "osu_reduce_scatter_block"),
            ("MPI Non-Blocking Broadcast Latency Test", "osu_ibcast"),
            ("MPI Non-blocking All-to-All Latency Test", "osu_ialltoall"),
            ("MPI Allreduce Persistent Latency Test", "osu_allreduce_persistent"),
            ("MPI Bandwidth Persistent Test", "osu_bw_persistent"),
            ("MPI_Put Bi-directional Bandwidth Test", "osu_put_bibw"),
            ("MPI_Get_accumulate latency Test", "osu_get_acc_latency"),
            ("One Sided MPI_Put latency Test", "osu_put_latency"),
            ("NCCL Latency Test", "osu_xccl_latency"),
            ("NCCL Allreduce Latency Test", "osu_xccl_allreduce"),
            ("OpenSHMEM Put_nbi Test", "osu_oshm_put_nb"),
            ("OpenSHMEM Put_nb Message Rate Test", "osu_oshm_put_mr_nb"),
            ("OpenSHMEM Barrier Latency Test", "osu_oshm_barrier"),
            ("MPI Barrier Latency Test", "osu_barrier"),
        ] {
            assert_eq!(name_of(title), name, "{title}");
        }
    }
}
