//! Who belongs to which communicator: ranks join, split one into several, and leave.

use std::collections::BTreeMap;
use std::sync::Arc;

use fabriscope_nccl::{Operation, Plan, Tuner};
use fabriscope_nccl_runtime::{MemberPlacement, World as Ranks, connections, pairs};
use fabriscope_units::Bytes;

use super::{Communicator, Due, Formed, Gpus, Member};

/// `ncclCommSplit`, as far as ranks have called it.
#[derive(Default)]
pub(super) struct Split {
    /// Colour and key of each rank.
    asked: BTreeMap<u32, (i32, i32)>,
    /// What each rank got, when all had asked.
    made: Option<BTreeMap<u32, Part>>,
}

/// A rank of a communicator that came out of another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Part {
    pub communicator: usize,
    pub rank: u32,
    pub ranks: u32,
}

/// The colour of those that get no communicator: `NCCL_SPLIT_NOCOLOR`.
const NO_COLOR: i32 = -1;

impl Gpus {
    /// A rank of `ranks` joins; true when it was the last one, so that all GPUs have something to do.
    pub fn join(&mut self, id: usize, (ranks, rank): (u32, u32), member: Member) -> Result<bool, String> {
        let of = self.communicators.get_mut(id).ok_or_else(|| "no such communicator".to_owned())?;
        if of.members.is_empty() {
            of.ranks = ranks;
        }
        if ranks == 0 || rank >= ranks || ranks != of.ranks || of.members.contains_key(&rank) {
            return Err(format!("rank {rank} of {ranks}, in a communicator of {} that has {} already", of.ranks, of.members.len()));
        }
        if let Some((other, _)) = of.members.iter().find(|(_, other)| other.at == member.at) {
            let (gpu, host) = (member.at.gpu, member.at.node);
            return Err(format!("ranks {other} and {rank} share gpu{gpu} of host {host}: a communicator has one rank for each GPU"));
        }
        of.members.insert(rank, member);
        if of.members.len() < ranks as usize {
            return Ok(false);
        }
        self.complete(id).map(|()| true)
    }

    /// All ranks of a communicator are there.
    fn complete(&mut self, id: usize) -> Result<(), String> {
        match self.form(id) {
            Ok(formed) => {
                let of = &mut self.communicators[id];
                of.formed = Some(formed);
                of.open.resize(of.ranks as usize, Default::default());
                self.tell_members(id, Due::Open(id));
                Ok(())
            }
            Err(error) => {
                self.communicators[id].refused = Some(error.clone());
                Err(error)
            }
        }
    }

    /// Gives all GPUs of a communicator something to do.
    fn tell_members(&mut self, id: usize, due: Due) {
        let members: Vec<Member> = self.communicators[id].members.values().copied().collect();
        for member in members {
            let gpu = self.number(member.at) as usize;
            self.due[gpu].push_back(due);
        }
    }

    /// A GPU has made its ends of the connections; true when it was the last.
    pub fn opened(&mut self, id: usize) -> bool {
        let of = &mut self.communicators[id];
        of.opened += 1;
        let all = of.opened == of.ranks;
        if all {
            self.tell_members(id, Due::Connect(id));
        }
        all
    }

    /// A rank asks for its part of a communicator that is split: which split it is, and whether all have asked.
    pub fn split(&mut self, id: usize, rank: u32, (color, key): (i32, i32)) -> Result<(usize, bool), String> {
        let of = self.communicators.get_mut(id).filter(|of| of.members.contains_key(&rank)).ok_or("no such communicator")?;
        let turn = of.splits.iter().position(|split| !split.asked.contains_key(&rank)).unwrap_or(of.splits.len());
        if turn == of.splits.len() {
            of.splits.push(Split::default());
        }
        let asked = &mut of.splits[turn].asked;
        asked.insert(rank, (color, key));
        if asked.len() < of.ranks as usize {
            return Ok((turn, false));
        }
        let mut groups: BTreeMap<i32, Vec<(i32, u32)>> = BTreeMap::new();
        for (rank, (color, key)) in asked.iter().filter(|(_, (color, _))| *color != NO_COLOR) {
            groups.entry(*color).or_default().push((*key, *rank));
        }
        let mut made = BTreeMap::new();
        let mut refused = None;
        for mut group in groups.into_values() {
            group.sort_unstable();
            let (communicator, ranks) = (self.communicators.len(), group.len() as u32);
            let mut new = Communicator { ranks, ..Communicator::default() };
            for (rank, (_, of_whole)) in (0..).zip(group) {
                new.members.insert(rank, self.communicators[id].members[&of_whole]);
                made.insert(of_whole, Part { communicator, rank, ranks });
            }
            self.communicators.push(new);
            refused = refused.or(self.complete(communicator).err());
        }
        self.communicators[id].splits[turn].made = Some(made);
        refused.map_or(Ok((turn, true)), Err)
    }
    /// What a rank got of a split; nothing while not all have asked.
    pub fn part(&self, id: usize, rank: u32, turn: usize) -> Option<Option<Part>> {
        let made = self.communicators.get(id)?.splits.get(turn)?.made.as_ref()?;
        Some(made.get(&rank).copied())
    }

    /// A rank leaves, with all that its GPU still runs of the communicator where it aborts.
    pub fn leave(&mut self, id: usize, rank: u32, aborts: bool) {
        let Some(member) = self.communicators.get(id).and_then(|of| of.members.get(&rank)).copied() else { return };
        if aborts {
            let of = &mut self.communicators[id];
            let open = of.open.get_mut(rank as usize).map(std::mem::take).unwrap_or_default();
            open.into_iter().for_each(|call| self.calls[call].moved = true);
            let gpu = self.number(member.at) as usize;
            self.due[gpu].push_back(Due::Abort(id));
        }
        self.communicators[id].left.insert(rank);
        self.close_if_over(id);
    }
    /// A process has ended, and with it its ranks.
    pub fn leave_all(&mut self, program: u32) {
        for id in 0..self.communicators.len() {
            let members = self.communicators[id].members.iter();
            let own: Vec<u32> = members.filter(|(_, member)| member.program == program).map(|(rank, _)| *rank).collect();
            own.into_iter().for_each(|rank| self.leave(id, rank, false));
        }
    }
    /// When all have left and nothing runs any more, GPUs forget the communicator.
    pub(super) fn close_if_over(&mut self, id: usize) {
        let of = &mut self.communicators[id];
        if of.ranks > 0 && of.left.len() == of.ranks as usize && of.running == 0 && of.formed.take().is_some() {
            self.tell_members(id, Due::Close(id));
        }
    }

    /// Plans a communicator, with all connections that its operations take.
    fn form(&self, id: usize) -> Result<Formed, String> {
        let refused = |error: fabriscope_nccl::NcclError| error.to_string();
        let seats =
            self.communicators[id].members.values().map(|member| MemberPlacement { process: self.number(member.at), at: member.at });
        let (library, place) = (&self.library, (&self.shares, id as u32));
        let ranks = Ranks::on_gpus(library, &self.target, place, seats.collect(), &library.settings).map_err(refused)?;
        let tuner = Arc::new(Tuner::new(ranks.plan()));
        let mut plans = Vec::new();
        for operation in Operation::ALL {
            for size in (0..=MOST_SIZE).map(|power| 1_u64 << power) {
                let Ok(choice) = tuner.choose(operation, Bytes(size)) else { continue };
                plans.push(Plan::new(ranks.plan(), choice, size, Bytes(1), 0, false).map_err(refused)?);
            }
        }
        let mut wires: BTreeMap<_, _> = connections(&ranks, plans).into_iter().collect();
        let all = ranks.plan().ranks();
        let everybody: Vec<(u32, u32)> =
            (0..all).flat_map(|from| (0..all).map(move |to| (from, to))).filter(|(from, to)| from != to).collect();
        let lengths: Vec<Bytes> = (0..=MOST_SIZE).map(|power| Bytes(1 << power)).collect();
        wires.extend(pairs(&ranks, &everybody, &lengths));
        Ok(Formed { ranks, tuner, wires: Arc::new(wires.into_iter().collect()) })
    }
}

/// Sizes for which connections are made: 1 B to 2^34 B. A larger message takes those of the largest.
const MOST_SIZE: u32 = 34;
