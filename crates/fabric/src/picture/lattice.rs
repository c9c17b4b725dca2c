//! Grids: one dimension as a circle or a row, two as a lattice, three as layers, more as lattices of lattices.
//!
//! Lines between switches that do not stand beside each other bend, so that they pass by those in between: around the
//! ends of a torus, across the rows of a HyperX, between the blocks of a hypercube.

use super::groups;
use super::scene::{Line, Scene};
use super::sketch::{Anchor, Dot, Mark, Point, Sketch, Stroke};
use crate::graph::SwitchId;
use crate::topology::Grid;
use crate::topology::grid::Row;

/// The switches of a grid.
pub(super) fn lattice(scene: &Scene, grid: &Grid) -> Sketch {
    let dimensions = grid.dimensions();
    let wide: Vec<usize> = (0..dimensions.len()).filter(|&axis| dimensions[axis].size > 1).collect();
    if wide.len() == 1 && dimensions[wide[0]].row != Row::Line {
        return groups::circle(scene, "switch");
    }
    let steps = steps(grid, &wide);
    let place = |switch: SwitchId| {
        let add = |at: Point, (axis, step): (&usize, &Point)| at.step(*step, f64::from(grid.coordinate(switch, *axis)));
        wide.iter().zip(&steps).fold(Point::default(), add)
    };
    let raw: Vec<Point> = (0..grid.switches()).map(|switch| place(SwitchId(switch))).collect();
    let most = |of: fn(&Point) -> f64| raw.iter().map(of).fold(f64::NEG_INFINITY, f64::max);
    let least = |of: fn(&Point) -> f64| raw.iter().map(of).fold(f64::INFINITY, f64::min);
    let (low, high) = (Point::new(least(|p| p.x), least(|p| p.y)), Point::new(most(|p| p.x), most(|p| p.y)));
    // One unit is the distance of neighbours.
    let scale = (1120.0 / (high.x - low.x).max(1.0)).min(860.0 / (high.y - low.y).max(1.0)).min(118.0);
    let longest = scene.vertices.iter().map(|vertex| short(&vertex.name).len()).max().unwrap_or(0);
    let border = 64.0 + 5.0 * longest as f64;
    let width = ((high.x - low.x) * scale + 2.0 * border).max(720.0);
    let left = (width - (high.x - low.x) * scale) / 2.0;
    let places: Vec<Point> = raw.iter().map(|at| Point::new(left + (at.x - low.x) * scale, border + (at.y - low.y) * scale)).collect();
    let size = Point::new(width, (high.y - low.y) * scale + 2.0 * border);
    let mut sketch = Sketch { most: scene.most, size, ..Sketch::default() };
    let radius = (0.13 * scale).clamp(1.2, 11.0);
    for (index, vertex) in scene.vertices.iter().enumerate() {
        let at = places[index];
        sketch.marks.push(Mark { at, half: Point::new(radius, radius), label: String::new(), name: vertex.name.clone(), upper: false });
        hosts(&mut sketch, &vertex.hosts, at, radius);
        if scale >= 52.0 && scene.vertices.len() <= 144 {
            let text = short(&vertex.name);
            sketch.write(Point::new(at.x - radius - 2.0, at.y + radius + 9.0), Anchor::End, 9.5, text);
        }
    }
    let bends = |line: &Line| bend(grid, line, &places, scale, wide.len());
    sketch.strokes.extend(scene.lines.iter().map(|line| Stroke {
        from: places[line.ends[0]],
        to: places[line.ends[1]],
        bend: bends(line),
        load: line.load,
        cables: line.cables,
    }));
    sketch
}

/// The coordinates in a name, without commas where each has one digit.
fn short(name: &str) -> String {
    let numbers: Vec<&str> = name.trim_start_matches("switch ").trim_matches(['(', ')']).split(',').collect();
    numbers.join(if numbers.iter().all(|number| number.len() == 1) { "" } else { "," })
}

/// How far the next coordinate of each dimension is, in units.
fn steps(grid: &Grid, wide: &[usize]) -> Vec<Point> {
    let size = |index: usize| f64::from(grid.dimensions()[wide[index]].size);
    if wide.len() == 3 {
        // Layers seen from above at an angle, one below the other.
        let depth = Point::new(0.55, -0.5);
        return vec![Point::new(1.0, 0.0), depth, Point::new(0.0, 0.5 * (size(1) - 1.0) + 1.15)];
    }
    let (mut x, mut y) = (1.0, 1.0);
    let mut steps = Vec::new();
    for index in 0..wide.len() {
        let along = if index % 2 == 0 { &mut x } else { &mut y };
        steps.push(if index % 2 == 0 { Point::new(*along, 0.0) } else { Point::new(0.0, *along) });
        *along = *along * size(index) + if index < 2 { 0.35 } else { 0.7 };
    }
    steps
}

/// Where the line between two switches bends; nowhere between neighbours.
fn bend(grid: &Grid, line: &Line, places: &[Point], scale: f64, dimensions: usize) -> Option<Point> {
    let [from, to] = line.ends.map(|end| places[end]);
    let [a, b] = line.ends.map(|end| SwitchId(end as u32));
    let axis = (0..grid.dimensions().len()).find(|&axis| grid.coordinate(a, axis) != grid.coordinate(b, axis))?;
    let far = grid.coordinate(a, axis).abs_diff(grid.coordinate(b, axis));
    let length = from.distance(to);
    // Layers stand apart; blocks of a hypercube are crossed.
    if far <= 1 && (dimensions <= 3 || length < 1.2 * scale) {
        return None;
    }
    let across = Point::new((to.y - from.y) / length, (from.x - to.x) / length);
    // Rows bend upwards, columns to the right, layers too.
    let sign = if across.x.abs() > across.y.abs() { across.x.signum() } else { -across.y.signum() };
    let height = (0.22 * length).clamp(0.3 * scale, 0.8 * scale);
    Some(from.towards(to, 0.5).step(across, sign * height))
}

/// Endpoints below and to the right of a switch.
fn hosts(sketch: &mut Sketch, hosts: &[f64], at: Point, radius: f64) {
    let size = (0.24 * radius).clamp(0.5, 2.3);
    let across = (hosts.len() as f64).sqrt().ceil().max(1.0) as usize;
    for (index, &load) in hosts.iter().enumerate() {
        let (row, column) = ((index / across) as f64, (index % across) as f64);
        let place = Point::new(at.x + 0.75 * radius + 2.8 * size * (column + 0.6), at.y + 0.75 * radius + 2.8 * size * (row + 0.6));
        sketch.dots.push(Dot { at: place, radius: size, load });
    }
}
