//! Congestion control: how fast a queue pair may send, by what the network tells it.
//!
//! An algorithm is one file with a [`Control`]: it is told what was sent, what came back and when, and says how many bytes
//! may be on their way ([`Allowance::window`]) and how fast they may follow each other ([`Allowance::rate`]). The hardest
//! cases decided the trait: HPCC reads the state of every link of the path from each acknowledgement, DCQCN lives on timers and
//! on notifications that are no acknowledgements, NSCC on trimmed packets, Swift on the delay of single packets, RCCC on credit
//! that the receiver gives out; its other half is at the receiver, one for all its senders.
//!
//! Around it stands `Congestion`, one for each sending queue pair: packets on their way with the time they left, and the
//! time at which the next may leave.
//!
//! An algorithm's file holds its parameters, declared once by [`parameters!`](fabriscope_units::parameters) with their units: the
//! catalogue reads the same struct with values that carry their sources. Its [`Scheme`] makes controls and says what receivers and
//! links have to do for it. It is registered by its module and one line in `algorithms!`; it is right when `tests/behaves.rs`
//! accepts it.
//!
//! Modelled: window and pacing per queue pair. Not modelled: one control for several queue pairs to the same host.

pub mod dcqcn;
pub mod dctcp;
pub mod hpcc;
pub mod infiniband;
pub mod nscc;
pub mod prototype;
pub mod rccc;
pub mod slingshot;
pub mod srd;
pub mod swift;
pub mod timely;

use std::collections::VecDeque;

use fabriscope_units::{Bytes, Form, Plain, Rate, Span, Time};
use fabriscope_wire::Psn;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use dcqcn::Dcqcn;
pub use dctcp::Dctcp;
pub use hpcc::{Hpcc, LinkState, Telemetry};
pub use infiniband::InfiniBandCc;
pub use nscc::Nscc;
pub use prototype::Prototype;
pub(crate) use rccc::HEADERS;
pub use rccc::{Granter, Rccc};
pub use slingshot::Slingshot;
pub use srd::Srd;
pub use swift::Swift;
pub use timely::Timely;

/// What a queue pair may do now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Allowance {
    /// Bytes that may be on their way; one packet always may.
    pub window: Bytes,
    /// How fast packets may follow each other.
    pub rate: Rate,
    /// Bytes that may still leave, repeated ones too, until the receiver gives more.
    pub credit: Bytes,
}

impl Allowance {
    /// A window and a rate, without credit.
    #[must_use]
    pub const fn window(window: Bytes, rate: Rate) -> Allowance {
        Allowance { window, rate, credit: UNBOUNDED }
    }
    /// A rate alone.
    #[must_use]
    pub const fn rate(rate: Rate) -> Allowance {
        Allowance::window(UNBOUNDED, rate)
    }
}

/// What an acknowledgement tells.
#[derive(Clone, Copy, Debug)]
pub struct Feedback<'a> {
    /// When it came.
    pub now: Time,
    /// Bytes that it acknowledges for the first time, headers included.
    pub bytes: Bytes,
    /// From when the packet left to now.
    pub rtt: Span,
    /// A switch marked the packet.
    pub marked: bool,
    /// Bytes still on their way.
    pub in_flight: Bytes,
    /// What the links of the path wrote into the packet, the first one first; empty where they write nothing.
    pub links: &'a [LinkState],
}

/// How a packet was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// Its header arrived, its payload was cut off.
    Trimmed,
    /// A later one arrived before it.
    Gap,
    /// Nothing came back in time.
    Timeout,
}

/// A congestion control algorithm, for one queue pair.
pub trait Control {
    /// What may be sent.
    fn allowance(&self) -> Allowance;
    /// A packet of `bytes` left.
    fn sent(&mut self, _now: Time, _bytes: Bytes) {}
    /// An acknowledgement came.
    fn acknowledged(&mut self, _feedback: &Feedback<'_>) {}
    /// The receiver saw a mark and said so by a packet of its own (CNP, BECN).
    fn notified(&mut self, _now: Time) {}
    /// A packet was lost.
    fn lost(&mut self, _now: Time, _loss: Loss) {}
    /// What it asks of the receiver with each packet while `pending` bytes wait: credit in all, in the units of the algorithm.
    fn wants(&self, _pending: Bytes) -> u32 {
        0
    }
    /// The receiver gave so much credit in all. True if that is more than was known.
    fn granted(&mut self, _credit: u32) -> bool {
        false
    }
    /// When it wants to be woken.
    fn wakes(&self) -> Option<Time> {
        None
    }
    /// The time it asked for has come.
    fn wake(&mut self, _now: Time) {}
}

/// How a receiver tells the sender of marks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Echo {
    /// Not at all.
    #[default]
    Silent,
    /// By a congestion notification packet, at most one in this time for each queue pair.
    Notify(Span),
    /// In the acknowledgements.
    Acknowledge,
    /// In the acknowledgements, and by packets of their own, at most one in this time, where a service has none.
    AcknowledgeOrNotify(Span),
}

impl Echo {
    /// Whether acknowledgements carry marks.
    #[must_use]
    pub fn acknowledges(self) -> bool {
        matches!(self, Echo::Acknowledge | Echo::AcknowledgeOrNotify(_))
    }
}

/// What a NIC needs to know of the path to set an algorithm up.
#[derive(Clone, Copy, Debug, PartialEq, Default)]
pub struct Line {
    /// Rate of its link.
    pub rate: Rate,
    /// Round trip of a full packet in an idle network, the longest there is.
    pub base_rtt: Span,
    /// Payload of a full packet.
    pub mtu: Bytes,
}

impl Line {
    /// Bytes on their way at full rate in an idle network.
    #[must_use]
    pub fn product(&self) -> Bytes {
        let bytes = u128::from(self.rate.as_bps()) * u128::from(self.base_rtt.as_ps()) / 8_000_000_000_000;
        Bytes(u64::try_from(bytes).unwrap_or(u64::MAX).max(self.mtu.0))
    }
}

/// What an algorithm needs of receivers and links.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Signals {
    /// How receivers tell of marks.
    pub echo: Echo,
    /// Packets from one acknowledgement to the next; none leaves that to the queue pair.
    pub ack_interval: Option<u32>,
    /// How long a queue pair waits for an answer before it sends again; none leaves that to the queue pair.
    pub timeout: Option<Span>,
    /// Links write their state into packets.
    pub telemetry: bool,
    /// Who gives senders credit.
    pub credit: Credit,
}

/// Who gives senders credit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Credit {
    /// Nobody: a sender asks for none.
    #[default]
    None,
    /// Receivers; only transports whose packets have room for it carry it.
    OfReceivers,
}

/// A parameter that is outside its range.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[error("`{parameter}` of {value} is no share")]
pub struct OutOfRange {
    /// Its name.
    pub parameter: &'static str,
    /// What it was given.
    pub value: f64,
}

/// Refuses what is no share: a number above 0 and up to 1.
fn share(parameter: &'static str, value: f64) -> Result<(), OutOfRange> {
    if value > 0.0 && value <= 1.0 { Ok(()) } else { Err(OutOfRange { parameter, value }) }
}

/// The parameters of an algorithm: they make the control of each sender and say what it needs of the network.
pub trait Scheme {
    /// The control of one sender.
    type Control: Control;
    /// A control for a sender behind `line`.
    fn control(&self, line: Line) -> Self::Control;
    /// What it needs of receivers and links.
    fn signals(&self) -> Signals;
    /// Refuses parameters without meaning.
    ///
    /// # Errors
    /// The first parameter that is outside its range.
    fn check(&self) -> Result<(), OutOfRange>;
    /// Who gives credit at a receiver behind `line`, where receivers give any.
    fn granter(&self, _line: Line) -> Option<Granter> {
        None
    }
}

/// The congestion control of a NIC.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Settings {
    /// Which algorithm; none sends as fast as the link.
    pub algorithm: Option<Algorithm>,
    /// One from outside in its place.
    pub prototype: Option<Prototype>,
    /// How its receivers tell of marks.
    pub echo: Echo,
    /// Packets from one acknowledgement to the next; none leaves that to the queue pair.
    pub ack_interval: Option<u32>,
    /// How long a queue pair waits for an answer before it sends again; none leaves that to the queue pair.
    pub timeout: Option<Span>,
    /// Links write their state into packets.
    pub telemetry: bool,
    /// The path.
    pub line: Line,
}

impl Settings {
    /// An algorithm with what it needs, behind `line`.
    #[must_use]
    pub fn of(algorithm: Algorithm, line: Line) -> Settings {
        Settings { algorithm: Some(algorithm), ..Settings::with(algorithm.signals(), line) }
    }
    /// An algorithm from outside with what it needs, behind `line`.
    #[must_use]
    pub fn of_prototype(prototype: Prototype, line: Line) -> Settings {
        let settings = Settings::with(prototype.signals(), line);
        Settings { prototype: Some(prototype), ..settings }
    }
    fn with(signals: Signals, line: Line) -> Settings {
        let Signals { echo, ack_interval, timeout, telemetry, credit: _ } = signals;
        Settings { echo, ack_interval, timeout, telemetry, ..Settings::none(line) }
    }
    /// Whether anything but the link holds senders back.
    #[must_use]
    pub fn controls(&self) -> bool {
        self.algorithm.is_some() || self.prototype.is_some()
    }
    /// No algorithm, behind `line`.
    #[must_use]
    pub fn none(line: Line) -> Settings {
        Settings { line, ..Settings::default() }
    }
    /// Whether senders wait for credit of their receivers.
    #[must_use]
    pub fn gives_credit(&self) -> bool {
        self.algorithm.is_some_and(|algorithm| algorithm.signals().credit == Credit::OfReceivers)
    }
}

/// Hands a call to the control that is at work.
macro_rules! each {
    ($inner:expr, $( $Variant:ident )*, $control:ident => $call:expr) => {
        match $inner {
            $( Inner::$Variant($control) => $call, )*
            Inner::Prototype($control) => $call,
            Inner::Free($control) => $call,
        }
    };
}

/// Makes the algorithms out of their modules: one line each.
macro_rules! algorithms {
    ($( $(#[$about:meta])* $Variant:ident: $module:ident as $name:literal, )*) => {
        /// The algorithms with their parameters, under their names in part files.
        #[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
        #[serde(bound = "F: Form")]
        #[schemars(bound = "F: Form", rename = "Algorithm")]
        #[non_exhaustive]
        pub enum Algorithm<F: Form = Plain> {
            $( $(#[$about])* #[serde(rename = $name)] $Variant($module::Parameters<F>), )*
        }

        impl Copy for Algorithm {}

        impl<F: Form> Algorithm<F> {
            /// The names of all algorithms.
            pub const NAMES: &'static [&'static str] = &[$( $name, )*];

            /// The name of the algorithm in part files.
            #[must_use]
            pub fn name(&self) -> &'static str {
                match self { $( Algorithm::$Variant(_) => $name, )* }
            }
            /// The algorithm with the bare values of its parameters.
            #[must_use]
            pub fn plain(&self) -> Algorithm {
                match self { $( Algorithm::$Variant(parameters) => Algorithm::$Variant(parameters.plain()), )* }
            }
        }

        impl Scheme for Algorithm {
            type Control = Controller;

            fn control(&self, line: Line) -> Controller {
                Controller(match self { $( Algorithm::$Variant(parameters) => Inner::$Variant(parameters.control(line)), )* })
            }
            fn signals(&self) -> Signals {
                match self { $( Algorithm::$Variant(parameters) => parameters.signals(), )* }
            }
            fn check(&self) -> Result<(), OutOfRange> {
                match self { $( Algorithm::$Variant(parameters) => parameters.check(), )* }
            }
            fn granter(&self, line: Line) -> Option<Granter> {
                match self { $( Algorithm::$Variant(parameters) => parameters.granter(line), )* }
            }
        }

        enum Inner {
            $( $Variant(<$module::Parameters as Scheme>::Control), )*
            /// From outside.
            Prototype(Box<dyn Control + Send>),
            /// None: what was sent is only kept in mind.
            Free(Free),
        }

        impl Control for Controller {
            fn allowance(&self) -> Allowance {
                each!(&self.0, $( $Variant )*, control => control.allowance())
            }
            fn sent(&mut self, now: Time, bytes: Bytes) {
                each!(&mut self.0, $( $Variant )*, control => control.sent(now, bytes))
            }
            fn acknowledged(&mut self, feedback: &Feedback<'_>) {
                each!(&mut self.0, $( $Variant )*, control => control.acknowledged(feedback))
            }
            fn notified(&mut self, now: Time) {
                each!(&mut self.0, $( $Variant )*, control => control.notified(now))
            }
            fn lost(&mut self, now: Time, loss: Loss) {
                each!(&mut self.0, $( $Variant )*, control => control.lost(now, loss))
            }
            fn wants(&self, pending: Bytes) -> u32 {
                each!(&self.0, $( $Variant )*, control => control.wants(pending))
            }
            fn granted(&mut self, credit: u32) -> bool {
                each!(&mut self.0, $( $Variant )*, control => control.granted(credit))
            }
            fn wakes(&self) -> Option<Time> {
                each!(&self.0, $( $Variant )*, control => control.wakes())
            }
            fn wake(&mut self, now: Time) {
                each!(&mut self.0, $( $Variant )*, control => control.wake(now))
            }
        }
    };
}

algorithms! {
    /// InfiniBand congestion control.
    InfiniBand: infiniband as "infiniband",
    /// DCQCN.
    Dcqcn: dcqcn as "dcqcn",
    /// DCTCP.
    Dctcp: dctcp as "dctcp",
    /// Swift.
    Swift: swift as "swift",
    /// HPCC.
    Hpcc: hpcc as "hpcc",
    /// NSCC of Ultra Ethernet.
    Nscc: nscc as "nscc",
    /// Latency-based, as SRD's.
    Srd: srd as "srd",
    /// Per-pair back-pressure, as Slingshot's.
    Slingshot: slingshot as "slingshot",
    /// RCCC of Ultra Ethernet.
    Rccc: rccc as "rccc",
    /// TIMELY.
    Timely: timely as "timely",
}

/// One algorithm at work, for one sender.
pub struct Controller(Inner);

/// No control: packets leave as the link takes them.
#[derive(Clone, Copy, Debug)]
struct Free;

impl Control for Free {
    fn allowance(&self) -> Allowance {
        Allowance::rate(UNLIMITED)
    }
}

/// What an acknowledgement says.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AckInfo {
    /// Everything before this has arrived.
    pub(crate) end: Psn,
    /// The packet that it answers, if it was accepted.
    pub(crate) asked: Option<Psn>,
    /// That packet, or one since the last acknowledgement, was marked.
    pub(crate) marked: bool,
    /// Packets that arrived out of order: a bit for each of the 64 from `map` on.
    pub(crate) map: Psn,
    pub(crate) ahead: u64,
}

impl AckInfo {
    /// Without a map.
    pub(crate) const fn of(end: Psn, asked: Option<Psn>, marked: bool) -> AckInfo {
        AckInfo { end, asked, marked, map: end, ahead: 0 }
    }
}

/// The congestion control of one sending queue pair.
pub(crate) struct Congestion {
    controller: Controller,
    /// Packets on their way: number, bytes on the wire, when the last copy left; in the order of their numbers.
    flights: VecDeque<Flight>,
    in_flight: u64,
    /// When the next packet may leave.
    next: Time,
    /// Packets found missing with the last acknowledgement.
    missing: Vec<Psn>,
    /// A packet is missing when one that left so much later has arrived.
    reordering: Span,
    /// Smoothed round trip and its mean deviation, as RFC 6298 has them; zero before the first.
    rtt: Span,
    deviation: Span,
}

#[derive(Clone, Copy, Debug)]
struct Flight {
    psn: Psn,
    bytes: u16,
    left: Time,
    /// It was reported as arrived, out of order.
    arrived: bool,
    /// It counts as on its way: neither arrived nor known to be lost.
    out: bool,
}

impl Congestion {
    /// Ready to send; `None` where the settings have no algorithm.
    pub(crate) fn new(settings: &Settings) -> Option<Congestion> {
        settings.controls().then(|| Congestion::always(settings))
    }

    /// Ready to send; without an algorithm it only keeps in mind what is on its way.
    pub(crate) fn always(settings: &Settings) -> Congestion {
        let line = settings.line;
        let controller = match (&settings.prototype, settings.algorithm) {
            (Some(prototype), _) => Controller(Inner::Prototype(prototype.control(line))),
            (None, Some(algorithm)) => algorithm.control(line),
            (None, None) => Controller(Inner::Free(Free)),
        };
        Congestion {
            controller,
            flights: VecDeque::new(),
            in_flight: 0,
            next: Time::ZERO,
            missing: Vec::new(),
            reordering: line.base_rtt.max(LEAST_REORDERING),
            rtt: Span::ZERO,
            deviation: Span::ZERO,
        }
    }

    /// What the queue pair may do now.
    pub(crate) fn allowance(&self) -> Allowance {
        self.controller.allowance()
    }
    /// Whether the window lets a packet of `bytes` go.
    pub(crate) fn open(&self, bytes: u16) -> bool {
        let window = self.controller.allowance().window.0;
        self.in_flight == 0 || self.in_flight + u64::from(bytes) <= window
    }
    /// Whether the window is full once another packet of `bytes` has left, so that no third may follow.
    pub(crate) fn closes(&self, bytes: u16) -> bool {
        self.in_flight + 2 * u64::from(bytes) > self.controller.allowance().window.0
    }
    /// Whether the window is so small that it may close on what the receiver has not acknowledged yet.
    pub(crate) fn is_small(&self, unacknowledged: Bytes) -> bool {
        self.controller.allowance().window < unacknowledged * 4
    }
    /// Whether there is credit for a packet of `bytes`.
    pub(crate) fn has_credit(&self, bytes: u16) -> bool {
        u64::from(bytes) <= self.controller.allowance().credit.0
    }
    /// What to ask of the receiver while `pending` bytes wait.
    pub(crate) fn wants(&self, pending: Bytes) -> u32 {
        self.controller.wants(pending)
    }
    /// The receiver gave so much in all; true if that is more than was known.
    pub(crate) fn granted(&mut self, credit: u32) -> bool {
        self.controller.granted(credit)
    }
    /// When the next packet may leave.
    pub(crate) fn next(&self) -> Time {
        self.next
    }

    /// A packet with number `psn` and `bytes` on the wire leaves.
    pub(crate) fn sent(&mut self, now: Time, psn: Psn, bytes: u16) {
        let rate = self.controller.allowance().rate;
        if rate != UNLIMITED {
            self.next = self.next.max(now) + rate.time(Bytes(u64::from(bytes)));
        }
        self.controller.sent(now, Bytes(u64::from(bytes)));
        // Repeated packets are there already.
        match self.flights.back() {
            Some(last) if !last.psn.is_before(psn) => {
                if let Some(flight) = self.flight(psn) {
                    flight.left = now;
                    // It counts as it was, whatever this copy carries.
                    let back = !flight.arrived && !std::mem::replace(&mut flight.out, true);
                    let more = if back { u64::from(flight.bytes) } else { 0 };
                    self.in_flight += more;
                }
            }
            _ => {
                self.flights.push_back(Flight { psn, bytes, left: now, arrived: false, out: true });
                self.in_flight += u64::from(bytes);
            }
        }
    }

    /// `psn` is known to be lost: it is not on its way any more, and goes again when the window has room for it.
    pub(crate) fn gone(&mut self, psn: Psn) {
        if let Some(flight) = self.flight(psn).filter(|flight| flight.out) {
            flight.out = false;
            let bytes = u64::from(flight.bytes);
            self.in_flight -= bytes;
        }
    }
    /// All that has not arrived goes again from the oldest packet on.
    pub(crate) fn rewound(&mut self) {
        for flight in &mut self.flights {
            self.in_flight -= if std::mem::take(&mut flight.out) { u64::from(flight.bytes) } else { 0 };
        }
    }
    /// Whether the window lets the repeated packet `psn` of `bytes` go: one that counts as on its way is inside already.
    pub(crate) fn readmits(&mut self, psn: Psn, bytes: u16) -> bool {
        self.flight(psn).is_some_and(|flight| flight.out) || self.open(bytes)
    }
    /// How long to wait for an answer: `least`, or longer where round trips are (RFC 6298).
    pub(crate) fn patience(&self, least: Span) -> Span {
        least.max(self.rtt + self.deviation * 4)
    }
    fn measure(&mut self, rtt: Span) {
        let (rtt, known) = (rtt.as_ps(), self.rtt.as_ps());
        (self.rtt, self.deviation) = if known == 0 {
            (Span::from_ps(rtt), Span::from_ps(rtt / 2))
        } else {
            let off = (self.deviation.as_ps() * 3 + known.abs_diff(rtt)) / 4;
            (Span::from_ps((known * 7 + rtt) / 8), Span::from_ps(off))
        };
    }

    fn flight(&mut self, psn: Psn) -> Option<&mut Flight> {
        let first = self.flights.front()?.psn;
        let place = usize::try_from(psn.distance(first)).ok()?;
        self.flights.get_mut(place).filter(|flight| flight.psn == psn)
    }

    /// Whether the receiver reported `psn` although earlier ones are missing.
    pub(crate) fn has_arrived(&mut self, psn: Psn) -> bool {
        self.flight(psn).is_some_and(|flight| flight.arrived)
    }

    /// An acknowledgement arrived. Gives how many packets it shows to be missing,
    /// where packets may come in any order (as RACK, RFC 8985: by the time that they left).
    pub(crate) fn acknowledged(&mut self, now: Time, told: AckInfo, links: &[LinkState], any_order: bool) -> usize {
        let AckInfo { end, asked, marked, map, mut ahead } = told;
        self.missing.clear();
        let asked = asked.and_then(|asked| self.flight(asked));
        let left = asked.as_ref().map(|flight| flight.left);
        let mut bytes = 0;
        let mut counted = 0;
        if let Some(flight) = asked.filter(|flight| !flight.arrived) {
            flight.arrived = true;
            bytes += u64::from(flight.bytes);
            counted = if std::mem::take(&mut flight.out) { bytes } else { 0 };
        }
        self.in_flight -= counted;
        bytes += self.settle(end);
        while ahead != 0 {
            bytes += self.note_arrived(map + ahead.trailing_zeros());
            ahead &= ahead - 1;
        }
        if let Some(left) = left {
            self.measure(now - left);
            let feedback = Feedback { now, bytes: Bytes(bytes), rtt: now - left, marked, in_flight: Bytes(self.in_flight), links };
            self.controller.acknowledged(&feedback);
            if any_order {
                self.find_missing(now, left);
            }
        }
        self.missing.len()
    }

    /// Everything before `end` has arrived; gives the bytes of those that were not known to.
    pub(crate) fn settle(&mut self, end: Psn) -> u64 {
        let (mut bytes, mut counted) = (0, 0);
        while let Some(first) = self.flights.front().filter(|first| first.psn.is_before(end)) {
            bytes += if first.arrived { 0 } else { u64::from(first.bytes) };
            counted += if first.out { u64::from(first.bytes) } else { 0 };
            self.flights.pop_front();
        }
        self.in_flight -= counted;
        bytes
    }

    /// The receiver said by a map that `psn` arrived; gives its bytes if that is news.
    pub(crate) fn note_arrived(&mut self, psn: Psn) -> u64 {
        let Some(flight) = self.flight(psn).filter(|flight| !flight.arrived) else { return 0 };
        flight.arrived = true;
        let bytes = u64::from(flight.bytes);
        let counted = if std::mem::take(&mut flight.out) { bytes } else { 0 };
        self.in_flight -= counted;
        bytes
    }

    /// `psn` was reported and is missing after all; false if it was not reported.
    pub(crate) fn take_back(&mut self, psn: Psn) -> bool {
        let Some(flight) = self.flight(psn).filter(|flight| flight.arrived) else { return false };
        (flight.arrived, flight.out) = (false, true);
        let bytes = u64::from(flight.bytes);
        self.in_flight += bytes;
        true
    }

    /// Packets that left long before one that has arrived.
    fn find_missing(&mut self, now: Time, left: Time) {
        for flight in &mut self.flights {
            if flight.left + self.reordering >= left {
                break;
            }
            if !flight.arrived {
                self.missing.push(flight.psn);
                flight.left = now;
                self.in_flight -= if std::mem::take(&mut flight.out) { u64::from(flight.bytes) } else { 0 };
            }
        }
    }
    /// The packets that the last acknowledgement showed to be missing.
    pub(crate) fn missing(&self) -> impl Iterator<Item = Psn> + '_ {
        self.missing.iter().copied()
    }

    pub(crate) fn notified(&mut self, now: Time) {
        self.controller.notified(now);
    }
    pub(crate) fn lost(&mut self, now: Time, loss: Loss) {
        self.controller.lost(now, loss);
    }
    pub(crate) fn wakes(&self) -> Option<Time> {
        self.controller.wakes()
    }
    pub(crate) fn wake(&mut self, now: Time) {
        self.controller.wake(now);
    }
}

/// No bound.
const UNBOUNDED: Bytes = Bytes(u64::MAX);
/// The link alone sets the pace.
const UNLIMITED: Rate = Rate::from_bps(u64::MAX);
/// A packet is not missing yet while others that left this much later arrive. Basis: assumed; less than the idle round trip of
/// any network here, it matters where none was given.
const LEAST_REORDERING: Span = Span::from_us(1);

/// A window in bytes from a number that arithmetic left, between a packet and `most`.
fn window(bytes: f64, mtu: Bytes, most: Bytes) -> Bytes {
    Bytes((bytes as u64).clamp(mtu.0, most.0.max(mtu.0)))
}

#[cfg(test)]
mod tests;
