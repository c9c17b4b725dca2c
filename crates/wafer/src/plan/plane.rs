//! Operations on a rectangle of cores: lines first, then the lines of their first cores.
//!
//! Source: Luczynski et al. (HPDC 2024), §6: X-Y, snake, broadcast in two dimensions.

use super::{Algorithm, Flow, Hop, Payload, Plan, PlanError, line};
use crate::mesh::{Costs, Mesh};

/// The sum of all rows at their first cores, then of the first column; then to all, if `all`.
pub(super) fn reduce(mesh: Mesh, costs: Costs, algorithm: Algorithm, count: u64, all: bool) -> Plan {
    let mut plan = Plan::default();
    let rows = row_sums(mesh, costs, algorithm, count, &mut plan);
    let parents = line::parents(algorithm, mesh.rows, count, costs);
    let came = line::reduce(&mut plan, &column(mesh, 0), &parents, (count, Payload::Sum), &rows);
    plan.close();
    if all {
        flood(mesh, &mut plan, count, came);
        plan.close();
    }
    plan
}

/// All-reduces of all rows, then of all columns.
pub(super) fn lines(mesh: Mesh, costs: Costs, algorithm: Algorithm, count: u64) -> Plan {
    let mut plan = Plan::default();
    let rows = row_sums(mesh, costs, algorithm, count, &mut plan);
    let mut of_rows = Vec::with_capacity(mesh.rows as usize);
    for row in 0..mesh.rows {
        of_rows.push(line::spread(&mut plan, &self::row(mesh, row), count, Payload::Sum, rows[row as usize].clone()));
    }
    plan.close();
    let parents = line::parents(algorithm, mesh.rows, count, costs);
    let mut sums = Vec::with_capacity(mesh.columns as usize);
    for place in 0..mesh.columns {
        // The sum of a row is at its first core by what came there, at the others by the stream back.
        let known = |row: u32| match (place, of_rows[row as usize]) {
            (1.., Some(back)) => vec![back],
            _ => rows[row as usize].clone(),
        };
        let before: Vec<Vec<u32>> = (0..mesh.rows).map(known).collect();
        let cores = column(mesh, place);
        let payload = if place == 0 { Payload::Sum } else { Payload::Copy };
        sums.push((payload, line::reduce(&mut plan, &cores, &parents, (count, payload), &before)));
    }
    plan.close();
    for (place, (payload, came)) in sums.into_iter().enumerate() {
        line::spread(&mut plan, &column(mesh, place as u32), count, payload, came);
    }
    plan.close();
    plan
}

/// One chain through all rows, there and back in turn.
pub(super) fn snake(mesh: Mesh, count: u64, all: bool) -> Plan {
    let mut plan = Plan::default();
    let cores = snaking(mesh);
    let parents: Vec<u32> = (0..cores.len() as u32).map(|core| core.saturating_sub(1)).collect();
    let came = line::reduce(&mut plan, &cores, &parents, (count, Payload::Sum), &[]);
    plan.close();
    if all {
        flood(mesh, &mut plan, count, came);
        plan.close();
    }
    plan
}

/// A ring of all cores, along the snake and back.
pub(super) fn rings(mesh: Mesh, count: u64) -> Result<Plan, PlanError> {
    let cores = snaking(mesh);
    let streams = 2 * (cores.len() as u64 - 1) * cores.len() as u64;
    if streams > super::MOST {
        return Err(PlanError::Streams);
    }
    if count < cores.len() as u64 {
        return Err(PlanError::Parts { elements: count, parts: cores.len() as u32 });
    }
    let mut plan = Plan::default();
    line::ring(mesh, &mut plan, &cores, count);
    plan.close();
    Ok(plan)
}

/// From the first core down the first column, and from there along all rows.
pub(super) fn flood(mesh: Mesh, plan: &mut Plan, count: u64, after: Vec<u32>) {
    let mut route = Vec::with_capacity(mesh.cores() as usize);
    for row in 1..mesh.rows {
        route.push(Hop { after: row - 1, to: mesh.at(0, row), delivers: true });
    }
    for row in 0..mesh.rows {
        for place in 1..mesh.columns {
            // The router of the first column, or the one that the hop before leads to.
            let after = if place == 1 { row } else { route.len() as u32 };
            route.push(Hop { after, to: mesh.at(place, row), delivers: true });
        }
    }
    if !route.is_empty() {
        let payload = if after.is_empty() { Payload::Copy } else { Payload::Sum };
        plan.push(Flow { from: 0, first: 0, count, payload, after, route });
    }
}

/// The sums of all rows; what comes to the first core of each.
fn row_sums(mesh: Mesh, costs: Costs, algorithm: Algorithm, count: u64, plan: &mut Plan) -> Vec<Vec<u32>> {
    let parents = line::parents(algorithm, mesh.columns, count, costs);
    let sums = (0..mesh.rows).map(|row| line::reduce(plan, &self::row(mesh, row), &parents, (count, Payload::Sum), &[])).collect();
    plan.close();
    sums
}

fn row(mesh: Mesh, row: u32) -> Vec<u32> {
    (0..mesh.columns).map(|place| mesh.at(place, row)).collect()
}

fn column(mesh: Mesh, place: u32) -> Vec<u32> {
    (0..mesh.rows).map(|row| mesh.at(place, row)).collect()
}

fn snaking(mesh: Mesh) -> Vec<u32> {
    let place = |row: u32, step: u32| if row.is_multiple_of(2) { step } else { mesh.columns - 1 - step };
    (0..mesh.rows).flat_map(|row| (0..mesh.columns).map(move |step| mesh.at(place(row, step), row))).collect()
}
