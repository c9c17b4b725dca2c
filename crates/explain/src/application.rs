//! Applications: where the time of a run goes by call and by cause, which thing binds, and two libraries side by side.
//!
//! What a call passes with is what the engine counted ([`fabriscope_tools::apps::Cause`]); what binds is found by runs, as for whole
//! operations. Beside another library stand the same rows of the same program, and what differs most is named from them.
//! Modelled: means over ranks, and the slowest rank beyond them; connections that are made on first use, once in a run.
//! Not modelled: set-up and output; two things that only help together.

use fabriscope_catalog::{Catalog, ResolvedCluster};
use fabriscope_lab::LabError;
use fabriscope_lab::bench::BenchRequest;
use fabriscope_report::{Cell, Column, Grid, Outcome};
use fabriscope_tools::{Tool, ToolOutput};
use rayon::prelude::*;

use crate::operation::{CHANGES, Where};
use crate::request::{Changes, ExplainRequest};
use crate::twice::{changed, halve};

/// Explains an application.
pub(crate) fn explain_application(
    tool: Tool,
    request: &ExplainRequest,
    catalog: &Catalog,
    parts: &ResolvedCluster,
    progress: &dyn Fn(usize, usize),
) -> Result<Outcome, LabError> {
    if let Some(size) = request.size {
        return Err(LabError::refused(format!("-s {size}: {} has no sizes of messages", tool.name()), "leave -s out"));
    }
    let other = request.against.as_deref().map(|name| with_library(catalog, parts, name)).transpose()?;
    progress(0, 2);
    let asked = Bench { tool, request, catalog };
    let account = asked.account(parts)?;
    let beside = other.as_ref().map(|other| asked.account(other)).transpose()?;
    progress(1, 2);
    let faster = if request.changes == Changes::Tried { asked.faster(parts, &account)? } else { Vec::new() };
    Ok(text(request, parts, &account, &faster, beside.as_ref()))
}

/// The cluster with another library.
fn with_library(catalog: &Catalog, parts: &ResolvedCluster, given: &str) -> Result<ResolvedCluster, LabError> {
    let name = given.strip_prefix("library=").unwrap_or(given);
    let software = catalog.software(name)?;
    let nic = &parts.sole().node.nic;
    if !software.drives(nic.interface) {
        let what =
            format!("`{name}` drives adapters through {}, but `{}` is driven through {}", software.interface, nic.name, nic.interface);
        return Err(LabError::refused(what, "name a library for this adapter: `fabriscope parts --kind software` lists them"));
    }
    if software.mpi.is_none() {
        return Err(LabError::refused(
            format!("`{name}` has no MPI"),
            "name an MPI library: `fabriscope parts --kind software` lists them",
        ));
    }
    let mut parts = parts.clone();
    parts.sole_mut().software = software.clone();
    Ok(parts)
}

/// An application as it is asked for.
struct Bench<'a> {
    tool: Tool,
    request: &'a ExplainRequest,
    catalog: &'a Catalog,
}

/// A part of the run.
#[derive(Debug, Clone, PartialEq)]
struct Row {
    call: String,
    /// With what it passes.
    cause: Option<&'static str>,
    seconds: f64,
}

/// Where the time of a run goes.
struct Account {
    library: String,
    engine: &'static str,
    /// What the program says of itself.
    lines: Vec<String>,
    /// Computation, calls, the slowest rank, connections: they add up to the run.
    calls: Vec<Row>,
    /// What is within calls.
    causes: Vec<Row>,
    seconds: f64,
}

impl Account {
    fn of(parts: &ResolvedCluster, engine: &'static str, printed: &ToolOutput) -> Account {
        let value = |metric: &str| printed.points.iter().find(|point| point.metric == metric).map(|point| point.value);
        let iteration = value("iteration").unwrap_or(0.0);
        let run = value("run").unwrap_or(0.0);
        let times = if iteration > 0.0 { run / iteration } else { 0.0 };
        let row = |call: &str, seconds: f64| Row { call: call.to_owned(), cause: None, seconds };
        let is_call = |metric: &str| metric == "compute" || metric.starts_with("MPI_");
        let mut calls: Vec<Row> = Vec::new();
        for point in printed.points.iter().filter(|point| is_call(point.metric)) {
            calls.push(row(if point.metric == "compute" { COMPUTATION } else { point.metric }, point.value * times));
        }
        let mean: f64 = calls.iter().map(|row| row.seconds).sum();
        calls.push(row(SLOWEST, (run - mean).max(0.0)));
        let seconds = value("run and connections").unwrap_or(run);
        if seconds > run {
            calls.push(row(CONNECTIONS, seconds - run));
        }
        let spent = printed.spending.iter();
        let causes = spent.map(|spent| Row { cause: Some(spent.cause), ..row(spent.call, spent.us * times) }).collect();
        let said = |line: &str| line.strip_prefix("# ").filter(|line| !line.starts_with("Call ")).map(str::to_owned);
        let lines = printed.text.lines().filter_map(said).collect();
        Account { library: parts.sole().software.name.clone(), engine, lines, calls, causes, seconds }
    }

    /// What takes most beside computation: a cause within a call, or something that has none.
    fn most(&self) -> Option<&Row> {
        self.leaves().filter(|row| row.call != COMPUTATION).max_by(|a, b| a.seconds.total_cmp(&b.seconds))
    }

    /// Rows that are not divided further.
    fn leaves(&self) -> impl Iterator<Item = &Row> {
        let divided = |call: &str| self.causes.iter().any(|row| row.call == call);
        self.calls.iter().filter(move |row| !divided(&row.call)).chain(&self.causes)
    }

    fn share(&self, seconds: f64) -> f64 {
        if self.seconds > 0.0 { 100.0 * seconds / self.seconds } else { 0.0 }
    }
}

impl Row {
    fn title(&self) -> String {
        self.cause.map_or_else(|| self.call.clone(), |cause| format!("{cause} in {}", self.call))
    }
}

impl Bench<'_> {
    fn account(&self, parts: &ResolvedCluster) -> Result<Account, LabError> {
        let ran = self.printed(parts, &self.request.options)?;
        // Packets tell work and waiting apart only.
        let engine = if ran.remarks.iter().any(|remark| remark.starts_with("flow engine")) { "by flows" } else { "by packets" };
        Ok(Account::of(parts, engine, &ran))
    }

    fn printed(&self, parts: &ResolvedCluster, options: &[String]) -> Result<ToolOutput, LabError> {
        let ExplainRequest { nodes, per_node, devices, seed, engine, .. } = self.request;
        let bench = BenchRequest {
            options: options.to_vec(),
            nodes: *nodes,
            per_node: *per_node,
            devices: devices.clone(),
            engine: *engine,
            seed: *seed,
            ..BenchRequest::new(self.tool)
        };
        Ok(bench.set_up(self.catalog, parts.clone())?.run()?.printed)
    }

    /// The run with each thing twice as fast, the best first: what it then takes, in s.
    fn faster(&self, parts: &ResolvedCluster, account: &Account) -> Result<Vec<(&'static str, f64)>, LabError> {
        let between = self.request.nodes != Some(1);
        let mut tries: Vec<(&'static str, ResolvedCluster, Vec<String>)> = Vec::new();
        for (what, parts) in changed(parts, &CHANGES, Where { between, sockets: false }) {
            tries.push((what, parts, self.request.options.clone()));
        }
        let mut quicker = parts.clone();
        let connections = quicker.sole_mut().software.mpi.as_mut().and_then(|mpi| mpi.connections.as_mut());
        if let Some(first) = connections.and_then(|connections| connections.on_first_use.as_mut()) {
            halve([&mut first.each]);
            tries.push((CONNECTIONS, quicker, self.request.options.clone()));
        }
        if let Some(options) = half_the_computation(&self.request.options) {
            tries.push((COMPUTATION, parts.clone(), options));
        }
        let run = |(what, parts, options): &(&'static str, ResolvedCluster, Vec<String>)| -> Result<(&'static str, f64), LabError> {
            Ok((*what, Account::of(parts, account.engine, &self.printed(parts, options)?).seconds))
        };
        let mut faster = tries.par_iter().map(run).collect::<Result<Vec<_>, LabError>>()?;
        faster.sort_by(|a, b| a.1.total_cmp(&b.1));
        Ok(faster)
    }
}

/// The options with half of the computation that they give, where they give any; else memory decides, which is a row of its own.
fn half_the_computation(options: &[String]) -> Option<Vec<String>> {
    let at = options.iter().position(|option| option == "--node-seconds")?;
    let given: f64 = options.get(at + 1)?.parse().ok()?;
    let mut options = options.to_vec();
    options[at + 1] = format!("{}", given / 2.0);
    Some(options)
}

const COMPUTATION: &str = "computation";
const SLOWEST: &str = "the slowest rank beyond the mean";
const CONNECTIONS: &str = "connections made on first use";

fn text(
    request: &ExplainRequest,
    parts: &ResolvedCluster,
    account: &Account,
    faster: &[(&'static str, f64)],
    beside: Option<&Account>,
) -> Outcome {
    let mut outcome = Outcome::new();
    outcome.note(format!("{} on {}: {}", request.tool, parts.name, parts.title));
    outcome.note(format!("{}, {}; times of the whole run, means over ranks", parts.sole().software.title, account.engine));
    for line in &account.lines {
        outcome.note(line.clone());
    }
    let mut grid = Grid::new([
        Column::words("where the run goes", "call"),
        Column::number("time (s)", "seconds"),
        Column::number("share (%)", "share_percent"),
    ]);
    for row in &account.calls {
        grid.push([Cell::word(row.call.clone()), Cell::number(row.seconds, 4), Cell::number(account.share(row.seconds), 1)]);
    }
    grid.foot([Cell::word("run"), Cell::number(account.seconds, 4), Cell::number(100.0, 1)]);
    outcome.text("\n").keyed_table("calls", grid.named("calls"));
    if !account.causes.is_empty() {
        let mut grid = Grid::new([
            Column::words("call", "call"),
            Column::words("passes with", "cause"),
            Column::number("time (s)", "seconds"),
            Column::number("share (%)", "share_percent"),
        ]);
        for row in &account.causes {
            let cause = Cell::word(row.cause.unwrap_or_default());
            grid.push([Cell::word(row.call.clone()), cause, Cell::number(row.seconds, 4), Cell::number(account.share(row.seconds), 1)]);
        }
        outcome.text("\n").keyed_table("causes", grid.named("causes"));
    }
    if let Some(most) = account.most() {
        let share = account.share(most.seconds);
        outcome.text(format!("\nbeside computation most passes with: {}, {share:.1} % of the run\n", most.title()));
        outcome.set("most", most.title());
    }
    twice(&mut outcome, account, faster);
    if let Some(beside) = beside {
        compare(&mut outcome, account, beside);
    }
    outcome.set("tool", request.tool.clone()).set("cluster", parts.name.clone()).set("seconds", account.seconds);
    outcome
}

fn twice(outcome: &mut Outcome, account: &Account, faster: &[(&'static str, f64)]) {
    let Some((first, seconds)) = faster.first() else { return };
    let saved = |seconds: f64| account.share(account.seconds - seconds);
    let bound = if saved(*seconds) >= 1.0 {
        format!("bound: {first}, saves {:.1} % if twice as fast", saved(*seconds))
    } else {
        "bound: nothing below saves a hundredth".to_owned()
    };
    outcome.text(format!("{bound}\n\n")).set("bound", *first);
    let mut grid = Grid::new([
        Column::words("twice as fast", "twice_as_fast"),
        Column::number("run (s)", "seconds"),
        Column::number("saves (%)", "saves_percent"),
    ]);
    for (what, seconds) in faster {
        grid.push([Cell::word(*what), Cell::number(*seconds, 4), Cell::number(saved(*seconds), 1)]);
    }
    outcome.keyed_table("twice_as_fast", grid.named("twice_as_fast"));
}

/// The rows of both, in the order of the first, and by what they differ.
fn compare(outcome: &mut Outcome, one: &Account, other: &Account) {
    let seconds = |of: &Account, title: &str| of.leaves().filter(|row| row.title() == title).fold(0.0, |sum, row| sum + row.seconds);
    let mut titles: Vec<String> = one.leaves().map(Row::title).collect();
    let more: Vec<String> = other.leaves().map(Row::title).filter(|title| !titles.contains(title)).collect();
    titles.extend(more);
    let mut rows: Vec<(String, f64, f64)> =
        titles.into_iter().map(|title| (title.clone(), seconds(one, &title), seconds(other, &title))).collect();
    rows.sort_by(|a, b| (b.2 - b.1).abs().total_cmp(&(a.2 - a.1).abs()));
    let all = other.seconds - one.seconds;
    let word = if all < 0.0 { "less" } else { "more" };
    let mut told = format!("\n{} takes {:.4} s {word} than {}", other.library, all.abs(), one.library);
    if let Some((title, a, b)) = rows.first().filter(|row| row.1 != row.2) {
        told += &format!(", {:+.4} s of it: {title} ({a:.4} s there, {b:.4} s here)", b - a);
    }
    let mut grid = Grid::new([
        Column::words("what differs", "what"),
        Column::number(&format!("{} (s)", one.library), "seconds"),
        Column::number(&format!("{} (s)", other.library), "against_seconds"),
        Column::number("differs (s)", "differs_seconds"),
    ]);
    for (title, a, b) in &rows {
        grid.push([Cell::word(title.clone()), Cell::number(*a, 4), Cell::number(*b, 4), Cell::number(b - a, 4)]);
    }
    grid.foot([Cell::word("run"), Cell::number(one.seconds, 4), Cell::number(other.seconds, 4), Cell::number(all, 4)]);
    outcome.text(format!("{told}\n\n")).keyed_table("against", grid.named("against")).set("against", other.library.clone());
    if let Some((title, ..)) = rows.first() {
        outcome.set("mechanism", title.clone());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn computation_that_is_given_is_halved() {
        let options = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(half_the_computation(&options("--ncore 4 --node-seconds 0.5")), Some(options("--ncore 4 --node-seconds 0.25")));
        assert_eq!(half_the_computation(&options("--ncore 4")), None);
    }
}
