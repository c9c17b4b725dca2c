//! Every core's elements are in the sum once, at every core that has it.

use super::*;

const COSTS: Costs = Costs { ramp: 2, hop: 1, add: 1 };

/// How often the elements of each core are in what a stream carries.
fn values(mesh: Mesh, plan: &Plan) -> Vec<Vec<u32>> {
    let mut values: Vec<Vec<u32>> = Vec::new();
    for flow in &plan.flows {
        let mut value = vec![0; mesh.cores() as usize];
        if flow.payload == Payload::Sum {
            value[flow.from as usize] = 1;
        }
        for before in &flow.after {
            let other = &plan.flows[*before as usize];
            assert_eq!((other.first, other.count), (flow.first, flow.count), "waits for the same elements");
            assert!(other.route.iter().any(|hop| hop.delivers && hop.to == flow.from), "waits for what comes to its core");
            for (mine, theirs) in value.iter_mut().zip(&values[*before as usize]) {
                *mine += theirs;
            }
        }
        values.push(value);
    }
    values
}

fn meshes() -> [Mesh; 7] {
    [(1, 1), (2, 1), (1, 5), (9, 1), (4, 4), (7, 3), (6, 5)].map(|(columns, rows)| Mesh { columns, rows })
}

#[test]
fn sums_are_whole_at_the_first_core() {
    for mesh in meshes() {
        for algorithm in Algorithm::ALL.into_iter().filter(|algorithm| algorithm.has(Operation::Reduce)) {
            let plan = Plan::new(mesh, COSTS, Operation::Reduce, (algorithm, Broadcast::Flood), 40).unwrap();
            let values = values(mesh, &plan);
            let mut sum = vec![0; mesh.cores() as usize];
            sum[0] = 1;
            for (flow, value) in plan.flows.iter().zip(&values) {
                if flow.route.iter().any(|hop| hop.delivers && hop.to == 0) {
                    sum.iter_mut().zip(value).for_each(|(sum, more)| *sum += more);
                }
            }
            assert!(sum.iter().all(|times| *times == 1), "{mesh:?} {}", algorithm.name());
        }
    }
}

#[test]
fn sums_are_whole_at_all() {
    for mesh in meshes() {
        for algorithm in Algorithm::ALL {
            for broadcast in [Broadcast::Flood, Broadcast::Lines] {
                let plan = Plan::new(mesh, COSTS, Operation::AllReduce, (algorithm, broadcast), 40).unwrap();
                let values = values(mesh, &plan);
                for core in 0..mesh.cores() {
                    let touches = |flow: &Flow| flow.from == core || flow.route.iter().any(|hop| hop.delivers && hop.to == core);
                    let whole = |number: usize| values[number].iter().all(|times| *times == 1);
                    let mut got: Vec<(u64, u64)> = plan
                        .flows
                        .iter()
                        .enumerate()
                        .filter(|(at, flow)| whole(*at) && touches(flow))
                        .map(|(_, flow)| (flow.first, flow.count))
                        .collect();
                    got.sort_unstable();
                    got.dedup();
                    let all: u64 = got.iter().map(|(_, count)| count).sum();
                    assert!(mesh.cores() == 1 || all == 40, "{mesh:?} {} {broadcast:?}: core {core} has {all}", algorithm.name());
                }
            }
        }
    }
}

#[test]
fn what_cannot_be_planned_says_why() {
    let plan = |columns, operation, algorithm, elements| {
        Plan::new(Mesh { columns, rows: 1 }, COSTS, operation, (algorithm, Broadcast::Flood), elements).unwrap_err().to_string()
    };
    assert_eq!(plan(0, Operation::Reduce, Algorithm::Chain, 1), "a mesh of 0 by 1 cores");
    assert_eq!(plan(4, Operation::Reduce, Algorithm::Chain, 0), "vectors of no elements");
    assert!(plan(4, Operation::Reduce, Algorithm::Ring, 8).starts_with("`ring` has parts"));
    assert_eq!(plan(9, Operation::AllReduce, Algorithm::Ring, 8), "8 elements for the 9 parts of a ring");
    assert_eq!(plan(60000, Operation::AllReduce, Algorithm::Ring, 1 << 20), "more than 16777216 streams");
}
