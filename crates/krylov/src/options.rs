//! The command line of `krylov`.

use fabriscope_platform::Target;
use fabriscope_tool::UsageError;
use fabriscope_tool::arguments::{self, Given, Meaning::Usual, Opt, Takes, opt, value};
use fabriscope_units::Remedy;

use super::matrix::{Matrix, Stencil};
use super::offload::Offload;
use super::solver::{Preconditioner, Solver};

/// What is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Settings {
    pub matrix: Matrix,
    pub solver: Solver,
    pub preconditioner: Preconditioner,
    pub iterations: u32,
    /// Threads of a rank.
    pub threads: u32,
    /// Name of an algorithm of MPI_Allreduce.
    pub algorithm: Option<String>,
    /// What the cores on the adapters do.
    pub offload: Offload,
    /// Percent of the rows for them, where it is asked for.
    pub share: Option<u32>,
}

/// The options of the command line.
pub const OPTIONS: &[Opt] = &[
    value('n', "points", "count", "points of the grid in each direction (default 256)"),
    value('\0', "grid", "x,y,z", "the same, each direction by itself"),
    value('\0', "stencil", "7|27", "points that a row joins (default 7)"),
    value('\0', "blocks", "x,y,z", "blocks of the grid in each direction, one for each rank (default: cut in z alone)"),
    value('\0', "rows", "count", "rows of a matrix without a grid"),
    value('\0', "nonzeros", "count", "nonzeros of each of those rows (default 27)"),
    value('\0', "halo", "elements", "what a rank needs of the ranks before and behind it (default: a plane of a cube of as many points)"),
    value('\0', "solver", "cg|bicgstab|gmres", "method (default cg)"),
    value('\0', "restart", "iterations", "gmres begins again after so many (default 30)"),
    value('\0', "pc", "none|jacobi", "preconditioner (default jacobi)"),
    value('i', "iterations", "count", "measured iterations, after one (default 10; of gmres those until it begins again)"),
    value('t', "threads", "count", "threads of each rank, a core each (default: all cores, shared among the ranks of a node)"),
    value('\0', "algorithm", "name", "algorithm of MPI_Allreduce instead of the library's choice"),
    value('\0', "offload", "none|naive|hybrid|hybrid-onload", "what the cores on the adapters do (default none)"),
    value('\0', "share", "percent", "rows for those cores (default: as many as let both end together)"),
    opt('h', "help", Takes::Nothing, Usual, "show this page"),
];

const NOTES: &str =
    "\nOne rank on each node where --ppn does not say otherwise, as HYPRE and PETSc with threads. Times are means over ranks.\n";

pub(super) fn read(tool: &str, about: &str, args: &[String], target: &Target, cores: u32) -> Result<Settings, UsageError> {
    let parsed = arguments::parse(tool, OPTIONS, args)?;
    parsed.no_operands(tool)?;
    let (ranks, per_node) = (target.layout.ranks(), target.layout.per_node);
    let (mut points, mut blocks, mut stencil) = ([256; 3], None, Stencil::Seven);
    let (mut rows, mut nonzeros, mut halo) = (None, None, None);
    let (mut solver, mut restart, mut preconditioner) = (Solver::Cg, None, Preconditioner::Jacobi);
    let (mut iterations, mut threads, mut algorithm) = (None, None, None);
    let (mut offload, mut share) = (Offload::None, None);
    let mut of_grid = None;
    for given in &parsed.options {
        match given.name {
            "points" | "grid" | "stencil" | "blocks" => of_grid = of_grid.or(Some(given.typed.clone())),
            _ => {}
        }
        match given.name {
            "points" => points = [arguments::number(given, 1, MOST_POINTS)?; 3],
            "grid" => points = three(given, MOST_POINTS)?,
            "blocks" => blocks = Some(three(given, u64::from(u32::MAX))?),
            "stencil" => stencil = stencil_of(given)?,
            "rows" => rows = Some((arguments::number(given, 1, MOST_ROWS)?, given.typed.clone())),
            "nonzeros" => nonzeros = Some((arguments::number(given, 1, 1_000_000)?, given.typed.clone())),
            "halo" => halo = Some((arguments::number(given, 0, MOST_ROWS)?, given.typed.clone())),
            "solver" => solver = solver_of(given)?,
            "restart" => restart = Some(arguments::number(given, 1, 1000)? as u32),
            "pc" => preconditioner = preconditioner_of(given)?,
            "iterations" => iterations = Some(arguments::number(given, 1, 100_000)? as u32),
            "threads" => threads = Some(arguments::number(given, 1, 65_536)? as u32),
            "offload" => {
                let name = given.value.as_deref().unwrap_or_default();
                offload = Offload::named(name).ok_or_else(|| not_one_of(given, Offload::NAMES))?;
            }
            "share" => share = Some(arguments::number(given, 0, 100)? as u32),
            "algorithm" => algorithm = given.value.clone(),
            "help" => return Err(UsageError::Help { text: arguments::help(tool, about, OPTIONS, NOTES) }),
            _ => {}
        }
    }
    match (restart, &mut solver) {
        (None, _) => {}
        (Some(asked), Solver::Gmres { restart }) => *restart = asked,
        (Some(_), _) => {
            return Err(conflict(format!("--restart is for gmres, not for {}", solver.name()), "leave it out, or use --solver gmres"));
        }
    }
    let matrix = match (rows, of_grid) {
        (Some((_, rows)), Some(grid)) => {
            return Err(conflict(format!("{rows} is for a matrix without a grid, and {grid} speaks of one"), "leave one out"));
        }
        (Some((rows, _)), None) => {
            let plane = cube_root(rows).pow(2);
            let halo = halo.map_or(if ranks > 1 { plane.min(rows / u64::from(ranks.max(1))) } else { 0 }, |(halo, _)| halo);
            Matrix::Rows { rows, nonzeros: nonzeros.map_or(27, |(nonzeros, _)| nonzeros), halo }
        }
        (None, _) => {
            if let Some((_, typed)) = nonzeros.or(halo) {
                return Err(conflict(format!("{typed} is for a matrix without a grid"), "give --rows, or leave it out"));
            }
            Matrix::Grid { points, blocks: blocks.unwrap_or([1, 1, u64::from(ranks)]), stencil }
        }
    };
    matrix.check(ranks).map_err(|error| conflict(error.to_string(), &error.remedy().unwrap_or_default()))?;
    let most = (cores / per_node.max(1)).max(1);
    let threads = threads.unwrap_or(most);
    if threads.saturating_mul(per_node) > cores {
        let what = format!("{per_node} ranks of {threads} threads on the {cores} cores of a node");
        return Err(conflict(what, &format!("use --threads of at most {most}, or fewer ranks (--ppn)")));
    }
    if share.is_some() && !matches!(offload, Offload::Hybrid | Offload::Onload) {
        return Err(conflict(
            format!("--share is for rows that both have, not for --offload {offload}"),
            "use --offload hybrid or hybrid-onload",
        ));
    }
    if offload != Offload::None
        && let Matrix::Grid { blocks: [x, y, _], .. } = matrix
        && x * y > 1
    {
        let what = format!(
            "--offload {offload} with a grid cut in other directions than z: rows of the adapter would need elements of other ranks"
        );
        return Err(conflict(what, "leave --blocks out"));
    }
    let usual = if let Solver::Gmres { restart } = solver { restart } else { ITERATIONS };
    Ok(Settings { matrix, solver, preconditioner, iterations: iterations.unwrap_or(usual), threads, algorithm, offload, share })
}

fn stencil_of(given: &Given) -> Result<Stencil, UsageError> {
    match given.value.as_deref() {
        Some("7") => Ok(Stencil::Seven),
        Some("27") => Ok(Stencil::TwentySeven),
        _ => Err(not_one_of(given, "7, 27")),
    }
}

fn solver_of(given: &Given) -> Result<Solver, UsageError> {
    match given.value.as_deref() {
        Some("cg") => Ok(Solver::Cg),
        Some("bicgstab" | "bcgs") => Ok(Solver::BiCgStab),
        Some("gmres") => Ok(Solver::Gmres { restart: RESTART }),
        _ => Err(not_one_of(given, "cg, bicgstab, gmres")),
    }
}

fn preconditioner_of(given: &Given) -> Result<Preconditioner, UsageError> {
    match given.value.as_deref() {
        Some("none") => Ok(Preconditioner::None),
        Some("jacobi") => Ok(Preconditioner::Jacobi),
        _ => Err(not_one_of(given, "none, jacobi")),
    }
}

pub(super) fn conflict(what: String, remedy: &str) -> UsageError {
    UsageError::Conflict { what, remedy: remedy.to_owned() }
}

fn not_one_of(given: &Given, known: &'static str) -> UsageError {
    UsageError::NotOneOf { option: given.typed.clone(), value: given.value.clone().unwrap_or_default(), known }
}

/// Three numbers with commas between them.
fn three(given: &Given, most: u64) -> Result<[u64; 3], UsageError> {
    let text = given.value.as_deref().unwrap_or_default();
    let words: Vec<&str> = text.split([',', 'x']).collect();
    let &[x, y, z] = words.as_slice() else {
        return Err(conflict(format!("{} {text} is not three numbers", given.typed), &format!("write {} 64,64,128", given.typed)));
    };
    let one = |word: &str| arguments::number(&Given { value: Some(word.trim().to_owned()), ..given.clone() }, 1, most);
    Ok([one(x)?, one(y)?, one(z)?])
}

/// The largest number whose cube is not above.
fn cube_root(of: u64) -> u64 {
    let mut root = 1u64;
    while (root + 1).pow(3) <= of {
        root += 1;
    }
    root
}

/// Points in a direction: indices of 32 bits number the rows of a rank. Basis: assumed, 2⁴² rows in all.
const MOST_POINTS: u64 = 1 << 14;
const MOST_ROWS: u64 = 1 << 42;
/// Basis: PETSc's default of -ksp_gmres_restart.
const RESTART: u32 = 30;
/// Basis: assumed; they are all alike.
const ITERATIONS: u32 = 10;
