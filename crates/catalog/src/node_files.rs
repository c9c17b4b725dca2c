//! What readers of files about nodes fill in, from the parts of the catalogue.

use fabriscope_machine::import::{NvLinkRate, PcieRate, Rates, SocketRate, XgmiRate};
use fabriscope_machine::{Framing, Tlp};

use crate::catalog::{AnyPart, Catalog};
use crate::error::CatalogError;
use crate::part::{Interconnect, Kind, NodeFiles, Pcie};

impl Catalog {
    /// What is not in files about nodes, as `name` of the catalogue has it.
    ///
    /// # Errors
    /// A part that is wrong, or is not there.
    pub fn node_file_rates(&self, name: &str) -> Result<Rates, CatalogError> {
        let part = self.node_files(name)?;
        let interconnect = |name: &str| self.interconnect(name);
        let mut pcie = Vec::new();
        for name in self.names(Kind::Pcie) {
            if let AnyPart::Pcie(generation) = self.part(Kind::Pcie, name)?
                && generation.bus.is_none()
            {
                pcie.push(pcie_rate(part, generation));
            }
        }
        pcie.sort_by_key(|rate| rate.generation);
        let mut nvlink = Vec::new();
        for family in &part.gpus {
            nvlink.push(nvlink_rate(family.compute_capability, family.links, interconnect(&family.interconnect)?));
        }
        let mut xgmi = Vec::new();
        for family in &part.amd_gpus {
            let link = interconnect(&family.interconnect)?;
            xgmi.push(XgmiRate { architectures: family.architectures.clone(), data: link.data_rate(1), latency: link.crossing() });
        }
        let sockets = part.processors.iter().map(|family| SocketRate {
            architecture: family.architecture.clone(),
            vendor: family.vendor.clone(),
            families: family.families.clone(),
            models: family.models.iter().map(|[from, to]| (*from, *to)).collect(),
            rate: *family.rate,
        });
        Ok(Rates {
            pcie,
            pcie_unknown: (part.unknown_slot.generation, part.unknown_slot.lanes),
            pcie_latency: *part.pcie_latency,
            nvlink,
            xgmi,
            sockets: sockets.collect(),
            socket_latency: *part.socket_latency,
            local: *part.local,
            local_latency: *part.local_latency,
            memory_latency: *part.memory_latency,
            coherent_latency: interconnect(&part.coherent)?.crossing(),
        })
    }
}

fn pcie_rate(part: &NodeFiles, pcie: &Pcie) -> PcieRate {
    let framing = Framing {
        write: Tlp { payload: *part.max_payload, overhead: *pcie.write_overhead },
        read: Tlp { payload: *part.completion_payload, overhead: *pcie.completion_overhead },
        request: Tlp { payload: *part.max_read_request, overhead: *pcie.read_request },
        ..Framing::NONE
    };
    let coded = pcie.encoding.of(*pcie.lane_rate);
    PcieRate { generation: pcie.generation, signal: *pcie.lane_rate, coded, packets: pcie.tlp_rate(1), framing }
}

fn nvlink_rate(compute_capability: u32, links: u32, interconnect: &Interconnect) -> NvLinkRate {
    NvLinkRate {
        compute_capability,
        generation: interconnect.generation.unwrap_or(0),
        links,
        raw: *interconnect.link_rate,
        data: interconnect.data_rate(1),
        latency: interconnect.crossing(),
    }
}
