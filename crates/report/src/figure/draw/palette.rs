//! Colours of figures, on light ground and on dark: series, words, grids, and a scale from little to much.
//!
//! Source: M. Okabe and K. Ito, "Color Universal Design", 2008, for the series; where one of theirs has less than 3:1 against its ground
//! (W3C, "Web Content Accessibility Guidelines 2.2", 1.4.11), a darker or lighter one of the same hue stands there. The scale is that of the
//! pictures of fabrics: its lightness falls, or on dark ground rises, all the way.
//! Classes begin with `fs-`, so that pictures within a page touch nothing else of it.

use std::fmt::Write;

/// A colour that series share: on light ground, on dark ground.
const SERIES: [(&str, &str); 7] = [
    ("#0072b2", "#56b4e9"),
    ("#d55e00", "#e69f00"),
    ("#00845f", "#1fc194"),
    ("#a8467f", "#cc79a7"),
    ("#1d2430", "#f0e442"),
    ("#9a6a00", "#d9783a"),
    ("#3a87b5", "#8fa8ff"),
];

/// How many colours series have.
pub const COLOURS: usize = SERIES.len();

/// Names of what is neither a series nor a value: fill or stroke, on light ground, on dark ground.
const ROLES: [(&str, &str, &str, &str); 13] = [
    ("bg", "fill", "#ffffff", "#14181f"),
    ("ink", "fill", "#1d2430", "#e8ebf0"),
    ("soft", "fill", "#4a5361", "#aab3c0"),
    ("grid", "stroke", "#e2e5ea", "#2b323d"),
    ("axis", "stroke", "#7b8494", "#7f8a9a"),
    ("bound", "stroke", "#5b6472", "#a3adba"),
    ("hollow", "fill", "#ffffff", "#14181f"),
    ("loud", "fill", "#d55e00", "#e69f00"),
    ("calm", "fill", "#0072b2", "#56b4e9"),
    ("edge", "stroke", "#1d2430", "#e8ebf0"),
    ("rim", "stroke", "#ffffff", "#14181f"),
    ("lower", "fill", "#2f4b6e", "#8fb3dd"),
    ("upper", "fill", "#17202e", "#e8ebf0"),
];

/// Steps of the scale of values; as many as the pictures of fabrics have.
pub const STEPS: usize = 12;

/// Red, green and blue from little to much, on light ground.
const LIGHT: [[u8; 3]; 6] = [[238, 236, 230], [245, 209, 116], [242, 150, 64], [219, 80, 92], [150, 38, 120], [53, 15, 94]];
/// The same on dark ground.
const DARK: [[u8; 3]; 6] = [[38, 43, 54], [92, 38, 120], [168, 50, 118], [226, 96, 88], [246, 166, 80], [252, 232, 164]];

fn between(anchors: &[[u8; 3]; 6], step: usize) -> String {
    let place = step.min(STEPS - 1) as f64 / (STEPS - 1) as f64 * 5.0;
    let below = (place.floor() as usize).min(4);
    let part = place - below as f64;
    let channel = |index: usize| {
        let (from, to) = (f64::from(anchors[below][index]), f64::from(anchors[below + 1][index]));
        (from + (to - from) * part).round() as u8
    };
    format!("#{:02x}{:02x}{:02x}", channel(0), channel(1), channel(2))
}

/// The step of a value where `most` has the last one.
pub fn step(value: f64, most: f64) -> usize {
    if most <= 0.0 || value <= 0.0 { 0 } else { ((value / most * (STEPS - 1) as f64).ceil() as usize).clamp(1, STEPS - 1) }
}

/// What a picture is looked at on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ground {
    /// White, whatever the reader prefers: for images of points, which cannot ask.
    Light,
    /// White, or dark where the reader's screen is.
    AsPreferred,
}

/// The rules that give classes their colours.
pub fn style(ground: Ground) -> String {
    style_of(ground, &|_| true)
}

/// The rules of those classes for which `wanted` is true.
pub fn style_of(ground: Ground, wanted: &dyn Fn(&str) -> bool) -> String {
    let rules = |dark: bool| {
        let pick = |light: &str, other: &str| if dark { other.to_owned() } else { light.to_owned() };
        let mut text = String::new();
        let mut rule = |name: &str, property: &str, colour: &str| {
            if wanted(name) {
                let _ = write!(text, ".fs-{name}{{{property}:{colour}}}");
            }
        };
        for (name, property, light, other) in ROLES {
            rule(name, property, &pick(light, other));
        }
        for (number, (light, other)) in SERIES.iter().enumerate() {
            let colour = pick(light, other);
            rule(&format!("s{number}"), "stroke", &colour);
            rule(&format!("f{number}"), "fill", &colour);
        }
        for number in 0..STEPS {
            let colour = between(if dark { &DARK } else { &LIGHT }, number);
            rule(&format!("h{number}"), "fill", &colour);
            rule(&format!("l{number}"), "stroke", &colour);
        }
        text
    };
    match ground {
        Ground::Light => rules(false),
        // Paper is white.
        Ground::AsPreferred => format!("{}@media screen and (prefers-color-scheme:dark){{{}}}", rules(false), rules(true)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Relative luminance of WCAG 2.2.
    fn luminance(colour: &str) -> f64 {
        let channel = |at: usize| {
            let value = f64::from(u8::from_str_radix(&colour[at..at + 2], 16).unwrap()) / 255.0;
            if value <= 0.04045 { value / 12.92 } else { libm_pow((value + 0.055) / 1.055) }
        };
        0.2126 * channel(1) + 0.7152 * channel(3) + 0.0722 * channel(5)
    }

    /// To the power of 2.4, by its square and the fifth root of its square.
    fn libm_pow(base: f64) -> f64 {
        let square = base * base;
        let root = (0..60).fold(1.0f64, |root, _| root - (root.powi(5) - square) / (5.0 * root.powi(4)));
        square * root
    }

    fn contrast(one: &str, other: &str) -> f64 {
        let (one, other) = (luminance(one), luminance(other));
        (one.max(other) + 0.05) / (one.min(other) + 0.05)
    }

    #[test]
    fn lines_stand_out_from_their_ground_and_words_can_be_read() {
        assert!((contrast("#ffffff", "#000000") - 21.0).abs() < 1e-6);
        for (light, dark) in SERIES {
            assert!(contrast(light, "#ffffff") >= 3.0 && contrast(dark, "#14181f") >= 3.0, "{light} {dark}");
        }
        for (name, _, light, dark) in ROLES.iter().filter(|role| matches!(role.0, "ink" | "soft")) {
            assert!(contrast(light, "#ffffff") >= 4.5 && contrast(dark, "#14181f") >= 4.5, "{name}");
        }
    }

    #[test]
    fn more_is_darker_on_light_ground_and_lighter_on_dark() {
        let light = |step: usize| luminance(&between(&LIGHT, step));
        let dark = |step: usize| luminance(&between(&DARK, step));
        assert!((1..STEPS).all(|step| light(step) < light(step - 1) && dark(step) > dark(step - 1)));
        assert_eq!((step(0.0, 2.0), step(2.0, 2.0), step(0.001, 2.0), step(5.0, 0.0)), (0, STEPS - 1, 1, 0));
    }

    #[test]
    fn dark_ground_is_asked_for_and_only_on_screens() {
        assert!(style(Ground::AsPreferred).contains("@media screen and (prefers-color-scheme:dark){.fs-bg{fill:#14181f}"));
        assert!(!style(Ground::Light).contains("@media"));
    }
}
