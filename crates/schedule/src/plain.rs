//! How a schedule looks to serde: nested lists instead of flat arrays.

use serde::{Deserialize, Serialize};

use crate::{After, Builder, OpKind, Schedule};

/// One list per rank.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Plain {
    ranks: Vec<Vec<PlainOp>>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct PlainOp {
    op: OpKind,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    after: Vec<After>,
}

impl Plain {
    pub(crate) fn into_builder(self) -> Builder {
        // Saturated: the builder refuses so many ranks.
        let mut builder = Builder::new(u32::try_from(self.ranks.len()).unwrap_or(u32::MAX));
        for (rank, ops) in (0..).zip(self.ranks) {
            for PlainOp { op, after } in ops {
                builder.op_after(rank, op, &after);
            }
        }
        builder
    }
}

impl From<Schedule> for Plain {
    fn from(schedule: Schedule) -> Plain {
        let ops = |rank| schedule.ops(rank).map(|op| PlainOp { op: op.kind, after: op.after.to_vec() }).collect();
        Plain { ranks: (0..schedule.ranks()).map(ops).collect() }
    }
}
