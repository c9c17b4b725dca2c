//! The energy of runs: what engines agree on, what resting links save, and what it costs.

use crate::labs::catalog;

use fabriscope_catalog::LinkRest;
use fabriscope_engine::Watch;
use fabriscope_lab::energy::{JobEnergy, NetworkPower, Purpose};
use fabriscope_lab::parse;
use fabriscope_lab::run::{LabRun, RunSettings, run};
use fabriscope_units::{Energy, Span};

/// The energy of a lab, whose links rest as said.
fn energy(text: &str, rest: Option<LinkRest>) -> JobEnergy {
    let mut lab = parse(catalog(), "lab.toml", text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    lab.cluster.line.rest = rest;
    let settings = RunSettings { link_loads: Watch::On, ..RunSettings::default() };
    let LabRun::One(single) = run(catalog(), &lab, &settings).unwrap_or_else(|error| panic!("{error}\n{text}")) else {
        panic!("a sweep: {text}")
    };
    let network = NetworkPower::of(catalog(), &single.cluster.parts, &single.cluster.fabric);
    JobEnergy::of(network, &single.cluster.fabric.graph, &single.run)
}

const INCAST: &str = "cluster = \"lab-16\"\n[workload.incast]\nsenders = 2\nsize = \"1 MiB\"\n";
const RING: &str = "cluster = \"lab-16\"\n[workload.ring_all_reduce]\nsize = \"1 MiB\"\n";

/// Every directed link is in one state at a time: what ports of all states drew is what ports that are up draw all the time.
#[test]
fn the_states_of_ports_fill_the_run() {
    for text in [INCAST, RING] {
        let energy = energy(text, None);
        let ports: u64 = energy.network.parts.iter().filter(|part| part.figures.is_some()).map(|part| part.ports_up).sum();
        assert!(ports > 0);
        let all_the_time: Energy = energy
            .network
            .parts
            .iter()
            .filter_map(|part| Some(part.figures?.direction.saturating_mul(2 * part.ports_up).energy(energy.took)))
            .sum();
        let states = [Purpose::Active, Purpose::Idle, Purpose::Resting].map(|purpose| energy.sum.of(purpose));
        assert_eq!(states.into_iter().sum::<Energy>(), all_the_time, "{text}");
        assert!(energy.delivered.as_u64() > 0);
    }
}

/// A step of a ring on 16 hosts moves as many bits over a switch as over two adapters: engines that count packets and fluids agree.
#[test]
fn engines_agree_on_the_energy_of_bits() {
    let packets = energy(RING, None);
    let fluids = energy(&format!("engine = \"flow\"\n{RING}"), None);
    let [packets, fluids] = [packets, fluids].map(|energy| energy.sum.of(Purpose::Bits).as_joules_f64());
    assert!((packets / fluids - 1.0).abs() < 0.05, "{packets} J and {fluids} J");
}

/// Ports of which most carry nothing draw less where they rest, the run takes longer by wake times, and nothing else changes.
#[test]
fn resting_links_save_what_idle_ports_draw() {
    let rest = LinkRest { after: Span::from_us(5), wake: Span::from_us(4), lanes: None };
    let (awake, rested) = (energy(INCAST, None), energy(INCAST, Some(rest)));
    assert!(rested.took >= awake.took);
    let mean = |energy: &JobEnergy, purpose: Purpose| energy.sum.of(purpose).mean_watts(energy.took).unwrap();
    assert!(mean(&rested, Purpose::Resting) > 0.0);
    let saved = mean(&awake, Purpose::Idle) - mean(&rested, Purpose::Idle) - mean(&rested, Purpose::Resting);
    // 16 adapters and 16 ports of the switch of 2.4 W, of which 13 of 16 carry nothing in both directions.
    let idle = 2.0 * 13.0 * 2.4;
    assert!(saved > 0.5 * idle && saved < 2.0 * 16.0 * 2.4, "{saved} W of {idle} W");
    assert!((mean(&awake, Purpose::Base) - mean(&rested, Purpose::Base)).abs() < 1e-9);
}
