//! What a load of a core takes on its way to each memory of its node, as plain numbers: cores, DRAM, links between sockets, CXL.
//!
//! Source: the parts; `fabriscope_catalog` says what each number is.
//! Modelled: a NUMA domain has its share of the cores and channels of its processor.
//! Not modelled: nodes of several trays; memory of GPUs.

use fabriscope_catalog::{CxlFlit, CxlLink, DramTiming, Interconnect, ResolvedNode};
use fabriscope_units::{Bytes, Frequency, Rate, Span};

/// The bytes of a cache line.
pub const LINE: Bytes = Bytes(64);

/// DRAM behind one controller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Dram {
    /// Independent channels.
    pub channels: u32,
    /// A line on the bus of one.
    pub line: Span,
    /// Banks of one.
    pub banks: u32,
    /// From a request to the begin of the data.
    pub access: Span,
    /// From one access of a bank to the next.
    pub row_cycle: Span,
    /// From refresh to refresh.
    pub refresh_interval: Span,
    /// How long one takes.
    pub refresh_time: Span,
    /// A change between reads and writes.
    pub turnaround: Span,
    /// Writes that are gathered.
    pub write_batch: u32,
}

impl Dram {
    fn of(channels: u32, rate: Rate, timing: &DramTiming) -> Dram {
        let halves = timing.subchannels.max(1);
        Dram {
            channels: channels.max(1).saturating_mul(halves),
            line: rate.time(Bytes(LINE.0 * u64::from(halves))),
            banks: (*timing.banks).max(1),
            access: *timing.access,
            row_cycle: *timing.row_cycle,
            refresh_interval: *timing.refresh_interval,
            refresh_time: *timing.refresh_time,
            turnaround: *timing.turnaround,
            write_batch: (*timing.write_batch).max(1),
        }
    }
    /// What its buses carry.
    #[must_use]
    pub fn peak(&self) -> Rate {
        Rate::of(Bytes(LINE.0 * u64::from(self.channels)), self.line)
    }
}

/// A link of a plain protocol: so many bytes of it for a line and for a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PlainLink {
    /// A line with its headers on the link.
    pub line: Span,
    /// A request on it.
    pub request: Span,
    /// One way.
    pub latency: Span,
}

impl PlainLink {
    fn of(part: &Interconnect, links: u32) -> PlainLink {
        let line = part.data_rate(links).time(LINE);
        // Where transactions are published, the request's own size.
        let of_transactions = || part.transactions.as_ref().map_or(0, |transactions| transactions.request.0);
        let request = part.read_requests.as_ref().map_or_else(of_transactions, |share| u64::from(share.of_count(LINE.0 as u32)));
        let request = part.raw_rate(links).time(Bytes(request));
        PlainLink { line, request, latency: Span::from_ps(part.crossing().as_ps() / 2) }
    }
}

/// A CXL link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cxl {
    /// Its flits.
    pub flit: CxlFlit,
    /// Bits a second each way.
    pub rate: Rate,
    /// One way through the port of the processor.
    pub host_port: Span,
    /// One way through all retimers.
    pub retimers: Span,
    /// Room at the receivers for requests, requests with data, data and completions.
    pub credits: [u32; 4],
}

impl Cxl {
    fn of(part: &Interconnect, cxl: &CxlLink, links: u32, retimers: u32) -> Cxl {
        let credits = [&cxl.credits.requests, &cxl.credits.writes, &cxl.credits.data, &cxl.credits.completions].map(|n| (**n).max(1));
        let half = |span: Span| Span::from_ps(span.as_ps() / 2);
        let retimers = cxl.retimer.saturating_mul(u64::from(retimers));
        Cxl { flit: cxl.flit, rate: part.raw_rate(links), host_port: half(*cxl.host_port), retimers, credits }
    }
}

/// Expanders behind CXL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Expander {
    /// The NUMA domain where each link of the host begins.
    pub under: Vec<u32>,
    /// Each link.
    pub link: Cxl,
    /// One way through its controller.
    pub controller: Span,
    /// Its memory.
    pub dram: Dram,
    /// Who shares them, if anybody does.
    pub pool: Option<Pool>,
}

/// Expanders that several hosts share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pool {
    /// Hosts.
    pub hosts: u32,
    /// Expanders.
    pub devices: u32,
    /// One way through each switch; none where an expander has several heads.
    pub switch: Option<Span>,
    /// Switches in a row.
    pub levels: u32,
    /// Look-up of the directory and of a host's caches, where hosts share lines.
    pub sharing: Option<(Span, Span)>,
    /// Reads outstanding, port, and the way through a host of an accelerator at the switch.
    pub peer: Option<(u32, Span, Span)>,
}

/// The memories of a node as its cores see them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Loads {
    /// Processors.
    pub sockets: u32,
    /// NUMA domains of each.
    pub domains: u32,
    /// Cores of a domain.
    pub cores: u32,
    /// Clock of a core.
    pub clock: Frequency,
    /// Lines a core has outstanding by itself.
    pub fill_buffers: u32,
    /// The same with its prefetchers.
    pub prefetch_lines: u32,
    /// From a core to a controller or a port, one way.
    pub on_die: Span,
    /// The memory of a domain.
    pub dram: Dram,
    /// Between two processors.
    pub socket_link: Option<PlainLink>,
    /// Memory behind CXL.
    pub expander: Option<Expander>,
}

/// What parts do not say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Untold {
    /// The message.
    pub what: String,
    /// What to add.
    pub remedy: String,
}

impl Loads {
    /// NUMA domains with cores.
    #[must_use]
    pub fn nodes(&self) -> u32 {
        self.sockets * self.domains
    }
    /// NUMA domains without: memory behind CXL, one for each link of the host.
    #[must_use]
    pub fn far(&self) -> u32 {
        self.expander.as_ref().map_or(0, |expander| expander.under.len() as u32)
    }

    pub(crate) fn of(node: &ResolvedNode) -> Result<Loads, Untold> {
        let (part, cpu) = (&node.layout.part, &node.cpu);
        let untold = |what: String, remedy: &str| Err(Untold { what, remedy: remedy.to_owned() });
        let remedy = "choose a cluster whose node says it: lab-cxl-expander, meta-vistara, xconn-pool, lab-cxl-3, lab-cxl-heads";
        let Some(loads) = &cpu.loads else {
            return untold(format!("the processor `{}` does not say what its loads take ([loads])", cpu.name), remedy);
        };
        let Some((memory, timing)) = part.memory.as_ref().and_then(|memory| Some((memory, memory.timing.as_ref()?))) else {
            return untold(format!("the node `{}` does not say how its memory answers ([memory.timing])", part.name), remedy);
        };
        if part.trays > 1 {
            return untold(format!("the node `{}` is {} trays", part.name, part.trays), remedy);
        }
        let domains = part.numa_per_socket.max(1);
        let expander = match (&part.expanders, &node.layout.expander_link) {
            (Some(group), Some(link)) => {
                let Some(cxl) = &link.part.cxl else {
                    return untold(format!("the link `{}` does not say what its flits are ([cxl])", link.part.name), remedy);
                };
                let (Some(timing), Some(controller)) = (&group.timing, &group.controller) else {
                    return untold(format!("the expanders of `{}` do not say how they answer (`controller`, [timing])", part.name), remedy);
                };
                let rate = Rate::from_bps(group.peak.as_bps() / u64::from(group.channels.max(1)));
                let number = |name: &String| name.strip_prefix("numa").and_then(|number| number.parse().ok());
                Some(Expander {
                    under: group.under.iter().filter_map(number).collect(),
                    link: Cxl::of(&link.part, cxl, link.links, group.retimers),
                    controller: Span::from_ps(controller.as_ps() / 2),
                    dram: Dram::of(group.channels, rate, timing),
                    pool: group.pool.as_ref().map(|pool| Pool {
                        hosts: pool.hosts,
                        devices: pool.devices,
                        switch: pool.switch.as_ref().map(|span| **span),
                        levels: pool.levels,
                        sharing: pool.sharing.as_ref().map(|sharing| (*sharing.directory, *sharing.snoop)),
                        peer: pool.peer.as_ref().map(|peer| (*peer.outstanding, *peer.port, *peer.host)),
                    }),
                })
            }
            _ => None,
        };
        Ok(Loads {
            sockets: part.sockets,
            domains,
            cores: (cpu.cores / domains).max(1),
            clock: *cpu.clock,
            fill_buffers: (*loads.fill_buffers).max(1),
            prefetch_lines: (*loads.prefetch_lines).max(1),
            on_die: Span::from_ps(loads.on_die.as_ps() / 2),
            dram: Dram::of((memory.channels / domains).max(1), *memory.channel_rate, timing),
            socket_link: node.layout.socket_link.as_ref().map(|link| PlainLink::of(&link.part, link.links)),
            expander,
        })
    }
}
