//! One try: channels of a given speed, found by walking from GPU to GPU and taking what each link carries.
//!
//! Source: NCCL 2.22.3, src/graph/search.cc (ncclTopoSearchRec*, ncclTopoSearchTry*, ncclTopoFollowPath, ncclTopoCompareGraphs,
//! ncclTopoSelectNets, ncclTopoSearchNextGpuSort).

use std::cmp::Reverse;

use super::Pattern;
use crate::architecture::Processor;
use crate::path_type::PathType;
use crate::tables;
use crate::topology::{Kind, LinkType, Topology, bits};

/// Channels as far as they are found.
#[derive(Clone)]
pub(super) struct Draft {
    pub pattern: Pattern,
    pub collnet: bool,
    pub gpus: usize,
    pub least: usize,
    pub most: usize,
    pub count: usize,
    pub intra: i64,
    pub inter: i64,
    pub type_intra: PathType,
    pub type_inter: PathType,
    pub same: bool,
    pub cross_nic: bool,
    hops: i64,
    /// GPUs of each channel, one after the other.
    pub order: Vec<u32>,
    /// Adapters of each.
    pub inter_nets: Vec<[u32; 2]>,
}

impl Draft {
    pub fn new(pattern: Pattern, collnet: bool, gpus: usize, least: usize, most: usize) -> Draft {
        let (order, inter_nets) = (vec![0; gpus * (most + 1)], vec![[0; 2]; most + 1]);
        let (type_intra, type_inter) = (PathType::Nvl, PathType::Pix);
        let (same, cross_nic) = (true, false);
        Draft {
            pattern,
            collnet,
            gpus,
            least,
            most,
            count: 0,
            intra: 0,
            inter: 0,
            type_intra,
            type_inter,
            same,
            cross_nic,
            hops: 0,
            order,
            inter_nets,
        }
    }
    /// Takes over what `other` found.
    fn take(&mut self, other: &Draft) {
        self.clone_from(other);
    }
    fn is_better_than(&self, best: &Draft) -> bool {
        if self.count < self.least {
            return false;
        }
        let of = |count: usize, rate: i64| count as i128 * i128::from(rate);
        if self.pattern == Pattern::Nvls {
            let more = self.count > best.count && self.count <= self.gpus;
            return more || of(self.count, self.inter) > of(best.count, best.inter);
        }
        let (mine, other) = (of(self.count, self.intra), of(best.count, best.intra));
        let alike = self.pattern == best.pattern && self.cross_nic == best.cross_nic;
        mine > other || (mine == other && alike && self.hops < best.hops)
    }
}

/// At which step of a channel it goes to the adapter, and back to its first GPU.
#[derive(Clone, Copy)]
struct Turns {
    net: Option<usize>,
    first: Option<usize>,
}

/// In which order GPUs are tried.
#[derive(Clone, Copy, PartialEq)]
enum Order {
    Best,
    Bus,
    /// As the channel before.
    Replay,
}

/// What is left of the links of a node while channels take from it.
pub(super) struct Walk<'t> {
    topology: &'t Topology,
    room: Vec<Vec<i64>>,
    nets: Vec<i64>,
    /// Channels in which a GPU is used, a bit for each.
    used: Vec<u64>,
    /// Own adapters of each GPU, and the GPU of each adapter.
    local_nets: Vec<Vec<usize>>,
    local_gpus: Vec<Option<usize>>,
    /// Adapters in the order of trying: of all GPUs, and of each.
    all_nets: Vec<usize>,
    nets_of: Vec<Vec<usize>>,
    /// The others of a GPU, most promising first: as such, and on the way to each adapter. Made when asked for.
    others: Vec<Vec<Option<Vec<Candidate>>>>,
    /// Classes of ways that there are between GPUs, and between GPUs and adapters.
    classes: [Vec<PathType>; 2],
    /// What tries left of their steps.
    tried: Vec<(Try, i64)>,
    /// All steps so far.
    pub steps: u64,
}

/// A GPU that may come next: its rate and links from here, and which it is.
#[derive(Clone, Copy)]
struct Candidate {
    inside: (i64, usize),
    gpu: usize,
}

/// All that a try depends on; classes of ways that no way has make no difference.
type Try = (Pattern, [bool; 2], [i64; 2], [Option<PathType>; 2]);

impl<'t> Walk<'t> {
    pub fn new(topology: &'t Topology) -> Walk<'t> {
        let adapter = |net: &usize| match topology.vertices[*net].kind {
            Kind::Net(number) => {
                let rails = topology.facts.adapters.iter().skip(number).take(topology.facts.rails.max(1) as usize);
                rails.map(|adapter| bits(adapter.rate)).sum()
            }
            _ => 0,
        };
        let gpus = topology.gpus.len();
        Walk {
            topology,
            room: topology.vertices.iter().map(|vertex| vertex.links.iter().map(|link| link.room).collect()).collect(),
            nets: topology.nets.iter().map(adapter).collect(),
            used: vec![0; gpus],
            local_nets: (0..gpus).map(|gpu| topology.local_nets(gpu)).collect(),
            local_gpus: (0..topology.nets.len()).map(|net| topology.local_gpu(net)).collect(),
            all_nets: Vec::new(),
            nets_of: Vec::new(),
            others: vec![vec![None; topology.nets.len() + 1]; gpus],
            classes: classes(topology),
            tried: Vec::new(),
            steps: 0,
        }
    }

    /// Tries `draft`, keeps in `best` what is better. `left` counts steps down and is -1 when nothing better can be found.
    pub fn search(&mut self, draft: &mut Draft, best: &mut Draft, left: &mut i64) {
        draft.count = 0;
        let worst = |classes: &[PathType], allowed: PathType| classes.iter().copied().filter(|class| *class <= allowed).max();
        let types = [worst(&self.classes[0], draft.type_intra), worst(&self.classes[1], draft.type_inter)];
        let key: Try = (draft.pattern, [draft.same, draft.cross_nic], [draft.intra, draft.inter], types);
        // The same ways give the same channels, and these were compared.
        if let Some((_, known)) = self.tried.iter().find(|(tried, _)| *tried == key) {
            *left = *known;
            return;
        }
        self.walk(draft, best, left);
        self.tried.push((key, *left));
    }

    /// The number of channels that is asked for has changed: what was tried may now do.
    pub fn forget(&mut self) {
        self.tried.clear();
    }

    fn walk(&mut self, draft: &mut Draft, best: &mut Draft, left: &mut i64) {
        let gpus = self.topology.gpus.len();
        self.all_nets = self.choose_nets(draft, 0..gpus);
        self.nets_of = (0..gpus).map(|gpu| self.choose_nets(draft, gpu..gpu + 1)).collect();
        self.channel(draft, best, left);
    }

    /// Adapters of some GPUs: their own first, then others by class.
    fn choose_nets(&self, draft: &Draft, gpus: std::ops::Range<usize>) -> Vec<usize> {
        let mut found: Vec<usize> = Vec::new();
        let mut add = |net: usize| {
            if !found.contains(&net) {
                found.push(net);
            }
        };
        gpus.clone().flat_map(|gpu| &self.local_nets[gpu]).for_each(|net| add(*net));
        for class in PathType::ALL.into_iter().take_while(|class| *class <= draft.type_inter) {
            for gpu in gpus.clone() {
                for net in 0..self.topology.nets.len().min(tables::MOST_CHANNELS) {
                    if self.topology.path(self.topology.gpus[gpu], self.topology.nets[net]).class == class {
                        add(net);
                    }
                }
            }
        }
        found
    }

    /// Takes `amount` of the way from a vertex to a device, gives it back where it is negative. `allowed` is the worst class.
    fn follow(&mut self, from: usize, to: usize, amount: i64, allowed: Option<PathType>, hops: &mut i64) -> bool {
        let topology = self.topology;
        let path = topology.path(from, to);
        if path.links.is_empty() {
            return from == to;
        }
        if allowed.is_some_and(|allowed| path.class > allowed) {
            return false;
        }
        // Processors of Intel cut traffic between devices into packets of 64 B.
        let from_gpu = matches!(topology.vertices[from].kind, Kind::Gpu(_));
        let over_cpu = || {
            path.links
                .iter()
                .any(|(vertex, link)| matches!(topology.vertices[topology.vertices[*vertex].links[*link].to].kind, Kind::Cpu(_)))
        };
        let cut = path.class == PathType::Phb && from_gpu && topology.facts.processor.is_intel() && over_cpu();
        let pci = if cut { amount * 6 / 5 } else { amount };
        let taken = path.links.iter().take_while(|(vertex, link)| self.hop(*vertex, *link, from_gpu, amount, pci)).count();
        if taken < path.links.len() {
            for &(vertex, link) in &path.links[..taken] {
                self.hop(vertex, link, from_gpu, -amount, -pci);
            }
            return false;
        }
        *hops += amount.signum() * path.links.len() as i64;
        true
    }

    fn hop(&mut self, vertex: usize, link: usize, from_gpu: bool, amount: i64, pci: i64) -> bool {
        let topology = self.topology;
        let known = &topology.vertices[vertex].links[link];
        let end = &topology.vertices[known.to];
        let forth = if known.kind == LinkType::Pci { pci } else { amount };
        let mut back = 0;
        // What comes into an older GPU also takes some of the way out, requests and answers.
        if matches!(end.kind, Kind::Gpu(_)) && topology.capability() < 80 && !from_gpu {
            back += forth / 8;
        }
        if matches!(end.kind, Kind::Cpu(_)) && topology.facts.processor == Processor::Power && known.kind == LinkType::NvLink {
            back += forth;
        }
        let reverse = (back != 0).then(|| end.links.iter().position(|link| link.to == vertex && link.kind == known.kind)).flatten();
        let fits = self.room[vertex][link] >= forth && reverse.is_none_or(|reverse| self.room[known.to][reverse] >= back);
        if fits {
            self.room[vertex][link] -= forth;
            if let Some(reverse) = reverse {
                self.room[known.to][reverse] -= back;
            }
        }
        fits
    }

    /// From GPU to GPU or switch at the speed of a channel.
    fn inside(&mut self, draft: &mut Draft, from: usize, to: usize, times: i64) -> bool {
        self.follow(from, to, draft.intra * times, self.allowed(draft, from, to, draft.type_intra, times), &mut draft.hops)
    }
    /// Between GPU and adapter.
    fn outside(&mut self, draft: &mut Draft, from: usize, to: usize, amount: i64) -> bool {
        let first = amount.signum();
        self.follow(from, to, amount, self.allowed(draft, from, to, draft.type_inter, first), &mut draft.hops)
    }
    /// The worst class for the way there; trees come back the same way. Nothing where a way is given back.
    fn allowed(&self, draft: &Draft, from: usize, to: usize, class: PathType, times: i64) -> Option<PathType> {
        if times != 1 {
            return None;
        }
        let tree = matches!(draft.pattern, Pattern::BalancedTree | Pattern::Tree);
        let back = || self.topology.path(to, from).class;
        // A class that nothing has refuses all.
        Some(if tree && from != to && back() > class { PathType::Loc } else { class })
    }

    /// The next channel.
    fn channel(&mut self, draft: &mut Draft, best: &mut Draft, left: &mut i64) {
        let gpus = self.topology.gpus.len();
        let ring = draft.pattern == Pattern::Ring;
        if !self.topology.nets.is_empty() {
            let turns = Turns { net: Some(if ring { gpus - 1 } else { 0 }), first: None };
            return self.begin_at_nets(draft, best, turns, left);
        }
        let turns = Turns { net: None, first: ring.then_some(gpus - 1) };
        if draft.pattern == Pattern::Nvls {
            return self.enter(draft, best, draft.count, 0, turns, Order::Best, left);
        }
        if draft.count == 0 {
            self.enter(draft, best, 0, 0, turns, Order::Bus, left);
        } else {
            let first = draft.order[(draft.count - 1) * gpus] as usize;
            self.enter(draft, best, first, 0, turns, Order::Replay, left);
        }
        if !draft.same || draft.count == 0 {
            for gpu in 0..gpus {
                self.enter(draft, best, gpu, 0, turns, Order::Best, left);
            }
        }
    }

    fn begin_at_nets(&mut self, draft: &mut Draft, best: &mut Draft, turns: Turns, left: &mut i64) {
        let topology = self.topology;
        let heads = matches!(draft.pattern, Pattern::Nvls | Pattern::CollnetDirect);
        let gpus = topology.gpus.len();
        // The library counts what an adapter has left in whole GB/s.
        let amount = draft.inter - draft.inter % bits(tables::mbs(1000));
        for place in 0..self.all_nets.len() {
            let net = self.all_nets[(draft.count + place) % self.all_nets.len()];
            let Kind::Net(number) = topology.vertices[topology.nets[net]].kind else { continue };
            let refused = draft.collnet && !topology.facts.adapters[number].collectives;
            let crosses = draft.cross_nic && draft.count % 2 == 1 && draft.inter_nets[draft.count - 1][1] as usize != net;
            if refused || self.nets[net] < amount || crosses {
                continue;
            }
            draft.inter_nets[draft.count][0] = net as u32;
            if heads {
                let taken = |gpu: usize| (0..draft.count).any(|channel| draft.order[channel * gpus] as usize == gpu);
                let Some(gpu) = self.local_gpus[net].filter(|gpu| draft.count < self.all_nets.len() && !taken(*gpu)) else { continue };
                self.nets[net] -= amount;
                self.enter_from(draft, best, Some(net), gpu, turns, Order::Best, left);
                self.nets[net] += amount;
                return;
            }
            self.nets[net] -= amount;
            if draft.count > 0 {
                let first = draft.order[(draft.count - 1) * gpus] as usize;
                self.enter_from(draft, best, Some(net), first, turns, Order::Replay, left);
            }
            if draft.count == 0 || !draft.same {
                if draft.count == 0 && !topology.switched() {
                    let mut own = tables::SEARCH_STEPS_BUS_ORDER;
                    self.enter_from(draft, best, Some(net), 0, turns, Order::Bus, &mut own);
                    if own == -1 {
                        *left = -1;
                    }
                }
                let near = |gpu: usize| {
                    let path = topology.path(topology.nets[net], topology.gpus[gpu]);
                    (path.rate, Reverse(path.links.len()))
                };
                let nearest = (0..gpus).map(near).max().unwrap_or((0, Reverse(0)));
                if nearest.0 >= amount {
                    for step in 0..gpus {
                        let gpu = (draft.count + step) % gpus;
                        if *left > 0 && near(gpu) == nearest {
                            self.enter_from(draft, best, Some(net), gpu, turns, Order::Best, left);
                        }
                    }
                }
            }
            self.nets[net] += amount;
        }
    }

    /// To the first GPU of a channel from an adapter, or from nowhere.
    #[allow(clippy::too_many_arguments)]
    fn enter_from(
        &mut self,
        draft: &mut Draft,
        best: &mut Draft,
        net: Option<usize>,
        gpu: usize,
        turns: Turns,
        order: Order,
        left: &mut i64,
    ) {
        let Some(net) = net else { return self.enter(draft, best, gpu, 0, turns, order, left) };
        let (from, to) = (self.topology.nets[net], self.topology.gpus[gpu]);
        let amount = draft.inter;
        if self.outside_first(draft, from, to, amount) {
            self.enter(draft, best, gpu, 0, turns, order, left);
            self.outside(draft, from, to, -amount);
        }
    }
    fn outside_first(&mut self, draft: &mut Draft, from: usize, to: usize, amount: i64) -> bool {
        self.follow(from, to, amount, self.allowed(draft, from, to, draft.type_inter, 1), &mut draft.hops)
    }

    #[allow(clippy::too_many_arguments)]
    fn enter(&mut self, draft: &mut Draft, best: &mut Draft, gpu: usize, step: usize, turns: Turns, order: Order, left: &mut i64) {
        let bit = 1 << draft.count;
        self.used[gpu] ^= bit;
        self.visit(draft, best, gpu, step, turns, order, left);
        self.used[gpu] ^= bit;
    }

    /// At `gpu`, which is the `step`-th of the channel.
    #[allow(clippy::too_many_arguments)]
    fn visit(&mut self, draft: &mut Draft, best: &mut Draft, gpu: usize, step: usize, turns: Turns, order: Order, left: &mut i64) {
        if *left <= 0 {
            return;
        }
        *left -= 1;
        self.steps += 1;
        let topology = self.topology;
        let gpus = topology.gpus.len();
        if step == gpus {
            return self.complete(draft, best, left);
        }
        draft.order[draft.count * gpus + step] = gpu as u32;
        if turns.net == Some(step) {
            self.turn_to_net(draft, best, gpu, step, turns, order, left);
        } else if draft.pattern == Pattern::Nvls {
            self.nvls(draft, best, gpu, left);
        } else if draft.pattern == Pattern::CollnetDirect {
            self.collnet_direct(draft, best, gpu, left);
        } else if step < gpus - 1 {
            let next = match order {
                Order::Bus => vec![step + 1],
                Order::Replay => vec![draft.order[(draft.count - 1) * gpus + step + 1] as usize],
                Order::Best => self.next(draft, gpu, step, turns),
            };
            for peer in next {
                if *left <= 0 {
                    break;
                }
                let (from, to) = (topology.gpus[gpu], topology.gpus[peer]);
                if self.inside(draft, from, to, 1) {
                    self.enter(draft, best, peer, step + 1, turns, order, left);
                    self.inside(draft, from, to, -1);
                }
            }
        } else if turns.first == Some(step) {
            let first = draft.order[draft.count * gpus] as usize;
            let (from, to) = (topology.gpus[gpu], topology.gpus[first]);
            if self.inside(draft, from, to, 1) {
                self.visit(draft, best, first, step + 1, Turns { first: None, ..turns }, order, left);
                self.inside(draft, from, to, -1);
            }
        } else {
            self.visit(draft, best, gpu, gpus, Turns { net: None, first: None }, order, left);
        }
    }

    fn complete(&mut self, draft: &mut Draft, best: &mut Draft, left: &mut i64) {
        draft.count += 1;
        if draft.is_better_than(best) {
            best.take(draft);
            if draft.count == draft.most {
                *left = -1;
            }
        }
        if draft.count < draft.most {
            self.channel(draft, best, left);
        }
        draft.count -= 1;
    }

    #[allow(clippy::too_many_arguments)]
    fn turn_to_net(&mut self, draft: &mut Draft, best: &mut Draft, gpu: usize, step: usize, turns: Turns, order: Order, left: &mut i64) {
        let topology = self.topology;
        let start = draft.inter_nets[draft.count][0] as usize;
        for place in 0..self.nets_of[gpu].len() {
            let net = self.nets_of[gpu][place];
            let other = net != start;
            let before = draft.cross_nic && draft.count % 2 == 1 && draft.inter_nets[draft.count - 1][0] as usize != net;
            if (other && (draft.pattern == Pattern::Tree || !draft.cross_nic)) || before {
                continue;
            }
            let (mut amount, mut next) = (draft.inter, None);
            if draft.pattern == Pattern::BalancedTree {
                // Half by each of the first two GPUs.
                if step == 0 {
                    next = Some(1);
                } else if draft.inter_nets[draft.count][1] as usize != net {
                    continue;
                }
                amount /= 2;
            }
            let (from, to) = (topology.gpus[gpu], topology.nets[net]);
            if self.outside_first(draft, from, to, amount) {
                draft.inter_nets[draft.count][1] = net as u32;
                self.visit(draft, best, gpu, step, Turns { net: next, ..turns }, order, left);
                self.outside(draft, from, to, -amount);
            }
        }
    }

    /// The GPUs that may come next, most promising first.
    fn next(&mut self, draft: &Draft, gpu: usize, step: usize, turns: Turns) -> Vec<usize> {
        let topology = self.topology;
        let (gpus, bit) = (topology.gpus.len(), 1u64 << draft.count);
        // Where the way back to the adapter is next, what counts is how near the GPU is to it.
        let net = (turns.net == Some(step + 1)).then(|| draft.inter_nets[draft.count][0] as usize);
        let others = self.others[gpu][net.map_or(0, |net| net + 1)].get_or_insert_with(|| others(topology, gpu, net));
        let free = || others.iter().filter(|other| self.used[other.gpu] & bit == 0);
        let mut next = Vec::with_capacity(gpus);
        next.extend(free().map(|other| other.gpu));
        if turns.net.is_some_and(|net| net != step + 1) && free().all(|other| Some(other.inside) == free().next().map(|first| first.inside))
        {
            next.reverse();
        }
        if topology.switched() {
            // A switch likes few peers: the neighbours first.
            let (before, after) = ((gpu + gpus - 1) % gpus, (gpu + 1) % gpus);
            let first: &[usize] = match draft.pattern {
                Pattern::Ring => &[after, before],
                Pattern::BalancedTree => &[before, after],
                _ => &[after],
            };
            for wanted in first {
                if let Some(place) = next.iter().position(|peer| peer == wanted) {
                    next[..=place].rotate_right(1);
                }
            }
        }
        next
    }

    /// All GPUs read and write by the switch, the head twice as much.
    fn nvls(&mut self, draft: &mut Draft, best: &mut Draft, head: usize, left: &mut i64) {
        let Some(switch) = self.topology.nvswitch else { return };
        let gpus = self.topology.gpus.len();
        let times = |gpu: usize| if gpu == head { 2 } else { 1 };
        let mut taken = Vec::with_capacity(2 * gpus);
        for towards in [true, false] {
            for gpu in 0..gpus {
                let vertex = self.topology.gpus[gpu];
                let (from, to) = if towards { (switch, vertex) } else { (vertex, switch) };
                if !self.inside(draft, from, to, times(gpu)) {
                    break;
                }
                taken.push((from, to, times(gpu)));
            }
        }
        if taken.len() == 2 * gpus {
            self.visit(draft, best, head, gpus, Turns { net: None, first: None }, Order::Best, left);
        }
        for (from, to, times) in taken {
            self.inside(draft, from, to, -times);
        }
    }

    /// The head exchanges a share with each other GPU.
    fn collnet_direct(&mut self, draft: &mut Draft, best: &mut Draft, head: usize, left: &mut i64) {
        let topology = self.topology;
        let gpus = topology.gpus.len();
        let share = draft.intra / (gpus as i64 - 1).max(1);
        let mut taken = Vec::new();
        for away in [true, false] {
            for gpu in 0..gpus {
                let ends = [topology.gpus[head], topology.gpus[gpu]];
                let [from, to] = if away { ends } else { [ends[1], ends[0]] };
                let allowed = (gpus == 2).then_some(draft.type_intra);
                if !self.follow(from, to, share, allowed, &mut draft.hops) {
                    break;
                }
                taken.push((from, to));
            }
        }
        if taken.len() == 2 * gpus {
            let others = (0..gpus).filter(|gpu| *gpu != head);
            for (place, gpu) in others.enumerate() {
                draft.order[draft.count * gpus + place + 1] = gpu as u32;
            }
            self.visit(draft, best, head, gpus, Turns { net: None, first: None }, Order::Best, left);
        }
        for (from, to) in taken {
            self.follow(from, to, -share, None, &mut draft.hops);
        }
    }
}

/// All other GPUs that `gpu` reaches, most promising first.
fn others(topology: &Topology, gpu: usize, net: Option<usize>) -> Vec<Candidate> {
    let (gpus, here) = (topology.gpus.len(), topology.gpus[gpu]);
    let whole = |rate: i64| rate / bits(tables::mbs(1000));
    let peers = (1..gpus).map(|ahead| (ahead, (gpu + ahead) % gpus));
    let reached = peers.filter(|(_, peer)| !topology.path(here, topology.gpus[*peer]).links.is_empty());
    let mut scores: Vec<_> = reached
        .map(|(ahead, peer)| {
            let way = topology.path(here, topology.gpus[peer]);
            let inter = net.map(|net| topology.path(topology.nets[net], topology.gpus[peer]));
            let inter = inter.map_or((0, 0, 0), |path| (-whole(path.rate), -pci_rate(topology, peer), path.links.len()));
            let inside = (-whole(way.rate), way.links.len());
            ((inter, inside, ahead), Candidate { inside, gpu: peer })
        })
        .collect();
    scores.sort_unstable_by_key(|(score, _)| *score);
    scores.into_iter().map(|(_, candidate)| candidate).collect()
}

/// Classes of ways between GPUs or to their switch, and between GPUs and adapters, both directions.
fn classes(topology: &Topology) -> [Vec<PathType>; 2] {
    let between = |these: &[usize], those: &[usize]| {
        let pairs = these.iter().flat_map(|from| those.iter().map(move |to| (*from, *to)));
        let ways = pairs.filter(|(from, to)| from != to);
        let mut classes: Vec<PathType> =
            ways.flat_map(|(from, to)| [topology.path(from, to).class, topology.path(to, from).class]).collect();
        classes.sort_unstable();
        classes.dedup();
        classes
    };
    let ends: Vec<usize> = topology.gpus.iter().chain(&topology.nvswitch).copied().collect();
    [between(&topology.gpus, &ends), between(&topology.gpus, &topology.nets)]
}

/// What PCI Express brings a GPU, in GB/s; less than nothing where it has none.
fn pci_rate(topology: &Topology, gpu: usize) -> i64 {
    let links = &topology.vertices[topology.gpus[gpu]].links;
    links.iter().find(|link| link.kind == LinkType::Pci).map_or(-1, |link| link.room / bits(tables::mbs(1000)))
}
