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

#[cfg(test)]
mod tests {
    use super::*;
    use fabriscope_machine::LinkKind;
    use fabriscope_units::Rate;

    /// What a link between two such processors carries, in GB/s.
    fn between(rates: &Rates, processor: &str) -> u64 {
        let cpu = |number: u32| format!("<cpu numaid=\"{number}\" {processor}/>");
        let file = fabriscope_machine::import::read(&format!("<system version=\"1\">{}{}</system>", cpu(0), cpu(1)), rates).unwrap();
        let link = file.machine.links().iter().find(|link| link.kind == LinkKind::Smp).unwrap().clone();
        link.rate[0].as_bps() / 8_000_000_000
    }

    #[test]
    fn processors_are_told_apart_as_nccl_does() {
        let rates = Catalog::embedded().unwrap().node_file_rates("nccl").unwrap();
        for (vendor, family, model, expected) in [
            ("GenuineIntel", 6, 79, 6),
            ("GenuineIntel", 6, 85, 10),
            ("GenuineIntel", 6, 106, 10),
            ("GenuineIntel", 6, 143, 22),
            ("GenuineIntel", 6, 207, 40),
            ("GenuineIntel", 6, 173, 40),
            ("AuthenticAMD", 23, 49, 16),
            ("AuthenticAMD", 25, 1, 24),
            ("AuthenticAMD", 26, 2, 32),
            ("SomeoneElse", 6, 143, 5000),
        ] {
            let text = format!("arch=\"x86_64\" vendor=\"{vendor}\" familyid=\"{family}\" modelid=\"{model}\"");
            assert_eq!(between(&rates, &text), expected, "{text}");
        }
        assert_eq!((between(&rates, "arch=\"arm64\""), between(&rates, "arch=\"ppc64\"")), (6, 32));
    }

    #[test]
    fn slots_and_nvlink_are_those_of_their_parts() {
        let catalog = Catalog::embedded().unwrap();
        let rates = catalog.node_file_rates("nccl").unwrap();
        let fifth = rates.pcie.iter().find(|pcie| pcie.generation == 5).unwrap();
        // 32 GT/s, 128 of 130 bits: 3.938 GB/s a lane.
        assert_eq!((fifth.signal, fifth.coded.as_bps() / 8_000_000), (Rate::from_gbps(32), 3938));
        assert!(rates.pcie.is_sorted_by_key(|pcie| pcie.generation) && rates.pcie.len() >= 6);
        let hopper = rates.nvlink.iter().find(|nvlink| nvlink.compute_capability == 90).unwrap();
        assert_eq!((hopper.generation, hopper.links, hopper.raw), (4, 18, Rate::from_gbps(200)));
        // 77 of 100 of 16 lanes at 25 Gb/s.
        let mi200 = rates.xgmi.iter().find(|xgmi| xgmi.architectures.iter().any(|name| name == "gfx90a")).unwrap();
        assert_eq!(mi200.data, Rate::from_gbps(16 * 25 * 77 / 100));
    }

    #[test]
    fn wrong_parts_are_refused() {
        let catalog = Catalog::embedded().unwrap();
        let text = catalog.text_of(Kind::NodeFiles, "nccl").unwrap();
        for (right, wrong, word) in [
            ("compute_capability = 70", "compute_capability = 50", "out of order"),
            ("links = 12", "links = 0", "without links"),
            ("5000 GB/s", "0 GB/s", "nothing would reach a memory"),
            ("value = \"22 GB/s\"", "value = \"0 GB/s\"", "carries nothing"),
            ("lanes = 16", "lanes = 17", "no 17 lanes"),
        ] {
            assert!(text.contains(right), "{right}");
            let error = catalog.parse_part(Kind::NodeFiles, "nccl", &text.replacen(right, wrong, 1)).unwrap_err();
            assert!(error.to_string().contains(word), "{word}: {error}");
        }
        assert!(catalog.node_file_rates("ncll").unwrap_err().to_string().contains("ncll"));
    }
}
