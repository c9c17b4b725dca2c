//! Columns by their names: what stands below `t_avg[usec]`, `Avg Latency(us)`, `Bandwidth (MB/s)`.

/// A column of values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Column {
    /// The size of a message in bytes.
    Size,
    /// A measured value.
    Value {
        /// The metric.
        metric: String,
        /// Its unit.
        unit: String,
    },
    /// Whether the data were right.
    Check,
    /// What says nothing that is measured: iterations, counts.
    Other,
}

impl Column {
    pub fn value(metric: &str, unit: &str) -> Column {
        Column::Value { metric: metric.to_owned(), unit: unit.to_owned() }
    }

    /// The column of this name.
    pub fn of(name: &str) -> Column {
        let plain: String = name.chars().filter(char::is_ascii_alphanumeric).map(|c| c.to_ascii_lowercase()).collect();
        match plain.as_str() {
            "size" | "bytes" => return Column::Size,
            "iterations" | "repetitions" | "transmitsize" | "sl" => return Column::Other,
            "validation" | "defects" => return Column::Check,
            "bibandwidthmbs" | "bandwidthmbs" => return Column::value("bandwidth", "MB/s"),
            "mbs" => return Column::value("bandwidth", "MB/s"),
            "mbytessec" => return Column::value("bandwidth", "MB/s"),
            "msgsec" | "messagess" => return Column::value("message rate", "messages/s"),
            "millionopss" => return Column::value("atomic rate", "Mops/s"),
            "avglatencyus" | "latencyus" => return Column::value("latency", "us"),
            "tpsaverage" => return Column::value("exchange rate", "1/s"),
            _ => {}
        }
        let open = name.rfind(['(', '[']);
        let (metric, unit) = match open {
            Some(at) => (&name[..at], name[at + 1..].trim_end_matches([')', ']'])),
            None => (name, ""),
        };
        let unit = match unit {
            "usec" => "us",
            "Gb/sec" => "Gb/s",
            // Old releases of perftest mean 2²⁰ bytes by it, which their reader says.
            "MB/sec" => "MB/s",
            "MiB/sec" => "MiB/s",
            other => other,
        };
        Column::Value { metric: metric.trim().trim_start_matches('#').to_ascii_lowercase(), unit: unit.to_owned() }
    }
}

/// The names of a head whose columns are at least two blanks, a tab or a comma apart.
pub(super) fn names(head: &str) -> Vec<&str> {
    if let Some(separator) = separator(head) {
        return head.split(separator).map(str::trim).filter(|name| !name.is_empty()).collect();
    }
    let (mut names, mut rest) = (Vec::new(), head.trim());
    while !rest.is_empty() {
        let end = rest.find("  ").into_iter().chain(rest.find('\t')).min().unwrap_or(rest.len());
        names.push(rest[..end].trim());
        rest = rest[end..].trim_start();
    }
    names
}

/// What stands between fields, if they are not set apart by blanks.
pub(super) fn separator(line: &str) -> Option<char> {
    [';', ','].into_iter().find(|separator| line.contains(*separator))
}

/// The fields of a row.
pub(super) fn fields(row: &str, separator: Option<char>) -> Vec<&str> {
    match separator {
        Some(separator) => row.split(separator).map(str::trim).collect(),
        None => row.split_whitespace().collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_by_name() {
        assert_eq!(names("# Size         Avg Latency(us)     Min Latency(us)"), ["# Size", "Avg Latency(us)", "Min Latency(us)"]);
        assert_eq!(names("# Size;Latency (us)"), ["# Size", "Latency (us)"]);
        assert_eq!(Column::of("# Size"), Column::Size);
        assert_eq!(Column::of("Bandwidth (MB/s)"), Column::value("bandwidth", "MB/s"));
        assert_eq!(Column::of("t_avg[usec]"), Column::value("t_avg", "us"));
        assert_eq!(Column::of("P99 Tail Lat(us)"), Column::value("p99 tail lat", "us"));
        assert_eq!(Column::of("99.9% percentile[usec]"), Column::value("99.9% percentile", "us"));
    }
}
