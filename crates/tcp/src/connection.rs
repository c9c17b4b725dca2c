//! One end of a connection: its states, and the two halves joined.
//!
//! Source: RFC 9293 §3.3.2 (states), §3.5 (handshake), §3.6 (close), §3.10 (events).

use fabriscope_units::{Bytes, Span, Time};
use fabriscope_wire::{SackBlocks, Tcp, TcpFlags};

use crate::config::Config;
use crate::receive::{Arrival, Mark, Receiver};
use crate::segment::Segment;
use crate::send::{AckFields, Sender};
use crate::seq::Seq;

/// The states of RFC 9293, figure 5.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[expect(missing_docs, reason = "the names are those of the standard")]
pub enum State {
    Closed,
    Listen,
    SynSent,
    SynReceived,
    Established,
    FinWait1,
    FinWait2,
    CloseWait,
    Closing,
    LastAck,
    TimeWait,
}

/// Why a connection ended by force, or what it cannot do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error, miette::Diagnostic)]
pub enum TcpError {
    /// The peer reset it.
    #[error("the peer reset the connection")]
    #[diagnostic(help("ask there why"))]
    Reset,
    /// Nobody answers.
    #[error("no answer after {retries} retransmissions")]
    #[diagnostic(help("see whether the path is up"))]
    TimedOut {
        /// How often the oldest segment was sent again.
        retries: u32,
    },
    /// A buffer that holds nothing.
    #[error("a receive buffer of {buffer} closes the window for ever")]
    #[diagnostic(help("give it at least one segment of {mss} B"))]
    NoWindow {
        /// The buffer.
        buffer: Bytes,
        /// A full segment.
        mss: u32,
    },
    /// A segment that holds nothing.
    #[error("segments of {mss} B hold no data")]
    #[diagnostic(help("use an MTU of at least 88 B"))]
    NoSegment {
        /// A full segment.
        mss: u32,
    },
}

/// One end of a connection.
#[derive(Debug)]
pub struct Connection {
    config: Config,
    state: State,
    sender: Sender,
    receiver: Receiver,
    error: Option<TcpError>,
    /// How the peer shifts its windows, and how we do.
    peer_scale: u8,
    scale: u8,
    timestamps: bool,
    ecn: bool,
    reset: bool,
    /// The end of TIME-WAIT.
    gone_at: Option<Time>,
}

impl Connection {
    /// Opens actively: the SYN is ready to be sent.
    ///
    /// # Errors
    /// Buffers or segments that hold nothing.
    pub fn connect(config: Config, initial: Seq) -> Result<Connection, TcpError> {
        Connection::new(config, initial, State::SynSent)
    }
    /// Waits for a SYN.
    ///
    /// # Errors
    /// As [`connect`](Self::connect).
    pub fn listen(config: Config, initial: Seq) -> Result<Connection, TcpError> {
        Connection::new(config, initial, State::Listen)
    }

    /// One end of a connection that was opened before the clock counts; the other end is made with the numbers exchanged and the
    /// same settings.
    ///
    /// # Errors
    /// As [`connect`](Self::connect).
    pub fn established(config: Config, initial: Seq, peer: Seq) -> Result<Connection, TcpError> {
        let mut connection = Connection::new(config, initial, State::Established)?;
        connection.peer_scale = connection.scale;
        connection.receiver.begin(peer);
        connection.receiver.ack_now = false;
        connection.sender.begin(connection.config.receive_buffer.0);
        Ok(connection)
    }

    fn new(config: Config, initial: Seq, state: State) -> Result<Connection, TcpError> {
        if config.mss == 0 {
            return Err(TcpError::NoSegment { mss: config.mss });
        }
        if config.receive_buffer.0 < u64::from(config.mss) {
            return Err(TcpError::NoWindow { buffer: config.receive_buffer, mss: config.mss });
        }
        // The least shift with which the whole buffer can be offered (RFC 7323 §2.3: at most 14).
        let scale = (0..14).find(|shift| config.receive_buffer.0 >> shift <= u64::from(u16::MAX)).unwrap_or(14);
        let (sender, receiver) = (Sender::new(&config, initial), Receiver::new(&config));
        let (timestamps, ecn) = (config.timestamps, config.ecn);
        Ok(Connection { config, state, sender, receiver, error: None, peer_scale: 0, scale, timestamps, ecn, reset: false, gone_at: None })
    }

    /// The state.
    #[must_use]
    pub fn state(&self) -> State {
        self.state
    }
    /// Why it ended by force, if it did.
    #[must_use]
    pub fn error(&self) -> Option<TcpError> {
        self.error
    }
    /// Whether data may flow both ways, or still may towards the peer.
    #[must_use]
    pub fn is_established(&self) -> bool {
        matches!(self.state, State::Established | State::CloseWait)
    }
    /// Room in the send buffer.
    #[must_use]
    pub fn send_space(&self) -> u64 {
        self.config.send_buffer.0.saturating_sub(self.sender.held())
    }
    /// Bytes posted that the peer has not acknowledged.
    #[must_use]
    pub fn unacknowledged(&self) -> u64 {
        self.sender.held()
    }
    /// Adds bytes to the stream; those that find no room in the buffer are not taken.
    pub fn post_send(&mut self, bytes: u64) -> u64 {
        let open = matches!(self.state, State::SynSent | State::SynReceived | State::Established | State::CloseWait | State::Listen);
        if !open || self.sender.fin.is_some() {
            return 0;
        }
        let taken = bytes.min(self.send_space());
        self.sender.post(taken);
        taken
    }
    /// Bytes that can be read.
    #[must_use]
    pub fn readable(&self) -> u64 {
        self.receiver.readable()
    }
    /// Takes bytes out of the receive buffer; returns how many. A window update may have to be sent.
    pub fn read(&mut self, bytes: u64) -> u64 {
        let taken = bytes.min(self.receiver.readable());
        self.receiver.take(taken);
        taken
    }
    /// Whether the peer's stream ended and all of it came.
    #[must_use]
    pub fn ended(&self) -> bool {
        self.receiver.ended()
    }
    /// No more data will be posted.
    pub fn close(&mut self) {
        match self.state {
            State::Closed | State::Listen | State::SynSent => self.state = State::Closed,
            State::SynReceived | State::Established => self.finish(State::FinWait1),
            State::CloseWait => self.finish(State::LastAck),
            _ => {}
        }
    }
    fn finish(&mut self, state: State) {
        self.sender.fin = Some(self.sender.end);
        self.state = state;
    }
    /// Ends at once; the peer is told by a reset.
    pub fn abort(&mut self) {
        self.reset = !matches!(self.state, State::Closed | State::Listen | State::SynSent);
        self.state = State::Closed;
    }

    /// The congestion window in bytes.
    #[must_use]
    pub fn congestion_window(&self) -> u64 {
        self.sender.control.window()
    }
    /// The slow start threshold in bytes; `u64::MAX` before the first loss.
    #[must_use]
    pub fn threshold(&self) -> u64 {
        self.sender.control.threshold()
    }
    /// Bytes on their way to the peer.
    #[must_use]
    pub fn in_flight(&self) -> u64 {
        self.sender.in_flight()
    }
    /// Segments sent again so far.
    #[must_use]
    pub fn retransmissions(&self) -> u64 {
        self.sender.retransmissions
    }
    /// The smoothed round trip.
    #[must_use]
    pub fn round_trip(&self) -> Option<Span> {
        self.sender.rtt.smoothed()
    }

    /// The next segment to send, with at most `limit` bytes of payload where that is more than a full segment (an adapter
    /// cuts it); `None` when there is nothing to say.
    pub fn poll_transmit(&mut self, now: Time, limit: u32) -> Option<Segment> {
        if std::mem::take(&mut self.reset) {
            return Some(self.segment(self.sender.next, 0, TcpFlags::RST.with(TcpFlags::ACK)));
        }
        if matches!(self.state, State::Closed | State::Listen) {
            return None;
        }
        if let Some(outgoing) = self.sender.poll(now, u64::from(limit)) {
            let mut flags = if self.state == State::SynSent { TcpFlags::default() } else { TcpFlags::ACK };
            let syn = outgoing.start == 0;
            let fin = self.sender.fin.is_some_and(|fin| (outgoing.start..outgoing.end).contains(&fin));
            if syn {
                flags = flags.with(TcpFlags::SYN);
            }
            if fin {
                flags = flags.with(TcpFlags::FIN);
            }
            let payload = (outgoing.end - outgoing.start) as u32 - u32::from(syn) - u32::from(fin);
            if payload > 0 && outgoing.end >= self.sender.end {
                flags = flags.with(TcpFlags::PSH);
            }
            if payload > 0 && std::mem::take(&mut self.sender.reduced) && self.ecn {
                flags = flags.with(TcpFlags::CWR);
            }
            let mut segment = self.segment(outgoing.start, payload, flags);
            segment.retransmission = outgoing.again;
            return Some(segment);
        }
        if self.receiver.ack_now {
            return Some(self.segment(self.sender.next, 0, TcpFlags::ACK));
        }
        None
    }

    /// A header for what begins at `position`; it acknowledges all that came.
    fn segment(&mut self, position: u64, payload: u32, mut flags: TcpFlags) -> Segment {
        let syn = flags.contains(TcpFlags::SYN);
        let ack = flags.contains(TcpFlags::ACK);
        if syn && self.ecn {
            flags = flags.with(if ack { TcpFlags::ECE } else { TcpFlags::ECE.with(TcpFlags::CWR) });
        } else if ack && self.ecn && self.receiver.echoes() {
            flags = flags.with(TcpFlags::ECE);
        }
        // Windows of segments with SYN are not shifted (RFC 7323 §2.2).
        let scale = if syn { 0 } else { self.scale };
        let window = if ack { self.receiver.offer(scale) } else { self.config.receive_buffer.0.min(u64::from(u16::MAX)) };
        let most = SackBlocks::MOST - usize::from(self.timestamps);
        let header = Tcp {
            source: 0,
            destination: 0,
            seq: Seq::of(self.sender.initial, position).0,
            ack: if ack { Seq::of(self.receiver.initial, self.receiver.next).0 } else { 0 },
            flags,
            window: (window >> scale).min(u64::from(u16::MAX)) as u16,
            mss: syn.then(|| u16::try_from(self.config.mss + self.options()).unwrap_or(u16::MAX)),
            window_scale: syn.then_some(self.scale),
            sack_permitted: syn && self.config.sack,
            timestamps: self.timestamps.then_some((0, 0)),
            sack: if self.config.sack && ack { self.receiver.blocks(most) } else { SackBlocks::default() },
        };
        self.receiver.acknowledged();
        Segment { header, payload, offset: position.saturating_sub(1), retransmission: false }
    }

    /// Bytes of options in every data segment.
    fn options(&self) -> u32 {
        if self.timestamps { 12 } else { 0 }
    }

    /// A segment arrived; `marked`: a switch marked its packet.
    pub fn handle_segment(&mut self, now: Time, segment: &Segment, marked: bool) -> Arrival {
        match self.state {
            State::Closed => return Arrival { reset: segment.has(TcpFlags::RST), ..Arrival::default() },
            State::Listen if !segment.has(TcpFlags::SYN) => return Arrival::default(),
            State::Listen | State::SynSent if segment.has(TcpFlags::SYN) => {
                let answered = self.state == State::SynSent && segment.has(TcpFlags::ACK);
                if self.state == State::SynSent && !answered {
                    return Arrival::default();
                }
                self.begin(segment);
                self.state = if answered { State::Established } else { State::SynReceived };
                if !answered {
                    self.receiver.ack_now = false; // the SYN of ours says it
                    return Arrival::default();
                }
                let acked = self.take_ack(now, segment);
                self.receiver.ack_now = true;
                return Arrival { established: true, acked, ..Arrival::default() };
            }
            State::SynSent => return Arrival::default(),
            _ => {}
        }
        let Some(position) = Seq(segment.header.seq).position(self.receiver.initial, self.receiver.next) else {
            return Arrival::default();
        };
        if segment.has(TcpFlags::RST) {
            self.state = State::Closed;
            self.error = Some(TcpError::Reset);
            return Arrival { reset: true, ..Arrival::default() };
        }
        if segment.has(TcpFlags::SYN) {
            // The answer to our answer was lost.
            self.receiver.ack_now = true;
            return Arrival::default();
        }
        let mut arrival = Arrival::default();
        if segment.has(TcpFlags::ACK) {
            arrival.acked = self.take_ack(now, segment);
            if self.state == State::SynReceived && self.sender.una > 0 {
                self.state = State::Established;
                arrival.established = true;
            }
        }
        if segment.counts() {
            let was_over = self.receiver.ended();
            if self.ecn && segment.payload > 0 {
                self.receiver.note_mark(Mark { marked, confirmed: segment.has(TcpFlags::CWR) });
            }
            let fin = segment.has(TcpFlags::FIN);
            (arrival.fresh, arrival.in_order) = self.receiver.arrive(now, position, u64::from(segment.payload), fin);
            arrival.ended = self.receiver.ended() && !was_over;
        } else if position < self.receiver.next {
            // A probe without data asks where we are.
            self.receiver.ack_now = true;
        }
        self.step(now, arrival.ended);
        arrival
    }

    /// The peer's SYN: what it offers is what both use.
    fn begin(&mut self, segment: &Segment) {
        let header = &segment.header;
        self.receiver.begin(Seq(header.seq));
        self.timestamps &= header.timestamps.is_some();
        let options = self.options();
        self.sender.agree(u64::from(header.mss.map_or(536, u32::from).saturating_sub(options)), header.sack_permitted);
        self.config.sack &= header.sack_permitted;
        self.ecn &= header.flags.contains(TcpFlags::ECE);
        match header.window_scale {
            Some(shift) => self.peer_scale = shift.min(14),
            None => self.scale = 0,
        }
    }

    fn take_ack(&mut self, now: Time, segment: &Segment) -> u64 {
        let header = &segment.header;
        let Some(ack) = Seq(header.ack).position(self.sender.initial, self.sender.una) else { return 0 };
        let scale = if segment.has(TcpFlags::SYN) { 0 } else { self.peer_scale };
        let window = u64::from(header.window) << scale;
        let mut sacked = [(0, 0); SackBlocks::MOST];
        let mut count = 0;
        for (from, to) in header.sack.as_slice() {
            let near = self.sender.una;
            if let (Some(from), Some(to)) = (Seq(*from).position(self.sender.initial, near), Seq(*to).position(self.sender.initial, near))
                && from < to
                && to <= self.sender.next
            {
                sacked[count] = (from, to);
                count += 1;
            }
        }
        let echo = self.ecn && segment.has(TcpFlags::ECE) && !segment.has(TcpFlags::SYN);
        let fields = AckFields { ack, window, bare: !segment.counts(), sacked: &sacked[..count], echo };
        match self.sender.acknowledge(now, &fields) {
            // The SYN and the FIN are no bytes of the stream.
            Some(fresh) => {
                let syn = u64::from(fresh > 0 && ack - fresh == 0);
                let fin = u64::from(fresh > 0 && self.sender.fin.is_some_and(|fin| ack > fin && ack - fresh <= fin));
                fresh - syn - fin
            }
            None => {
                self.receiver.ack_now = true;
                0
            }
        }
    }

    /// The steps of the close.
    fn step(&mut self, now: Time, ended: bool) {
        let done = self.sender.fin.is_some() && self.sender.is_done();
        self.state = match (self.state, done, ended) {
            (State::Established, _, true) => State::CloseWait,
            (State::FinWait1, true, true) | (State::FinWait2, _, true) | (State::Closing, true, _) => State::TimeWait,
            (State::FinWait1, true, false) => State::FinWait2,
            (State::FinWait1, false, true) => State::Closing,
            (State::LastAck, true, _) => State::Closed,
            (state, ..) => state,
        };
        if self.state == State::TimeWait && self.gone_at.is_none() {
            self.gone_at = Some(now + TIME_WAIT);
        }
    }

    /// When to call `handle_timeout`; an early call is harmless.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Time> {
        if self.state == State::Closed {
            return None;
        }
        [self.sender.timer, self.receiver.ack_at, self.gone_at].into_iter().flatten().min()
    }

    /// Handles the timers that are due; `poll_transmit` may have something to send then.
    pub fn handle_timeout(&mut self, now: Time) {
        if self.gone_at.is_some_and(|at| at <= now) {
            self.state = State::Closed;
        }
        if self.receiver.ack_at.is_some_and(|at| at <= now) {
            self.receiver.ack_at = None;
            self.receiver.ack_now = true;
        }
        if self.sender.timer.is_some_and(|at| at <= now) {
            if self.sender.retries >= self.config.retries {
                self.error = Some(TcpError::TimedOut { retries: self.sender.retries });
                self.state = State::Closed;
                return;
            }
            self.sender.time_out(now);
        }
    }
}

/// How long an end waits for what may still come. Basis: measured, Linux.
const TIME_WAIT: Span = Span::from_us(60_000_000);
