//! No command line makes a tool panic, and what is refused is refused with a remedy.

use std::sync::LazyLock;

use crate::machine;
use fabriscope_catalog::ResolvedCluster;
use fabriscope_tools::{Tool, UsageError};
use fabriscope_units::Remedy;
use machine::{parts, target};
use proptest::prelude::*;

/// Words that look like command lines: options, known or not, with and without values.
fn word() -> impl Strategy<Value = String> {
    prop_oneof![
        "-{0,3}[a-zA-Z_-]{0,12}",
        "-[a-zA-Z]{1,4}[0-9]{0,12}",
        "--[a-z_-]{1,16}=[^ ]{0,8}",
        "[0-9]{0,22}[kKmMgG:,.-]{0,2}",
        "(RC|UC|UD|FETCH_AND_ADD|CMP_AND_SWAP|mlx5_0|bandwidth|latency|4:8|50,99)",
        any::<String>(),
    ]
}

/// Read once for all cases.
static RI2: LazyLock<ResolvedCluster> = LazyLock::new(|| parts("ri2"));

proptest! {
    #[test]
    fn no_command_line_panics(tool in 0usize..12, words in prop::collection::vec(word(), 0..6)) {
        let target = target(&RI2);
        let tool = Tool::all().nth(tool).unwrap();
        match tool.prepare(&words, &target) {
            Ok(prepared) => prop_assert!(prepared.mains.len() >= 2),
            Err(error) => prop_assert!(!error.in_full().is_empty()),
        }
    }

    #[test]
    fn unknown_tools_have_a_nearest_one(name in any::<String>()) {
        if let Err(error) = Tool::by_name(&name) {
            let UsageError::UnknownTool { nearest, .. } = error else { panic!("{error}") };
            prop_assert!(Tool::by_name(nearest).is_ok());
        }
    }
}

#[test]
fn every_tool_has_a_help_page() {
    let target = target(&parts("ri2"));
    for tool in Tool::all() {
        for option in ["--help", "-h"] {
            let error = tool.prepare(&[option.to_owned()], &target).unwrap_err();
            let UsageError::Help { text } = error else { panic!("{}: {error}", tool.name()) };
            assert!(text.starts_with(&format!("{}: {}", tool.name(), tool.about())) && text.contains("\nOptions:\n  "), "{text}");
        }
    }
}

#[test]
fn a_cluster_without_mpi_has_no_osu_benchmarks() {
    let mut target = target(&parts("ri2"));
    target.mpi = None;
    let message = Tool::by_name("osu_bw").unwrap().prepare(&[], &target).unwrap_err().in_full();
    assert!(message.contains("[mpi] table"), "{message}");
}
