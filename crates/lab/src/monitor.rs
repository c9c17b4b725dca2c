//! A lab watched while it runs: what ports and adapters count over time, by job.
//!
//! Modelled: labs with one run, and the jobs of `[workload.jobs]` together in their classes; a packet belongs to the job of the host that it
//! goes to. A host of several jobs is named after all of them.
//! Not modelled: sweeps with several runs, of which each would have counters of its own.

use std::collections::BTreeMap;
use std::sync::Arc;

use fabriscope_catalog::Catalog;
use fabriscope_engine::{Cluster, CounterPlace, Counting, NO_JOB, Run};
use fabriscope_fabric::{LinkId, Node, export};
use fabriscope_report::counters::{At, Site};
use fabriscope_report::monitor::{Adapter, Job, Monitor, Port};
use fabriscope_units::Span;

use crate::counting::{dialect, readings, site};
use crate::error::LabError;
use crate::jobs::Jobs;
use crate::lab::ResolvedLab;
use crate::run::{LabRun, RunSettings, run};
use crate::sweep::jobs::together;
use crate::workload::Workload;

/// How a lab is watched.
#[derive(Debug, Clone)]
pub struct MonitorSettings {
    /// Seed of everything random, instead of the lab's.
    pub seed: Option<u64>,
    /// Cores for the run; the result does not depend on it.
    pub threads: usize,
    /// The length of the first intervals.
    pub every: Span,
    /// How many intervals there are at most; they double in length when there would be more.
    pub most: u32,
}

impl Default for MonitorSettings {
    /// Microseconds, at most 512 intervals: as many as a picture shows.
    fn default() -> MonitorSettings {
        MonitorSettings { seed: None, threads: 1, every: Span::from_us(1), most: 512 }
    }
}

/// Runs a lab and watches it.
///
/// # Errors
/// What the lab, the cluster or the engine does not do; a lab with several runs.
pub fn monitor(catalog: &Catalog, lab: &ResolvedLab, settings: &MonitorSettings) -> Result<Monitor, LabError> {
    let counting = Counting::Sampled { every: settings.every, most: settings.most };
    let seed = settings.seed.unwrap_or(lab.lab.seed);
    if let Workload::Jobs(work) = &lab.lab.workload {
        let (names, jobs) = owners(work, lab.cluster.endpoints());
        let (cluster, run) = together(lab, work, (counting, Arc::clone(&jobs)), settings.threads, seed)?;
        return seen(lab, (&cluster, &run), names, &jobs, seed);
    }
    let asked = RunSettings { seed: settings.seed, threads: settings.threads, counting, ..RunSettings::default() };
    match run(catalog, lab, &asked)? {
        LabRun::One(single) => {
            let jobs: Arc<[u16]> = vec![0; single.cluster.fabric.graph.endpoint_count() as usize].into();
            let name = lab.lab.workload.name().to_owned();
            seen(lab, (&single.cluster, &single.run), vec![name], &jobs, seed)
        }
        LabRun::Sweep(_) => {
            Err(LabError::refused(format!("{}: a sweep has several runs", lab.name()), "watch a pattern, a benchmark or [workload.jobs]"))
        }
    }
}

/// Names of jobs, and the job of each endpoint.
fn owners(work: &Jobs, hosts: u32) -> (Vec<String>, Arc<[u16]>) {
    let mut of: Vec<Vec<usize>> = vec![Vec::new(); hosts as usize];
    for (number, job) in work.jobs.iter().enumerate() {
        for host in job.hosts.among(hosts) {
            if let Some(jobs) = of.get_mut(host as usize).filter(|jobs| !jobs.contains(&number)) {
                jobs.push(number);
            }
        }
    }
    let mut names: Vec<String> = work.jobs.iter().map(|job| job.name.clone()).collect();
    let mut shared: BTreeMap<Vec<usize>, u16> = BTreeMap::new();
    let jobs = of.into_iter().map(|jobs| match jobs[..] {
        [] => NO_JOB,
        [one] => u16::try_from(one).unwrap_or(NO_JOB),
        _ => *shared.entry(jobs.clone()).or_insert_with(|| {
            names.push(jobs.iter().map(|job| work.jobs[*job].name.as_str()).collect::<Vec<_>>().join(" + "));
            u16::try_from(names.len() - 1).unwrap_or(NO_JOB)
        }),
    });
    let jobs = jobs.collect();
    (names, jobs)
}

fn seen(lab: &ResolvedLab, (cluster, run): (&Cluster, &Run), names: Vec<String>, jobs: &[u16], seed: u64) -> Result<Monitor, LabError> {
    let nothing = || LabError::refused("nothing was counted", "use the packet engine (engine = \"packet\")");
    let (counters, named) = run.counters.as_ref().zip(readings(cluster, run)?).ok_or_else(nothing)?;
    let too_many = |many: fabriscope_report::counters::TooMany| LabError::refused(many.to_string(), "take fewer --samples");
    let named = named.with_jobs(counters, &names, |place| site(cluster, place)).map_err(too_many)?;
    let graph = &cluster.fabric.graph;
    let (switches, endpoints) = (graph.switch_count(), graph.endpoint_count());
    let subnet = export::subnet(&cluster.fabric);
    let port = |link: u32| {
        let from = graph.link(LinkId(link));
        // Adapters have the first LIDs, as in `exec`; switches come after them.
        let (device, lid) = match graph.node(from.from) {
            Node::Switch(switch) => (switch.0, endpoints + switch.0 + 1),
            Node::Endpoint(endpoint) => (switches + endpoint.0, endpoint.0 + 1),
        };
        let known = subnet.devices.get(device as usize);
        let site = site(cluster, CounterPlace::Port(link));
        let description = match site.at {
            At::SwitchPort => site.instance.clone(),
            At::AdapterPort | At::Adapter => format!("{} {}", site.instance, site.device),
        };
        Port {
            guid: known.and_then(|device| device.guid).unwrap_or_default(),
            lid,
            number: u32::from(from.from_port.0) + 1,
            description,
            site,
        }
    };
    let adapter = |endpoint: u32| {
        let site: Site = site(cluster, CounterPlace::Adapter(endpoint));
        Adapter { endpoint, site, job: jobs.get(endpoint as usize).copied().filter(|job| *job != NO_JOB) }
    };
    let hosts = |number: usize| jobs.iter().filter(|job| usize::from(**job) == number).count() as u32;
    let parts = &lab.cluster;
    let notes = vec![
        lab.name().to_owned(),
        format!("cluster {}: {} nodes, MTU {}, routing {}", parts.name, parts.nodes(), parts.mtu, parts.routing),
        format!("workload {}, seed {seed}", lab.lab.workload.name()),
    ];
    Ok(Monitor {
        counters: counters.clone(),
        readings: named,
        dialect: dialect(&cluster.parts),
        ports: (0..graph.link_count()).map(port).collect(),
        adapters: (0..endpoints).map(adapter).collect(),
        jobs: names.into_iter().enumerate().map(|(number, name)| Job { name, hosts: hosts(number) }).collect(),
        end: run.end,
        notes,
    })
}
