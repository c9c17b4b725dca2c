//! What the words of a variant mean: options, buffers, the library, where ranks are, environment variables.
//!
//! A variant is read phrase by phrase (between commas, semicolons and ` + `). A phrase that changes the run is applied; one that changes it in
//! a way that is not modelled refuses the row, with the reason; one that says nothing of the run (an operating system, a date) is told as not
//! read. No phrase is passed over in silence.

use fabriscope_tools::{Suite, Traits};

use super::Placement;

/// What the words of a variant mean.
#[derive(Debug, Default)]
pub(super) struct Words {
    pub options: Vec<String>,
    pub software: Option<String>,
    pub placement: Placement,
    pub pairs: Option<u32>,
    pub nodes: Option<u32>,
    pub gpu_aware: Option<bool>,
    pub gpudirect: Option<bool>,
    pub bind: Option<String>,
    pub intra_node: Option<String>,
    /// Phrases that say nothing of the run.
    pub unread: Vec<String>,
}

impl Words {
    /// Reads the words of a row of a tool of `traits`; why the row cannot be run.
    pub fn of(traits: &Traits, variant: &str) -> Result<Words, String> {
        let mut words = Words::default();
        if traits.suite == Suite::Perftest && variant.trim_start().starts_with('-') {
            words.perftest(variant);
            return Ok(words);
        }
        for phrase in phrases(variant) {
            let lower = phrase.to_ascii_lowercase();
            let exact = words.buffers(traits, phrase, &lower)?
                || words.variables(traits, phrase)?
                || words.options(traits, phrase)
                || words.window(&lower);
            // `CUDA-aware Open MPI 5, same socket` in one breath: each says something.
            let told = !exact
                && [
                    words.place(traits, phrase, &lower)?,
                    words.switches(traits, phrase, &lower)?,
                    words.means(&lower),
                    words.library(phrase, &lower)?,
                ]
                .contains(&true);
            let read = exact || told || is_shape(&lower) || is_plain(&lower);
            if read {
                continue;
            }
            if let Some(word) = changes(&lower) {
                return Err(format!(
                    "`{phrase}` changes the run (`{word}`) in a way that is not read; say it by --settings, or leave it out"
                ));
            }
            words.unread.push(phrase.to_owned());
        }
        Ok(words)
    }

    /// The options of the tool stand in the variant; `-a`, `-s` and `-F` say nothing beyond the row's size.
    fn perftest(&mut self, variant: &str) {
        let mut given = variant.split_whitespace();
        while let Some(word) = given.next() {
            match word {
                "-a" | "--all" | "-F" => {}
                "-s" | "--size" | "-n" | "--iters" => drop(given.next()),
                _ => self.options.push(word.to_owned()),
            }
        }
    }

    /// `D D`, `H H`, `host buffers`; that buffers are on GPUs, without which, is too little.
    fn buffers(&mut self, traits: &Traits, phrase: &str, lower: &str) -> Result<bool, String> {
        let places: Vec<&str> = phrase.split([' ', '-']).filter(|word| !word.is_empty()).collect();
        if let [sender, receiver] = places[..]
            && [sender, receiver].iter().all(|word| matches!(*word, "D" | "H" | "M" | "MD" | "MH"))
        {
            if places != ["H", "H"] {
                self.options.extend([sender.to_owned(), receiver.to_owned()]);
            }
            return Ok(true);
        }
        if matches!(lower, "host" | "host buffers" | "host memory" | "host-to-host" | "host to host" | "cpu buffers") {
            return Ok(true);
        }
        if matches!(lower, "device to device" | "device-to-device" | "gpu to gpu" | "gpu-to-gpu") && !traits.is_collective() {
            self.options.extend(["D".to_owned(), "D".to_owned()]);
            return Ok(true);
        }
        let on_gpus = ["device buffers", "gpu buffers", "device memory", "gpu memory"].contains(&lower) || lower == "cuda";
        match (on_gpus, traits.is_collective()) {
            (false, _) => Ok(false),
            (true, true) => {
                self.options.extend(["-d".to_owned(), "cuda".to_owned()]);
                Ok(true)
            }
            (true, false) => Err("which buffers are on GPUs is not said; write D D, D H or H D".to_owned()),
        }
    }

    /// `NAME=VALUE`, several of them behind one another, with a remark in brackets.
    fn variables(&mut self, traits: &Traits, phrase: &str) -> Result<bool, String> {
        let Some(variables) = variables(phrase) else { return Ok(false) };
        for (name, value) in variables {
            self.variable(traits, name, value)?;
        }
        Ok(true)
    }

    /// One environment variable.
    pub(super) fn variable(&mut self, traits: &Traits, name: &str, value: &str) -> Result<(), String> {
        if says_nothing(name) {
            return Ok(());
        }
        if matches!(traits.suite, Suite::NcclTests | Suite::OmbXccl) && (name.starts_with("NCCL_") || name.starts_with("RCCL_")) {
            self.options.extend(["--env".to_owned(), format!("{name}={value}")]);
            return Ok(());
        }
        let on = match value.to_ascii_lowercase().as_str() {
            "0" | "n" | "no" | "off" | "false" => Some(false),
            "1" | "y" | "yes" | "on" | "true" => Some(true),
            _ => None,
        };
        match (name, on) {
            ("PSM2_GPUDIRECT" | "UCX_IB_GPU_DIRECT_RDMA", Some(on)) => self.gpudirect = Some(on),
            ("PSM2_CUDA" | "MV2_USE_CUDA" | "MPICH_GPU_SUPPORT_ENABLED" | "I_MPI_OFFLOAD", Some(on)) => self.gpu_aware = Some(on),
            ("HCOLL_ENABLE_SHARP", _) if traits.is_collective() && value.parse::<u8>().is_ok_and(|level| level <= 4) => {
                if value != "0" {
                    self.sharp();
                }
            }
            _ => {
                return Err(format!(
                    "the environment variable {name}={value} is not modelled; leave the row out, or say by --settings what it does"
                ));
            }
        }
        Ok(())
    }

    /// Options of the tool: those of sizes and iterations say nothing beyond the row's.
    fn options(&mut self, traits: &Traits, phrase: &str) -> bool {
        if !phrase.starts_with('-') {
            return false;
        }
        let of_sizes: &[&str] = match traits.suite {
            Suite::NcclTests => &["-b", "-e", "-f", "-i", "-n", "-w", "-c"],
            _ => &["-m", "-i", "-x", "-s", "-n"],
        };
        let mut given = phrase.split_whitespace();
        while let Some(word) = given.next() {
            match word {
                "-a" | "--all" | "-F" => {}
                _ if of_sizes.contains(&word) => drop(given.next()),
                _ => self.options.push(word.to_owned()),
            }
        }
        true
    }

    fn window(&mut self, lower: &str) -> bool {
        let mut words = lower.split_whitespace();
        match (words.next(), words.next(), words.next()) {
            (Some("window"), Some(size), None) if size.parse::<u32>().is_ok() => {
                self.options.extend(["-W".to_owned(), size.to_owned()]);
                true
            }
            (Some(count), Some("pairs" | "pair"), None) if count.parse::<u32>().is_ok() => {
                self.pairs = count.parse().ok();
                true
            }
            _ => false,
        }
    }

    /// Where the nodes are to each other, and the ranks within a node.
    fn place(&mut self, traits: &Traits, phrase: &str, lower: &str) -> Result<bool, String> {
        let has = |words: &[&str]| words.iter().any(|word| lower.contains(word));
        let is = |words: &[&str]| lower.split(|c: char| !c.is_ascii_alphanumeric()).any(|word| words.contains(&word));
        if is(&["ccx", "ccd", "l3", "smt", "chiplet", "hyperthreads"]) || has(&["core complex", "hyper-thread"]) {
            let known = "same socket, different sockets, same NUMA domain, different NUMA domains";
            return Err(format!("`{phrase}`: which cores share a cache is not modelled; {known} are"));
        }
        let within = |words: &mut Words, bind: &str| {
            words.nodes = Some(1);
            words.bind = Some(bind.to_owned());
        };
        if has(&["same leaf", "same switch", "1 hop"]) {
            self.placement = Placement::SameSwitch;
        } else if has(&["across spine", "3 hops", "5 hops", "across leaves", "different leaf", "different switch"]) {
            self.placement = Placement::Farthest;
        } else if has(&["inter-socket", "different sockets", "across sockets", "cross-socket"]) {
            within(self, "socket");
        } else if has(&["intra-socket", "same socket", "intra-numa", "same numa"]) {
            within(self, "core");
        } else if has(&["inter-numa", "different numa", "across numa", "cross-numa"]) {
            within(self, "numa");
        } else if has(&["intra-node", "intranode", "same node", "within a node", "within one node"]) {
            self.nodes = Some(1);
        } else if has(&["inter-node", "internode", "two nodes"]) && !traits.is_collective() {
            self.nodes = Some(2);
        } else {
            return Ok(false);
        }
        Ok(true)
    }

    /// What is switched on and off: GPUs, reductions in switches, plug-ins.
    fn switches(&mut self, traits: &Traits, phrase: &str, lower: &str) -> Result<bool, String> {
        let said = is_on(lower);
        if lower.contains("gpu-aware") || lower.contains("cuda-aware") {
            self.gpu_aware = Some(said.unwrap_or(true));
        } else if lower.contains("gpudirect") || lower.split(|c: char| !c.is_ascii_alphanumeric()).any(|word| word == "gdr") {
            self.gpudirect = Some(said.unwrap_or(true));
        } else if lower.split(|c: char| !c.is_ascii_alphanumeric()).any(|word| word == "sharp") || lower.contains("in-network") {
            match (said.unwrap_or(true), traits.suite) {
                (false, _) => {}
                (true, Suite::NcclTests) => self.options.extend(["--env".to_owned(), "NCCL_COLLNET_ENABLE=1".to_owned()]),
                (true, _) if traits.is_collective() => self.sharp(),
                (true, _) => return Err(format!("`{phrase}`: switches reduce nothing in a benchmark between two ranks")),
            }
        } else if lower.contains("plug-in") || lower.contains("plugin") {
            if said == Some(false) {
                return Err(format!("`{phrase}`: the library without its plug-in is not modelled; what the cluster's software has is"));
            }
        } else {
            return Ok(false);
        }
        Ok(true)
    }

    fn sharp(&mut self) {
        self.options.extend(["--algorithm".to_owned(), "sharp".to_owned()]);
    }

    /// By what means long messages travel within a node.
    fn means(&mut self, lower: &str) -> bool {
        let bare = lower.trim_start_matches("over ").trim_start_matches("with ");
        let known = ["xpmem", "cma", "knem"].into_iter().find(|word| *word == bare);
        self.intra_node = self.intra_node.take().or_else(|| known.map(str::to_owned));
        known.is_some()
    }

    /// The library; that it was told to do something unusual refuses the row.
    fn library(&mut self, phrase: &str, lower: &str) -> Result<bool, String> {
        let begins = |at: usize| !lower[..at].ends_with(|c: char| c.is_ascii_alphanumeric());
        let found = LIBRARIES.iter().filter_map(|name| lower.match_indices(name).map(|(at, _)| at).find(|at| begins(*at))).min();
        let Some(rest) = found.and_then(|at| phrase.get(at..)) else { return Ok(false) };
        if let Some(word) = changes(lower).filter(|word| !matches!(*word, "on" | "enabled")) {
            return Err(unlike(phrase, word));
        }
        if self.software.is_none() {
            self.software = Some(rest.trim().to_owned());
        }
        Ok(true)
    }
}

/// Why a phrase refuses its row.
fn unlike(phrase: &str, word: &str) -> String {
    format!("`{phrase}` changes the run (`{word}`) in a way that is not read; say it by --settings, or leave it out")
}

/// What libraries are called. The longest forms stand before those that they end in.
const LIBRARIES: [&str; 12] =
    ["mvapich", "open mpi", "openmpi", "open-mpi", "ompi", "hpc-x", "hpcx", "intel mpi", "intelmpi", "impi", "mpich", "cray mpi"];

/// Variables that tell programs what to print or how many threads to start.
fn says_nothing(name: &str) -> bool {
    const NAMES: [&str; 5] = ["PATH", "LD_LIBRARY_PATH", "I_MPI_DEBUG", "UCX_LOG_LEVEL", "FI_LOG_LEVEL"];
    NAMES.contains(&name) || ["OMP_", "KMP_", "NCCL_DEBUG", "SHARP_COLL_LOG", "SLURM_"].iter().any(|prefix| name.starts_with(prefix))
}

/// The variables of a phrase that has nothing else, with their values.
fn variables(phrase: &str) -> Option<Vec<(&str, &str)>> {
    let text = phrase.split(" (").next().unwrap_or_default();
    let words = text.split_whitespace().filter(|word| !matches!(*word, "-x" | "-genv" | "export" | "env" | "with"));
    let found: Option<Vec<_>> =
        words.map(|word| word.split_once('=').filter(|(name, value)| is_variable(name) && !value.is_empty())).collect();
    found.filter(|found| !found.is_empty())
}

fn is_variable(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_uppercase()) && name.chars().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_')
}

/// What is between commas, semicolons and ` + `, outside brackets.
pub(super) fn phrases(variant: &str) -> impl Iterator<Item = &str> {
    let (mut depth, mut start, mut cuts) = (0usize, 0, Vec::new());
    for (at, c) in variant.char_indices() {
        match c {
            '(' | '[' => depth += 1,
            ')' | ']' => depth = depth.saturating_sub(1),
            ',' | ';' if depth == 0 => {
                cuts.push(&variant[start..at]);
                start = at + 1;
            }
            '+' if depth == 0 && variant[..at].ends_with(' ') && variant[at + 1..].starts_with(' ') => {
                cuts.push(&variant[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    cuts.push(&variant[start..]);
    cuts.into_iter().map(str::trim).filter(|phrase| !phrase.is_empty())
}

/// Whether a phrase says that something is on or off; nothing where it says neither.
fn is_on(lower: &str) -> Option<bool> {
    let words: Vec<&str> = lower.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty()).collect();
    let has = |known: &[&str]| words.iter().any(|word| known.contains(word));
    if has(&["off", "no", "not", "without", "disabled", "disable", "non"]) {
        return Some(false);
    }
    has(&["on", "with", "enabled", "enable"]).then_some(true)
}

/// `4 nodes x 36 ranks`, `2 nodes`, `36 ppn`, `8 GPUs`, what the columns of the row say as well.
fn is_shape(lower: &str) -> bool {
    let words: Vec<&str> = lower.split_whitespace().collect();
    let known = |word: &&str| {
        let unit = matches!(
            *word,
            "x" | "node"
                | "nodes"
                | "rank"
                | "ranks"
                | "process"
                | "processes"
                | "procs"
                | "per"
                | "ppn"
                | "gpu"
                | "gpus"
                | "single"
                | "full"
        );
        unit || word.chars().all(|c| c.is_ascii_digit())
    };
    words.iter().any(|word| word.chars().all(|c| c.is_ascii_digit()) || *word == "single") && words.iter().all(known)
}

/// Words that only repeat what benchmark, metric and size say.
fn is_plain(lower: &str) -> bool {
    const PLAIN: [&str; 26] = [
        "peak",
        "uni",
        "bi",
        "directional",
        "unidirectional",
        "bidirectional",
        "pt2pt",
        "point",
        "to",
        "small",
        "large",
        "messages",
        "message",
        "default",
        "defaults",
        "average",
        "avg",
        "mean",
        "median",
        "best",
        "run",
        "of",
        "omb",
        "two",
        "x",
        "imb",
    ];
    let mut words = lower.split(|c: char| !(c.is_ascii_alphanumeric() || c == '.')).filter(|word| !word.is_empty());
    words.all(|word| PLAIN.contains(&word) || word.chars().all(|c| c.is_ascii_digit() || c == '.'))
}

/// The first word of a phrase that speaks of how a run was made.
fn changes(lower: &str) -> Option<&'static str> {
    const CHANGES: [&str; 45] = [
        "no",
        "not",
        "without",
        "off",
        "on",
        "disabled",
        "enabled",
        "tuned",
        "untuned",
        "optimized",
        "optimised",
        "hugepages",
        "huge",
        "inline",
        "event",
        "events",
        "interrupt",
        "rail",
        "rails",
        "multirail",
        "thread",
        "threads",
        "ud",
        "dc",
        "xrc",
        "rc",
        "srd",
        "tcp",
        "ipoib",
        "sockets",
        "shm",
        "mtu",
        "sriov",
        "vm",
        "background",
        "congested",
        "loaded",
        "graph",
        "graphs",
        "registered",
        "numa",
        "numactl",
        "binding",
        "pinned",
        "socket",
    ];
    let words: Vec<&str> = lower.split(|c: char| !c.is_ascii_alphanumeric()).collect();
    CHANGES.into_iter().find(|known| words.contains(known))
}

#[cfg(test)]
mod tests {
    use super::*;
    use fabriscope_tools::Tool;

    fn read(tool: &str, variant: &str) -> Result<Words, String> {
        Words::of(&Tool::by_name(tool).unwrap().traits(), variant)
    }

    #[test]
    fn phrases_end_at_commas_outside_brackets() {
        assert_eq!(phrases("HPC-X 2.7 (UCX 1.9, CUDA 11), host + x").collect::<Vec<_>>(), ["HPC-X 2.7 (UCX 1.9, CUDA 11)", "host", "x"]);
    }

    #[test]
    fn words_that_change_the_run_are_read() {
        let words = read("osu_latency", "Open MPI 5.0, D D, PSM2_GPUDIRECT=0 (cuMemcpy), xpmem").unwrap();
        assert_eq!((words.options.join(" ").as_str(), words.gpudirect, words.intra_node.as_deref()), ("D D", Some(false), Some("xpmem")));
        assert_eq!(words.software.as_deref(), Some("Open MPI 5.0"));
        let words = read("osu_latency", "CUDA-aware Open MPI 5.0.3, dl380 with Intel compilers").unwrap();
        assert_eq!((words.gpu_aware, words.software.as_deref()), (Some(true), Some("Open MPI 5.0.3")));
        let words = read("osu_latency", "different sockets").unwrap();
        assert_eq!((words.nodes, words.bind.as_deref()), (Some(1), Some("socket")));
        let words = read("osu_allreduce", "SHARP on, 4 nodes x 36 ranks").unwrap();
        assert_eq!(words.options, ["--algorithm", "sharp"]);
        assert!(read("osu_allreduce", "no SHARP").unwrap().options.is_empty());
        assert_eq!(read("osu_allreduce", "HCOLL_ENABLE_SHARP=3").unwrap().options, ["--algorithm", "sharp"]);
        assert_eq!(read("osu_xccl_latency", "NCCL_P2P_LEVEL=SYS NCCL_DEBUG=INFO").unwrap().options, ["--env", "NCCL_P2P_LEVEL=SYS"]);
        assert_eq!(read("osu_bw", "-W 32 -i 1000").unwrap().options, ["-W", "32"]);
    }

    #[test]
    fn words_that_are_not_modelled_refuse_the_row() {
        let refused = |tool: &str, variant: &str| read(tool, variant).map(|_| ()).unwrap_err();
        assert!(refused("osu_latency", "within a CCX").contains("which cores share a cache"));
        assert!(refused("osu_latency", "Open MPI 4.1 over TCP").contains("`tcp`"));
        assert!(refused("osu_latency", "Open MPI 4.1, UCX_TLS=rc,self").contains("UCX_TLS=rc"));
        assert!(refused("osu_latency", "no plug-in").contains("without its plug-in"));
        assert!(refused("osu_latency", "SHARP on").contains("between two ranks"));
        assert!(refused("osu_latency", "with hugepages").contains("`hugepages`"));
        assert!(refused("osu_bw", "device buffers").contains("which buffers are on GPUs"));
    }

    #[test]
    fn what_says_nothing_of_the_run_is_told() {
        assert_eq!(read("osu_latency", "openmpi, alinux2, host buffers, part 2 post").unwrap().unread, ["alinux2", "part 2 post"]);
        for said in
            ["uni-directional peak", "bi-directional peak", "inter-node pt2pt, small messages", "4 nodes x 36 ranks", "2 nodes", "H H", ""]
        {
            assert!(read("osu_bw", said).unwrap().unread.is_empty(), "{said}");
        }
    }
}
