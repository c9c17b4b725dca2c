//! Boxes lie in their parents and beside each other; everything is drawn, always in the same place.

use super::layout::scene;
use super::scene::{Rect, Scene};
use super::{Picture, svg};
use crate::import::{NvLinkRate, Rates, read};
use crate::{Machine, Purpose, VertexId};
use fabriscope_units::Rate;

fn machines() -> Vec<(String, Machine)> {
    let nvlink = NvLinkRate {
        compute_capability: 60,
        generation: 1,
        links: 18,
        raw: Rate::from_gbps(160),
        data: Rate::from_gbps(144),
        latency: fabriscope_units::Span::from_ns(300),
    };
    let rates = Rates { local: Rate::from_gbps(40_000), nvlink: vec![nvlink], ..Rates::default() };
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fabrics/nodes");
    let mut paths: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    let text = |path: &std::path::PathBuf| std::fs::read_to_string(path).unwrap();
    let name = |path: &std::path::PathBuf| path.file_name().unwrap().to_string_lossy().into_owned();
    paths.iter().map(|path| (name(path), read(&text(path), &rates).unwrap().machine)).collect()
}

fn inside(inner: Rect, outer: Rect) -> bool {
    inner.x >= outer.x && inner.y >= outer.y && inner.right() <= outer.right() && inner.bottom() <= outer.bottom()
}
fn apart(a: Rect, b: Rect) -> bool {
    a.right() <= b.x || b.right() <= a.x || a.bottom() <= b.y || b.bottom() <= a.y
}

fn well_laid_out(name: &str, scene: &Scene) {
    let sheet = Rect { x: 0, y: 0, width: scene.width, height: scene.height };
    for (index, plate) in scene.plates.iter().enumerate() {
        let outer = plate.within.map_or(sheet, |outer| scene.plates[outer].rect);
        assert!(inside(plate.rect, outer), "{name}: {plate:?} is not in {outer:?}");
        assert!(plate.rect.width > 0 && plate.rect.height > 0, "{name}: {plate:?}");
        for other in scene.plates[index + 1..].iter().filter(|other| other.within == plate.within) {
            assert!(apart(plate.rect, other.rect), "{name}: {plate:?} and {other:?}");
        }
    }
}

#[test]
fn boxes_lie_in_their_parents_and_apart() {
    let all = machines();
    assert!(all.len() >= 8);
    for (name, machine) in all {
        let scene = scene(&machine);
        well_laid_out(&name, &scene);
        // Every vertex once; every link, but for memories within a device.
        let mut drawn: Vec<VertexId> = scene.plates.iter().filter_map(|plate| plate.vertex).collect();
        drawn.sort_unstable();
        assert_eq!(drawn, (0..machine.vertices().len() as u32).map(VertexId).collect::<Vec<_>>(), "{name}");
        let mut wired: Vec<u32> = scene.wires.iter().map(|wire| wire.link.0).collect();
        wired.sort_unstable();
        let within = |link: &crate::Link| [link.a, link.b].iter().any(|end| machine.vertex(*end).kind == crate::VertexKind::DeviceMemory);
        let expected = machine.links().iter().enumerate().filter(|(_, link)| !within(link)).map(|(index, _)| index as u32);
        assert_eq!(wired, expected.collect::<Vec<_>>(), "{name}");
    }
}

#[test]
fn words_fit_their_boxes() {
    for (name, machine) in machines() {
        for plate in scene(&machine).plates {
            let wide = plate.words.iter().map(|word| word.chars().count() as i32 * 6).max().unwrap_or(0);
            // Heads of frames and the names along bars have other room.
            if plate.vertex.is_some() && plate.rect.width > 40 {
                assert!(wide <= plate.rect.width, "{name}: {plate:?}");
                assert!(plate.rect.height >= 14 * plate.words.len() as i32, "{name}: {plate:?}");
            }
        }
    }
}

#[test]
fn a_path_stands_out_and_the_bytes_are_the_same() {
    let all = machines();
    let (_, machine) = all.iter().find(|(name, _)| name == "hgx-h100.nccl.xml").unwrap();
    let ends = ["gpu0-memory", "mlx5_5"].map(|name| machine.find(name).unwrap());
    let path = machine.path(ends[0], ends[1], Purpose::Dma).unwrap();
    let caption = ["a & b < c".to_owned()];
    let picture = Picture { title: "tests", caption: &caption, path: Some(&path) };
    let text = svg(machine, &picture);
    assert_eq!(text, svg(machine, &picture));
    assert!(text.contains("<desc id=\"desc\">a &amp; b &lt; c</desc>"));
    // Eight links of which the first lies within the GPU, and all vertices of the path.
    assert_eq!(text.matches("stroke=\"#d9480f\" stroke-width=\"4\"").count(), path.steps.len() - 1);
    assert_eq!(text.matches("stroke=\"#d9480f\" stroke-width=\"3\"").count(), path.steps.len() + 1);
    assert!(!svg(machine, &Picture::default()).contains("#d9480f"));
    let document = roxmltree::Document::parse(&text).unwrap();
    assert_eq!(document.root_element().tag_name().name(), "svg");
}
