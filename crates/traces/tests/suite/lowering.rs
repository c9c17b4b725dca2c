//! Traces as schedules: what is kept, scaled, matched and refused.

use fabriscope_schedule::{Builder, OpId, OpKind};
use fabriscope_traces::{Call, Gaps, LowerOptions, Lowering, Part, Record, Trace, Unlowered, lower, read_parts};
use fabriscope_units::{Bytes, Span};

/// Collectives as one message to the next rank, which is enough to see that they begin and end where they should.
pub struct Ring;

impl Lowering for Ring {
    fn collective(&mut self, builder: &mut Builder, call: &Call<'_>) -> Result<Vec<OpId>, String> {
        let count = call.members.len();
        let piece = Bytes(call.bytes.0 / count as u64);
        let mut ends = Vec::new();
        for (at, rank) in call.members.iter().enumerate() {
            let send = builder.send(*rank, call.members[(at + 1) % count], piece, call.tag);
            let recv = builder.recv(*rank, call.members[(at + count - 1) % count], piece, call.tag);
            builder.requires(*rank, send, call.entry[at]);
            builder.requires(*rank, recv, call.entry[at]);
            ends.push(builder.join(*rank, &[send, recv]));
        }
        Ok(ends)
    }
    fn compute(&mut self, _: u32, _: &Record, recorded: Span) -> Span {
        Span::from_ps(recorded.as_ps() / 10)
    }
}

fn goal(text: &str) -> Trace {
    read_parts(vec![Part::new("a.goal", text.as_bytes().to_vec())]).unwrap().remove(0)
}

fn computed(gaps: Gaps) -> Span {
    let trace = goal("num_ranks 1\nrank 0 {\na: calc 1000\nb: calc 500\nb requires a\n}\n");
    lower(&trace, &LowerOptions { gaps, ..LowerOptions::default() }, &mut Ring).unwrap().schedule.stats().computed
}

#[test]
fn computation_is_kept_scaled_or_replaced() {
    assert_eq!(computed(Gaps::Kept), Span::from_ns(1500));
    assert_eq!(
        computed(Gaps::Scaled { numerator: 1, denominator: 3 }),
        Span::from_ns(333) + Span::from_ps(333) + Span::from_ns(166) + Span::from_ps(666)
    );
    assert_eq!(computed(Gaps::Replaced), Span::from_ns(150));
}

#[test]
fn collectives_are_made_by_the_caller_and_refused_without_one() {
    let text = "HYBRID_TRANSFORMER model_parallel_NPU_group: 4 all_gpus: 8\n1\na -1 100 ALLREDUCE 4096 10 NONE 0 20 NONE 0 5\n";
    let trace = read_parts(vec![Part::new("w.txt", text.as_bytes().to_vec())]).unwrap().remove(0);
    let missing = lower(&trace, &LowerOptions::default(), &mut Ring).unwrap_err().to_string();
    assert_eq!(missing, "7 of 8 ranks have no records");
    let all = trace.spread(8).unwrap();
    let lowered = lower(&all, &LowerOptions::default(), &mut Ring).unwrap();
    let stats = lowered.schedule.stats();
    // Two groups of four: eight messages of a quarter each.
    assert_eq!((lowered.collectives, stats.messages, stats.bytes), (2, 8, Bytes(8 * 1024)));
    assert_eq!(stats.computed, Span::from_ns(8 * 130));
    let refused = lower(&all, &LowerOptions::default(), &mut Unlowered).unwrap_err().to_string();
    assert_eq!(refused, "rank 0, record 1: nothing here makes messages of all_reduce");
    // Twice the ranks are twice the tensor groups, whatever the file says of all.
    assert_eq!(trace.spread(16).unwrap().groups.len(), 4);
    assert_eq!(trace.spread(7).unwrap_err().to_string(), "group TP has no pattern that can be moved to other ranks of 7");
}

#[test]
fn ranks_that_disagree_are_errors() {
    let trace = goal("num_ranks 2\nrank 0 {\nsend 8b to 1 tag 3\nsend 8b to 1 tag 3\n}\nrank 1 {\nrecv 8b from 0 tag 3\n}\n");
    let error = lower(&trace, &LowerOptions::default(), &mut Unlowered).unwrap_err().to_string();
    assert_eq!(error, "rank 0 sends 2 messages to rank 1 with tag 3, which receives 1");
    let trace = goal("num_ranks 2\nrank 0 {\nsend 9b to 1\n}\nrank 1 {\nrecv 8b from 0\n}\n");
    let error = trace.check().unwrap_err().to_string();
    assert_eq!(error, "rank 0 sends 9 B to rank 1 with tag 0 where that receives 8 B (message 1 of them)");
    let trace = goal("num_ranks 1\nrank 0 {\na: calc 1\nb: calc 1\na requires b\nb requires a\n}\n");
    assert_eq!(trace.check().unwrap_err().to_string(), "rank 0: record 0 (`a`) waits for itself, through 1 others");
}

#[test]
fn receives_of_anybody_take_what_is_left_in_order() {
    let text = "num_ranks 3\nrank 0 {\nsend 8b to 2 tag 1\n}\nrank 1 {\nsend 16b to 2 tag 1\n}\nrank 2 {\na: recv 64b from -1 tag 1\nb: recv 16b from 1 tag 1\nb requires a\n}\n";
    let lowered = lower(&goal(text), &LowerOptions::default(), &mut Unlowered).unwrap();
    assert_eq!((lowered.any_source, lowered.shortened), (1, 1));
    assert_eq!(lowered.schedule.kinds(2)[0], OpKind::Recv { from: 0, bytes: Bytes(8), tag: 1 });
}

#[test]
fn a_trace_that_would_not_fit_into_memory_is_refused() {
    let file = crate::samples::file("aliyun__SimAI/example_workload_analytical.txt");
    let trace = &fabriscope_traces::read(&[file]).unwrap()[0];
    assert_eq!(trace.spread(9216).unwrap_err().to_string(), "9216 ranks of 8671 records each are more than 16777216 records");
}
