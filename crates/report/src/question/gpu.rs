//! Tools on GPUs: GDRCopy's `copylat`, nvbandwidth and BabelStream.
//!
//! Tables of nvbandwidth of Azure's benchmarking guide hold what its scripts run: the tests with kernels, host and device one way, two devices
//! that read each other.

use super::{Quantity, Question, Requested};
use crate::measured::Row;

/// The run that answers a row about GPUs alone; none for rows of other tools.
pub(super) fn ask(row: &Row) -> Option<Requested> {
    let benchmark = row.benchmark.trim().to_ascii_lowercase();
    let variant = row.variant.to_ascii_lowercase();
    let no_row = |tool: &str| Some(Requested::Skip(format!("{tool} has no row `{}`", row.variant)));
    let (tool, options, column) = match benchmark.as_str() {
        "gdrcopy_copylat" => {
            let Some(column) = COPYLAT.into_iter().find(|name| variant.starts_with(name)) else { return no_row("gdrcopy_copylat") };
            ("gdrcopy_copylat", Vec::new(), Some(column))
        }
        "nvbandwidth" => {
            let test = NVBANDWIDTH.into_iter().find(|(words, _)| variant == *words).map(|(_, test)| test);
            let Some(test) = test else {
                return Some(Requested::Skip(format!("it is not known which test of nvbandwidth `{}` is", row.variant)));
            };
            ("nvbandwidth", vec!["-t".to_owned(), test.to_owned()], None)
        }
        "hbm bandwidth (babelstream)" | "babelstream" => {
            let Some(column) = KERNELS.into_iter().find(|name| variant.eq_ignore_ascii_case(name)) else { return no_row("babelstream") };
            ("babelstream", Vec::new(), Some(column))
        }
        _ => return None,
    };
    let quantity = match (row.metric.to_ascii_lowercase().as_str(), row.unit.as_str()) {
        ("latency", "us") => Quantity::Latency { us: 1.0 },
        ("bandwidth", "GB/s") => Quantity::Bandwidth { bytes_per_s: 1e9 },
        ("bandwidth", "TB/s") => Quantity::Bandwidth { bytes_per_s: 1e12 },
        (metric, unit) => return Some(Requested::Skip(format!("{tool} does not give the metric `{metric}` in `{unit}`"))),
    };
    let question = Question {
        cluster: row.cluster.clone(),
        tool,
        options,
        nodes: 1,
        ranks: 1,
        message_bytes: row.message_bytes,
        column,
        ..Question::default()
    };
    Some(Requested::Run(question, quantity))
}

const COPYLAT: [&str; 2] = ["gdr_copy_to_mapping", "gdr_copy_from_mapping"];
const KERNELS: [&str; 5] = ["Copy", "Mul", "Add", "Triad", "Dot"];
const NVBANDWIDTH: [(&str, &str); 3] = [
    ("host to device", "host_to_device_memcpy_sm"),
    ("device to host", "device_to_host_memcpy_sm"),
    ("device to device read", "device_to_device_bidirectional_memcpy_read_sm"),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measured;

    fn first(line: &str) -> Requested {
        let head = "table,cluster,benchmark,variant,nodes,ranks,message_bytes,metric,unit,value,source,notes\n";
        let table = measured::read("t.csv", format!("{head}{line},here,\n").as_bytes()).unwrap();
        super::super::ask(&table, &table.rows()[0]).unwrap()
    }

    #[test]
    fn rows_name_tests_and_columns() {
        let asked = |line: &str| match first(line) {
            Requested::Run(question, _) => (question.tool, question.options.join(" "), question.column, question.message_bytes),
            other => panic!("no single run: {other:?}"),
        };
        let lat = asked("t,c,gdrcopy_copylat,gdr_copy_from_mapping (D2H),1,1,8,latency,us,1.7");
        assert_eq!(lat, ("gdrcopy_copylat", String::new(), Some("gdr_copy_from_mapping"), Some(8)));
        let nv = asked("t,c,nvbandwidth,Host to Device,1,1,,bandwidth,GB/s,26");
        assert_eq!(nv, ("nvbandwidth", "-t host_to_device_memcpy_sm".to_owned(), None, None));
        let hbm = asked("t,c,HBM bandwidth (BabelStream),Triad,1,1,,bandwidth,TB/s,1.7");
        assert_eq!(hbm, ("babelstream", String::new(), Some("Triad"), None));
        assert!(matches!(first("t,c,nvbandwidth,Sideways,1,1,,bandwidth,GB/s,26"), Requested::Skip(_)));
        assert!(matches!(first("t,c,babelstream,Copy,1,1,,bandwidth,furlongs,26"), Requested::Skip(_)));
    }
}
