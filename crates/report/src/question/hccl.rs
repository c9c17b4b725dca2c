//! `hccl_demo` on Gaudi: the variant names the test, the type of elements, and how many calls there were.

use super::{Quantity, Question, Requested};
use crate::measured::Row;

/// The run that answers a row of HCL's operations; none for other rows.
pub(super) fn ask(row: &Row) -> Option<Requested> {
    (row.benchmark.trim() == TOOL).then(|| answered(row).map_or_else(Requested::Skip, |(question, of)| Requested::Run(question, of)))
}

fn answered(row: &Row) -> Result<(Question, Quantity), String> {
    let words: Vec<&str> = row.variant.split([' ', ',', ';']).filter(|word| !word.is_empty()).collect();
    let test = TESTS.into_iter().find(|test| words.contains(test));
    let test = test.ok_or_else(|| format!("the variant names none of the tests {}", TESTS.join(", ")))?;
    let mut options = vec!["--test".to_owned(), test.to_owned()];
    if words.contains(&"bfloat16") {
        options.extend(["--data_type", "bfloat16"].map(str::to_owned));
    }
    if let Some(pair) = words.windows(2).find(|pair| pair[1] == "calls") {
        options.extend(["--loop".to_owned(), pair[0].to_owned()]);
    }
    let bytes = row.message_bytes.ok_or("the row names no size")?;
    options.extend(["--size".to_owned(), bytes.to_string()]);
    let (column, quantity) = match (row.metric.to_ascii_lowercase().as_str(), row.unit.as_str()) {
        ("bandwidth" | "nw_bw" | "nw bandwidth", "GB/s") => ("bandwidth", Quantity::Bandwidth { bytes_per_s: 1e9 }),
        ("latency" | "time", "us") => ("latency", Quantity::Latency { us: 1.0 }),
        (metric, unit) => return Err(format!("{TOOL} does not give the metric `{metric}` in `{unit}`")),
    };
    let (Some(nodes), Some(ranks)) = (row.nodes, row.ranks) else {
        return Err(format!("{TOOL} needs the nodes and the ranks of the row; --nodes and --ppn say what rows do not"));
    };
    let question = Question {
        cluster: row.cluster.clone(),
        tool: TOOL,
        options,
        nodes,
        ranks,
        message_bytes: Some(bytes),
        column: Some(column),
        ..Question::default()
    };
    Ok((question, quantity))
}

const TOOL: &str = "hccl_demo";
const TESTS: [&str; 4] = ["all_reduce", "all_gather", "reduce_scatter", "all2all"];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measured;

    #[test]
    fn rows_of_hcl_say_what_was_run() {
        let asked = |line: &str| {
            let head = "table,cluster,benchmark,variant,nodes,ranks,message_bytes,metric,unit,value\n";
            let table = measured::read("t.csv", format!("{head}{line}\n").as_bytes()).unwrap();
            match super::super::ask(&table, &table.rows()[0]).unwrap() {
                Requested::Run(question, _) => Ok((question.options.join(" "), question.column)),
                Requested::Compare(_) => panic!("compared"),
                Requested::Skip(reason) => Err(reason),
            }
        };
        let one = asked("t,c,hccl_demo,\"all_reduce, bfloat16, 1000 calls\",2,16,1024,bandwidth,GB/s,1").unwrap();
        assert_eq!(one, ("--test all_reduce --data_type bfloat16 --loop 1000 --size 1024".to_owned(), Some("bandwidth")));
        assert!(asked("t,c,hccl_demo,broadcast,2,16,1024,bandwidth,GB/s,1").unwrap_err().contains("none of the tests"));
    }
}
