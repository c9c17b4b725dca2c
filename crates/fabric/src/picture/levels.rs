//! Switches by level, the top above; endpoints as dots below the leaves, or counted where they are many.

use super::scene::{Line, Scene, Vertex};
use super::sketch::{Anchor, Dot, Mark, Point, Sketch, Stroke};
use crate::graph::SwitchId;
use crate::topology::Fabric;
use crate::topology::tree::Tree;

/// A scene by its levels, each in the order given, or in that of the numbers.
pub(super) fn levels(scene: &Scene, orders: Option<Vec<Vec<usize>>>) -> Sketch {
    let orders = orders.unwrap_or_else(|| by_level(scene));
    let widest = orders.iter().map(Vec::len).max().unwrap_or(1).max(1) as f64;
    let width = (LEFT + RIGHT + widest * 34.0).clamp(720.0, 1480.0);
    let inner = width - LEFT - RIGHT;
    let gap = if orders.len() > 3 { 150.0 } else { 185.0 };
    let mut sketch = Sketch { most: scene.most, ..Sketch::default() };
    let mut places = vec![Point::default(); scene.vertices.len()];
    let top = 24.0;
    for (above, order) in orders.iter().rev().enumerate() {
        let y = top + gap * above as f64;
        for (index, &vertex) in order.iter().enumerate() {
            places[vertex] = Point::new(LEFT + inner * (index as f64 + 0.5) / order.len() as f64, y);
        }
        let switches: u32 = order.iter().map(|&vertex| scene.vertices[vertex].switches).sum();
        let class = order.first().map_or("", |&vertex| scene.vertices[vertex].class.as_str());
        sketch.write(Point::new(28.0, y), Anchor::Start, 13.0, class);
        if switches > 0 {
            sketch.write(Point::new(28.0, y + 15.0), Anchor::Start, 12.0, format!("× {switches}"));
        }
        // A mark is as wide as its row allows, a row of few no wider than those of many.
        let half = (0.36 * inner / order.len() as f64).clamp(0.4, 13.0);
        let mut numbers: Vec<String> = order.iter().map(|&vertex| last_number(&scene.vertices[vertex].name)).collect();
        let mut different = numbers.clone();
        different.sort_unstable();
        different.dedup();
        if different.len() < numbers.len() && !scene.named {
            numbers = (0..order.len()).map(|index| index.to_string()).collect();
        }
        for (&vertex, number) in order.iter().zip(numbers) {
            let Vertex { name, level, switches, .. } = &scene.vertices[vertex];
            let label = if *switches == 1 && half > 9.0 { number } else { String::new() };
            let half = Point::new(half, if half > 5.0 { 8.0 } else { 7.0 });
            sketch.marks.push(Mark { at: places[vertex], half, label, name: name.clone(), upper: *level > 1 });
        }
    }
    let bottom = top + gap * orders.len().saturating_sub(1) as f64;
    let pitch = inner / orders.first().map_or(1, Vec::len).max(1) as f64;
    let hosts = endpoints(&mut sketch, scene, &places, pitch);
    sketch.strokes.extend(scene.lines.iter().map(|line| stroke(line, &places)));
    sketch.size = Point::new(width, bottom + hosts + 20.0);
    if scene.vertices.iter().any(|vertex| vertex.switches > 1) {
        sketch.notes.push("each mark stands for all equal switches of its subtree; a line has the load of its busiest cable".to_owned());
    }
    if scene.hidden > 0 {
        sketch.notes.push(format!("{} of the less busy lines are left out", scene.hidden));
    }
    sketch
}

/// An imported fabric: levels in an order in which lines cross less.
///
/// Source: K. Sugiyama, S. Tagawa, M. Toda, "Methods for visual understanding of hierarchical system structures", IEEE
/// Trans. Systems, Man and Cybernetics 11(2), 1981: each vertex in the middle of its neighbours, level by level.
pub(super) fn layered(scene: &Scene) -> Sketch {
    let mut orders = by_level(scene);
    let mut near: Vec<Vec<usize>> = vec![Vec::new(); scene.vertices.len()];
    for line in &scene.lines {
        near[line.ends[0]].push(line.ends[1]);
        near[line.ends[1]].push(line.ends[0]);
    }
    let mut place = vec![0.0; scene.vertices.len()];
    let settle = |order: &[usize], place: &mut [f64]| {
        order.iter().enumerate().for_each(|(index, &vertex)| place[vertex] = (index as f64 + 0.5) / order.len() as f64);
    };
    orders.iter().for_each(|order| settle(order, &mut place));
    for sweep in 0..SWEEPS {
        let count = orders.len();
        for step in 1..count {
            let at = if sweep % 2 == 0 { step } else { count - 1 - step };
            let from = if sweep % 2 == 0 { at - 1 } else { at + 1 };
            let level = orders[from].first().map_or(0, |&vertex| scene.vertices[vertex].level);
            let middle = |vertex: usize| {
                let (mut sum, mut number) = (0.0, 0.0);
                for &other in near[vertex].iter().filter(|&&other| scene.vertices[other].level == level) {
                    sum += place[other];
                    number += 1.0;
                }
                if number > 0.0 { sum / number } else { place[vertex] }
            };
            let mut keyed: Vec<(f64, usize)> = orders[at].iter().map(|&vertex| (middle(vertex), vertex)).collect();
            keyed.sort_by(|one, other| one.0.total_cmp(&other.0).then(one.1.cmp(&other.1)));
            orders[at] = keyed.into_iter().map(|(_, vertex)| vertex).collect();
            settle(&orders[at], &mut place);
        }
    }
    levels(scene, Some(orders))
}

/// A large tree: one vertex for all equal heads of a subtree.
pub(super) fn subtrees(fabric: &Fabric, tree: &Tree, loads: Option<&[f64]>) -> Scene {
    let first: Vec<u32> = (1..=tree.height())
        .scan(0u32, |sum, level| {
            let first = *sum;
            *sum += tree.subtrees(level) as u32;
            Some(first)
        })
        .collect();
    let count = (1..=tree.height()).map(|level| tree.subtrees(level) as u32).sum();
    let part = |switch: SwitchId| {
        let place = tree.place(switch);
        first[place.level as usize - 1] + place.subtree
    };
    let level_of = |index: u32| first.partition_point(|&first| first <= index) as u32;
    let name = |index: u32| format!("{} of subtree {}", tree.class(level_of(index)), index - first[level_of(index) as usize - 1]);
    let mut scene = Scene::merged(fabric, loads, part, count, name);
    for (index, vertex) in (0..).zip(&mut scene.vertices) {
        vertex.level = level_of(index);
        vertex.class = tree.class(vertex.level);
    }
    scene
}

fn by_level(scene: &Scene) -> Vec<Vec<usize>> {
    let top = scene.vertices.iter().map(|vertex| vertex.level).max().unwrap_or(1);
    let of = |level: u32| (0..scene.vertices.len()).filter(|&vertex| scene.vertices[vertex].level == level).collect();
    (1..=top).map(of).filter(|order: &Vec<usize>| !order.is_empty()).collect()
}

fn stroke(line: &Line, places: &[Point]) -> Stroke {
    let [from, to] = line.ends.map(|end| places[end]);
    // Lines within a level go round above it.
    let level = (from.y - to.y).abs() < 1.0;
    let bend = level.then(|| Point::new((from.x + to.x) / 2.0, from.y - (20.0 + 0.25 * (from.x - to.x).abs()).min(110.0)));
    Stroke { from, to, bend, load: line.load, cables: line.cables }
}

/// Endpoints below their switches; how much room they take.
fn endpoints(sketch: &mut Sketch, scene: &Scene, places: &[Point], pitch: f64) -> f64 {
    let most = scene.vertices.iter().map(|vertex| vertex.hosts.len()).max().unwrap_or(0);
    if most == 0 {
        return 24.0;
    }
    let all: usize = scene.vertices.iter().map(|vertex| vertex.hosts.len()).sum();
    let columns = ((pitch * 0.86 / 7.0).floor() as usize).clamp(1, 16).min(most);
    let rows = most.div_ceil(columns);
    let lowest = places.iter().zip(&scene.vertices).filter(|(_, vertex)| vertex.level == 1).map(|(place, _)| place.y).fold(0.0, f64::max);
    let hosts = if all == 1 { "endpoint".to_owned() } else { "endpoints".to_owned() };
    sketch.write(Point::new(28.0, lowest + 40.0), Anchor::Start, 13.0, hosts);
    sketch.write(Point::new(28.0, lowest + 55.0), Anchor::Start, 12.0, format!("× {all}"));
    if pitch < 6.5 || rows > 12 || all > MOST_DOTS {
        // One bar per switch, as long as its endpoints are many, coloured by their mean.
        for (vertex, at) in scene.vertices.iter().zip(places).filter(|(vertex, _)| !vertex.hosts.is_empty()) {
            let length = 26.0 * vertex.hosts.len() as f64 / most as f64;
            let from = Point::new(at.x, at.y + 14.0);
            let load = vertex.hosts.iter().sum::<f64>() / vertex.hosts.len() as f64;
            sketch.strokes.push(Stroke { from, to: Point::new(at.x, from.y + length), bend: None, load, cables: 1 });
            if pitch >= 22.0 {
                sketch.write(Point::new(at.x, from.y + length + 14.0), Anchor::Middle, 10.0, format!("×{}", vertex.hosts.len()));
            }
        }
        return 64.0;
    }
    for (vertex, at) in scene.vertices.iter().zip(places) {
        for (index, &load) in vertex.hosts.iter().enumerate() {
            let (row, column) = (index / columns, index % columns);
            let in_row = columns.min(vertex.hosts.len() - row * columns);
            let x = at.x + 7.0 * (column as f64 - (in_row as f64 - 1.0) / 2.0);
            sketch.dots.push(Dot { at: Point::new(x, at.y + 19.0 + 7.0 * row as f64), radius: 2.3, load });
        }
    }
    f64::max(26.0 + 7.0 * rows as f64, 62.0)
}

/// The number at the end of a name; none where it is too long for a mark.
fn last_number(name: &str) -> String {
    let digits = name.len() - name.trim_end_matches(|c: char| c.is_ascii_digit()).len();
    if digits <= 4 { name[name.len() - digits..].to_owned() } else { String::new() }
}

/// Room for the names of the levels, in pixels.
const LEFT: f64 = 130.0;
const RIGHT: f64 = 28.0;
/// Endpoints that are drawn one by one.
const MOST_DOTS: usize = 2500;
/// How often the orders are improved.
const SWEEPS: usize = 6;
