//! Causes at cores: their frequency, interruptions, how they tell the adapter of work.

use fabriscope_catalog::{BlueFlame, Interface, Noise, ResolvedCluster, Software};
use fabriscope_tools::Suite;
use fabriscope_units::{Rate, Span};

use super::{Amount, Cause, Scene};

/// Cores run at a lower frequency, or go to sleep.
pub(super) const FREQUENCY: Cause = Cause {
    name: "cpu-frequency",
    title: "cores run at a lower frequency",
    check: "cpupower frequency-info and idle-info; set the governor to performance, look for power capping",
    weight: 2.0,
    amounts: frequency,
};

/// How many times as long everything takes that a core does, as a ratio. Basis: assumed; 2.4 GHz of a clock of 3.2 GHz with turbo to
/// 0.8 GHz of 2.4 GHz, and steps of a quarter between.
const SLOWER: [(u64, u64); 5] = [(4, 3), (5, 3), (2, 1), (5, 2), (3, 1)];

fn frequency(scene: &Scene<'_>) -> Vec<Amount> {
    if scene.suite() == Suite::Gpu {
        return Vec::new();
    }
    let told = |(times, of): (u64, u64)| format!("{} % of the usual frequency", 100 * of / times);
    SLOWER.into_iter().map(|ratio| Amount::new(told(ratio), move |setup| slow_down(&mut setup.parts, ratio))).collect()
}

/// Everything that cores do takes `times` / `of` as long; what adapters, buses and memory do takes as long as before.
pub fn slow_down(parts: &mut ResolvedCluster, (times, of): (u64, u64)) {
    let longer = |span: &mut Span| *span = Span::from_ps(span.as_ps() * times / of);
    let slower = |rate: &mut Rate| *rate = Rate::from_bps(rate.as_bps() / times * of);
    let group = parts.sole_mut();
    let cpu = &mut *group.node.cpu;
    for span in [
        &mut cpu.wqe_build,
        &mut cpu.mmio_busy,
        &mut cpu.blueflame_block,
        &mut cpu.poll_hit,
        &mut cpu.poll_empty,
        &mut cpu.post_recv,
        &mut cpu.copy_call,
    ] {
        longer(&mut span.value);
    }
    slower(&mut cpu.copy_rate_cached.value);
    software(&mut group.software, &longer);
    if let Some(nccl) = group.nccl.as_mut() {
        software(nccl, &longer);
    }
    software(&mut parts.perftest, &longer);
}

/// What of a library is time of cores.
fn software(software: &mut Software, longer: &impl Fn(&mut Span)) {
    if let Some(mpi) = &mut software.mpi {
        for span in [&mut mpi.send_overhead, &mut mpi.recv_overhead, &mut mpi.progress_overhead, &mut mpi.rendezvous_overhead] {
            longer(&mut span.value);
        }
        let optional = [&mut mpi.wqe_build, &mut mpi.poll_hit, &mut mpi.block_overhead, &mut mpi.layout_overhead, &mut mpi.match_step];
        for span in optional.into_iter().flatten() {
            longer(&mut span.value);
        }
        if let Some(psm2) = &mut mpi.psm2 {
            for span in [&mut psm2.send, &mut psm2.packet, &mut psm2.post, &mut psm2.receive, &mut psm2.matching, &mut psm2.entry] {
                longer(&mut span.value);
            }
        }
    }
    if let Some(nccl) = &mut software.nccl {
        longer(&mut nccl.call.value);
        longer(&mut nccl.proxy_step.value);
        for span in [&mut nccl.plugin_overhead, &mut nccl.plugin_write_overhead].into_iter().flatten() {
            longer(&mut span.value);
        }
    }
    if let Some(perftest) = &mut software.perftest {
        longer(&mut perftest.loop_overhead.value);
    }
}

/// The operating system takes cores away.
pub(super) const INTERRUPTIONS: Cause = Cause {
    name: "os-noise",
    title: "the operating system interrupts the cores",
    check: "look for daemons and other jobs on the nodes; osnoise or hwlat of ftrace; leave a core free, isolate cores",
    weight: 1.0,
    amounts: interruptions,
};

/// How often, and how long. Basis: assumed; a busy daemon, a tick with much to do, a process that shares the core.
const NOISES: [(Span, Span); 3] =
    [(Span::from_us(100), Span::from_us(10)), (Span::from_us(1000), Span::from_us(100)), (Span::from_us(4000), Span::from_us(2000))];

fn interruptions(scene: &Scene<'_>) -> Vec<Amount> {
    if scene.parts().noise.is_some() || scene.suite() == Suite::Gpu || scene.is_nccl() {
        return Vec::new();
    }
    let told = |every: Span, lasts: Span| format!("{lasts} every {every}");
    NOISES
        .into_iter()
        .map(|(every, lasts)| Amount::new(told(every, lasts), move |setup| setup.parts.noise = Some(Noise { every, lasts })))
        .collect()
}

/// The adapter fetches every work request.
pub(super) const DOORBELLS: Cause = Cause {
    name: "blueflame",
    title: "work requests are not pushed into the adapter (no write combining)",
    check: "in a virtual machine: whether the doorbell page is mapped write-combining; MLX5_SHUT_UP_BF is not set",
    weight: 0.5,
    amounts: doorbells,
};

fn doorbells(scene: &Scene<'_>) -> Vec<Amount> {
    let nic = &scene.node().nic;
    if nic.blueflame == BlueFlame::Never || nic.interface != Interface::Verbs || !scene.uses_network() || scene.is_nccl() {
        return Vec::new();
    }
    vec![Amount::new("never", |setup| setup.parts.sole_mut().node.nic.blueflame = BlueFlame::Never)]
}
