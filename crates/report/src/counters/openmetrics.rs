//! Counters as OpenMetrics text, for Prometheus and Grafana.
//!
//! Source: OpenMetrics 1.0; metric names of node_exporter where it has them, so that dashboards made for real machines work.
//! Modelled: counters with the time of each value. A time-series database keeps milliseconds at best, so a simulated
//! microsecond is written as a second; the help text of each metric says so.
//! Not modelled: exemplars, creation times.

use std::collections::BTreeMap;
use std::io::{self, Write};

use fabriscope_engine::Counter;

use super::{Reading, Readings, Site, Unit};

impl Readings {
    /// Writes all counters.
    ///
    /// # Errors
    /// What `writer` says.
    pub fn openmetrics<W: Write + ?Sized>(&self, writer: &mut W) -> io::Result<()> {
        // All series of a metric stand together.
        let mut metrics: BTreeMap<&str, Vec<&Reading>> = BTreeMap::new();
        for reading in &self.all {
            metrics.entry(&reading.metric).or_default().push(reading);
        }
        for (metric, readings) in metrics {
            let unit = base(readings[0].unit);
            writeln!(writer, "# TYPE {metric} counter")?;
            if metric.ends_with("_bytes") {
                writeln!(writer, "# UNIT {metric} bytes")?;
            }
            let scale = if self.every.is_some() { " A second is a simulated microsecond." } else { "" };
            writeln!(writer, "# HELP {metric} {}{}{scale}", help(readings[0].counter), of(unit))?;
            for reading in readings {
                let labels = labels(&reading.site, reading.job.as_deref());
                for (time, value) in self.times().zip(reading.values(self.intervals, unit)) {
                    write!(writer, "{metric}_total{labels} {value}")?;
                    if self.every.is_some() {
                        write!(writer, " {}.{:06}", time / 1_000_000, time % 1_000_000)?;
                    }
                    writeln!(writer)?;
                }
            }
        }
        if self.rates {
            self.link_rates(writer)?;
        }
        writeln!(writer, "# EOF")
    }

    /// What the link of each port that sent anything carries, beside what it carried.
    fn link_rates<W: Write + ?Sized>(&self, writer: &mut W) -> io::Result<()> {
        let (span, seconds) = if self.every.is_some() { ("simulated microsecond", 1e-6) } else { ("second", 1.0) };
        writeln!(
            writer,
            "# TYPE {LINK_RATE} gauge\n# UNIT {LINK_RATE} bytes\n# HELP {LINK_RATE} Bytes that the link carries in a {span}."
        )?;
        for reading in self.all.iter().filter(|reading| reading.counter == Counter::XmitBytes && !reading.doubles) {
            let (labels, value) = (labels(&reading.site, None), reading.site.rate as f64 / 8.0 * seconds);
            for time in self.times() {
                write!(writer, "{LINK_RATE}{labels} {value}")?;
                if self.every.is_some() {
                    write!(writer, " {}.{:06}", time / 1_000_000, time % 1_000_000)?;
                }
                writeln!(writer)?;
            }
        }
        Ok(())
    }
}

/// The metric of what links carry.
const LINK_RATE: &str = "fabriscope_link_rate_bytes";

/// Prometheus has bytes, not words.
const fn base(unit: Unit) -> Unit {
    match unit {
        Unit::Words | Unit::Flits => Unit::Bytes,
        other => other,
    }
}

const fn of(unit: Unit) -> &'static str {
    match unit {
        Unit::Count | Unit::Bytes | Unit::Words | Unit::Flits => "",
        Unit::FlitTimes => " In times of a flit.",
        Unit::Nanoseconds => " In nanoseconds.",
        Unit::Microseconds => " In microseconds.",
    }
}

fn help(counter: Counter) -> &'static str {
    match counter {
        Counter::XmitBytes | Counter::XmitBytesAt(_) => "Bytes sent on the port.",
        Counter::RcvBytes | Counter::RcvBytesAt(_) => "Bytes received on the port.",
        Counter::XmitPackets | Counter::XmitPacketsAt(_) => "Packets sent on the port.",
        Counter::RcvPackets | Counter::RcvPacketsAt(_) => "Packets received on the port.",
        Counter::XmitWait => "Time in which a packet was ready but could not be sent, for want of credits or because of a pause.",
        Counter::RcvErrors => "Packets received damaged.",
        Counter::RcvDiscards => "Packets received for which there was no room.",
        Counter::XmitDiscards => "Packets dropped because too many waited for the port, or its link was down.",
        Counter::LinkDowned => "Times at which the link went down.",
        Counter::SymbolErrors => "Packets received in which bits were wrong.",
        Counter::LinkRecoveries => "Times at which the link was trained anew without going down.",
        Counter::XmitConstraints => "Packets of another partition dropped before they were sent.",
        Counter::RcvConstraints => "Packets of another partition dropped as they were received.",
        Counter::Trims => "Packets whose payload was cut off because too many waited for the port.",
        Counter::XmitMarks => "Packets that got a mark of congestion as they waited for the port.",
        Counter::TxPause(_) => "Pause frames sent.",
        Counter::RxPause(_) => "Pause frames received.",
        Counter::TxPauseTime(_) => "Time in which the other end obeyed a pause.",
        Counter::RxPauseTime(_) => "Time in which a pause was obeyed.",
        Counter::TxPackets => "Packets that the adapter sent.",
        Counter::TxPayload => "Payload that the adapter sent.",
        Counter::RxPackets => "Packets that the adapter received.",
        Counter::RxPayload => "Payload that the adapter received.",
        Counter::Retransmissions => "Packets sent again.",
        Counter::RetransmittedPayload => "Payload sent again.",
        Counter::WriteRequests => "WRITE requests received.",
        Counter::ReadRequests => "READ requests received.",
        Counter::AtomicRequests => "Atomic requests received.",
        Counter::OutOfSequence => "Requests received before their turn.",
        Counter::DuplicateRequest => "Requests received again.",
        Counter::OutOfBuffer => "Requests refused because no receive was posted.",
        Counter::PacketSeqErr => "NAKs received for a missing packet.",
        Counter::ImpliedNakSeqErr => "Answers received that show that earlier ones are lost.",
        Counter::RnrNakRetryErr => "Answers received that the receiver was not ready.",
        Counter::RemoteAccessErr => "NAKs received for a key, range or permission.",
        Counter::RemoteInvalidRequest => "NAKs received for an invalid request.",
        Counter::LocalAckTimeoutErr => "Acknowledgements that did not come in time.",
        Counter::ReqCqeError => "Send requests that ended in error.",
        Counter::ReqCqeFlushError => "Send requests flushed after an error.",
        Counter::RespCqeError => "Receive requests that ended in error.",
        Counter::RespCqeFlushError => "Receive requests flushed after an error.",
        Counter::RcvMarks => "Packets received with a mark of congestion.",
        Counter::CnpSent => "Congestion notifications sent.",
        Counter::CnpHandled => "Congestion notifications received.",
        Counter::XmitBytesOf(_) => "Bytes sent on the port for a job.",
        Counter::XmitWaitOf(_) => "Time in which packets of a job were ready at the port but could not be sent.",
    }
}

fn labels(site: &Site, job: Option<&str>) -> String {
    let quoted = |text: &str| text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
    let pairs = [("instance", &site.instance), ("device", &site.device), ("port", &site.port)];
    let pairs = pairs.iter().filter(|(_, value)| !value.is_empty()).map(|(key, value)| format!("{key}=\"{}\"", quoted(value)));
    let pairs = job.map(|job| format!("job_name=\"{}\"", quoted(job))).into_iter().chain(pairs);
    format!("{{{}}}", pairs.collect::<Vec<_>>().join(","))
}
