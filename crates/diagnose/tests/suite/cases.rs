//! Disturbed machines and undisturbed ones: whether the right cause comes first, and whether what is normal is called normal.
//!
//! A case is a table that the simulator makes with one disturbance at another seed, each point with ±5 % of noise, evenly spread.
//! Amounts of many disturbances are none of those that the cause tries. Scales of errors come from the tables of other machines.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::sync::OnceLock;

use fabriscope_catalog::{Catalog, Noise};
use fabriscope_diagnose::causes::{ALL, Amount, Scene, slow_down};
use fabriscope_diagnose::change::DOUBT;
use fabriscope_diagnose::normal::{KnownError, known_errors};
use fabriscope_diagnose::{Case, Diagnosis, Finding, Standing, compare, diagnose};
use fabriscope_lab::prediction::{Predictor, Setup};
use fabriscope_lab::published;
use fabriscope_report::question::ask;
use fabriscope_report::{Measured, Terms, measured};
use fabriscope_streams::Streams;
use fabriscope_units::{Bytes, Span};
use rayon::prelude::*;

const CASES: &str = include_str!("cases.txt");
/// The seed of disturbed machines; diagnoses have 1.
const SEED: u64 = 20;
/// Noise of a point: so many percent either way.
const NOISE: u64 = 5;
/// How far a disturbance moves a table at least, in widths of the noise: the root of the sum of squares.
const SEEN: f64 = 2.0;

/// One line of the file.
#[derive(Debug, Clone)]
struct Line {
    cluster: String,
    benchmark: String,
    rows: Vec<String>,
    cause: String,
    amount: String,
}

fn size(text: &str) -> u64 {
    let (digits, factor) = match text.strip_suffix('K') {
        Some(digits) => (digits, 1 << 10),
        None => text.strip_suffix('M').map_or((text, 1), |digits| (digits, 1 << 20)),
    };
    digits.parse::<u64>().unwrap() * factor
}

fn lines() -> Vec<Line> {
    let text = CASES.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    text.map(|line| {
        let fields: Vec<&str> = line.split('|').map(str::trim).collect();
        let [cluster, benchmark, variant, shape, sizes, metric, cause, amount] = fields[..] else { panic!("{line}") };
        let pair = |text: &str, at: &str| text.split_once(at).map(|(a, b)| (a.to_owned(), b.to_owned())).unwrap();
        let ((nodes, ranks), (metric, unit)) = (pair(shape, " "), pair(metric, " "));
        let ((from, rest), mut rows) = (pair(sizes, ".."), Vec::new());
        let (to, by) = pair(&rest, " ");
        let (mut bytes, to, by) = (size(&from), size(&to), size(&by));
        while bytes <= to {
            rows.push(format!("case,{cluster},{benchmark},\"{variant}\",{nodes},{ranks},{bytes},{metric},{unit},"));
            bytes *= by;
        }
        let own = |text: &str| text.to_owned();
        Line { cluster: own(cluster), benchmark: own(benchmark), rows, cause: own(cause), amount: own(amount) }
    })
    .collect()
}

const HEAD: &str = "table,cluster,benchmark,variant,nodes,ranks,message_bytes,metric,unit,value\n";

fn table(rows: &[String], values: &[f64]) -> Measured {
    let rows = rows.iter().zip(values).fold(HEAD.to_owned(), |text, (row, value)| format!("{text}{row}{value}\n"));
    measured::read("case.csv", rows.as_bytes()).unwrap()
}

fn catalog() -> &'static Catalog {
    static CATALOG: OnceLock<Catalog> = OnceLock::new();
    CATALOG.get_or_init(|| Catalog::embedded().unwrap())
}

fn setup(table: &Measured) -> Setup {
    let asked = ask(table, &table.rows()[0]).unwrap();
    let question = asked.questions().next().unwrap_or_else(|| panic!("{asked:?}")).clone();
    Predictor::new(catalog(), None, 1, false, |_, _| {}).setup(&question).unwrap()
}

/// The disturbance of a line: an amount of the cause, or one of its kind.
fn disturbance(line: &Line, setup: &Setup) -> Amount {
    let scene = Scene { catalog: catalog(), setup };
    let cause = ALL.iter().find(|cause| cause.name == line.cause).unwrap_or_else(|| panic!("no cause {}", line.cause));
    let Some(numbers) = line.amount.strip_prefix("= ") else {
        let amounts = (cause.amounts)(&scene);
        let known: Vec<String> = amounts.iter().map(|amount| amount.what.clone()).collect();
        return amounts.into_iter().find(|amount| amount.what.contains(&line.amount)).unwrap_or_else(|| panic!("{line:?}: of {known:?}"));
    };
    let numbers = numbers.to_owned();
    let what = numbers.clone();
    let words: Vec<String> = numbers.split(' ').map(str::to_owned).collect();
    let number = words[0].parse::<u64>().unwrap();
    let name = cause.name;
    let change = move |setup: &mut Setup| {
        let parts = &mut setup.parts;
        match name {
            "cpu-frequency" => slow_down(parts, (number, 100)),
            "iommu" => {
                let root = &mut parts.sole_mut().node.cpu.root_complex;
                root.dma_read_latency.value += Span::from_ns(number);
                root.dma_write_latency.value += Span::from_ns(number);
            }
            "os-noise" => {
                parts.noise = Some(Noise { every: Span::from_us(number), lasts: Span::from_us(words[2].parse().unwrap()) });
            }
            "eager-limit" => {
                let mpi = parts.sole_mut().software.mpi.as_mut().unwrap();
                mpi.eager_limit.value = Bytes(number);
                mpi.blocking_eager_limit.iter_mut().for_each(|limit| limit.value = Bytes(number));
                mpi.psm2.iter_mut().for_each(|psm2| psm2.eager_limit.value = Bytes(number));
                mpi.eager_copy_limit.value = (*mpi.eager_copy_limit).min(Bytes(number));
                mpi.blocking_copy_limit.iter_mut().for_each(|limit| limit.value = (**limit).min(Bytes(number)));
                mpi.fast_path_limit.value = (*mpi.fast_path_limit).min(Bytes(number));
            }
            "outstanding" => match parts.sole_mut().software.mpi.as_mut().filter(|_| setup.tool.name().starts_with("osu")) {
                Some(mpi) => {
                    mpi.window.value = number as u32;
                    mpi.signal_interval.value = 1;
                    parts.sole_mut().node.nic.max_rd_atomic.value = number as u32;
                }
                None => setup.options.extend(["-t".to_owned(), number.to_string()]),
            },
            other => panic!("{other} has no numbers"),
        }
        Ok(())
    };
    Amount { what, change: Box::new(change) }
}

/// What a machine gives with a disturbance, or as it should be, with noise.
fn made(line: &Line, disturbed: bool, id: u64) -> Measured {
    let plain = table(&line.rows, &vec![1.0; line.rows.len()]);
    let setup = setup(&plain);
    let amount = disturbance(line, &setup);
    let predictor = || Predictor::new(catalog(), None, SEED, false, |_, _| {});
    let given = |predictor: &Predictor<'_>| {
        let report = fabriscope_report::validate::validate(std::slice::from_ref(&plain), &[], &Terms::default(), predictor);
        let skipped = &report.tables[0].skipped;
        assert!(skipped.is_empty(), "{line:?}: {skipped:?}");
        report.tables[0].points.iter().map(|point| point.point.predicted).collect::<Vec<f64>>()
    };
    let sound = given(&predictor());
    let values = if disturbed { given(&predictor().changed(&*amount.change)) } else { sound.clone() };
    // What moves no point by more than noise is no case: nobody could find it in this table.
    let squares: f64 = values.iter().zip(&sound).map(|(with, without)| (libm::log(with / without) / (NOISE as f64 / 100.0)).powi(2)).sum();
    assert!(!disturbed || squares.sqrt() > SEEN, "{line:?}: the disturbance is not to be seen in this table ({})", squares.sqrt());
    let mut noise = Streams::new(SEED).stream("noise", id);
    let values: Vec<f64> =
        values.iter().map(|value| value * (1.0 + (noise.below(2000 * NOISE + 1) as f64 / 1000.0 - NOISE as f64) / 100.0)).collect();
    table(&line.rows, &values)
}

fn diagnosed(table: &Measured, terms: &Terms, errors: &[KnownError]) -> Diagnosis {
    let case = Case { catalog: catalog(), on: None, terms, errors, seed: 1, progress: &|_, _| {} };
    diagnose(&case, table).unwrap()
}

/// The rank of a cause among the groups, from 1.
fn rank(found: &Diagnosis, cause: &str) -> Option<usize> {
    found.findings.iter().position(|finding| finding.suspects.iter().any(|suspect| suspect.cause().name == cause)).map(|at| at + 1)
}

/// What came of a case: alarm, rank, and the table's row.
struct Came {
    cause: String,
    alarm: bool,
    rank: Option<usize>,
    first: Vec<&'static str>,
    row: String,
}

fn came(line: &Line, id: u64, errors: &[KnownError]) -> Came {
    let found = diagnosed(&made(line, true, id), &Terms::default(), errors);
    let alarm = found.standing.is_alarm();
    let first: Vec<&str> = found.findings.first().map_or(Vec::new(), |best| best.suspects.iter().map(|s| s.cause().name).collect());
    let rank = rank(&found, &line.cause);
    let verdict = found.standing.word();
    let told = rank.map_or_else(|| "-".to_owned(), |rank| rank.to_string());
    let Line { cluster, benchmark, cause, amount, .. } = line;
    let row =
        format!("| {cluster} | {benchmark} | {cause} | {} | {verdict} | {told} | {} |", amount.trim_start_matches("= "), first.join(", "));
    Came { cause: cause.clone(), alarm, rank, first, row }
}

/// How many of undisturbed tables raise an alarm, and how many there are: one in three lines, whatever its cause.
fn false_alarms(alarms: impl Fn(u64, &Line) -> bool + Sync) -> (usize, usize) {
    let undisturbed: Vec<bool> =
        lines().par_iter().enumerate().filter(|(id, _)| id % 3 == 0).map(|(id, line)| alarms(id as u64, line)).collect();
    (undisturbed.iter().filter(|alarm| **alarm).count(), undisturbed.len())
}

/// A share in percent.
fn share(part: usize, of: usize) -> usize {
    100 * part / of.max(1)
}

#[test]
fn short_cases_find_their_cause() {
    let errors = known_errors();
    for (id, line) in lines().iter().enumerate() {
        let short = line.cluster == "ri2"
            && matches!((line.benchmark.as_str(), line.cause.as_str()), ("osu_latency", "tcp") | ("ib_read_lat", "iommu"));
        if short {
            let came = came(line, id as u64, &errors);
            assert!(came.alarm && came.rank == Some(1), "{}", came.row);
            let calm = diagnosed(&made(line, false, id as u64), &Terms::default(), &errors);
            assert_eq!(calm.standing, Standing::Normal, "{}: undisturbed", came.row);
        }
    }
}

/// The suite: what docs/diagnose.md shows.
#[test]
#[ignore = "half an hour"]
fn the_suite_has_the_rates_of_its_page() {
    let errors = known_errors();
    let all: Vec<_> = lines().par_iter().enumerate().map(|(id, line)| came(line, id as u64, &errors)).collect();
    let (false_calm, calm) =
        false_alarms(|id, line| diagnosed(&made(line, false, 1000 + id), &Terms::default(), &errors).standing.is_alarm());
    let (alarms, tables) = published_tables(&errors);
    let first = all.iter().filter(|came| came.rank == Some(1)).count();
    let three = all.iter().filter(|came| came.rank.is_some_and(|rank| rank <= 3)).count();
    let alone = all.iter().filter(|came| came.rank == Some(1) && came.first.len() == 1).count();
    let both = all.iter().filter(|came| came.alarm && came.rank == Some(1)).count();
    let seen = all.iter().filter(|came| came.alarm).count();
    let count = all.len();
    let mut text = String::new();
    writeln!(text, "| | | |\n|---|---|---|").unwrap();
    writeln!(text, "| disturbed tables | {count} | |").unwrap();
    writeln!(text, "| right cause first, or in the first group | {first} | {} % |", share(first, count)).unwrap();
    writeln!(text, "| of these alone in its group | {alone} | {} % |", share(alone, count)).unwrap();
    writeln!(text, "| in the first three groups | {three} | {} % |", share(three, count)).unwrap();
    writeln!(text, "| called not normal | {seen} | {} % |", share(seen, count)).unwrap();
    writeln!(text, "| called not normal, and the right cause first | {both} | {} % |", share(both, count)).unwrap();
    writeln!(text, "| undisturbed tables called not normal | {false_calm} of {calm} | {} % |", share(false_calm, calm)).unwrap();
    writeln!(text, "| published tables called not normal | {} of {tables} | {} % |", alarms.len(), share(alarms.len(), tables)).unwrap();
    writeln!(text, "\n| cause | tables | first | not called | others that came first |\n|---|---|---|---|---|").unwrap();
    let mut causes: BTreeMap<&str, Vec<&Came>> = BTreeMap::new();
    all.iter().for_each(|came| causes.entry(&came.cause).or_default().push(came));
    for (cause, came) in causes {
        let right = came.iter().filter(|came| came.rank == Some(1)).count();
        let normal = came.iter().filter(|came| !came.alarm).count();
        let wrong: Vec<&str> = came.iter().filter(|came| came.rank != Some(1)).filter_map(|came| came.first.first().copied()).collect();
        writeln!(text, "| {cause} | {} | {right} | {normal} | {} |", came.len(), wrong.join(", ")).unwrap();
    }
    writeln!(text, "\n| cluster | benchmark | disturbance | amount | verdict | rank | first group |\n|---|---|---|---|---|---|---|")
        .unwrap();
    all.iter().for_each(|came| writeln!(text, "{}", came.row).unwrap());
    writeln!(text, "\nPublished tables that are called not normal:\n").unwrap();
    alarms.iter().for_each(|alarm| writeln!(text, "- {alarm}").unwrap());
    pinned("all cases", &text);
}

/// The same disturbances as changes: a table of the machine as it should be, and one after the disturbance came, each with its own noise.
#[test]
#[ignore = "a quarter of an hour"]
fn changes_have_the_rates_of_their_page() {
    let errors = known_errors();
    let terms = Terms::default();
    let compared = |line: &Line, disturbed: bool, id: u64| {
        let case = Case { catalog: catalog(), on: None, terms: &terms, errors: &errors, seed: 1, progress: &|_, _| {} };
        compare(&case, &made(line, false, id), &made(line, disturbed, id + 1)).unwrap()
    };
    let lines = lines();
    let all: Vec<(bool, Option<usize>)> = lines
        .par_iter()
        .enumerate()
        .map(|(id, line)| {
            let found = compared(line, true, 2000 + 2 * id as u64);
            // Groups of both directions, the most probable first.
            let mut groups: Vec<(f64, bool)> = Vec::new();
            let own = |finding: &Finding| finding.suspects.iter().any(|suspect| suspect.cause().name == line.cause);
            groups.extend(found.came.iter().map(|finding| (finding.probability, own(finding))));
            groups.extend(found.went.iter().map(|finding| (finding.probability, false)));
            groups.sort_by(|a, b| b.0.total_cmp(&a.0));
            (found.same < DOUBT, groups.iter().position(|(_, own)| *own).map(|at| at + 1))
        })
        .collect();
    let (false_calm, calm) = false_alarms(|id, line| compared(line, false, 3000 + 2 * id).same < DOUBT);
    let count = all.len();
    let within = |most: usize| all.iter().filter(|(_, rank)| rank.is_some_and(|rank| rank <= most)).count();
    let (first, three) = (within(1), within(3));
    let seen = all.iter().filter(|(alarm, _)| *alarm).count();
    let mut text = String::new();
    writeln!(text, "| | | |\n|---|---|---|").unwrap();
    writeln!(text, "| pairs of tables between which something came | {count} | |").unwrap();
    writeln!(text, "| right cause, as one that came, first or in the first group | {first} | {} % |", share(first, count)).unwrap();
    writeln!(text, "| in the first three groups | {three} | {} % |", share(three, count)).unwrap();
    writeln!(text, "| called changed | {seen} | {} % |", share(seen, count)).unwrap();
    writeln!(text, "| pairs of repeats called changed | {false_calm} of {calm} | {} % |", share(false_calm, calm)).unwrap();
    pinned("changes", &text);
}

/// Published tables that take minutes each: their runs are of hundreds of ranks, or of GPUs on several nodes.
const LONG: [&str; 10] = [
    "imb-alltoall",
    "osu_alltoall",
    "osu_allreduce",
    "all_reduce_perf",
    "osu_mbw_mr",
    "dpu-krylov",
    "mcast-gdr",
    "gh200-ss11-osu_bibw",
    "alps-clariden-osu_bibw",
    "ibex-cpu-osu_bibw",
];

/// The published tables that are called not normal, and the number of all that can be weighed.
fn published_tables(errors: &[KnownError]) -> (Vec<String>, usize) {
    let tolerances = published::tolerances().unwrap();
    let terms = Terms { tolerances, ..Terms::default() };
    let (mut alarms, mut tables) = (Vec::new(), 0);
    let short = |table: &Measured| !LONG.iter().any(|long| table.name().contains(long));
    let all: Vec<Measured> = published::tables().unwrap().into_iter().filter(short).collect();
    let found: Vec<_> = all
        .par_iter()
        .map(|table| {
            let case = Case { catalog: catalog(), on: None, terms: &terms, errors, seed: 1, progress: &|_, _| {} };
            // Claims are no curves.
            (table, diagnose(&case, table).ok())
        })
        .collect();
    for (table, found) in found {
        let Some(found) = found else { continue };
        tables += 1;
        let best = found.findings.first().map(|best| &best.suspects[0]);
        let told = best.map_or(String::new(), |best| format!("{}, {}", best.cause().name, best.what));
        if found.standing.is_alarm() {
            let word = if found.standing == Standing::Explained { told } else { "not explained".to_owned() };
            alarms.push(format!("{}: {word}", table.rows()[0].table));
        }
    }
    (alarms, tables)
}

#[test]
#[ignore = "ten minutes; prints what each published table is called"]
fn published_tables_are_normal() {
    let (alarms, tables) = published_tables(&known_errors());
    assert!(share(alarms.len(), tables) <= 5, "{} of {tables}: {alarms:#?}", alarms.len());
}

/// Compares with, or writes, what docs/diagnose.md shows.
#[expect(clippy::disallowed_methods, reason = "who writes a document anew says so by the environment")]
fn pinned(name: &str, text: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/diagnose.md");
    let page = std::fs::read_to_string(&path).unwrap();
    let mark = format!("<!-- suite: {name} -->\n");
    let (before, rest) = page.split_once(&mark).unwrap();
    let (present, after) = rest.split_once("<!-- end -->").unwrap();
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(path, format!("{before}{mark}{text}<!-- end -->{after}")).unwrap();
    } else {
        assert!(present == text, "docs/diagnose.md shows other rates; write it anew with UPDATE_GOLDEN=1:\n{text}");
    }
}
