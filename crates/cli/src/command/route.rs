//! `fabriscope route`: where a routing leads on a fabric, how evenly, whether it can deadlock, and what OpenSM would do.

use std::path::{Path, PathBuf};

use fabriscope_fabric::export;
use fabriscope_fabric::import::{Kind, Subnet};
use fabriscope_fabric::routing::deadlock::{self, Verdict as Deadlock};
use fabriscope_fabric::routing::{
    Fault, Layered, Load, ServiceLevels, forward_layered, forward_partly, impure_tree, roots_by_hops, survey,
};
use fabriscope_fabric::{Fabric, LinkSpec, Links, Node, Route, Router, Routing, RoutingError, SwitchId, Tables};
use fabriscope_report::{Cell, Column, Grid, Outcome};
use fabriscope_units::{Rate, Remedy, Span};

use crate::command::topo::Algorithm;
use crate::context::Context;
use crate::error::{Failure, Verdict};
use crate::output::{Output, OutputArgs, write_file};

/// Routes a fabric: reachability, path lengths, link loads, lanes, freedom from deadlock, differences from OpenSM.
///
/// The exit status is 1 where a pair of endpoints has no path or the routing can deadlock.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// A cluster of the catalogue, or a file that `fabriscope import` reads
    #[arg(value_name = "CLUSTER|FILE")]
    fabric: String,
    /// OpenSM's minhop, updn, ftree, dor, dnup, sssp, dfsssp, lash, nue:LANES, torus-2QoS (of a torus of the catalogue); up_down, which is updn
    /// without packets that go up after down; lmc:BITS; table (with --tables); or a routing such as ecmp, spray, d_mod_k, minimal
    #[arg(long, value_name = "ENGINE", default_value = "minhop")]
    engine: String,
    /// Root switches of updn and ftree: a file with one GUID per line, as `opensm -a` takes it
    #[arg(long, value_name = "FILE")]
    roots: Option<PathBuf>,
    /// Tables to follow instead of making some: opensm-lfts.dump or the output of dump_fts, of the same fabric
    #[arg(long, value_name = "FILE")]
    tables: Option<PathBuf>,
    /// Tables to compare with: opensm-lfts.dump or the output of dump_fts, of the same fabric
    #[arg(long, value_name = "FILE")]
    against: Option<PathBuf>,
    /// Write the tables to this file, in the format of opensm-lfts.dump
    #[arg(long, value_name = "FILE")]
    dump: Option<PathBuf>,
    /// Write the service level of each path to this file, in the same form: dfsssp, lash, nue
    #[arg(long, value_name = "FILE")]
    levels: Option<PathBuf>,
    #[command(flatten)]
    output: OutputArgs,
}

const EXAMPLES: &str = "\
Examples:
  fabriscope route fabrics/dgx-ndr.ibnetdiscover --engine ftree
  fabriscope route fabrics/selene-compute.ibnetdiscover.gz --engine updn    says that OpenSM would need roots
  fabriscope route mine.topo --engine minhop --against opensm-lfts.dump
  fabriscope route mine.topo --engine table --tables opensm-lfts.dump       where OpenSM's own tables lead
  fabriscope route mine.topo --engine dfsssp --dump mine.lfts --levels mine.sl
  fabriscope route lab-16 --engine ecmp --json";

/// The fabric, and the way it looks to the tools of InfiniBand.
struct Network {
    fabric: Fabric,
    subnet: Subnet,
}

/// A routing on it.
struct Routed {
    load: Load,
    lanes: u8,
    deadlock: Deadlock,
    tables: Option<Tables>,
    /// The service level of each path, where the engine gives some.
    levels: Option<ServiceLevels>,
    /// The first pairs without a path.
    faults: Vec<Fault>,
}

/// Runs the command.
pub fn run(args: &Args, context: &Context, output: &mut Output) -> Result<Verdict, Failure> {
    let engine = Engine::parse(&args.engine)?;
    fits(args, engine)?;
    let network = network(args, engine, context)?;
    let roots = args.roots.as_deref().map(|path| roots(&network, path)).transpose()?;
    let routed = route(args, &network, engine, roots.as_deref())?;
    let notes = fallbacks(&network, engine, &routed, roots.is_some())?;
    let against = args.against.as_deref().map(|path| compare(&network, &routed, path)).transpose()?;
    if let Some(path) = &args.dump {
        let tables = routed.tables.as_ref().ok_or_else(|| {
            Failure::told(format!("`{}` has no forwarding tables", args.engine), format!("use --dump with {BY_TABLES}, table or lmc:BITS"))
        })?;
        write_file(path, &export::lfts(&network.subnet, tables))?;
    }
    if let Some(path) = &args.levels {
        let (Some(tables), Some(levels)) = (&routed.tables, &routed.levels) else {
            return Err(Failure::told(format!("`{}` gives no service levels", args.engine), "use --levels with dfsssp, lash or nue:LANES"));
        };
        write_file(path, &export::service_levels(&network.subnet, tables, levels))?;
    }
    args.output.write(&outcome(args, &network, &routed, &notes, against.as_ref()), output)
}

/// Options that say nothing to the engine.
fn fits(args: &Args, engine: Engine) -> Result<(), Failure> {
    let alone = |option: &str, engines: &str| Failure::told(format!("{option} says nothing to `{}`", args.engine), engines);
    if args.tables.is_some() != matches!(engine, Engine::Table) {
        return Err(match engine {
            Engine::Table => Failure::told("there are no tables to follow", "name them with --tables FILE"),
            _ => alone("--tables", "use it with --engine table; --against compares tables"),
        });
    }
    if args.roots.is_some() && !matches!(engine, Engine::Updn | Engine::UpDown | Engine::Ftree) {
        return Err(alone("--roots", "use it with --engine updn or ftree"));
    }
    Ok(())
}

/// What `--engine` names.
#[derive(Clone, Copy)]
enum Engine {
    MinHop(u8),
    /// OpenSM's, which may deadlock.
    Updn,
    /// Strict, which never does.
    UpDown,
    Ftree,
    Dor,
    Dnup,
    Sssp,
    /// With service levels.
    Dfsssp,
    Lash,
    Nue(u8),
    Table,
    Other(Routing),
}

impl Engine {
    fn parse(text: &str) -> Result<Engine, Failure> {
        if let Some(bits) = text.strip_prefix("lmc:") {
            let help = "write lmc:0 to lmc:7";
            return bits.parse().map(Engine::MinHop).map_err(|_| Failure::told(format!("`{bits}` is no number of bits"), help));
        }
        if let Some(lanes) = text.strip_prefix("nue:") {
            let help = "write nue:1 to nue:15";
            return lanes.parse().map(Engine::Nue).map_err(|_| Failure::told(format!("`{lanes}` is no number of lanes"), help));
        }
        Ok(match text {
            "minhop" | "min_hop" => Engine::MinHop(0),
            "updn" => Engine::Updn,
            "up_down" => Engine::UpDown,
            "ftree" => Engine::Ftree,
            "dor" => Engine::Dor,
            "dnup" => Engine::Dnup,
            "sssp" => Engine::Sssp,
            "dfsssp" => Engine::Dfsssp,
            "lash" => Engine::Lash,
            "nue" => Engine::Nue(1),
            "torus-2QoS" | "torus_2qos" => Engine::Other(Routing::Torus2Qos),
            "table" => Engine::Table,
            _ => Engine::Other(named(text).ok_or_else(|| {
                let names = Algorithm::computed().map(Routing::name).collect::<Vec<_>>().join(", ");
                Failure::told(format!("there is no routing `{text}`"), format!("use {BY_TABLES}, lmc:BITS, table, {names}"))
            })?),
        })
    }
}

/// Routings by their own names: those that OpenSM has no name for, and that need no parameter.
fn named(text: &str) -> Option<Routing> {
    Routing::named(text).filter(|routing| !matches!(routing, Routing::Lmc(_) | Routing::Table))
}

fn network(args: &Args, engine: Engine, context: &Context) -> Result<Network, Failure> {
    let path = Path::new(&args.fabric);
    let is_cluster = fabriscope_catalog::is_cluster_file(path) || !path.is_file();
    // Rates and delays decide nothing here; files that give none get these.
    let links = Links::uniform(LinkSpec::new(Rate::from_gbps(100), Span::from_ns(25)));
    let told = |error: fabriscope_fabric::import::ImportError| {
        let (message, help) = error.halves("see `fabriscope import FILE`");
        Failure::told(format!("{}: {message}", args.fabric), help)
    };
    if !is_cluster {
        let subnet = super::import::read(path)?;
        return Ok(Network { fabric: subnet.fabric(&links).map_err(told)?, subnet });
    }
    let cluster = context.cluster(&args.fabric)?;
    let fabric = cluster.fabric().map_err(|e| Failure::told(e.in_full(), "correct the topology of the cluster"))?;
    if let Some(subnet) = cluster.topology.subnet() {
        return Ok(Network { subnet: subnet.clone(), fabric });
    }
    let subnet = export::subnet(&fabric);
    // Algorithms with coordinates need the fabric as it was built; tables need the numbers of the subnet.
    Ok(match engine {
        Engine::Other(_) => Network { fabric, subnet },
        _ => Network { fabric: subnet.fabric(&links).map_err(told)?, subnet },
    })
}

fn route(args: &Args, network: &Network, engine: Engine, roots: Option<&[SwitchId]>) -> Result<Routed, Failure> {
    let fabric = &network.fabric;
    let told = |error: RoutingError| {
        let (message, help) = error.halves("see `fabriscope route --help`");
        // Wherever ours finds no tree, OpenSM finds none.
        let fallback = if matches!(engine, Engine::Ftree) { "; OpenSM would silently use minhop" } else { "" };
        Failure::told(message, format!("{help}{fallback}"))
    };
    let mut levels = None;
    let mut layered = |made: Result<Layered, RoutingError>| {
        made.map(|Layered { tables, levels: made }| {
            levels = Some(made);
            tables
        })
    };
    let tables = match engine {
        Engine::Dnup => Tables::dnup(fabric),
        Engine::Sssp => Tables::sssp(fabric),
        Engine::Dfsssp => layered(Layered::dfsssp(fabric)),
        Engine::Lash => layered(Layered::lash(fabric)),
        Engine::Nue(lanes) => layered(Layered::nue(fabric, lanes)),
        Engine::MinHop(lmc) => Tables::min_hop(fabric, lmc),
        Engine::Updn => Tables::updn(fabric, roots),
        Engine::UpDown => Tables::up_down(fabric, 0, roots),
        Engine::Ftree => Tables::ftree(fabric, roots),
        Engine::Dor => Tables::port_order(fabric),
        Engine::Table => Ok(super::import::tables(&network.subnet, args.tables.as_deref().unwrap_or(Path::new("")))?.0),
        Engine::Other(routing) => {
            let router = Router::new(fabric, routing).map_err(told)?;
            if fabric.graph.endpoint_count() > MOST_ENDPOINTS {
                let message = format!("{} endpoints have too many pairs to follow", fabric.graph.endpoint_count());
                return Err(Failure::told(message, format!("use at most {MOST_ENDPOINTS}, or {BY_TABLES}")));
            }
            let (load, deadlock) = (Load::of_route(fabric, &router), deadlock::verdict(fabric, &router));
            return Ok(Routed { load, lanes: router.lanes(), deadlock, tables: None, levels: None, faults: Vec::new() });
        }
    }
    .map_err(told)?;
    let load = Load::of_tables(fabric, &tables);
    let (lanes, deadlock) = if let Some(levels) = &levels {
        let route = forward_layered(fabric, Layered { tables: tables.clone(), levels: levels.clone() });
        (route.lanes(), deadlock::verdict(fabric, &route))
    } else {
        let route = forward_partly(fabric, tables.clone());
        (route.lanes(), deadlock::verdict(fabric, &route))
    };
    let faults = if load.unreachable > 0 { survey(fabric, &tables).faults } else { Vec::new() };
    Ok(Routed { load, lanes, deadlock, tables: Some(tables), levels, faults })
}

/// The switches whose GUIDs a file lists.
fn roots(network: &Network, path: &Path) -> Result<Vec<SwitchId>, Failure> {
    let text = std::fs::read_to_string(path)
        .map_err(|cause| Failure::told(format!("{}: {cause}", path.display()), "name a file that can be read"))?;
    let wiring = network.subnet.wiring();
    let lines = text.lines().zip(1..).filter(|(line, _)| !line.trim().is_empty() && !line.trim().starts_with('#'));
    let root = |(line, number): (&str, usize)| {
        let told = |message: String| {
            let help = "write one GUID of a switch per line, such as 0x0002c903007b78b0";
            Failure::told(format!("{}:{number}: {message}", path.display()), help)
        };
        let line = line.trim();
        let guid = line.strip_prefix("0x").and_then(|digits| u64::from_str_radix(digits, 16).ok());
        let guid = guid.ok_or_else(|| told(format!("`{line}` is no GUID")))?;
        let at = wiring.switches.iter().position(|&device| network.subnet.devices[device as usize].guid == Some(guid));
        at.map(|at| SwitchId(at as u32)).ok_or_else(|| told(format!("the fabric has no switch with GUID {line}")))
    };
    lines.map(root).collect()
}

/// When OpenSM would use minhop instead and say so in its log alone.
fn fallbacks(network: &Network, engine: Engine, routed: &Routed, has_roots: bool) -> Result<Vec<String>, Failure> {
    let Network { fabric, subnet } = network;
    let adapters = adapters(subnet, fabric);
    let mut notes = Vec::new();
    match engine {
        Engine::Updn | Engine::UpDown | Engine::Ftree if has_roots && routed.load.unreachable > 0 => {
            notes.push(
                "OpenSM leaves these entries out as well, and reports nothing but `tables configured on all switches`; name other roots, or fewer"
                    .to_owned(),
            );
        }
        Engine::Updn | Engine::UpDown if !has_roots => {
            let roots = Tables::roots(fabric).map_err(|error| Failure::told(error.in_full(), "see `fabriscope import`"))?;
            let names: Vec<String> = roots.iter().take(SHOWN).map(|&at| fabric.name(Node::Switch(at))).collect();
            let more = if roots.len() > SHOWN { ", ..." } else { "" };
            notes.push(format!("{} root switches: {}{more}", roots.len(), names.join(", ")));
            if roots.len() == 1 && fabric.graph.switch_count() > 1 {
                notes.push("all paths that go up meet at one root, which its links may not carry; --roots names others".to_owned());
            }
            let found = roots_by_hops(fabric, &adapters).map_err(|error| Failure::told(error.in_full(), "see `fabriscope import`"))?;
            if found.is_empty() {
                notes.push(
                    "OpenSM finds no root switches by hop counts and would silently use minhop; give it a list: opensm -R updn -a FILE"
                        .to_owned(),
                );
            }
        }
        Engine::Ftree if !has_roots => {
            let mut hosts = vec![false; adapters.len()];
            for endpoint in fabric.graph.endpoints() {
                if let Node::Switch(at) = fabric.graph.node(fabric.graph.link(fabric.graph.uplink(endpoint)).to) {
                    hosts[at.index()] = true;
                }
            }
            let high: Vec<usize> = (0..adapters.len()).filter(|&at| adapters[at] > 0 && !hosts[at]).collect();
            if let Some(&first) = high.first() {
                let name = fabric.name(Node::Switch(SwitchId(first as u32)));
                notes.push(format!(
                    "OpenSM would silently use minhop (ERR AB26): {} switches above the leaves have adapters, such as the aggregation \
                     node of {name}; with lists of roots and of the ports of hosts it takes the tree: opensm -R ftree -a ROOTS -u HOSTS",
                    high.len()
                ));
            } else if let Some(why) = impure_tree(fabric).map_err(|error| Failure::told(error.in_full(), "see `fabriscope import`"))? {
                notes.push(format!(
                    "OpenSM would silently use minhop: {why}; with a list of roots it takes any tree of several switches: opensm -R ftree -a FILE"
                ));
            }
        }
        _ => {}
    }
    Ok(notes)
}

/// Adapters at each switch, aggregation nodes included: OpenSM does not tell them apart.
fn adapters(subnet: &Subnet, fabric: &Fabric) -> Vec<u32> {
    let mut number = vec![None; subnet.devices.len()];
    subnet.wiring().switches.iter().enumerate().for_each(|(at, &device)| number[device as usize] = Some(at));
    let mut adapters = vec![0; fabric.graph.switch_count() as usize];
    for cable in &subnet.cables {
        for (end, other) in [(cable.ends[0], cable.ends[1]), (cable.ends[1], cable.ends[0])] {
            let is_adapter = matches!(subnet.device(end).kind, Kind::Adapter | Kind::Aggregation);
            if let (true, Some(at)) = (is_adapter, number[other.device as usize]) {
                adapters[at] += 1;
            }
        }
    }
    adapters
}

/// Other tables of the same fabric.
struct Against {
    load: Load,
    /// Entries that both have, those alike, and the first that differ: switch, destination, our port, theirs.
    entries: u64,
    alike: u64,
    /// Switches with an entry that differs.
    switches: u32,
    /// Entries that only our tables have, and only theirs.
    only: [u64; 2],
    first: Vec<[String; 4]>,
}

fn compare(network: &Network, routed: &Routed, path: &Path) -> Result<Against, Failure> {
    let (theirs, _) = super::import::tables(&network.subnet, path)?;
    let ours = routed.tables.as_ref().ok_or_else(|| Failure::told("only tables can be compared", format!("use {BY_TABLES}")))?;
    let fabric = &network.fabric;
    let mut against =
        Against { load: Load::of_tables(fabric, &theirs), entries: 0, alike: 0, switches: 0, only: [0; 2], first: Vec::new() };
    for at in fabric.graph.switches() {
        let mut differs = false;
        for dest in fabric.graph.endpoints() {
            let (our, their) = (ours.port(at, dest, 0), theirs.port(at, dest, 0));
            match (our, their) {
                (None, None) => continue,
                (Some(_), Some(_)) => against.entries += 1,
                (Some(_), None) => against.only[0] += 1,
                (None, Some(_)) => against.only[1] += 1,
            }
            if our == their {
                against.alike += 1;
                continue;
            }
            differs = true;
            if against.first.len() < SHOWN {
                let port =
                    |port: Option<fabriscope_fabric::PortId>| port.map_or_else(|| "none".to_owned(), |port| (port.0 + 1).to_string());
                let (at, dest) = (fabric.name(Node::Switch(at)), fabric.name(Node::Endpoint(dest)));
                against.first.push([at, dest, port(our), port(their)]);
            }
        }
        against.switches += u32::from(differs);
    }
    Ok(against)
}

/// Most and mean pairs on a link between switches.
fn spread(fabric: &Fabric, load: &Load) -> (u64, f64) {
    let between =
        |link: &fabriscope_fabric::Link| [link.from, link.to].iter().all(|&end| matches!(fabric.graph.node(end), Node::Switch(_)));
    let loads: Vec<u64> = fabric.graph.links().iter().zip(&load.links).filter(|(link, _)| between(link)).map(|(_, load)| *load).collect();
    let sum: u64 = loads.iter().sum();
    (loads.iter().copied().max().unwrap_or(0), if loads.is_empty() { 0.0 } else { sum as f64 / loads.len() as f64 })
}

/// The whole answer.
fn outcome(args: &Args, network: &Network, routed: &Routed, notes: &[String], against: Option<&Against>) -> Outcome {
    let fabric = &network.fabric;
    let mut outcome = Outcome::new();
    outcome.note(format!("{}: {}", args.fabric, fabric.counts())).note(format!("engine {}", args.engine)).text("\n");
    outcome.table(paths(fabric, routed, against));
    let mut text = format!("\nlanes: {}\n{}\n", routed.lanes, routed.deadlock.describe(fabric).trim_end());
    if let Some(levels) = &routed.levels {
        let paths: Vec<String> = levels.paths().iter().enumerate().map(|(level, paths)| format!("{paths} of level {level}")).collect();
        text += &format!("service levels: paths from switches to endpoints: {}\n", paths.join(", "));
    }
    for fault in routed.faults.iter().take(SHOWN) {
        text += &format!("no path {}\n", fault.tell(fabric));
    }
    if routed.faults.len() > SHOWN {
        text += "    …\n";
    }
    for note in notes {
        text += &format!("note: {note}\n");
    }
    outcome.text(text);
    if let Some(against) = against {
        differences(against, &mut outcome);
    }
    let next = if routed.load.unreachable > 0 {
        "--engine minhop    reaches every host"
    } else if matches!(routed.deadlock, Deadlock::Cycle(_)) {
        "--engine up_down    never deadlocks"
    } else {
        "--dump tables.lfts    for opensm -R file -U"
    };
    outcome.text("\n").note(format!("next: fabriscope route {} {next}", args.fabric));
    let good = routed.load.unreachable == 0 && !matches!(routed.deadlock, Deadlock::Cycle(_));
    outcome.judge(if good { Verdict::Good } else { Verdict::Bad });
    outcome.whole(json(args, network, routed, notes, against));
    outcome
}

/// How long the paths are and how evenly they lie, of our tables and of theirs.
fn paths(fabric: &Fabric, routed: &Routed, against: Option<&Against>) -> Grid {
    let mut heads = vec![("ours", &routed.load)];
    heads.extend(against.map(|against| ("theirs", &against.load)));
    let columns = heads.iter().map(|(head, _)| Column::number(head, head));
    let mut table = Grid::new(std::iter::once(Column::words("", "what")).chain(columns));
    let longest = heads.iter().map(|(_, load)| load.pairs.len()).max().unwrap_or(0);
    let mut row = |what: String, value: &dyn Fn(&Load) -> Cell| {
        table.push(std::iter::once(Cell::word(what)).chain(heads.iter().map(|(_, load)| value(load))));
    };
    row("pairs without a path".to_owned(), &|load| Cell::count(load.unreachable));
    for switches in 1..longest {
        row(format!("pairs over {switches} switches"), &|load| Cell::count(load.pairs.get(switches).copied().unwrap_or(0)));
    }
    row("pairs on the busiest link between switches".to_owned(), &|load| Cell::count(spread(fabric, load).0));
    row("pairs on such a link, mean".to_owned(), &|load| Cell::number(spread(fabric, load).1, 1));
    table.named("paths")
}

/// How far their tables differ from ours, with the first entries that do.
fn differences(against: &Against, outcome: &mut Outcome) {
    outcome.text(format!("entries alike: {} of {}; {} switches differ\n", against.alike, against.entries, against.switches));
    if against.only != [0, 0] {
        outcome.text(format!("entries that only ours have: {}; only theirs: {}\n", against.only[0], against.only[1]));
    }
    if !against.first.is_empty() {
        let mut table = Grid::new([
            Column::words("switch", "switch"),
            Column::words("destination", "destination"),
            Column::number("our port", "our_port"),
            Column::number("their port", "their_port"),
        ]);
        against.first.iter().for_each(|cells| table.push(cells.clone().map(Cell::word)));
        outcome.table(table.named("differences"));
    }
}

fn json(args: &Args, network: &Network, routed: &Routed, notes: &[String], against: Option<&Against>) -> serde_json::Value {
    let fabric = &network.fabric;
    let load = |load: &Load| {
        let (most, mean) = spread(fabric, load);
        serde_json::json!({ "pairs_by_switches": load.pairs, "unreachable": load.unreachable, "busiest_link_pairs": most, "mean_link_pairs": mean })
    };
    let hops = if let Deadlock::Cycle(hops) = &routed.deadlock { hops.as_slice() } else { &[] };
    let hop = |hop: &fabriscope_fabric::Hop| {
        let link = fabric.graph.link(hop.link);
        let name = |vertex| fabric.name(fabric.graph.node(vertex));
        serde_json::json!({ "from": name(link.from), "to": name(link.to), "port": link.from_port.0 + 1, "lane": hop.vl })
    };
    let cycle: Vec<serde_json::Value> = hops.iter().map(hop).collect();
    serde_json::json!({
        "fabric": args.fabric, "engine": args.engine, "lanes": routed.lanes,
        "service_levels": routed.levels.as_ref().map(ServiceLevels::paths), "paths": load(&routed.load),
        "deadlock": { "free": routed.deadlock.is_free(), "verdict": routed.deadlock.describe(fabric), "cycle": cycle },
        "without_path": routed.faults.iter().map(|fault| serde_json::json!({
            "from": fabric.name(Node::Switch(fault.from)), "to": fabric.name(Node::Endpoint(fault.dest)),
            "no_further_than": fabric.name(Node::Switch(fault.at)),
        })).collect::<Vec<_>>(),
        "notes": notes,
        "against": against.map(|a| serde_json::json!({ "paths": load(&a.load), "entries": a.entries, "alike": a.alike, "switches_that_differ": a.switches,
            "only_ours": a.only[0], "only_theirs": a.only[1] })),
    })
}

/// Endpoints whose pairs are followed one by one.
const MOST_ENDPOINTS: u32 = 4096;
/// Engines that make tables.
const BY_TABLES: &str = "minhop, updn, up_down, ftree, dor, dnup, sssp, dfsssp, lash, nue:LANES";
/// Differences that are shown.
const SHOWN: usize = 5;
