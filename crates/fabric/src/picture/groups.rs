//! Dragonflies: groups on a circle, the switches of each on a small one (or on two arcs, leaves outside), endpoints further out.

use super::circle;
use super::scene::{Line, Scene};
use super::sketch::{Anchor, Dot, Mark, Point, Sketch, Stroke};
use crate::graph::SwitchId;
use crate::topology::{Groups, Inside};

/// All switches of all groups.
pub(super) fn groups(scene: &Scene, groups: &Groups) -> Sketch {
    let count = groups.groups();
    let mut sketch = Sketch { most: scene.most, size: Point::new(SIDE, SIDE), ..Sketch::default() };
    let centre = Point::new(SIDE / 2.0, SIDE / 2.0);
    let sector = 1.0 / f64::from(count);
    // The widest small circle that leaves its neighbours some room, and the circle that all fit into with their endpoints.
    let half_chord = circle::at(sector / 2.0).x;
    let room = SIDE / 2.0 - 34.0;
    let (around, small) = if count == 1 { (0.0, room - 60.0) } else { (room / (1.0 + 0.98 * half_chord), 0.0) };
    let small = if count == 1 { small } else { (0.74 * half_chord * around).min(0.36 * around) };
    let mut places = Vec::with_capacity(scene.vertices.len());
    let mut outward = Vec::with_capacity(scene.vertices.len());
    for switch in (0..scene.vertices.len() as u32).map(SwitchId) {
        let share = sector * f64::from(groups.group(switch));
        let here = centre.step(circle::at(share), around);
        let (place, out) = match groups.inside() {
            Inside::Mesh { switches } => {
                let out = circle::at(share + (f64::from(groups.position(switch)) + 0.5) / f64::from(switches));
                (here.step(out, small), out)
            }
            Inside::LeafSpine { leaves, spines } => {
                let position = groups.position(switch);
                let (number, of, radius) = if position < leaves {
                    (position, leaves, around + small * 0.7)
                } else {
                    (position - leaves, spines, around - small * 0.7)
                };
                let width = sector * if count == 1 { 0.9 } else { 0.78 };
                let out = circle::at(share + width * ((f64::from(number) + 0.5) / f64::from(of) - 0.5));
                (centre.step(out, radius.max(20.0)), out)
            }
        };
        places.push(place);
        outward.push(out);
    }
    let nearest = nearest(&places, groups);
    let radius = (0.34 * nearest).clamp(0.8, 10.0);
    for (index, vertex) in scene.vertices.iter().enumerate() {
        let switch = SwitchId(index as u32);
        let label = if radius >= 6.0 { groups.position(switch).to_string() } else { String::new() };
        let upper = groups.position(switch) >= groups.inside().edges();
        sketch.marks.push(Mark { at: places[index], half: Point::new(radius, radius), label, name: vertex.name.clone(), upper });
        hosts(&mut sketch, &vertex.hosts, places[index], outward[index], radius);
    }
    if count <= 64 {
        for group in 0..count {
            let far = centre.step(circle::at(sector * f64::from(group)), room + 14.0);
            let size = if count <= 24 { 13.0 } else { 10.0 };
            sketch.write(Point::new(far.x, far.y + 0.35 * size), Anchor::Middle, size, group.to_string());
        }
    }
    let bend = |line: &Line| {
        let [from, to] = line.ends.map(|end| SwitchId(end as u32));
        (groups.group(from) != groups.group(to)).then(|| places[line.ends[0]].towards(places[line.ends[1]], 0.5).towards(centre, 0.45))
    };
    sketch.strokes.extend(scene.lines.iter().map(|line| Stroke {
        from: places[line.ends[0]],
        to: places[line.ends[1]],
        bend: bend(line),
        load: line.load,
        cables: line.cables,
    }));
    note_hidden(&mut sketch, scene);
    sketch
}

/// One vertex for each of many parts, all on a circle.
pub(super) fn circle(scene: &Scene, part: &str) -> Sketch {
    let count = scene.vertices.len().max(1) as f64;
    let side = (400.0 + 18.0 * count).clamp(560.0, SIDE);
    let mut sketch = Sketch { most: scene.most, size: Point::new(side.max(720.0), side), ..Sketch::default() };
    let (centre, around) = (Point::new(side.max(720.0) / 2.0, side / 2.0), side / 2.0 - 48.0);
    let place = |index: usize| centre.step(circle::at(index as f64 / count), around);
    let radius = (1.1 * around * circle::at(0.5 / count).x).clamp(1.0, 14.0);
    let single = scene.vertices.iter().all(|vertex| vertex.switches == 1);
    for (index, vertex) in scene.vertices.iter().enumerate() {
        let label = if radius >= 7.0 && count < 1000.0 { index.to_string() } else { String::new() };
        sketch.marks.push(Mark { at: place(index), half: Point::new(radius, radius), label, name: vertex.name.clone(), upper: false });
        if single {
            hosts(&mut sketch, &vertex.hosts, place(index), circle::at(index as f64 / count), radius);
        }
    }
    if !single {
        let each = scene.vertices.iter().map(|vertex| vertex.switches).max().unwrap_or(0);
        let hosts = scene.vertices.iter().map(|vertex| vertex.hosts.len()).max().unwrap_or(0);
        sketch
            .notes
            .push(format!("each mark is a {part} of {each} switches with {hosts} endpoints; a line has the load of its busiest cable"));
        let every = (scene.vertices.len() / 24).max(1);
        for index in (0..scene.vertices.len()).step_by(every) {
            let far = centre.step(circle::at(index as f64 / count), around + 22.0);
            sketch.write(Point::new(far.x, far.y + 4.0), Anchor::Middle, 11.0, index.to_string());
        }
    }
    for line in &scene.lines {
        let [from, to] = line.ends.map(place);
        // Neighbours are joined along the circle, others through its inside.
        let next = line.ends[0].abs_diff(line.ends[1]).min(scene.vertices.len() - line.ends[0].abs_diff(line.ends[1])) == 1;
        let bend = (!next && scene.vertices.len() > 12).then(|| from.towards(to, 0.5).towards(centre, 0.3));
        sketch.strokes.push(Stroke { from, to, bend, load: line.load, cables: line.cables });
    }
    note_hidden(&mut sketch, scene);
    sketch
}

/// Endpoints around a switch, away from the middle.
fn hosts(sketch: &mut Sketch, hosts: &[f64], at: Point, out: Point, radius: f64) {
    let size = (0.3 * radius).clamp(0.4, 2.3);
    let side = Point::new(-out.y, out.x);
    let across = hosts.len().min(4);
    for (index, &load) in hosts.iter().enumerate() {
        let (row, column) = (index / across, index % across);
        let in_row = across.min(hosts.len() - row * across) as f64;
        let place =
            at.step(out, radius + 1.8 * size + 2.8 * size * row as f64).step(side, 2.8 * size * (column as f64 - (in_row - 1.0) / 2.0));
        sketch.dots.push(Dot { at: place, radius: size, load });
    }
}

/// The least distance of two switches of the first group.
fn nearest(places: &[Point], groups: &Groups) -> f64 {
    let each = groups.inside().switches() as usize;
    let first = &places[..each.min(places.len())];
    let pairs = first.iter().enumerate().flat_map(|(index, one)| first[..index].iter().map(move |other| one.distance(*other)));
    pairs.fold(f64::INFINITY, f64::min).min(60.0)
}

fn note_hidden(sketch: &mut Sketch, scene: &Scene) {
    if scene.hidden > 0 {
        let all = scene.hidden + scene.lines.len();
        sketch.notes.push(format!("the {} busiest of {all} lines are drawn", scene.lines.len()));
    }
}

/// Width and height of the drawing, in pixels.
const SIDE: f64 = 960.0;
