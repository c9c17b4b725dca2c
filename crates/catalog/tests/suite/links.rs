//! Links by year and buses before PCI Express: every speed can be chosen, slots fit devices or are refused.

use fabriscope_catalog::{AnyPart, Kind, Layer};

use crate::embedded::catalog;

#[test]
fn every_speed_of_a_link_can_be_chosen_for_a_cluster() {
    let catalog = catalog();
    let mut years = Vec::new();
    for part in catalog.parts() {
        let AnyPart::Link(link) = part else { continue };
        years.extend(link.year);
        let base = if link.layer == Layer::InfiniBand { "lab-links-infiniband" } else { "lab-links-ethernet" };
        // Those that only adapters of their own have: clusters of the catalogue name them.
        if ["opa", "aries", "bxi", "qsnet"].iter().any(|own| link.name.starts_with(own)) {
            continue;
        }
        let text = format!("name = \"any\"\ntitle = \"any\"\nbase = \"{base}\"\nlink = \"{}\"\n", link.name);
        let cluster = catalog.cluster_from_text("any.toml", &text, None).unwrap_or_else(|error| panic!("{:?}", miette::Report::new(error)));
        assert_eq!(cluster.sole().link.data_rate(), link.data_rate());
    }
    assert_eq!(years.len(), catalog.names(Kind::Link).len(), "a speed without a year");
    assert_eq!((years.iter().min(), years.iter().max()), (Some(&1990), Some(&2027)));
}

#[test]
fn a_device_for_a_bus_needs_a_bus() {
    let catalog = catalog();
    let with = |slot: &str| {
        let text = format!("name = \"any\"\ntitle = \"any\"\nbase = \"lab-sdr-pci-x\"\n[node]\npcie = {slot}\n");
        catalog.cluster_from_text("any.toml", &text, None)
    };
    // 64 bits at 66 MHz: the lesser of both.
    let slower = with("{ bus = \"pci-x-66\", lanes = 64 }").unwrap();
    assert_eq!(slower.sole().node.pcie.part.name, "pci-x-66");
    assert_eq!(slower.sole().node.pcie.tags, Some(32));
    let message = format!("{:?}", miette::Report::new(with("{ generation = 3, lanes = 8 }").unwrap_err()));
    assert!(message.contains("a device for the bus `pci-x-133` in a slot of the PCIe"), "{message}");
    let message = format!("{:?}", miette::Report::new(with("{ bus = \"pci-x-66\", lanes = 8 }").unwrap_err()));
    assert!(message.contains("use 32 or 64"), "{message}");
}
