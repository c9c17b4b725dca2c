//! `--trace` and `--inspector`: who hears of a run, and what things are called there.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fabriscope_engine::{Cluster, CounterPlace, Recorder, Timeline};
use fabriscope_timeline::{Fanout, KernelLog, KernelRun, PerfettoWriter, Places, inspector, kineto};
use fabriscope_tools::Tool;
use fabriscope_units::Span;

use crate::counting::site;
use crate::error::LabError;

/// A file, and what is written into it.
type FormattedFile = (PathBuf, Format);

/// A timeline as a person asks for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TimelineRequest {
    /// A trace: `.pftrace` of everything, or `.json` of the kernels of NCCL programs.
    pub trace: Option<PathBuf>,
    /// Records of NCCL Inspector: `.jsonl`, or `.prom` for Prometheus.
    pub inspector: Option<PathBuf>,
    /// From one sample of links and adapters to the next.
    pub step: Span,
}

impl Default for TimelineRequest {
    fn default() -> TimelineRequest {
        TimelineRequest { trace: None, inspector: None, step: STEP }
    }
}

/// The step where none is named. Basis: assumed; a packet or some on today's links.
pub const STEP: Span = Span::from_us(1);

/// What is written of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Format {
    Perfetto,
    Kineto,
    InspectorLines,
    InspectorMetrics,
}

/// Those who hear of a run.
pub struct Recorders {
    /// For the engine.
    pub timeline: Timeline,
    perfetto: Option<Streamed>,
    kernels: Option<Arc<Mutex<KernelLog>>>,
    places: Places,
    after: Vec<(PathBuf, Format)>,
}

/// A trace that is written while a run goes: under a temporary name, which goes away unless it is finished.
struct Streamed {
    target: PathBuf,
    temporary: PathBuf,
    writer: Arc<Mutex<PerfettoWriter<BufWriter<File>>>>,
}

impl Drop for Streamed {
    fn drop(&mut self) {
        // Renamed already where all went well.
        drop(fs::remove_file(&self.temporary));
    }
}

/// A file of kernels, ready to be written.
#[derive(Debug)]
pub struct KernelFile {
    /// Its name.
    pub path: PathBuf,
    format: Format,
    runs: Vec<KernelRun>,
    places: Places,
}

impl TimelineRequest {
    /// Whether nobody asks for anything.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.trace.is_none() && self.inspector.is_none()
    }

    /// The trace and the records of operations, where they are asked for.
    fn formats(&self) -> Result<[Option<FormattedFile>; 2], LabError> {
        let extension = |path: &Path| path.extension().and_then(|extension| extension.to_str()).unwrap_or_default().to_owned();
        let of = |path: &Option<PathBuf>, option: &str, known: [(&str, Format); 2], help: &str| {
            let Some(path) = path else { return Ok(None) };
            let found = known.into_iter().find(|(name, _)| *name == extension(path));
            match found {
                Some((_, format)) => Ok(Some((path.clone(), format))),
                None => Err(LabError::refused(format!("{option} {}: no timeline has this extension", path.display()), help)),
            }
        };
        let trace = of(
            &self.trace,
            "--trace",
            [("pftrace", Format::Perfetto), ("json", Format::Kineto)],
            "name the file FILE.pftrace (Perfetto), or FILE.json (Kineto, the kernels of NCCL programs)",
        )?;
        let inspector = of(
            &self.inspector,
            "--inspector",
            [("jsonl", Format::InspectorLines), ("prom", Format::InspectorMetrics)],
            "name the file FILE.jsonl (a line for each operation), or FILE.prom (metrics for Prometheus)",
        )?;
        Ok([trace, inspector])
    }

    /// Whether files are asked for that hold kernels of NCCL programs and nothing else.
    ///
    /// # Errors
    /// Extensions that no timeline has; steps of no length.
    pub fn needs_kernels(&self) -> Result<bool, LabError> {
        if self.step == Span::ZERO {
            return Err(LabError::refused("--trace-step 0 is no interval", "write a time such as 1us"));
        }
        let [trace, inspector] = self.formats()?;
        Ok(inspector.is_some() || trace.is_some_and(|(_, format)| format == Format::Kineto))
    }

    /// Refuses files of kernels for a tool that runs none.
    ///
    /// # Errors
    /// It runs none; and as [`needs_kernels`](Self::needs_kernels).
    pub fn check(&self, tool: Tool) -> Result<(), LabError> {
        if self.needs_kernels()? && !matches!(tool, Tool::NcclTests(_) | Tool::Xccl(_)) {
            let what = format!("kernels of NCCL for --inspector or --trace FILE.json: {} runs none", tool.name());
            return Err(LabError::refused(what, "use --trace FILE.pftrace, or a program of NCCL such as all_reduce_perf"));
        }
        Ok(())
    }

    /// Those who hear of a run on a cluster; `None` where nobody asks.
    ///
    /// # Errors
    /// Extensions that no timeline has, files that cannot be made.
    pub fn recorders(&self, cluster: &Cluster) -> Result<Option<Recorders>, LabError> {
        if self.is_empty() {
            return Ok(None);
        }
        let _ = self.needs_kernels()?;
        let [trace, inspector] = self.formats()?;
        let places = places(cluster);
        let (mut all, mut perfetto): (Vec<Arc<Mutex<dyn Recorder>>>, _) = (Vec::new(), None);
        let (now, after): (Vec<_>, Vec<_>) = trace.into_iter().chain(inspector).partition(|(_, format)| *format == Format::Perfetto);
        for (target, _) in now {
            let Some(name) = target.file_name() else {
                return Err(LabError::refused(format!("{} is not a file", target.display()), "name a file to write to"));
            };
            let temporary = target.with_file_name(format!(".{}.{}.partial", name.to_string_lossy(), std::process::id()));
            let file = File::create(&temporary).map_err(|cause| unwritable(&target, &cause))?;
            let writer = Arc::new(Mutex::new(PerfettoWriter::new(BufWriter::new(file), places.clone(), self.step)));
            all.push(writer.clone());
            perfetto = Some(Streamed { target, temporary, writer });
        }
        let kernels = (!after.is_empty()).then(|| Arc::new(Mutex::new(KernelLog::default())));
        if let Some(kernels) = &kernels {
            all.push(kernels.clone());
        }
        let recorder: Arc<Mutex<dyn Recorder>> = if all.len() == 1 { all.remove(0) } else { Arc::new(Mutex::new(Fanout(all))) };
        Ok(Some(Recorders { timeline: Timeline::new(recorder, self.step), perfetto, kernels, places, after }))
    }
}

impl Recorders {
    /// Ends what was written while the run went, and gives what is to be written now.
    ///
    /// # Errors
    /// A file that could not be written.
    pub fn finish(&mut self) -> Result<Vec<KernelFile>, LabError> {
        if let Some(trace) = self.perfetto.take() {
            let finished = lock(&trace.writer).finish();
            finished.and_then(|_| fs::rename(&trace.temporary, &trace.target)).map_err(|cause| unwritable(&trace.target, &cause))?;
        }
        let runs = self.kernels.take().map(|kernels| lock(&kernels).take()).unwrap_or_default();
        let mut files = Vec::new();
        for (path, format) in self.after.drain(..) {
            let name = path.to_string_lossy();
            let each = format == Format::Kineto && name.contains(RANK);
            let file = |path: PathBuf, runs: Vec<KernelRun>| KernelFile { path, format, runs, places: self.places.clone() };
            if !each {
                files.push(file(path.clone(), runs.clone()));
                continue;
            }
            for of_rank in runs.chunk_by(|one, other| one.rank == other.rank) {
                let rank = of_rank.first().map_or(0, |run| run.rank);
                files.push(file(PathBuf::from(name.replace(RANK, &rank.to_string())), of_rank.to_vec()));
            }
        }
        Ok(files)
    }
}

impl KernelFile {
    /// Writes it.
    ///
    /// # Errors
    /// What cannot be written.
    pub fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        match self.format {
            Format::Kineto => kineto::write(&self.runs, &self.places, out),
            Format::InspectorLines => inspector::json_lines(&self.runs, &self.places, out),
            Format::InspectorMetrics => inspector::metrics(&self.runs, &self.places, out),
            // Written while the run went.
            Format::Perfetto => Ok(()),
        }
    }
}

impl std::fmt::Debug for Recorders {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Recorders").field("after", &self.after).finish_non_exhaustive()
    }
}

/// Stands for the number of a rank in the name of a file.
const RANK: &str = "{rank}";

fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

fn unwritable(path: &Path, cause: &io::Error) -> LabError {
    let what = format!("{}: cannot be written: {cause}", path.display());
    LabError::refused(what, "choose a folder that exists and that you may write to, on a disk with room")
}

/// What nodes, adapters and links of a cluster are called.
fn places(cluster: &Cluster) -> Places {
    let (parts, graph) = (&cluster.parts, &cluster.fabric.graph);
    let node = |node: u32| parts.host_name(node).map_or_else(|| format!("node {node}"), |name| name.to_string());
    let adapter = |adapter: u32| {
        let site = site(cluster, CounterPlace::Adapter(adapter));
        (parts.adapter_at(adapter).map_or(adapter, |(_, node, _)| node), site.device)
    };
    Places {
        cluster: parts.name.clone(),
        nodes: (0..parts.nodes()).map(node).collect(),
        adapters: (0..graph.endpoint_count()).map(adapter).collect(),
        links: (0..graph.link_count()).map(|link| site(cluster, CounterPlace::Port(link)).to_string()).collect(),
    }
}
