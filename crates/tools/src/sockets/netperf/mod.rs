//! `netperf -t TCP_RR` and `UDP_RR`: one request, one answer, again and again; `-t UDP_STREAM` ([`stream`]).
//!
//! Source: netperf 2.7: options, loop and output; its omni output selectors for latencies.
//! Modelled: both with sizes of request and answer, a time or a number of transactions, percentiles; CPU utilisation (`-c`, `-C`), the core time
//! of the program and of interrupts as a share of all cores of the node, which do nothing else.
//! Not modelled: other tests, bursts, confidence intervals, the control connection.

mod link;
mod stream;

use std::sync::Arc;

use fabriscope_node::{Main, Process, ProgramError, Record, Ties};
use fabriscope_platform::Target;
use fabriscope_tcp::kernel::{LONGEST_DATAGRAM, SocketOptions};
use fabriscope_tool::arguments::Meaning::{Harmless, Refused, Usual};
use fabriscope_tool::arguments::{self, Given, Opt, Takes, opt};
use fabriscope_tool::{Placing, Point, Prepared, Rows, ToolOutput, UsageError, nearest_rank};
use fabriscope_units::{Bytes, Span, Time};

use link::Link;

use super::rendezvous::Rendezvous;
use super::seconds;

/// Before `--`.
pub(super) const GLOBAL: &[Opt] = &[
    opt('t', "test", Takes::Value("test"), Usual, "TCP_RR (default), UDP_RR or UDP_STREAM; for throughput of TCP see iperf3"),
    opt(
        'l',
        "length",
        Takes::Value("seconds"),
        Usual,
        "how long, also in decimals; -N: N transactions or datagrams (default 0.02; the tool's is 10)",
    ),
    opt('H', "host", Takes::Value("host"), Harmless("the second node is the server"), "server"),
    opt('P', "banner", Takes::Value("0|1"), Usual, "0: results only"),
    opt('v', "verbosity", Takes::Value("level"), Harmless("there is no more to tell"), "how much is printed"),
    opt('h', "help", Takes::Nothing, Usual, "show this page; options of the test follow after --"),
    opt('c', "cpu", Takes::Optional("rate"), Usual, "CPU utilisation of the client, and core time of a transaction"),
    opt('C', "remote-cpu", Takes::Optional("rate"), Usual, "the same of the server"),
    opt('I', "confidence", Takes::Value("level"), Refused("every transaction repeats exactly; leave -I out"), ""),
];

/// Behind `--`.
const OF_TEST: &[Opt] = &[
    opt('r', "request", Takes::Value("req,resp"), Usual, "bytes of request and answer (default 1,1)"),
    opt('m', "message", Takes::Value("bytes"), Usual, "bytes of a datagram of UDP_STREAM (default 65507)"),
    opt(
        'o',
        "output",
        Takes::Value("names"),
        Usual,
        "print these instead, as MIN_LATENCY,MEAN_LATENCY,P99_LATENCY,MAX_LATENCY,TRANSACTION_RATE",
    ),
    opt('k', "keys", Takes::Value("names"), Usual, "the same as NAME=value, one a line"),
    opt('D', "nodelay", Takes::Nothing, Usual, "short segments leave at once"),
    opt('s', "local", Takes::Value("bytes"), Usual, "socket buffers (default: the kernel's)"),
    opt('S', "remote", Takes::Value("bytes"), Harmless("both ends have the same buffers; use -s"), "socket buffers of the server"),
    opt('b', "burst", Takes::Value("requests"), Refused("one request is out at a time; leave -b out"), ""),
];

#[derive(Debug, Clone)]
struct Settings {
    test: Test,
    length: Length,
    banner: bool,
    request: u64,
    answer: u64,
    /// Of a datagram of UDP_STREAM.
    message: u64,
    selected: Option<(Vec<Selector>, bool)>,
    options: SocketOptions,
    /// CPU utilisation of client and server is asked for.
    utilisation: [bool; 2],
    /// Cores of a node.
    cores: u32,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Test {
    TcpRequests,
    UdpRequests,
    UdpStream,
}

/// Their names.
const TESTS: [(&str, Test); 3] = [("TCP_RR", Test::TcpRequests), ("UDP_RR", Test::UdpRequests), ("UDP_STREAM", Test::UdpStream)];

#[derive(Debug, Clone, Copy, PartialEq)]
enum Length {
    Time(Span),
    Transactions(u64),
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Selector {
    Percentile(u64),
    Mean,
    Rate,
}

/// Names of the omni output and what is printed above them.
const SELECTORS: [(&str, &str, Selector); 7] = [
    ("MIN_LATENCY", "Minimum Latency Microseconds", Selector::Percentile(0)),
    ("MEAN_LATENCY", "Mean Latency Microseconds", Selector::Mean),
    ("P50_LATENCY", "50th Percentile Latency Microseconds", Selector::Percentile(50)),
    ("P90_LATENCY", "90th Percentile Latency Microseconds", Selector::Percentile(90)),
    ("P99_LATENCY", "99th Percentile Latency Microseconds", Selector::Percentile(99)),
    ("MAX_LATENCY", "Maximum Latency Microseconds", Selector::Percentile(100)),
    ("TRANSACTION_RATE", "Transaction Rate Tran/s", Selector::Rate),
];

#[derive(Debug, Default)]
struct Results {
    spans: Vec<Span>,
    elapsed: Span,
    /// The client has sent its last request.
    last: bool,
    /// Core time of client and server, interrupts counted.
    core: [Span; 2],
}

pub(super) fn prepare(args: &[String], target: &Target) -> Result<Prepared, UsageError> {
    let mut settings = parse(args)?;
    match &target.processor {
        Some(processor) => settings.cores = processor.sockets * processor.cores,
        None if settings.utilisation.contains(&true) => {
            let what = "CPU utilisation of nodes whose number of cores is not known".to_owned();
            return Err(UsageError::Conflict { what, remedy: "leave -c and -C out".to_owned() });
        }
        None => {}
    }
    let settings = Arc::new(settings);
    let meeting = Rendezvous::default();
    if settings.test == Test::UdpStream {
        let counts = Record::new(stream::Counts::default());
        let main = |client: bool| -> Main {
            let (settings, counts, meeting) = (settings.clone(), counts.clone(), meeting.clone());
            Box::new(move |process| Box::pin(stream::run(process, settings, meeting, counts, client)))
        };
        return Ok(two([main(true), main(false)], move || stream::report(&settings, &counts.lock())));
    }
    let results = Record::new(Results::default());
    let main = |client: bool| -> Main {
        let (settings, results, meeting) = (settings.clone(), results.clone(), meeting.clone());
        Box::new(move |process| Box::pin(run(process, settings, meeting, results, client)))
    };
    Ok(two([main(true), main(false)], move || report(&settings, &results.lock())))
}

/// A client and a server on two nodes.
fn two(mains: [Main; 2], finish: impl FnOnce() -> ToolOutput + Send + 'static) -> Prepared {
    Prepared { placing: Placing::TwoNodes, mains: mains.into(), ties: Ties::Any, finish: Box::new(finish), rows: Rows::default() }
}

fn parse(args: &[String]) -> Result<Settings, UsageError> {
    const TOOL: &str = "netperf";
    let (global, of_test) = match args.iter().position(|arg| arg == "--") {
        Some(at) => (&args[..at], &args[at + 1..]),
        None => (args, &args[args.len()..]),
    };
    let (global, of_test) = (arguments::parse(TOOL, GLOBAL, global)?, arguments::parse("netperf --", OF_TEST, of_test)?);
    if let Some(operand) = global.operands.iter().chain(&of_test.operands).next() {
        return Err(UsageError::Operand { tool: TOOL.to_owned(), operand: operand.clone() });
    }
    let mut s = Settings {
        test: Test::TcpRequests,
        length: Length::Time(Span::from_us(20_000)),
        banner: true,
        request: 1,
        answer: 1,
        message: LONGEST_DATAGRAM.into(),
        selected: None,
        options: SocketOptions::default(),
        utilisation: [false; 2],
        cores: 1,
    };
    for given in global.options.iter().chain(&of_test.options) {
        s.apply(given)?;
    }
    let of = |name: &str| of_test.options.iter().find(|given| given.name == name);
    let wrong = match s.test {
        Test::UdpStream => ["request", "output", "keys", "nodelay"].into_iter().find_map(of),
        Test::UdpRequests => ["message", "nodelay"].into_iter().find_map(of),
        Test::TcpRequests => of("message"),
    };
    if let Some(given) = wrong {
        let test = TESTS.iter().find(|known| known.1 == s.test).map_or("", |known| known.0);
        return Err(UsageError::Conflict { what: format!("{} has no {}", test, given.typed), remedy: "leave it out".to_owned() });
    }
    if s.test == Test::UdpRequests && s.request.max(s.answer) > LONGEST_DATAGRAM.into() {
        let what = format!("a datagram of {} B", s.request.max(s.answer));
        return Err(UsageError::Conflict { what, remedy: format!("use -r with at most {LONGEST_DATAGRAM} B") });
    }
    Ok(s)
}

impl Settings {
    fn apply(&mut self, given: &Given) -> Result<(), UsageError> {
        let text = given.value.as_deref().unwrap_or_default();
        let size = |text: &str| arguments::size(&given.typed, text, 1, 1 << 30);
        let one_of = |known| UsageError::NotOneOf { option: given.typed.clone(), value: text.to_owned(), known };
        match given.name {
            "test" => {
                let known = TESTS.iter().find(|known| known.0.eq_ignore_ascii_case(text));
                self.test = known.ok_or_else(|| one_of("TCP_RR, UDP_RR, UDP_STREAM (for throughput of TCP use iperf3)"))?.1;
            }
            "message" => self.message = arguments::size(&given.typed, text, 1, LONGEST_DATAGRAM.into())?,
            "length" => {
                self.length = match text.strip_prefix('-') {
                    Some(count) => Length::Transactions(arguments::size(&given.typed, count, 1, 1 << 32)?),
                    None => Length::Time(seconds(&given.typed, text, 86_400.0)?),
                }
            }
            "banner" => self.banner = text != "0",
            "request" => {
                let (request, answer) = text.split_once(',').unwrap_or((text, text));
                (self.request, self.answer) = (size(request)?, size(answer)?);
            }
            "output" | "keys" => {
                let find = |name: &str| SELECTORS.iter().find(|known| known.0.eq_ignore_ascii_case(name)).map(|known| known.2);
                let known = "MIN_LATENCY, MEAN_LATENCY, P50_LATENCY, P90_LATENCY, P99_LATENCY, MAX_LATENCY, TRANSACTION_RATE";
                let found: Option<Vec<Selector>> = text.split(',').map(find).collect();
                self.selected = Some((found.ok_or_else(|| one_of(known))?, given.name == "keys"));
            }
            "cpu" => self.utilisation[0] = true,
            "remote-cpu" => self.utilisation[1] = true,
            "nodelay" => self.options.no_delay = true,
            "local" => self.options.buffers = Some(Bytes(arguments::size(&given.typed, text, 4096, 512 << 20)?)),
            "help" => {
                let about = super::SocketTool::Netperf.about();
                let mut text = arguments::help("netperf", about, GLOBAL, "\nBehind -- come the options of the test:\n");
                text += &arguments::help("netperf --", "one request, one answer", OF_TEST, "");
                return Err(UsageError::Help { text });
            }
            _ => {}
        }
        Ok(())
    }
}

async fn run(process: Process, s: Arc<Settings>, meeting: Rendezvous, results: Record<Results>, client: bool) -> Result<(), ProgramError> {
    let mut link = Link::open(&process, &meeting, s.options, s.test, client).await?;
    if !client {
        let before = link.core_time(&process)?;
        loop {
            if !link.receive(&process, s.request, Time::MAX).await? {
                return Ok(());
            }
            link.send(&process, s.answer).await?;
            let core = link.core_time(&process)?;
            let results = &mut *results.lock();
            results.core[1] = core - before;
            if results.last {
                return Ok(());
            }
        }
    }
    let (start, before) = (process.now(), link.core_time(&process)?);
    let mut done = 0;
    loop {
        let begin = process.now();
        results.lock().last = match s.length {
            Length::Time(time) => begin.since(start) + last_span(&results) >= time,
            Length::Transactions(count) => done + 1 >= count,
        };
        link.send(&process, s.request).await?;
        if !link.receive(&process, s.answer, Time::MAX).await? {
            return Ok(());
        }
        let results = &mut *results.lock();
        results.spans.push(process.now().since(begin));
        done += 1;
        if results.last {
            results.elapsed = process.now().since(start);
            results.core[0] = link.core_time(&process)? - before;
            return Ok(());
        }
    }
}

fn last_span(results: &Record<Results>) -> Span {
    results.lock().spans.last().copied().unwrap_or(Span::ZERO)
}

fn report(s: &Settings, results: &Results) -> ToolOutput {
    let mut sorted = results.spans.clone();
    sorted.sort_unstable();
    let count = sorted.len().max(1);
    let rate = sorted.len() as f64 / results.elapsed.as_s_f64().max(f64::MIN_POSITIVE);
    let mean = sorted.iter().copied().sum::<Span>().as_us_f64() / count as f64;
    let value = |selector: Selector| match selector {
        Selector::Percentile(share) => nearest_rank(&sorted, share, 100).as_us_f64(),
        Selector::Mean => mean,
        Selector::Rate => rate,
    };
    // Share of all cores in per cent and core time of a transaction in microseconds; -1 where it was not asked for, as the program prints it.
    let utilisation = |side: usize| match s.utilisation[side] {
        true => {
            let all = results.elapsed.as_s_f64().max(f64::MIN_POSITIVE) * f64::from(s.cores);
            (100.0 * results.core[side].as_s_f64() / all, results.core[side].as_us_f64() / count as f64)
        }
        false => (-1.0, -1.0),
    };
    let mut text = String::new();
    if s.banner {
        let protocol = if s.test == Test::UdpRequests { "UDP" } else { "TCP" };
        text += &format!(
            "MIGRATED {protocol} REQUEST/RESPONSE TEST from 0.0.0.0 (0.0.0.0) port 0 AF_INET to 10.0.0.2 () port 0 AF_INET : first burst 0\n"
        );
    }
    let found = |selector: &Selector| SELECTORS.iter().find(|known| known.2 == *selector).map_or(("", ""), |known| (known.0, known.1));
    match &s.selected {
        Some((selected, true)) => {
            selected.iter().for_each(|selector| text += &format!("{}={:.2}\n", found(selector).0, value(*selector)));
        }
        Some((selected, false)) => {
            let names: Vec<_> = selected.iter().map(|selector| found(selector).1).collect();
            let values: Vec<_> = selected.iter().map(|selector| format!("{:.2}", value(*selector))).collect();
            text += &format!("{}\n{}\n", names.join(","), values.join(","));
        }
        None => {
            let asked = s.utilisation.contains(&true);
            if s.banner {
                text += match asked {
                    false => {
                        "Local /Remote\nSocket Size   Request  Resp.   Elapsed  Trans.\n\
                              Send   Recv   Size     Size    Time     Rate         \n\
                              bytes  Bytes  bytes    bytes   secs.    per sec   \n\n"
                    }
                    true => {
                        "Local /Remote\nSocket Size   Request Resp.  Elapsed Trans.   CPU    CPU    S.dem   S.dem\n\
                             Send   Recv   Size    Size   Time    Rate     local  remote local   remote\n\
                             bytes  bytes  bytes   bytes  secs.   per sec  % S    % S    us/Tr   us/Tr\n\n"
                    }
                };
            }
            let (send, receive) = s.options.buffers.map_or((16_384, 131_072), |bytes| (bytes.0, bytes.0));
            let (request, answer, elapsed) = (s.request, s.answer, results.elapsed.as_s_f64());
            text += &match asked {
                false => format!("{send:<6} {receive:<6} {request:<6}   {answer:<6}  {elapsed:<6.2}   {rate:7.2}   \n"),
                true => {
                    let [(local, by_local), (remote, by_remote)] = [0, 1].map(utilisation);
                    format!(
                        "{send:<6} {receive:<6} {request:<6}  {answer:<6} {elapsed:<6.2}  {rate:<6.2}  {local:<6.2} {remote:<6.2} \
                         {by_local:<6.3}  {by_remote:<6.3} \n"
                    )
                }
            };
            text += &format!("{send:<6} {receive:<6}\n");
        }
    }
    let point = |metric, unit, value| Point { size: Bytes(s.request), metric, unit, value };
    let points = vec![point("transaction_rate", "1/s", rate), point("round_trip", "us", mean)];
    ToolOutput { text, points, ..ToolOutput::default() }
}

/// Where the server listens. Basis: published (netserver's default).
const PORT: u16 = 12_865;

#[cfg(test)]
mod tests {
    use fabriscope_units::Remedy;

    use super::*;

    #[test]
    fn options_stand_on_both_sides_of_the_dashes() {
        let parse = |line: &str| super::parse(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>());
        let s = parse("-H 10.0.0.2 -t TCP_RR -l -100 -- -r 64,1K -o P99_LATENCY,transaction_rate").unwrap();
        assert_eq!((s.length, s.request, s.answer), (Length::Transactions(100), 64, 1024));
        assert_eq!(s.selected, Some((vec![Selector::Percentile(99), Selector::Rate], false)));
        for (line, part) in [
            ("-t TCP_STREAM", "iperf3"),
            ("-t UDP_STREAM -- -r 8", "no -r"),
            ("-t UDP_RR -- -r 70000", "65507"),
            ("-- -r 0", "range"),
            ("-- -o LATENCY", "MIN_LATENCY"),
            ("-l 0", "above 0"),
        ] {
            let message = parse(line).unwrap_err().in_full();
            assert!(message.contains(part), "{line}: {message}");
        }
    }
}
