//! The answer to a question: pieces of a page, made of the outcomes that the command line prints.
//!
//! Modelled: the benchmark with its curves, beside the same on the cluster as it is where parts are changed; the stages of a message and
//! what changes would save; the loads of links under a pattern of traffic. With each answer, the command lines that give the same.

use fabriscope::{OnCluster, Outcome};
use fabriscope_catalog::{Catalog, ResolvedCluster};
use fabriscope_lab::memory::Memory;
use fabriscope_lab::run::RunSettings;
use fabriscope_report::figure::{Figure, Panel};
use fabriscope_report::render::html::{self, Page, Part};
use fabriscope_report::render::{Renderer, Text};
use fabriscope_report::{Cell, Column, Grid};
use fabriscope_tools::Tool;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::question::{Job, Pattern, Question, View};
use crate::refused::Refused;

/// The answer to a question.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answer {
    /// Pieces of a page.
    pub html: String,
    /// What the tool prints, of a benchmark.
    pub text: String,
}

/// What a question gets: an answer, or why there is none.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reply {
    /// It is answered.
    Answer(Answer),
    /// It has no answer.
    Refused(Refused),
}

/// Answers a question, with the parts of this catalogue.
#[must_use]
pub fn reply(catalog: &Catalog, query: &str) -> Reply {
    match Question::parse(query).and_then(|question| answer(catalog, &question)) {
        Ok(answer) => Reply::Answer(answer),
        Err(refused) => Reply::Refused(refused),
    }
}

/// Answers a question.
///
/// # Errors
/// What the tool or the cluster does not have.
pub fn answer(catalog: &Catalog, question: &Question) -> Result<Answer, Refused> {
    let mut page = Page::new("");
    let text = match &question.view {
        View::Benchmark(job) => benchmark(catalog, question, job, &mut page)?,
        View::Explain { job, size } => {
            let outcome = explained(catalog, question, job, *size)?;
            shown(&mut page, &outcome);
            String::new()
        }
        View::Links { pattern, bytes } => {
            links(catalog, question, *pattern, *bytes, &mut page)?;
            String::new()
        }
    };
    again(question, &mut page)?;
    Ok(Answer { html: html::fragment(page.parts(), question.view.name()), text })
}

/// The cluster with what is changed.
fn cluster(catalog: &Catalog, question: &Question) -> Result<ResolvedCluster, Refused> {
    if question.changes.is_empty() {
        return catalog.target(&question.cluster).map_err(|error| Refused::of(&error));
    }
    let (base, group) = question.cluster.split_once(':').map_or((question.cluster.as_str(), None), |(base, group)| (base, Some(group)));
    if let Some(group) = group {
        let help = "choose the cluster as a whole, or a cluster whose nodes are alike";
        return Err(Refused::told(format!("parts of `{group}` alone, one group of {base}, cannot be changed here"), help));
    }
    let file = question.changes.file(base)?;
    catalog.cluster_from_text("the changed cluster", &file, None).map_err(|error| in_words(&error, question))
}

/// What is wrong with changed parts; the lines of a file that nobody wrote are left out.
fn in_words(error: &dyn miette::Diagnostic, question: &Question) -> Refused {
    let Refused { message, help } = Refused::of(error);
    Refused::told(format!("{} with {}: {message}", question.cluster, question.changes.words()), help)
}

fn shown(page: &mut Page, outcome: &Outcome) {
    page.figures(outcome.figures());
    html::body(page, outcome.blocks());
}

fn run(catalog: &Catalog, question: &Question, job: &Job) -> Result<Outcome, Refused> {
    if Tool::by_name(&job.tool).is_ok_and(Tool::reads_files) {
        let message = format!("{} reads a file, and nobody reads files here by asking", job.tool);
        return Err(Refused::told(message, format!("run `fabriscope bench {}` on the command line", job.tool)));
    }
    let parts = cluster(catalog, question)?;
    let mut bench = fabriscope::bench(&job.tool, OnCluster::from(&parts)).args(job.options.clone()).catalog(catalog).seed(question.seed);
    if let Some(nodes) = job.nodes {
        bench = bench.nodes(nodes);
    }
    if let Some(ranks) = job.ranks {
        bench = bench.ranks_per_node(ranks);
    }
    bench.outcome().map_err(|error| Refused::of(&error))
}

fn benchmark(catalog: &Catalog, question: &Question, job: &Job, page: &mut Page) -> Result<String, Refused> {
    let outcome = run(catalog, question, job)?;
    let text = Text.render(&outcome).map_err(|error| Refused::of(&error))?;
    if question.changes.is_empty() {
        shown(page, &outcome);
        return Ok(text);
    }
    let whole = run(catalog, &question.unchanged(), job)?;
    for (number, figure) in outcome.figures().iter().enumerate() {
        page.push(Part::Figure(beside(figure.clone(), whole.figures().get(number), question)));
    }
    if let Some(grid) = compared(&whole, &outcome) {
        page.push(Part::Table { caption: format!("{} as it is, and with {}", question.cluster, question.changes.words()), grid });
    }
    html::body(page, outcome.blocks());
    Ok(text)
}

/// The curves of the cluster as it is in the picture of the changed one.
fn beside(mut figure: Figure, whole: Option<&Figure>, question: &Question) -> Figure {
    for (panel, other) in figure.panels.iter_mut().zip(whole.iter().flat_map(|figure| &figure.panels)) {
        let (Panel::Lines(lines), Panel::Lines(other)) = (panel, other) else { continue };
        if lines.y != other.y {
            continue;
        }
        for series in lines.series.iter_mut().filter(|series| series.name.starts_with("predicted")) {
            series.name = format!("{} with {}", series.name, question.changes.words());
        }
        if let Some(series) = other.series.iter().find(|series| series.name.starts_with("predicted")) {
            let mut series = series.clone().coloured(AS_IT_IS);
            series.name = format!("{} as it is", question.cluster);
            lines.series.insert(lines.series.len().min(1), series);
        }
    }
    figure
}

/// Sizes down; a quantity as it is, changed, and how much that is.
fn compared(whole: &Outcome, changed: &Outcome) -> Option<Grid> {
    let rows = |outcome: &Outcome| outcome.get("points").and_then(Value::as_array).cloned().unwrap_or_default();
    let (whole, changed) = (rows(whole), rows(changed));
    let word = |row: &Value, key: &str| row.get(key).and_then(Value::as_str).map(str::to_owned);
    let first = changed.first()?;
    let (metric, unit) = (word(first, "metric")?, word(first, "unit")?);
    let mut grid = Grid::new([
        Column::number("size (B)", "bytes"),
        Column::number(&format!("{} as it is ({unit})", metric.replace('_', " ")), "as_it_is"),
        Column::number(&format!("changed ({unit})"), "changed"),
        Column::number("difference (%)", "difference_percent"),
    ]);
    for row in changed.iter().filter(|row| word(row, "metric").as_deref() == Some(&metric)) {
        let size = row.get("bytes").and_then(Value::as_u64);
        let same = |other: &&Value| other.get("bytes").and_then(Value::as_u64) == size && word(other, "metric").as_deref() == Some(&metric);
        let value = |row: Option<&Value>| row.and_then(|row| row.get("value")).and_then(Value::as_f64);
        let (before, after) = (value(whole.iter().find(same)), value(Some(row)));
        let number = |value: Option<f64>, decimals| value.map_or_else(Cell::none, |value| Cell::number(value, decimals));
        let difference = before.zip(after).filter(|(before, _)| *before > 0.0).map(|(before, after)| 100.0 * (after / before - 1.0));
        grid.push([size.map_or_else(Cell::none, Cell::count), number(before, 2), number(after, 2), number(difference, 1)]);
    }
    Some(grid)
}

fn explained(catalog: &Catalog, question: &Question, job: &Job, size: Option<u64>) -> Result<Outcome, Refused> {
    let parts = cluster(catalog, question)?;
    let mut asked = fabriscope::explain(&job.tool, OnCluster::from(&parts)).args(job.options.clone()).catalog(catalog).seed(question.seed);
    if let Some(size) = size {
        asked = asked.size(size);
    }
    if let Some(nodes) = job.nodes {
        asked = asked.nodes(nodes);
    }
    if let Some(ranks) = job.ranks {
        asked = asked.ranks_per_node(ranks);
    }
    asked.outcome().map_err(|error| Refused::of(&error))
}

fn links(catalog: &Catalog, question: &Question, pattern: Pattern, bytes: u64, page: &mut Page) -> Result<(), Refused> {
    let parts = cluster(catalog, question)?;
    let hosts = u32::try_from(parts.hosts().count()).unwrap_or(u32::MAX);
    if hosts < 2 {
        return Err(Refused::told(format!("{} is one node", question.cluster), "choose a cluster with a network"));
    }
    // Where each packet has a path of its own, receivers take them in any order.
    let keys =
        pattern.keys.replace("{half}", &(hosts / 2).max(1).to_string()).replace("{most}", &(hosts - 1).min(MOST_SENDERS).to_string());
    let any_order = if parts.routing.reorders() { "any_order = true\n" } else { "" };
    let text = lab(question, pattern, &format!("{keys}{any_order}size = \"{bytes} B\"\n"))?;
    let lab = fabriscope_lab::parse(catalog, "the experiment", &text).map_err(|error| Refused::of(&error))?;
    // What would not fit is refused before it begins.
    let memory = Memory { limit: crate::limits::memory(), ..Memory::default() };
    let settings = RunSettings { drawn: true, seed: Some(question.seed), memory, ..RunSettings::default() };
    let run = fabriscope_lab::run::run(catalog, &lab, &settings).map_err(|error| Refused::of(&error))?;
    shown(page, &run.outcome(&lab));
    page.words("The experiment, to be kept as a file and run by fabriscope run:");
    page.push(Part::Verbatim(text));
    Ok(())
}

/// The experiment of a pattern with these keys.
fn lab(question: &Question, pattern: Pattern, keys: &str) -> Result<String, Refused> {
    let cluster = if question.changes.is_empty() {
        format!("cluster = \"{}\"\n", question.cluster)
    } else {
        // A table of the file stands below the one of the cluster.
        let file = question.changes.file(&question.cluster)?;
        format!("\n[cluster]\n{}", file.replace("\n[", "\n[cluster."))
    };
    let title = toml::Value::String(format!("{} on {}", pattern.title, question.cluster));
    Ok(format!("title = {title}\n{cluster}\n[workload.{}]\n{keys}", pattern.name))
}

/// How to have the same on the command line.
fn again(question: &Question, page: &mut Page) -> Result<(), Refused> {
    let (command, job, more) = match &question.view {
        View::Benchmark(job) => ("bench", job, String::new()),
        View::Explain { job, size } => ("explain", job, size.map_or_else(String::new, |size| format!(" -s {size}"))),
        View::Links { .. } => return Ok(()),
    };
    let seed = if question.seed == 1 { String::new() } else { format!(" --seed {}", question.seed) };
    let options = if job.options.is_empty() {
        String::new()
    } else {
        format!("{} {}", if command == "bench" { "" } else { " --" }, job.options.join(" "))
    };
    let on = if question.changes.is_empty() { question.cluster.as_str() } else { "changed.toml" };
    page.words("The same on the command line:");
    let mut lines = format!("fabriscope {command} {}{more}{seed}{options}", job.words(on));
    if !question.changes.is_empty() {
        lines = format!("{lines}\n\n# changed.toml\n{}", question.changes.file(&question.cluster)?);
    }
    page.push(Part::Verbatim(lines));
    Ok(())
}

/// The colour of the cluster as it is; neither a prediction nor a published table has it.
const AS_IT_IS: usize = 7;
/// Hosts that send to one. Basis: assumed; more make the picture no clearer.
const MOST_SENDERS: u32 = 64;

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(query: &str) -> Answer {
        match reply(fabriscope::embedded().unwrap(), query) {
            Reply::Answer(answer) => answer,
            Reply::Refused(refused) => panic!("{query}: {refused}"),
        }
    }

    fn refused(query: &str) -> String {
        match reply(fabriscope::embedded().unwrap(), query) {
            Reply::Answer(_) => panic!("{query} is answered"),
            Reply::Refused(refused) => format!("{refused} ({})", refused.help),
        }
    }

    #[test]
    fn a_benchmark_is_what_the_program_prints() {
        let answer = asked("cluster=ri2&tool=osu_latency&options=-m 8:64 -i 10");
        let alone = fabriscope::bench("osu_latency", "ri2").args(["-m", "8:64", "-i", "10"]).outcome().unwrap();
        assert_eq!(answer.text, Text.render(&alone).unwrap());
        assert!(answer.html.contains("<svg") && answer.html.contains("fabriscope bench osu_latency --on ri2 -m 8:64 -i 10"));
    }

    #[test]
    fn a_changed_part_stands_beside_the_cluster_as_it_is() {
        let answer = asked("cluster=ri2&tool=osu_bw&options=-m 4194304:4194304 -i 2&link=fdr");
        assert!(answer.html.contains("ri2 as it is, and with link fdr"));
        assert!(answer.html.contains("predicted with link fdr"));
        // 56 Gb/s against 100 Gb/s: a bandwidth of a little more than half.
        let row = answer.html.split("4194304</th>").nth(1).unwrap();
        let cells: Vec<f64> = row.split("</td>").take(3).map(|cell| cell.rsplit('>').next().unwrap().parse().unwrap()).collect();
        assert!((0.5..0.6).contains(&(cells[1] / cells[0])), "{cells:?}");
        assert!((cells[2] - 100.0 * (cells[1] / cells[0] - 1.0)).abs() < 0.1, "{cells:?}");
    }

    #[test]
    fn stages_and_links_are_drawn() {
        let answer = asked("view=explain&cluster=ri2&tool=osu_latency&size=8");
        assert!(answer.html.contains("id=\"explain-figure-1") && answer.html.contains("fabriscope explain osu_latency --on ri2 -s 8"));
        for pattern in crate::question::PATTERNS {
            let answer = asked(&format!("view=links&cluster=lab-16&pattern={}&bytes=64K", pattern.name));
            assert!(answer.html.contains("<svg") && answer.html.contains("how busy the links are"), "{}", pattern.name);
        }
        let answer = asked("view=links&cluster=ri2&pattern=shift&link=fdr&slot=3.0 x8");
        assert!(answer.html.contains("[cluster.node.pcie]"));
    }

    #[test]
    fn what_cannot_be_asked_says_so() {
        assert!(refused("cluster=ri3&tool=osu_bw").contains("ri2"));
        assert!(refused("cluster=ri2&tool=osu_bww").contains("osu_bw"));
        assert!(refused("cluster=ri2&tool=osu_bw&options=--no-such").contains("--no-such"));
        let files = refused("cluster=lab-bluefield-2&tool=dpdk-test-compress-perf&options=--input-file Cargo.toml");
        assert!(files.contains("nobody reads files"), "{files}");
        assert!(refused("cluster=ri2&tool=osu_bw&link=none-such").starts_with("ri2 with link none-such"));
        assert!(refused("view=links&cluster=gh200-1&pattern=ring").contains("gh200-1"));
        assert!(refused("cluster=lumi:lumi-c&tool=osu_bw&link=fdr").contains("group"));
    }
}
