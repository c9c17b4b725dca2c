//! How wide words are: pictures are laid out before anybody draws them.
//!
//! Source: the widths of Arimo, which are those of Arial, Helvetica and Liberation Sans; the font of images of points is Arimo itself.
//! Not modelled: kerning, scripts other than Latin and Greek, whose letters count as wide as a digit.

/// The width of a line of words in pixels.
pub fn width(text: &str, size: f64, bold: bool) -> f64 {
    let table = if bold { &BOLD } else { &REGULAR };
    let letter = |letter: char| {
        let place = (letter as usize).checked_sub(32).and_then(|place| table.get(place));
        match (place, letter) {
            (Some(width), _) => f64::from(*width),
            (None, '…' | '—') => EM,
            (None, _) => DIGIT,
        }
    };
    text.chars().map(letter).sum::<f64>() * size / EM
}

/// The words, cut with an ellipsis where they are wider than `most`.
pub fn cut(text: &str, size: f64, most: f64) -> String {
    if width(text, size, false) <= most {
        return text.to_owned();
    }
    let mut kept: Vec<char> = text.chars().collect();
    while kept.len() > 1 && width(&kept.iter().collect::<String>(), size, false) + size > most {
        kept.pop();
    }
    format!("{}…", kept.into_iter().collect::<String>().trim_end())
}

/// The words in lines of at most that width.
pub fn lines(text: &str, size: f64, most: f64) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if width(&format!("{line} {word}"), size, false) <= most => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

/// Units of the font in its size.
const EM: f64 = 2048.0;
/// The width of a digit.
const DIGIT: f64 = 1139.0;
/// Widths of the letters from the blank to the tilde.
const REGULAR: [u16; 95] = [
    569, 569, 727, 1139, 1139, 1821, 1366, 391, 682, 682, 797, 1196, 569, 682, 569, 569, 1139, 1139, 1139, 1139, 1139, 1139, 1139, 1139,
    1139, 1139, 569, 569, 1196, 1196, 1196, 1139, 2079, 1366, 1366, 1479, 1479, 1366, 1251, 1593, 1479, 569, 1024, 1366, 1139, 1706, 1479,
    1593, 1366, 1593, 1479, 1366, 1251, 1479, 1366, 1933, 1366, 1366, 1251, 569, 569, 569, 961, 1139, 682, 1139, 1139, 1024, 1139, 1139,
    569, 1139, 1139, 455, 455, 1024, 455, 1706, 1139, 1139, 1139, 1139, 682, 1024, 569, 1139, 1024, 1479, 1024, 1024, 1024, 684, 532, 684,
    1196,
];
/// The same in bold.
const BOLD: [u16; 95] = [
    569, 682, 971, 1139, 1139, 1821, 1479, 487, 682, 682, 797, 1196, 569, 682, 569, 569, 1139, 1139, 1139, 1139, 1139, 1139, 1139, 1139,
    1139, 1139, 682, 682, 1196, 1196, 1196, 1251, 1997, 1479, 1479, 1479, 1479, 1366, 1251, 1593, 1479, 569, 1139, 1479, 1251, 1706, 1479,
    1593, 1366, 1593, 1479, 1366, 1251, 1479, 1366, 1933, 1366, 1366, 1251, 682, 569, 682, 1196, 1139, 682, 1139, 1251, 1139, 1251, 1139,
    682, 1251, 1251, 569, 569, 1139, 569, 1821, 1251, 1251, 1251, 1251, 797, 1139, 682, 1251, 1139, 1593, 1139, 1139, 1024, 797, 573, 797,
    1196,
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_as_wide_as_in_the_font() {
        // A of 1366 and two digits of 1139 units, of 2048.
        assert!((width("A10", 20.48, false) - 36.44).abs() < 1e-9);
        assert!(width("MiB", 12.0, true) > width("MiB", 12.0, false));
        assert_eq!(cut("adapter", 12.0, 100.0), "adapter");
        let short = cut("a very long name of a stage", 12.0, 80.0);
        assert!(short.ends_with('…') && width(&short, 12.0, false) <= 80.0, "{short}");
        assert_eq!(lines("one two three", 12.0, 50.0), ["one two", "three"]);
    }
}
