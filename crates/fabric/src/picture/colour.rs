//! From load to colour: from light to dark through yellow, orange and magenta to violet, in steps.
//!
//! Lightness falls all the way, so that the order can be seen without colour vision (in the manner of the colour maps of S.
//! van der Walt and N. Smith for Matplotlib, 2015; the values are chosen here).

/// How many colours there are.
pub(super) const STEPS: usize = 12;

/// The colour of a step, as `#rrggbb`.
pub(super) fn colour(step: usize) -> String {
    let place = step.min(STEPS - 1) as f64 / (STEPS - 1) as f64 * (ANCHORS.len() - 1) as f64;
    let below = (place.floor() as usize).min(ANCHORS.len() - 2);
    let part = place - below as f64;
    let channel = |index: usize| {
        let (from, to) = (f64::from(ANCHORS[below][index]), f64::from(ANCHORS[below + 1][index]));
        (from + (to - from) * part).round() as u8
    };
    format!("#{:02x}{:02x}{:02x}", channel(0), channel(1), channel(2))
}

/// The step of a load where `most` has the last one.
pub(super) fn step(load: f64, most: f64) -> usize {
    if most <= 0.0 { 0 } else { ((load / most * STEPS as f64).ceil() as usize).clamp(1, STEPS) - 1 }
}

/// Red, green and blue from the lightest to the darkest.
const ANCHORS: [[u8; 3]; 6] = [[228, 224, 216], [245, 209, 116], [242, 150, 64], [219, 80, 92], [150, 38, 120], [53, 15, 94]];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn darker_with_every_step() {
        let light = |step: usize| {
            let text = colour(step);
            let part = |at: usize| f64::from(u8::from_str_radix(&text[at..at + 2], 16).unwrap());
            // Luma of ITU-R BT.709.
            0.2126 * part(1) + 0.7152 * part(3) + 0.0722 * part(5)
        };
        assert!((1..STEPS).all(|step| light(step) < light(step - 1) - 5.0));
    }

    #[test]
    fn the_most_has_the_last_step_and_nothing_the_first() {
        assert_eq!((step(0.0, 2.0), step(2.0, 2.0), step(1.0, 2.0), step(5.0, 0.0)), (0, STEPS - 1, STEPS / 2 - 1, 0));
    }
}
