//! Lists of host names the way Slurm writes them: `gpu[01-16,20]`.
//!
//! Source: the hostlist syntax of Slurm. Zero padding is kept: names of different widths are not joined.

use std::collections::BTreeMap;

/// Folds names into one list; names keep the order of their numbers.
pub fn fold<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    // Names by what surrounds their last number, and the number's width.
    let mut groups: BTreeMap<(&str, usize, &str), Vec<u64>> = BTreeMap::new();
    let mut plain = Vec::new();
    for name in names {
        let end = name.rfind(|c: char| c.is_ascii_digit()).map_or(0, |at| at + 1);
        let start =
            name[..end].rfind(|c: char| !c.is_ascii_digit()).map_or(0, |at| at + name[at..].chars().next().map_or(1, char::len_utf8));
        match name[start..end].parse() {
            Ok(number) if end > start => groups.entry((&name[..start], end - start, &name[end..])).or_default().push(number),
            _ => plain.push(name.to_owned()),
        }
    }
    // Without padding `9` and `10` belong together; they have different widths but the same stem.
    let mut parts: Vec<String> = plain;
    for ((head, width, tail), mut numbers) in groups {
        numbers.sort_unstable();
        numbers.dedup();
        let mut ranges: Vec<(u64, u64)> = Vec::new();
        for number in numbers {
            match ranges.last_mut() {
                Some((_, last)) if *last + 1 == number => *last = number,
                _ => ranges.push((number, number)),
            }
        }
        let range =
            |(first, last): &(u64, u64)| if first == last { format!("{first:0width$}") } else { format!("{first:0width$}-{last:0width$}") };
        let list: Vec<String> = ranges.iter().map(range).collect();
        let several = list.len() > 1 || list[0].contains('-');
        parts.push(if several { format!("{head}[{}]{tail}", list.join(",")) } else { format!("{head}{}{tail}", list[0]) });
    }
    parts.join(",")
}

#[cfg(test)]
mod tests {
    use super::fold;

    #[test]
    fn as_slurm_writes_them() {
        for (names, folded) in [
            (&["gpu01", "gpu02", "gpu03", "gpu20"][..], "gpu[01-03,20]"),
            (&["n8", "n9", "n10", "n11"], "n[8-9],n[10-11]"),
            (&["login"], "login"),
            (&["r1n04"], "r1n04"),
            (&["a-1x", "a-2x"], "a-[1-2]x"),
            (&["é7", "é8"], "é[7-8]"),
        ] {
            assert_eq!(fold(names.iter().copied()), folded);
        }
    }
}
