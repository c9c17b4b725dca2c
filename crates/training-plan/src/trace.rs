//! A step as a trace: every kernel, collective and message of every GPU, with its groups, for programs that read traces.
//!
//! Modelled: groups as the layout has them, under the names TP, CP, DP, EP, DP_EP, PP; streams as lanes.
//! Not modelled: when anything starts: that is the reader's.

use fabriscope_traces::{
    After, Collective, Format, Group, Groups, Kind, Message, Operation as Together, RankTrace, Reading, Record, RecordId, Trace,
};
use fabriscope_training::operations::{Action, Neighbour, Task};
use fabriscope_training::{Group as Pattern, Layout, Operation};

/// The trace of a job of which the stages do this.
#[must_use]
pub fn trace(name: &str, layout: &Layout, stages: &[Vec<Task>], format: Format) -> Trace {
    let gpus = layout.gpus() as u32;
    let of_stage = layout.pipeline_group().stride;
    let mut groups = Groups::default();
    let mut ranks = Vec::with_capacity(gpus as usize);
    for gpu in 0..gpus {
        let mut records: Vec<Record> = Vec::new();
        for (number, task) in (0..).zip(&stages[(gpu / of_stage) as usize]) {
            let message = |neighbour, bytes, tag| {
                let peer = match neighbour {
                    Neighbour::Next => (gpu + of_stage) % gpus,
                    Neighbour::Previous => (gpu + gpus - of_stage) % gpus,
                };
                Message { peer: Some(peer), tag: Some(tag), bytes, group: None }
            };
            let kind = match task.action {
                Action::Compute(_) => Kind::Compute,
                Action::Send(to, bytes, tag) => Kind::Send(message(to, bytes, tag)),
                Action::Receive(from, bytes, tag) => Kind::Recv(message(from, bytes, tag)),
                Action::Together(operation, bytes, pattern) => {
                    let group = Some(groups.add(group(layout, gpu, pattern)));
                    Kind::Collective(Collective { operation: together(operation), bytes: Some(bytes), element: None, group, root: None })
                }
            };
            let after = task.after.iter().map(|before| After::End(RecordId(u64::from(*before))));
            let mut record = Record::new(number, task.name.clone(), kind).after(after).on(task.stream);
            if let Action::Compute(span) = task.action {
                record = record.lasting(span);
            }
            records.push(record);
        }
        ranks.push(RankTrace { rank: gpu, file: format!("{name}.{gpu}"), records });
    }
    Trace { name: name.to_owned(), format, version: None, world: gpus, ranks, groups, every_rank: false, reading: Reading::default() }
}

const fn together(operation: Operation) -> Together {
    match operation {
        Operation::AllReduce => Together::AllReduce,
        Operation::AllGather => Together::AllGather,
        Operation::ReduceScatter => Together::ReduceScatter,
        // Around a ring of those who share a sequence: everybody gets what everybody has.
        Operation::SendReceive => Together::AllGather,
        Operation::AllToAll | Operation::Tokens { .. } => Together::AllToAll,
    }
}

/// The group of a GPU.
fn group(layout: &Layout, gpu: u32, pattern: Pattern) -> Group {
    let Pattern { size, stride } = pattern;
    let block = stride.saturating_mul(size).max(1);
    let first = gpu / block * block + gpu % stride.max(1);
    let kinds = [
        ("TP", layout.tensor_group()),
        ("CP", layout.context_group()),
        ("EP", layout.expert_group()),
        ("DP", layout.data_group()),
        ("DP_EP", layout.expert_data_group()),
    ];
    let name = kinds.into_iter().find(|(_, kind)| *kind == pattern).map_or("PP", |(name, _)| name);
    // The first group of a kind has the name of the kind, as files of one rank do.
    let name = if first == 0 { name.to_owned() } else { format!("{name}-{first}") };
    Group::regular(name, first, stride, size)
}
