//! A step of training as the workload of a lab: whether it can be, its messages, and what came out beside the usual results.
//!
//! Modelled: on the engines of messages the step runs with all that the lab says of routing, congestion, classes and faults; the time line
//! stands beside it. `engine = "time_line"` is that alone, for any number of GPUs and for what has no messages of its own.

use std::sync::Arc;

use fabriscope_catalog::{Catalog, Problem, ResolvedCluster};
use fabriscope_engine::{OpTimes, Run};
use fabriscope_report::Outcome;
use fabriscope_schedule::Schedule;
use fabriscope_training::Layout;
use fabriscope_training_plan::Spent;
use fabriscope_units::{Remedy, Span};

use super::TrainingRequest;
use super::job::{Job, made, told};
use super::shown::{achieved, laid};
use super::whole::{Messages, in_columns, in_parts, other_stage};
use crate::error::LabError;
use crate::lab::EngineChoice;
use crate::workload::{Training, check_transport};
use crate::{Lab, ResolvedLab};

/// A step that is ready to run message by message.
pub struct PreparedStep {
    job: Job,
    /// The adapter of each GPU of a node.
    adapters: Vec<u32>,
    layout: Layout,
    messages: Messages,
    analytic: Spent,
    stage: u32,
}

/// A step that has run.
#[derive(Debug)]
pub struct RunStep {
    engine: &'static str,
    analytic: Spent,
    spent: Spent,
    end: Span,
    tflops: f64,
    tokens: f64,
}

/// The step of a lab on the first nodes of its cluster, as messages.
///
/// # Errors
/// What `check` refuses, adapters that act as one, groups of which the library has no plan.
pub fn prepare(catalog: &Catalog, parts: &ResolvedCluster, work: &Training) -> Result<PreparedStep, LabError> {
    prepare_on(catalog, parts, work, (0..parts.nodes()).collect())
}

/// The same on these nodes, in the order of its GPUs.
///
/// # Errors
/// As [`prepare`].
pub fn prepare_on(catalog: &Catalog, parts: &ResolvedCluster, work: &Training, nodes: Vec<u32>) -> Result<PreparedStep, LabError> {
    let request = work.request();
    let job = request.job(catalog, parts).map_err(of_keys)?;
    let mut times = request.times(catalog, &job).map_err(of_keys)?;
    let step = made(&job, &request.layout, &mut times).map_err(of_keys)?;
    let messages = Messages::on(nodes, &job, &request.layout, &mut times).map_err(of_keys)?;
    let analytic = in_parts(&step, &request.layout, &times);
    Ok(PreparedStep { job, adapters: times.adapters, layout: request.layout, messages, analytic, stage: step.stage })
}

impl PreparedStep {
    /// Its messages.
    #[must_use]
    pub fn schedule(&self) -> Arc<Schedule> {
        Arc::clone(&self.messages.schedule)
    }
    /// The adapter of each GPU of a node.
    #[must_use]
    pub fn adapters(&self) -> &[u32] {
        &self.adapters
    }
    /// What a person should know of it before it runs.
    #[must_use]
    pub fn notes(&self) -> Vec<String> {
        vec![format!("{}: {}", self.job.model.title, laid(&self.layout)), self.messages.counted(), LEFT_OUT.to_owned()]
    }
    /// What a GPU of the stage that ends last spent the step on, if a run had these times of operations.
    #[must_use]
    pub fn spent(&self, ops: &[OpTimes]) -> Spent {
        self.messages.spent(ops, self.stage).0
    }
    /// What a run made of it.
    #[must_use]
    pub fn ran(&self, engine: &'static str, run: &Run) -> RunStep {
        let (spent, end) = self.messages.spent(&run.ops, self.stage);
        let tokens = f64::from(self.layout.global_batch) * f64::from(self.job.model.transformer.sequence) / end.as_s_f64();
        RunStep { engine, analytic: self.analytic, spent, end, tflops: achieved(&self.job, &self.layout, end) / 1e12, tokens }
    }
}

/// What engines do not have of a step.
const LEFT_OUT: &str = "groups within nodes are times of the library; docs/training.md says what is left out";

impl RunStep {
    /// The step and its parts behind the results of the run.
    pub fn tell(&self, outcome: &mut Outcome) {
        outcome.text("\n");
        in_columns(outcome, self.analytic, &[(self.engine, self.spent)]);
        other_stage(outcome, self.end, self.spent);
        outcome.note(format!("{:.1} TFLOP/s for each GPU; {:.0} tokens/s", self.tflops, self.tokens));
        outcome.set("step_s", self.analytic.total().as_s_f64()).set("step_by_messages_s", self.end.as_s_f64());
        outcome.set("tflops_per_gpu", self.tflops).set("tokens_per_s", self.tokens);
    }
}

/// The step of a lab by the time line.
///
/// # Errors
/// What `check` refuses, and what the cluster cannot do.
pub fn time_line(catalog: &Catalog, lab: &ResolvedLab, work: &Training) -> Result<Outcome, LabError> {
    let mut outcome = crate::sweep::head(lab, "workload training, by the time line");
    outcome.append(work.request().time_line(catalog, &lab.cluster).map_err(of_keys)?);
    Ok(outcome)
}

/// Whether the step can be on the cluster, by the engine of the lab.
pub(crate) fn check(catalog: &Catalog, lab: &Lab, parts: &ResolvedCluster, work: &Training) -> Result<(), Problem> {
    check_transport(work.transport, parts, &["workload", "training", "transport"])?;
    let request = work.request();
    let by_messages = lab.engine != EngineChoice::TimeLine;
    let refused = |error: LabError| {
        let (message, help) = of_keys(error).halves("see [workload.training] of the lab");
        Problem::at(&["workload", "training", "model"], message, help)
    };
    if request.has_messages(catalog, parts).map_err(refused)? {
        has_room(catalog, parts, &request).map_err(refused)?;
        if by_messages && request.layout.shard.is_some() {
            let message = "shares of some ranks only, message by message";
            return Err(Problem::at(&["workload", "training", "shard"], message, "write engine = \"time_line\", or leave it out"));
        }
    } else if by_messages {
        let message = format!("a step of `{}` on `{}` message by message: it has a time line alone", work.model, parts.name);
        return Err(Problem::at(&["engine"], message, "write engine = \"time_line\""));
    }
    if by_messages { Ok(()) } else { of_time_line(lab) }
}

/// Whether the layout divides the model, and its GPUs are there and have room.
fn has_room(catalog: &Catalog, parts: &ResolvedCluster, request: &TrainingRequest) -> Result<(), LabError> {
    let job = request.job(catalog, parts)?;
    request.layout.check(&job.model.transformer)?;
    request.room(&job).map(|_| ())
}

/// Whether a step can be message by message.
///
/// # Errors
/// What has a time line alone, a layout that does not divide, too few GPUs, too little memory.
pub(crate) fn fits(catalog: &Catalog, parts: &ResolvedCluster, work: &Training) -> Result<(), LabError> {
    let request = work.request();
    if !request.has_messages(catalog, parts)? || request.layout.shard.is_some() {
        let message = format!("a step of `{}` message by message: it has a time line alone", work.model);
        return Err(told(message, "take a transformer on GPUs, and leave shard out"));
    }
    has_room(catalog, parts, &request)
}

/// Keys that say something of messages, in a lab that has none.
fn of_time_line(lab: &Lab) -> Result<(), Problem> {
    let keys = [
        ("fault", !lab.fault.is_empty()),
        ("recovery", lab.recovery.is_some()),
        ("fast_forward", lab.fast_forward),
        ("allow_deadlock", lab.allow_deadlock),
        ("rate_limit", lab.rate_limit.is_some()),
        ("line", lab.line.is_some()),
        ("congestion", lab.congestion.is_some()),
        ("flow_control", lab.flow_control.is_some()),
        ("qos", lab.qos.is_some()),
        ("service_level", lab.service_level.is_some()),
        ("priority", lab.priority.is_some()),
        ("dscp", lab.dscp.is_some()),
        ("traffic_class", lab.traffic_class.is_some()),
        ("partition", lab.partition.is_some()),
        ("partitions", !lab.partitions.is_empty()),
        ("partition_enforcement", lab.partition_enforcement.is_some()),
    ];
    match keys.iter().find(|(_, given)| *given) {
        Some((key, _)) => {
            let message = format!("`{key}` of a time line, which has no messages one by one");
            Err(Problem::at(&[key], message, "use the packet or the flow engine, or leave it out"))
        }
        None => Ok(()),
    }
}

/// The same error with the keys of a lab in the place of options.
pub(crate) fn of_keys(error: LabError) -> LabError {
    match error {
        LabError::Training { message, help } => LabError::Training { message: keyed(&message), help: keyed(&help) },
        error => error,
    }
}

/// `--global-batch` as `global_batch`; the engine is a key of its own.
fn keyed(text: &str) -> String {
    let word = |word: &str| match word.find("--") {
        Some(at) => format!("{}{}", &word[..at], word[at + 2..].replace('-', "_")),
        None => word.to_owned(),
    };
    text.split(' ').map(word).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::keyed;

    #[test]
    fn options_become_keys() {
        assert_eq!(keyed("make --global-batch a multiple of --dp (--micro-batch)"), "make global_batch a multiple of dp (micro_batch)");
    }
}
