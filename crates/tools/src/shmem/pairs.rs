//! Benchmarks between pairs of PEs: latency, message rate, overlap, atomics.
//!
//! Source: OMB 7.4, `osu_oshm_put.c`, `osu_oshm_get_mr_nb.c`, `osu_oshm_put_overlap.c`, `osu_oshm_atomics.c` and their kin.
//! Modelled: the first half of the PEs act on the second. Computation beside a put is a core that is busy for as long as the put alone takes.

use std::sync::Arc;

use fabriscope_catalog::{Mpi, Shmem};
use fabriscope_mpi::shmem::{Job, Pe};
use fabriscope_mpi::{OffloadState, Width};
use fabriscope_node::{Main, Process, ProgramError, Record, Ties};
use fabriscope_platform::Target;
use fabriscope_tool::{Placing, Prepared, Rows as Told, ToolOutput};
use fabriscope_units::{Bytes, Span};

use super::benchmark::{Act, Benchmark, Family};
use super::options::Settings;
use super::report;

/// Of each row, what each active PE measured: spans, whose meaning is the family's.
pub(super) type Rows = Vec<Vec<[Span; 4]>>;

pub(super) fn prepare(settings: Arc<Settings>, (shmem, mpi): (&Shmem, &Mpi), target: &Target) -> Prepared {
    let pes = 2 * settings.pairs;
    let heap = settings.symmetric_size.unwrap_or(shmem.heap.0).max(GLOBAL);
    let job = Job::new(shmem, mpi, target, (pes, heap), false);
    let rows = if settings.benchmark.family == Family::Atomics { OPERATIONS.len() * 2 } else { settings.sizes.len() };
    let results: Record<Rows> = Record::new(vec![Vec::new(); rows]);
    let told = Told::default();
    let inline = mpi.inline_limit.saturating_u32().min(target.max_inline);
    let desk = settings.offload.map(|offload| OffloadState::new(offload, target, inline));
    let main = || -> Main {
        let (settings, shared, results) = (settings.clone(), (job.clone(), desk.clone()), (results.clone(), told.clone()));
        Box::new(move |process| Box::pin(run(process, shared, settings, results)))
    };
    let mains = (0..pes).map(|_| main()).collect();
    let placing = match target.layout.nodes {
        1 => Placing::Blocks { per_node: pes },
        _ => Placing::Pairs { pairs: settings.pairs },
    };
    let remark = format!("{}: {}", shmem.library, if settings.heap { "buffers of the symmetric heap" } else { "static buffers" });
    let by = settings.offload.map(|offload| format!("puts and gets: {offload}"));
    let finish = move || ToolOutput { remarks: by.into_iter().chain([remark]).collect(), ..report::pairs(&settings, &results.lock()) };
    Prepared { placing, mains, ties: Ties::Any, finish: Box::new(finish), rows: told }
}

async fn run(
    process: Process,
    (job, desk): (Job, Option<OffloadState>),
    s: Arc<Settings>,
    (results, told): (Record<Rows>, Told),
) -> Result<(), ProgramError> {
    let (me, pairs) = (process.rank(), s.pairs);
    let peer = if me < pairs { me + pairs } else { me - pairs };
    let pe = Pe::init(process, job, &[peer]).await?;
    if let Some(desk) = &desk {
        pe.memory().open_offload(desk).await?;
    }
    let rows = results.lock().len();
    let tell = |done: &[Vec<[Span; 4]>]| told.tell((done.len(), rows), || report::pairs(&s, done).text);
    if me == 0 {
        tell(&[]);
    }
    for row in 0..rows {
        pe.synchronise().await?;
        if me >= pairs {
            // It is inside its library, as the barrier behind the loop has it.
            pe.memory().recv(Some(peer), Some(END), 0).await?;
            continue;
        }
        let spans = if s.benchmark.family == Family::Atomics {
            atomics(&pe, peer, row, s.iterations(0)).await?
        } else {
            messages(&pe, peer, s.sizes.get(row).copied().unwrap_or(0), &s).await?
        };
        {
            let mut results = results.lock();
            results[row].push(spans);
            if results[row].len() == pairs as usize {
                tell(&results[..=row]);
            }
        }
        pe.memory().send(peer, END, 0).await?;
    }
    pe.synchronise().await
}

/// Where the source and the destination are: both symmetric.
const SOURCE: u64 = 4 << 20;
const DESTINATION: u64 = 0;

async fn messages(pe: &Pe, peer: u32, size: u32, s: &Settings) -> Result<[Span; 4], ProgramError> {
    let (iterations, warm_up) = (s.iterations(size), s.warm_up(size));
    pe.memory().goes_through(Bytes(2 * u64::from(size)));
    let one = || operation(pe, s.benchmark, peer, size);
    let mut begun = pe.now();
    let mut alone = Span::ZERO;
    for iteration in 0..warm_up + iterations {
        if iteration == warm_up {
            pe.quiet().await?;
            begun = pe.now();
        }
        let start = pe.now();
        one().await?;
        if s.benchmark.family != Family::Rate {
            pe.quiet().await?;
        }
        if iteration >= warm_up {
            alone += pe.now().since(start);
        }
    }
    if s.benchmark.family == Family::Rate {
        pe.quiet().await?;
        alone = pe.now().since(begun);
    }
    if s.benchmark.family != Family::Overlap {
        return Ok([alone, Span::ZERO, Span::ZERO, Span::ZERO]);
    }
    let latency = alone / u64::from(iterations);
    let [mut whole, mut computing, mut posting, mut waiting] = [Span::ZERO; 4];
    for iteration in 0..warm_up + iterations {
        let start = pe.now();
        pe.put_nbi(peer, DESTINATION, SOURCE, size).await?;
        let posted = pe.now();
        pe.compute(latency);
        let computed = pe.now();
        pe.quiet().await?;
        if iteration >= warm_up {
            whole += pe.now().since(start);
            posting += posted.since(start);
            computing += computed.since(posted);
            waiting += pe.now().since(computed);
        }
        pe.fence().await?;
    }
    debug_assert_eq!(whole, posting + computing + waiting, "the parts of an iteration follow each other");
    Ok([alone, computing, posting, waiting])
}

async fn operation(pe: &Pe, benchmark: &Benchmark, peer: u32, size: u32) -> Result<(), ProgramError> {
    match benchmark.act {
        Act::Get => pe.get(peer, DESTINATION, SOURCE, size).await,
        Act::GetNonBlocking => pe.get_nbi(peer, DESTINATION, SOURCE, size).await,
        Act::PutNonBlocking => pe.put_nbi(peer, DESTINATION, SOURCE, size).await,
        Act::Put | Act::Other => pe.put(peer, DESTINATION, SOURCE, size).await,
    }
}

/// One operation of the atomics tool, so many times on elements one after the other.
async fn atomics(pe: &Pe, peer: u32, row: usize, iterations: u32) -> Result<[Span; 4], ProgramError> {
    let width = if row < OPERATIONS.len() { Width::Four } else { Width::Eight };
    let begun = pe.now();
    for iteration in 0..iterations {
        let at = (8 * u64::from(iteration % ELEMENTS), width);
        match OPERATIONS[row % OPERATIONS.len()] {
            "fadd" => drop(pe.fadd(peer, at, 1).await?),
            "finc" => drop(pe.finc(peer, at).await?),
            "add" => pe.add(peer, at, 1).await?,
            "inc" => pe.inc(peer, at).await?,
            "cswap" => drop(pe.cswap(peer, at, 0, 1).await?),
            "swap" => drop(pe.swap(peer, at, 1).await?),
            "set" => pe.set(peer, at, 1).await?,
            _ => drop(pe.fetch(peer, at).await?),
        }
    }
    let span = pe.now().since(begun);
    pe.quiet().await?;
    Ok([span, Span::ZERO, Span::ZERO, Span::ZERO])
}

/// The operations in the order of the tool, first on 4 bytes and then on 8.
pub(super) const OPERATIONS: [&str; 8] = ["fadd", "finc", "add", "inc", "cswap", "swap", "set", "fetch"];
/// Elements (basis: the tool).
const ELEMENTS: u32 = 500;
/// Static buffers beside the heap, so that `global` ones have room here. Basis: the tools, two of 4 MiB.
const GLOBAL: u64 = 8 << 20;
/// The tag of the message that ends a measurement. Basis: assumed.
const END: u32 = 1003;
