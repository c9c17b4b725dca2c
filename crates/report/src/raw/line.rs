//! The lines of a log, without what a launcher puts in front of them.
//!
//! Known: `[1,0]<stdout>:` of Open MPI (`--tag-output`), with or without the name of the job; `[3] ` of Hydra and Intel MPI (`-l`); `[rank 3] `;
//! `3: ` of srun (`-l`).

/// A line.
#[derive(Debug, Clone, Copy)]
pub(super) struct Line<'a> {
    /// What stands on it, without the mark of the launcher and the blanks at its end.
    pub text: &'a str,
    /// The mark of the launcher; empty if there is none.
    pub mark: &'a str,
    /// Its number, from 1.
    pub number: usize,
    /// Where it begins, in bytes.
    pub offset: usize,
    /// Whether a line feed ends it: the last line of a file that was cut off has none.
    pub ended: bool,
}

/// The lines of a text, one after the other.
pub(super) struct Lines<'a> {
    text: &'a str,
    at: usize,
    number: usize,
}

/// The lines of `text`.
pub(super) fn lines(text: &str) -> Lines<'_> {
    Lines { text, at: 0, number: 0 }
}

impl<'a> Lines<'a> {
    /// Goes on with the line behind the one that holds the byte before `offset`.
    pub fn skip_to(&mut self, offset: usize) {
        while self.at < offset && self.next().is_some() {}
    }
}

impl<'a> Iterator for Lines<'a> {
    type Item = Line<'a>;
    fn next(&mut self) -> Option<Line<'a>> {
        let offset = self.at;
        let rest = self.text.get(offset..).filter(|rest| !rest.is_empty())?;
        let end = rest.find('\n');
        self.at += end.map_or(rest.len(), |end| end + 1);
        self.number += 1;
        let (mark, text) = unmarked(rest[..end.unwrap_or(rest.len())].trim_end());
        Some(Line { text, mark, number: self.number, offset, ended: end.is_some() })
    }
}

/// A line's mark and what follows it.
fn unmarked(line: &str) -> (&str, &str) {
    let cut = |at: usize| (&line[..at], line[at..].strip_prefix(' ').unwrap_or(&line[at..]));
    if let Some(inside) = line.strip_prefix('[') {
        let Some(close) = inside.find(']').filter(|close| *close < LONGEST_MARK) else { return ("", line) };
        let (name, behind) = (&inside[..close], &inside[close + 1..]);
        if let Some(colon) = behind.strip_prefix("<std").and_then(|rest| rest.find(">:")) {
            return cut(close + 2 + "<std".len() + colon + 2);
        }
        let number = name.strip_prefix("rank ").unwrap_or(name);
        return if is_number(number) && behind.starts_with(' ') { cut(close + 2) } else { ("", line) };
    }
    // `srun -l` pads the number with blanks.
    let padded = line.trim_start();
    match padded.split_once(':') {
        Some((number, rest)) if is_number(number) && (rest.is_empty() || rest.starts_with(' ')) => {
            let at = line.len() - rest.len();
            cut(at)
        }
        _ => ("", line),
    }
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.len() < 8 && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Names of jobs in marks are shorter, in bytes. Basis: assumed.
const LONGEST_MARK: usize = 80;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_of_launchers_are_taken_off() {
        for (line, mark, text) in [
            ("[1,0]<stdout>:# OSU", "[1,0]<stdout>:", "# OSU"),
            ("[1,0]<stdout>: 8  1.2", "[1,0]<stdout>:", "8  1.2"),
            ("[prterun-node1-77@1,3]<stderr>: x", "[prterun-node1-77@1,3]<stderr>:", "x"),
            ("[rank 1] bytes", "[rank 1]", "bytes"),
            ("[12] 8  1.2", "[12]", "8  1.2"),
            (" 3: 8  1.2", " 3:", "8  1.2"),
            ("0:", "0:", ""),
            ("[  5]   0.00-0.02   sec", "", "[  5]   0.00-0.02   sec"),
            ("[thread 0]   1000", "", "[thread 0]   1000"),
            ("Final:  1000", "", "Final:  1000"),
            ("12:30:45 up", "", "12:30:45 up"),
        ] {
            assert_eq!(unmarked(line), (mark, text), "{line}");
        }
    }

    #[test]
    fn lines_end_in_any_way() {
        let seen: Vec<_> = lines("a \r\nb\n\nc").map(|line| (line.text, line.number, line.offset, line.ended)).collect();
        assert_eq!(seen, [("a", 1, 0, true), ("b", 2, 4, true), ("", 3, 6, true), ("c", 4, 7, false)]);
    }
}
