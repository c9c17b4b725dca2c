//! The same machine, one cycle and one wavelet at a time, with queues at routers: what the runs of cycles are checked against.
//!
//! Modelled: a queue for each input of a router, of which the first wavelet alone may go on; a wavelet is sent when the queue that it goes to
//! has room.

use std::collections::VecDeque;

use crate::mesh::{Costs, Mesh};
use crate::plan::{Algorithm, Broadcast, Operation, Plan};
use crate::simulate::simulate;

/// A queue before a router.
struct Queue {
    /// Stream and number of each wavelet.
    waiting: VecDeque<(usize, u64)>,
    /// In it or on the way to it.
    taken: usize,
}

/// What takes one wavelet a cycle: the streams that it takes, in order, and what has passed of the first.
#[derive(Default)]
struct Output {
    order: VecDeque<usize>,
    passed: u64,
}

struct Machine<'p> {
    mesh: Mesh,
    plan: &'p Plan,
    /// Links, then ramps from cores, then ramps to cores.
    outputs: Vec<Output>,
    /// Behind links, then behind the ramps from cores.
    queues: Vec<Queue>,
    depth: usize,
}

impl Machine<'_> {
    /// The router of a stream behind a queue.
    fn router(&self, number: usize, queue: usize) -> usize {
        let flow = &self.plan.flows[number];
        if queue >= self.mesh.links() {
            return 0;
        }
        let at = |place: usize| if place == 0 { flow.from } else { flow.route[place - 1].to };
        1 + flow.route.iter().position(|hop| self.mesh.link(at(hop.after as usize), hop.to) as usize == queue).unwrap()
    }
    /// Outputs that a wavelet at a router takes, all at once; for those that are links, the queue behind them as well.
    fn needs(&self, number: usize, router: usize) -> Vec<usize> {
        let flow = &self.plan.flows[number];
        let core = if router == 0 { flow.from } else { flow.route[router - 1].to };
        let hops = flow.route.iter().filter(|hop| hop.after as usize == router);
        let mut needs: Vec<usize> = hops.map(|hop| self.mesh.link(core, hop.to) as usize).collect();
        if router > 0 && flow.route[router - 1].delivers {
            needs.push(self.mesh.links() + (self.mesh.cores() + core) as usize);
        }
        needs
    }
    /// Whether it is the turn of a wavelet at all these outputs, and there is room behind them.
    fn passes(&self, (number, wavelet): (usize, u64), needs: &[usize]) -> bool {
        needs.iter().all(|output| {
            let way = &self.outputs[*output];
            let room = self.queues.get(*output).is_none_or(|queue| *output >= self.mesh.links() || queue.taken < self.depth);
            way.order.front() == Some(&number) && way.passed == wavelet && room
        })
    }
    fn take(&mut self, output: usize, number: usize) {
        let way = &mut self.outputs[output];
        way.passed += 1;
        if way.passed == self.plan.flows[number].count {
            way.order.pop_front();
            way.passed = 0;
        }
    }
}

fn naive(mesh: Mesh, costs: Costs, plan: &Plan, depth: usize) -> u64 {
    let (links, cores) = (mesh.links(), mesh.cores() as usize);
    let outputs = (0..links + 2 * cores).map(|_| Output::default()).collect();
    let queues = (0..links + cores).map(|_| Queue { waiting: VecDeque::new(), taken: 0 }).collect();
    let mut machine = Machine { mesh, plan, outputs, queues, depth };
    for (number, flow) in plan.flows.iter().enumerate().filter(|(_, flow)| flow.count > 0) {
        machine.outputs[links + flow.from as usize].order.push_back(number);
        for router in 0..=flow.route.len() {
            for output in machine.needs(number, router) {
                machine.outputs[output].order.push_back(number);
            }
        }
    }
    let begin = |number: usize| plan.phases.iter().map(|end| *end as usize).filter(|end| *end <= number).max().unwrap_or(0);
    // When each element of each stream came to each core.
    let mut came: Vec<Vec<Vec<u64>>> = plan.flows.iter().map(|_| vec![Vec::new(); cores]).collect();
    let mut coming: Vec<(u64, usize, usize, u64)> = Vec::new();
    let (mut cycle, mut last) = (0u64, 0u64);
    while machine.outputs.iter().any(|output| !output.order.is_empty()) {
        coming.sort_unstable();
        let there = coming.partition_point(|first| first.0 <= cycle);
        for (_, queue, number, wavelet) in coming.drain(..there) {
            machine.queues[queue].waiting.push_back((number, wavelet));
        }
        // Each output has passed one wavelet at most in a cycle.
        let mut used = vec![false; links + 2 * cores];
        for queue in 0..links + cores {
            let Some((number, wavelet)) = machine.queues[queue].waiting.front().copied() else { continue };
            let needs = machine.needs(number, machine.router(number, queue));
            if needs.iter().any(|output| used[*output]) || !machine.passes((number, wavelet), &needs) {
                continue;
            }
            machine.queues[queue].waiting.pop_front();
            machine.queues[queue].taken -= 1;
            for output in needs {
                used[output] = true;
                machine.take(output, number);
                if output < links {
                    machine.queues[output].taken += 1;
                    coming.push((cycle + costs.hop, output, number, wavelet));
                } else {
                    came[number][output - links - cores].push(cycle + costs.ramp);
                    last = last.max(cycle + costs.ramp + costs.add);
                }
            }
        }
        for ramp in links..links + cores {
            let core = ramp - links;
            let Some(number) = machine.outputs[ramp].order.front().copied() else { continue };
            let (flow, wavelet) = (&plan.flows[number], machine.outputs[ramp].passed);
            let ready = |before: &u32| {
                let element = if (*before as usize) < begin(number) { flow.count - 1 } else { wavelet };
                came[*before as usize][core].get(element as usize).is_some_and(|at| at + costs.add <= cycle)
            };
            if flow.after.iter().all(ready) && machine.queues[ramp].taken < depth {
                machine.take(ramp, number);
                machine.queues[ramp].taken += 1;
                coming.push((cycle + costs.ramp, ramp, number, wavelet));
            }
        }
        cycle += 1;
        assert!(cycle < 100_000, "no end");
    }
    last
}

/// For each algorithm on small meshes, the cycles of both, with long queues and with queues of four.
#[test]
fn runs_of_cycles_are_cycles() {
    let costs = [Costs { ramp: 2, hop: 1, add: 1 }, Costs { ramp: 1, hop: 3, add: 2 }];
    for (columns, rows) in [(2, 1), (7, 1), (16, 1), (1, 6), (4, 4), (5, 3)] {
        let mesh = Mesh { columns, rows };
        for operation in [Operation::Reduce, Operation::Broadcast, Operation::AllReduce] {
            for algorithm in Algorithm::ALL.into_iter().filter(|algorithm| algorithm.has(operation)) {
                for broadcast in [Broadcast::Flood, Broadcast::Lines] {
                    for count in [1, 3, 20, 64] {
                        if algorithm == Algorithm::Ring && count < u64::from(mesh.cores()) {
                            continue;
                        }
                        let costs = costs[usize::from(count == 3)];
                        let plan = Plan::new(mesh, costs, operation, (algorithm, broadcast), count).unwrap();
                        let fast = simulate(mesh, costs, &plan).cycles;
                        let what = format!("{columns}x{rows} {operation:?} {} {broadcast:?} {count}", algorithm.name());
                        assert_eq!(fast, naive(mesh, costs, &plan, usize::MAX), "{what}, long queues");
                        assert_eq!(fast, naive(mesh, costs, &plan, 4), "{what}, queues of four");
                    }
                }
            }
        }
    }
}
