//! nccl-tests, and OMB's collective operations over NCCL, which time the same.
//!
//! On one node a row is run as Azure's guide does, one process with all GPUs (`-g`); on several there is a process for each GPU. The variant says
//! in place or out of place, type and operator, and what the library was told: variables, `SHARP on`, an algorithm or a protocol by its name.

use fabriscope_tools::{Suite, Traits};

use super::names::{bandwidth, plain, time, tool_of};
use super::words::{Words, phrases};
use super::{Quantity, Question, Requested};
use crate::measured::Row;

/// The run that answers a row of NCCL's operations; none for other rows.
pub(super) fn ask(row: &Row) -> Option<Requested> {
    let tool = tool_of(&row.benchmark).ok()?.tool;
    let traits = tool.traits();
    (traits.suite == Suite::NcclTests)
        .then(|| answered(row, tool.name(), &traits).map_or_else(Requested::Skip, |(q, of)| Requested::Run(q, of)))
}

fn answered(row: &Row, tool: &'static str, traits: &Traits) -> Result<(Question, Quantity), String> {
    if row.value == 0.0 {
        return Err("it was printed as 0.00".to_owned());
    }
    let said = Said::of(traits, &row.variant)?;
    let none = || format!("{tool} does not give the metric `{}` in `{}`", row.metric, row.unit);
    let (column, quantity) = match plain(&row.metric).as_str() {
        "time" | "latency" | "timeus" | "latencyus" | "latencymedian" | "avglatency" => (["time", "time_in_place"], time(&row.unit)),
        "busbw" | "busbandwidth" | "busbwgbs" => (["busbw", "busbw_in_place"], bandwidth(&row.unit)),
        _ => return Err(none()),
    };
    let column = column[usize::from(said.in_place)];
    let quantity = quantity.ok_or_else(none)?;
    let ranks = row.ranks.ok_or("the row does not say how many ranks there are; --nodes and --ppn say what rows do not")?;
    let mut options = said.options;
    let nodes = row.nodes.unwrap_or(1);
    if nodes == 1 && said.single_node {
        options.extend(["-g".to_owned(), ranks.to_string()]);
    }
    let question = Question {
        cluster: row.cluster.clone(),
        tool,
        options,
        nodes,
        ranks,
        message_bytes: row.message_bytes,
        column: Some(column),
        ..Question::default()
    };
    Ok((question, quantity))
}

/// What the variant of such a row says.
#[derive(Default)]
struct Said {
    options: Vec<String>,
    in_place: bool,
    single_node: bool,
}

impl Said {
    fn of(traits: &Traits, variant: &str) -> Result<Said, String> {
        let mut said = Said::default();
        let mut rest = Vec::new();
        for phrase in phrases(variant) {
            let lower = phrase.to_ascii_lowercase();
            match lower.as_str() {
                "in-place" | "in place" | "inplace" => said.in_place = true,
                "out-of-place" | "out of place" => {}
                _ if lower.starts_with("single node") => said.single_node = true,
                _ if said.type_and_operator(&lower) || said.choice(&lower) => {}
                _ => rest.push(phrase),
            }
        }
        let words = Words::of(traits, &rest.join(", "))?;
        said.options.extend(words.options);
        Ok(said)
    }

    /// `float sum`, `bfloat16`, `max`.
    fn type_and_operator(&mut self, lower: &str) -> bool {
        let mut options = Vec::new();
        for word in lower.split_whitespace() {
            let (option, value) = match word {
                "float" | "fp32" | "float32" => ("-d", "float"),
                "half" | "fp16" | "float16" => ("-d", "half"),
                "bfloat16" | "bf16" => ("-d", "bfloat16"),
                "double" | "fp64" | "float64" => ("-d", "double"),
                "int8" | "uint8" | "int32" | "uint32" | "int64" | "uint64" => ("-d", word),
                "sum" | "prod" | "min" | "max" | "avg" => ("-o", word),
                _ => return false,
            };
            if !matches!(value, "float" | "sum") {
                options.extend([option.to_owned(), value.to_owned()]);
            }
        }
        self.options.append(&mut options);
        true
    }

    /// `Ring`, `algo=NVLS`, `LL128`.
    fn choice(&mut self, lower: &str) -> bool {
        let word = ["algorithm", "algo", "protocol", "proto"].into_iter().find_map(|prefix| lower.strip_prefix(prefix)).unwrap_or(lower);
        let word = word.trim_start_matches([' ', '=', ':']);
        let known =
            [("ring", "Ring"), ("tree", "Tree"), ("nvls", "NVLS"), ("nvlstree", "NVLSTree")].into_iter().find(|(name, _)| *name == word);
        let protocol = [("ll", "LL"), ("ll128", "LL128"), ("simple", "Simple")].into_iter().find(|(name, _)| *name == word);
        let set = known.map(|(_, name)| format!("NCCL_ALGO={name}")).or(protocol.map(|(_, name)| format!("NCCL_PROTO={name}")));
        let Some(set) = set else { return false };
        self.options.extend(["--env".to_owned(), set]);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measured;

    fn asked(line: &str) -> Result<(String, Option<&'static str>), String> {
        let head = "table,cluster,benchmark,variant,nodes,ranks,message_bytes,metric,unit,value\n";
        let table = measured::read("t.csv", format!("{head}{line}\n").as_bytes()).unwrap();
        match super::super::ask(&table, &table.rows()[0]).unwrap() {
            Requested::Run(question, _) => Ok((format!("{} {}", question.tool, question.options.join(" ")), question.column)),
            Requested::Compare(_) => panic!("compared"),
            Requested::Skip(reason) => Err(reason),
        }
    }

    #[test]
    fn rows_of_nccl_say_what_was_run() {
        let one = asked("t,c,all_reduce_perf,\"single node 8 GPUs, in-place\",1,8,1024,busbw,GB/s,1").unwrap();
        assert_eq!(one, ("all_reduce_perf -g 8".to_owned(), Some("busbw_in_place")));
        let two = asked("t,c,nccl_allreduce,2 nodes; out-of-place; float sum,2,16,1024,time,us,1").unwrap();
        assert_eq!(two, ("all_reduce_perf ".to_owned(), Some("time")));
        let told = asked("t,c,NCCL all_gather,\"bf16, NCCL_PROTO=Simple, Ring\",2,16,1024,busbw,GB/s,1").unwrap();
        assert_eq!(told.0, "all_gather_perf -d bfloat16 --env NCCL_ALGO=Ring --env NCCL_PROTO=Simple");
        let sharp = asked("t,c,all_reduce_perf,SHARP on,2,16,1024,busbw,GB/s,1").unwrap();
        assert_eq!(sharp.0, "all_reduce_perf --env NCCL_COLLNET_ENABLE=1");
        let xccl = asked("t,c,osu_nccl_reduce_scatter,x,2,16,1024,latency,us,1").unwrap();
        assert_eq!(xccl.1, Some("time"));
    }

    #[test]
    fn what_is_not_modelled_is_refused() {
        let refused = |line: &str| asked(line).unwrap_err();
        assert!(refused("t,c,all_reduce_perf,no plug-in,2,16,1024,busbw,GB/s,1").contains("without its plug-in"));
        assert!(refused("t,c,all_reduce_perf,FI_EFA_USE_DEVICE_RDMA=0,2,16,1024,busbw,GB/s,1").contains("FI_EFA_USE_DEVICE_RDMA=0"));
        assert!(refused("t,c,all_reduce_perf,x,2,16,1024,busbw,GB/s,0").contains("0.00"));
        assert!(refused("t,c,all_reduce_perf,x,2,16,1024,algbw,GB/s,1").contains("algbw"));
    }
}
