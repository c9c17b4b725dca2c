//! Answers to verbs: control verbs go to the adapter of the host at once, posts and polls to the core of the thread.

use fabriscope_node::ProgramError;
use fabriscope_units::{Bytes, Rate, Remedy, Span, Time};
use fabriscope_verbs::{
    Access, AhAttr, AhId, AltPath, AsyncEvent, Change, CqId, JoinState, Lid, Lkey, Membership, MigState, Mtu, Nic, PdId, PostError, QpAttr,
    QpCap, QpInit, QpNum, QpState, QpType, RecvWr, Remote, Rkey, SendFlags, SendWr, Sge, SrqId, UdDestination, VerbsError, Wc, WcOpcode,
    WcStatus, WrOpcode, XrcdId,
};

use crate::arena::words;
use crate::memory::HostMemory;
use crate::question::{Answer, Op, Question, mask};
use crate::thread::{Parked, Thread};
use crate::world::{Channel, Descriptor, Doing, Key, Notice, Owned, Program, Watched};
use crate::xrc::Member;

/// `UINT32_MAX`: none of them.
const NONE: u64 = 0xffff_ffff;
/// An interrupt, and waking whoever sleeps on it. Basis: assumed, as for sockets of the kernel.
const WAKE_UP: Span = Span::from_ns(3_000);

/// The error number of a control verb that was refused.
fn errno(error: &VerbsError) -> i32 {
    match error {
        VerbsError::Busy { .. } => libc::EBUSY,
        _ => libc::EINVAL,
    }
}

fn post_errno(error: &PostError) -> i32 {
    if matches!(error, PostError::QueueFull { .. }) { libc::ENOMEM } else { libc::EINVAL }
}

impl Thread {
    /// Posts what was collected in front of a question: the first error, and how many requests of its chain were taken.
    pub(crate) fn post_all(&mut self, question: &Question) -> Answer {
        let mut rest = question.posts.as_slice();
        let mut answer = Answer { args: vec![0], ..Answer::number(0) };
        let mut chain: Vec<SendWr> = Vec::new();
        while let [head, spent, ..] = rest {
            let (kind, more, length) = (head & 0x7fff, head & 0x8000 != 0, (head >> 16) as usize);
            let (post, behind) = rest.split_at(length.clamp(2, rest.len()));
            rest = behind;
            self.process.compute(Span::from_ps(*spent));
            let (nic, number) = (post[2] as u32 as usize, (post[2] >> 32) as u32);
            let done = if kind == 1 {
                let (request, copied) = send_request(post);
                chain.push(request);
                if more && copied.is_empty() {
                    continue;
                }
                let chain = std::mem::take(&mut chain);
                answer.args[0] = 0;
                if self.owns(|owned| owned.qps.contains(&(nic, QpNum(number)))) {
                    self.send_chain(nic, QpNum(number), (&chain, copied), &mut answer.args[0])
                } else {
                    Err(libc::EINVAL)
                }
            } else {
                let request = RecvWr { wr_id: post[3], sge: pieces(&post[5..], post[4] as usize) };
                if kind == 2 && self.owns(|owned| owned.qps.contains(&(nic, QpNum(number)))) {
                    self.process.post_recv(nic, QpNum(number), &request).map_err(|error| post_errno(&error))
                } else if kind == 3 && self.owns(|owned| owned.srqs.contains(&(nic, SrqId(number)))) {
                    self.process.post_srq_recv(nic, SrqId(number), &request).map_err(|error| post_errno(&error))
                } else {
                    Err(libc::EINVAL)
                }
            };
            if let Err(errno) = done {
                answer.result = -i64::from(errno);
                if question.op != Some(Op::Post) {
                    let what = format!("a post of process {} was refused with error {errno} after it had been accepted", self.program);
                    self.shared.world().complaints.push(what);
                }
            }
        }
        answer
    }

    /// Posts requests under one doorbell, the last of which may have been copied, and says how many were taken if not all.
    fn send_chain(&self, nic: usize, qp: QpNum, (chain, copied): (&[SendWr], Vec<u8>), taken: &mut i64) -> Result<(), i32> {
        let outstanding = || self.process.nic(nic, |n| n.query_qp(qp).map_or(0, |status| status.send_outstanding));
        // Of a single request that is refused, none was taken.
        let before = (chain.len() > 1).then(outstanding);
        let staged = self.memory(nic).filter(|_| !copied.is_empty());
        if let Some(memory) = &staged {
            memory.stage(copied);
        }
        let done = self.process.post_send_list(nic, qp, chain);
        if let Some(memory) = &staged {
            memory.stage(Vec::new());
        }
        done.map_err(|error| {
            *taken = before.map_or(0, |before| outstanding().saturating_sub(before).into());
            post_errno(&error)
        })
    }

    pub(crate) fn owns(&self, has: impl FnOnce(&Owned) -> bool) -> bool {
        self.own_program(|program| has(&program.owned))
    }
    pub(crate) fn own<R>(&self, change: impl FnOnce(&mut Owned) -> R) {
        let mut world = self.shared.world();
        change(&mut world.programs[self.program as usize].owned);
        world.progress = world.progress.max(self.process.now());
    }
    fn memory(&self, nic: usize) -> Option<HostMemory> {
        let world = self.shared.world();
        let node = world.programs[self.program as usize].node;
        world.hosts[node as usize].memories.get(nic).cloned()
    }

    /// A control verb: the adapter does it now.
    pub(crate) fn control<T>(&self, nic: usize, call: impl FnOnce(&mut Nic) -> Result<T, VerbsError>) -> Result<T, i32> {
        if nic >= self.process.nics() {
            return Err(libc::ENODEV);
        }
        self.process.nic(nic, call).map_err(|error| {
            let mut world = self.shared.world();
            let program = world.programs[self.program as usize].number;
            world.refusals.push(format!("process {program}: {}", error.in_full()));
            errno(&error)
        })
    }

    pub(crate) async fn verbs(&mut self, op: Op, question: &Question) -> Result<Answer, ProgramError> {
        let args = question.args;
        let (nic, number) = (args[0] as usize, args[1] as u32);
        match op {
            Op::PollCq => return self.poll_cq((nic, CqId(number)), args[2].clamp(1, 256) as usize, args[3] != 0).await,
            Op::CqEvent => return self.cq_event(args[0] as u32, args[1] != 0).await,
            Op::AsyncEvent => return self.async_event(nic, args[1] != 0).await,
            Op::Attach => return Ok(self.attach(nic, QpNum(number), (args[2] as u32, words_of_gid(&args[3..5]))).await.into()),
            Op::CreateAh => {
                let to = AhAttr { dlid: Lid(args[2] as u32), sl: args[3] as u8 };
                return Ok(self.create_ah(nic, PdId(number), to, words_of_gid(&args[4..6])).await.into());
            }
            _ => {}
        }
        self.process.catch_up().await;
        Ok(match op {
            Op::Devices => self.devices(),
            Op::Port => {
                let world = self.shared.world();
                let node = world.programs[self.program as usize].node;
                Answer::number(i64::from(!world.ports_down.contains(&(node, nic))))
            }
            Op::AllocPd => self.alloc_pd(nic).into(),
            Op::DeallocPd => self.dealloc_pd(nic, PdId(number)).into(),
            Op::RegMr | Op::ReregMr => {
                let (range, pieces) = ((args[2] as u64, args[3] as u64), words(&question.data));
                if let Some(memory) = self.own_program(|program| program.memory.clone()) {
                    memory.share(range, args[5] as i32, &pieces);
                }
                let key = (op == Op::ReregMr).then_some(Lkey(args[6] as u32));
                self.reg_mr(nic, PdId(number), (range, args[7] as u64), args[4] as u32, key).into()
            }
            Op::DeregMr => self.dereg_mr(nic, Lkey(number)).into(),
            Op::CreateCq => self.create_cq((nic, number), args[2], args[3]).into(),
            Op::DestroyCq => self.destroy_cq(nic, CqId(number)).into(),
            Op::NotifyCq => self.control(nic, |n| n.req_notify_cq(CqId(number), args[2] != 0)).map(|()| 0).into(),
            Op::CreateChannel => self.create_channel(nic, args[1] as i32, args[2] != 0),
            Op::DestroyChannel => {
                self.own_program(|program| program.channels.remove(&(args[0] as u32)));
                Answer::number(0)
            }
            Op::CreateSrq => self.create_srq(nic, &args).into(),
            Op::ModifySrq => self.control(nic, |n| n.set_srq_limit(SrqId(number), args[2] as u32)).map(|()| 0).into(),
            Op::DestroySrq => {
                let done = self.control(nic, |n| n.destroy_srq(SrqId(number)));
                // One that is in use stays, with what it has to tell.
                if done.is_ok() {
                    self.leave(nic, Member::Srq(SrqId(number)));
                    self.own(|owned| owned.srqs.remove(&(nic, SrqId(number))));
                    self.forget_events(nic, |event| event == AsyncEvent::SrqLimitReached(SrqId(number)));
                }
                done.map(|()| 0).into()
            }
            Op::CreateQp => self.create_qp(&words(&question.data)).into(),
            Op::ModifyQp => self.modify_qp(&words(&question.data)).into(),
            Op::QueryQp => self.query_qp(nic, QpNum(number)),
            Op::DestroyQp => self.destroy_qp(nic, QpNum(number)).into(),
            Op::DestroyAh => {
                self.own(|owned| owned.ahs.remove(&(nic, AhId(number))));
                self.control(nic, |n| n.destroy_ah(AhId(number))).map(|()| 0).into()
            }
            Op::Detach => self.detach(nic, QpNum(number), (args[2] as u32, words_of_gid(&args[3..5]))).into(),
            Op::OpenXrcd => self.open_xrcd(nic, &args).into(),
            Op::CloseXrcd => self.close_xrcd(nic, XrcdId(number)).into(),
            Op::OpenQp => self.open_qp(nic, QpNum(number), XrcdId(args[2] as u32)).into(),
            _ => Answer::error(libc::EOPNOTSUPP),
        })
    }

    fn devices(&self) -> Answer {
        let world = self.shared.world();
        let node = world.programs[self.program as usize].node;
        let devices = &world.hosts[node as usize].devices;
        let data = devices.iter().flat_map(|device| device.bytes()).collect();
        Answer { data, ..Answer::number(devices.len() as i64) }
    }

    fn alloc_pd(&self, nic: usize) -> Result<i64, i32> {
        let pd = self.control(nic, |n| Ok(n.alloc_pd()))?;
        let memory = self.own_program(|program| program.memory.clone()).ok_or(libc::EACCES)?;
        if let Some(of_host) = self.memory(nic) {
            of_host.give(pd, memory);
            self.process.nic(nic, |n| n.set_memory(Box::new(of_host.clone())));
        }
        self.own(|owned| owned.pds.insert((nic, pd)));
        Ok(pd.0.into())
    }
    fn dealloc_pd(&self, nic: usize, pd: PdId) -> Result<i64, i32> {
        self.control(nic, |n| n.dealloc_pd(pd))?;
        if let Some(memory) = self.memory(nic) {
            memory.take(pd);
        }
        self.own(|owned| owned.pds.remove(&(nic, pd)));
        Ok(0)
    }
    /// Registers a region that peers know from `iova` on, or gives that of `key` another domain, range and rights.
    fn reg_mr(&self, nic: usize, pd: PdId, ((from, length), iova): ((u64, u64), u64), flags: u32, key: Option<Lkey>) -> Result<i64, i32> {
        if !self.owns(|owned| owned.pds.contains(&(nic, pd)) && key.is_none_or(|key| owned.mrs.contains(&(nic, key)))) {
            return Err(libc::EINVAL);
        }
        let access = access(flags);
        let key = match key {
            Some(key) => self.control(nic, |n| n.rereg_mr(key, pd, from, Bytes(length), access)).map(|()| key)?,
            None => self.control(nic, |n| n.reg_mr(pd, from, Bytes(length), access))?.lkey,
        };
        if iova != from
            && let Err(errno) = self.control(nic, |n| n.set_iova(key, iova))
        {
            let _ = self.control(nic, |n| n.dereg_mr(key));
            return Err(errno);
        }
        self.own(|owned| owned.mrs.insert((nic, key)));
        self.own_program(|program| program.watched.retain(|region| (region.nic, region.key) != (nic, key)));
        if access.contains(Access::REMOTE_WRITE) {
            let watch = self.process.nic(nic, |n| n.create_watch(from, Bytes(length)));
            let region = Watched { key, from, to: from + length, nic, watch, seen: 0 };
            self.own_program(|program| program.watched.push(region));
        }
        Ok(key.0.into())
    }
    fn dereg_mr(&self, nic: usize, key: Lkey) -> Result<i64, i32> {
        self.control(nic, |n| n.dereg_mr(key))?;
        self.own(|owned| owned.mrs.remove(&(nic, key)));
        self.own_program(|program| program.watched.retain(|region| (region.nic, region.key) != (nic, key)));
        Ok(0)
    }

    fn create_cq(&self, (nic, depth): (usize, u32), channel: i64, own_name: i64) -> Result<i64, i32> {
        let cq = self.control(nic, |n| n.create_cq(depth))?;
        self.own(|owned| owned.cqs.insert((nic, cq)));
        let mut world = self.shared.world();
        let channel = u32::try_from(channel).ok().and_then(|channel| world.programs[self.program as usize].channels.get_mut(&channel));
        if let Some(channel) = channel {
            channel.queues.push((nic, cq, own_name));
        }
        Ok(cq.0.into())
    }
    fn destroy_cq(&self, nic: usize, cq: CqId) -> Result<i64, i32> {
        self.control(nic, |n| n.destroy_cq(cq))?;
        self.own(|owned| owned.cqs.remove(&(nic, cq)));
        self.forget_events(nic, |event| event == AsyncEvent::CqError(cq));
        self.own_program(|program| {
            let channels = program.channels.values_mut();
            channels.for_each(|channel| channel.queues.retain(|(of, queue, _)| (*of, *queue) != (nic, cq)));
        });
        Ok(0)
    }
    fn create_channel(&self, nic: usize, fd: i32, of_device: bool) -> Answer {
        let mut world = self.shared.world();
        let program = &mut world.programs[self.program as usize];
        if of_device {
            program.descriptors.insert(fd, Descriptor::Device(nic));
            return Answer::number(0);
        }
        let id = program.next_channel;
        program.next_channel += 1;
        program.channels.insert(id, Channel::default());
        program.descriptors.insert(fd, Descriptor::Channel(id));
        Answer::number(id.into())
    }

    fn create_srq(&self, nic: usize, args: &[i64; 8]) -> Result<i64, i32> {
        let (pd, max_wr, max_sge) = (PdId(args[1] as u32), args[2] as u32, args[3] as u32);
        let xrcd = u32::try_from(args[4]).ok().map(XrcdId);
        self.may_use(nic, xrcd)?;
        let srq = self.control(nic, |n| match (xrcd, u32::try_from(args[5])) {
            (Some(xrcd), Ok(cq)) => n.create_xrc_srq(pd, xrcd, CqId(cq), max_wr, max_sge),
            _ => n.create_srq(pd, max_wr, max_sge),
        })?;
        self.enter(nic, xrcd, Member::Srq(srq));
        self.own(|owned| owned.srqs.insert((nic, srq)));
        Ok(srq.0.into())
    }

    fn create_qp(&self, of: &[u64]) -> Result<i64, i32> {
        let nic = of[0] as usize;
        let qp_type = match of[2] {
            2 => QpType::Rc,
            3 => QpType::Uc,
            4 => QpType::Ud,
            9 => QpType::XrcSend,
            10 => QpType::XrcRecv,
            _ => return Err(libc::EOPNOTSUPP),
        };
        let some = |value: u64| u32::try_from(value).ok().filter(|value| u64::from(*value) != NONE);
        let cq = |value: u64| some(value).map(CqId).ok_or(libc::EINVAL);
        let send_cq = cq(of[3])?;
        let init = QpInit {
            pd: PdId(of[1] as u32),
            qp_type,
            send_cq,
            recv_cq: cq(of[4]).unwrap_or(send_cq),
            srq: some(of[5]).map(SrqId).filter(|_| !matches!(qp_type, QpType::XrcSend | QpType::XrcRecv)),
            xrcd: some(of[12]).map(XrcdId),
            cap: QpCap {
                max_send_wr: (of[6] as u32).max(1),
                max_recv_wr: of[7] as u32,
                max_send_sge: of[8] as u32,
                max_recv_sge: of[9] as u32,
                max_inline_data: Bytes(of[10]),
            },
            sq_sig_all: of[11] != 0,
            block_mcast_loopback: of[13] != 0,
        };
        self.may_use(nic, init.xrcd)?;
        let qp = self.control(nic, |n| n.create_qp(&init))?;
        self.enter(nic, init.xrcd, Member::Qp(qp));
        self.own(|owned| owned.qps.insert((nic, qp)));
        Ok(qp.0.into())
    }

    fn modify_qp(&self, of: &[u64]) -> Result<i64, i32> {
        let (nic, qp, given) = (of[0] as usize, QpNum(of[1] as u32), of[2] as u32);
        if !self.owns(|owned| owned.qps.contains(&(nic, qp))) {
            return Err(libc::EINVAL);
        }
        let has = |bit: u32, at: usize| (given & bit != 0).then_some(of[at]);
        let state = match has(mask::STATE, 3) {
            Some(state) => Some(*STATES.get(state as usize).ok_or(libc::EINVAL)?),
            None => None,
        };
        let path_mtu = match has(mask::MTU, 4) {
            Some(code) => Some(*Mtu::ALL.get((code as usize).wrapping_sub(1)).ok_or(libc::EINVAL)?),
            None => None,
        };
        let pkey_index = has(mask::PKEY, 11).map(|index| index as u16);
        if !pkey_index.is_none_or(|index| self.has_pkey(nic, index)) {
            return Err(libc::EINVAL);
        }
        let av = |at: usize| AhAttr { dlid: Lid(of[at] as u32), sl: of[at + 1] as u8 };
        let attr = QpAttr {
            qp_state: state,
            pkey_index,
            port_num: has(mask::PORT, 15).map(|port| port as u8),
            qp_access_flags: has(mask::ACCESS, 10).map(|flags| access(flags as u32)),
            qkey: has(mask::QKEY, 6).map(|key| key as u32),
            av: (given & mask::AV != 0).then(|| av(20)),
            alt_path: (given & mask::ALT_PATH != 0).then(|| AltPath { av: av(24), path_bits: 1 }),
            path_mig_state: has(mask::MIGRATION, 5).map(|state| if state == 1 { MigState::Rearm } else { MigState::Migrated }),
            path_mtu,
            dest_qp_num: has(mask::DEST_QPN, 9).map(|number| QpNum(number as u32)),
            rq_psn: has(mask::RQ_PSN, 7).map(|psn| psn as u32 & 0xff_ffff),
            sq_psn: has(mask::SQ_PSN, 8).map(|psn| psn as u32 & 0xff_ffff),
            max_rd_atomic: has(mask::READS, 12).map(|reads| reads as u8),
            max_dest_rd_atomic: has(mask::DEST_READS, 13).map(|reads| reads as u8),
            min_rnr_timer: has(mask::RNR_TIMER, 14).map(|timer| timer as u8),
            timeout: has(mask::TIMEOUT, 16).map(|timeout| timeout as u8),
            retry_cnt: has(mask::RETRY, 17).map(|count| count as u8),
            rnr_retry: has(mask::RNR_RETRY, 18).map(|count| count as u8),
            ..QpAttr::default()
        };
        self.control(nic, |n| n.modify_qp(qp, &attr))?;
        if let Some(kbps) = has(mask::RATE, 19) {
            let rate = (kbps > 0).then(|| Rate::from_bps(kbps * 1000));
            self.control(nic, |n| n.set_rate_limit(qp, rate, Bytes::ZERO))?;
        }
        self.own(|_| {});
        Ok(0)
    }

    /// Whether the table of an adapter has a P_Key there.
    fn has_pkey(&self, nic: usize, index: u16) -> bool {
        let world = self.shared.world();
        let devices = &world.hosts[world.programs[self.program as usize].node as usize].devices;
        devices.get(nic).is_some_and(|device| usize::from(index) < device.pkeys().len())
    }

    fn query_qp(&self, nic: usize, qp: QpNum) -> Answer {
        let status = match self.control(nic, |n| n.query_qp(qp)) {
            Ok(status) => status,
            Err(errno) => return Answer::error(errno),
        };
        let attr = status.attr;
        let (av, byte) = (attr.av.unwrap_or_default(), |value: Option<u8>| u64::from(value.unwrap_or(0)));
        let of = [
            STATES.iter().position(|state| *state == status.state).unwrap_or(0) as u64,
            attr.path_mtu.map_or(0, |mtu| mtu as u64),
            attr.path_mig_state.map_or(0, |state| state as u64),
            attr.qkey.unwrap_or(0).into(),
            attr.rq_psn.unwrap_or(0).into(),
            attr.sq_psn.unwrap_or(0).into(),
            attr.dest_qp_num.map_or(0, |number| number.0.into()),
            attr.qp_access_flags.map_or(0, flags).into(),
            attr.pkey_index.unwrap_or(0).into(),
            byte(attr.max_rd_atomic),
            byte(attr.max_dest_rd_atomic),
            byte(attr.min_rnr_timer),
            byte(attr.port_num),
            byte(attr.timeout),
            byte(attr.retry_cnt),
            byte(attr.rnr_retry),
            av.dlid.0.into(),
            av.sl.into(),
        ];
        Answer { data: of.iter().flat_map(|word| word.to_ne_bytes()).collect(), ..Answer::number(0) }
    }

    fn destroy_qp(&self, nic: usize, qp: QpNum) -> Result<i64, i32> {
        if !self.is_open_elsewhere(nic, qp) {
            self.control(nic, |n| n.destroy_qp(qp))?;
            self.leave(nic, Member::Qp(qp));
        }
        self.own(|owned| owned.qps.remove(&(nic, qp)));
        self.forget_events(nic, |event| of_queue_pair(event) == Some(qp));
        Ok(0)
    }

    async fn create_ah(&self, nic: usize, pd: PdId, mut to: AhAttr, gid: [u8; 16]) -> Result<i64, i32> {
        if let Some(mlid) = to.dlid.mlid() {
            to.dlid = self.join(nic, group_of(mlid, gid), JoinState::SendOnlyFull).await?;
        }
        let ah = self.control(nic, |n| n.create_ah(pd, to))?;
        self.own(|owned| owned.ahs.insert((nic, ah)));
        Ok(ah.0.into())
    }

    async fn attach(&self, nic: usize, qp: QpNum, (lid, gid): (u32, [u8; 16])) -> Result<i64, i32> {
        let group = group_of(Lid(lid).mlid().ok_or(libc::EINVAL)?, gid);
        let at = self.join(nic, group, JoinState::Full).await?;
        self.control(nic, |n| n.attach_mcast(qp, at))?;
        self.own(|owned| owned.groups.insert((nic, qp, at.0)));
        Ok(0)
    }
    fn detach(&self, nic: usize, qp: QpNum, (lid, gid): (u32, [u8; 16])) -> Result<i64, i32> {
        let group = group_of(Lid(lid).mlid().ok_or(libc::EINVAL)?, gid);
        let at = self.shared.world().groups.get(&group).copied().ok_or(libc::EINVAL)?;
        self.control(nic, |n| n.detach_mcast(qp, at))?;
        self.own(|owned| owned.groups.remove(&(nic, qp, at.0)));
        Ok(0)
    }

    /// Makes the adapter a member of a group, as the subnet's administration has it, and gives the address of that. Programs choose numbers
    /// of groups themselves here: nothing of the kernel keeps them from attaching to one that nobody joined.
    pub(crate) async fn join(&self, nic: usize, mgid: [u8; 16], state: JoinState) -> Result<Lid, i32> {
        let node = self.own_program(|program| program.node);
        {
            let world = self.shared.world();
            let known = world.groups.get(&mgid).filter(|_| world.members.contains(&(node, nic, mgid)));
            if let Some(at) = known {
                return Ok(*at);
            }
        }
        let cq = self.control(nic, |n| n.create_cq(1))?;
        let change = Change::Join { state, qkey: 0 };
        self.process.nic(nic, |n| n.post_membership(Membership { mgid, change, cq, wr_id: 0 }));
        let answer = loop {
            if let Some(answer) = self.process.poll_cq(nic, cq, 1).await.pop() {
                break answer;
            }
            self.doing(Doing::Joins);
            if let Parked::Dead = self.park(&[], &[(nic, cq)], &[], Time::MAX).await {
                return Err(libc::EINTR);
            }
        };
        self.control(nic, |n| n.destroy_cq(cq))?;
        let mlid = answer.imm.filter(|_| answer.status == WcStatus::Success).ok_or(libc::EINVAL)?;
        let at = Lid::multicast(mlid as u16);
        let mut world = self.shared.world();
        world.groups.insert(mgid, at);
        if matches!(state, JoinState::Full) {
            world.members.insert((node, nic, mgid));
        }
        for memory in world.hosts.iter().flat_map(|host| &host.memories) {
            memory.name_group(at, mgid);
        }
        Ok(at)
    }

    /// Polls a queue once. Who finds it empty for a second time, and did nothing else in the meantime, waits as if it polled again and again;
    /// the first time it may only see that it has taken all.
    async fn poll_cq(&mut self, (nic, cq): (usize, CqId), most: usize, again: bool) -> Result<Answer, ProgramError> {
        if !self.owns(|owned| owned.cqs.contains(&(nic, cq))) {
            return Ok(Answer::error(libc::EINVAL));
        }
        self.process.catch_up().await;
        if !self.is_ready((nic, cq)) {
            if !again {
                self.process.compute(self.process.cpu().poll_empty);
                return Ok(Answer::number(0));
            }
            let empty: Vec<(usize, CqId)> =
                self.own_program(|program| program.owned.cqs.iter().copied().filter(|queue| !self.is_ready(*queue)).collect());
            self.check_patience()?;
            self.doing(Doing::Polls { cq, nic });
            let until = self.process.now() + self.pause();
            if let Parked::Dead = self.park(&[], &empty, &[], until).await {
                return Ok(Answer::error(libc::EIO));
            }
            self.idle += 1;
        }
        self.drain_events(nic);
        if !self.is_ready((nic, cq)) {
            return Ok(Answer::number(0));
        }
        let found = self.process.poll_cq(nic, cq, most).await;
        self.idle = 0;
        let mut data = Vec::with_capacity(found.len() * 64);
        let mut sends = 0;
        for wc in &found {
            sends += u64::from(!wc.opcode.is_recv());
            data.extend(completion(wc).iter().flat_map(|word| word.to_ne_bytes()));
        }
        let own_work = {
            let mut world = self.shared.world();
            world.progress = world.progress.max(self.process.now());
            world.per_message
        };
        self.process.compute(own_work * sends);
        Ok(Answer { data, ..Answer::number(found.len() as i64) })
    }

    /// Nobody hears of an object that is gone.
    fn forget_events(&self, nic: usize, is_about: impl Fn(AsyncEvent) -> bool) {
        let is_gone = |of: usize, notice: Notice| of == nic && matches!(notice, Notice::Object(event) if is_about(event));
        self.own_program(|program| program.events.retain(|(of, notice)| !is_gone(*of, *notice)));
    }

    /// Events of devices go to where `ibv_get_async_event` finds them.
    fn drain_events(&self, nic: usize) {
        let events: Vec<AsyncEvent> = self.process.nic(nic, |n| std::iter::from_fn(|| n.poll_async_event()).collect());
        if events.is_empty() {
            return;
        }
        let mut world = self.shared.world();
        let node = world.programs[self.program as usize].node;
        for event in events {
            // Whose object it is about hears of it.
            let is_about = |owned: &Owned| match event {
                AsyncEvent::CqError(cq) => owned.cqs.contains(&(nic, cq)),
                AsyncEvent::SrqLimitReached(srq) => owned.srqs.contains(&(nic, srq)),
                event => of_queue_pair(event).is_some_and(|qp| owned.qps.contains(&(nic, qp))),
            };
            let whose = world.programs.iter_mut().find(|program| program.node == node && is_about(&program.owned));
            if let Some(program) = whose {
                program.events.push_back((nic, Notice::Object(event)));
            }
        }
        world.tell(&self.process, Key::Device { node, nic }, self.process.now());
    }

    /// The next event of a completion channel.
    async fn cq_event(&mut self, channel: u32, waits: bool) -> Result<Answer, ProgramError> {
        self.process.catch_up().await;
        let queues = match self.shared.world().programs[self.program as usize].channels.get(&channel) {
            Some(channel) => channel.queues.clone(),
            None => return Ok(Answer::error(libc::EINVAL)),
        };
        let raised: Vec<(usize, CqId)> = queues.iter().map(|(nic, cq, _)| (*nic, cq.events())).collect();
        let mut slept = false;
        loop {
            let now = self.process.now();
            for (nic, cq, own_name) in &queues {
                if self.process.nic(*nic, |n| n.take_cq_event(now, *cq)) {
                    if slept {
                        self.process.compute(WAKE_UP);
                    }
                    return Ok(Answer::number(*own_name));
                }
            }
            if !waits {
                return Ok(Answer::error(libc::EAGAIN));
            }
            slept = true;
            self.doing(Doing::WaitsForEvents(queues.len()));
            let Parked::Awake = self.wait_for(&[], &raised, Time::MAX).await else { return Ok(Answer::error(libc::EINTR)) };
        }
    }

    /// The next event of a device.
    async fn async_event(&mut self, nic: usize, waits: bool) -> Result<Answer, ProgramError> {
        loop {
            self.process.catch_up().await;
            self.drain_events(nic);
            let event = {
                let taken = |program: &mut Program| {
                    let place = program.events.iter().position(|(of, _)| *of == nic)?;
                    program.events.remove(place)
                };
                self.own_program(taken)
            };
            if let Some((kind, number)) = event.map(|(_, event)| described(event)) {
                return Ok(Answer { args: vec![number.into()], ..Answer::number(kind) });
            }
            if !waits {
                return Ok(Answer::error(libc::EAGAIN));
            }
            self.doing(Doing::WaitsFor("an event of an adapter"));
            let node = self.own_program(|program| program.node);
            let Parked::Awake = self.wait_for(&[Key::Device { node, nic }], &[], Time::MAX).await else {
                return Ok(Answer::error(libc::EINTR));
            };
        }
    }

    /// Ends all that a process had of the adapters.
    pub(crate) fn give_back(&self, owned: Owned, memories: &[HostMemory]) {
        for (nic, qp, lid) in owned.groups {
            let _ = self.control(nic, |n| n.detach_mcast(qp, Lid(lid)));
        }
        for (nic, qp) in owned.qps {
            if !self.is_open_elsewhere(nic, qp) {
                let _ = self.control(nic, |n| n.destroy_qp(qp));
                self.leave(nic, Member::Qp(qp));
            }
        }
        for (nic, srq) in owned.srqs {
            let _ = self.control(nic, |n| n.destroy_srq(srq));
            self.leave(nic, Member::Srq(srq));
        }
        self.close_xrcds();
        for (nic, ah) in owned.ahs {
            let _ = self.control(nic, |n| n.destroy_ah(ah));
        }
        for (nic, cq) in owned.cqs {
            let _ = self.control(nic, |n| n.destroy_cq(cq));
        }
        for (nic, key) in owned.mrs {
            let _ = self.control(nic, |n| n.dereg_mr(key));
        }
        for (nic, pd) in owned.pds {
            let _ = self.control(nic, |n| n.dealloc_pd(pd));
            memories[nic].take(pd);
        }
    }
}

/// Of `enum ibv_qp_type`.
const DATAGRAM: u64 = 4;
const XRC_SEND: u64 = 9;

/// In the order of `enum ibv_qp_state`.
pub(crate) const STATES: [QpState; 7] =
    [QpState::Reset, QpState::Init, QpState::Rtr, QpState::Rts, QpState::Sqd, QpState::Sqe, QpState::Err];

/// The GID of a group; where a program gives the number of one alone, what stands for it.
fn group_of(mlid: u16, gid: [u8; 16]) -> [u8; 16] {
    if gid[0] == 0xff { gid } else { crate::address::numbered_gid(false, Lid::multicast(mlid)) }
}
fn words_of_gid(of: &[i64]) -> [u8; 16] {
    let mut gid = [0; 16];
    for (half, word) in gid.chunks_exact_mut(8).zip(of) {
        half.copy_from_slice(&word.to_be_bytes());
    }
    gid
}

/// Rights by the bits of `enum ibv_access_flags`.
const RIGHTS: [(u32, Access); 4] =
    [(1, Access::LOCAL_WRITE), (2, Access::REMOTE_WRITE), (4, Access::REMOTE_READ), (8, Access::REMOTE_ATOMIC)];

fn access(flags: u32) -> Access {
    RIGHTS.iter().filter(|(bit, _)| flags & bit != 0).fold(Access::NONE, |all, (_, right)| all | *right)
}
fn flags(access: Access) -> u32 {
    RIGHTS.iter().filter(|(_, right)| access.contains(*right)).map(|(bit, _)| bit).sum()
}

fn pieces(of: &[u64], count: usize) -> fabriscope_verbs::SgeList {
    let piece = |pair: &[u64]| Sge { addr: pair[0], length: pair[1] as u32, lkey: Lkey((pair[1] >> 32) as u32) };
    of.chunks_exact(2).take(count).map(piece).collect()
}

/// A send request, and the bytes that were copied when it was posted.
fn send_request(post: &[u64]) -> (SendWr, Vec<u8>) {
    let (code, bits) = (post[4] as u32, (post[4] >> 32) as u32);
    let (imm, count) = (post[5] as u32, (post[5] >> 32) as usize);
    let opcode = match code {
        0 => WrOpcode::RdmaWrite,
        1 => WrOpcode::RdmaWriteWithImm,
        3 => WrOpcode::SendWithImm,
        4 => WrOpcode::RdmaRead,
        5 => WrOpcode::AtomicCmpAndSwp,
        6 => WrOpcode::AtomicFetchAndAdd,
        _ => WrOpcode::Send,
    };
    let known = [(1, SendFlags::FENCE), (2, SendFlags::SIGNALED), (4, SendFlags::SOLICITED), (8, SendFlags::INLINE)];
    let flags = known.iter().filter(|(bit, _)| bits & bit != 0).fold(SendFlags::NONE, |all, (_, flag)| all | *flag);
    let sge = pieces(&post[11..], count);
    let (copied, qp_type) = (post[10] as u32 as usize, post[10] >> 32);
    let copied: Vec<u8> = post[11 + 2 * count..].iter().flat_map(|word| word.to_ne_bytes()).take(copied).collect();
    let request = SendWr {
        wr_id: post[3],
        opcode,
        sge,
        flags,
        remote: (!opcode.is_send()).then_some(Remote { addr: post[6], rkey: Rkey(post[7] as u32) }),
        imm: opcode.has_immediate().then_some(imm),
        atomic: opcode.is_atomic().then_some(fabriscope_verbs::Atomic { compare_add: post[8], swap: post[9], ..Default::default() }),
        ud: (qp_type == DATAGRAM).then_some(UdDestination {
            ah: AhId(post[8] as u32),
            remote_qpn: QpNum((post[8] >> 32) as u32),
            remote_qkey: post[9] as u32,
        }),
        remote_srqn: (qp_type == XRC_SEND).then_some(SrqId((post[7] >> 32) as u32)),
        eec: None,
        window: None,
        words: None,
    };
    (request, copied)
}

/// A completion as the stand-in reads it.
fn completion(wc: &Wc) -> [u64; 8] {
    let opcode = match wc.opcode {
        WcOpcode::RdmaWrite => 1,
        WcOpcode::RdmaRead => 2,
        WcOpcode::CompSwap => 3,
        WcOpcode::FetchAdd => 4,
        WcOpcode::Recv => 128,
        WcOpcode::RecvRdmaWithImm => 129,
        _ => 0,
    };
    let flags = u64::from(wc.grh) | if wc.imm.is_some() { 2 } else { 0 };
    let slid = if wc.status == WcStatus::Success && wc.grh { wc.slid.0 + 1 } else { 0 };
    [
        wc.wr_id,
        wc.status as u64 | opcode << 32,
        u64::from(wc.vendor_err) | u64::from(wc.byte_len) << 32,
        u64::from(wc.imm.unwrap_or(0)) | u64::from(wc.qp_num.0) << 32,
        u64::from(wc.src_qp.0) | flags << 32,
        u64::from(slid & 0xffff) | u64::from(wc.sl) << 16,
        wc.wqe.0 + 1,
        wc.srq.map_or(0, |srq| u64::from(srq.0) + 1),
    ]
}

/// The queue pair that an event is about.
fn of_queue_pair(event: AsyncEvent) -> Option<QpNum> {
    match event {
        AsyncEvent::QpFatal(qp)
        | AsyncEvent::QpRequestError(qp)
        | AsyncEvent::QpAccessError(qp)
        | AsyncEvent::CommunicationEstablished(qp)
        | AsyncEvent::SendQueueDrained(qp)
        | AsyncEvent::LastWqeReached(qp)
        | AsyncEvent::PathMigrated(qp) => Some(qp),
        _ => None,
    }
}

/// An event by the numbers of `enum ibv_event_type`, and what it is about.
fn described(event: Notice) -> (i64, u32) {
    let event = match event {
        Notice::Port { up } => return (if up { 9 } else { 10 }, 1),
        Notice::Object(event) => event,
    };
    match event {
        AsyncEvent::CqError(cq) => (0, cq.0),
        AsyncEvent::QpFatal(qp) => (1, qp.0),
        AsyncEvent::QpRequestError(qp) => (2, qp.0),
        AsyncEvent::QpAccessError(qp) => (3, qp.0),
        AsyncEvent::CommunicationEstablished(qp) => (4, qp.0),
        AsyncEvent::SendQueueDrained(qp) => (5, qp.0),
        AsyncEvent::PathMigrated(qp) => (6, qp.0),
        AsyncEvent::SrqLimitReached(srq) => (15, srq.0),
        AsyncEvent::LastWqeReached(qp) => (16, qp.0),
        _ => (8, 0),
    }
}
