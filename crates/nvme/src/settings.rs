//! The command line, and what it asks of the cluster.

use fabriscope_catalog::{Drive, Interface, NvmeOffload, NvmeStack, Shared};
use fabriscope_platform::{Target, path_mtu};
use fabriscope_tool::arguments::Meaning::{Harmless, Refused, Usual};
use fabriscope_tool::arguments::{self, Given, Opt, Takes, opt};
use fabriscope_tool::{UsageError, nvme_drive, nvme_names};
use fabriscope_units::{Bytes, Span};
use fabriscope_wire::Mtu;

use crate::{ABOUT, NAME};

/// The options of the command line.
pub const OPTIONS: &[Opt] = &[
    opt('q', "io-depth", Takes::Value("count"), Usual, "commands of a core outstanding (default 1)"),
    opt('o', "io-size", Takes::Value("bytes"), Usual, "bytes of a command (default 4096)"),
    opt('w', "io-pattern", Takes::Value("name"), Usual, "read, write, randread, randwrite, rw, randrw (default randread)"),
    opt('M', "rwmixread", Takes::Value("percent"), Usual, "reads among rw and randrw (default 50)"),
    opt('t', "time", Takes::Value("seconds"), Usual, "how long, also in decimals (default 0.005)"),
    opt('d', "number-ios", Takes::Value("count"), Usual, "commands of a core, instead of a time"),
    opt('c', "core-mask", Takes::Value("mask"), Usual, "cores of the host, as 0x3 for two (default 0x1)"),
    opt('r', "transport", Takes::Value("id"), Usual, "'trtype:PCIe' or 'trtype:RDMA …' (default PCIe)"),
    opt('L', "enable-sw-latency-tracking", Takes::Nothing, Usual, "percentiles of latency"),
    opt(
        '\0',
        "stack",
        Takes::Value("name"),
        Usual,
        "software of the host: spdk-24.05 or linux-nvme (default spdk-24.05; not of the real tool)",
    ),
    opt('\0', "target-stack", Takes::Value("name"), Usual, "software of the target (default: that of the host; not of the real tool)"),
    opt('\0', "target", Takes::Value("host|dpu|offload"), Usual, "who serves at the target (default host; not of the real tool)"),
    opt('\0', "target-cores", Takes::Value("count"), Usual, "cores of the target (default: as many as the host's; not of the real tool)"),
    opt('\0', "drive", Takes::Value("part"), Usual, "model of the drives (default: those of the node part; not of the real tool)"),
    opt('\0', "drives", Takes::Value("count"), Usual, "how many (default: those of the node part, or 1; not of the real tool)"),
    opt('P', "num-qpairs", Takes::Value("count"), Refused("each core has one queue pair; raise -q or -c"), ""),
    opt('s', "hugemem-size", Takes::Value("MB"), Harmless("memory is not limited"), ""),
    opt('h', "help", Takes::Nothing, Usual, "show this page"),
];

/// Who serves commands at the target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Server {
    /// Cores of its host.
    Host,
    /// Cores on its adapter.
    Dpu,
    /// The adapter by itself.
    Offload,
}

/// What the command line says.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub depth: u32,
    pub bytes: Bytes,
    pub random: bool,
    pub reads_of_100: u32,
    pub time: Span,
    pub count: Option<u64>,
    pub cores: u32,
    pub local: bool,
    pub percentiles: bool,
    pub host: NvmeStack,
    pub target: NvmeStack,
    pub server: Server,
    pub offload: Option<NvmeOffload>,
    pub target_cores: u32,
    pub drive: Shared<Drive>,
    pub drives: u32,
    pub mtu: Mtu,
}

#[derive(Default)]
struct Typed {
    depth: Option<u32>,
    bytes: Option<u64>,
    pattern: Option<String>,
    mix: Option<u32>,
    time: Option<Span>,
    count: Option<u64>,
    cores: Option<u32>,
    transport: Option<String>,
    percentiles: bool,
    stacks: [Option<String>; 2],
    server: Option<Server>,
    target_cores: Option<u32>,
    drive: Option<String>,
    drives: Option<u32>,
}

fn conflict<T>(what: impl Into<String>, remedy: impl Into<String>) -> Result<T, UsageError> {
    Err(UsageError::Conflict { what: what.into(), remedy: remedy.into() })
}

impl Typed {
    fn take(&mut self, given: &Given) -> Result<(), UsageError> {
        let text = given.value.as_deref().unwrap_or_default();
        let one_of = |known| UsageError::NotOneOf { option: given.typed.clone(), value: text.to_owned(), known };
        match given.name {
            "io-depth" => self.depth = Some(arguments::number(given, 1, 4096)? as u32),
            "io-size" => self.bytes = Some(arguments::size(&given.typed, text, 512, 16 << 20)?),
            "io-pattern" if PATTERNS.contains(&text) => self.pattern = Some(text.to_owned()),
            "io-pattern" => return Err(one_of("read, write, randread, randwrite, rw, randrw")),
            "rwmixread" => self.mix = Some(arguments::number(given, 0, 100)? as u32),
            "time" => match text.parse::<f64>() {
                Ok(seconds) if seconds > 0.0 && seconds <= 3600.0 => self.time = Some(Span::from_ps((seconds * 1e12) as u64)),
                _ => return Err(one_of("a number of seconds above 0 and up to 3600")),
            },
            "number-ios" => self.count = Some(arguments::number(given, 1, 1 << 40)?),
            "core-mask" => {
                let digits = text.trim_start_matches("0x");
                let mask = u128::from_str_radix(digits, 16).map_err(|_| one_of("a mask in hexadecimal, as 0x3"))?;
                if mask == 0 {
                    return Err(one_of("a mask of at least one core, as 0x1"));
                }
                self.cores = Some(mask.count_ones());
            }
            "transport" => self.transport = Some(text.to_owned()),
            "enable-sw-latency-tracking" => self.percentiles = true,
            "stack" => self.stacks[0] = Some(text.to_owned()),
            "target-stack" => self.stacks[1] = Some(text.to_owned()),
            "target" => {
                self.server = Some(match text {
                    "host" => Server::Host,
                    "dpu" => Server::Dpu,
                    "offload" => Server::Offload,
                    _ => return Err(one_of("host, dpu, offload")),
                });
            }
            "target-cores" => self.target_cores = Some(arguments::number(given, 1, 128)? as u32),
            "drive" => self.drive = Some(text.to_owned()),
            "drives" => self.drives = Some(arguments::number(given, 1, 1024)? as u32),
            "help" => return Err(UsageError::Help { text: arguments::help(NAME, ABOUT, OPTIONS, "") }),
            _ => {}
        }
        Ok(())
    }
}

/// What `-w` knows.
const PATTERNS: [&str; 6] = ["read", "write", "randread", "randwrite", "rw", "randrw"];

impl Settings {
    /// Reads the command line.
    pub fn read(args: &[String], target: &Target) -> Result<Settings, UsageError> {
        let parsed = arguments::parse(NAME, OPTIONS, args)?;
        parsed.no_operands(NAME)?;
        let mut typed = Typed::default();
        for given in &parsed.options {
            typed.take(given)?;
        }
        let local = is_local(typed.transport.as_deref(), target)?;
        let pattern = typed.pattern.unwrap_or_else(|| "randread".to_owned());
        let reads_of_100 = match pattern.trim_start_matches("rand") {
            "read" => 100,
            "write" => 0,
            _ => typed.mix.unwrap_or(50),
        };
        if typed.mix.is_some() && !pattern.ends_with("rw") {
            return conflict(format!("-M with -w {pattern}, which mixes nothing"), "use -w rw or -w randrw, or leave -M out");
        }
        let only = |option: &str, given: bool| {
            if given && local {
                conflict(format!("{option} with drives of the node"), "add -r trtype:RDMA, or leave it out")
            } else {
                Ok(())
            }
        };
        only("--target", typed.server.is_some())?;
        only("--target-stack", typed.stacks[1].is_some())?;
        only("--target-cores", typed.target_cores.is_some())?;
        let cores = typed.cores.unwrap_or(1);
        let server = typed.server.unwrap_or(Server::Host);
        let target_cores = typed.target_cores.unwrap_or(cores);
        if target_cores > cores {
            let what = format!("{target_cores} cores of a target for {cores} connections");
            return conflict(what, format!("give --target-cores {cores} or less, or more cores to the host with -c"));
        }
        check_server(server, target_cores, target)?;
        let host = stack(typed.stacks[0].as_deref(), target)?;
        let served_by = if typed.stacks[1].is_some() { stack(typed.stacks[1].as_deref(), target)? } else { host.clone() };
        let (drive, drives) = drives(typed.drive.as_deref(), typed.drives, target)?;
        Ok(Settings {
            depth: typed.depth.unwrap_or(1),
            bytes: Bytes(typed.bytes.unwrap_or(4096)),
            random: pattern.starts_with("rand"),
            reads_of_100,
            time: typed.time.unwrap_or(USUAL_TIME),
            count: typed.count,
            cores,
            local,
            percentiles: typed.percentiles,
            host,
            target: served_by,
            server,
            offload: target.nvme_offload.clone().filter(|_| server == Server::Offload),
            target_cores: if server == Server::Offload { cores } else { target_cores },
            drive,
            drives,
            mtu: path_mtu(target.mtu),
        })
    }
}

/// Long enough for thousands of commands of one core. Basis: assumed.
const USUAL_TIME: Span = Span::from_us(5000);

fn is_local(transport: Option<&str>, target: &Target) -> Result<bool, UsageError> {
    let Some(text) = transport else { return Ok(true) };
    let kind = text.split_whitespace().find_map(|word| word.strip_prefix("trtype:")).unwrap_or_default();
    match kind.to_ascii_lowercase().as_str() {
        "pcie" => Ok(true),
        "rdma" if matches!(target.interface, Interface::Verbs | Interface::Iwarp) => Ok(false),
        "rdma" => {
            let what =
                format!("NVMe over RDMA needs connected queue pairs of verbs; the adapters here are driven through {}", target.interface);
            conflict(what, "use -r trtype:PCIe, or a cluster with InfiniBand, RoCE or iWARP")
        }
        _ => Err(UsageError::NotOneOf {
            option: "-r".to_owned(),
            value: text.to_owned(),
            known: "trtype:PCIe, trtype:RDMA (what follows, traddr and subnqn, is not looked at)",
        }),
    }
}

fn check_server(server: Server, cores: u32, target: &Target) -> Result<(), UsageError> {
    match (server, &target.dpu) {
        (Server::Dpu, None) => {
            conflict("--target dpu: the adapters of this cluster have no cores", "use a cluster with a DPU: lab-bluefield-2")
        }
        (Server::Dpu, Some(dpu)) if cores > dpu.cores => {
            let what = format!("{cores} cores of a target on the {} of `{}`", dpu.cores, dpu.name);
            conflict(what, format!("give --target-cores {} or less", dpu.cores))
        }
        (Server::Offload, _) if target.nvme_offload.is_none() => {
            let remedy = "use adapters whose part has a table [nvme]: connectx-5 and later; or --target host";
            conflict("--target offload: the adapters of this cluster serve no commands of NVMe", remedy)
        }
        _ => Ok(()),
    }
}

fn stack(name: Option<&str>, target: &Target) -> Result<NvmeStack, UsageError> {
    let name = name.unwrap_or(USUAL_STACK);
    match target.services.iter().find(|part| part.name == name).and_then(|part| part.nvme.as_ref()) {
        Some(stack) => Ok(stack.clone()),
        None => {
            let known: Vec<&str> = target.services.iter().filter(|part| part.nvme.is_some()).map(|part| part.name.as_str()).collect();
            conflict(
                format!("no software of the catalogue is called `{name}` and has a table [nvme]"),
                format!("use {}", known.join(" or ")),
            )
        }
    }
}

/// The software that the tool belongs to.
const USUAL_STACK: &str = "spdk-24.05";

fn drives(name: Option<&str>, count: Option<u32>, target: &Target) -> Result<(Shared<Drive>, u32), UsageError> {
    let own = target.node_drives.as_ref();
    let Some(name) = name.or(own.map(|(name, _)| name.as_str())) else {
        let remedy = format!("name one with --drive: {}", nvme_names(&target.drives));
        return conflict("the nodes of this cluster have no drives", remedy);
    };
    Ok((nvme_drive(&target.drives, name)?, count.or(own.map(|(_, count)| *count)).unwrap_or(1)))
}
