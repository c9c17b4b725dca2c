//! What links carry where a file about a node does not say it: the numbers come from the catalogue.

use fabriscope_units::{Rate, Span};

use crate::identity::Processor;
use crate::link::Framing;

/// The numbers a reader fills in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rates {
    /// Generations of PCI Express, oldest first.
    pub pcie: Vec<PcieRate>,
    /// What a slot is taken to be where the file does not know: generation and lanes.
    pub pcie_unknown: (u32, u32),
    /// One crossing of a PCI Express link with what lies behind it.
    pub pcie_latency: Span,
    /// NVLink by what the GPU can do, oldest first.
    pub nvlink: Vec<NvLinkRate>,
    /// xGMI by the architecture of GPUs of AMD; the last one also counts for those that are not listed.
    pub xgmi: Vec<XgmiRate>,
    /// Links between sockets; the first that fits the processor counts.
    pub sockets: Vec<SocketRate>,
    /// One crossing of a link between sockets.
    pub socket_latency: Span,
    /// What is within a socket, and a memory whose rate is not told.
    pub local: Rate,
    /// From a NUMA domain to its host bridge or its neighbour.
    pub local_latency: Span,
    /// From a NUMA domain or a GPU to its memory.
    pub memory_latency: Span,
    /// A coherent link between processor and GPU.
    pub coherent_latency: Span,
}

/// A generation of PCI Express.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PcieRate {
    /// Which.
    pub generation: u32,
    /// Transfers of a lane, as bits.
    pub signal: Rate,
    /// What coding leaves of them.
    pub coded: Rate,
    /// What is left for packets.
    pub packets: Rate,
    /// What packets are.
    pub framing: Framing,
}

/// NVLink of a family of GPUs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NvLinkRate {
    /// GPUs that can do this and more have it.
    pub compute_capability: u32,
    /// Its generation.
    pub generation: u32,
    /// Links of a GPU.
    pub links: u32,
    /// Raw rate of a link, one way.
    pub raw: Rate,
    /// What a link carries of data.
    pub data: Rate,
    /// One crossing.
    pub latency: Span,
}

/// xGMI of a family of GPUs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct XgmiRate {
    /// Their architectures, such as `gfx90a`.
    pub architectures: Vec<String>,
    /// What a link carries of data, one way.
    pub data: Rate,
    /// One crossing.
    pub latency: Span,
}

/// A link between sockets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SocketRate {
    /// Its processors' architecture; any if empty.
    pub architecture: String,
    /// Their vendor; any if empty.
    pub vendor: String,
    /// Their families; any if empty.
    pub families: Vec<u32>,
    /// Their models, from and to; any if empty.
    pub models: Vec<(u32, u32)>,
    /// What it carries each way.
    pub rate: Rate,
}

impl Rates {
    /// The generation whose lanes make `text`, such as `32.0 GT/s PCIe`.
    pub(super) fn generation_of_speed(&self, text: &str) -> Option<u32> {
        let number = text.split_whitespace().next()?;
        let (whole, tenths) = number.split_once('.').unwrap_or((number, "0"));
        let tenths = tenths.get(..1)?.parse::<u64>().ok()?;
        let signal = whole.parse::<u64>().ok().filter(|whole| *whole < 10_000)? * 1_000_000_000 + tenths * 100_000_000;
        self.pcie.iter().find(|pcie| pcie.signal.as_bps() == signal).map(|pcie| pcie.generation)
    }
    /// Generation and lanes of a link that carries so many megabytes per second; the widest where several do.
    pub(super) fn slot_of_rate(&self, megabytes: u64) -> Option<(u32, u32)> {
        let wanted = megabytes.checked_mul(8_000_000)?;
        let near = |pcie: &PcieRate, lanes: u32| (pcie.coded.as_bps() * u64::from(lanes)).abs_diff(wanted) <= wanted / 50;
        let widths = [16, 8, 4, 2, 1, 12, 32];
        let all = widths.into_iter().flat_map(|lanes| self.pcie.iter().map(move |pcie| (pcie, lanes)));
        all.into_iter().find(|(pcie, lanes)| near(pcie, *lanes)).map(|(pcie, lanes)| (pcie.generation, lanes))
    }
    /// Generation of PCI Express, or the one to be taken for it.
    pub(super) fn pcie(&self, generation: u32) -> Option<&PcieRate> {
        let of = |wanted: u32| self.pcie.iter().find(move |pcie| pcie.generation == wanted);
        of(generation).or_else(|| of(self.pcie_unknown.0))
    }
    /// NVLink of a GPU that can do so much.
    pub(super) fn nvlink_of_gpu(&self, compute_capability: u32) -> Option<&NvLinkRate> {
        let exact = self.nvlink.iter().find(|nvlink| nvlink.compute_capability == compute_capability);
        exact.or_else(|| {
            self.nvlink.iter().filter(|nvlink| nvlink.compute_capability <= compute_capability).max_by_key(|n| n.compute_capability)
        })
    }
    /// The oldest NVLink whose GPUs have so many links in all.
    pub(super) fn nvlink_of_links(&self, links: u32) -> Option<&NvLinkRate> {
        self.nvlink.iter().find(|nvlink| nvlink.links >= links).or_else(|| self.nvlink.last())
    }
    /// The oldest NVLink whose GPUs carry so much in all, one way.
    pub(super) fn nvlink_of_rate(&self, rate: Rate) -> Option<&NvLinkRate> {
        let carries = |nvlink: &&NvLinkRate| nvlink.raw.as_bps() * u64::from(nvlink.links) * 51 / 50 >= rate.as_bps();
        self.nvlink.iter().find(carries).or_else(|| self.nvlink.last())
    }
    /// xGMI of GPUs of an architecture.
    pub(super) fn xgmi_of(&self, architecture: Option<&str>) -> Option<&XgmiRate> {
        let known = |xgmi: &&XgmiRate| architecture.is_some_and(|name| xgmi.architectures.iter().any(|other| other == name));
        self.xgmi.iter().find(known).or_else(|| self.xgmi.last())
    }
    /// What a link between two sockets carries.
    pub(super) fn between_sockets(&self, processor: &Processor) -> Rate {
        let fits = |wanted: &str, found: &str| wanted.is_empty() || wanted == found;
        let found = self.sockets.iter().find(|link| {
            let family = link.families.is_empty() || processor.family.is_some_and(|family| link.families.contains(&family));
            let inside = |model: u32| link.models.iter().any(|(from, to)| (*from..=*to).contains(&model));
            let model = link.models.is_empty() || processor.model.is_some_and(inside);
            fits(&link.architecture, &processor.architecture) && fits(&link.vendor, &processor.vendor) && family && model
        });
        found.map_or(self.local, |link| link.rate)
    }
}
