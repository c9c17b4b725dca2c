//! One message between two ranks: where its time goes, what binds, what a change would save.

use fabriscope_catalog::{Catalog, ResolvedCluster};
use fabriscope_engine::{MessageTrace, Run};
use fabriscope_lab::LabError;
use fabriscope_platform::Target;
use fabriscope_report::Outcome;
use fabriscope_report::explain::{Change, Stages, figure, nanoseconds, show_changes};
use fabriscope_tools::{Direction, Exchange, Point, SizeOption, Suite, Tool, ToolOutput};
use fabriscope_units::{Bytes, Span};

use crate::critical_path::{self, Chain, Followed};
use crate::data_path::{DataPathRequest, Inside};
use crate::occupancy::{self, Busy};
use crate::request::{Changes, ExplainRequest};
use crate::what_if::{Setting, Variation};
use fabriscope_lab::launch::{self, Launch, LaunchError};

/// What one run tells.
struct Explained {
    chain: Chain,
    printed: ToolOutput,
    /// Time per message where messages overlap.
    interval: Option<Span>,
    /// What was followed is a part of the exchange: the tool's own time tells what changes do.
    judged_by_tool: bool,
    /// There and back were followed.
    whole: bool,
}

/// Explains one message between two ranks.
pub(crate) fn explain_message(
    tool: Tool,
    args: &ExplainRequest,
    catalog: &Catalog,
    original: &ResolvedCluster,
    progress: &dyn Fn(usize, usize),
) -> Result<Outcome, LabError> {
    if args.nodes.is_some_and(|nodes| nodes > 2) {
        return Err(LabError::refused("a message is followed between two nodes", "give --nodes 1 or 2"));
    }
    if args.per_node.is_some() {
        return Err(LabError::refused(format!("--ppn is for collective operations, not for {}", tool.name()), "leave it out"));
    }
    let mut parts = original.clone();
    let binding = args.devices.apply(&mut parts, 2)?;
    let layout = args.nodes.map(|nodes| launch::layout(&parts, Some(nodes), None));
    if args.nodes.is_some() && !matches!(tool, Tool::Omb(_) | Tool::Shmem(_)) {
        return Err(LabError::refused(format!("--nodes is for the OSU benchmarks, not for {}", tool.name()), "leave it out"));
    }
    let target = Target::of(&parts, layout.unwrap_or_else(|| launch::layout(&parts, None, None)), binding.clone());
    let asked = DataPathRequest { tool, options: &args.options, parts: &parts, binding: &binding, target: &target, size: args.bytes() };
    let inside = Inside::of(&asked);
    let setting = Setting {
        catalog,
        parts: &parts,
        original,
        inside: inside.as_ref(),
        binding: &binding,
        layout,
        perftest: tool.traits().suite == Suite::Perftest,
        options: &args.options,
        nodes: parts.placement,
        size: args.bytes(),
    };
    let start = setting.as_it_is();
    let followed = Following { tool, size: args.bytes(), seed: args.seed, whole: inside.as_ref().is_some_and(|inside| !inside.symmetric) };
    let explained = explain(&followed, &start)?;
    let stages = Stages::new(explained.chain.stages.clone(), explained.chain.total);
    let stages = stages.map_err(|e| LabError::refused(e.to_string(), "the trace of this message is incomplete"))?;
    let changes = if args.changes == Changes::Left { Vec::new() } else { changes(&followed, &setting, progress) };
    let told =
        Explanation { tool, args, parts: &parts, explained: &explained, stages: &stages, changes: &changes, inside: inside.as_ref() };
    Ok(told.outcome())
}

/// Exchanges that are followed: enough for queues and pipelines to be as they stay.
const EXCHANGES: u64 = 24;
/// Messages of a bandwidth test: some windows.
const MESSAGES: u64 = 640;

/// What is run and followed.
struct Following {
    tool: Tool,
    size: u64,
    seed: u64,
    /// There and back, where the two ways differ.
    whole: bool,
}

fn explain(following: &Following, variation: &Variation) -> Result<Explained, LaunchError> {
    let Following { tool, size, seed, whole } = *following;
    let traits = tool.traits();
    let (latency, perftest) = (traits.is_exchange(), traits.suite == Suite::Perftest);
    let mut options = vec![];
    let mut add = |words: &[String]| options.extend_from_slice(words);
    let mut exchanges = EXCHANGES;
    match (perftest, latency) {
        (true, true) => add(&["-n".to_owned(), EXCHANGES.to_string()]),
        (true, false) => add(&["-n".to_owned(), MESSAGES.to_string()]),
        (false, true) => {
            add(&["-i".to_owned(), EXCHANGES.to_string(), "-x".to_owned(), "4".to_owned()]);
            exchanges += 4;
        }
        (false, false) => add(&["-i".to_owned(), "4".to_owned(), "-x".to_owned(), "1".to_owned()]),
    }
    match traits.sizes {
        // Operations of one element, for whose size there is no option.
        SizeOption::Fixed => {}
        SizeOption::One => add(&["-s".to_owned(), size.to_string()]),
        _ => add(&["-m".to_owned(), format!("{size}:{size}")]),
    }
    add(&variation.options);
    let buffers = |option: &String| option == "heap" || option == "global";
    if matches!(tool, Tool::Shmem(benchmark) if !benchmark.is_collective()) && !variation.options.iter().any(buffers) {
        add(&["heap".to_owned()]);
    }
    let launch = Launch {
        nodes: variation.nodes,
        layout: variation.layout,
        seed,
        binding: variation.binding.clone(),
        traced: true,
        ..Launch::new(tool, &options, &variation.parts)
    };
    let (printed, run) = launch.run()?;
    let one_way = traits.exchange == Exchange::PingPong && !whole;
    let nics = variation.parts.sole().node.nics;
    let mut traces = run.traces.clone();
    if traits.exchange == Exchange::RoundTrip && !perftest {
        // The last message ends the measurement.
        traces.sort_by_key(|trace| (trace.posted_ps, trace.done_ps));
        let exchanges = exchanges as usize;
        traces.truncate(traces.len() / exchanges * exchanges);
    }
    let followed = Followed { traces: &traces, works: &run.works, nics, exchanges: exchanges as usize };
    let chain = if latency { critical_path::exchange(&followed, one_way) } else { None };
    let copied = || run.works.get(run.works.len() / 2).map(critical_path::alone);
    let exact = chain.is_some();
    let on_gpus = variation.parts.sole().node.gpu.is_some();
    let chain = chain.or_else(|| steady(&run, size, on_gpus).map(critical_path::single)).or_else(copied);
    let chain = chain.unwrap_or(Chain { stages: Vec::new(), total: Span::ZERO, messages: 0 });
    let both_ways = traits.direction == Direction::Bidirectional || variation.options.iter().any(|o| o == "-b" || o == "--bidirectional");
    let interval = if latency { None } else { interval(&printed.points, size, both_ways) };
    Ok(Explained { chain, printed, interval, judged_by_tool: on_gpus && !exact, whole })
}

/// A message of the asked size from the middle of the run, or any at all.
fn steady(run: &Run, size: u64, pieces: bool) -> Option<&MessageTrace> {
    let largest = run.traces.iter().map(|t| t.bytes).max().filter(|_| pieces);
    let size = largest.map_or(size, |largest| largest.min(size));
    let sized: Vec<&MessageTrace> = run.traces.iter().filter(|t| t.bytes >= size).collect();
    sized.get(sized.len() / 2).copied().or_else(|| run.traces.last())
}

/// The time from one message to the next of a direction, from the bandwidth or the message rate.
fn interval(points: &[Point], size: u64, both_ways: bool) -> Option<Span> {
    let rate = points.iter().find(|p| p.metric == "message_rate").and_then(|p| match p.unit {
        "Mpps" => Some(p.value * 1e6),
        "messages/s" => Some(p.value),
        _ => None,
    });
    let bandwidth = points.iter().find(|p| p.metric == "bandwidth").and_then(|p| match p.unit {
        "MB/s" => Some(p.value * 1e6),
        "MiB/s" => Some(p.value * 1_048_576.0),
        "Gb/s" => Some(p.value * 1e9 / 8.0),
        _ => None,
    });
    let per_second = rate.or_else(|| bandwidth.map(|b| b / size.max(1) as f64)).filter(|r| *r > 0.0)?;
    // Both directions are summed by the tool; a direction has half of the messages.
    let directions = if both_ways { 2.0 } else { 1.0 };
    Some(Span::from_ps((directions * 1e12 / per_second).round() as u64))
}

impl Explained {
    /// What changes are judged by: the time of a message, or from one to the next.
    fn measure(&self) -> Span {
        let printed = self.printed.points.iter().find(|p| p.metric == "latency" && p.unit == "us");
        let printed = printed.map_or(Span::ZERO, |p| Span::from_ps((p.value * 1e6).round() as u64));
        let printed = if self.whole { printed * 2 } else { printed };
        let by_tool = self.chain.total == Span::ZERO || (self.judged_by_tool && printed > Span::ZERO);
        self.interval.unwrap_or(if by_tool { printed } else { self.chain.total })
    }
}

fn changes(following: &Following, setting: &Setting<'_>, progress: &dyn Fn(usize, usize)) -> Vec<Change> {
    let variations = setting.variations();
    let all = variations.len();
    let change = |(done, variation): (usize, Variation)| {
        progress(done, all);
        let total = explain(following, &variation).map(|e| e.measure()).map_err(|e| e.to_string());
        Change { what: variation.what, total }
    };
    variations.into_iter().enumerate().map(change).collect()
}

/// The change that saves most, if any saves a hundredth.
pub(crate) fn best(measure: Span, changes: &[Change]) -> Option<(&Change, Span)> {
    let made = changes.iter().filter_map(|c| c.total.as_ref().ok().map(|t| (c, measure.saturating_sub(*t))));
    made.max_by_key(|(_, saved)| *saved).filter(|(_, saved)| *saved > Span::ZERO && saved.as_ps() * 100 >= measure.as_ps())
}

/// What a message keeps busy: on the way between the nodes, and inside them.
fn resources(tool: Tool, parts: &ResolvedCluster, args: &ExplainRequest, inside: Option<&Inside>) -> Vec<Busy> {
    let perftest = tool.traits().suite == Suite::Perftest;
    let network = !inside.is_some_and(|inside| inside.local);
    let between =
        if network { occupancy::resources(parts, args.bytes(), perftest, inside.map(|inside| inside.pieces)) } else { Vec::new() };
    let way = |inside: &Inside| -> Vec<Busy> {
        let legs = inside.ends.iter().flat_map(|end| end.legs.iter().map(move |leg| (end.who, leg)));
        let busy = |(who, leg): (&str, &crate::data_path::Leg)| {
            let (link, span) = leg.busiest(&inside.machine, args.bytes(), inside.pieces)?;
            Some(Busy { what: format!("{who}'s {link}").into(), span })
        };
        legs.filter_map(busy).collect()
    };
    between.into_iter().chain(inside.map(way).unwrap_or_default()).collect()
}

/// All that is told.
#[derive(Clone, Copy)]
struct Explanation<'a> {
    tool: Tool,
    args: &'a ExplainRequest,
    parts: &'a ResolvedCluster,
    explained: &'a Explained,
    stages: &'a Stages,
    changes: &'a [Change],
    inside: Option<&'a Inside>,
}

impl Explanation<'_> {
    fn bound(&self) -> String {
        let Explanation { tool, parts, args, explained, stages, changes, inside } = *self;
        let mut text = String::new();
        if let Some(interval) = explained.interval {
            text += &format!("a message every {} ns\n\n", nanoseconds(interval));
            text += &occupancy::text(&resources(tool, parts, args, inside), interval);
        } else if let Some((name, span)) = stages.longest() {
            let share = 100.0 * span.as_ps() as f64 / stages.total().as_ps().max(1) as f64;
            text += &format!("bound: the longest stage is `{name}` with {} ns, {share:.1} % of the whole\n", nanoseconds(span));
        }
        if let Some((change, saved)) = best(explained.measure(), changes) {
            text += &format!("best change: {}, saves {} ns\n", change.what, nanoseconds(saved));
        } else if !changes.is_empty() {
            text += "best change: none below saves a hundredth; software and fixed latencies are what is left\n";
        }
        text
    }

    fn outcome(&self) -> Outcome {
        let Explanation { tool: _, parts, args, explained, stages, changes, inside } = *self;
        let slot = &parts.sole().node.pcie;
        let mut text = format!(
            "# {} of {} on {}: {}\n# {}, PCIe generation {} x{}, {} links, MTU {}\n",
            args.tool,
            // The tool's own options may have chosen another size.
            explained.printed.points.first().map_or(Bytes(args.bytes()), |point| point.size),
            parts.name,
            parts.title,
            parts.sole().node.nic.title,
            slot.part.generation,
            slot.lanes,
            parts.sole().link.data_rate(),
            parts.mtu
        );
        for point in explained.printed.points.iter().filter(|p| MAIN.contains(&p.metric)) {
            text += &format!("# {} prints a {} of {:.2} {}\n", args.tool, point.metric.replace('_', " "), point.value, point.unit);
        }
        if explained.whole && !explained.judged_by_tool {
            text += "# there and back, as the two ways differ: twice what the tool prints\n";
        }
        if explained.judged_by_tool && explained.interval.is_none() {
            text += "# one message out of the exchange; changes are judged by what the tool prints\n";
        }
        if explained.chain.messages > 1 {
            text += &format!("# a chain of {} messages of the network\n", explained.chain.messages);
        }
        text += &inside.map_or_else(String::new, Inside::text);
        let mut outcome = Outcome::new();
        outcome.extend(self.json()).text(text).text("\n");
        match stages.total() {
            Span::ZERO => outcome.note("no message of this run could be followed to its end"),
            _ => outcome.table(stages.grid()),
        };
        let size = explained.printed.points.first().map_or(Bytes(args.bytes()), |point| point.size);
        let what = if explained.whole { "there and back" } else { "one message" };
        let title = format!("{} of {size} on {}", args.tool, parts.name);
        outcome.draw(figure(&title, what, stages, explained.measure(), changes));
        outcome.text("\n").text(self.bound());
        if !changes.is_empty() {
            outcome.text("\n");
            show_changes(&mut outcome, explained.measure(), changes);
        }
        outcome
    }

    fn json(&self) -> serde_json::Value {
        let Explanation { tool: _, parts, args, explained, stages, changes, inside } = *self;
        let stage = |(name, span): (&str, Span)| serde_json::json!({ "stage": name, "ps": span.as_ps() });
        let change = |c: &Change| match &c.total {
            Ok(total) => serde_json::json!({ "change": c.what, "ps": total.as_ps() }),
            Err(reason) => serde_json::json!({ "change": c.what, "refused": reason }),
        };
        let mut value = serde_json::json!({
            "tool": args.tool,
            "cluster": parts.name,
            "bytes": args.bytes(),
            "total_ps": stages.total().as_ps(),
            "interval_ps": explained.interval.map(Span::as_ps),
            "stages": stages.rows().map(stage).collect::<Vec<_>>(),
            "longest": stages.longest().map(|(name, _)| name),
            "changes": changes.iter().map(change).collect::<Vec<_>>(),
        });
        if let Some(inside) = inside {
            value["inside"] = inside.json();
        }
        value
    }
}

/// The metrics that a tool is run for.
const MAIN: [&str; 3] = ["latency", "bandwidth", "message_rate"];
