//! A job's step: every operation of every GPU with its begin and its end, and the messages of groups between them.

use std::collections::BTreeMap;

use fabriscope_nccl::{Algorithm, Protocol};
use fabriscope_platform::nccl::Library;
use fabriscope_schedule::{After, Builder, OpId, OpKind};
use fabriscope_training::operations::{Action, Neighbour, Task};
use fabriscope_training::tokens::forwarded;
use fabriscope_training::{CommunicationTimes, Group, Layout, Operation};
use fabriscope_units::{Bytes, Span};

use crate::choice::{Choices, Chosen};
use crate::collective::{CallBuilder, Caller};
use crate::error::PlanError;
use crate::seats::Seats;
use crate::{pairs, ring, tree};

/// An operation of a GPU in a schedule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PlannedTask {
    /// Where it begins.
    pub begin: OpId,
    /// Where it ends.
    pub end: OpId,
}

/// A job in a schedule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placed {
    /// Of each GPU the rank of the schedule, its stage, and its operations, one for each of the stage's.
    pub gpus: Vec<(u32, u32, Vec<PlannedTask>)>,
    /// Operations of groups.
    pub collectives: u64,
}

/// Who makes schedules of a library on a cluster's GPUs.
pub struct Planner<'a> {
    choices: Choices<'a>,
    chosen: BTreeMap<(Operation, Bytes, Group), Chosen>,
    local: BTreeMap<(Bytes, Group), Span>,
    tag: u32,
}

/// A call of a group: the group, its first GPU, and which of the group's calls it is.
type CallKey = (Group, u32, u32);
/// Those who make a call, by their place in the group, and what they call.
type Call = (Operation, Bytes, BTreeMap<u32, Caller>);

impl<'a> Planner<'a> {
    /// For jobs on these GPUs.
    ///
    /// # Errors
    /// Adapters that act as one.
    pub fn new(library: &'a Library, seats: &'a Seats, adapters: u32) -> Result<Planner<'a>, PlanError> {
        let rails = fabriscope_nccl::Facts::rails(adapters, library.gpus());
        if rails > 1 {
            return Err(PlanError::Rails { rails });
        }
        Ok(Planner { choices: Choices::new(library, seats), chosen: BTreeMap::new(), local: BTreeMap::new(), tag: 0 })
    }

    /// Adds a job's step to a schedule, behind `first` where there is one for each GPU. `inside` is what [`operations`] was told.
    ///
    /// [`operations`]: fabriscope_training::operations::operations
    ///
    /// # Errors
    /// Groups of which the library has no plan, and what `times` cannot say.
    pub fn add<T: CommunicationTimes>(
        &mut self,
        builder: &mut Builder,
        layout: &Layout,
        stages: &[Vec<Task>],
        times: &mut T,
    ) -> Result<Placed, PlanError>
    where
        T::Error: std::fmt::Display,
    {
        let gpus = layout.gpus() as u32;
        let of_stage = layout.pipeline_group().stride;
        // Tags of messages of the pipeline are below those of calls.
        let messages = self.tag;
        self.tag = self.tag.wrapping_add(4 * layout.pipeline * layout.interleave * layout.micro_batches());
        let mut calls: BTreeMap<CallKey, Call> = BTreeMap::new();
        let mut placed = Placed { gpus: Vec::with_capacity(gpus as usize), collectives: 0 };
        for gpu in 0..gpus {
            let stage = gpu / of_stage;
            let rank = self.choices.seats.rank(gpu);
            let mut made: Vec<PlannedTask> = Vec::new();
            let mut called: BTreeMap<Group, u32> = BTreeMap::new();
            for task in &stages[stage as usize] {
                let after: Vec<After> = task.after.iter().map(|before| After::End(made[*before as usize].end)).collect();
                let planned = match task.action {
                    Action::Compute(span) => point(builder.op_after(rank, OpKind::Compute { span }, &after)),
                    Action::Send(to, bytes, number) => {
                        let far = neighbour(gpu, to, of_stage, gpus);
                        self.message(builder, (gpu, far, layout), (bytes, messages + number), &after, times)?
                    }
                    Action::Receive(from, bytes, number) => {
                        let far = neighbour(gpu, from, of_stage, gpus);
                        let from = self.choices.seats.rank(far);
                        let tag = messages + number;
                        // A GPU of the same node has put it there before it tells.
                        let bytes = if self.choices.seats.node(far) == self.choices.seats.node(gpu) { FLAG } else { bytes };
                        point(builder.op_after(rank, OpKind::Recv { from, bytes, tag }, &after))
                    }
                    Action::Together(operation, bytes, group) => {
                        let span = self.started();
                        let begin = builder.op_after(rank, OpKind::Compute { span }, &after);
                        let end = builder.op_after(rank, OpKind::Compute { span: Span::ZERO }, &[After::End(begin)]);
                        let number = called.entry(group).or_default();
                        let (first, place) = (first_of(gpu, group), gpu / group.stride % group.size);
                        let call = calls.entry((group, first, *number)).or_insert((operation, bytes, BTreeMap::new()));
                        call.2.insert(place, Caller { rank, begin, end });
                        *number += 1;
                        PlannedTask { begin, end }
                    }
                };
                made.push(planned);
            }
            placed.gpus.push((rank, stage, made));
        }
        placed.collectives = calls.len() as u64;
        for ((group, first, number), (operation, bytes, callers)) in calls {
            if callers.len() as u32 != group.size {
                return Err(PlanError::Alone { gpu: first, number, size: group.size });
            }
            let callers: Vec<Caller> = callers.into_values().collect();
            self.call(builder, (operation, bytes, group), &callers, times)?;
        }
        Ok(placed)
    }

    /// From the end of what a kernel waits for until it looks for data.
    fn started(&self) -> Span {
        self.choices.library.kernel_start + self.choices.library.pace(Protocol::Simple).step.start
    }

    fn message<T: CommunicationTimes>(
        &mut self,
        builder: &mut Builder,
        (gpu, far, layout): (u32, u32, &Layout),
        (bytes, tag): (Bytes, u32),
        after: &[After],
        times: &mut T,
    ) -> Result<PlannedTask, PlanError>
    where
        T::Error: std::fmt::Display,
    {
        let (seats, library) = (self.choices.seats, self.choices.library);
        let (rank, to) = (seats.rank(gpu), seats.rank(far));
        let inside = seats.node(gpu) == seats.node(far);
        let pace = library.pace(Protocol::Simple);
        let before = if inside {
            self.local(bytes, Group { size: 2, stride: layout.pipeline_group().stride }, times)?
        } else {
            self.started() + pace.step.begin + pace.step.end + self.choices.proxies()
        };
        let begin = builder.op_after(rank, OpKind::Compute { span: before }, after);
        let end = builder.op_after(rank, OpKind::Send { to, bytes: if inside { FLAG } else { bytes }, tag }, &[After::End(begin)]);
        Ok(PlannedTask { begin, end })
    }

    /// A message to the neighbour on the same node.
    fn local<T: CommunicationTimes>(&mut self, bytes: Bytes, group: Group, times: &mut T) -> Result<Span, PlanError>
    where
        T::Error: std::fmt::Display,
    {
        if let Some(known) = self.local.get(&(bytes, group)) {
            return Ok(*known);
        }
        let span = times.time(Operation::SendReceive, bytes, group).map_err(told)?;
        self.local.insert((bytes, group), span);
        Ok(span)
    }

    fn call<T: CommunicationTimes>(
        &mut self,
        builder: &mut Builder,
        (operation, bytes, group): (Operation, Bytes, Group),
        callers: &[Caller],
        times: &mut T,
    ) -> Result<(), PlanError>
    where
        T::Error: std::fmt::Display,
    {
        let proxies = self.choices.proxies();
        let each = self.choices.on_each(group);
        let mut call = CallBuilder::new(builder, callers, each, self.tag);
        match operation {
            Operation::AllToAll => pairs::all_to_all(&mut call, bytes, proxies),
            Operation::Tokens { .. } => {
                let node = Group { size: each, stride: group.stride };
                let sent = |group| forwarded(operation, bytes, group, each).unwrap_or_default();
                // As many as come from everywhere, on the links of one node.
                let (all, alone) = (sent(group), sent(node));
                let handed = Bytes((u128::from(bytes.0) * u128::from(all.inside.0) / u128::from(alone.inside.0.max(1))) as u64);
                let local = if each > 1 { times.time(operation, handed, node).map_err(told)? } else { Span::ZERO };
                pairs::by_nodes(&mut call, (all.outside, local), each);
            }
            Operation::SendReceive => {
                let share = Bytes(bytes.0.div_ceil(u64::from((group.size - 1).max(1))));
                let pair = Group { size: 2, stride: group.stride };
                let local = if each > 1 { self.local(share, pair, times)? } else { Span::ZERO };
                pairs::around(&mut call, bytes, (proxies, local));
            }
            Operation::AllReduce | Operation::AllGather | Operation::ReduceScatter => {
                let key = (operation, bytes, group);
                if !self.chosen.contains_key(&key) {
                    let chosen = self.choices.of(operation, bytes, group)?;
                    self.chosen.insert(key, chosen);
                }
                let chosen = &self.chosen[&key];
                let once = group.size - 1;
                match (chosen.algorithm, operation) {
                    (Algorithm::Tree, _) => tree::add(&mut call, chosen, proxies),
                    (_, Operation::AllReduce) => ring::add(&mut call, chosen, 2 * once, proxies),
                    _ => ring::add(&mut call, chosen, once, proxies),
                }
            }
        }
        self.tag = call.finish();
        Ok(())
    }
}

fn told(error: impl std::fmt::Display) -> PlanError {
    PlanError::Times { what: error.to_string() }
}

/// What tells that a message within a node is there. Basis: assumed, a word.
const FLAG: Bytes = Bytes(8);

const fn point(op: OpId) -> PlannedTask {
    PlannedTask { begin: op, end: op }
}

/// The GPU of the next or previous stage with the same place there.
const fn neighbour(gpu: u32, which: Neighbour, of_stage: u32, gpus: u32) -> u32 {
    match which {
        Neighbour::Next => (gpu + of_stage) % gpus,
        Neighbour::Previous => (gpu + gpus - of_stage) % gpus,
    }
}

/// The first GPU of the group of a GPU.
fn first_of(gpu: u32, group: Group) -> u32 {
    let block = group.stride.saturating_mul(group.size).max(1);
    gpu / block * block + gpu % group.stride.max(1)
}
