//! The speeds of cables: none is lost or changed on the way from one file into another without a word.

use fabriscope_fabric::export::{self, Dialect, ibnetdiscover_notes};
use fabriscope_fabric::import::{read, review};

/// A switch with two adapters at it, as OpenSM lists them; both directions.
fn list(speeds: [&str; 2]) -> String {
    let switch = |port: u32| {
        format!(
            "{{ SW Ports:24 SystemGUID:0000000000000101 NodeGUID:0000000000000101 PortGUID:0000000000000101 VenID:0002C9 DevID:C738 Rev:000000A1 {{MF0;sw1:SX6036/U1}} LID:0001 PN:{port:02X} }}"
        )
    };
    let adapter = |at: u32| {
        format!(
            "{{ CA Ports:01 SystemGUID:0000000000000A0{at} NodeGUID:0000000000000A0{at} PortGUID:0000000000000A0{at} VenID:0002C9 DevID:1003 Rev:00000001 {{node0{at} HCA-1}} LID:000{} PN:01 }}",
            at + 1
        )
    };
    let mut text = String::new();
    for (at, speed) in (1..).zip(speeds) {
        text += &format!("{} {} PHY=4x LOG=ACT SPD={speed}\n", adapter(at), switch(at));
        text += &format!("{} {} PHY=4x LOG=ACT SPD={speed}\n", switch(at), adapter(at));
    }
    text
}

#[test]
fn fdr10_and_what_else_subnet_lists_say() {
    for (speed, rate) in [
        ("2.5", "4xSDR"),
        ("5", "4xDDR"),
        ("10", "4xQDR"),
        ("FDR10", "4xFDR10"),
        ("14", "4xFDR"),
        ("14.0625", "4xFDR"),
        ("25", "4xEDR"),
        ("25.78125", "4xEDR"),
        ("50", "4xHDR"),
        ("53.125", "4xHDR"),
        ("100", "4xNDR"),
        ("200", "4xXDR"),
        ("HDR", "4xHDR"),
    ] {
        let subnet = read(&list([speed, "25"])).unwrap();
        assert_eq!(subnet.cables[0].speed.map(|speed| speed.to_string()).as_deref(), Some(rate), "{speed}");
        assert!(subnet.unread.is_empty() && subnet.cables.iter().all(|cable| cable.seen_twice));
    }
    // FDR10 has four lanes of 10 Gb/s of data, QDR of 8.
    let rate = |speed| read(&list([speed, "25"])).unwrap().cables[0].data_rate().unwrap().as_bps();
    assert_eq!((rate("FDR10"), rate("10")), (40_000_000_000, 32_000_000_000));
    let unknown = read(&list(["??", "25"])).unwrap();
    assert!(review(&unknown).findings.iter().any(|finding| finding.what.contains("1 cables have no known speed")));
}

#[test]
fn what_ibsim_does_not_know_is_said() {
    let text = "host0 leaf0 400Gbps\nhost1 leaf0 400Gbps\nhost2 leaf1 25Gbps\nhost3 leaf1 30Gbps\nleaf0 leaf1 800Gbps\nleaf0 leaf1\nlonely leaf1 1Gbps\n";
    let subnet = read(text).unwrap();
    let own = export::ibnetdiscover(&subnet, Dialect::Ibnetdiscover);
    let again = read(&own).unwrap();
    let rates = |subnet: &fabriscope_fabric::import::Subnet| {
        let mut rates: Vec<u64> = subnet.cables.iter().map(|cable| cable.data_rate().map_or(0, |rate| rate.as_bps() / 1_000_000)).collect();
        rates.sort_unstable();
        rates
    };
    // 30 Gb/s is no speed of InfiniBand, 1 Gb/s is below all of them, one cable has none.
    assert_eq!(rates(&subnet), [0, 1000, 25_000, 30_000, 400_000, 400_000, 800_000]);
    assert_eq!(rates(&again), [0, 0, 16_000, 25_000, 400_000, 400_000, 800_000]);
    let said = [
        "1 cables have no known speed and are written as 4x???",
        "1 cables run at 1 Gb/s and are written as 4x???",
        "1 cables run at 30 Gb/s and are written as 4xDDR",
    ];
    assert_eq!(ibnetdiscover_notes(&subnet, Dialect::Ibnetdiscover), said);
    assert!(said.iter().all(|note| own.contains(&format!("# {note}\n"))), "{own}");

    let ndr = read(&list(["100", "200"])).unwrap();
    assert!(ibnetdiscover_notes(&ndr, Dialect::Ibnetdiscover).is_empty());
    let said = ["1 cables run at 4xNDR and are written as 4xEDR", "1 cables run at 4xXDR and are written as 4xEDR"];
    assert_eq!(ibnetdiscover_notes(&ndr, Dialect::Ibsim), said);
    assert!(export::ibnetdiscover(&ndr, Dialect::Ibsim).contains(&format!("# {}\n", said[0])));
    // A speed that the tool that was read did not know either is what it was.
    let unknown = read(&own).unwrap();
    assert!(ibnetdiscover_notes(&unknown, Dialect::Ibnetdiscover).is_empty());
}

/// Rates that are no whole number of Mb/s, in a cabling plan.
#[test]
fn odd_rates_in_cabling_plans() {
    let subnet = read("host0 leaf0 54545454545bps\nhost1 leaf0 54560Mbps\n").unwrap();
    let again = read(&export::dot(&subnet)).unwrap();
    let rates = |subnet: &fabriscope_fabric::import::Subnet| subnet.cables.iter().map(|cable| cable.data_rate()).collect::<Vec<_>>();
    assert_eq!(rates(&again), rates(&subnet));
}

/// Switches and adapters without a cable have a port in files that count ports.
#[test]
fn no_switch_has_no_ports() {
    let subnet = read("SwitchName=s0 Nodes=n[1-2]\nSwitchName=s1\nSwitchName=s2 Switches=s[0-1]\nSwitchName=s3\n").unwrap();
    for dialect in [Dialect::Ibnetdiscover, Dialect::Ibsim] {
        let text = export::ibnetdiscover(&subnet, dialect);
        assert!(!text.contains("Switch\t0") && text.contains("# 1 devices without a cable are written with one port\n"), "{text}");
        let again = read(&text).unwrap();
        assert_eq!((again.devices.len(), again.cables.len()), (subnet.devices.len(), subnet.cables.len()));
    }
}
