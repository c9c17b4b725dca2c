//! What reads the output of the real tools reads ours: expressions of the kind that test frameworks have, on what each tool prints.
//!
//! Every expression stands for a figure, and finds it as often as it says. Who reads it is named beside it.

use assert_cmd::Command;
use regex::Regex;

/// A command, and who reads its output with what: name, expression, how many figures it finds.
type Readings = (&'static str, &'static [(&'static str, &'static str, usize)]);

/// One command after the other.
const TABLE: &[Readings] = &[
    (
        "osu_latency --on ri2 -m 8:16",
        &[
            ("ReFrame hpctestlib, osu", r"(?m)^8\s+(\S+)", 1),
            ("Ramble osu-micro-benchmarks", r"(?m)^#\s+Size\s+Avg Latency\(us\)\s*$", 1),
            ("Ramble osu-micro-benchmarks", r"(?m)^\s*(?P<msg_size>[0-9]+)\s+(?P<avg_lat>[0-9\.]+)\s*$", 2),
            ("Ramble osu-micro-benchmarks", r"# OSU.*Test (?P<ver>v[0-9\.]+)", 1),
            ("Ramble osu-micro-benchmarks", r"# Datatype: (?P<type>\S+)\.", 1),
        ],
    ),
    (
        "osu_bw --on ri2 -m 4194304:4194304",
        &[
            ("ReFrame hpctestlib, osu", r"(?m)^4194304\s+(\S+)", 1),
            ("Ramble osu-micro-benchmarks", r"(?m)^# Size\s+Bandwidth \(MB/s\)\s*$", 1),
        ],
    ),
    ("osu_allreduce --on ri2 --nodes 2 --ppn 2 -m 8:8", &[("ReFrame hpctestlib, osu", r"(?m)^8\s+(\S+)", 1)]),
    (
        "gromacs --on ri2 --nodes 2 --ppn 16 --system benchMEM --gcom 2",
        &[
            ("ReFrame hpctestlib, gromacs", r"Performance:\s+(?P<perf>\S+)", 1),
            ("ReFrame hpctestlib, gromacs", r"Finished mdrun", 1),
            ("Ramble gromacs, core time", r"\s+Time:\s+(?P<core_time>[0-9]+\.[0-9]+).*", 1),
            ("Ramble gromacs, wall time", r"\s+Time:\s+[0-9]+\.[0-9]+\s+(?P<wall_time>[0-9]+\.[0-9]+).*", 1),
            ("Ramble gromacs, percent", r"\s+Time:\s+[0-9]+\.[0-9]+\s+[0-9]+\.[0-9]+\s+(?P<perc>[0-9]+\.[0-9]+).*", 1),
            ("Ramble gromacs, ns/day", r"Performance:\s+(?P<ns_per_day>[0-9]+\.[0-9]+).*", 1),
            ("Ramble gromacs, hours/ns", r"Performance:\s+[0-9]+\.[0-9]+\s+(?P<hours_per_ns>[0-9]+\.[0-9]+).*", 1),
        ],
    ),
    (
        "lammps-reax --on ri2 --nodes 2 --ppn 2 --cells 4,4,4 --qeq-iterations 2",
        &[
            ("ReFrame hpctestlib, lammps", r"\s+(?P<perf>\S+) timesteps/s", 1),
            ("ReFrame hpctestlib, lammps", r"Total wall time:", 1),
            ("Ramble lammps, wall time", r"Total wall time.*\s+(?P<walltime>[0-9:]+)", 1),
            ("Ramble lammps, ns/day", r"Performance.*\s+(?P<nspd>[0-9\.]+) (ns|tau)/day", 1),
            ("Ramble lammps, hours/ns", r"Performance.*\s+(?P<hpns>[0-9\.]+) hours/ns", 1),
            ("Ramble lammps, timesteps/s", r"Performance.*\s+(?P<tsps>[0-9\.]+) timesteps/s", 1),
        ],
    ),
    (
        "hpcg --on ri2 --nodes 2 --ppn 2 -n 16,16,16",
        &[
            (
                "Ramble hpcg, status and rating",
                r"Final Summary::HPCG result is (?P<status>[a-zA-Z]+) with a GFLOP/s rating of=(?P<gflops>[0-9]+\.[0-9]+)",
                1,
            ),
            ("Ramble hpcg, time", r"Final Summary::Results are.* execution time.*is=(?P<exec_time>[0-9]+\.[0-9]*)", 1),
            ("ReFrame checks of sites, hpcg", r"HPCG result is VALID", 1),
        ],
    ),
    (
        "amg --on ri2 --nodes 2 --ppn 2 -n 16,16,16",
        &[("Benchpark amg2023", r"FOM_Solve: nnz_AP \* iterations / Solve Phase Time:\s*(?P<fom>[0-9]+\.[0-9]*(e[+-]?[0-9]*)?)", 1)],
    ),
    (
        "quicksilver --on ri2 --nodes 2 --ppn 2 -n 400",
        &[("Benchpark quicksilver", r"Figure Of Merit\s+(?P<fom>[0-9]+\.[0-9]*([0-9]*)+e\+?[0-9]*)", 1)],
    ),
    (
        "xhpl --on archer2 --nodes 2 --ppn 8 -N 20000",
        &[
            ("ReFrame checks of sites, hpl", r"(?m)^W[RC]\S+\s+\d+\s+\d+\s+\d+\s+\d+\s+(?P<time>\S+)\s+(?P<gflops>\S+)\s*$", 1),
            ("ReFrame checks of sites, hpl", r"T/V\s+N\s+NB\s+P\s+Q\s+Time\s+Gflops", 1),
        ],
    ),
    (
        "ior --on ibex-cpu --nodes 2 --ppn 16 -t 1m -b 16m",
        &[
            ("ReFrame cscs-checks, ior", r"(?m)^Max Write:\s+(?P<write_bw>\S+) MiB/sec", 1),
            ("ReFrame cscs-checks, ior", r"(?m)^Max Read:\s+(?P<read_bw>\S+) MiB/sec", 1),
            (
                "Ramble ior, iterations",
                r"(?m)(?P<access>(read|write))(\s+[0-9]+\.[0-9]+){3}\s+(?P<block>[0-9]+)(\s+[0-9]+\.[0-9]+){5}\s+(?P<iter>[0-9]+)\s*$",
                2,
            ),
            (
                "Ramble ior, summary",
                r"(?P<Operation>(read|write))(\s+[0-9]+\.[0-9]+){9}(\s+\w+){2}(\s+[0-9]+){12}\s+[0-9]+\.[0-9]+\s+(?P<API>\w+)\s+[0-9]+",
                2,
            ),
        ],
    ),
    (
        "mdtest --on lumi-c --fs lumi-f --nodes 4 -u -n 100",
        &[
            ("Ramble md-test", r"\s*File creation\s+:\s+(?P<max>[0-9]+\.[0-9]+)(\s+[0-9]+\.[0-9]+){3}", 1),
            ("Ramble md-test", r"\s*File (stat|read|removal)\s+:\s+(?P<max>[0-9]+\.[0-9]+)(\s+[0-9]+\.[0-9]+){3}", 3),
        ],
    ),
    (
        "io500 --on lumi-c --fs lumi-p",
        &[
            ("readers of IO500's summary", r"\[SCORE \] Bandwidth (\S+) GiB/s : IOPS (\S+) kiops : TOTAL (\S+)", 1),
            ("readers of IO500's summary", r"\[RESULT\]\s+(\S+)\s+(\S+) (GiB/s|kIOPS) : time (\S+) seconds", 12),
        ],
    ),
    (
        "fio --on lumi-c --rw=randread --bs=4k --direct=1 --iodepth=16",
        &[
            ("readers of fio's text", r"read: IOPS=(?P<iops>[0-9.]+k?), BW=(?P<bw>[0-9.]+)[KMG]iB/s", 1),
            ("readers of fio's text", r"READ: bw=(?P<bw>[0-9.]+)[KMG]iB/s", 1),
        ],
    ),
];

#[test]
fn expressions_of_test_frameworks_find_their_figures() {
    let mut wrong = Vec::new();
    for (command, readings) in TABLE {
        let output = Command::cargo_bin("fabriscope").unwrap().arg("bench").args(command.split(' ')).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success(), "{command}: {}", String::from_utf8_lossy(&output.stderr));
        for (reader, expression, times) in *readings {
            let found = Regex::new(expression).unwrap().find_iter(&text).count();
            if found != *times {
                wrong.push(format!("{command}: {reader} finds {found} of {times}: {expression}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
