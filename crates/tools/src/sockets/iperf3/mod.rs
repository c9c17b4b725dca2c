//! `iperf3`: as many bytes as TCP takes, for a time; with `-u` datagrams at a rate ([`udp`]).
//!
//! Source: iperf 3.17: options, loop and output; each stream is a thread of its own.
//! Modelled: TCP, parallel streams, both directions one after the other (`-R`), buffers, segment size, congestion control,
//! reports at intervals; the core time of the programs (`-V`), all of it in the kernel, without interrupts, and what virtual switches took.
//! Not modelled: SCTP, pacing of TCP, zero-copy, JSON, the control connection.

mod switching;
mod udp;

use std::fmt::Write;
use std::sync::Arc;

use fabriscope_node::{Main, Process, ProgramError, Record, Socket, Ties};
use fabriscope_platform::Target;
use fabriscope_tcp::Algorithm;
use fabriscope_tcp::kernel::{LONGEST_DATAGRAM, SocketOptions};
use fabriscope_tool::arguments::Meaning::{Harmless, Refused, Usual};
use fabriscope_tool::arguments::{self, Given, Opt, Takes, opt};
use fabriscope_tool::{Placing, Point, Prepared, Rows, ToolOutput, UsageError};
use fabriscope_units::{Bytes, Span, Time};

use super::rendezvous::Rendezvous;
use super::{seconds, units};

pub(super) const OPTIONS: &[Opt] = &[
    opt('t', "time", Takes::Value("seconds"), Usual, "how long to send, also in decimals (default 0.1; the real tool's is 10)"),
    opt('n', "bytes", Takes::Value("bytes"), Usual, "how much to send instead (suffix K, M or G)"),
    opt('l', "length", Takes::Value("bytes"), Usual, "length of each write and read (default 128K), or of datagrams (default 1460)"),
    opt('P', "parallel", Takes::Value("streams"), Usual, "streams at the same time, a core each (default 1)"),
    opt('R', "reverse", Takes::Nothing, Usual, "the server sends"),
    opt('w', "window", Takes::Value("bytes"), Usual, "send and receive buffer (default: the kernel's)"),
    opt('M', "set-mss", Takes::Value("bytes"), Usual, "largest segment"),
    opt('N', "no-delay", Takes::Nothing, Usual, "short segments leave at once"),
    opt('C', "congestion", Takes::Value("reno|cubic|dctcp"), Usual, "congestion control"),
    opt('i', "interval", Takes::Value("seconds"), Usual, "time between reports, also in decimals (default 1; 0 for none)"),
    opt('O', "omit", Takes::Value("seconds"), Usual, "what is sent in this time at the start does not count"),
    opt('f', "format", Takes::Value("k|m|g|t"), Usual, "unit of the bit rates"),
    opt('p', "port", Takes::Value("port"), Usual, "port of the server (default 5201)"),
    opt('c', "client", Takes::Value("host"), Harmless("the second node is the server"), "server"),
    opt('4', "version4", Takes::Nothing, Harmless("addresses are of IPv4"), "IPv4 only"),
    opt('u', "udp", Takes::Nothing, Usual, "datagrams of UDP"),
    opt('b', "bitrate", Takes::Value("bit/s"), Usual, "rate of a stream of UDP (suffix K, M or G; default 1M; 0: as fast as a core can)"),
    opt('V', "verbose", Takes::Nothing, Usual, "what the programs took of their cores, too"),
    opt('h', "help", Takes::Nothing, Usual, "show this page"),
    opt('s', "server", Takes::Nothing, Refused("both ends are simulated; leave -s out"), ""),
    opt('Z', "zerocopy", Takes::Nothing, Refused("sendfile is not modelled; leave -Z out"), ""),
    opt('J', "json", Takes::Nothing, Refused("read the table; leave -J out"), ""),
    opt('\0', "bidir", Takes::Nothing, Refused("run once without and once with -R"), ""),
];

const NOTES: &str = "\nEvery packet is simulated: a second at 40 Gb/s takes minutes. 0.1 s are past the slow start.\n";

#[derive(Debug, Clone)]
struct Settings {
    time: Span,
    bytes: Option<u64>,
    length: u64,
    streams: u32,
    reverse: bool,
    options: SocketOptions,
    interval: Option<Span>,
    omit: Span,
    format: Option<usize>,
    port: u16,
    verbose: bool,
    udp: bool,
    /// Bits per second of a stream of UDP; 0: as fast as it goes.
    rate: Option<u64>,
}

/// What a stream did in one interval.
#[derive(Debug, Clone, Copy)]
struct Interval {
    begin: Span,
    end: Span,
    bytes: u64,
    /// Segments sent again; of UDP datagrams sent.
    retransmissions: u64,
    window: u64,
}

#[derive(Debug, Clone, Default)]
struct Stream {
    port: u16,
    intervals: Vec<Interval>,
    sent: u64,
    sent_in: Span,
    retransmissions: u64,
    received: u64,
    received_in: Span,
    /// What came of datagrams.
    datagrams: udp::Counted,
    /// The sender has sent its last datagram.
    finished: bool,
    /// Core time of the sender and the receiver, and how long they ran.
    cores: [(Span, Span); 2],
    /// What the virtual switches had taken at the start and at the end.
    switching: switching::Switched,
}

type Results = Record<Vec<Stream>>;

pub(super) fn prepare(args: &[String], _: &Target) -> Result<Prepared, UsageError> {
    let settings = Arc::new(parse(args)?);
    let streams = settings.streams;
    let results: Results = Record::new(vec![Stream::default(); streams as usize]);
    let meeting = Rendezvous::default();
    let main = |rank: u32| -> Main {
        let (settings, results, meeting) = (settings.clone(), results.clone(), meeting.clone());
        let (stream, client) = ((rank % streams) as usize, rank < streams);
        if settings.udp {
            return Box::new(move |process| {
                Box::pin(async move {
                    let server = meeting.find(&process, settings.port.wrapping_add(stream as u16), client).await?;
                    udp::run(process, settings, results, stream, client, server).await
                })
            });
        }
        Box::new(move |process| Box::pin(run(process, settings, meeting, results, stream, client)))
    };
    let mains = (0..2 * streams).map(main).collect();
    let finish = move || match settings.udp {
        true => udp::report(&settings, &results.lock()),
        false => report(&settings, &results.lock()),
    };
    Ok(Prepared { placing: Placing::Pairs { pairs: streams }, mains, ties: Ties::Any, finish: Box::new(finish), rows: Rows::default() })
}

fn parse(args: &[String]) -> Result<Settings, UsageError> {
    const TOOL: &str = "iperf3";
    let parsed = arguments::parse(TOOL, OPTIONS, args)?;
    parsed.no_operands(TOOL)?;
    let mut s = Settings {
        time: Span::from_us(100_000),
        bytes: None,
        length: 128 << 10,
        streams: 1,
        reverse: false,
        options: SocketOptions::default(),
        interval: Some(Span::from_us(1_000_000)),
        omit: Span::ZERO,
        format: None,
        port: 5201,
        verbose: false,
        udp: false,
        rate: None,
    };
    for given in &parsed.options {
        s.apply(given)?;
    }
    let given = |name: &str| parsed.options.iter().find(|given| given.name == name);
    if s.udp {
        for (name, why) in
            [("congestion", "UDP has no congestion control"), ("set-mss", "UDP has no segments"), ("omit", "nothing warms up")]
        {
            if let Some(given) = given(name) {
                return Err(UsageError::Conflict {
                    what: format!("-u with {}: {why}", given.typed),
                    remedy: "leave one of them out".into(),
                });
            }
        }
        s.length = match given("length") {
            Some(given) => arguments::size(&given.typed, given.value.as_deref().unwrap_or_default(), 16, LONGEST_DATAGRAM.into())?,
            None => 1460,
        };
    } else if s.rate.is_some() {
        return Err(UsageError::Conflict { what: "-b without -u".into(), remedy: "add -u, or leave -b out: TCP is not paced here".into() });
    }
    Ok(s)
}

impl Settings {
    fn apply(&mut self, given: &Given) -> Result<(), UsageError> {
        let text = given.value.as_deref().unwrap_or_default();
        let size = |low, high| arguments::size(&given.typed, text, low, high);
        let one_of = |known| UsageError::NotOneOf { option: given.typed.clone(), value: text.to_owned(), known };
        match given.name {
            "time" => self.time = seconds(&given.typed, text, MOST_SECONDS)?,
            "bytes" => self.bytes = Some(size(1, 1 << 40)?),
            "length" => self.length = size(1, 1 << 20)?,
            "parallel" => self.streams = arguments::number(given, 1, 128)? as u32,
            "reverse" => self.reverse = true,
            "window" => self.options.buffers = Some(Bytes(size(4096, 512 << 20)?)),
            "set-mss" => self.options.mss = Some(size(88, 65_468)? as u32),
            "no-delay" => self.options.no_delay = true,
            "congestion" => self.options.algorithm = Some(Algorithm::by_name(text).ok_or_else(|| one_of("reno, cubic, dctcp"))?),
            "interval" if text == "0" => self.interval = None,
            "interval" => self.interval = Some(seconds(&given.typed, text, MOST_SECONDS)?),
            "omit" => self.omit = seconds(&given.typed, text, MOST_SECONDS)?,
            "format" => {
                let known = ["k", "m", "g", "t"];
                let at = known.iter().position(|unit| unit.eq_ignore_ascii_case(text));
                self.format = Some(at.ok_or_else(|| one_of("k, m, g, t"))? + 1);
            }
            "verbose" => self.verbose = true,
            "udp" => self.udp = true,
            "bitrate" if text == "0" => self.rate = Some(0),
            "bitrate" => self.rate = Some(bits(given)?),
            "port" => self.port = arguments::number(given, 1, 65_535)? as u16,
            "help" => {
                let text = arguments::help("iperf3", super::SocketTool::Iperf3.about(), OPTIONS, NOTES);
                return Err(UsageError::Help { text });
            }
            _ => {}
        }
        Ok(())
    }
}

/// Bits per second with the program's suffixes, which are of 1000 here.
fn bits(given: &Given) -> Result<u64, UsageError> {
    let text = given.value.as_deref().unwrap_or_default();
    let (digits, factor) = match text.char_indices().last() {
        Some((at, 'k' | 'K')) => (&text[..at], 1e3),
        Some((at, 'm' | 'M')) => (&text[..at], 1e6),
        Some((at, 'g' | 'G')) => (&text[..at], 1e9),
        _ => (text, 1.0),
    };
    match digits.parse::<f64>() {
        Ok(value) if value * factor >= 1.0 && value * factor <= 1e13 => Ok((value * factor) as u64),
        Ok(_) => {
            let what = format!("{} {text} is out of range", given.typed);
            Err(UsageError::Conflict { what, remedy: "give bits per second from 1 to 10000G, or 0 for as fast as it goes".into() })
        }
        Err(_) => Err(UsageError::NotANumber { option: given.typed.clone(), value: text.to_owned() }),
    }
}

/// One end of one stream.
async fn run(
    process: Process,
    settings: Arc<Settings>,
    meeting: Rendezvous,
    results: Results,
    stream: usize,
    client: bool,
) -> Result<(), ProgramError> {
    let port = settings.port.wrapping_add(stream as u16);
    let socket = match client {
        true => meeting.call(&process, port, settings.options).await?,
        false => meeting.serve(&process, port, settings.options).await?,
    };
    if client {
        results.lock()[stream].port = process.socket_view(socket)?.port;
    }
    let (start, before, switched) = (process.now(), process.core_time(), process.switching(0)?);
    let sender = client != settings.reverse;
    if sender {
        send(&process, &settings, &results, stream, socket, start).await?;
    } else {
        receive(&process, &settings, &results, stream, socket, start).await?;
    }
    let after = process.switching(0)?;
    let own = &mut results.lock()[stream];
    own.cores[usize::from(!sender)] = (process.core_time() - before, process.now().since(start));
    own.switching[usize::from(!sender)] = switched.zip(after);
    Ok(())
}

async fn send(process: &Process, s: &Settings, results: &Results, stream: usize, socket: Socket, start: Time) -> Result<(), ProgramError> {
    let from = start + s.omit;
    let end = from + s.time;
    let goal = s.bytes.unwrap_or(u64::MAX);
    let (mut sent, mut lost, mut counts) = (0u64, 0u64, s.omit == Span::ZERO);
    let (mut mark, mut bytes, mut before) = (from, 0u64, 0u64);
    loop {
        let now = process.now();
        if !counts && now >= from {
            // What was sent before does not count.
            lost = process.socket_view(socket)?.retransmissions;
            (sent, mark, bytes, before, counts) = (0, now, 0, lost, true);
        }
        let over = (counts && sent >= goal) || (s.bytes.is_none() && now >= end);
        if counts && (over || s.interval.is_some_and(|interval| now >= mark + interval)) {
            let view = process.socket_view(socket)?;
            let retransmissions = view.retransmissions - before;
            let (begin, end) = (mark.since(from), now.since(from));
            results.lock()[stream].intervals.push(Interval { begin, end, bytes, retransmissions, window: view.window.0 });
            (mark, bytes, before) = (now, 0, view.retransmissions);
        }
        if over {
            let view = process.socket_view(socket)?;
            let own = &mut results.lock()[stream];
            (own.sent, own.sent_in, own.retransmissions) = (sent, now.since(from), view.retransmissions - lost);
            break;
        }
        let length = s.length.min(goal - sent);
        process.write(socket, length).await?;
        sent += length;
        bytes += length;
    }
    Ok(process.shut_down(socket)?)
}

async fn receive(
    process: &Process,
    s: &Settings,
    results: &Results,
    stream: usize,
    socket: Socket,
    start: Time,
) -> Result<(), ProgramError> {
    let from = start + s.omit;
    let mut received = 0;
    loop {
        let read = process.read(socket, s.length).await?;
        if read == 0 {
            break;
        }
        if process.now() >= from {
            received += read;
        }
        // At the end of the stream there is one more read, which is not part of the time.
        let own = &mut results.lock()[stream];
        (own.received, own.received_in) = (received, process.now().since(from));
    }
    Ok(())
}

fn report(s: &Settings, streams: &[Stream]) -> ToolOutput {
    let mut text = opening(s, streams);
    text += "[ ID] Interval           Transfer     Bitrate         Retr  Cwnd\n";
    let rate = |bytes: u64, span: Span| rate(s, bytes, span);
    let rounds = streams.iter().map(|own| own.intervals.len()).max().unwrap_or(0);
    for round in 0..rounds {
        let mut sum = (0, 0, Span::ZERO, Span::ZERO);
        for (stream, own) in streams.iter().enumerate() {
            let Some(interval) = own.intervals.get(round) else { continue };
            let Interval { begin, end, bytes, retransmissions, window } = *interval;
            let (transfer, window) = (units::bytes(bytes as f64), units::bytes(window as f64));
            let _ = writeln!(
                text,
                "[{:3}] {}  {transfer}s  {}s/sec  {retransmissions:3}   {window}s       ",
                id(stream),
                times(begin, end),
                rate(bytes, end - begin)
            );
            sum = (sum.0 + bytes, sum.1 + retransmissions, begin, sum.3.max(end));
        }
        if streams.len() > 1 {
            let (transfer, bits) = (units::bytes(sum.0 as f64), rate(sum.0, sum.3.saturating_sub(sum.2)));
            let _ = writeln!(text, "[SUM] {}  {transfer}s  {bits}s/sec  {:3}             ", times(sum.2, sum.3), sum.1);
        }
    }
    text += "- - - - - - - - - - - - - - - - - - - - - - - - -\n";
    text += "[ ID] Interval           Transfer     Bitrate         Retr\n";
    let mut total = Stream::default();
    let mut line = |name: String, own: &Stream| {
        let (sent, received) = (units::bytes(own.sent as f64), units::bytes(own.received as f64));
        let (out, into) = (rate(own.sent, own.sent_in), rate(own.received, own.received_in));
        let _ = writeln!(
            text,
            "[{name}] {}  {sent}s  {out}s/sec  {:3}             sender",
            times(Span::ZERO, own.sent_in),
            own.retransmissions
        );
        let _ = writeln!(text, "[{name}] {}  {received}s  {into}s/sec                  receiver", times(Span::ZERO, own.received_in));
    };
    for (stream, own) in streams.iter().enumerate() {
        line(format!("{:3}", id(stream)), own);
        total.sent += own.sent;
        total.received += own.received;
        total.retransmissions += own.retransmissions;
        total.sent_in = total.sent_in.max(own.sent_in);
        total.received_in = total.received_in.max(own.received_in);
    }
    if streams.len() > 1 {
        line("SUM".to_owned(), &total);
    }
    let used = cores(s, streams);
    text += &used.0;
    text += "\niperf Done.\n";
    let seconds = total.received_in.as_s_f64().max(f64::MIN_POSITIVE);
    let point = |metric, unit, value| Point { size: Bytes(s.length), metric, unit, value };
    let mut points = vec![
        point("bandwidth", "Gb/s", total.received as f64 * 8.0 / seconds / 1e9),
        point("retransmissions", "", total.retransmissions as f64),
    ];
    points.extend(used.1.into_iter().map(|(metric, value)| point(metric, "%", value)));
    ToolOutput { text, points, ..ToolOutput::default() }
}

/// The lines before the first interval.
fn opening(s: &Settings, streams: &[Stream]) -> String {
    let mut text = format!("Connecting to host {SERVER}, port {}\n", s.port);
    if s.reverse {
        text += &format!("Reverse mode, remote host {SERVER} is sending\n");
    }
    for (stream, own) in streams.iter().enumerate() {
        text += &format!("[{:3}] local {CLIENT} port {} connected to {SERVER} port {}\n", id(stream), own.port, s.port);
    }
    text
}

/// The number that the program gives a stream: that of its socket.
const fn id(stream: usize) -> usize {
    5 + 2 * stream
}

/// Bits of so many bytes in a time, in the unit that is asked for.
fn rate(s: &Settings, bytes: u64, span: Span) -> String {
    let bits = if span == Span::ZERO { 0.0 } else { bytes as f64 * 8.0 / span.as_s_f64() };
    s.format.map_or_else(|| units::bits(bits), |power| units::bits_in(bits, power))
}

fn times(begin: Span, end: Span) -> String {
    format!("{:6.2}-{:<6.2} sec", begin.as_s_f64(), end.as_s_f64())
}

/// What is said of cores where that is asked for, and its numbers in per cent of one core.
fn cores(s: &Settings, streams: &[Stream]) -> (String, Vec<(&'static str, f64)>) {
    if !s.verbose {
        return (String::new(), Vec::new());
    }
    let (sender, receiver, mut text) = utilisation(s, streams);
    let mut values = vec![("cpu_sender", sender), ("cpu_receiver", receiver)];
    if let Some((host, adapter, line)) = switching::utilisation(s, streams) {
        text += &line;
        values.extend([("switch_host_sender", host[0]), ("switch_host_receiver", host[1])]);
        values.extend([("switch_adapter_sender", adapter[0]), ("switch_adapter_receiver", adapter[1])]);
    }
    (text, values)
}

/// What senders and receivers took of their cores, in per cent, and the line that says so.
fn utilisation(s: &Settings, streams: &[Stream]) -> (f64, f64, String) {
    let load = |side: usize| {
        let core: Span = streams.iter().map(|own| own.cores[side].0).sum();
        let longest = streams.iter().map(|own| own.cores[side].1).max().unwrap_or(Span::ZERO);
        100.0 * core.as_s_f64() / longest.as_s_f64().max(f64::MIN_POSITIVE)
    };
    let (sender, receiver) = (load(0), load(1));
    let side = |place: &str, name: &str, load: f64| format!("{place}/{name} {load:.1}% (0.0%u/{load:.1}%s)");
    let (local, remote) = match s.reverse {
        false => (side("local", "sender", sender), side("remote", "receiver", receiver)),
        true => (side("local", "receiver", receiver), side("remote", "sender", sender)),
    };
    (sender, receiver, format!("CPU Utilization: {local}, {remote}\n"))
}

const CLIENT: &str = "10.0.0.1";
const SERVER: &str = "10.0.0.2";
/// A day.
const MOST_SECONDS: f64 = 86_400.0;

#[cfg(test)]
mod tests {
    use fabriscope_units::Remedy;

    use super::*;

    #[test]
    fn options_are_those_of_the_tool() {
        let parse = |line: &str| super::parse(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>());
        let s = parse("-c 10.0.0.2 -t 0.5 -P 4 -w 1M -N -C reno -R -i 0.1 -f g").unwrap();
        assert_eq!((s.time, s.streams, s.reverse, s.format), (Span::from_us(500_000), 4, true, Some(3)));
        assert_eq!((s.options.buffers, s.options.algorithm), (Some(Bytes(1 << 20)), Some(Algorithm::NewReno)));
        let s = parse("-u -b 2.5G -l 8K").unwrap();
        assert_eq!((s.udp, s.rate, s.length), (true, Some(2_500_000_000), 8192));
        assert_eq!((parse("-u").unwrap().length, parse("-u -b 0").unwrap().rate), (1460, Some(0)));
        for (line, part) in [
            ("-w 0", "range"),
            ("-b 1G", "-u"),
            ("-u -C reno", "congestion"),
            ("-u -l 70000", "65507"),
            ("-u -b fast", "number"),
            ("-C vegas", "reno, cubic, dctcp"),
            ("-t 0", "seconds above 0"),
            ("-P 1000", "128"),
            ("-M 20", "88"),
            ("-f x", "k, m, g, t"),
            ("somewhere", "leave it out"),
        ] {
            let message = parse(line).unwrap_err().in_full();
            assert!(message.contains(part), "{line}: {message}");
        }
    }
}
