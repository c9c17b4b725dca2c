//! What readers of files about nodes fill in.

use fabriscope_catalog::{Catalog, Kind};
use fabriscope_machine::LinkKind;
use fabriscope_machine::import::Rates;
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
