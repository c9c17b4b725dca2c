//! Causes in the message library: its transport, where its protocol changes, how much it has outstanding, registration, shared memory.

use fabriscope_catalog::{EachRegistration, Interface, Mechanism, Sourced};
use fabriscope_tools::{Measures, Suite};
use fabriscope_units::{Bytes, Span};

use super::{Amount, Cause, Scene, not_here};

/// Sockets of the kernel instead of the adapter's own interface.
pub(super) const TRANSPORT: Cause = Cause {
    name: "tcp",
    title: "messages go through the kernel's sockets (TCP, IPoIB) instead of the adapter's own interface",
    check: "UCX_LOG_LEVEL=info, FI_LOG_LEVEL=info or OMPI_MCA_btl_base_verbose=10 print the transport; ulimit -l; the provider is installed",
    weight: 2.0,
    amounts: transport,
};

/// The library over sockets, of which there is one.
const OVER_TCP: &str = "openmpi-tcp";

fn transport(scene: &Scene<'_>) -> Vec<Amount> {
    let interface = scene.parts().sole().software.interface;
    let over = scene.catalog.software(OVER_TCP).ok();
    let (Some(over), true) = (over, scene.mpi().is_some() && scene.uses_network() && interface != Interface::Sockets) else {
        return Vec::new();
    };
    if scene.in_gpus() {
        return Vec::new();
    }
    let over = over.clone();
    vec![Amount::new("TCP", move |setup| {
        let software = &mut setup.parts.sole_mut().software;
        let decisions = software.mpi.as_ref().map(|mpi| (mpi.collectives.clone(), mpi.hierarchical.clone(), mpi.shared_memory.clone()));
        software.clone_from(&over);
        // The library stays the same, and so does what it decides by and what it does within a node.
        if let (Some((flat, hierarchical, shared)), Some(mpi)) = (decisions, software.mpi.as_mut()) {
            (mpi.collectives, mpi.hierarchical) = (flat, hierarchical);
            mpi.shared_memory = shared.or(mpi.shared_memory.take());
        }
    })]
}

/// The change from eager to rendezvous is at another size.
pub(super) const THRESHOLD: Cause = Cause {
    name: "eager-limit",
    title: "the library goes from eager to rendezvous at another size",
    check: "UCX_RNDV_THRESH, MV2_IBA_EAGER_THRESHOLD, PSM2_MQ_RNDV_HFI_THRESH, FI_CXI_RDZV_THRESHOLD, I_MPI_EAGER_THRESHOLD: unset, or as usual",
    weight: 1.0,
    amounts: threshold,
};

/// Limits that people set: 256 B to 1 MiB. Between two sizes that are measured one limit is like another, and tables have powers of two.
const LIMITS: std::ops::RangeInclusive<u32> = 8..=20;

fn threshold(scene: &Scene<'_>) -> Vec<Amount> {
    let Some(mpi) = scene.mpi().filter(|_| scene.uses_network()) else { return Vec::new() };
    let of_psm2 = mpi.psm2.as_ref().map(|psm2| psm2.eager_limit.as_u64());
    let waits = scene.setup.tool.traits().measures == Measures::Latency;
    let blocking = mpi.blocking_eager_limit.as_ref().filter(|_| waits).map(|limit| limit.as_u64());
    let now = of_psm2.or(blocking).unwrap_or(mpi.eager_limit.as_u64());
    let other = LIMITS.map(|octave| 1u64 << octave).filter(|limit| *limit * 2 <= now || *limit >= now * 2);
    other
        .map(|limit| {
            Amount::new(format!("{} instead of {}", Bytes(limit), Bytes(now)), move |setup| {
                let Some(mpi) = setup.parts.sole_mut().software.mpi.as_mut() else { return };
                if let Some(psm2) = &mut mpi.psm2 {
                    psm2.eager_limit.value = Bytes(limit);
                }
                mpi.eager_limit.value = Bytes(limit);
                if let Some(blocking) = &mut mpi.blocking_eager_limit {
                    blocking.value = Bytes(limit);
                }
                // A limit of copies that is above it has no messages left.
                mpi.eager_copy_limit.value = (*mpi.eager_copy_limit).min(Bytes(limit));
                if let Some(copied) = &mut mpi.blocking_copy_limit {
                    copied.value = (**copied).min(Bytes(limit));
                }
                mpi.fast_path_limit.value = (*mpi.fast_path_limit).min(Bytes(limit));
            })
        })
        .collect()
}

/// Too little is in flight.
pub(super) const OUTSTANDING: Cause = Cause {
    name: "outstanding",
    title: "too few messages are outstanding: queues or windows are short",
    check: "perftest: -t, -q; ibv_devinfo -v: max_qp_wr, max_qp_rd_atom; UCX_RC_TX_QUEUE_LEN, PSM2_FLOW_CREDITS",
    weight: 1.0,
    amounts: outstanding,
};

fn outstanding(scene: &Scene<'_>) -> Vec<Amount> {
    let traits = scene.setup.tool.traits();
    let many = matches!(traits.measures, Measures::Bandwidth);
    if !scene.uses_network() || !many {
        return Vec::new();
    }
    let counts = [1u32, 2, 4, 8, 16];
    if traits.suite == Suite::Perftest {
        let said = |option: &String| option == "-t" || option.starts_with("--tx-depth");
        if scene.setup.options.iter().any(said) {
            return Vec::new();
        }
        return counts
            .into_iter()
            .map(|count| Amount::new(format!("{count} at a time"), move |setup| setup.options.extend(["-t".to_owned(), count.to_string()])))
            .collect();
    }
    let Some(mpi) = scene.mpi() else { return Vec::new() };
    let now = mpi.psm2.as_ref().map_or(*mpi.window, |psm2| *psm2.flow_credits);
    let fewer = counts.into_iter().filter(|count| *count < now);
    fewer
        .map(|count| {
            Amount::new(format!("{count} instead of {now}"), move |setup| {
                let group = setup.parts.sole_mut();
                group.node.nic.max_rd_atomic.value = (*group.node.nic.max_rd_atomic).min(count);
                let Some(mpi) = group.software.mpi.as_mut() else { return };
                mpi.window.value = count;
                mpi.signal_interval.value = (*mpi.signal_interval).min(count.div_ceil(2));
                if let Some(psm2) = &mut mpi.psm2 {
                    psm2.flow_credits.value = count;
                }
            })
        })
        .collect()
}

/// Long messages are registered each time.
pub(super) const REGISTRATION: Cause = Cause {
    name: "registration",
    title: "memory is registered for each long message: the cache of registrations is off",
    check: "UCX_RCACHE_ENABLE, MV2_USE_LAZY_MEM_UNREGISTER, FI_MR_CACHE_MAX_COUNT; whether memory hooks of the library are in place",
    weight: 1.0,
    amounts: registration,
};

/// A system call with a command to the adapter, and a page that is pinned and entered. Basis: assumed, as the catalogue has them.
const CALL: Span = Span::from_us(10);
const PAGE: Span = Span::from_ns(100);

fn registration(scene: &Scene<'_>) -> Vec<Amount> {
    let Some(mpi) = scene.mpi().filter(|_| scene.uses_network() && !scene.in_gpus()) else { return Vec::new() };
    if mpi.registration.is_some() || mpi.psm2.is_some() || scene.parts().sole().software.interface == Interface::Sockets {
        return Vec::new();
    }
    vec![Amount::new("each time", |setup| {
        let Some(mpi) = setup.parts.sole_mut().software.mpi.as_mut() else { return };
        // The origin is of no number that anybody asks for.
        let stated = |value: Span| Sourced { value, ..mpi.send_overhead.clone() };
        mpi.registration = Some(EachRegistration { call: stated(CALL), page: stated(PAGE) });
    })]
}

/// Ranks of a node copy twice.
pub(super) const SINGLE_COPY: Cause = Cause {
    name: "single-copy",
    title: "ranks of a node copy long messages twice: no CMA, KNEM or XPMEM",
    check: "sysctl kernel.yama.ptrace_scope (0 for CMA); lsmod | grep -e knem -e xpmem; containers without CAP_SYS_PTRACE",
    weight: 1.0,
    amounts: single_copy,
};

fn single_copy(scene: &Scene<'_>) -> Vec<Amount> {
    let shared = scene.mpi().and_then(|mpi| mpi.shared_memory.as_ref());
    if scene.setup.layout.per_node < 2 || shared.is_none_or(|shared| shared.mechanism == Mechanism::Fifo) {
        return Vec::new();
    }
    vec![Amount::may("through a buffer in between", |setup| {
        let shared = setup.parts.sole_mut().software.mpi.as_mut().and_then(|mpi| mpi.shared_memory.as_mut());
        shared.ok_or_else(|| not_here("no messages within a node"))?.mechanism = Mechanism::Fifo;
        Ok(())
    })]
}
