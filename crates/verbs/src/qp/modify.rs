//! The state machine of queue pairs: which attributes each transition needs and takes.
//!
//! Source: IBA vol. 1 §10.3.1 (state diagram), §11.2.5.2 (tables of required and optional attributes); man page ibv_modify_qp(3).
//! Modelled: RESET, INIT, RTR, RTS, SQD, SQE, ERR for every type; errors name the attribute that is missing or foreign.
//! Not modelled: changing the path of a queue pair in SQD before it has drained is not refused.

use fabriscope_wire::{AckTimeout, Psn, RnrTimer};

use crate::attr::{QpAttr, QpState, QpType};
use crate::cc::Congestion;
use crate::error::VerbsError;
use crate::ids::Lid;
use crate::port::Port;
use crate::qp::bitmap::Bitmap;
use crate::qp::{DATAGRAM_MTU_SHIFT, Qp};
use crate::transport::iwarp::stream::Stream;

/// A set of attributes.
type Set = u32;

macro_rules! attributes {
    ($($constant:ident = $bit:literal, $field:ident;)*) => {
        $(const $constant: Set = 1 << $bit;)*
        /// The attributes that are given.
        fn given(attr: &QpAttr) -> Set {
            let mut set = 0;
            $(if attr.$field.is_some() { set |= $constant; })*
            set
        }
        /// Copies the attributes that are given.
        fn store(from: &QpAttr, to: &mut QpAttr) {
            $(if from.$field.is_some() { to.$field = from.$field; })*
        }
        /// The field of the lowest attribute of a set.
        fn name(set: Set) -> &'static str {
            $(if set & $constant != 0 { return stringify!($field); })*
            "none"
        }
    };
}

attributes! {
    PKEY = 0, pkey_index;
    PORT = 1, port_num;
    ACCESS = 2, qp_access_flags;
    QKEY = 3, qkey;
    AV = 4, av;
    MTU = 5, path_mtu;
    DEST = 6, dest_qp_num;
    RQ_PSN = 7, rq_psn;
    SQ_PSN = 8, sq_psn;
    MAX_READS = 9, max_rd_atomic;
    MAX_DEST_READS = 10, max_dest_rd_atomic;
    RNR_TIMER = 11, min_rnr_timer;
    TIMEOUT = 12, timeout;
    RETRIES = 13, retry_cnt;
    RNR_RETRIES = 14, rnr_retry;
    ANY_ORDER = 15, any_order;
    SPRAY = 16, spray;
    ACK_INTERVAL = 17, ack_interval;
    WINDOW = 18, window;
    ALT = 19, alt_path;
    MIG = 20, path_mig_state;
}

/// What a transition needs and what it takes besides.
struct Row {
    required: Set,
    optional: Set,
}

/// The tables of §11.2.5.2; `None` where there is no transition.
fn row(qp_type: QpType, from: QpState, to: QpState) -> Option<Row> {
    use QpState::{Err, Init, Reset, Rtr, Rts, Sqd, Sqe};
    let row = |required, optional| Some(Row { required, optional });
    let rc = matches!(qp_type, QpType::Rc | QpType::XrcSend | QpType::XrcRecv | QpType::Eec);
    let dc = matches!(qp_type, QpType::Dci | QpType::Dct);
    let reliable = rc || qp_type == QpType::Dci;
    let iwarp = qp_type == QpType::Iwarp;
    let ud = !rc && !dc && !iwarp && qp_type != QpType::Uc;
    let shares = qp_type.shares_contexts();
    let key = match qp_type {
        QpType::RawPacket => 0,
        _ if qp_type.sends_datagrams() => QKEY,
        QpType::Dct => QKEY | ACCESS,
        _ if shares => QKEY | ACCESS,
        QpType::Dci => 0,
        _ => ACCESS,
    };
    if qp_type == QpType::Dct && matches!(to, Rts | Sqd | Sqe) {
        return None; // it only receives
    }
    // Our own: how packets are spread and acknowledged.
    let (own_rtr, own_rts) = (if rc || iwarp { ANY_ORDER | WINDOW } else { 0 } | SPRAY, if reliable { ACK_INTERVAL } else { 0 } | SPRAY);
    let mig = if rc && qp_type != QpType::Eec { ALT | MIG } else { 0 };
    match (from, to) {
        (_, Reset | Err) => row(0, 0),
        (Reset, Init) => row(PKEY | PORT | key, 0),
        (Init, Init) => row(0, PKEY | PORT | key),
        (Init, Rtr) if ud => row(0, PKEY | key | SPRAY),
        (Init, Rtr) if dc => row(MTU | RNR_TIMER, PKEY | key),
        // What has no meaning to TCP is taken and has no effect, as by the drivers.
        (Init, Rtr) if iwarp => row(AV | DEST | MAX_DEST_READS, PKEY | ACCESS | MTU | RQ_PSN | RNR_TIMER | own_rtr),
        (Rtr, Rts) if iwarp => row(MAX_READS, ACCESS | SQ_PSN | RNR_TIMER | TIMEOUT | RETRIES | RNR_RETRIES),
        (Init, Rtr) => {
            // What only answers needs, and what only asks does not.
            let answers = if rc { MAX_DEST_READS | RNR_TIMER } else { 0 };
            let needed = if qp_type == QpType::XrcSend { 0 } else { answers };
            row(AV | MTU | DEST | RQ_PSN | needed, PKEY | ACCESS | answers | own_rtr | mig)
        }
        (Rtr, Rts) => {
            let asks = if reliable { MAX_READS | TIMEOUT | RETRIES | RNR_RETRIES } else { 0 };
            let needed = if qp_type == QpType::XrcRecv { TIMEOUT } else { asks };
            let sq_psn = if qp_type == QpType::RawPacket { 0 } else { SQ_PSN };
            row(sq_psn | needed, key | asks | if rc { RNR_TIMER } else { 0 } | if shares { RNR_RETRIES } else { 0 } | own_rts | mig)
        }
        (Rts, Rts) => row(0, key | if rc { RNR_TIMER } else { 0 } | own_rts | mig),
        (Rts, Sqd) => row(0, 0),
        (Sqd, Rts) => row(0, key | if rc { RNR_TIMER } else { 0 }),
        (Sqd, Sqd) if rc => row(0, PKEY | ACCESS | AV | MAX_READS | MAX_DEST_READS | RNR_TIMER | TIMEOUT | RETRIES | RNR_RETRIES),
        (Sqd, Sqd) => row(0, PKEY | key | if ud { 0 } else { AV }),
        (Sqe, Rts) if !reliable => row(0, key),
        _ => None,
    }
}

impl Qp {
    /// Changes attributes and state; nothing changes when it fails.
    pub(crate) fn modify(&mut self, attr: &QpAttr, lid: Lid, port: &mut Port) -> Result<(), VerbsError> {
        let (qp_type, from, to) = (self.qp_type, self.state, attr.qp_state.unwrap_or(self.state));
        let row = row(qp_type, from, to).ok_or(VerbsError::BadTransition { qp_type, from, to })?;
        let given = given(attr);
        let missing = row.required & !given;
        if missing != 0 {
            return Err(VerbsError::MissingAttribute { qp_type, from, to, attribute: name(missing) });
        }
        let foreign = given & !(row.required | row.optional);
        if foreign != 0 {
            return Err(VerbsError::ForeignAttribute { qp_type, from, to, attribute: name(foreign) });
        }
        check_ranges(attr)?;
        self.check_migration(attr)?;
        if to == QpState::Rts && (self.qp_type.is_reliable() && !self.qp_type.takes_credit()) && port.congestion.gives_credit() {
            return Err(VerbsError::NoCredit { qp: self.num, qp_type });
        }
        store(attr, &mut self.attr);
        self.take_over(attr, lid, port.any_order);
        self.set_migration(attr, port);
        match to {
            QpState::Reset => self.reset(port),
            QpState::Err => self.enter_error(port),
            _ => self.state = to,
        }
        match (from, to) {
            (QpState::Init, QpState::Rtr) if qp_type == QpType::Iwarp => {
                self.stream = port.iwarp.as_ref().and_then(|settings| Stream::new(settings, self.num, self.dest_qp)).map(Box::new);
            }
            (QpState::Rtr, QpState::Rts) => {
                self.begin_sending(attr);
                if self.qp_type.is_reliable_connection() {
                    self.congestion = Congestion::new(&port.congestion).map(Box::new);
                    if let Some(interval) = port.congestion.ack_interval {
                        self.requester.ack_interval = interval;
                    }
                    if port.congestion.timeout.is_some() {
                        self.requester.timeout = port.congestion.timeout;
                    }
                }
            }
            (QpState::Rts, QpState::Sqd) => {
                self.requester.drained = false;
                self.check_drained(port);
            }
            (QpState::Sqd | QpState::Sqe, QpState::Rts) => self.want_requests(port),
            _ => {}
        }
        Ok(())
    }

    /// Copies attributes to where every packet needs them; the adapter takes `any_order` where they do not say.
    fn take_over(&mut self, attr: &QpAttr, lid: Lid, any_order: bool) {
        if let Some(av) = attr.av {
            self.dest = av.dlid;
            self.sl = av.sl;
        }
        if let Some(mtu) = attr.path_mtu {
            self.mtu_shift = mtu.bytes().0.trailing_zeros() as u8;
        }
        if let Some(peer) = attr.dest_qp_num {
            self.dest_qp = peer.0;
        }
        if attr.qp_state == Some(QpState::Rtr) {
            self.entropy = entropy(lid, self.dest, self.num.0);
        }
        if let Some(psn) = attr.rq_psn {
            self.responder.expected = Psn::new(psn);
        }
        if let Some(reads) = attr.max_rd_atomic {
            self.requester.max_reads = u32::from(reads);
        }
        if let Some(reads) = attr.max_dest_rd_atomic {
            self.responder.max_reads = u32::from(reads);
        }
        if let Some(code) = attr.timeout {
            self.requester.timeout = AckTimeout::from_code(code).expect("checked before").span();
        }
        if let Some(retries) = attr.retry_cnt {
            (self.requester.retries, self.requester.max_retries) = (retries, retries);
        }
        if let Some(retries) = attr.rnr_retry {
            (self.requester.receiver_retries, self.requester.max_receiver_retries) = (retries, retries);
        }
        if let Some(spray) = attr.spray {
            self.spray = spray;
        }
        if let Some(interval) = attr.ack_interval {
            self.requester.ack_interval = interval;
        }
        if attr.qp_state == Some(QpState::Rtr) && self.qp_type.is_reliable_connection() {
            self.any_order = attr.any_order.unwrap_or(any_order);
            let window = attr.window.unwrap_or(if self.any_order { ANY_ORDER_WINDOW } else { MAX_WINDOW });
            self.requester.window = window;
            self.responder.window = window;
            if self.any_order {
                self.requester.arrived = Bitmap::new(window);
                self.responder.arrived = Bitmap::new(window);
            }
        }
    }

    fn begin_sending(&mut self, attr: &QpAttr) {
        self.requester.start(Psn::new(attr.sq_psn.unwrap_or(0)));
        if attr.ack_interval.is_none() && self.attr.ack_interval.is_none() {
            self.requester.ack_interval = ACK_INTERVAL_DEFAULT;
        }
    }

    /// Back to RESET: everything is forgotten, nothing completes.
    pub(crate) fn reset(&mut self, port: &mut Port) {
        self.forget_early(port);
        self.state = QpState::Reset;
        self.timer.stop();
        self.requester.reset();
        self.responder.reset();
        self.recv_queue.reset();
        self.attr = QpAttr::default();
        self.mtu_shift = DATAGRAM_MTU_SHIFT;
        self.any_order = false;
        self.spray = false;
        self.congestion = None;
        self.limit = None;
        self.dynamic = None;
        self.stream = None;
        self.home = self.num;
        (self.migration, self.path_flag) = Default::default();
    }
}

fn check_ranges(attr: &QpAttr) -> Result<(), VerbsError> {
    let fields = [
        ("timeout", attr.timeout.map(u64::from), 0, 31),
        ("retry_cnt", attr.retry_cnt.map(u64::from), 0, 7),
        ("rnr_retry", attr.rnr_retry.map(u64::from), 0, 7),
        ("min_rnr_timer", attr.min_rnr_timer.map(u64::from), 0, 31),
        ("port_num", attr.port_num.map(u64::from), 1, 1),
        ("rq_psn", attr.rq_psn.map(u64::from), 0, u64::from(Psn::COUNT - 1)),
        ("sq_psn", attr.sq_psn.map(u64::from), 0, u64::from(Psn::COUNT - 1)),
        ("dest_qp_num", attr.dest_qp_num.map(|qp| u64::from(qp.0)), 0, (1 << 24) - 1),
        ("alternate sl", attr.alt_path.map(|path| u64::from(path.av.sl)), 0, 15),
        ("sl", attr.av.map(|av| u64::from(av.sl)), 0, 15),
        ("window", attr.window.map(u64::from), 64, u64::from(MAX_WINDOW)),
    ];
    for (what, value, min, max) in fields {
        if let Some(value) = value.filter(|value| *value < min || *value > max) {
            return Err(VerbsError::OutOfRange { what, value, min, max });
        }
    }
    if let Some(window) = attr.window.filter(|window| !window.is_power_of_two()) {
        return Err(VerbsError::NotPowerOfTwo { what: "window", value: window, suggestion: window.next_power_of_two() });
    }
    Ok(())
}

/// The timer a queue pair asks for when it has no receive.
pub(crate) fn receiver_timer(attr: &QpAttr) -> RnrTimer {
    RnrTimer::from_code(attr.min_rnr_timer.unwrap_or(0)).expect("checked when it was set")
}

/// What switches hash: the same for all packets of a queue pair, different for different ones.
///
/// Fibonacci hashing (Knuth, The Art of Computer Programming vol. 3 §6.4) of each word in turn.
pub(crate) fn entropy(source: Lid, dest: Lid, qp: u32) -> u16 {
    let mix = |state: u64, word: u32| (state ^ u64::from(word)).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
    (mix(mix(mix(1, source.0), dest.0), qp) >> 32) as u16
}

/// Packets outstanding at most. Basis: standard; more than a quarter of the 2^23 that PSNs tell apart is not needed.
const MAX_WINDOW: u32 = 1 << 21;
/// Packets outstanding with `any_order`. Basis: assumed; 16 MiB at 4 KiB covers 335 us at 400 Gb/s.
const ANY_ORDER_WINDOW: u32 = 1 << 12;
/// Packets between requests for acknowledgement. Basis: assumed; keeps long messages from running into the timeout.
const ACK_INTERVAL_DEFAULT: u32 = 64;

#[cfg(test)]
mod tests;
