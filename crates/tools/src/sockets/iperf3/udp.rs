//! `iperf3 -u`: datagrams at a rate, and how many of them come.
//!
//! Source: iperf 3.17: options, loop and output; RFC 1889 §6.3.1 (jitter).
//! Modelled: a rate per stream (`-b`, 1 Mb/s where none is asked for, 0 for as fast as the core can), kept datagram by datagram; the time of
//! sending in each datagram, from which the server has the jitter; what is lost; reports at intervals.
//! Not modelled: bursts (`-b rate/burst`), datagrams out of order told apart; the clocks of both ends differ in reality, which the jitter does not see.

use std::fmt::Write;
use std::sync::Arc;

use fabriscope_node::{DatagramSocket, Process, ProgramError};
use fabriscope_tool::{Point, ToolOutput};
use fabriscope_units::{Bytes, Span, Time};
use fabriscope_verbs::{AppWords, Lid};

use super::super::units;
use super::{Interval, Results, Settings, Stream, cores, id, opening, rate, times};

/// What the server found of a stream.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Counted {
    /// Datagrams sent, and those that came.
    pub sent: u64,
    pub came: u64,
    /// Mean deviation of the time on the way, smoothed.
    pub jitter: Span,
}

/// One end of one stream; `server` is where the other one listens.
pub(super) async fn run(
    process: Process,
    settings: Arc<Settings>,
    results: Results,
    stream: usize,
    client: bool,
    server: Lid,
) -> Result<(), ProgramError> {
    let port = settings.port.wrapping_add(stream as u16);
    let sends = client != settings.reverse;
    let socket = process.bind(0, if client { None } else { Some(port) }, settings.options.buffers)?;
    process.barrier().await;
    let mut peer = (server, port);
    // The client says where it is with its first datagram.
    if client {
        results.lock()[stream].port = process.datagram_port(socket)?;
        process.send_to(socket, peer, HELLO, None).await?;
    } else if let Some(hello) = process.receive_from(socket, Time::MAX).await? {
        peer = (Lid(hello.from), hello.port);
    }
    process.barrier().await;
    let (start, before, switched) = (process.now(), process.core_time(), process.switching(0)?);
    if sends {
        let gap = match settings.rate {
            Some(0) => Span::ZERO,
            rate => Span::from_ps((8_000_000_000_000_u128 * u128::from(settings.length) / u128::from(rate.unwrap_or(USUAL_RATE))) as u64),
        };
        let end = start + settings.time;
        let (mut sent, mut bytes, mut due) = (0, 0, start);
        let (mut mark, mut since) = (start, (0, 0));
        loop {
            let now = process.now();
            let over = settings.bytes.map_or(now >= end, |goal| bytes >= goal);
            if over || settings.interval.is_some_and(|interval| now >= mark + interval) {
                let (begin, end) = (mark.since(start), now.since(start));
                let interval = Interval { begin, end, bytes: bytes - since.0, retransmissions: sent - since.1, window: 0 };
                results.lock()[stream].intervals.push(interval);
                (mark, since) = (now, (bytes, sent));
            }
            if over {
                break;
            }
            sent += 1;
            let words = AppWords([now.as_ps(), 0, 0, 0]);
            process.send_to(socket, peer, settings.length as u32, Some(words)).await?;
            bytes += settings.length;
            due += gap;
            if due > process.now() {
                process.sleep_until(due).await;
            }
        }
        let own = &mut results.lock()[stream];
        (own.sent, own.sent_in, own.datagrams.sent) = (bytes, process.now().since(start), sent);
        own.finished = true;
    } else {
        receive(&process, &results, stream, socket, start).await?;
    }
    let after = process.switching(0)?;
    let own = &mut results.lock()[stream];
    own.cores[usize::from(!sends)] = (process.core_time() - before, process.now().since(start));
    own.switching[usize::from(!sends)] = switched.zip(after);
    Ok(())
}

async fn receive(process: &Process, results: &Results, stream: usize, socket: DatagramSocket, start: Time) -> Result<(), ProgramError> {
    let mut transit = None;
    let mut counted = Counted::default();
    let mut bytes = 0;
    loop {
        let Some(message) = process.receive_from(socket, process.now() + PATIENCE).await? else {
            if results.lock()[stream].finished {
                break;
            }
            continue;
        };
        let Some(AppWords([at, ..])) = message.words else { continue };
        counted.came += 1;
        bytes += u64::from(message.bytes);
        let now = process.now().as_ps().saturating_sub(at);
        if let Some(before) = transit.replace(now) {
            let deviation = i128::from(now.abs_diff(before)) - i128::from(counted.jitter.as_ps());
            counted.jitter = Span::from_ps((i128::from(counted.jitter.as_ps()) + deviation / 16).max(0) as u64);
        }
        let own = &mut results.lock()[stream];
        (own.received, own.received_in) = (bytes, process.now().since(start));
        own.datagrams = Counted { sent: own.datagrams.sent, ..counted };
    }
    Ok(())
}

pub(super) fn report(s: &Settings, streams: &[Stream]) -> ToolOutput {
    let mut text = opening(s, streams);
    text += "[ ID] Interval           Transfer     Bitrate         Total Datagrams\n";
    let rate = |bytes: u64, span: Span| rate(s, bytes, span);
    let rounds = streams.iter().map(|own| own.intervals.len()).max().unwrap_or(0);
    for round in 0..rounds {
        for (stream, own) in streams.iter().enumerate() {
            let Some(Interval { begin, end, bytes, retransmissions, .. }) = own.intervals.get(round).copied() else { continue };
            let (transfer, bits) = (units::bytes(bytes as f64), rate(bytes, end - begin));
            let _ = writeln!(text, "[{:3}] {}  {transfer}s  {bits}s/sec  {retransmissions}  ", id(stream), times(begin, end));
        }
    }
    text += "- - - - - - - - - - - - - - - - - - - - - - - - -\n";
    text += "[ ID] Interval           Transfer     Bitrate         Jitter    Lost/Total Datagrams\n";
    let share = |lost: u64, all: u64| {
        let percent = 100.0 * lost as f64 / all.max(1) as f64;
        // As printf's %.2g writes it.
        if percent == 0.0 || percent >= 10.0 { format!("{percent:.0}") } else { format!("{percent:.2}") }
    };
    let mut total = Stream::default();
    let mut line = |name: String, own: &Stream| {
        let Counted { sent, came, jitter, .. } = own.datagrams;
        let (out, into) = (units::bytes(own.sent as f64), units::bytes(own.received as f64));
        let (out_rate, in_rate) = (rate(own.sent, own.sent_in), rate(own.received, own.received_in));
        let _ = writeln!(text, "[{name}] {}  {out}s  {out_rate}s/sec  0.000 ms  0/{sent} (0%)  sender", times(Span::ZERO, own.sent_in));
        let lost = sent.saturating_sub(came);
        let _ = writeln!(
            text,
            "[{name}] {}  {into}s  {in_rate}s/sec  {:.3} ms  {lost}/{sent} ({}%)  receiver",
            times(Span::ZERO, own.received_in),
            jitter.as_us_f64() / 1e3,
            share(lost, sent),
        );
    };
    for (stream, own) in streams.iter().enumerate() {
        line(format!("{:3}", id(stream)), own);
        total.sent += own.sent;
        total.received += own.received;
        total.sent_in = total.sent_in.max(own.sent_in);
        total.received_in = total.received_in.max(own.received_in);
        total.datagrams.sent += own.datagrams.sent;
        total.datagrams.came += own.datagrams.came;
        total.datagrams.jitter = total.datagrams.jitter.max(own.datagrams.jitter);
    }
    if streams.len() > 1 {
        line("SUM".to_owned(), &total);
    }
    let used = cores(s, streams);
    text += &used.0;
    text += "\niperf Done.\n";
    let seconds = total.received_in.as_s_f64().max(f64::MIN_POSITIVE);
    let point = |metric, unit, value| Point { size: Bytes(s.length), metric, unit, value };
    let Counted { sent, came, .. } = total.datagrams;
    let lost = 100.0 * sent.saturating_sub(came) as f64 / sent.max(1) as f64;
    let mut points = vec![point("bandwidth", "Gb/s", total.received as f64 * 8.0 / seconds / 1e9), point("lost", "%", lost)];
    points.extend(used.1.into_iter().map(|(metric, value)| point(metric, "%", value)));
    ToolOutput { text, points, ..ToolOutput::default() }
}

/// Bytes of the datagram by which a client says where it is. Basis: published (iperf 3, iperf_udp_connect).
const HELLO: u32 = 4;
/// Bits per second where no rate is asked for. Basis: published (iperf 3, UDP_RATE).
const USUAL_RATE: u64 = 1 << 20;
/// How long the server waits for what may still be on its way. Basis: assumed.
const PATIENCE: Span = Span::from_us(1000);
