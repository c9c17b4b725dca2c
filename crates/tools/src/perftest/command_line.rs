//! A perftest command line while it is being read, and the rules that complete it.
//!
//! Source: perftest 6.29 behaviour and help (format: docs/formats.md); the defaults come from the software part of the
//! catalogue where it has a `[perftest]` table.

use fabriscope_catalog::{Interface, Rdma};
use fabriscope_platform::{LinkType, Target};
use fabriscope_tool::UsageError;
use fabriscope_tool::arguments::{self, Given};
use fabriscope_units::{Bytes, Span};
use fabriscope_verbs::{Pages, Service, WindowKind};

use super::defaults::{
    self, ATOMIC_SIZE, Defaults, GID_INDEX, JSON_FILE, MARGIN_SECONDS, MAX_DEPTH, MAX_INLINE, MAX_OUTSTANDING, MAX_SIZE, MODERATION_LIMIT,
    OUTSTANDING_READS, RX_DEPTH_UNRELIABLE, SMALLEST_FRAME, TIMEOUT_EXPONENT, VERSION,
};
use super::gpu::{self, Driver, GpuRequest};
use super::options::{NOTES, OPTIONS};
use super::settings::{AtomicType, CONNECTIONS, Length, Settings, Verbosity};
use super::test::{Kind, Test, Verb};

/// The settings while options are still being read.
pub(super) struct Draft {
    settings: Settings,
    defaults: Defaults,
    size: Option<u32>,
    iterations: Option<u64>,
    duration: Option<u64>,
    margin: Option<u64>,
    cq_mod: Option<u32>,
    inline_size: Option<u32>,
    rx_depth: Option<u32>,
    gpu: Option<GpuRequest>,
    page: Option<Bytes>,
    on_demand: bool,
    json: bool,
}

impl Draft {
    pub(super) fn new(test: Test, target: &Target) -> Draft {
        let defaults = Defaults::of(test, target.perftest.as_ref());
        let settings = Settings {
            test,
            sizes: Vec::new(),
            all_sizes: false,
            length: Length::Iterations(0),
            connection: if test.verb == Verb::Raw { Service::Raw } else { Service::Rc },
            atomic: AtomicType::FetchAndAdd,
            tx_depth: defaults.tx_depth,
            rx_depth: defaults.rx_depth,
            cq_mod: defaults.cq_mod,
            post_list: 1,
            inline_size: 0,
            outs: target.max_outstanding_reads.min(OUTSTANDING_READS),
            qps: 1,
            mtu: target.mtu,
            gid_index: (target.link == LinkType::Ethernet && test.verb != Verb::Raw).then_some(GID_INDEX),
            device: target.devices.first().cloned().unwrap_or_default(),
            nic: 0,
            link: target.link,
            rdma_cm: target.interface == Interface::Iwarp,
            iwarp: target.interface == Interface::Iwarp,
            use_srq: false,
            events: false,
            multicast: false,
            pages: None,
            cycle: 0,
            window: None,
            wrong_rkey: false,
            macs: [String::new(), String::new()],
            sl: 0,
            rate_limit: None,
            timeout: TIMEOUT_EXPONENT,
            bidirectional: false,
            peak: true,
            gigabits: false,
            unsorted: false,
            histogram: false,
            warm_up: false,
            old_post_send: false,
            json: None,
            verbosity: Verbosity::Full,
            gpu: None,
            loop_overhead: defaults.loop_overhead,
            every_iteration: target.every_iteration,
        };
        Draft {
            settings,
            defaults,
            size: None,
            iterations: None,
            duration: None,
            margin: None,
            cq_mod: None,
            inline_size: None,
            rx_depth: None,
            gpu: None,
            page: None,
            on_demand: false,
            json: false,
        }
    }

    pub(super) fn apply(&mut self, given: &Given) -> Result<(), UsageError> {
        let text = given.value.clone().unwrap_or_default();
        let number = |low, high| arguments::number(given, low, high);
        let s = &mut self.settings;
        match given.name {
            "all" => s.all_sizes = true,
            "atomic_type" if s.test.verb == Verb::Atomic => {
                s.atomic = one_of(
                    given,
                    "FETCH_AND_ADD, CMP_AND_SWAP",
                    &[("FETCH_AND_ADD", AtomicType::FetchAndAdd), ("CMP_AND_SWAP", AtomicType::CompareAndSwap)],
                )?;
            }
            "bidirectional" => s.bidirectional = true,
            "connection" if s.test.verb == Verb::Raw => {
                return conflict(&given.typed, "chooses a transport, and frames have none", "leave it out");
            }
            "connection" => {
                s.connection = one_of(given, "RC, XRC, UC, UD, DC, SRD", &CONNECTIONS)?;
            }
            "ib-dev" => s.device = text,
            "duration" => self.duration = Some(number(1, 1000)?),
            "margin" => self.margin = Some(number(0, 500)?),
            "report-histogram" => s.histogram = true,
            "inline_size" => self.inline_size = Some(number(0, MAX_INLINE)? as u32),
            "post_list" => s.post_list = number(1, MAX_DEPTH)? as u32,
            "mtu" => {
                let mtus = [("256", 256), ("512", 512), ("1024", 1024), ("2048", 2048), ("4096", 4096)];
                s.mtu = one_of(given, "256, 512, 1024, 2048, 4096", &mtus)?;
            }
            "iters" => self.iterations = Some(number(5, 100_000_000)?),
            "noPeak" => s.peak = false,
            "outs" => s.outs = number(1, u64::from(MAX_OUTSTANDING))? as u8,
            "qp" => s.qps = number(1, 16_384)? as u32,
            "cq-mod" => self.cq_mod = Some(number(1, 1024)? as u32),
            "rx-depth" => self.rx_depth = Some(number(1, 16_384)? as u32),
            "size" => self.size = Some(arguments::size(&given.typed, &text, 1, MAX_SIZE)? as u32),
            "rate_limit" => s.rate_limit = Some(number(1, 10_000)?),
            "rdma_cm" => s.rdma_cm = true,
            "use-srq" => s.use_srq = true,
            "events" => s.events = true,
            "mcg" => s.multicast = true,
            "cycle_buffer" => s.cycle = arguments::size(&given.typed, &text, 1, MOST_CYCLE)?,
            "use_hugepages" => self.page = Some(HUGE_PAGE),
            "page_size" => {
                let sizes = [("4K", SMALL_PAGE), ("2M", HUGE_PAGE), ("1G", Bytes(1 << 30))];
                self.page = Some(one_of(given, "4K, 2M, 1G", &sizes)?);
            }
            "odp" => self.on_demand = true,
            "mw_type" => s.window = Some(one_of(given, "1, 2", &[("1", WindowKind::One), ("2", WindowKind::Two)])?),
            "wrong_rkey" => s.wrong_rkey = true,
            "dest_mac" | "source_mac" if s.test.verb != Verb::Raw => {
                return conflict(&given.typed, "is an option of the raw_ethernet programs", "leave it out");
            }
            "dest_mac" => s.macs[0] = mac(given)?,
            "source_mac" => s.macs[1] = mac(given)?,
            "sl" => s.sl = number(0, 15)? as u8,
            "tx-depth" => s.tx_depth = number(1, MAX_DEPTH)? as u32,
            "qp-timeout" => s.timeout = number(0, 31)? as u8,
            "report-unsorted" => s.unsorted = true,
            "gid-index" => s.gid_index = Some(number(0, 64)? as u32),
            "report_gbits" => s.gigabits = true,
            "out_json" => self.json = true,
            "out_json_file" => s.json = Some(text),
            "output" => {
                let values =
                    [("bandwidth", Verbosity::Bandwidth), ("message_rate", Verbosity::MessageRate), ("latency", Verbosity::Latency)];
                s.verbosity = one_of(given, "bandwidth, message_rate, latency", &values)?;
            }
            "perform_warm_up" => s.warm_up = true,
            "use_cuda" => self.gpu = Some(GpuRequest::number(Driver::Cuda, given)?),
            "use_cuda_bus_id" => self.gpu = Some(GpuRequest::bus(given)),
            "use_rocm" => self.gpu = Some(GpuRequest::number(Driver::Rocm, given)?),
            "use_old_post_send" => s.old_post_send = true,
            "help" => return Err(UsageError::Help { text: arguments::help(s.test.name(), s.test.about(), OPTIONS, NOTES) }),
            "version" => return Err(UsageError::Help { text: VERSION.to_owned() }),
            "atomic_type" => return conflict(&given.typed, "is an option of the atomic tests", "use ib_atomic_lat or ib_atomic_bw"),
            _ => {}
        }
        Ok(())
    }

    pub(super) fn finish(mut self, target: &Target) -> Result<Settings, UsageError> {
        self.check()?;
        self.check_adapter(target)?;
        self.resolve_device(target)?;
        self.resolve_length()?;
        self.resolve_sizes(target)?;
        self.resolve_depths()?;
        let s = &mut self.settings;
        let divided = self.on_demand || self.page.is_some() || s.cycle > 0;
        s.pages = divided.then(|| Pages { size: self.page.unwrap_or(SMALL_PAGE), on_demand: self.on_demand });
        let automatic = defaults::inline_size(s.test, s.connection, target.perftest.as_ref());
        s.inline_size = if s.test.is_one_sided_round_trip() { 0 } else { self.inline_size.unwrap_or(automatic.min(target.max_inline)) };
        if s.inline_size > target.max_inline {
            let value = u64::from(s.inline_size);
            return Err(UsageError::OutOfRange { option: "-I".to_owned(), value, low: 0, high: u64::from(target.max_inline) });
        }
        if let Some(wanted) = &self.gpu {
            gpu::resolve(s, wanted.find(target)?, self.inline_size)?;
        }
        if s.mtu > target.mtu {
            let what = format!("-m {} is larger than the port's MTU of {}", s.mtu, target.mtu);
            return Err(UsageError::Conflict { what, remedy: format!("give -m {} or less", target.mtu) });
        }
        s.json = if self.json { Some(s.json.take().unwrap_or_else(|| JSON_FILE.to_owned())) } else { None };
        Ok(self.settings)
    }

    /// What this program of the family does not have.
    fn check(&self) -> Result<(), UsageError> {
        let s = &self.settings;
        if s.test.kind == Kind::Latency {
            let bandwidth_only = [
                ("-b", s.bidirectional),
                ("-q", s.qps > 1),
                ("-l", s.post_list > 1),
                ("-N", !s.peak),
                ("--report_gbits", s.gigabits),
                ("--output", matches!(s.verbosity, Verbosity::Bandwidth | Verbosity::MessageRate)),
            ];
            if let Some((option, _)) = bandwidth_only.iter().find(|(_, given)| *given) {
                return conflict(option, "is an option of the bandwidth tests", "leave it out, or use the _bw program");
            }
        } else {
            let latency_only = [("-U", s.unsorted), ("-H", s.histogram), ("--output latency", s.verbosity == Verbosity::Latency)];
            if let Some((option, _)) = latency_only.iter().find(|(_, given)| *given) {
                return conflict(option, "is an option of the latency tests", "leave it out, or use the _lat program");
            }
        }
        self.check_extras()?;
        match (s.connection, s.test.verb) {
            (Service::Ud, Verb::Write | Verb::Read | Verb::Atomic) => {
                conflict("-c UD", "carries sends only", "use -c RC, or an ib_send program")
            }
            (Service::Uc, Verb::Read | Verb::Atomic) => conflict("-c UC", "has no reads and atomics", "use -c RC"),
            (_, Verb::Atomic) if s.iwarp => conflict(s.test.name(), "needs atomics, which iWARP has not", "run one of the others"),
            (Service::Raw, _) if s.iwarp => {
                conflict(s.test.name(), "needs raw queue pairs, which iWARP adapters have not", "use ib_send_bw")
            }
            (other, _) if s.iwarp && other != Service::Rc => {
                conflict(&format!("-c {}", other.name()), "does not exist on iWARP adapters", "use -c RC")
            }
            (Service::Srd, Verb::Atomic) => conflict("-c SRD", "has no atomics", "use -c RC, where the adapter has it"),
            _ => Ok(()),
        }
    }

    /// What only some programs and transports have.
    fn check_extras(&self) -> Result<(), UsageError> {
        let s = &self.settings;
        let one_sided = !s.receives();
        let (rc, ud) = (s.connection == Service::Rc && !s.iwarp, s.connection == Service::Ud);
        let on_memory = s.test == Test { verb: Verb::Write, kind: Kind::Latency };
        let rules = [
            (
                s.use_srq && !(s.receives() && (rc || s.connection == Service::Uc || ud)),
                "--use-srq",
                "shares receives of RC, UC and UD",
                "use an ib_send program",
            ),
            (s.multicast && !ud, "-g", "sends datagrams to a group", "use ib_send_lat or ib_send_bw with -c UD"),
            (s.multicast && (s.qps > 1 || s.bidirectional), "-g", "takes one queue pair and one direction here", "leave -q and -b out"),
            (s.events && on_memory, "-e", "sleeps on completions, and ib_write_lat waits for memory", "use ib_send_lat"),
            (s.events && s.bidirectional, "-e", "sleeps on one queue at a time", "leave -b out"),
            (
                s.cycle > 0 && !one_sided,
                "--cycle_buffer",
                "goes through the buffer of one-sided operations",
                "use ib_write_bw or ib_read_lat",
            ),
            (
                s.window.is_some() && !(one_sided && rc),
                "--mw_type",
                "lets the peer reach memory over RC",
                "use ib_write_bw or ib_read_lat, with -c RC",
            ),
            (
                s.wrong_rkey && (!one_sided || on_memory),
                "--wrong_rkey",
                "needs a key of the peer, and a completion",
                "use ib_write_bw or ib_read_lat",
            ),
            (s.wrong_rkey && s.bidirectional, "--wrong_rkey", "ends the run of one client", "leave -b out"),
            (s.test.verb == Verb::Raw && s.qps > 1, "-q", "shares frames among queue pairs, which needs flow steering", "leave -q out"),
            (
                s.test.verb == Verb::Raw && s.link != LinkType::Ethernet,
                s.test.name(),
                "sends frames of Ethernet",
                "use ib_send_bw on InfiniBand",
            ),
        ];
        match rules.into_iter().find(|(broken, ..)| *broken) {
            Some((_, option, what, remedy)) => conflict(option, what, remedy),
            None => Ok(()),
        }
    }

    /// What EFA adapters have: SRD and UD, and memory operations by generation.
    fn check_adapter(&self, target: &Target) -> Result<(), UsageError> {
        if target.interface != Interface::Efa {
            return Ok(());
        }
        let s = &self.settings;
        if !matches!(s.connection, Service::Srd | Service::Ud) {
            return conflict(&format!("-c {}", s.connection.name()), "is no service of EFA adapters", "give -c SRD or -c UD");
        }
        let (verb, remedy) = match (s.test.verb, s.test.kind, target.rdma) {
            (Verb::Read, kind, Rdma::None) => ("reads", instead(kind)),
            (Verb::Write, kind, Rdma::None | Rdma::Read) => ("writes", instead(kind)),
            _ => return Ok(()),
        };
        conflict(s.test.name(), &format!("{verb} memory, which this generation of EFA does not do"), remedy)
    }

    /// The device by its name: it decides which NIC of the node is used.
    fn resolve_device(&mut self, target: &Target) -> Result<(), UsageError> {
        let s = &mut self.settings;
        match target.devices.iter().position(|device| *device == s.device) {
            Some(nic) => s.nic = nic,
            None if target.devices.is_empty() => {}
            None => {
                let what = format!("-d {}: the nodes have no such device", s.device);
                return Err(UsageError::Conflict { what, remedy: format!("give one of {}", target.devices.join(", ")) });
            }
        }
        Ok(())
    }

    fn resolve_length(&mut self) -> Result<(), UsageError> {
        let s = &mut self.settings;
        s.length = match self.duration {
            None => Length::Iterations(self.iterations.unwrap_or(self.defaults.iterations)),
            Some(_) if self.iterations.is_some() => return conflict("-D", "and -n both set the length", "give one of them"),
            Some(_) if s.all_sizes => return conflict("-D", "cannot be used with -a", "give one size with -s, or -n instead of -D"),
            Some(seconds) => {
                let margin = self.margin.unwrap_or(MARGIN_SECONDS.min((seconds - 1) / 2));
                if margin * 2 >= seconds {
                    let what = format!("margins of {margin} s leave nothing of {seconds} s");
                    return Err(UsageError::Conflict { what, remedy: format!("give -f {} or less", (seconds - 1) / 2) });
                }
                s.peak = false;
                Length::Duration { whole: Span::from_us(1_000_000) * seconds, margin: Span::from_us(1_000_000) * margin }
            }
        };
        Ok(())
    }

    fn resolve_sizes(&mut self, target: &Target) -> Result<(), UsageError> {
        let s = &mut self.settings;
        let one_packet = matches!(s.connection, Service::Ud | Service::Raw) || s.connection == Service::Srd && s.test.verb == Verb::Send;
        let most = if one_packet { target.datagram.unwrap_or(s.mtu) } else { MAX_SIZE as u32 };
        if s.test.verb == Verb::Atomic {
            if s.all_sizes || self.size.is_some_and(|size| size != ATOMIC_SIZE) {
                return conflict("-s or -a", "cannot change the 8 bytes of an atomic", "leave it out");
            }
            s.sizes = vec![ATOMIC_SIZE];
        } else if s.all_sizes {
            if self.size.is_some() {
                return conflict("-a", "and -s both set the size", "give one of them");
            }
            let least = if s.test.verb == Verb::Raw { SMALLEST_FRAME } else { 1 };
            s.sizes = (1..=23).map(|power| 1 << power).filter(|size| (least..=most).contains(size)).collect();
            s.warm_up = true;
        } else {
            let low = if s.test.verb == Verb::Raw { SMALLEST_FRAME } else { 1 };
            let size = self.size.unwrap_or(self.defaults.size.min(most));
            if !(low..=most).contains(&size) {
                return Err(UsageError::OutOfRange { option: "-s".to_owned(), value: size.into(), low: low.into(), high: most.into() });
            }
            s.sizes = vec![size];
        }
        Ok(())
    }

    fn resolve_depths(&mut self) -> Result<(), UsageError> {
        let s = &mut self.settings;
        if let Some(iterations) = s.iterations() {
            // Saturated: it only bounds the depth of queues.
            let iterations = u32::try_from(iterations).unwrap_or(u32::MAX);
            let reliable = !matches!(s.connection, Service::Uc | Service::Ud | Service::Raw);
            let unreliable = if reliable { s.rx_depth } else { iterations.min(RX_DEPTH_UNRELIABLE) };
            s.tx_depth = s.tx_depth.min(iterations);
            s.rx_depth = self.rx_depth.unwrap_or(unreliable).min(iterations);
        } else {
            s.rx_depth = self.rx_depth.unwrap_or(s.rx_depth);
        }
        if s.connection == Service::Srd {
            self.cq_mod = Some(1); // as the tool: there are no silent sends
        }
        let large = s.largest() > MODERATION_LIMIT && s.connection != Service::Ud && !s.all_sizes;
        s.cq_mod = self.cq_mod.unwrap_or(if large { 1 } else { s.cq_mod }).min(s.tx_depth);
        if s.post_list > 1 {
            if s.iterations().is_some_and(|iterations| !iterations.is_multiple_of(s.post_list.into())) {
                return conflict("-n", "is not a multiple of the post list", "choose -n as a multiple of -l");
            }
            if s.post_list > s.tx_depth {
                return conflict("-l", "is longer than the send queue", "give a larger -t or a shorter -l");
            }
            s.cq_mod = match self.cq_mod {
                Some(given) if !s.post_list.is_multiple_of(given) => {
                    return conflict("-l", "is not a multiple of -Q", "choose -l as a multiple of -Q, or leave -Q out");
                }
                Some(given) => given,
                None => s.post_list,
            };
        }
        Ok(())
    }
}

/// A hardware address, six pairs of hexadecimal digits.
fn mac(given: &Given) -> Result<String, UsageError> {
    let text = given.value.clone().unwrap_or_default();
    let parts: Vec<&str> = text.split(':').collect();
    let fits = |part: &&str| part.len() == 2 && part.bytes().all(|digit| digit.is_ascii_hexdigit());
    if parts.len() == 6 && parts.iter().all(fits) {
        return Ok(text.to_uppercase());
    }
    Err(UsageError::NotOneOf { option: given.typed.clone(), value: text, known: "an address such as 24:8A:07:0D:00:01" })
}

/// A page of x86, and a large one.
const SMALL_PAGE: Bytes = Bytes(4096);
const HUGE_PAGE: Bytes = Bytes(2 << 20);
/// The largest buffer that messages go through, in bytes. Basis: assumed; page tables of 16 million entries.
const MOST_CYCLE: u64 = 16 << 30;

/// What to run where memory cannot be reached.
const fn instead(kind: Kind) -> &'static str {
    match kind {
        Kind::Latency => "run ib_send_lat",
        Kind::Bandwidth => "run ib_send_bw",
    }
}

fn one_of<T: Copy>(given: &Given, known: &'static str, values: &[(&str, T)]) -> Result<T, UsageError> {
    let value = given.value.clone().unwrap_or_default();
    let found = values.iter().find(|(name, _)| *name == value).map(|(_, meaning)| *meaning);
    found.ok_or(UsageError::NotOneOf { option: given.typed.clone(), value, known })
}

fn conflict<T>(option: &str, what: &str, remedy: &str) -> Result<T, UsageError> {
    Err(UsageError::Conflict { what: format!("{option} {what}"), remedy: remedy.to_owned() })
}
