//! Fabrics drawn as SVG: switches where they stand in their family, links coloured by load.
//!
//! ```text
//!  tree, imported fabric   levels, the top above, endpoints below the leaves             levels.rs
//!  dragonfly, dragonfly+   groups on a circle, their switches on small ones or on arcs    groups.rs
//!  torus, mesh, hypercube  a lattice, three dimensions as layers; a ring as a circle      lattice.rs
//! ```
//!
//! The same fabric and loads give the same bytes: no clock, no random number, no trigonometry of the platform. Colours run
//! from light to dark, so that they can be told apart without colour vision and on paper. Above 4,000 switches trees are
//! drawn by subtrees and dragonflies by groups; other families are refused.

mod circle;
mod colour;
mod groups;
mod lattice;
mod levels;
mod scene;
mod sketch;
mod svg;

use crate::topology::{Coordinates, Fabric};

use scene::Scene;
use sketch::Sketch;

/// What a picture says besides the fabric itself.
#[derive(Clone, Copy, Debug, Default)]
pub struct Picture<'a> {
    /// The line above.
    pub title: &'a str,
    /// Lines below the title.
    pub caption: &'a [String],
    /// By link its load, where 1 fills it; none for a picture without loads.
    pub loads: Option<&'a [f64]>,
}

/// Why a fabric cannot be drawn.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, miette::Diagnostic)]
#[non_exhaustive]
pub enum PictureError {
    /// More switches than a picture shows.
    #[error("{switches} switches cannot be told apart in a picture")]
    #[diagnostic(help("draw a smaller fabric of at most {most}, or write .dot or .graphml"))]
    TooManySwitches {
        /// Switches there are.
        switches: u32,
        /// Switches that are drawn.
        most: u32,
    },
}

/// The fabric as an SVG image.
///
/// # Errors
/// More switches than a picture shows, in a family that is not drawn by groups.
pub fn svg(fabric: &Fabric, picture: &Picture) -> Result<String, PictureError> {
    let sketch = sketch(fabric, picture.loads)?;
    Ok(svg::text(&sketch, picture))
}

/// A drawing to be put into a picture with others.
#[derive(Clone, Debug, PartialEq)]
pub struct Drawing {
    /// Its width and height.
    pub size: (f64, f64),
    /// The elements of an SVG image in that frame. Colours are classes: `fs-l0` to `fs-l11` for loads, and some more for the rest.
    pub elements: String,
    /// What a reader should know of it.
    pub notes: Vec<String>,
}

/// The fabric without title and legend; `most` is the load that has the last colour.
///
/// # Errors
/// As [`svg`].
pub fn drawing(fabric: &Fabric, loads: Option<&[f64]>, most: f64) -> Result<Drawing, PictureError> {
    let mut sketch = sketch(fabric, loads)?;
    sketch.most = loads.map(|_| most);
    Ok(Drawing { size: (sketch.size.x, sketch.size.y), elements: svg::elements(&sketch, svg::Ink::Classes), notes: sketch.notes })
}

fn sketch(fabric: &Fabric, loads: Option<&[f64]>) -> Result<Sketch, PictureError> {
    let switches = fabric.graph.switch_count();
    let large = switches > MOST_SWITCHES;
    let too_many = Err(PictureError::TooManySwitches { switches, most: MOST_SWITCHES });
    match &fabric.coordinates {
        Coordinates::Dragonfly(groups) if large => {
            let scene = Scene::merged(fabric, loads, |switch| groups.group(switch), groups.groups(), |group| format!("group {group}"));
            Ok(groups::circle(&scene, "group"))
        }
        Coordinates::Dragonfly(groups) => Ok(groups::groups(&Scene::of(fabric, loads), groups)),
        Coordinates::Tree(tree) if large => match levels::subtrees(fabric, tree, loads) {
            scene if scene.vertices.len() <= MOST_SWITCHES as usize => Ok(levels::levels(&scene, None)),
            _ => too_many,
        },
        _ if large => too_many,
        Coordinates::Grid(grid) => Ok(lattice::lattice(&Scene::of(fabric, loads), grid)),
        Coordinates::Irregular(_) => Ok(levels::layered(&Scene::of(fabric, loads))),
        Coordinates::Tree(_) | Coordinates::Direct => Ok(levels::levels(&Scene::of(fabric, loads), None)),
    }
}

/// Switches that are drawn one by one.
const MOST_SWITCHES: u32 = 4000;

#[cfg(test)]
mod tests;
