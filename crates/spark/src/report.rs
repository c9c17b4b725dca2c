//! What `spark-shuffle` prints: stages and summary metrics under the names of Spark's user interface, tasks under those of its event log.

use std::fmt::Write;

use fabriscope_tool::{DataTable, Datum, Point, ToolOutput};
use fabriscope_units::{Bytes, Span, Time};

use crate::job::Job;
use crate::task::TaskRecord;

/// The output of the job, whose programs are done.
#[must_use]
pub fn report(job: &Job) -> ToolOutput {
    let s = &job.settings;
    let (mut text, mut points) = (String::new(), Vec::new());
    let _ = writeln!(
        text,
        "\n# {}: {} shuffled, {} maps and {} reducers on {} executors of {} cores, {} I/O threads; {}",
        s.kind.name(),
        s.data,
        s.maps,
        s.reducers,
        job.executors,
        s.cores,
        job.threads,
        job.drive.as_ref().map_or_else(|| "in memory".to_owned(), |drive| format!("on {}", drive.name)),
    );
    let mut stages = DataTable { name: "stages", columns: STAGES.to_vec(), rows: Vec::new() };
    let mut tasks = DataTable { name: "tasks", columns: TASKS.to_vec(), rows: Vec::new() };
    let _ = writeln!(
        text,
        "{:<10}{:>9}{:>10}{:>10}{:>12}{:>14}{:>16}{:>12}",
        "# Fetch", "Map(s)", "Reduce(s)", "Job(s)", "Read(GB/s)", "FetchWait(%)", "RemoteRead(MiB)", "Requests"
    );
    let mut summaries = String::new();
    let map = job.maps.iter().map(|task| task.finish).max().unwrap_or_default().since(Time::ZERO);
    for (stack, stage) in job.stacks.iter().zip(&job.stages) {
        let mut stage = stage.lock().clone();
        stage.tasks.sort_unstable_by_key(|task| task.index);
        let begin = stage.begin.unwrap_or_default();
        let end = stage.tasks.iter().map(|task| task.finish).max().unwrap_or(begin);
        let reduce = end.since(begin);
        let total = |of: fn(&TaskRecord) -> u64| stage.tasks.iter().map(of).sum::<u64>();
        let remote = Bytes(total(|task| task.remote_bytes.0));
        let wait: Span = stage.tasks.iter().map(|task| task.fetch_wait).sum();
        let run: Span = stage.tasks.iter().map(TaskRecord::duration).sum();
        let share = 100.0 * wait.as_s_f64() / run.as_s_f64().max(1e-12);
        let rate = remote.0 as f64 / reduce.as_s_f64().max(1e-12) / 1e9;
        let requests = total(|task| task.requests.into());
        let mib = remote.0 as f64 / 1_048_576.0;
        let name = stack.fetch.name();
        let (map, reduce) = (map.as_s_f64(), reduce.as_s_f64());
        let _ =
            writeln!(text, "{name:<10}{map:>9.3}{reduce:>10.3}{:>10.3}{rate:>12.2}{share:>14.1}{mib:>16.1}{requests:>12}", map + reduce);
        stages.rows.push(vec![
            Datum::Word(name.to_owned()),
            Datum::Number(map),
            Datum::Number(reduce),
            Datum::Number(map + reduce),
            Datum::Number(wait.as_s_f64()),
            Datum::Count(remote.0),
            Datum::Count(total(|task| task.local_bytes.0)),
            Datum::Count(requests),
        ]);
        summaries += &summary(name, &stage.tasks);
        let all = job.maps.iter().map(|task| (Time::ZERO, task)).chain(stage.tasks.iter().map(|task| (begin, task)));
        tasks.rows.extend(all.map(|(begin, task)| row(name, begin, task)));
        let mut point = |metric, unit, value| points.push(Point { size: s.data, metric, unit, value });
        point("map", "s", map);
        point("reduce", "s", reduce);
        point("run", "s", map + reduce);
    }
    let _ = writeln!(
        text,
        "\n{:<10}{:<32}{:>10}{:>10}{:>10}{:>10}{:>10}",
        "# Fetch", "Metric of reduce tasks", "Min", "25th", "Median", "75th", "Max"
    );
    text += &summaries;
    ToolOutput { text, points, tables: vec![stages, tasks], ..ToolOutput::default() }
}

/// A metric of tasks: what it is called, and what a task has of it.
type Metric = (&'static str, fn(&TaskRecord) -> f64);

/// Summary metrics of the tasks of a stage.
fn summary(name: &str, tasks: &[TaskRecord]) -> String {
    let mut text = String::new();
    let metrics: [Metric; 3] = [
        ("Duration (ms)", |task| task.duration().as_us_f64() / 1e3),
        ("Shuffle Read Fetch Wait (ms)", |task| task.fetch_wait.as_us_f64() / 1e3),
        ("Shuffle Remote Reads (MiB)", |task| task.remote_bytes.0 as f64 / 1_048_576.0),
    ];
    for (metric, of) in metrics {
        let mut values: Vec<f64> = tasks.iter().map(of).collect();
        values.sort_unstable_by(f64::total_cmp);
        let _ = write!(text, "{name:<10}{metric:<32}");
        for quarter in 0..=4 {
            let at = (values.len() * quarter / 4).min(values.len().saturating_sub(1));
            let _ = write!(text, "{:>10.2}", values.get(at).copied().unwrap_or_default());
        }
        text += "\n";
    }
    text
}

fn row(name: &str, begin: Time, task: &TaskRecord) -> Vec<Datum> {
    let ms = |span: Span| Datum::Number(span.as_us_f64() / 1e3);
    vec![
        Datum::Word(name.to_owned()),
        Datum::Count(task.stage.into()),
        Datum::Count(task.index.into()),
        Datum::Count(task.executor.into()),
        ms(task.launch.since(begin)),
        ms(task.finish.since(begin)),
        ms(task.duration()),
        ms(task.fetch_wait),
        Datum::Count(task.remote_blocks.into()),
        Datum::Count(task.local_blocks.into()),
        Datum::Count(task.remote_bytes.0),
        Datum::Count(task.local_bytes.0),
        Datum::Count(task.shuffle_written.0),
    ]
}

const STAGES: [&str; 8] = ["fetch", "map_s", "reduce_s", "job_s", "fetch_wait_s", "remote_bytes_read", "local_bytes_read", "requests"];
/// As `Task Metrics` of the event log; times from the begin of the stage.
const TASKS: [&str; 13] = [
    "fetch",
    "stage_id",
    "index",
    "executor_id",
    "launch_time_ms",
    "finish_time_ms",
    "duration_ms",
    "fetch_wait_time_ms",
    "remote_blocks_fetched",
    "local_blocks_fetched",
    "remote_bytes_read",
    "local_bytes_read",
    "shuffle_bytes_written",
];
