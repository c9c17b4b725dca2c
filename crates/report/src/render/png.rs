//! The pictures of an outcome, below each other, as PNG: two points for each pixel of the SVG, on white ground.
//!
//! Modelled: words in the font that the program carries, so that no font of the machine changes a byte.
//! Not modelled: letters that this font lacks (it has those of Latin and Greek), which are drawn as boxes.

use std::sync::{Arc, OnceLock};

use resvg::tiny_skia::{Pixmap, Transform};
use resvg::usvg::fontdb::Database;
use resvg::usvg::{Options, Tree};

use super::{RenderError, Renderer};
use crate::figure::{Figure, draw};
use crate::outcome::Outcome;

/// Pictures for slides.
#[derive(Debug, Clone, Copy)]
pub struct Png;

impl Renderer for Png {
    fn extension(&self) -> &'static str {
        "png"
    }
    fn render(&self, _: &Outcome) -> Result<String, RenderError> {
        Err(RenderError::NotText)
    }
    fn bytes(&self, outcome: &Outcome) -> Result<Vec<u8>, RenderError> {
        if outcome.figures().is_empty() {
            return Err(RenderError::NoFigure);
        }
        png(outcome.figures())
    }
}

/// Figures as one PNG file.
///
/// # Errors
/// A picture that is too large for an image of points.
pub fn png(figures: &[Figure]) -> Result<Vec<u8>, RenderError> {
    let undrawn = |reason: String| RenderError::Undrawn { reason };
    let options = Options { fontdb: fonts(), font_family: FAMILY.to_owned(), ..Options::default() };
    let tree = Tree::from_str(&draw::file(figures, draw::Ground::Light), &options).map_err(|error| undrawn(error.to_string()))?;
    let size = tree.size();
    // Half as fine where it would be higher than what programs read.
    let scale = if size.height() * POINTS > MOST_POINTS { 1.0 } else { POINTS };
    let (width, height) = ((size.width() * scale).ceil() as u32, (size.height() * scale).ceil() as u32);
    let mut pixels = Pixmap::new(width, height).ok_or_else(|| undrawn(format!("{width} x {height} points are too many")))?;
    resvg::render(&tree, Transform::from_scale(scale, scale), &mut pixels.as_mut());
    pixels.encode_png().map_err(|error| undrawn(error.to_string()))
}

/// The font of the program, read once.
fn fonts() -> Arc<Database> {
    static FONTS: OnceLock<Arc<Database>> = OnceLock::new();
    let load = || {
        let mut fonts = Database::new();
        fonts.load_font_data(include_bytes!("../../fonts/arimo-regular.ttf").to_vec());
        fonts.load_font_data(include_bytes!("../../fonts/arimo-bold.ttf").to_vec());
        fonts.set_sans_serif_family(FAMILY);
        Arc::new(fonts)
    };
    Arc::clone(FONTS.get_or_init(load))
}

/// The family of the font that the program carries.
const FAMILY: &str = "Arimo";
/// Points for each pixel. Basis: assumed; sharp on a projector of 1,920 points.
const POINTS: f32 = 2.0;
/// The highest image. Basis: measured; programs for slides read images of 16,384 points.
const MOST_POINTS: f32 = 16_384.0;
