//! Congestion controls and choices of paths that are Python objects.
//!
//! They are called in the order of simulated time, by one thread at a time. The first exception of one is kept, ends the run, and is
//! raised where the run was started; until it ends, senders are held back by nothing and packets take their usual way.

use std::sync::{Arc, Mutex, PoisonError};

use fabriscope_fabric::RoutePrototype;
use fabriscope_units::{Bytes, Rate, Remedy, Span, Time};
use fabriscope_verbs::cc::{self, Allowance, Control, Echo, Signals};
use pyo3::exceptions::PyValueError;
use pyo3::intern;
use pyo3::prelude::*;

/// The first exception of the objects that belong to a catalogue or a cluster, or to several.
#[derive(Clone, Default)]
pub struct Trouble {
    own: Arc<Mutex<Option<PyErr>>>,
    others: Vec<Arc<Mutex<Option<PyErr>>>>,
}

impl Trouble {
    /// What hears of the objects of both.
    pub fn joined(&self, other: &Trouble) -> Trouble {
        let others = [&self.others[..], &[Arc::clone(&other.own)], &other.others[..]].concat();
        Trouble { own: Arc::clone(&self.own), others }
    }
    fn note(&self, error: PyErr) {
        self.own.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
    }
    /// Whether an object of its own has raised one.
    fn is_there(&self) -> bool {
        self.own.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }
    /// An exception; all are forgotten then.
    pub fn take(&self) -> Option<PyErr> {
        let all = std::iter::once(&self.own).chain(&self.others);
        all.filter_map(|one| one.lock().unwrap_or_else(PoisonError::into_inner).take()).reduce(|first, _| first)
    }
}

/// What a congestion control knows of its path.
#[pyclass(frozen, get_all, module = "fabriscope")]
pub struct Line {
    /// Rate of the adapter's link, in bit/s.
    rate: u64,
    /// Round trip of a full packet in an idle network, in ps.
    base_rtt: u64,
    /// Payload of a full packet, in bytes.
    mtu: u64,
    /// Bytes on their way at full rate in an idle network.
    product: u64,
}

/// What an acknowledgement tells.
#[pyclass(frozen, get_all, module = "fabriscope")]
pub struct Feedback {
    /// When it came, in ps.
    now: u64,
    /// Bytes that it acknowledges for the first time, headers included.
    bytes: u64,
    /// From when the packet left to now, in ps.
    rtt: u64,
    /// Whether a switch marked the packet.
    marked: bool,
    /// Bytes still on their way.
    in_flight: u64,
    /// What the links of the path wrote into the packet, the first one first: time (ps), bytes sent, bytes waiting, rate (bit/s).
    links: Vec<(u64, u64, u64, u64)>,
}

/// Where a packet may go at a switch.
#[pyclass(frozen, get_all, module = "fabriscope")]
pub struct Choice {
    /// The number of the switch.
    switch: u32,
    /// The endpoint that the packet goes to.
    destination: u32,
    /// What sets flows apart, or packets where they are spread one by one.
    entropy: u32,
    /// The link that it came in by.
    input: u32,
    /// When it came, in ps.
    now: u64,
    /// Where it may go: link and virtual lane.
    options: Vec<(u32, u8)>,
    /// Bytes that wait for the link of each of them.
    queues: Vec<u64>,
    /// The place of what the routing underneath would take.
    usual: usize,
}

/// What a class says that it needs of receivers and links.
#[derive(FromPyObject)]
pub struct Needs {
    #[pyo3(item)]
    echo: String,
    #[pyo3(item)]
    echo_interval: String,
    #[pyo3(item)]
    ack_interval: Option<u32>,
    #[pyo3(item)]
    timeout: Option<String>,
    #[pyo3(item)]
    telemetry: bool,
}

impl Needs {
    fn signals(&self) -> PyResult<Signals> {
        let span = |text: &str, what: &str| Span::parse(text).map_err(|e| PyValueError::new_err(format!("{what}: {}", e.in_full())));
        let every = span(&self.echo_interval, "echo_interval")?;
        let echo = match self.echo.as_str() {
            "silent" => Echo::Silent,
            "notify" => Echo::Notify(every),
            "acknowledge" => Echo::Acknowledge,
            "acknowledge_or_notify" => Echo::AcknowledgeOrNotify(every),
            other => {
                let text = format!("echo = {other:?}: use \"silent\", \"notify\", \"acknowledge\" or \"acknowledge_or_notify\"");
                return Err(PyValueError::new_err(text));
            }
        };
        let timeout = self.timeout.as_deref().map(|text| span(text, "timeout")).transpose()?;
        let credit = cc::Credit::None;
        Ok(Signals { echo, ack_interval: self.ack_interval, timeout, telemetry: self.telemetry, credit })
    }
}

/// A congestion control whose senders are what `make` gives for a [`Line`].
pub fn congestion(make: Py<PyAny>, needs: &Needs, trouble: Trouble) -> PyResult<cc::Prototype> {
    let signals = needs.signals()?;
    Ok(cc::Prototype::new(signals, move |line| {
        let sender = Python::attach(|py| Sender::new(py, &make, line, trouble.clone()));
        Box::new(sender)
    }))
}

/// One sender: a Python object, and what it said last.
struct Sender {
    /// Nothing after an exception.
    object: Option<Py<PyAny>>,
    hears: Hears,
    allowance: Allowance,
    wakes: Option<Time>,
    trouble: Trouble,
}

/// What the object has methods for; others cost nothing.
#[derive(Clone, Copy, Default)]
struct Hears {
    sent: bool,
    acknowledged: bool,
    notified: bool,
    lost: bool,
    wake: bool,
}

/// As fast as the link.
const FREE: Allowance = Allowance { window: Bytes(u64::MAX), rate: Rate::from_bps(u64::MAX), credit: Bytes(u64::MAX) };

impl Sender {
    fn new(py: Python<'_>, make: &Py<PyAny>, line: cc::Line, trouble: Trouble) -> Sender {
        let mut sender = Sender { object: None, hears: Hears::default(), allowance: FREE, wakes: None, trouble };
        let path = Line { rate: line.rate.as_bps(), base_rtt: line.base_rtt.as_ps(), mtu: line.mtu.0, product: line.product().0 };
        let made = make.call1(py, (path,)).and_then(|object| {
            let has = |name: &str| object.bind(py).getattr_opt(name).map(|found| found.is_some());
            let hears = Hears {
                sent: has("sent")?,
                acknowledged: has("acknowledged")?,
                notified: has("notified")?,
                lost: has("lost")?,
                wake: has("wake")?,
            };
            Ok((object, hears))
        });
        match made {
            Ok((object, hears)) => {
                (sender.object, sender.hears) = (Some(object), hears);
                sender.tell(|_, _| Ok(()));
            }
            Err(error) => sender.trouble.note(error),
        }
        sender
    }

    /// Calls the object and reads what it allows then.
    fn tell(&mut self, call: impl FnOnce(Python<'_>, &Bound<'_, PyAny>) -> PyResult<()>) {
        let Some(object) = &self.object else { return };
        let said = Python::attach(|py| {
            let object = object.bind(py);
            call(py, object)?;
            let window = number(object, "window")?.map_or(FREE.window, |bytes| Bytes(bytes as u64));
            let rate = match number(object, "rate")? {
                None => FREE.rate,
                Some(rate) if rate >= 1.0 => Rate::from_bps(rate as u64),
                Some(rate) => return Err(PyValueError::new_err(format!("rate = {rate}: a sender needs 1 bit/s at least"))),
            };
            let wakes = number(object, "wakes")?.map(|time| Time::from_ps(time as u64));
            Ok((Allowance::window(window, rate), wakes))
        });
        match said {
            Ok((allowance, wakes)) => (self.allowance, self.wakes) = (allowance, wakes),
            Err(error) => {
                self.trouble.note(error);
                (self.object, self.allowance, self.wakes) = (None, FREE, None);
            }
        }
    }
}

/// An attribute that is a number of 0 or more, or nothing.
fn number(object: &Bound<'_, PyAny>, name: &str) -> PyResult<Option<f64>> {
    match object.getattr_opt(name)?.filter(|found| !found.is_none()) {
        None => Ok(None),
        Some(found) => match found.extract::<f64>() {
            Ok(number) if number.is_finite() && number >= 0.0 => Ok(Some(number)),
            _ => Err(PyValueError::new_err(format!("{name} = {found}: write a number of 0 or more, or None"))),
        },
    }
}

impl Control for Sender {
    fn allowance(&self) -> Allowance {
        self.allowance
    }
    fn sent(&mut self, now: Time, bytes: Bytes) {
        if self.hears.sent {
            self.tell(|py, object| object.call_method1(intern!(py, "sent"), (now.as_ps(), bytes.0)).map(drop));
        }
    }
    fn acknowledged(&mut self, feedback: &cc::Feedback<'_>) {
        if self.hears.acknowledged {
            let links = feedback.links.iter().map(|link| (link.at.as_ps(), link.sent, link.queue.0, link.rate.as_bps())).collect();
            let told = Feedback {
                now: feedback.now.as_ps(),
                bytes: feedback.bytes.0,
                rtt: feedback.rtt.as_ps(),
                marked: feedback.marked,
                in_flight: feedback.in_flight.0,
                links,
            };
            self.tell(|py, object| object.call_method1(intern!(py, "acknowledged"), (told,)).map(drop));
        }
    }
    fn notified(&mut self, now: Time) {
        if self.hears.notified {
            self.tell(|py, object| object.call_method1(intern!(py, "notified"), (now.as_ps(),)).map(drop));
        }
    }
    fn lost(&mut self, now: Time, loss: cc::Loss) {
        let loss = match loss {
            cc::Loss::Trimmed => "trimmed",
            cc::Loss::Gap => "gap",
            cc::Loss::Timeout => "timeout",
        };
        if self.hears.lost {
            self.tell(|py, object| object.call_method1(intern!(py, "lost"), (now.as_ps(), loss)).map(drop));
        }
    }
    fn wakes(&self) -> Option<Time> {
        self.wakes
    }
    fn wake(&mut self, now: Time) {
        // Whoever does not ask again is not woken again.
        self.wakes = None;
        if self.hears.wake {
            self.tell(|py, object| object.call_method1(intern!(py, "wake"), (now.as_ps(),)).map(drop));
        }
    }
}

/// A choice of paths that `choose` makes: a callable that gives a place in [`Choice::options`].
pub fn routing(choose: Py<PyAny>, trouble: Trouble) -> RoutePrototype {
    RoutePrototype::new(move |choice| {
        if trouble.is_there() {
            return choice.usual;
        }
        let chosen = Python::attach(|py| {
            let told = Choice {
                switch: choice.at.0,
                destination: choice.head.dest.0,
                entropy: choice.head.entropy,
                input: choice.head.input.0,
                now: choice.now.as_ps(),
                options: choice.options.iter().map(|hop| (hop.link.0, hop.vl)).collect(),
                queues: choice.queues.iter().map(|bytes| bytes.0).collect(),
                usual: choice.usual,
            };
            let place = choose.call1(py, (told,))?.extract::<usize>(py)?;
            if place >= choice.options.len() {
                let text = format!("option {place} of {}: give a place in `options`", choice.options.len());
                return Err(PyValueError::new_err(text));
            }
            Ok(place)
        });
        chosen.unwrap_or_else(|error| {
            trouble.note(error);
            choice.usual
        })
    })
}
