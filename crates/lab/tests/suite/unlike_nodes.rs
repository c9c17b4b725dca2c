//! Every tool on clusters with groups of unlike nodes: each ends with a result or with a refusal that says what to do, and none panics.

use crate::labs::catalog;

use fabriscope_catalog::ResolvedCluster;
use fabriscope_lab::launch::{Launch, LaunchError, layout_of};
use fabriscope_tools::{Tool, ToolOutput};
use miette::Diagnostic;

/// Two kinds of GPU nodes, and processors beside them, below one switch; small, so that every tool is quick.
fn mixed(groups: &[(&str, &str)]) -> ResolvedCluster {
    let group = |(name, node): &(&str, &str)| format!("[[cluster.group]]\nname = \"{name}\"\nnodes = 2\nnode = {node}\n");
    let lab = format!(
        "[cluster]\nname = \"mixed\"\ntitle = \"mixed\"\nlink = \"hdr\"\nlink_layer = \"infiniband\"\nmtu = \"4096 B\"\nswitch = \"qm8700\"\n\
         placement = \"same_leaf\"\nsoftware = \"hpcx-2.7\"\ntopology.fat_tree = {{ levels = 2 }}\n{}\n[cluster.cable]\npart = \"optical\"\n\
         host_length = {{ value = \"2 m\", basis = \"assumed\", note = \"one room\" }}\ntrunk_length = {{ value = \"20 m\", basis = \"assumed\", note = \"one room\" }}\n\
         [workload.bench]\ntool = \"osu_latency\"\n",
        groups.iter().map(group).collect::<String>()
    );
    fabriscope_lab::parse(catalog(), "lab.toml", &lab).unwrap_or_else(|error| panic!("{error}\n{lab}")).cluster
}

const A100: (&str, &str) = ("a100", "\"dgx-a100\"");
const H100: (&str, &str) = ("h100", "\"hgx-h100\"");
const STORAGE: (&str, &str) = ("storage", "{ cpu = \"epyc-7742\", sockets = 2, nic = \"connectx-6\", nics = 2 }");

fn launch(parts: &ResolvedCluster, tool: Tool, options: &[&str], shape: (Option<u32>, Option<u32>)) -> Result<ToolOutput, LaunchError> {
    let options: Vec<String> = options.iter().map(|word| (*word).to_owned()).collect();
    let launch = Launch { layout: Some(layout_of(tool, parts, shape.0, shape.1)), ..Launch::new(tool, &options, parts) };
    launch.run().map(|(printed, _)| printed)
}

/// What a tool says, without what takes long: few iterations, one size where it takes these options.
fn quick(parts: &ResolvedCluster, name: &str) -> Result<ToolOutput, LaunchError> {
    let tool = Tool::by_name(name).unwrap();
    let mut last = None;
    for options in [
        &["-n", "5"][..],
        &["-i", "2", "-x", "0", "-m", "8:8"],
        &["-i", "2", "-m", "8:8"],
        &["-n", "2", "-w", "0", "-b", "8", "-e", "8"],
        &[],
    ] {
        match launch(parts, tool, options, (Some(2), Some(1))) {
            Err(LaunchError::Usage(error)) if !options.is_empty() => last = Some(error),
            found => return found,
        }
    }
    Err(LaunchError::Usage(last.unwrap()))
}

#[test]
fn no_tool_panics_on_unlike_nodes() {
    let clusters = [mixed(&[A100, H100]), mixed(&[STORAGE, A100, H100])];
    for parts in &clusters {
        assert!(parts.uniform().is_none());
        for tool in Tool::all() {
            let name = tool.name();
            if let Err(error) = quick(parts, name) {
                let help = error.help().map(|help| help.to_string()).unwrap_or_default();
                assert!(!error.to_string().is_empty() && help.len() > 10, "{name}: {error}; {help}");
            }
        }
    }
}

fn time(output: &ToolOutput) -> f64 {
    output.points.first().map(|point| point.value).unwrap()
}

const SMALL: [&str; 6] = ["-b", "16M", "-e", "16M", "-n", "2"];

#[test]
fn a_communicator_over_unlike_gpus_has_the_least_of_both() {
    let tool = Tool::by_name("all_reduce_perf").unwrap();
    let both = mixed(&[A100, H100]);
    let [a100, h100] = [0, 1].map(|group| both.narrowed(group).unwrap());
    let run = |parts: &ResolvedCluster| launch(parts, tool, &SMALL, (Some(2), Some(8))).unwrap_or_else(|error| panic!("{error}"));
    let [slow, fast, mixed] = [&a100, &h100, &both].map(run);
    // All nodes have the same links between them. Unlike capabilities leave LL128 out and nodes without NVLS leave NVLS out, so that the
    // job takes longer than one of either kind, and no more than twice as long: the rate of LL128 is 120/128 of a link, that of Simple
    // loses its start and end at each step.
    let [slow, fast, both] = [time(&slow), time(&fast), time(&mixed)];
    assert!(both > fast && both < 2.0 * slow, "{slow} {fast} {both}");
    for line in ["A100", "H100"] {
        assert!(mixed.text.lines().filter(|l| l.starts_with("#  Rank") && l.contains(line)).count() == 8, "{}", mixed.text);
    }
    // No wrong element: contents go along with every slice.
    assert!(mixed.text.contains("# Out of bounds values : 0 OK"), "{}", mixed.text);
}

#[test]
fn nodes_without_gpus_are_refused_by_name() {
    let parts = mixed(&[A100, STORAGE]);
    let tool = Tool::by_name("all_reduce_perf").unwrap();
    let error = launch(&parts, tool, &SMALL, (Some(2), Some(1))).unwrap_err().to_string();
    assert!(error.contains("`storage` have no GPUs") && error.contains("name one group"), "{error}");
    // One group runs, and a job that has only nodes of one group does as well.
    let alone = launch(&parts.narrowed(0).unwrap(), tool, &SMALL, (Some(1), Some(8))).unwrap();
    let first = launch(&parts, tool, &SMALL, (Some(1), Some(8))).unwrap();
    assert_eq!(alone.text, first.text);
}

#[test]
fn no_workload_panics_on_unlike_nodes() {
    let workloads = [
        "permutation]\nsize = \"4 KiB\"",
        "incast]\nsenders = 4\nsize = \"4 KiB\"",
        "all_to_all]\nsize = \"64 B\"",
        "tornado]\nsize = \"4 KiB\"",
        "adversarial]\nsize = \"4 KiB\"",
        "halo]\ngrid = [4, 4]\nsize = \"4 KiB\"",
        "ring_all_reduce]\nsize = \"4 KiB\"",
        "permutation]\nsize = \"4 KiB\"\ntransport = \"ud\"",
        "collective]\noperation = \"allreduce\"\nalgorithm = \"ring\"\nsize = \"4 KiB\"",
        "open_loop]\npattern = \"uniform\"\nloads = [0.4]\nsize = \"4 KiB\"\nwarm_up = \"1 us\"\nwindow = \"5 us\"",
        "closed_loop]\npattern = \"uniform\"\noutstanding = [2]\nmessages = 4\nsize = \"4 KiB\"",
        "alltoallv]\nprocesses_per_node = 1\nprocesses = [4]\nsizes = [\"4 KiB\"]",
        "interference]\nsenders = 4\nsize = \"4 KiB\"\nvictims = 2\nvictim_size = \"4 KiB\"\nschemes = [{}]",
        "multicast]\nreceivers = [4]\nsize = \"1 KiB\"\nmessages = 2",
        "jobs]\njobs = [{ name = \"a\", hosts = \"0, 143\", pattern = \"pairs\", size = \"4 KiB\", messages = 1, software = \"own\" }]",
        "bench]\ntool = \"all_reduce_perf\"",
    ];
    for cluster in ["lab-gpu-storage", "lab-gpu-storage:gpu", "lab-gpu-storage:storage"] {
        for engine in ["packet", "flow"] {
            for workload in workloads {
                let text = format!("cluster = \"{cluster}\"\nengine = \"{engine}\"\n[workload.{workload}\n");
                let refused = |error: &dyn Diagnostic| {
                    let help = error.help().map(|help| help.to_string()).unwrap_or_default();
                    assert!(help.len() > 10, "{text}: {error}");
                };
                match fabriscope_lab::parse(catalog(), "lab.toml", &text) {
                    Err(error) => refused(&error),
                    Ok(lab) => drop(
                        fabriscope_lab::run::run(catalog(), &lab, &fabriscope_lab::run::RunSettings::default())
                            .map_err(|error| refused(&error)),
                    ),
                }
            }
        }
    }
}
