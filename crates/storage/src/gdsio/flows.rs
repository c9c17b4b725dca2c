//! Threads, drives and flows over time.
//!
//! Modelled: a call at a time of each thread; drives in the order of arrival, whose data flow on while they are read; a flow is no faster
//! than its drive, and shares links and limits with all others.
//! With a file system: a request there and back, a core's time and the OST's drives, and the adapter's link beside those of the node.

use std::collections::BTreeMap;
use std::sync::Arc;

use fabriscope_engine_storage::Line;
use fabriscope_lustre::{Access, Array};
use fabriscope_machine::{FlowId, Purpose, ResourceId, Sharing, Use, VertexKind, Weight};
use fabriscope_tool::UsageError;
use fabriscope_units::{Bytes, Rate, Span, Time};

use super::node::StorageNode;
use super::paths::{Legs, above};
use super::{Settings, Transfer, conflict};
use crate::agenda::Agenda;
use crate::mount::Mount;

/// What came of it.
#[derive(Debug, Clone)]
pub(super) struct Outcome {
    pub bytes: Bytes,
    pub time: Span,
    /// The mean time of a call.
    pub each: Span,
    pub remarks: Vec<String>,
}

/// What a thread turns to.
#[derive(Debug, Clone, Copy)]
enum Turn {
    /// It calls.
    Call,
    /// Its drive begins with it.
    Begins,
    /// Its drive is done with what it does besides.
    Done,
}

struct Thread {
    gpu: usize,
    calls: u64,
    /// Calls so far, the drive of this one, the leg that its data are on.
    number: u64,
    drive: usize,
    leg: usize,
    called: Time,
    /// Before which its drive is not done.
    drive_end: Time,
}

/// Drives as stations: those of the node, or those of a file system's targets.
struct Source {
    array: Array,
    lines: Vec<Line>,
    /// Before a drive sees a call, and after it is done.
    request: Span,
}

struct Running<'a> {
    s: &'a Settings,
    threads: Vec<Thread>,
    source: Source,
    /// Of each GPU, by drive or adapter.
    legs: Vec<Vec<Legs>>,
    sharing: Sharing,
    capacities: Vec<Rate>,
    in_flight: BTreeMap<FlowId, usize>,
    agenda: Agenda<(usize, Turn)>,
    /// Time that what has passed takes of each resource, in s.
    taken: BTreeMap<ResourceId, f64>,
}

/// Calls that are simulated, at most; rates are steady long before. Basis: assumed (a second of a core).
const CALLS: u64 = 100_000;

/// Runs all threads to their end, or until rates are steady.
pub(super) fn run(s: &Settings, node: &StorageNode, mount: Option<&Mount>) -> Result<Outcome, UsageError> {
    let machine = &node.machine;
    // Both directions of each link, then four limits of each vertex.
    let resources = machine.links().len() as u32 * 2 + machine.vertices().len() as u32 * 4;
    let mut capacities: Vec<Rate> = (0..resources).map(|id| machine.capacity(ResourceId(id)).unwrap_or_default()).collect();
    let gpus = machine.gpus();
    let mut legs: Vec<Vec<Legs>> = Vec::new();
    let mut remarks = Vec::new();
    let mut names: BTreeMap<ResourceId, String> = BTreeMap::new();
    for gpu in &s.gpus {
        let gpu = gpus[*gpu as usize];
        let mut of_gpu = Vec::new();
        if mount.is_some() {
            let nics: Vec<_> = machine.of(|kind| kind == VertexKind::Nic).collect();
            let near = if s.transfer == Transfer::GpuDirect { gpu } else { machine.host_memory_of(gpu).unwrap_or(gpu) };
            let Some(nic) = machine.nearest(near, &nics, Purpose::Dma) else {
                return conflict("no adapter of the node reaches the GPU".to_owned(), "take a cluster whose nodes have adapters and GPUs");
            };
            let mut way = Legs::new(machine, nic, gpu, (s.transfer, s.write))?;
            // The adapter's link, one direction.
            let link = ResourceId(resources + nic.0);
            capacities.resize(capacities.len().max(link.0 as usize + 1), Rate::default());
            capacities[link.0 as usize] = node.link;
            names.insert(link, format!("the link of {}", machine.vertex(nic).name));
            let place = if s.write { way.uses.len() - 1 } else { 0 };
            way.uses[place] = way.uses[place].iter().copied().chain([Use { resource: link, weight: Weight::ONE }]).collect();
            of_gpu.push(way);
        } else {
            for name in &s.under {
                of_gpu.push(Legs::new(machine, above(machine, name)?, gpu, (s.transfer, s.write))?);
            }
        }
        for way in &of_gpu {
            remarks.push(format!("{}: {}", machine.vertex(gpu).name, way.told));
        }
        legs.push(of_gpu);
    }
    remarks.dedup();
    let source = match (mount, &s.drive) {
        (Some(mount), _) => {
            let system = &mount.system;
            let request = system.message + system.costs.oss.rpc.value;
            Source { array: system.oss.array.clone(), lines: vec![Line::default(); system.osts().max(1) as usize], request }
        }
        (None, Some(drive)) => {
            Source { array: Array::one(drive), lines: vec![Line::default(); s.drives.max(1) as usize], request: Span::ZERO }
        }
        (None, None) => return conflict("there are no drives".to_owned(), "name one: --drive nvme-gen4"),
    };
    let calls = (s.size.0 / s.call.0 / u64::from(s.threads)).max(1);
    let all = (s.gpus.len() * s.threads as usize) as u64;
    let calls = calls.min((CALLS / all).max(20));
    let thread = |gpu| Thread { gpu, calls, number: 0, drive: 0, leg: 0, called: Time::ZERO, drive_end: Time::ZERO };
    let running = Running {
        s,
        threads: (0..s.gpus.len()).flat_map(|gpu| (0..s.threads).map(move |_| thread(gpu))).collect(),
        source,
        legs,
        sharing: Sharing::new(capacities.clone()),
        capacities,
        in_flight: BTreeMap::new(),
        agenda: Agenda::new(),
        taken: BTreeMap::new(),
    };
    let (mut outcome, taken, busy) = running.go();
    let name = |id: &ResourceId| names.get(id).cloned().unwrap_or_else(|| machine.describe(*id));
    let seconds = outcome.time.as_s_f64().max(f64::MIN_POSITIVE);
    let drives = if mount.is_some() { "OST drives".to_owned() } else { "drives".to_owned() };
    let links = taken.iter().map(|(id, time)| (name(id), time / seconds));
    let most = links.chain([(drives, busy / seconds)]).max_by(|one, other| one.1.total_cmp(&other.1));
    if let Some((what, share)) = most {
        let share = (share * 100.0).min(100.0);
        let binds = if share >= 70.0 { "it binds" } else { "latency of single calls binds: more threads would give more" };
        remarks.push(format!("most at work: {what}, {share:.0} % of the time; {binds}"));
    }
    outcome.remarks = remarks;
    Ok(outcome)
}

impl Running<'_> {
    fn go(mut self) -> (Outcome, BTreeMap<ResourceId, f64>, f64) {
        for thread in 0..self.threads.len() {
            self.agenda.note(Time::from_ps(thread as u64 * 1000), (thread, Turn::Call));
        }
        let (mut now, mut spent, mut calls) = (Time::ZERO, 0u128, 0u64);
        loop {
            let flow = self.sharing.next_end().unwrap_or(Time::MAX);
            let next = self.agenda.next().min(flow);
            if next == Time::MAX {
                break;
            }
            now = next;
            self.sharing.advance(now);
            while let Some(id) = self.sharing.take_first_ended() {
                if let Some(thread) = self.in_flight.remove(&id) {
                    self.leg_done(now, thread);
                }
            }
            while let Some((at, (thread, turn))) = self.agenda.due(now) {
                match turn {
                    Turn::Call if self.threads[thread].number < self.threads[thread].calls => self.call(at, thread),
                    Turn::Call => {}
                    Turn::Begins => self.flow(at, thread),
                    Turn::Done => {
                        spent += u128::from(at.since(self.threads[thread].called).as_ps());
                        calls += 1;
                        self.agenda.note(at, (thread, Turn::Call));
                    }
                }
            }
        }
        let count = self.source.lines.len() as f64;
        let busy = self.source.lines.iter().map(|line| line.busy().as_s_f64()).sum::<f64>() / count;
        let each = Span::from_ps(u64::try_from(spent / u128::from(calls.max(1))).unwrap_or(u64::MAX));
        let outcome = Outcome { bytes: Bytes(calls * self.s.call.0), time: now.since(Time::ZERO), each, remarks: Vec::new() };
        (outcome, self.taken, busy)
    }

    fn call(&mut self, now: Time, thread: usize) {
        let drives = self.source.lines.len();
        let own = &mut self.threads[thread];
        own.called = now;
        own.leg = 0;
        own.drive = (thread + own.number as usize) % drives;
        own.number += 1;
        if self.s.write && self.legs_of(thread).uses.len() > 1 {
            // The GPU copies into host memory first.
            self.flow(now, thread);
        } else {
            self.submit(now, thread);
        }
    }
    /// The drive has the call: data flow when its turn comes.
    fn submit(&mut self, now: Time, thread: usize) {
        let access = Access { write: self.s.write, bytes: self.s.call, sequential: !self.s.random };
        let service = self.source.array.service(access, 0);
        let own = &mut self.threads[thread];
        let line = &mut self.source.lines[own.drive];
        let asked = now.saturating_add(self.source.request);
        let begins = line.begins(asked);
        let end = line.take(asked, service.occupied);
        own.drive_end = end.saturating_add(service.besides);
        // What is read comes out once the drive has found it; what is written goes in at once.
        let begins = if self.s.write { begins } else { begins.saturating_add(service.besides) };
        self.agenda.note(begins, (thread, Turn::Begins));
    }
    fn legs_of(&self, thread: usize) -> &Legs {
        let own = &self.threads[thread];
        let of_gpu = &self.legs[own.gpu];
        &of_gpu[own.drive % of_gpu.len()]
    }
    /// Whether the leg that the data are on is the one at the drive.
    fn at_drive(&self, thread: usize) -> bool {
        let leg = self.threads[thread].leg;
        if self.s.write { leg + 1 == self.legs_of(thread).uses.len() } else { leg == 0 }
    }
    fn flow(&mut self, now: Time, thread: usize) {
        let uses: Arc<[Use]> = Arc::clone(&self.legs_of(thread).uses[self.threads[thread].leg]);
        for used in uses.iter() {
            let rate = self.capacities.get(used.resource.0 as usize).map_or(0.0, |rate| used.weight.payload_of(*rate).as_bytes_per_s_f64());
            if rate > 0.0 {
                *self.taken.entry(used.resource).or_default() += self.s.call.0 as f64 / rate;
            }
        }
        let most = if self.at_drive(thread) {
            let Array { rates, data, .. } = &self.source.array;
            Rate::from_bps(rates[usize::from(self.s.write)].as_bps().saturating_mul(*data))
        } else {
            UNBOUND
        };
        let id = self.sharing.start(now, self.s.call, uses, most);
        self.in_flight.insert(id, thread);
    }
    fn leg_done(&mut self, now: Time, thread: usize) {
        let at_drive = self.at_drive(thread);
        self.threads[thread].leg += 1;
        let more = self.threads[thread].leg < self.legs_of(thread).uses.len();
        let drive_end = self.threads[thread].drive_end;
        // A reply comes back from servers.
        let back = self.source.request;
        match (self.s.write, more) {
            (true, true) => self.submit(now, thread),
            (true, false) => self.agenda.note(now.max(drive_end).saturating_add(back), (thread, Turn::Done)),
            (false, true) => {
                let begins = if at_drive { now.max(drive_end) } else { now };
                self.agenda.note(begins, (thread, Turn::Begins));
            }
            (false, false) => {
                let end = if at_drive { now.max(drive_end) } else { now };
                self.agenda.note(end, (thread, Turn::Done));
            }
        }
    }
}

/// What no link of a node carries. Basis: assumed.
const UNBOUND: Rate = Rate::from_gbps(1_000_000);

#[cfg(test)]
mod tests {
    use fabriscope_catalog::Catalog;

    use super::super::run;
    use super::StorageNode;

    fn gib_per_s(cluster: &str, args: &str) -> (f64, String) {
        let catalog = Catalog::embedded().unwrap();
        let node = StorageNode::new(&catalog.target(cluster).unwrap()).unwrap();
        let args: Vec<String> = args.split_whitespace().map(str::to_owned).collect();
        let done = run(&args, &node, None).unwrap();
        (done.points[0].value, done.remarks.last().unwrap().clone())
    }

    /// One drive of 7 GB/s = 6.52 GiB/s is slower than every link: all paths give what it reads. Published of one drive with four threads:
    /// 6.62, 6.48 and 6.57 GiB/s (NVIDIA developer forum, topic 346097).
    #[test]
    fn one_drive_binds_on_either_path() {
        for path in 0..3 {
            let (rate, binds) = gib_per_s("selene", &format!("-x {path} -w 4 -i 1m -s 4g --drive nvme-gen4 --drives 1"));
            assert!((rate / 6.52 - 1.0).abs() < 0.03, "-x {path}: {rate}, {binds}");
            assert!(binds.contains("drives"), "{binds}");
        }
    }

    /// Two GPUs and many drives below one switch: past the host each GPU ends at its own link of PCI Express 4.0 x16 (24 to 26 GiB/s are
    /// measured on such links, gds-report.pages.dev), and both have twice that; through the host all bytes pass the one link above the switch.
    #[test]
    fn the_direct_path_ends_at_each_gpu_and_the_other_at_the_switch() {
        let of = |gpus: &str, path: u32| {
            let args = format!("-x {path} {gpus} --drive nvme-gen4 --drives 16 -w 32 -s 8g --under sw0");
            gib_per_s("selene", &args).0
        };
        let (one, two, bounced) = (of("-d 0", 0), of("-d 0 -d 1", 0), of("-d 0 -d 1", 2));
        assert!((20.0..27.0).contains(&one), "{one} GiB/s");
        assert!((two / one - 2.0).abs() < 0.1, "{one} and {two}");
        // All threads copy at the same time, so that the link above the switch is not always at work.
        assert!((one * 0.7..one * 1.05).contains(&bounced), "{bounced} through the host, {one} of one GPU past it");
    }
}
