//! `fabriscope schema`: the JSON schema of a kind of TOML file, for editors.

use clap::ValueEnum;
use fabriscope_catalog::{Kind, part_schema};
use fabriscope_lab::lab_schema;

use crate::error::{Failure, Verdict};
use crate::output::Output;

/// Prints the JSON schema of a kind of TOML file.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// The kind of file
    kind: SchemaKind,
}

/// The kinds of TOML files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum SchemaKind {
    Lab,
    Study,
    Cluster,
    Nic,
    Switch,
    Cable,
    Link,
    Cpu,
    Gpu,
    Interconnect,
    Node,
    NodeFiles,
    Pcie,
    Software,
    Decisions,
    Congestion,
    Manager,
    Kernels,
    Model,
    Drive,
    FileSystem,
    Power,
}

const EXAMPLES: &str = "\
Examples:
  fabriscope schema cluster > cluster.schema.json
  Put `#:schema ./cluster.schema.json` on the first line of a TOML file, and an editor with Taplo completes and checks it.";

/// Runs the command.
pub fn run(args: &Args, output: &mut Output) -> Result<Verdict, Failure> {
    let kind = match args.kind {
        SchemaKind::Study => {
            output.json(&fabriscope::study_schema())?;
            return Ok(Verdict::Good);
        }
        SchemaKind::Lab => None,
        SchemaKind::Cluster => Some(Kind::Cluster),
        SchemaKind::Nic => Some(Kind::Nic),
        SchemaKind::Switch => Some(Kind::Switch),
        SchemaKind::Cable => Some(Kind::Cable),
        SchemaKind::Link => Some(Kind::Link),
        SchemaKind::Cpu => Some(Kind::Cpu),
        SchemaKind::Gpu => Some(Kind::Gpu),
        SchemaKind::Interconnect => Some(Kind::Interconnect),
        SchemaKind::Node => Some(Kind::Node),
        SchemaKind::NodeFiles => Some(Kind::NodeFiles),
        SchemaKind::Pcie => Some(Kind::Pcie),
        SchemaKind::Software => Some(Kind::Software),
        SchemaKind::Decisions => Some(Kind::Decisions),
        SchemaKind::Congestion => Some(Kind::Congestion),
        SchemaKind::Manager => Some(Kind::Manager),
        SchemaKind::Kernels => Some(Kind::Kernel),
        SchemaKind::Model => Some(Kind::Model),
        SchemaKind::Drive => Some(Kind::Drive),
        SchemaKind::FileSystem => Some(Kind::FileSystem),
        SchemaKind::Power => Some(Kind::Power),
    };
    output.json(&kind.map_or_else(lab_schema, part_schema))?;
    Ok(Verdict::Good)
}
