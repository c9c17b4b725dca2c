//! Which speeds, ways and shapes are tried, in which order, and when a search ends.
//!
//! Source: NCCL 2.22.3, src/graph/search.cc (ncclTopoCompute, ncclTopoDupChannels, ncclTopoSearchInit).

use fabriscope_units::Span;

use super::walk::{Draft, Walk};
use super::{Channel, Graph, Pattern};
use crate::architecture::Processor;
use crate::path_type::PathType;
use crate::settings::{Set, Settings};
use crate::tables::{self, Reach};
use crate::topology::{Kind, LinkType, Topology, bits, rate};

/// What is searched for.
#[derive(Clone, Copy)]
pub(super) struct SearchTarget {
    pub pattern: Pattern,
    pub collnet: bool,
    pub least: usize,
    pub most: usize,
}

/// Most of a way that matters, and most of all links of a GPU, in bit/s.
fn limits(topology: &Topology) -> (i64, i64) {
    let inter = !topology.nets.is_empty();
    if !inter && topology.gpus.len() == 1 {
        return (bits(tables::LOCAL), 0);
    }
    let ends = if inter { &topology.nets } else { &topology.gpus };
    let ways = topology.gpus.iter().flat_map(|gpu| ends.iter().map(move |end| topology.path(*gpu, *end)));
    let most = ways.filter(|path| !path.links.is_empty()).map(|path| path.rate).max().unwrap_or(0);
    let total = topology.gpus.iter().map(|gpu| {
        let links = &topology.vertices[*gpu].links;
        let sum: i64 = links.iter().filter(|link| link.kind == LinkType::NvLink).map(|link| link.room).sum();
        let pci = links.iter().filter(|link| link.kind == LinkType::Pci).map(|link| link.room).next_back().unwrap_or(0);
        sum.max(pci)
    });
    (most, total.max().unwrap_or(0))
}

/// The best channels of a shape.
pub(super) fn graph(topology: &Topology, settings: &Settings, wanted: SearchTarget) -> Graph {
    let (gpus, inter) = (topology.gpus.len(), !topology.nets.is_empty());
    let capability = topology.capability();
    let SearchTarget { mut pattern, collnet, mut least, mut most } = wanted;
    match pattern {
        Pattern::Nvls => most = gpus.min(tables::MOST_NVLS_HEADS),
        Pattern::CollnetDirect => most = gpus.min(tables::MOST_COLLNET_HEADS),
        _ => {}
    }
    if gpus == 1 && pattern != Pattern::Ring {
        pattern = Pattern::Tree;
    }
    if !inter && pattern == Pattern::Nvls {
        least = most;
    }
    let crossing = topology.nets.len() > 1 && matches!(pattern, Pattern::Ring | Pattern::BalancedTree);
    let cross = if crossing { settings.cross_nic } else { Set::Off };
    let nearest = if gpus == 1 { PathType::Loc } else { PathType::Nvl };
    let same = pattern != Pattern::Nvls;
    let reach = if inter { Reach::Network } else { Reach::Node };
    let speeds: Vec<i64> =
        tables::speeds(capability, topology.facts.architecture.is_amd(), reach).iter().map(|speed| bits(tables::mbs(*speed))).collect();
    let (most_rate, total) = limits(topology);

    let mut best = Draft::new(pattern, collnet, gpus, least, most);
    best.cross_nic = cross == Set::On;
    (best.same, best.type_intra, best.type_inter) = (same, nearest, PathType::Pix);
    let mut draft = best.clone();
    // Chains and trees send one hop less than a ring.
    let room = |speed: i64| {
        let needed = i128::from(speed) * least as i128;
        if gpus > 1 && pattern != Pattern::Ring {
            needed * (gpus as i128 - 1) > i128::from(total) * gpus as i128
        } else {
            needed > i128::from(total)
        }
    };
    let last = speeds.len() - 1;
    let mut index = (0..last).find(|index| speeds[*index] <= most_rate && !room(speeds[*index])).unwrap_or(last);
    (draft.intra, draft.inter) = (speeds[index], speeds[index]);
    let mut left_in_all = tables::SEARCH_STEPS_ALL;
    let mut walk = Walk::new(topology);

    // The first pass: a solution at all, then a faster one.
    loop {
        let mut left = if draft.same { tables::SEARCH_STEPS_SAME } else { tables::SEARCH_STEPS };
        left_in_all -= left;
        walk.search(&mut draft, &mut best, &mut left);
        if left == -1 || best.count as i64 * best.inter >= total {
            break;
        }
        let amd_sockets = topology.facts.processor == Processor::Amd && draft.type_intra == PathType::Sys;
        if draft.same && !amd_sockets {
            draft.same = false;
            continue;
        }
        draft.same = same;
        left_in_all += left;
        if left_in_all < 0 && best.count > 0 {
            break;
        }
        if capability >= 90 && draft.pattern == Pattern::BalancedTree {
            draft.pattern = Pattern::Tree;
            continue;
        }
        draft.pattern = best.pattern;
        let worst = if inter { draft.type_inter } else { PathType::Sys };
        if draft.type_intra < worst && (best.count == 0 || draft.type_intra < best.type_intra) {
            draft.type_intra = draft.type_intra.worse();
            continue;
        }
        draft.type_intra = nearest;
        let farther = best.count == 0 || draft.type_inter < best.type_inter || draft.type_inter < PathType::Pxn;
        if inter && draft.type_inter < PathType::Sys && farther {
            draft.type_inter = draft.type_inter.worse();
            continue;
        }
        draft.type_inter = PathType::Pix;
        if cross == Set::Auto && !draft.cross_nic {
            draft.cross_nic = true;
            continue;
        }
        draft.cross_nic = cross == Set::On;
        // Half the speed of what was found is of no use.
        if index < last && (best.count == 0 || speeds[index + 1] * 100 > best.inter * 49) {
            index += 1;
            (draft.intra, draft.inter) = (speeds[index], speeds[index]);
            continue;
        }
        break;
    }

    double(&mut best, capability);
    faster(&mut best, &speeds, &mut walk);
    if best.count == 0 && !collnet && pattern != Pattern::Nvls {
        best.order = (0..gpus as u32).collect();
        best.inter_nets = vec![[0, 0]];
        (best.intra, best.inter) = (bits(tables::mbs(100)), bits(tables::mbs(100)));
        (best.type_intra, best.type_inter) = (PathType::Sys, PathType::Sys);
        best.count = 1;
    }
    finished(topology, &best, walk.steps)
}

/// The second pass: the same number of channels, faster.
fn faster(best: &mut Draft, speeds: &[i64], walk: &mut Walk<'_>) {
    let mut draft = best.clone();
    draft.least = best.count;
    walk.forget();
    let last = speeds.len() - 1;
    let mut index = (0..last).find(|index| speeds[*index] <= best.inter).unwrap_or(last);
    (draft.intra, draft.inter) = (speeds[index], speeds[index]);
    let mut left = -1;
    while left != 0 && index > 0 {
        match best.pattern {
            Pattern::Ring => {
                index -= 1;
                (draft.intra, draft.inter) = (speeds[index], speeds[index]);
            }
            Pattern::Nvls if draft.inter == best.inter && draft.inter < draft.intra * 2 => {
                (draft.least, draft.most) = (best.count, best.count);
                walk.forget();
                index -= 1;
                draft.inter = speeds[index];
            }
            _ if draft.intra == best.intra && draft.intra < draft.inter * 2 => {
                index -= 1;
                draft.intra = speeds[index];
            }
            _ => break,
        }
        left = if draft.same { tables::SEARCH_STEPS_SAME } else { tables::SEARCH_STEPS };
        walk.search(&mut draft, best, &mut left);
    }
}

/// Fast channels are split in two, so that each keeps a kernel's worth.
fn double(best: &mut Draft, capability: u32) {
    let gb = |rate: i64| rate < bits(tables::mbs(25_000));
    let fast = capability > 80 && best.intra < bits(tables::mbs(50_000)) && best.count > 4;
    if best.count == 0 || best.pattern == Pattern::Nvls || gb(best.intra) || fast {
        return;
    }
    let count = (best.count * 2).min(best.most);
    let gpus = best.gpus;
    let (order, nets) = (best.order[..(count - best.count) * gpus].to_vec(), best.inter_nets[..count - best.count].to_vec());
    best.order.truncate(best.count * gpus);
    best.order.extend(order);
    best.inter_nets.truncate(best.count);
    best.inter_nets.extend(nets);
    let share = count.div_ceil(best.count) as i64;
    (best.intra, best.inter) = (best.intra / share, best.inter / share);
    best.count = count;
}

fn finished(topology: &Topology, best: &Draft, steps: u64) -> Graph {
    let adapter = |net: u32| match topology.nets.get(net as usize).map(|net| topology.vertices[*net].kind) {
        Some(Kind::Net(number)) => number as u32,
        _ => net,
    };
    let channel = |number: usize| {
        let gpus = &best.order[number * best.gpus..(number + 1) * best.gpus];
        let heads = if best.pattern == Pattern::Nvls { &gpus[..1] } else { gpus };
        let adapters = (!topology.nets.is_empty()).then(|| best.inter_nets[number].map(adapter));
        Channel { gpus: heads.to_vec(), adapters }
    };
    let channels: Vec<Channel> = (0..best.count).map(channel).collect();
    let first = channels.first().and_then(|channel| channel.adapters);
    let latency = first.and_then(|[first, _]| topology.facts.adapters.get(first as usize)).map_or(Span::ZERO, |adapter| adapter.latency);
    Graph {
        pattern: best.pattern,
        channels,
        intra: rate(best.intra),
        inter: rate(best.inter),
        type_intra: best.type_intra,
        type_inter: best.type_inter,
        same_channels: best.same,
        cross_nic: best.cross_nic,
        latency,
        steps,
    }
}
