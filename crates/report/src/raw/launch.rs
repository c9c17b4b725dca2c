//! The command that started a benchmark, where the log repeats it: `+ mpirun -np 64 --map-by ppr:32:node ./osu_allreduce -f`.
//!
//! Read: ranks, ranks of a node and nodes of mpirun, mpiexec and srun, variables (`-x`, `-genv`, `--export`), the tool and its options.
//! Not read: options of launchers that bind and map otherwise; what batch systems were told.

use fabriscope_tools::Tool;

/// A command.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Launch {
    /// The benchmark by the name of its program.
    pub tool: String,
    /// Its options.
    pub options: Vec<String>,
    /// Ranks of the job.
    pub ranks: Option<u32>,
    /// Ranks of a node.
    pub per_node: Option<u32>,
    /// Nodes.
    pub nodes: Option<u32>,
    /// Variables that were set for the job.
    pub environment: Vec<String>,
}

impl Launch {
    /// The command on this line, if there is one.
    pub fn of(line: &str) -> Option<Launch> {
        // The names of tools in titles and tables have no path and no launcher.
        if line.len() > LONGEST || !line.contains([' ', '/']) {
            return None;
        }
        let bare = line.trim_start().trim_start_matches(['+', '$', '>']).trim_start();
        let first = bare.split_whitespace().next()?;
        let is_launcher =
            |word: &str| matches!(program(word), "mpirun" | "mpiexec" | "mpiexec.hydra" | "srun" | "prun" | "orterun" | "jsrun");
        let prompted = bare.len() < line.trim_start().len();
        let known = is_launcher(first) || program(first) == "env" || first.contains('/') || prompted || first.split_once('=').is_some();
        if !known {
            return None;
        }
        let words: Vec<&str> = bare.split_whitespace().map(|word| word.trim_matches(['\'', '"'])).collect();
        let at = words.iter().position(|word| is_tool(program(word)))?;
        let mut launch = Launch { tool: program(words[at]).to_owned(), ..Launch::default() };
        launch.options.extend(words[at + 1..].iter().take_while(|word| !is_end(word)).map(|word| (*word).to_owned()));
        launch.launcher(&words[..at]);
        if launch.nodes.is_none()
            && let (Some(ranks), Some(per_node)) = (launch.ranks, launch.per_node)
            && per_node > 0
            && ranks % per_node == 0
        {
            launch.nodes = Some(ranks / per_node);
        }
        if let (None, Some(nodes), Some(per_node)) = (launch.ranks, launch.nodes, launch.per_node) {
            launch.ranks = nodes.checked_mul(per_node);
        }
        Some(launch)
    }

    fn launcher(&mut self, words: &[&str]) {
        let srun = words.iter().any(|word| program(word) == "srun");
        let mut words = words.iter().copied().peekable();
        while let Some(word) = words.next() {
            let (name, joined) = match word.split_once('=') {
                Some((name, value)) if name.starts_with('-') => (name, Some(value)),
                _ => (word, None),
            };
            let mut count =
                || joined.or_else(|| words.peek().copied()).and_then(|text| text.parse::<u32>().ok()).filter(|count| *count > 0);
            match name {
                "-np" | "-n" | "--np" | "--n" | "-c" if !(srun && name == "-c") => self.ranks = count(),
                "--ntasks" => self.ranks = count(),
                "-ppn" | "--ppn" | "-npernode" | "--npernode" | "-perhost" | "--ntasks-per-node" => self.per_node = count(),
                "-N" if srun => self.nodes = count(),
                "-N" => self.per_node = count(),
                "--nodes" => self.nodes = count(),
                "--map-by" | "-map-by" => {
                    let text = joined.or_else(|| words.peek().copied()).unwrap_or_default();
                    let of_node = text.strip_prefix("ppr:").and_then(|rest| rest.split_once(":node"));
                    self.per_node = of_node.and_then(|(count, _)| count.parse().ok()).or(self.per_node);
                }
                "-genv" | "-env" => {
                    if let (Some(name), Some(value)) = (words.next(), words.next()) {
                        self.environment.push(format!("{name}={value}"));
                    }
                }
                "--export" => {
                    let all = joined.unwrap_or_default().split(',').filter(|each| each.contains('='));
                    self.environment.extend(all.map(str::to_owned));
                }
                _ => {
                    let variable = word.split_once('=').is_some_and(|(name, value)| {
                        !value.is_empty() && name.starts_with(|c: char| c.is_ascii_uppercase()) && name.bytes().all(is_of_variable)
                    });
                    if variable {
                        self.environment.push(word.to_owned());
                    }
                }
            }
        }
    }

    /// The value behind an option, as the next word or behind `=`.
    pub fn value(&self, names: &[&str]) -> Option<&str> {
        let mut options = self.options.iter();
        while let Some(option) = options.next() {
            if names.contains(&option.as_str()) {
                return options.next().map(String::as_str);
            }
            if let Some((name, value)) = option.split_once('=').filter(|(name, _)| names.contains(name)) {
                let _ = name;
                return Some(value);
            }
        }
        None
    }

    /// The variables that may change a run, as phrases of a variant. Which adapter is taken, and what is written to the log, changes none.
    pub fn variables(&self) -> impl Iterator<Item = String> + '_ {
        const SILENT: [&str; 12] = [
            "PATH",
            "LD_LIBRARY_PATH",
            "LD_PRELOAD",
            "HOME",
            "NCCL_SOCKET_IFNAME",
            "NCCL_IB_HCA",
            "NCCL_NET",
            "UCX_NET_DEVICES",
            "NCCL_TOPO_FILE",
            "SHARP_COLL_LOG_LEVEL",
            "CUDA_VISIBLE_DEVICES",
            "FI_PROVIDER",
        ];
        let told = |variable: &&String| {
            let name = variable.split('=').next().unwrap_or_default();
            !(SILENT.contains(&name)
                || name.contains("DEBUG")
                || name.contains("LOG_LEVEL")
                || name.starts_with("OMP_")
                || name.starts_with("SLURM_"))
        };
        self.environment.iter().filter(told).cloned()
    }
}

/// The program of a path.
fn program(word: &str) -> &str {
    word.rsplit('/').next().unwrap_or(word)
}

fn is_tool(name: &str) -> bool {
    matches!(name, "ucx_perftest" | "fi_pingpong" | "iperf3" | "netperf" | "IMB-NBC" | "IMB-RMA" | "IMB-P2P")
        || name.starts_with("osu_")
        || name.ends_with("_perf")
        || Tool::all().any(|tool| tool.name() == name)
}

/// What ends a command on a line.
fn is_end(word: &str) -> bool {
    matches!(word, "|" | "||" | "&&" | "&" | ";" | ">" | ">>" | "2>&1" | "#") || word.starts_with('>') || word.starts_with("2>")
}

fn is_of_variable(byte: u8) -> bool {
    byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_'
}

/// Commands are shorter, in bytes. Basis: assumed.
const LONGEST: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;

    fn launch(line: &str) -> Launch {
        Launch::of(line).unwrap()
    }

    #[test]
    fn commands_say_how_many_ranks_there_are() {
        let seen = launch("+ mpirun -np 64 --map-by ppr:32:node -x UCX_TLS=rc ./osu_allreduce -f -m 8:1024");
        assert_eq!((seen.tool.as_str(), seen.ranks, seen.per_node, seen.nodes), ("osu_allreduce", Some(64), Some(32), Some(2)));
        assert_eq!((seen.environment.join(" "), seen.value(&["-m"])), ("UCX_TLS=rc".to_owned(), Some("8:1024")));
        let seen = launch("srun -N 2 --ntasks-per-node=8 --export=ALL,NCCL_ALGO=Ring,NCCL_DEBUG=INFO /opt/all_reduce_perf -b 8 -e 1G -g 1");
        assert_eq!((seen.ranks, seen.nodes), (Some(16), Some(2)));
        assert_eq!(seen.variables().collect::<Vec<_>>(), ["NCCL_ALGO=Ring"]);
        let seen = launch("$ mpiexec.hydra -n 4 -ppn 2 -genv I_MPI_DEBUG 5 IMB-MPI1 Allreduce > log");
        assert_eq!((seen.tool.as_str(), seen.options.join(" ").as_str(), seen.nodes), ("IMB-MPI1", "Allreduce", Some(2)));
    }

    #[test]
    fn titles_and_rows_are_no_commands() {
        for line in ["# OSU MPI Latency Test v7.4", "8    1.02", "# all_reduce_perf", "# IMB-MPI1 Alltoall", "osu_latency done", ""] {
            assert_eq!(Launch::of(line), None, "{line}");
        }
    }
}
