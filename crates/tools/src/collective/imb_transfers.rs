//! Transfers of `IMB-MPI1`: PingPong, PingPing, Sendrecv, Exchange, Uniband and Biband.
//!
//! - PingPong, 0 ⇄ 1: MPI_Send and MPI_Recv in turn; half of the time. PingPing, 0 ↔ 1: both send at once: MPI_Isend, MPI_Recv.
//! - Sendrecv, → r →: MPI_Sendrecv to the right, from the left. Exchange, ⇄ r ⇄: MPI_Isend to both, MPI_Recv from both.
//! - Uniband, r ⇒ r + n/2: 64 × MPI_Isend, a byte back. Biband, r ⇔ r + n/2: 64 each way, a byte back.
//!
//! Source: Intel MPI Benchmarks 2019 and 2021, user guide ("Single transfer", "Parallel transfer", "ParallelTransferMsgRate").
//! Rates are those of the slowest rank: the bytes of a message once (PingPong, PingPing), twice (Sendrecv) or four times (Exchange) by its
//! time; of all pairs together for Uniband and Biband. A Mbyte is a million bytes.
//! Modelled: calls and their order; iterations back to back behind a barrier; PingPong and PingPing between ranks 0 and 1, whatever else
//! there is.
//! Not modelled: the tool's own number of iterations, which is ten times as many, and its barrier as messages.

use std::fmt::Write;
use std::sync::Arc;

use fabriscope_mpi::{Rank, World};
use fabriscope_node::{Main, Process, ProgramError, Record};
use fabriscope_platform::Target;
use fabriscope_tool::{Placing, Point, Prepared, Rows, ToolOutput, UsageError, mpi_for};
use fabriscope_units::{Bytes, Span};

use super::imb::{END, TOOL, WIDTH, head};
use super::measure::statistics;
use super::plan;

/// One of them.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Transfer {
    pub name: &'static str,
    pattern: Pattern,
    /// Of the time of an iteration, what is printed: one part in so many.
    parts: u64,
    /// How often a rate counts the bytes of a message.
    counts: u64,
}

/// What an iteration is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Pattern {
    PingPong,
    PingPing,
    Sendrecv,
    Exchange,
    /// A window of messages; with `both`, each way.
    Windows {
        both: bool,
    },
}

/// Every transfer, with its scale of time and of rates (basis: the tool).
pub(super) static TRANSFERS: [Transfer; 6] = [
    Transfer { name: "PingPong", pattern: Pattern::PingPong, parts: 2, counts: 1 },
    Transfer { name: "PingPing", pattern: Pattern::PingPing, parts: 1, counts: 1 },
    Transfer { name: "Sendrecv", pattern: Pattern::Sendrecv, parts: 1, counts: 2 },
    Transfer { name: "Exchange", pattern: Pattern::Exchange, parts: 1, counts: 4 },
    Transfer { name: "Uniband", pattern: Pattern::Windows { both: false }, parts: 1, counts: 1 },
    Transfer { name: "Biband", pattern: Pattern::Windows { both: true }, parts: 1, counts: 2 },
];

impl Transfer {
    /// Whether it is between ranks 0 and 1.
    pub(super) fn is_of_two(&self) -> bool {
        matches!(self.pattern, Pattern::PingPong | Pattern::PingPing)
    }
    /// Whom a rank exchanges messages with; the first is to its left or its only one.
    fn partners(&self, me: u32, ranks: u32) -> Vec<u32> {
        match self.pattern {
            Pattern::PingPong | Pattern::PingPing if me < 2 => vec![1 - me],
            Pattern::PingPong | Pattern::PingPing => Vec::new(),
            Pattern::Sendrecv | Pattern::Exchange => vec![(me + ranks - 1) % ranks, (me + 1) % ranks],
            Pattern::Windows { .. } => vec![(me + ranks / 2) % ranks],
        }
    }
    /// Messages that a rank sends in an iteration at most.
    fn messages(&self) -> u64 {
        match self.pattern {
            Pattern::PingPong | Pattern::PingPing | Pattern::Sendrecv => 1,
            Pattern::Exchange => 2,
            Pattern::Windows { .. } => WINDOW,
        }
    }
    fn columns(&self) -> &'static [&'static str] {
        match self.pattern {
            Pattern::PingPong | Pattern::PingPing => &["#bytes", "#repetitions", "t[usec]", "Mbytes/sec"],
            Pattern::Sendrecv | Pattern::Exchange => &["#bytes", "#repetitions", "t_min[usec]", "t_max[usec]", "t_avg[usec]", "Mbytes/sec"],
            Pattern::Windows { .. } => &["#bytes", "#repetitions", "Mbytes/sec", "Msg/sec"],
        }
    }
}

/// What all ranks know.
struct Job {
    transfer: &'static Transfer,
    line: String,
    sizes: Vec<u32>,
    iterations: Option<u32>,
    ranks: u32,
    per_node: u32,
    world: World,
    rows: Rows,
}

/// The mean iteration of each rank that takes part, by size.
type Results = Record<Vec<Vec<Span>>>;

/// The programs of `transfer`.
pub(super) fn prepare(
    transfer: &'static Transfer,
    line: String,
    sizes: Vec<u32>,
    iterations: Option<u32>,
    target: &Target,
) -> Result<Prepared, UsageError> {
    let (per_node, ranks) = (target.layout.per_node, target.layout.ranks());
    let conflict = |what: String, remedy: &str| Err(UsageError::Conflict { what, remedy: remedy.to_owned() });
    if ranks < 2 {
        return conflict(format!("{TOOL} {} needs two ranks", transfer.name), "add --nodes 2, or --ppn 2");
    }
    if ranks % 2 == 1 && matches!(transfer.pattern, Pattern::Windows { .. }) {
        let what = format!("{TOOL} {} pairs the ranks of two halves, and {ranks} is odd", transfer.name);
        return conflict(what, "use an even number: --nodes and --ppn set it");
    }
    let mpi = mpi_for(TOOL, target)?;
    let rows = Rows::default();
    let world = World::of_hosts(mpi, target, ranks);
    let results: Results = Record::new(vec![Vec::new(); sizes.len()]);
    let ties = world.ties();
    let job = Arc::new(Job { transfer, line, sizes, iterations, ranks, per_node, world, rows: rows.clone() });
    let main = || -> Main {
        let (job, results) = (job.clone(), results.clone());
        Box::new(move |process| Box::pin(run(process, job, results)))
    };
    let mains = (0..ranks).map(|_| main()).collect();
    let finish = move || ToolOutput { remarks: job.remarks(), ..job.report(&results.lock()) };
    Ok(Prepared { placing: Placing::Blocks { per_node }, mains, ties, finish: Box::new(finish), rows })
}

/// One rank: all sizes in turn.
async fn run(process: Process, job: Arc<Job>, results: Results) -> Result<(), ProgramError> {
    let me = process.rank();
    let partners = job.transfer.partners(me, job.ranks);
    let mut peers = partners.clone();
    peers.sort_unstable();
    peers.dedup();
    let rank = Rank::init(process, job.world.clone(), &peers).await?;
    if me == 0 {
        job.tell(&[]);
    }
    for (at, &size) in job.sizes.iter().enumerate() {
        rank.goes_through(Bytes(2 * u64::from(size)));
        rank.synchronise().await?;
        if partners.is_empty() {
            continue;
        }
        let iterations = job.iterations(size);
        for _ in 0..u32::from(iterations > 1) {
            iteration(&rank, job.transfer.pattern, &partners, size).await?;
        }
        let start = rank.now();
        for _ in 0..iterations {
            iteration(&rank, job.transfer.pattern, &partners, size).await?;
        }
        let mean = rank.now().since(start) / (u64::from(iterations) * job.transfer.parts);
        let mut results = results.lock();
        results[at].push(mean);
        if results[at].len() == job.active() as usize {
            job.tell(&results[..=at]);
        }
    }
    rank.synchronise().await
}

/// One iteration of a rank that takes part.
async fn iteration(rank: &Rank, pattern: Pattern, partners: &[u32], size: u32) -> Result<(), ProgramError> {
    let (left, right) = (partners[0], partners[partners.len() - 1]);
    match pattern {
        Pattern::PingPong if rank.rank() == 0 => {
            rank.send(right, TAG, size).await?;
            rank.recv(Some(right), Some(TAG), size).await
        }
        Pattern::PingPong => {
            rank.recv(Some(left), Some(TAG), size).await?;
            rank.send(left, TAG, size).await
        }
        Pattern::PingPing => {
            let sent = rank.isend(right, TAG, size)?;
            rank.recv(Some(right), Some(TAG), size).await?;
            rank.wait(sent).await
        }
        Pattern::Sendrecv => {
            let received = rank.irecv(Some(left), Some(TAG), size)?;
            let sent = rank.isend(right, TAG, size)?;
            rank.wait_all(vec![received, sent]).await
        }
        Pattern::Exchange => {
            let sent = vec![rank.isend(right, TAG, size)?, rank.isend(left, TAG, size)?];
            rank.recv(Some(left), Some(TAG), size).await?;
            rank.recv(Some(right), Some(TAG), size).await?;
            rank.wait_all(sent).await
        }
        Pattern::Windows { both } => {
            let first = rank.rank() < right;
            let mut requests = Vec::with_capacity(2 * WINDOW as usize);
            for _ in 0..if both || !first { WINDOW } else { 0 } {
                requests.push(rank.irecv(Some(right), Some(TAG), size)?);
            }
            for _ in 0..if both || first { WINDOW } else { 0 } {
                requests.push(rank.isend(right, TAG, size)?);
            }
            rank.wait_all(requests).await?;
            if first { rank.recv(Some(right), Some(TAG), 1).await } else { rank.send(right, TAG, 1).await }
        }
    }
}

impl Job {
    /// Ranks that take part.
    fn active(&self) -> u32 {
        if self.transfer.is_of_two() { 2 } else { self.ranks }
    }
    fn iterations(&self, size: u32) -> u32 {
        let size = Bytes(size.into());
        let usual = || plan::usual_iterations(self.transfer.messages() * plan::packets(size) * u64::from(self.active()), size);
        // The first of a window finds nothing in flight.
        let least = if matches!(self.transfer.pattern, Pattern::Windows { .. }) { LEAST_WINDOWS } else { 1 };
        self.iterations.unwrap_or_else(|| usual().max(least))
    }
    /// The rows of these results are done.
    fn tell(&self, results: &[Vec<Span>]) {
        self.rows.tell((results.len(), self.sizes.len()), || self.report(results).text);
    }

    fn report(&self, results: &[Vec<Span>]) -> ToolOutput {
        let largest = self.sizes.last().copied().unwrap_or(0);
        let idle = self.ranks - self.active();
        let mut processes = format!("# #processes = {} \n", self.active());
        if idle > 0 {
            let noun = if idle == 1 { "process" } else { "processes" };
            let _ = writeln!(processes, "# ( {idle} additional {noun} waiting in MPI_Barrier)");
        }
        let text = head((&self.line, self.transfer.name), largest, &processes, self.transfer.columns());
        let mut output = ToolOutput { text, ..ToolOutput::default() };
        let done = |means: &&Vec<Span>| means.len() == self.active() as usize;
        let rows: Vec<(&u32, &Vec<Span>)> = self.sizes.iter().zip(results.iter().take_while(done)).collect();
        for (size, means) in &rows {
            self.row(&mut output, **size, means);
        }
        if rows.len() == self.sizes.len() {
            output.text += END;
        }
        output
    }

    fn row(&self, output: &mut ToolOutput, size: u32, means: &[Span]) {
        let (mean, least, most) = statistics(means.iter().copied());
        let messages = match self.transfer.pattern {
            Pattern::Windows { .. } => WINDOW * u64::from(self.ranks / 2),
            _ => 1,
        };
        // Per microsecond of the slowest rank: millions a second.
        let rate = if most > 0.0 { (self.transfer.counts * messages) as f64 / most } else { 0.0 };
        let megabytes = rate * f64::from(size);
        let _ = write!(output.text, "{size:>WIDTH$}{:>WIDTH$}", self.iterations(size));
        let mut point = |metric, unit, value| output.points.push(Point { size: Bytes(size.into()), metric, unit, value });
        match self.transfer.pattern {
            Pattern::PingPong | Pattern::PingPing => {
                point("latency", "us", most);
                let _ = write!(output.text, "{most:>WIDTH$.2}");
            }
            Pattern::Sendrecv | Pattern::Exchange => {
                point("latency", "us", mean);
                let _ = write!(output.text, "{least:>WIDTH$.2}{most:>WIDTH$.2}{mean:>WIDTH$.2}");
            }
            Pattern::Windows { .. } => {
                point("message_rate", "messages/s", rate * 1e6);
            }
        }
        output.points.push(Point { size: Bytes(size.into()), metric: "bandwidth", unit: "MB/s", value: megabytes });
        let _ = write!(output.text, "{megabytes:>WIDTH$.2}");
        if matches!(self.transfer.pattern, Pattern::Windows { .. }) {
            let _ = write!(output.text, "{:>WIDTH$.0}", rate * 1e6);
        }
        output.text.push('\n');
    }

    /// Where both ranks are, which the table does not tell.
    fn remarks(&self) -> Vec<String> {
        let within = self.transfer.is_of_two() && self.per_node > 1;
        let remark = || format!("{}: ranks 0 and 1 are on one node; with --ppn 1 they are on two", self.transfer.name);
        within.then(remark).into_iter().collect()
    }
}

/// Messages of a window (basis: the tool).
const WINDOW: u64 = 64;
/// Fewest iterations of windows.
const LEAST_WINDOWS: u32 = 2;
const TAG: u32 = 1;
