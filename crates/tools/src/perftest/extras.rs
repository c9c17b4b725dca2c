//! What only some runs have: sleeping on events, multicast groups, memory windows, messages of the connection manager, keys that are wrong.
//!
//! Source: perftest 6.29 (`-e`, `-g`, `-R`); IBA vol. 1 §11.4.2.2 (request for a notification), §12.6 (REQ, REP, RTU), §10.6.7 (windows).
//! Modelled: a program that sleeps until an event of its queue, which costs an interrupt and waking up, and asks for the next one before it
//! polls; a group that the server's queue pair is attached to; a window over the receiving half of the buffer, bound before the clock
//! starts; three datagrams of 256 bytes between the ends before they connect.
//! Not modelled: datagrams of the connection manager through queue pair 1 (they take one of their own here), their retries.

use fabriscope_node::{Process, ProgramError};
use fabriscope_units::Span;
use fabriscope_verbs::{
    Access, AhAttr, Change, CqId, JoinState, Lid, Membership, Mr, PdId, QpAttr, QpCap, QpInit, QpNum, QpType, RecvWr, Rkey, SendWr, Sge,
    UdDestination, VerbsError, Wc, WcStatus,
};

use super::defaults::WAKE_UP;
use super::endpoint::{Board, Endpoint, Offer, QKEY, Role};
use super::header::GROUP;
use super::report::Failure;
use super::settings::{GRH, Settings};

impl Endpoint {
    /// What comes after the queue pairs are connected and before the clock starts.
    pub(super) async fn prepare(&mut self, board: &Board) -> Result<(), ProgramError> {
        let nic = self.settings.nic;
        if self.settings.multicast {
            self.join().await?;
        }
        if self.settings.window.is_some() {
            self.bind(board).await?;
        }
        if self.settings.events {
            for cq in [self.send_cq, self.recv_cq] {
                self.process.nic(nic, |n| n.req_notify_cq(cq, false))?;
            }
        }
        Ok(())
    }

    /// Sleeps until `cq` has completions, up to `max`.
    pub(super) async fn sleep(&self, cq: CqId, max: usize) -> Result<Vec<Wc>, ProgramError> {
        let nic = self.settings.nic;
        loop {
            self.process.wait_any(&[(nic, cq.events())], &[]).await;
            let now = self.process.now();
            if !self.process.nic(nic, |n| n.take_cq_event(now, cq)) {
                continue;
            }
            self.process.compute(WAKE_UP);
            self.process.nic(nic, |n| n.req_notify_cq(cq, false))?;
            let found = self.process.poll_cq(nic, cq, max).await;
            if !found.is_empty() {
                return Ok(found);
            }
        }
    }

    /// Joins the group of the run; datagrams go there from now on.
    async fn join(&mut self) -> Result<(), ProgramError> {
        let (nic, pd, sl) = (self.settings.nic, self.pd, self.settings.sl);
        let control = self.process.nic(nic, |n| n.create_cq(1))?;
        let change = Change::Join { state: JoinState::Full, qkey: QKEY };
        self.process.nic(nic, |n| n.post_membership(Membership { mgid: GROUP, change, cq: control, wr_id: 0 }));
        let answer = self.process.wait_cq(nic, control, 1).await;
        let mlid = answer.first().filter(|wc| wc.status == WcStatus::Success).and_then(|wc| wc.imm);
        let mlid =
            mlid.ok_or_else(|| ProgramError("the group of -g was refused: the network has no multicast; leave -g out".to_owned()))?;
        let group = Lid::multicast(mlid as u16);
        let qps = self.qps.clone();
        let ah = self.process.nic(nic, |n| -> Result<_, VerbsError> {
            qps.iter().try_for_each(|qp| n.attach_mcast(*qp, group))?;
            n.create_ah(pd, AhAttr { dlid: group, sl })
        })?;
        let to = UdDestination { ah, remote_qpn: QpNum::MULTICAST, remote_qkey: QKEY };
        self.datagrams = vec![Some(to); qps.len()];
        self.process.barrier().await;
        self.process.sleep_until(self.process.now() + SETTLE).await;
        self.process.barrier().await;
        Ok(())
    }

    /// Opens the receiving half of the buffer by a memory window, whose key the other end uses.
    async fn bind(&mut self, board: &Board) -> Result<(), ProgramError> {
        let (nic, pd, half) = (self.settings.nic, self.pd, self.settings.half());
        let Some(kind) = self.settings.window else { return Ok(()) };
        let key = self.process.nic(nic, |n| n.alloc_mw(pd, kind))?;
        // The last byte is the program's, or the library's, to choose.
        let rkey = Rkey(key.0 & !0xff | (key.0.wrapping_add(1) & 0xff));
        let at = Sge { addr: self.mr.addr + half, length: u32::try_from(half).unwrap_or(u32::MAX), lkey: self.mr.lkey };
        let begun = self.process.now();
        self.post(0, &SendWr::bind(0, rkey, at, Access::ALL).signaled())?;
        self.process.wait_cq(nic, self.send_cq, 1).await;
        self.bound = Some(self.process.now().since(begun));
        for offer in &mut board.lock()[self.process.rank() as usize] {
            offer.address.rkey = rkey.0;
        }
        self.process.barrier().await;
        self.remote.clone_from(&board.lock()[1 - self.process.rank() as usize]);
        Ok(())
    }

    /// What else is to be told of this end.
    pub(super) fn remarks(&self) -> Vec<String> {
        self.bound.iter().map(|span| format!("each end bound a memory window; from the post to its completion that took {span}")).collect()
    }

    /// The error that a completion makes of the run; where keys are wrong on purpose it is kept.
    pub(super) fn failed(&self, bad: &Wc, message: String) -> ProgramError {
        if self.role == Role::Client && self.settings.wrong_rkey {
            self.failure.set(Some(Failure { status: bad.status, qp: bad.wr_id >> 40, counts: self.counts.get() }));
        }
        ProgramError(message)
    }
}

/// The two ends meet as by rdma_cm: the client asks (REQ), the server answers (REP), the client is ready (RTU).
pub(super) async fn meet(process: &Process, settings: &Settings, (pd, mr): (PdId, Mr), board: &Board) -> Result<(), ProgramError> {
    let nic = settings.nic;
    let (me, client) = (process.rank() as usize, process.rank() == 0);
    let (qp, cq) = process.nic(nic, |n| -> Result<_, VerbsError> {
        let cq = n.create_cq(8)?;
        let cap = QpCap { max_send_wr: 4, max_recv_wr: 4, ..QpCap::default() };
        let qp = n.create_qp(&QpInit { cap, ..QpInit::new(pd, QpType::Ud, cq) })?;
        for step in [QpAttr::init_ud(QKEY), QpAttr::rtr_ud(), QpAttr::rts(0)] {
            n.modify_qp(qp, &step)?;
        }
        Ok((qp, cq))
    })?;
    let buffer = Sge { addr: mr.addr + mr.length.0 / 2, length: (MAD + GRH) as u32, lkey: mr.lkey };
    for _ in 0..2 {
        process.post_recv(nic, qp, &RecvWr::new(RECEIVE, buffer))?;
    }
    // Where the other end is, is known from its name.
    board.lock()[me] = vec![Offer::of(process.lid(nic), qp)];
    process.barrier().await;
    let Some((dlid, there)) = board.lock()[1 - me].first().map(Offer::place) else { return Ok(()) };
    let ah = process.nic(nic, |n| n.create_ah(pd, AhAttr { dlid, sl: settings.sl }))?;
    let to = UdDestination { ah, remote_qpn: there, remote_qkey: QKEY };
    let message = Sge { addr: mr.addr, length: MAD as u32, lkey: mr.lkey };
    // Of the three messages the client sends the first and the last.
    for number in 0..3u64 {
        if (number == 1) != client {
            process.post_send(nic, qp, &SendWr::send(0, message).to(to))?;
        } else {
            process.wait_cq(nic, cq, 1).await;
        }
    }
    process.barrier().await;
    Ok(())
}

/// Bytes of a message of management. Basis: standard, IBA vol. 1 §13.4.2.
const MAD: u64 = 256;
/// `wr_id` of receives.
const RECEIVE: u64 = 1;
/// Until switches know a group. Basis: assumed; longer than the manager takes (`[multicast]` of clusters).
const SETTLE: Span = Span::from_us(20_000);
