//! Applications in the flow engine: their steps, at the costs that messages of the library have in the packet engine.
//!
//! Modelled: what [`fabriscope_engine_flow::library`] has; computation between post and wait of messages.
//! Not modelled, and refused: one-sided operations, and what goes on beside computation or by workers on DPUs.

use std::sync::Arc;

use fabriscope_engine::{Cluster, Run};
use fabriscope_engine_flow::library::{self, Causes, LibraryWork, Queues, Step, Steps};
use fabriscope_fabric::{Route, Router};
use fabriscope_mpi::Protocol;
use fabriscope_tools::ToolOutput;
use fabriscope_tools::apps::{Act, App, ByCause, Cause, Phase, Plan, Spent, report};
use fabriscope_units::{Bytes, Span, Time};

use crate::error::LabError;
use crate::flow_bench::{FlowBench, unlike};
use crate::launch::LaunchError;

impl FlowBench<'_> {
    fn plan(&self, app: App) -> Result<Arc<Plan>, LabError> {
        let target = self.target(self.layout)?;
        Ok(Arc::new(app.plan(self.options, &target).map_err(LaunchError::from)?))
    }

    /// What only packets can do of it.
    fn app_needs_packets(&self, plan: &Plan) -> Option<String> {
        plan.needs_packets().map(str::to_owned).or_else(|| library::supports(self.parts).err().map(|refused| refused.what))
    }

    /// Why an application has to go without packets; nothing where it need not, or cannot.
    pub fn app_beyond_packets(&self, app: App) -> Option<String> {
        // What is wrong with the command line is said by who runs it.
        let plan = self.plan(app).ok()?;
        if self.app_needs_packets(&plan).is_some() {
            return None;
        }
        let ranks = self.layout.ranks();
        let peers = self.most_peers([0, ranks / 2, ranks - 1], |rank| plan.peers(rank));
        let (before, measured) = plan.iterations();
        let messages = plan.messages.saturating_mul(u64::from(before + measured));
        self.demanded(messages, peers)
            .too_much()
            .or_else(|| (ranks > RANKS || messages > MESSAGES).then(|| format!("{ranks} ranks send {messages} messages")))
    }

    /// Runs an application without packets.
    pub fn run_app(&self, app: App, why: Option<String>) -> Result<(ToolOutput, Run), LabError> {
        let plan = self.plan(app)?;
        if let Some(what) = self.app_needs_packets(&plan) {
            let help = "leave --engine out, or use --engine packet";
            return Err(LabError::refused(format!("the flow engine has no model of {what}"), help));
        }
        let (before, measured) = plan.iterations();
        let messages = plan.messages.saturating_mul(u64::from(before + measured));
        if messages > MOST {
            let message = format!("{messages} messages are too much even without packets");
            return Err(LabError::refused(message, "use fewer ranks, or fewer --iterations"));
        }
        let cluster = Cluster::new(self.parts.clone()).map_err(LaunchError::from)?;
        let (mut printed, end) = self.carry_app(&cluster, &plan)?;
        printed.remarks.extend(why.map(|why| format!("flow engine, as {why}; --engine packet simulates every packet all the same")));
        if !Router::new(&cluster.fabric, self.parts.routing).is_ok_and(|router| router.oblivious()) {
            let routing = self.parts.routing;
            printed.remarks.push(format!("flow engine: `{routing}` takes the paths of an idle network; --engine packet looks at queues"));
        }
        let carried = |small: &FlowBench<'_>| {
            let plan = small.plan(app)?;
            let bytes = plan.bytes_sent().saturating_mul(u64::from(before + measured));
            if bytes > COMPARED {
                return Err(LabError::refused(format!("its ranks would send {bytes} bytes"), "use a smaller problem"));
            }
            Ok(small.carry_app(&cluster, &plan)?.0)
        };
        printed.remarks.push(self.compared_with(&cluster, carried));
        Ok((printed, Run { end, ..Run::default() }))
    }

    fn carry_app(&self, cluster: &Cluster, plan: &Arc<Plan>) -> Result<(ToolOutput, Time), LabError> {
        let seats = self.launch().seated(cluster, self.layout.nodes)?;
        let target = self.target(self.layout)?;
        let slots = target.mpi.as_ref().and_then(|mpi| Protocol::from(mpi).slots);
        let footprint = plan.footprint.min(Bytes(1 << 40));
        let (costs, measured) = self.measure(cluster, &seats, few(unlike(&plan.sizes)), footprint)?;
        let per_node = self.layout.per_node;
        let work = LibraryWork {
            nodes: &seats,
            per_node,
            costs: &costs,
            measured,
            packing: plan.packing,
            slots,
            footprint,
            queues: Queues::Empty,
        };
        let done = library::run(cluster, &work, &|rank| steps(plan, rank)).map_err(LaunchError::from)?;
        let of_rank = |((total, phases), causes): ((&Span, Vec<Span>), Vec<Causes>)| Spent {
            phases,
            causes: causes.into_iter().map(by_cause).collect(),
            total: *total,
        };
        let spent: Vec<Spent> = done.timed.iter().zip(done.laps).zip(done.causes).map(of_rank).collect();
        Ok((report(plan, &spent), done.end))
    }
}

/// What the time of a part passed with, in an application's terms.
fn by_cause(causes: Causes) -> ByCause {
    let Causes { core, copies, late, contention, transfer } = causes;
    Cause::ALL.map(|cause| match cause {
        Cause::Core => core,
        Cause::Copies => copies,
        Cause::Late => late,
        Cause::Contention => contention,
        Cause::Transfer => transfer,
        Cause::Waiting => Span::ZERO,
    })
}

/// What a rank does: iterations before, a meeting, those that are timed.
fn steps(plan: &Arc<Plan>, rank: u32) -> Steps {
    let (before, measured) = plan.iterations();
    let iterations = |count: u32| {
        let plan = plan.clone();
        (0..count).flat_map(move |_| plan.acts(rank).flat_map(of_act))
    };
    let warm = iterations(before).filter(|step| !matches!(step, Step::Lap(_)));
    let timed = iterations(measured);
    Box::new(warm.chain([Step::Meet, Step::Begin]).chain(timed).chain([Step::End]))
}

fn of_act(act: Act) -> Box<dyn Iterator<Item = Step> + Send> {
    let lap = |phase: Phase| Step::Lap(phase.index() as u8);
    match act {
        Act::Work(span) => Box::new([Step::Work(span), lap(Phase::Compute)].into_iter()),
        Act::Exchange(phase, mut outline, span) => {
            let packed = Step::Move(std::mem::take(&mut outline.before));
            let beside = (span > Span::ZERO).then_some(Step::Beside(Phase::Compute.index() as u8, span));
            Box::new([packed].into_iter().chain(beside).chain([Step::Round(outline), lap(phase)]))
        }
        Act::Rounds(phase, outlines) => Box::new(outlines.map(Step::Round).chain([lap(phase)])),
        // Refused before.
        Act::OneSided(..) | Act::Begin(..) | Act::Finish | Act::Products(_) => Box::new(std::iter::empty()),
    }
}

/// Of many sizes, some in equal ratios of their places; between them costs are interpolated.
fn few(sizes: Vec<u32>) -> Vec<u32> {
    if sizes.len() <= SIZES {
        return sizes;
    }
    let mut some: Vec<u32> = (0..SIZES).map(|number| sizes[number * (sizes.len() - 1) / (SIZES - 1)]).collect();
    some.dedup();
    some
}

/// Sizes of messages that are measured. Basis: assumed; each takes packets a second on nodes of 128 ranks.
const SIZES: usize = 24;
/// Ranks, and messages of an application, beyond which packets take minutes. Basis: assumed, after those of collective benchmarks: an
/// application's messages are longer.
const RANKS: u32 = 1024;
const MESSAGES: u64 = 2_000_000;
/// Bytes of all ranks for the comparison with packets. Basis: assumed; packets take some seconds.
const COMPARED: u64 = 4 << 30;
/// Messages at the most without packets. Basis: assumed, some minutes.
const MOST: u64 = 400_000_000;
