//! GROMACS: molecular dynamics with particle-mesh Ewald, on ranks that have space and ranks that have the mesh.
//!
//! Source: B. Hess et al., "GROMACS 4: algorithms for highly efficient, load-balanced, and scalable molecular simulation", J. Chem. Theory
//! Comput. 4, 2008 (eighth shell, pulses, separate ranks for the mesh, P-LINCS); M. J. Abraham et al., "GROMACS: high performance
//! molecular simulations through multi-level parallelism", SoftwareX 1–2, 2015; S. Páll, B. Hess, "A flexible algorithm for calculating
//! pair interactions on SIMD architectures", Comput. Phys. Commun. 184, 2013 (clusters of four).
//! Modelled: ranks of space and of the mesh in turn on each node; coordinates to the mesh and forces back; halos to one side, in z, y and x,
//! in as many pulses as the list reaches cells, and of forces the other way round; on the mesh atoms to neighbours, the overlap of splines,
//! an FFT on pencils with two transpositions each way; coordinates for constraints across faces; sums of energies once in an iteration.
//! Not modelled: dynamic load balancing, tuning of the mesh, moving of atoms between cells, output; uneven density; GPUs.

use std::sync::Arc;

use fabriscope_collectives::{Group, Kind};
use fabriscope_platform::Layout;
use fabriscope_tool::UsageError;
use fabriscope_tool::arguments::{self, Opt, Parsed};
use fabriscope_units::Bytes;

use crate::grid::{Grid, dims_create, least_surface};
use crate::options::{conflict, options, positive, value};
use crate::step::{Collective, Exchange, Merit, Program, Ran, Step, Steps, Whole, Work};

pub(crate) const NAME: &str = "gromacs";
pub(crate) const ABOUT: &str = "GROMACS: molecular dynamics with particle-mesh Ewald on ranks of its own";
pub(crate) const OPTIONS: &[Opt] = options![
    value('\0', "system", "name", "benchMEM, stmv, hEGFRDimerPair, benchRIB, lignocellulose or benchPEP (default stmv)"),
    value('\0', "atoms", "count", "atoms (default: the system's)"),
    value('\0', "npme", "ranks", "ranks of the mesh, a divisor of all; 0: every rank has both (default: about a quarter)"),
    value('\0', "gcom", "steps", "steps from one global sum to the next: an iteration (default 10)"),
    value('\0', "nsteps", "count", "steps of the run (default 10000)"),
    value('\0', "cutoff", "nm", "reach of pairs (default: the system's)"),
];

/// A benchmark.
#[derive(Debug, Clone, Copy, PartialEq)]
struct System {
    name: &'static str,
    atoms: u64,
    /// Time of a step (fs).
    step: f64,
    /// Reach of pairs (nm).
    cutoff: f64,
    /// Between points of the mesh (nm); none with a reaction field.
    spacing: Option<f64>,
    /// Sides of the box, one to another.
    shape: [f64; 3],
}

/// The program on its ranks.
#[derive(Debug, Clone, Copy)]
struct Gromacs {
    system: System,
    ranks: u32,
    /// Every so manieth rank has the mesh; 1: every rank has space and mesh, 0: none has a mesh.
    ratio: u32,
    space: Grid,
    mesh: [u32; 2],
    every: u64,
    steps: u64,
}

pub(crate) fn program(parsed: &Parsed, layout: Layout) -> Result<Arc<dyn Program>, UsageError> {
    let (mut system, mut npme, mut every, mut steps, mut atoms, mut cutoff) = (SYSTEMS[1], None, 10, 10_000, None, None);
    for given in &parsed.options {
        match given.name {
            "system" => system = named(given.value.as_deref().unwrap_or_default())?,
            "atoms" => atoms = Some(arguments::number(given, 1000, 1 << 40)?),
            "npme" => npme = Some(arguments::number(given, 0, u64::from(u32::MAX))? as u32),
            "gcom" => every = arguments::number(given, 1, 10_000)?,
            "nsteps" => steps = arguments::number(given, 1, 1 << 40)?,
            "cutoff" => cutoff = Some(positive(given)?),
            _ => {}
        }
    }
    (system.atoms, system.cutoff) = (atoms.unwrap_or(system.atoms), cutoff.unwrap_or(system.cutoff));
    let ranks = layout.ranks();
    let ratio = match (system.spacing, npme) {
        (None, None | Some(0)) => 0,
        (None, Some(_)) => {
            let what = format!("--npme with {}, whose electrostatics have no mesh", system.name);
            return Err(conflict(what, "leave --npme out"));
        }
        (Some(_), Some(0)) => 1,
        (Some(_), Some(npme)) if ranks.is_multiple_of(npme) && npme < ranks => ranks / npme,
        (Some(_), Some(npme)) => {
            let what = format!("{npme} ranks of the mesh among {ranks}");
            return Err(conflict(what, "use a divisor of the ranks, such as a quarter of them"));
        }
        // As mdrun: few ranks have both; else the mesh has some ranks of its own.
        (Some(_), None) if ranks < FEW => 1,
        (Some(_), None) => (4..=ranks / 2).find(|ratio| ranks.is_multiple_of(*ratio)).unwrap_or(1),
    };
    let (space, mesh) = match ratio {
        0 => (ranks, 1),
        1 => (ranks, ranks),
        ratio => (ranks - ranks / ratio, ranks / ratio),
    };
    let this = Gromacs {
        system,
        ranks,
        ratio,
        space: Grid { dims: least_surface(sides(&system), space), periodic: true },
        mesh: dims_create(mesh),
        every,
        steps,
    };
    let [x, y, z] = this.points();
    if ratio > 0 && (x / u64::from(this.mesh[0])).min(y / u64::from(this.mesh[1])) < ORDER {
        let what = format!("a mesh of {x} x {y} x {z} points on {} x {} ranks", this.mesh[0], this.mesh[1]);
        return Err(conflict(what, "use fewer ranks of the mesh (--npme), or more atoms"));
    }
    Ok(Arc::new(this))
}

/// The sides of the box (nm).
fn sides(system: &System) -> [f64; 3] {
    let unit = libm::cbrt(system.atoms as f64 / DENSITY / system.shape.iter().product::<f64>());
    system.shape.map(|side| side * unit)
}

fn named(name: &str) -> Result<System, UsageError> {
    SYSTEMS.iter().find(|system| system.name.eq_ignore_ascii_case(name)).copied().ok_or_else(|| {
        let names: Vec<&str> = SYSTEMS.iter().map(|system| system.name).collect();
        conflict(format!("there is no system `{name}`"), &format!("use one of {}", names.join(", ")))
    })
}

impl Program for Gromacs {
    fn title(&self) -> String {
        let (System { name, atoms, cutoff, .. }, [x, y, z]) = (self.system, self.space.dims);
        let mesh = match self.ratio {
            0 => "reaction field".to_owned(),
            _ => {
                let ([i, j, k], [rows, columns]) = (self.points(), self.mesh);
                format!("mesh of {i} x {j} x {k} on {rows} x {columns}")
            }
        };
        format!("GROMACS, {name}, {atoms} atoms, cutoff {cutoff} nm: space on {x} x {y} x {z} ranks, {mesh}")
    }

    fn steps(&self, rank: u32) -> Steps {
        let this = *self;
        let step = move |number: u64| {
            let mut steps = match this.room(rank) {
                Room::Space(cell) => this.of_space(cell, None),
                Room::Mesh(place) => this.of_mesh(place, true),
                Room::Both(cell) => this.of_space(cell, Some(cell)),
            };
            if number + 1 == this.every {
                steps.push(Step::Collective(Collective::all_reduce(rank, this.ranks, ENERGIES)));
            }
            steps.into_iter()
        };
        Box::new((0..this.every).flat_map(step))
    }

    fn whole(&self) -> Whole {
        let work = self.every as f64 * self.system.step * 1e-6 * DAY;
        Whole { iterations: self.steps.div_ceil(self.every), merit: Some(Merit { name: "speed", unit: "ns/day", work }) }
    }

    fn log(&self, ran: &Ran) -> String {
        let cores = f64::from(self.ranks * ran.threads);
        let mesh = if self.ratio > 1 { self.ranks / self.ratio } else { 0 };
        let mut text = String::from("\n     R E A L   C Y C L E   A N D   T I M E   A C C O U N T I N G\n\n");
        text += &match mesh {
            0 => format!("On {} MPI ranks\n\n", self.ranks),
            _ => format!("On {} MPI ranks doing PP, and\non {mesh} MPI ranks doing PME\n\n", self.ranks - mesh),
        };
        text += " Activity:              Num   Num      Call    Wall time\n";
        text += "                        Ranks Threads  Count      (s)           %\n";
        let rule = "-".repeat(80);
        text += &format!("{rule}\n");
        for (call, count, seconds) in &ran.calls {
            let share = if ran.seconds > 0.0 { 100.0 * seconds / ran.seconds } else { 0.0 };
            text += &format!(" {call:<22} {:>5} {:>7} {count:>8.0} {seconds:>10.3} {share:>10.1}\n", self.ranks, ran.threads);
        }
        text += &format!("{rule}\n Total                 {:>32.3} {:>10.1}\n{rule}\n\n", ran.seconds, 100.0);
        text += "               Core t (s)   Wall t (s)        (%)\n";
        text += &format!("       Time:{:>13.3}{:>13.3}{:>11.1}\n", ran.seconds * cores, ran.seconds, 100.0 * cores);
        let nanoseconds = self.steps as f64 * self.system.step * 1e-6;
        let (per_day, hours) = (nanoseconds * DAY / ran.seconds, ran.seconds / 3600.0 / nanoseconds);
        text += "                 (ns/day)    (hour/ns)\n";
        text += &format!("Performance:{per_day:>13.3}{hours:>13.3}\nFinished mdrun on rank 0\n");
        text
    }
}

/// What a rank has: a cell, a part of the mesh, or both.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Room {
    Space(u32),
    Mesh(u32),
    Both(u32),
}

impl Gromacs {
    fn room(&self, rank: u32) -> Room {
        match self.ratio {
            0 => Room::Space(rank),
            1 => Room::Both(rank),
            ratio if rank % ratio == ratio - 1 => Room::Mesh(rank / ratio),
            ratio => Room::Space(rank - rank / ratio),
        }
    }
    /// The rank that has a cell, and that which has a part of the mesh.
    fn of_cell(&self, cell: u32) -> u32 {
        if self.ratio > 1 { cell + cell / (self.ratio - 1) } else { cell }
    }
    fn of_part(&self, part: u32) -> u32 {
        if self.ratio > 1 { part * self.ratio + self.ratio - 1 } else { part }
    }

    /// Points of the mesh in each direction: the next numbers with the small factors that FFTs like.
    fn points(&self) -> [u64; 3] {
        sides(&self.system).map(|side| self.points_on(side))
    }
    fn points_on(&self, side: f64) -> u64 {
        let least = (side / self.system.spacing.unwrap_or(f64::INFINITY)).ceil().max(1.0) as u64;
        let smooth = |number: &u64| {
            let mut rest = *number;
            for factor in [2, 3, 5, 7] {
                while rest.is_multiple_of(factor) {
                    rest /= factor;
                }
            }
            rest == 1
        };
        (least..).find(smooth).unwrap_or(least)
    }
    fn atoms_of_cell(&self) -> u64 {
        (self.system.atoms / u64::from(self.space.ranks())).max(1)
    }
    fn atoms_of_part(&self) -> u64 {
        (self.system.atoms / u64::from(self.mesh[0] * self.mesh[1])).max(1)
    }

    /// Coordinates from one side in z, y and x, slab by slab; forces the other way round.
    fn halo(&self, cell: u32, reach: f64, share: f64, back: bool) -> Vec<Step> {
        let whole = sides(&self.system);
        let mut side: [f64; 3] = std::array::from_fn(|d| whole[d] / f64::from(self.space.dims[d]));
        let mut steps = Vec::new();
        for d in [2, 1, 0] {
            if self.space.dims[d] < 2 {
                continue;
            }
            let area: f64 = side.iter().enumerate().filter(|(other, _)| *other != d).map(|(_, side)| side).product();
            let hop = |by: i32| std::array::from_fn(|other| if other == d { by } else { 0 });
            let (Some(down), Some(up)) = (self.space.neighbour(cell, hop(-1)), self.space.neighbour(cell, hop(1))) else { continue };
            let (mut left, own) = (reach, side[d]);
            // A slab no thicker than a cell in each pulse.
            while left > 0.0 {
                let bytes = Bytes(((DENSITY * area * left.min(own) * share).round() as u64).max(1) * VECTOR);
                let (to, from) = if back { (up, down) } else { (down, up) };
                let (to, from) = (self.of_cell(to), self.of_cell(from));
                let (sends, receives) = (vec![(to, bytes)], vec![(from, bytes)]);
                steps.push(Step::Exchange(Exchange { sends, receives, packed: bytes, ..Exchange::default() }));
                left -= own;
            }
            side[d] += reach;
        }
        if back {
            steps.reverse();
        }
        steps
    }

    fn of_space(&self, cell: u32, both: Option<u32>) -> Vec<Step> {
        let own = self.atoms_of_cell();
        let bytes = Bytes(own * VECTOR);
        let part = (self.ratio > 1).then(|| self.of_part(cell / (self.ratio - 1)));
        let one =
            |to: Vec<(u32, Bytes)>, from: Vec<(u32, Bytes)>| Step::Exchange(Exchange { sends: to, receives: from, ..Exchange::default() });
        let mut steps: Vec<Step> = part.iter().map(|part| one(vec![(*part, bytes)], Vec::new())).collect();
        let reach = self.system.cutoff + BUFFER;
        steps.extend(self.halo(cell, reach, 1.0, false));
        steps.push(Step::Work(self.pairs()));
        if let Some(part) = both {
            steps.extend(self.of_mesh(part, false));
        }
        steps.extend(self.halo(cell, reach, 1.0, true));
        steps.extend(part.iter().map(|part| one(Vec::new(), vec![(*part, bytes)])));
        steps.push(Step::Work(self.update()));
        // P-LINCS: coupled atoms beyond the faces, before and after.
        for _ in 0..2 {
            steps.extend(self.halo(cell, BONDS, SOLUTE, false));
        }
        steps
    }

    fn of_mesh(&self, part: u32, apart: bool) -> Vec<Step> {
        let mut steps = Vec::new();
        if apart {
            let bytes = Bytes(self.atoms_of_cell() * VECTOR);
            let receives = self.cells_of(part).map(|cell| (self.of_cell(cell), bytes)).collect();
            steps.push(Step::Exchange(Exchange { receives, ..Exchange::default() }));
        }
        let atoms = self.atoms_of_part();
        // Atoms whose cell is not where their part of the mesh is.
        let moved = self.sideways(part, Bytes((atoms as f64 * MOVED) as u64 * (VECTOR + 4)));
        let overlap = self.overlap(part);
        let [rows, columns] = [true, false].map(|row| Step::Collective(self.transposed(part, row)));
        let fft = || Step::Work(self.transforms());
        steps.extend(moved.clone());
        steps.push(Step::Work(self.splines(SPREAD)));
        steps.extend(overlap.clone());
        steps.extend([fft(), rows.clone(), fft(), columns.clone(), fft()]);
        steps.extend([fft(), columns, fft(), rows, fft()]);
        steps.extend(overlap);
        steps.push(Step::Work(self.splines(GATHER)));
        steps.extend(moved);
        if apart {
            let bytes = Bytes(self.atoms_of_cell() * VECTOR);
            let sends = self.cells_of(part).map(|cell| (self.of_cell(cell), bytes)).collect();
            steps.push(Step::Exchange(Exchange { sends, ..Exchange::default() }));
        }
        steps
    }

    fn cells_of(&self, part: u32) -> std::ops::Range<u32> {
        let each = self.ratio - 1;
        part * each..(part + 1) * each
    }

    /// The same to both neighbours in each direction of the mesh.
    fn sideways(&self, part: u32, bytes: Bytes) -> Vec<Step> {
        let all = |d: usize| self.both_sides(part, d, bytes);
        (0..2).filter_map(all).collect()
    }
    /// Points that splines of atoms reach into the neighbour's part.
    fn overlap(&self, part: u32) -> Vec<Step> {
        let n = self.points();
        let bytes = |d: usize| Bytes((ORDER - 1) * n[2] * n[1 - d].div_ceil(u64::from(self.mesh[1 - d])) * FLOAT);
        (0..2).filter_map(|d| self.both_sides(part, d, bytes(d))).collect()
    }
    fn both_sides(&self, part: u32, d: usize, bytes: Bytes) -> Option<Step> {
        let [_, columns] = self.mesh;
        let size = self.mesh[d];
        if size < 2 {
            return None;
        }
        let at = [part / columns, part % columns];
        let beside = |by: u32| {
            let mut there = at;
            there[d] = (at[d] + by) % size;
            self.of_part(there[0] * columns + there[1])
        };
        let (up, down) = (beside(1), beside(size - 1));
        let (sends, receives) = (vec![(down, bytes), (up, bytes)], vec![(up, bytes), (down, bytes)]);
        Some(Step::Exchange(Exchange { sends, receives, packed: Bytes(2 * bytes.0), ..Exchange::default() }))
    }

    /// Complex numbers of a part: half of the spectrum of real ones.
    fn spectrum(&self) -> u64 {
        let [x, y, z] = self.points();
        (z / 2 + 1) * x.div_ceil(u64::from(self.mesh[0])) * y.div_ceil(u64::from(self.mesh[1]))
    }

    fn transposed(&self, part: u32, row: bool) -> Collective {
        let [rows, columns] = self.mesh;
        let (first, stride, members, index) =
            if row { (part / columns * columns, 1, columns, part % columns) } else { (part % columns, columns, rows, part / columns) };
        let apart = self.ratio.max(1);
        let group = Group::regular(self.of_part(first), stride * apart, members);
        let size = Bytes((self.spectrum() * 2 * FLOAT).div_ceil(members.into()));
        Collective { operation: Kind::Alltoall, group, index, root: 0, size, width: Bytes(FLOAT) }
    }

    /// Pairs within the list, each once, and bonds.
    fn pairs(&self) -> Work {
        let atoms = self.atoms_of_cell();
        let reach = self.system.cutoff + BUFFER;
        let each = 2.0 / 3.0 * std::f64::consts::PI * reach * reach * reach * DENSITY;
        let pairs = (atoms as f64 * each) as u64;
        Work { flops: pairs * PAIR_FLOPS, bytes: Bytes(pairs * PAIR_BYTES), footprint: Bytes(atoms * STATE) }
    }
    fn update(&self) -> Work {
        let atoms = self.atoms_of_cell();
        Work { flops: atoms * 30, bytes: Bytes(atoms * STATE * 2), footprint: Bytes(atoms * STATE) }
    }
    fn splines(&self, accesses: u64) -> Work {
        let points = self.atoms_of_part() * ORDER * ORDER * ORDER;
        Work { flops: points * 4, bytes: Bytes(points * accesses * FLOAT), footprint: Bytes(self.spectrum() * 2 * FLOAT) }
    }
    fn transforms(&self) -> Work {
        let own = self.spectrum();
        let logarithm = u64::from(self.points()[2].max(2).ilog2());
        Work { flops: 5 * own * logarithm, bytes: Bytes(2 * own * 2 * FLOAT), footprint: Bytes(own * 2 * FLOAT) }
    }
}

/// The benchmarks. Basis: published (C. Kutzner et al., J. Comput. Chem. 40, 2019, for benchMEM, benchRIB and benchPEP; Páll et al., J. Chem.
/// Phys. 153, 2020, for stmv; the benchmark suite of PRACE for lignocellulose; hpc-uk/archer-benchmarks @f644ea4, logs of 1400k-atoms, for
/// hEGFRDimerPair); the spacing of stmv is assumed, that of benchMEM.
const SYSTEMS: [System; 6] = [
    System { name: "benchMEM", atoms: 81_743, step: 2.0, cutoff: 1.0, spacing: Some(0.12), shape: CUBE },
    System { name: "stmv", atoms: 1_066_628, step: 2.0, cutoff: 1.2, spacing: Some(0.12), shape: CUBE },
    System { name: "hEGFRDimerPair", atoms: 1_403_180, step: 2.0, cutoff: 1.2, spacing: Some(0.12), shape: [160.0, 280.0, 208.0] },
    System { name: "benchRIB", atoms: 2_136_412, step: 4.0, cutoff: 1.0, spacing: Some(0.135), shape: CUBE },
    System { name: "lignocellulose", atoms: 3_316_463, step: 2.0, cutoff: 1.2, spacing: None, shape: CUBE },
    System { name: "benchPEP", atoms: 12_495_503, step: 2.0, cutoff: 1.2, spacing: Some(0.16), shape: CUBE },
];
/// A box whose shape nobody prints. Basis: assumed.
const CUBE: [f64; 3] = [1.0; 3];
/// Atoms in a cubic nanometre. Basis: standard, water at 1 kg/l has 33.4 molecules there.
const DENSITY: f64 = 100.0;
/// What the list reaches beyond the cutoff when it is made every 100 steps (nm). Basis: published, the same logs: 1.331 beside 1.2.
const BUFFER: f64 = 0.131;
/// How far constraints reach across a face (nm). Basis: published, the same logs.
const BONDS: f64 = 0.222;
/// Atoms that have constraints beside those of water, which needs no messages. Basis: assumed.
const SOLUTE: f64 = 0.1;
/// Atoms that go to a neighbour of the mesh in each direction. Basis: assumed: cells and parts of the mesh are cut unlike.
const MOVED: f64 = 0.25;
/// Points of a spline in each direction. Basis: standard, `pme-order` by default.
const ORDER: u64 = 4;
/// Ranks below which all have space and mesh. Basis: published, the manual of mdrun (`-npme`).
const FEW: u32 = 19;
/// A float, and three. Basis: standard, mixed precision.
const FLOAT: u64 = 4;
const VECTOR: u64 = 3 * FLOAT;
/// Doubles that are summed: energies, virial, temperatures. Basis: assumed.
const ENERGIES: u32 = 80;
/// Of a pair in clusters of four: its share of coordinates, charge, kind and force; operations. Basis: counted, from Páll and Hess.
const PAIR_BYTES: u64 = 12;
const PAIR_FLOPS: u64 = 45;
/// Bytes of an atom: coordinates, velocity, force, mass, charge, kind. Basis: counted.
const STATE: u64 = 3 * VECTOR + 3 * FLOAT;
/// Times that a point of a spline is read or written when charges are spread, and when forces are gathered. Basis: counted.
const SPREAD: u64 = 2;
const GATHER: u64 = 1;
/// Seconds of a day. Basis: standard.
const DAY: f64 = 86_400.0;

#[cfg(test)]
mod tests {
    use super::*;

    fn on(ranks: u32) -> Gromacs {
        Gromacs {
            system: SYSTEMS[2],
            ranks,
            ratio: 4,
            space: Grid { dims: least_surface(sides(&SYSTEMS[2]), ranks - ranks / 4), periodic: true },
            mesh: dims_create(ranks / 4),
            every: 1,
            steps: 100,
        }
    }

    /// Whatever anybody sends, the other side expects, in the same order of sizes.
    #[test]
    fn what_is_sent_is_expected() {
        let this = on(128);
        let (mut sent, mut expected) = (Vec::new(), Vec::new());
        for rank in 0..128 {
            for step in this.steps(rank) {
                match step {
                    Step::Exchange(exchange) => {
                        sent.extend(exchange.sends.iter().map(|(to, bytes)| (rank, *to, bytes.0)));
                        expected.extend(exchange.receives.iter().map(|(from, bytes)| (*from, rank, bytes.0)));
                    }
                    Step::Collective(collective) => assert_eq!(collective.group.rank(collective.index), rank),
                    _ => {}
                }
            }
        }
        sent.sort_unstable();
        expected.sort_unstable();
        assert_eq!(sent, expected);
    }

    /// A box of (1,066,628 / 100)^(1/3) = 22.0 nm, 184 points at 0.12 nm are 2³ · 23; the next that FFTs like is 189 = 3³ · 7.
    #[test]
    fn the_mesh_has_small_factors() {
        let stmv = Gromacs { system: SYSTEMS[1], ..on(128) };
        assert_eq!(stmv.points(), [189; 3]);
    }

    /// The log of one node of ARCHER2: 1,441,356 atoms are sent in a step by all ranks; those of 4 nodes 2,844,184, whose cells mdrun cut longer.
    #[test]
    fn as_many_atoms_are_sent_as_the_log_says() {
        for (ranks, logged) in [(128, 1_441_356.0), (512, 2_844_184.0)] {
            let this = on(ranks);
            let mut bytes = 0;
            for step in this.halo(0, this.system.cutoff + BUFFER, 1.0, false) {
                let Step::Exchange(exchange) = step else { panic!("{step:?}") };
                bytes += exchange.sends.iter().map(|(_, bytes)| bytes.0).sum::<u64>();
            }
            let atoms = (bytes / VECTOR * u64::from(this.space.ranks())) as f64;
            assert!((0.85..1.05).contains(&(atoms / logged)), "{atoms} of {logged} on {ranks} ranks, {:?}", this.space.dims);
        }
    }

    /// Cells of 4 nm: a pulse for 1.3 nm, three for 11 nm.
    #[test]
    fn thin_cells_need_several_pulses() {
        let this = Gromacs { space: Grid { dims: [1, 8, 1], periodic: true }, ..on(128) };
        assert_eq!((this.halo(0, 1.3, 1.0, false).len(), this.halo(0, 11.0, 1.0, false).len()), (1, 3));
    }

    #[test]
    fn a_quarter_has_the_mesh() {
        let this = on(128);
        let mesh = (0..128).filter(|rank| matches!(this.room(*rank), Room::Mesh(_))).count();
        assert_eq!((mesh, this.room(3), this.room(4)), (32, Room::Mesh(0), Room::Space(3)));
        assert!((0..96).all(|cell| this.room(this.of_cell(cell)) == Room::Space(cell)));
    }
}
