//! A link inside a node or between its accelerators: from GPU to GPU, from processor to GPU, from socket to socket, to memory.
//!
//! Source: the parts say it for each.
//! Modelled: the raw rate of one link each way, what is on it beside data, as shares or transaction by transaction in flits or frames, what
//! requests of reads and answers to writes take of the other direction, the latency of one crossing, a rate that credits allow.
//! Not modelled: replay and power states of the link, flits that are not full; how the protocol keeps caches the same.

use fabriscope_machine::{Framing, Tlp};
use fabriscope_units::{Bytes, Rate, Ratio, Span};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{CxlFlit, CxlLink, Kind, Part};
use crate::error::Problem;
use crate::sourced::Sourced;

/// What kind of link it is: what it may join, and how it is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum InterconnectKind {
    /// NVLink between GPUs and to NVSwitches.
    #[serde(rename = "nvlink")]
    NvLink,
    /// NVLink-C2C between processor and GPU.
    C2c,
    /// xGMI between GPUs, and between processor and GPU.
    Xgmi,
    /// Xe Link between GPUs.
    XeLink,
    /// Between sockets: QPI, UPI, HyperTransport, Infinity Fabric.
    Smp,
    /// UALink between accelerators.
    #[serde(rename = "ualink")]
    UaLink,
    /// Scale-Up Ethernet between accelerators.
    Sue,
    /// CXL to memory.
    Cxl,
    /// Between neighbours on a wafer.
    WaferMesh,
    /// RoCE engines on the accelerator.
    Ethernet,
    /// From block to block of one chip.
    Die,
}

impl InterconnectKind {
    /// What one of them is called in a sentence.
    pub const fn noun(self) -> &'static str {
        match self {
            InterconnectKind::NvLink => "NVLink",
            InterconnectKind::C2c => "NVLink-C2C",
            InterconnectKind::Xgmi => "xGMI",
            InterconnectKind::XeLink => "Xe Link",
            InterconnectKind::Smp => "link between sockets",
            InterconnectKind::UaLink => "UALink",
            InterconnectKind::Sue => "Scale-Up Ethernet",
            InterconnectKind::Cxl => "CXL",
            InterconnectKind::WaferMesh => "wafer mesh",
            InterconnectKind::Ethernet => "Ethernet",
            InterconnectKind::Die => "wiring of a chip",
        }
    }
}

/// One kind of link.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Interconnect {
    /// The name others refer to it by; equals the name of its file.
    pub name: String,
    /// One line that tells a person what it is.
    pub title: String,
    /// What a reader should know besides.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub notes: String,
    /// What kind of link it is.
    pub kind: InterconnectKind,
    /// Its generation, where there are several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generation: Option<u32>,
    /// Raw rate of one link, one way.
    pub link_rate: Sourced<Rate>,
    /// Share of the raw rate that data get, one way while the other is idle; none where `transactions` say it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub efficiency: Option<Sourced<Ratio>>,
    /// What the requests of a read take of the other direction, as a share of the data read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_requests: Option<Sourced<Ratio>>,
    /// Transactions and the flits or frames that carry them, where the protocol is published.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transactions: Option<Transactions>,
    /// From the last bit at one end to the first at whatever lies behind the other end; none where `stages` say it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency: Option<Sourced<Span>>,
    /// What that is made of, where it is known stage by stage.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stages: Option<Stages>,
    /// Room at the receiver of a link for which the sender has credits; where nothing is said, there is always room.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credits: Option<Sourced<Bytes>>,
    /// Flits, ports and credits, where it is CXL.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cxl: Option<CxlLink>,
}

/// What loads and stores take of a link: each transaction has a header, and so many bytes of transactions share a flit or frame.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Transactions {
    /// Data of the longest.
    pub data: Sourced<Bytes>,
    /// What leads the data of a write.
    pub write: Sourced<Bytes>,
    /// What leads data that was read.
    pub read: Sourced<Bytes>,
    /// A request to read.
    pub request: Sourced<Bytes>,
    /// The answer to a write.
    pub response: Sourced<Bytes>,
    /// Bytes of transactions in a flit or frame.
    pub unit_payload: Sourced<Bytes>,
    /// The flit or frame on the wire, with all that lies between it and the next.
    pub unit: Sourced<Bytes>,
}

impl Transactions {
    /// `lead` bytes with every transaction, in the flits or frames that it shares.
    fn packed(&self, lead: Bytes, with_data: bool) -> Tlp {
        let (payload, unit) = (self.data.0 * self.unit_payload.0, self.unit.0);
        let all = lead.0 * unit + if with_data { self.data.0 * unit - payload } else { 0 };
        Tlp { payload: Bytes(payload), overhead: Bytes(all) }
    }
    fn framing(&self) -> Framing {
        let Transactions { write, read, request, response, .. } = self;
        Framing {
            write: self.packed(**write, true),
            read: self.packed(**read, true),
            request: self.packed(**request, false),
            response: self.packed(**response, false),
        }
    }
    fn check(&self) -> Result<(), Problem> {
        let named = [
            ("data", *self.data),
            ("write", *self.write),
            ("read", *self.read),
            ("request", *self.request),
            ("response", *self.response),
            ("unit_payload", *self.unit_payload),
            ("unit", *self.unit),
        ];
        if let Some((key, bytes)) = named.into_iter().find(|(_, bytes)| *bytes > LARGEST) {
            let message = format!("`{key}` is {bytes}, and transactions, flits and frames have at most {LARGEST}");
            return Err(Problem::at(&["transactions", key, "value"], message, "check the unit"));
        }
        if *self.data == Bytes::ZERO || *self.unit_payload == Bytes::ZERO || self.unit.0 < self.unit_payload.0 {
            let message = format!("{} of transactions in {} on the wire", *self.unit_payload, *self.unit);
            let help = "give `data` and `unit_payload` at least 1 B, and `unit` no less than `unit_payload`";
            return Err(Problem::at(&["transactions", "unit", "value"], message, help));
        }
        Ok(())
    }
}

/// What the latency of one crossing is made of.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Stages {
    /// In the sender: transaction, link and coding layers.
    pub transmit: Sourced<Span>,
    /// A flit or code word is taken in before it is passed on.
    pub word: Sourced<Span>,
    /// Along the cable.
    pub wire: Sourced<Span>,
    /// In the receiver.
    pub receive: Sourced<Span>,
}

impl Stages {
    /// All of them.
    pub fn sum(&self) -> Span {
        *self.transmit + *self.word + *self.wire + *self.receive
    }
}

/// A transaction, a flit or a frame has no more. Basis: assumed; a jumbo frame is a seventh of it.
const LARGEST: Bytes = Bytes(1 << 16);

impl Interconnect {
    /// What `links` links carry of data, one way while the other is idle.
    pub fn data_rate(&self, links: u32) -> Rate {
        let raw = self.raw_rate(links);
        self.efficiency.as_ref().map_or_else(|| self.framing().write.weight().payload_of(raw), |share| share.of(raw))
    }
    /// From the last bit at one end to the first at whatever lies behind the other end.
    pub fn crossing(&self) -> Span {
        let told = self.latency.as_ref().map(|latency| **latency);
        told.or_else(|| self.stages.as_ref().map(Stages::sum)).unwrap_or_default()
    }
    /// The latency, or all of its stages.
    pub fn latencies_mut(&mut self) -> impl Iterator<Item = &mut Sourced<Span>> {
        let stages = self.stages.iter_mut().flat_map(|Stages { transmit, word, wire, receive }| [transmit, word, wire, receive]);
        self.latency.iter_mut().chain(stages)
    }
    /// What is on it beside data.
    pub fn framing(&self) -> Framing {
        if let Some(transactions) = &self.transactions {
            return transactions.framing();
        }
        let Some(efficiency) = &self.efficiency else { return Framing::NONE };
        let (data, raw) = efficiency.terms();
        let packet = Tlp { payload: Bytes(u64::from(data)), overhead: Bytes(u64::from(raw - data)) };
        let (request, of) = self.read_requests.as_ref().map_or((0, 1), |share| share.terms());
        let request = Tlp { payload: Bytes(u64::from(of)), overhead: Bytes(u64::from(request)) };
        Framing { write: packet, read: packet, request, ..Framing::NONE }
    }
    /// What `links` links carry in all, one way, as far as credits come back in time: so much room in each loop of there and back.
    pub fn credited_rate(&self, links: u32, loop_time: Span) -> Rate {
        let raw = self.raw_rate(links);
        let Some(credits) = self.credits.as_ref().filter(|_| loop_time > Span::ZERO) else { return raw };
        raw.min(Rate::of(Bytes(credits.0.saturating_mul(u64::from(links))), loop_time))
    }
    /// What `links` links carry in all, one way.
    pub fn raw_rate(&self, links: u32) -> Rate {
        Rate::from_bps(self.link_rate.as_bps().saturating_mul(u64::from(links)))
    }
}

impl Part for Interconnect {
    const KIND: Kind = Kind::Interconnect;
    fn name(&self) -> &str {
        &self.name
    }
    fn title(&self) -> &str {
        &self.title
    }
    fn check(&self) -> Result<(), Problem> {
        match (&self.transactions, &self.efficiency, &self.read_requests) {
            (Some(transactions), None, None) => transactions.check()?,
            (None, Some(_), Some(_)) => {}
            (Some(_), ..) => {
                let message = "what is on the link beside data is said twice";
                return Err(Problem::at(&["transactions"], message, "remove `efficiency` and `read_requests`, or [transactions]"));
            }
            _ => {
                let message = "nothing says what is on the link beside data";
                return Err(Problem::at(&["link_rate"], message, "give `efficiency` and `read_requests`, or [transactions]"));
            }
        }
        if self.stages.is_some() == self.latency.is_some() {
            let message = "the latency is said twice, or not at all";
            return Err(Problem::at(&["link_rate"], message, "give either `latency` or [stages]"));
        }
        if self.credits.as_ref().is_some_and(|credits| **credits == Bytes::ZERO) {
            return Err(Problem::at(&["credits", "value"], "without credits nothing is ever sent", "give it at least a flit or frame"));
        }
        if self.data_rate(1).as_bps() == 0 {
            return Err(Problem::at(&["link_rate", "value"], "nothing is left of the link for data", "check the rate and `efficiency`"));
        }
        if self.cxl.as_ref().is_some_and(|cxl| cxl.flit != CxlFlit::Small && self.generation.unwrap_or(1) < 3) {
            return Err(Problem::at(&["cxl", "flit"], "flits of 256 B before CXL 3", "use flit = \"68B\", or generation = 3"));
        }
        Ok(())
    }
}
