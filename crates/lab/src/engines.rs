//! The engines that a lab can name, and whether the chosen one models all that the lab asks for.
//!
//! The question goes to [`Engine::supports`] with a job like those that the workload will run, and is asked when the file is read: the
//! answer names the key that the engine has no model of.

use std::sync::Arc;

use fabriscope_catalog::{Problem, ResolvedCluster};
use fabriscope_collectives::Rounds;
use fabriscope_engine::{
    Cluster, Connections, Demand, Engine, EngineError, Feature, Folding, Job, Placement, Prepared, RankRounds, RoundsWork, RunOptions,
    Service, Unsupported, Work,
};
use fabriscope_engine_flow::FlowEngine;
use fabriscope_engine_packet::PacketEngine;
use fabriscope_schedule::Schedule;
use fabriscope_units::Bytes;

use crate::lab::{schemes, with_scheme};
use crate::traffic;
use crate::{EngineChoice, Lab, ResolvedLab, Workload};

/// The engine of this name.
#[must_use]
pub fn engine(choice: EngineChoice) -> &'static dyn Engine {
    match choice {
        EngineChoice::Packet => &PacketEngine,
        EngineChoice::Flow => &FlowEngine,
        EngineChoice::TimeLine => &TimeLine,
    }
}

/// The engine of labs that have no messages: it runs none.
struct TimeLine;

impl TimeLine {
    fn refusal(&self) -> Unsupported {
        let help = "use the packet or the flow engine; [workload.training] has a time line".to_owned();
        Unsupported { engine: self.name(), feature: Feature::Programs, what: "messages of a workload".to_owned(), help }
    }
}

impl Engine for TimeLine {
    fn name(&self) -> &'static str {
        "time_line"
    }
    fn supports(&self, _: &ResolvedCluster, _: &Job, _: &RunOptions) -> Result<(), Unsupported> {
        Err(self.refusal())
    }
    fn prepare<'a>(&self, _: &'a Cluster, _: Job, _: &RunOptions, _: u64) -> Result<Box<dyn Prepared + 'a>, EngineError> {
        Err(self.refusal().into())
    }
    fn memory(&self, _: &Cluster, _: &Demand<'_>) -> Result<Bytes, EngineError> {
        Err(self.refusal().into())
    }
}

/// Ranks that do nothing, to ask with.
struct Idle {
    ranks: u32,
}

impl RankRounds for Idle {
    fn ranks(&self) -> u32 {
        self.ranks
    }
    fn rounds(&self, _: u32) -> Rounds {
        Box::new(std::iter::empty())
    }
}

/// Whether the engine of a lab models what the lab asks for.
pub(crate) fn check(lab: &ResolvedLab, catalog: &fabriscope_catalog::Catalog) -> Result<(), Problem> {
    let engine = engine(lab.lab.engine);
    let options = traffic::options(lab);
    let asks = |parts: &ResolvedCluster, job: &Job| engine.supports(parts, job, &options).map_err(|refused| problem(&lab.lab, refused));
    let parts = &lab.cluster;
    match &lab.lab.workload {
        Workload::Training(_) if lab.lab.engine == EngineChoice::TimeLine => Ok(()),
        workload @ (Workload::Interference(_) | Workload::Compare(_) | Workload::Flows(_)) => {
            for scheme in &schemes(workload, parts) {
                let job = Job::schedule(Schedule::default(), traffic::settings(lab, scheme.transport));
                asks(&with_scheme(catalog, parts, scheme)?, &job)?;
            }
            Ok(())
        }
        workload => jobs(lab, workload)?.iter().try_for_each(|job| asks(parts, job)),
    }
}

/// Jobs like those that a workload will run, but for what their ranks do.
fn jobs(lab: &ResolvedLab, workload: &Workload) -> Result<Vec<Job>, Problem> {
    let nothing = || Work::Schedule(Arc::new(Schedule::default()));
    let over = |transport: Service| traffic::settings(lab, transport);
    Ok(match workload {
        Workload::Bench(_) | Workload::BesideStorage(_) | Workload::Multicast(_) => {
            let connections = Connections { recovery: lab.lab.recovery.unwrap_or_default(), ..Connections::default() };
            vec![Job { connections, ..Job::programs(Vec::new(), Vec::new()) }]
        }
        Workload::Collective(work) => {
            let call = work.call(&lab.cluster)?.0;
            let work_of = RoundsWork { program: Arc::new(Idle { ranks: call.ranks }), folding: Folding::Auto };
            let placement = Placement::PerNode(call.per_node);
            vec![Job { placement, connections: over(work.transport), work: Work::Rounds(work_of) }]
        }
        Workload::AllToAllV(work) => {
            let job = |transport: &Service| {
                let placement = Placement::PerAdapter(work.processes_per_node);
                Job { placement, connections: over(*transport), work: nothing() }
            };
            work.transports.iter().map(job).collect()
        }
        Workload::Jobs(work) => {
            let class = |(number, job): (usize, &crate::Job)| -> Result<Job, Problem> {
                let (level, pkey, rate) = (job.level(&lab.cluster)?, job.pkey(&lab.cluster)?, job.rate_limit);
                let recovery = lab.lab.recovery.unwrap_or_default();
                let libraries = lab.libraries.get(number).and_then(Option::as_ref).map(|library| library.hosts.clone()).unwrap_or_default();
                let connections = Connections { level, pkey, rate, recovery, libraries, ..Connections::default() };
                Ok(Job::schedule(Schedule::default(), connections))
            };
            work.jobs.iter().enumerate().map(class).collect::<Result<_, _>>()?
        }
        workload => {
            vec![Job { placement: Placement::default(), connections: over(workload.transport().unwrap_or_default()), work: nothing() }]
        }
    })
}

/// A refusal, at the key that asked for what the engine does not model.
fn problem(lab: &Lab, refused: Unsupported) -> Problem {
    let given = |keys: &[(&'static str, bool)]| keys.iter().find(|(_, given)| *given).map(|(key, _)| *key);
    let key = match refused.feature {
        Feature::Routing => given(&[("routing", lab.routing.is_some())]),
        Feature::Congestion => given(&[("congestion", lab.congestion.is_some())]),
        Feature::FlowControl => given(&[("flow_control", lab.flow_control.is_some())]),
        Feature::Recovery => given(&[("recovery", lab.recovery.is_some())]),
        Feature::Classes => given(&[
            ("service_level", lab.service_level.is_some()),
            ("priority", lab.priority.is_some()),
            ("dscp", lab.dscp.is_some()),
            ("traffic_class", lab.traffic_class.is_some()),
            ("qos", lab.qos.is_some()),
        ]),
        Feature::Partitions => given(&[
            ("partition", lab.partition.is_some()),
            ("partitions", !lab.partitions.is_empty()),
            ("partition_enforcement", lab.partition_enforcement.is_some()),
        ]),
        Feature::RateLimit => given(&[("rate_limit", lab.rate_limit.is_some())]),
        Feature::LinkRetry => given(&[("line", lab.line.is_some())]),
        Feature::Faults => given(&[("fault", !lab.fault.is_empty())]),
        Feature::FastForward => given(&[("fast_forward", lab.fast_forward)]),
        Feature::Deadlock => given(&[("allow_deadlock", lab.allow_deadlock)]),
        Feature::Service if matches!(lab.workload, Workload::Jobs(_)) => {
            let help = "use the packet engine, or leave `software` out of the jobs";
            return Problem::at(&["workload", "jobs", "jobs"], format!("`software` of a job: {refused}"), help);
        }
        Feature::Service => return Problem::at(&["workload", lab.workload.name()], refused.to_string(), refused.help),
        _ => None,
    };
    Problem::at(&[key.unwrap_or("engine")], refused.to_string(), refused.help)
}
