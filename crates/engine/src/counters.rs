//! What ports and adapters count, by the names under which InfiniBand and ethtool have it.
//!
//! Source: InfiniBand Architecture Specification volume 1, §16.1 (PortCounters); documentation of the counters of mlx5 adapters
//! (`ports/N/counters`, `ports/N/hw_counters`) and of their ethtool statistics.
//! Modelled: amounts since the start, and when they were counted, in bins of equal length, which may double as a run gets long.
//! Not modelled: counters that stop at their largest value, and those of events that the network here does not have.

use std::collections::BTreeMap;

use fabriscope_fabric::LinkId;
use fabriscope_units::{Span, Time};

/// Something that is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Counter {
    /// Bytes sent, between the delimiters of a packet (InfiniBand without VCRC) or from the addresses to the ICRC (Ethernet).
    XmitBytes,
    /// Bytes received, likewise.
    RcvBytes,
    /// Packets sent.
    XmitPackets,
    /// Packets received.
    RcvPackets,
    /// Bytes sent at a priority: a service level that has lanes of its own.
    XmitBytesAt(u8),
    /// Bytes received, likewise.
    RcvBytesAt(u8),
    /// Packets sent, likewise.
    XmitPacketsAt(u8),
    /// Packets received, likewise.
    RcvPacketsAt(u8),
    /// Time in which a packet was ready and nothing was sent, for want of credits or because of a pause (ps).
    XmitWait,
    /// Packets received damaged; they count nowhere else.
    RcvErrors,
    /// Packets received for which there was no room.
    RcvDiscards,
    /// Packets dropped because too many waited for the port, or because its link was down.
    XmitDiscards,
    /// Times at which the link went down.
    LinkDowned,
    /// Packets in which bits were wrong.
    SymbolErrors,
    /// Times at which the link was trained anew without going down: it lost lanes, or has them back.
    LinkRecoveries,
    /// Packets of a partition that the adapter behind the port has no part in, dropped before they were sent to it.
    XmitConstraints,
    /// The same, dropped as they came from it.
    RcvConstraints,
    /// Packets whose payload was cut off because too many waited for the port.
    Trims,
    /// Packets that got a mark of congestion as they waited for the port.
    XmitMarks,
    /// Pause frames sent that begin a pause or end one, by priority.
    TxPause(u8),
    /// The same received.
    RxPause(u8),
    /// Time in which the other end obeyed a pause, by priority (ps).
    TxPauseTime(u8),
    /// Time in which this end did (ps).
    RxPauseTime(u8),
    /// Packets that the adapter built.
    TxPackets,
    /// Payload in them (bytes).
    TxPayload,
    /// Packets that reached the adapter.
    RxPackets,
    /// Payload in them (bytes).
    RxPayload,
    /// Request packets sent again.
    Retransmissions,
    /// Payload in them (bytes).
    RetransmittedPayload,
    /// RDMA WRITE requests received.
    WriteRequests,
    /// RDMA READ requests received.
    ReadRequests,
    /// Atomic requests received.
    AtomicRequests,
    /// Requests that arrived before their turn: a packet was lost, or overtaken.
    OutOfSequence,
    /// Requests that arrived again.
    DuplicateRequest,
    /// "Receiver not ready" sent: no receive request was there.
    OutOfBuffer,
    /// NAKs received for a missing packet.
    PacketSeqErr,
    /// Answers received that show that those of an earlier READ or atomic are lost.
    ImpliedNakSeqErr,
    /// "Receiver not ready" received.
    RnrNakRetryErr,
    /// NAKs received for a key, range or permission.
    RemoteAccessErr,
    /// NAKs received for a request that makes no sense.
    RemoteInvalidRequest,
    /// Times an acknowledgement did not come in time.
    LocalAckTimeoutErr,
    /// Send requests that ended in error.
    ReqCqeError,
    /// Send requests flushed after an error.
    ReqCqeFlushError,
    /// Receive requests that ended in error.
    RespCqeError,
    /// Receive requests flushed after an error.
    RespCqeFlushError,
    /// Packets received with a mark of congestion.
    RcvMarks,
    /// Congestion notifications sent.
    CnpSent,
    /// Congestion notifications received.
    CnpHandled,
    /// Bytes sent for a job, like [`Counter::XmitBytes`].
    XmitBytesOf(u16),
    /// Time that packets of a job waited as [`Counter::XmitWait`] counts it (ps).
    XmitWaitOf(u16),
}

/// A port or an adapter. A port is known by the link that leaves it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CounterPlace {
    /// The port that this link leaves.
    Port(u32),
    /// The adapter, as an endpoint of the fabric.
    Adapter(u32),
}

impl CounterPlace {
    /// The port at the far end of a link: the one that the way back leaves.
    #[must_use]
    pub const fn far(link: u32) -> CounterPlace {
        CounterPlace::Port(LinkId(link).reverse().0)
    }
}

/// Everything that was counted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Counters {
    /// Length of a bin; `None` for one bin.
    pub every: Option<Span>,
    amounts: BTreeMap<(CounterPlace, Counter), Bins>,
}

/// Amounts by bin, in their order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Bins(Vec<(u32, u64)>);

impl Bins {
    fn add(&mut self, bin: u32, amount: u64) {
        match self.0.last_mut() {
            Some((last, sum)) if *last == bin => *sum += amount,
            Some((last, _)) if *last > bin => match self.0.binary_search_by_key(&bin, |(bin, _)| *bin) {
                Ok(at) => self.0[at].1 += amount,
                Err(at) => self.0.insert(at, (bin, amount)),
            },
            _ => self.0.push((bin, amount)),
        }
    }
    fn sum(&self) -> u64 {
        self.0.iter().map(|(_, amount)| amount).sum()
    }
}

impl Counters {
    /// Nothing counted yet, in bins of this length.
    #[must_use]
    pub fn new(every: Option<Span>) -> Counters {
        Counters { every: every.filter(|every| *every > Span::ZERO), amounts: BTreeMap::new() }
    }
    /// The bin of a time; the last one takes all that is later.
    #[must_use]
    pub fn bin(&self, time: Time) -> u32 {
        self.every.map_or(0, |every| u32::try_from(time.as_ps() / every.as_ps()).unwrap_or(u32::MAX))
    }
    /// Counts `amount` in a bin.
    pub fn add(&mut self, place: CounterPlace, counter: Counter, bin: u32, amount: u64) {
        self.amounts.entry((place, counter)).or_default().add(bin, amount);
    }
    /// Counts amounts in their bins.
    pub fn add_all(&mut self, place: CounterPlace, counter: Counter, amounts: impl IntoIterator<Item = (u32, u64)>) {
        let bins = self.amounts.entry((place, counter)).or_default();
        amounts.into_iter().for_each(|(bin, amount)| bins.add(bin, amount));
    }
    /// Makes bins twice as long: two become one.
    pub fn coarsen(&mut self) {
        self.every = self.every.map(|every| every + every);
        for bins in self.amounts.values_mut() {
            for (bin, amount) in std::mem::take(bins).0 {
                bins.add(bin / 2, amount);
            }
        }
    }
    /// Adds what another part of the run counted; the bins of both become those of whose are longer.
    pub fn absorb(&mut self, mut other: Counters) {
        while self.every.is_some() && self.every < other.every {
            self.coarsen();
        }
        while other.every.is_some() && other.every < self.every {
            other.coarsen();
        }
        for (key, bins) in other.amounts {
            let mine = self.amounts.entry(key).or_default();
            bins.0.into_iter().for_each(|(bin, amount)| mine.add(bin, amount));
        }
    }
    /// The amount at the end.
    #[must_use]
    pub fn total(&self, place: CounterPlace, counter: Counter) -> u64 {
        self.amounts.get(&(place, counter)).map_or(0, Bins::sum)
    }
    /// The amount of each of `bins` bins.
    #[must_use]
    pub fn over_time(&self, place: CounterPlace, counter: Counter, bins: u32) -> Vec<u64> {
        let mut all = vec![0; bins as usize];
        for (bin, amount) in self.amounts.get(&(place, counter)).into_iter().flat_map(|amounts| &amounts.0) {
            if let Some(place) = all.get_mut(*bin as usize) {
                *place += amount;
            }
        }
        all
    }
    /// Everything that was counted at a place.
    pub fn at(&self, place: CounterPlace) -> impl Iterator<Item = (Counter, u64)> {
        let all = self.amounts.range((place, Counter::XmitBytes)..).take_while(move |((other, _), _)| *other == place);
        all.map(|((_, counter), bins)| (*counter, bins.sum()))
    }
    /// The amount of all places together.
    #[must_use]
    pub fn sum(&self, counter: Counter) -> u64 {
        self.amounts.iter().filter(|((_, other), _)| *other == counter).map(|(_, bins)| bins.sum()).sum()
    }
    /// What was counted anywhere, by place.
    pub fn series(&self) -> impl Iterator<Item = Series<'_>> {
        self.amounts.iter().map(|((place, counter), bins)| Series { place: *place, counter: *counter, bins })
    }
    /// How many bins there are.
    #[must_use]
    pub fn bins(&self) -> u32 {
        self.amounts.values().filter_map(|bins| bins.0.last().map(|(bin, _)| *bin)).max().map_or(0, |last: u32| last.saturating_add(1))
    }
}

/// One counter of one place over time.
#[derive(Debug, Clone, Copy)]
pub struct Series<'a> {
    /// Where.
    pub place: CounterPlace,
    /// What.
    pub counter: Counter,
    bins: &'a Bins,
}

impl Series<'_> {
    /// The amounts counted in each bin where there was one.
    pub fn amounts(&self) -> impl Iterator<Item = (u32, u64)> {
        self.bins.0.iter().copied()
    }
    /// The amount since the start at the end of each of `bins` bins.
    pub fn cumulative(&self, bins: u32) -> impl Iterator<Item = u64> {
        let (mut sum, mut at) = (0, 0);
        (0..bins).map(move |bin| {
            if let Some((_, amount)) = self.bins.0.get(at).filter(|(own, _)| *own == bin) {
                (sum, at) = (sum + amount, at + 1);
            }
            sum
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_add_up_over_bins_and_parts() {
        let at = |counters: &Counters, ns| counters.bin(Time::ZERO + Span::from_ns(ns));
        let mut counters = Counters::new(Some(Span::from_ns(10)));
        let place = CounterPlace::Port(3);
        counters.add(place, Counter::XmitPackets, at(&counters, 5), 1);
        counters.add(place, Counter::XmitPackets, at(&counters, 35), 2);
        let mut other = Counters::new(Some(Span::from_ns(10)));
        other.add(place, Counter::XmitPackets, at(&other, 9), 1);
        other.add(place, Counter::XmitPackets, at(&other, 39), 1);
        counters.absorb(other);
        assert_eq!((counters.total(place, Counter::XmitPackets), counters.bins()), (5, 4));
        let series: Vec<u64> = counters.series().next().unwrap().cumulative(4).collect();
        assert_eq!(series, [2, 2, 2, 5]);
        assert_eq!(counters.total(CounterPlace::Adapter(3), Counter::XmitPackets), 0);
    }

    /// Bins that double: nothing is lost, and parts with unlike bins add up.
    #[test]
    fn longer_bins_hold_the_same() {
        let place = CounterPlace::Port(3);
        let mut counters = Counters::new(Some(Span::from_ns(10)));
        (0..7).for_each(|bin| counters.add(place, Counter::XmitPackets, bin, u64::from(bin) + 1));
        let mut coarse = Counters::new(Some(Span::from_ns(40)));
        coarse.add(place, Counter::XmitPackets, 1, 100);
        counters.absorb(coarse);
        // 1 + 2 + 3 + 4, then 5 + 6 + 7 + 100.
        let series: Vec<u64> = counters.series().next().unwrap().cumulative(2).collect();
        assert_eq!((series, counters.every), (vec![10, 128], Some(Span::from_ns(40))));
    }
}
