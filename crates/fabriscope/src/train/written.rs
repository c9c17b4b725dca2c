//! A step as files that other simulators read.
//!
//! Modelled: Chakra, SimAI and AICB have the collectives of all groups, those within nodes included; GOAL has the messages between nodes, step by
//! step of NCCL, as the engines run them.
//! Not modelled: SimAI and AICB have but one rank, that of the first GPU.

use fabriscope_traces::{Format, goal_binary, goal_text, write_aicb, write_chakra, write_simai};
use fabriscope_training::operations::operations;
use fabriscope_training_plan::trace;
use fabriscope_units::Remedy;

use crate::error::Error;
use fabriscope_lab::training::job::{Job, of_step};
use fabriscope_lab::training::times::ClusterTimes;
use fabriscope_lab::training::whole::Messages;
use fabriscope_training::Layout;

/// What a step is written as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StepFormat {
    /// The operation graphs of LogGOPSim, as text.
    Goal,
    /// The same as its `txt2bin` writes them.
    GoalBinary,
    /// Execution traces of MLCommons, a file for each rank and one for the groups.
    Chakra,
    /// The layers of a model for SimAI.
    SimAi,
    /// The calls of a rank for AICB.
    Aicb,
}

impl StepFormat {
    /// Whether it is several files, which lie in a folder.
    #[must_use]
    pub fn is_folder(self) -> bool {
        self == StepFormat::Chakra
    }
}

/// The files: names within a folder, where there are several, and contents.
pub(super) fn files(job: &Job, layout: &Layout, times: &mut ClusterTimes<'_>, format: StepFormat) -> Result<Vec<(String, Vec<u8>)>, Error> {
    let refused = |message: String, help: Option<String>| Error::Training {
        message: format!("the step as a file: {message}"),
        help: help.unwrap_or_else(|| "take another --format".to_owned()),
    };
    let name = job.model.name.clone();
    if matches!(format, StepFormat::Goal | StepFormat::GoalBinary) {
        let schedule = Messages::of(job, layout, times)?.schedule;
        let written = if format == StepFormat::Goal { goal_text(&schedule).map(String::into_bytes) } else { goal_binary(&schedule) };
        return Ok(vec![(name, written.map_err(|error| refused(error.to_string(), error.remedy()))?)]);
    }
    let stages = operations(&job.model.transformer, layout, &job.roofline, times, &|_| false).map_err(of_step)?;
    let of = trace(&name, layout, &stages, Format::Chakra);
    Ok(match format {
        StepFormat::Chakra => {
            let files = write_chakra(&of);
            let mut all: Vec<(String, Vec<u8>)> =
                files.ranks.into_iter().map(|(rank, bytes)| (format!("{name}.{rank}.et"), bytes)).collect();
            all.push(("comm_group.json".to_owned(), files.groups.into_bytes()));
            all
        }
        StepFormat::SimAi => {
            vec![(name, write_simai(&of).map_err(|error| refused(error.to_string(), error.remedy()))?.into_bytes())]
        }
        _ => vec![(name, write_aicb(&of).map_err(|error| refused(error.to_string(), error.remedy()))?.into_bytes())],
    })
}
