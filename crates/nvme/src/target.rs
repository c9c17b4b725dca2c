//! Who serves commands: a core of the target's host, a core on its adapter, or the adapter by itself.
//!
//! Source: NVMe over RDMA Transport Specification 1.0: data of a read are written into the host's memory, then the answer is sent under the
//! same doorbell; data of a long write are read first. NVIDIA, "NVMe-oF target offload": the adapter puts commands into the queues of the
//! drives, which write and read a buffer that it has.
//! Modelled: one loop that polls capsules and drives; the server's time by command, half on the way to the drive and half on the way back;
//! an interrupt where the software does not poll and the core was idle; an adapter's engine takes a command every `interval` and adds
//! `latency` instead of any core's time.
//! Not modelled: buffers that run out, credits of queue pairs beyond their depth.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use fabriscope_node::{CpuCosts, Process, ProgramError};
use fabriscope_units::{Span, Time};
use fabriscope_verbs::{CqId, MemoryId, QpNum, WcOpcode};

use crate::command::{COMPLETION, Command, QueuePairEnd, Shared};
use crate::host::MOST;
use crate::queue_pair::{NIC, QueuePair, checked, completions};
use crate::settings::{Server, Settings};

/// A command whose turn comes then: for the drive, or for its answer.
#[derive(Clone, Copy, Debug)]
enum Turn {
    /// The engine of the adapter hands it to a drive.
    Submit,
    /// The drive has done it.
    Answer,
}

/// What serves, and how far it is.
struct Loop<'s> {
    process: &'s Process,
    settings: &'s Settings,
    shared: &'s Shared,
    cq: CqId,
    /// Connections: number, queue pair, the host's end.
    served: Vec<(usize, QueuePair, QueuePairEnd)>,
    /// A core's time for a command, on each of its two turns.
    half: Span,
    /// Until when the adapter's engine is taken.
    engine: Time,
    /// Turns by time; equal ones in the order in which they were asked for.
    turns: BinaryHeap<Reverse<(Time, u64, usize, u32)>>,
    what: Vec<Vec<Option<(Command, Turn)>>>,
    asked: u64,
    /// Time in which it did not wait.
    busy: Span,
}

/// One core, until all its connections are closed. On a core of the adapter, `host` are the costs of a core beside it, for which the software's times are.
pub(crate) async fn run(
    process: &Process,
    s: &Settings,
    shared: &Shared,
    (core, host): (u32, Option<CpuCosts>),
) -> Result<(), ProgramError> {
    let half = half(*s.target.target, process.cpu(), host);
    if s.offload.is_some() {
        process.drive_as(free(process.cpu()));
    }
    let numbers: Vec<usize> = (core..s.cores).step_by(s.target_cores as usize).map(|number| number as usize).collect();
    let cq = completions(process, s, numbers.len() as u32)?;
    let place = if s.server == Server::Dpu { process.place(NIC) } else { MemoryId::HOST };
    let mut pairs = Vec::new();
    for &number in &numbers {
        let pair = QueuePair::open(process, s, cq, (number as u32, place))?;
        shared.connections.lock()[number].target = Some(pair.end(process));
        pairs.push(pair);
    }
    process.barrier().await;
    let mut served = Vec::new();
    for (number, pair) in numbers.into_iter().zip(pairs) {
        let peer = shared.connections.lock()[number].host;
        let peer = peer.ok_or_else(|| ProgramError("the host opened no queue pair".to_owned()))?;
        pair.connect(process, s, &peer)?;
        served.push((number, pair, peer));
    }
    process.barrier().await;
    let what = served.iter().map(|_| vec![None; s.depth as usize]).collect();
    let turns = BinaryHeap::new();
    let mut this = Loop { process, settings: s, shared, cq, served, half, engine: Time::ZERO, turns, what, asked: 0, busy: Span::ZERO };
    this.serve().await?;
    shared.served.lock()[core as usize] = this.busy;
    Ok(())
}

impl Loop<'_> {
    async fn serve(&mut self) -> Result<(), ProgramError> {
        let (process, cq) = (self.process, self.cq);
        let (mut open, mut waited, mut begun) = (self.served.len(), Span::ZERO, None);
        let mut last = process.now();
        while open > 0 {
            let until = self.turns.peek().map_or(Time::MAX, |Reverse((at, ..))| *at);
            let idle = process.now();
            process.wait_any_until(&[(NIC, cq)], &[], until).await;
            let slept = process.now().since(idle);
            if slept > process.cpu().detect {
                if begun.is_some() {
                    waited += slept;
                }
                if self.settings.offload.is_none() {
                    process.compute(*self.settings.target.wake_up);
                }
            }
            begun.get_or_insert(process.now());
            let found = checked(process.poll_cq(NIC, cq, MOST).await)?;
            for wc in found {
                let Some(at) = self.served.iter().position(|(_, pair, _)| pair.qp == wc.qp_num) else { continue };
                match wc.opcode {
                    WcOpcode::Recv => {
                        self.served[at].1.post_receive(process, wc.wr_id as u32)?;
                        let command = self.shared.connections.lock()[self.served[at].0].commands.pop_front();
                        match command {
                            Some(command) => self.arrived(at, command)?,
                            // The host's last word.
                            None => open -= 1,
                        }
                    }
                    WcOpcode::RdmaRead => {
                        let slot = wc.wr_id as u32;
                        if let Some((command, _)) = self.what[at][slot as usize] {
                            self.submit(at, command);
                        }
                    }
                    _ => {}
                }
            }
            while self.turns.peek().is_some_and(|Reverse((at, ..))| *at <= process.now()) {
                let Some(Reverse((_, _, at, slot))) = self.turns.pop() else { break };
                let Some((command, turn)) = self.what[at][slot as usize] else { continue };
                match turn {
                    Turn::Submit => self.fetch(at, command)?,
                    Turn::Answer => self.answer(at, command)?,
                }
                last = process.now();
            }
        }
        let elapsed = last.since(begun.unwrap_or(last));
        self.busy = if self.settings.offload.is_some() { Span::ZERO } else { elapsed.saturating_sub(waited) };
        Ok(())
    }
    fn turn(&mut self, at: Time, connection: usize, command: Command, turn: Turn) {
        self.asked += 1;
        self.what[connection][command.slot as usize] = Some((command, turn));
        self.turns.push(Reverse((at, self.asked, connection, command.slot)));
    }
    /// Its capsule is there.
    fn arrived(&mut self, at: usize, command: Command) -> Result<(), ProgramError> {
        let now = self.process.now();
        if let Some(engine) = &self.settings.offload {
            let begins = now.max(self.engine);
            self.engine = begins.saturating_add(*engine.interval);
            self.turn(begins.saturating_add(Span::from_ps(engine.latency.as_ps() / 2)), at, command, Turn::Submit);
            return Ok(());
        }
        self.process.compute(self.half);
        self.fetch(at, command)
    }
    /// Data that did not come with it are read first.
    fn fetch(&mut self, at: usize, command: Command) -> Result<(), ProgramError> {
        if command.access.write && command.access.bytes > *self.settings.target.in_capsule {
            let (_, pair, peer) = &self.served[at];
            self.what[at][command.slot as usize] = Some((command, Turn::Answer));
            return Ok(self.process.post_send(NIC, pair.qp, &pair.data(command.slot, peer, true))?);
        }
        self.submit(at, command);
        Ok(())
    }
    fn submit(&mut self, at: usize, command: Command) {
        let end = self.shared.drives.lock().submit(self.process.now(), command.access);
        let back = self.settings.offload.as_ref().map_or(Span::ZERO, |engine| Span::from_ps(engine.latency.as_ps() / 2));
        self.turn(end.saturating_add(back), at, command, Turn::Answer);
    }
    fn answer(&mut self, at: usize, command: Command) -> Result<(), ProgramError> {
        if self.settings.offload.is_none() {
            self.process.compute(self.half);
        }
        let (number, pair, peer) = &self.served[at];
        let answer = pair.capsule(command.slot, COMPLETION);
        self.shared.connections.lock()[*number].answers.push_back(command.slot);
        let qp: QpNum = pair.qp;
        if command.access.write {
            self.process.post_send(NIC, qp, &answer)?;
        } else {
            self.process.post_send_list(NIC, qp, &[pair.data(command.slot, peer, false), answer])?;
        }
        Ok(())
    }
}

/// Half of a command's time on this core. A core on an adapter takes longer by as much as it takes longer to build a work request.
fn half(time: Span, core: CpuCosts, host: Option<CpuCosts>) -> Span {
    let (own, usual) = (core.wqe_build.as_ps(), host.unwrap_or(core).wqe_build.as_ps());
    let longer = if usual == 0 { time.as_ps().into() } else { u128::from(time.as_ps()) * u128::from(own) / u128::from(usual) };
    Span::from_ps(u64::try_from(longer / 2).unwrap_or(u64::MAX / 4))
}

/// What an engine of the adapter pays to drive its own queues: its share is `NvmeOffload::latency`.
fn free(cpu: CpuCosts) -> CpuCosts {
    let none = Span::ZERO;
    CpuCosts { blueflame_block: none, mmio_latency: none, detect: none, ..cpu.posted_by_others() }
}
