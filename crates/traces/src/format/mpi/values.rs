//! Arguments of calls by their names, as DUMPI's two forms have them, and what they make of a call.

use super::{Action, Envelope, Status};
use crate::{Element, Operation, Reading};

/// The arguments of a call.
#[derive(Debug, Default)]
pub(super) struct Values<'a> {
    pub numbers: Vec<(&'a str, i64)>,
    pub lists: Vec<(&'a str, Vec<i64>)>,
    pub statuses: Vec<Status>,
}

/// How long elements of each datatype are.
#[derive(Debug, Default)]
pub(super) struct Sizes(pub Vec<u64>);

impl Sizes {
    /// Bytes of an element; None of a derived type that the file does not list.
    fn of(&self, datatype: i64) -> Option<u64> {
        let at = usize::try_from(datatype).ok()?;
        let listed = self.0.get(at).copied().filter(|bytes| *bytes > 0);
        listed.or_else(|| BUILT_IN.get(at).copied())
    }
}

/// Bytes of the built-in datatypes in the order of their numbers. Basis: standard, C on 64-bit Linux and macOS.
const BUILT_IN: [u64; 28] = [0, 0, 1, 1, 1, 1, 4, 2, 2, 4, 4, 8, 8, 4, 8, 16, 8, 8, 8, 1, 0, 0, 8, 12, 12, 6, 8, 20];
/// `MPI_ANY_TAG` and `MPI_ANY_SOURCE` as DUMPI writes them.
pub(super) const ANY: i64 = -1;

impl Values<'_> {
    pub(super) fn number(&self, name: &'static str) -> Result<i64, &'static str> {
        self.numbers.iter().find(|(other, _)| *other == name).map(|(_, value)| *value).ok_or(name)
    }
    fn handle(&self, name: &'static str) -> Result<u64, &'static str> {
        u64::try_from(self.number(name)?).map_err(|_| name)
    }
    fn list(&self, name: &'static str) -> Result<&[i64], &'static str> {
        self.lists.iter().find(|(other, _)| *other == name).map(|(_, list)| list.as_slice()).ok_or(name)
    }
    /// The single request of a call: a number, or a list of one in the text form.
    fn request(&self) -> Result<u64, &'static str> {
        let listed = self.list("request").ok().and_then(|list| list.first().copied());
        u64::try_from(listed.map_or_else(|| self.number("request"), Ok)?).map_err(|_| "request")
    }
    fn requests(&self) -> Result<Vec<u64>, &'static str> {
        Ok(self.list("requests")?.iter().filter_map(|request| u64::try_from(*request).ok()).collect())
    }
    fn sum(&self, name: &'static str) -> Result<i64, &'static str> {
        Ok(self.list(name)?.iter().fold(0, |sum: i64, count| sum.saturating_add((*count).max(0))))
    }
}

/// Computes lengths, counting the datatypes that are not known.
struct Measure<'a> {
    sizes: &'a Sizes,
    reading: &'a mut Reading,
}

impl Measure<'_> {
    fn bytes(&mut self, count: i64, datatype: i64) -> u64 {
        let size = self.sizes.of(datatype).unwrap_or_else(|| {
            self.reading.note("datatypes of unknown size count one byte for each element");
            1
        });
        u64::try_from(count).unwrap_or(0).saturating_mul(size)
    }
    fn element(&self, datatype: i64) -> Option<Element> {
        let named = match datatype {
            2..=5 => "uint8",
            7 | 8 => "int16",
            9 => "int32",
            10 => "uint32",
            11 | 18 => "int64",
            12 | 17 => "uint64",
            13 => "float32",
            14 => "float64",
            _ => return self.sizes.of(datatype).filter(|bytes| *bytes > 0).map(Element::opaque),
        };
        Element::named(named)
    }
}

/// What a call does. Err names the argument that is missing.
pub(super) fn action(name: &str, values: &Values<'_>, sizes: &Sizes, reading: &mut Reading) -> Result<Action, &'static str> {
    let mut measure = Measure { sizes, reading };
    let short = name.strip_prefix("MPI_").unwrap_or(name);
    Ok(match short {
        "Send" | "Bsend" | "Ssend" | "Rsend" => Action::Send(envelope(values, "dest", &mut measure)?),
        "Recv" => Action::Recv(envelope(values, "source", &mut measure)?, values.statuses.first().copied()),
        "Isend" | "Ibsend" | "Issend" | "Irsend" => Action::Isend(envelope(values, "dest", &mut measure)?, values.request()?),
        "Irecv" => Action::Irecv(envelope(values, "source", &mut measure)?, values.request()?),
        "Send_init" | "Bsend_init" | "Ssend_init" | "Rsend_init" => {
            Action::SendInit(envelope(values, "dest", &mut measure)?, values.request()?)
        }
        "Recv_init" => Action::RecvInit(envelope(values, "source", &mut measure)?, values.request()?),
        "Sendrecv" | "Sendrecv_replace" => {
            let replace = short == "Sendrecv_replace";
            let (sent, sent_type) = if replace { ("count", "datatype") } else { ("sendcount", "sendtype") };
            let (received, received_type) = if replace { ("count", "datatype") } else { ("recvcount", "recvtype") };
            let comm = values.handle("comm")?;
            let bytes = measure.bytes(values.number(sent)?, values.number(sent_type)?);
            let send = Envelope { bytes, peer: values.number("dest")?, tag: values.number("sendtag")?, comm };
            let bytes = measure.bytes(values.number(received)?, values.number(received_type)?);
            Action::SendRecv(send, Envelope { bytes, peer: values.number("source")?, tag: values.number("recvtag")?, comm })
        }
        "Start" => Action::Start(vec![values.request()?]),
        "Startall" => Action::Start(values.requests()?),
        "Wait" => Action::Wait(vec![values.request()?], values.statuses.clone()),
        "Waitall" => Action::Wait(values.requests()?, values.statuses.clone()),
        "Test" | "Testall" | "Testany" if values.number("flag")? == 0 => Action::Nothing,
        "Test" => Action::Wait(vec![values.request()?], values.statuses.clone()),
        "Testall" => Action::Wait(values.requests()?, values.statuses.clone()),
        "Waitany" | "Testany" => {
            let requests = values.requests()?;
            let chosen = usize::try_from(values.number("index")?).ok().and_then(|at| requests.get(at).copied());
            Action::Wait(chosen.into_iter().collect(), values.statuses.clone())
        }
        "Waitsome" | "Testsome" => {
            let requests = values.requests()?;
            let chosen = values.list("indices")?.iter().filter_map(|at| requests.get(usize::try_from(*at).ok()?).copied());
            Action::Wait(chosen.collect(), values.statuses.clone())
        }
        "Comm_size" => Action::Size { comm: values.handle("comm")?, size: values.handle("size")? },
        "Comm_dup" => Action::Dup { old: values.handle("oldcomm")?, new: values.handle("newcomm")? },
        "Cart_create" | "Graph_create" if values.number("reorder")? == 0 => {
            Action::Dup { old: values.handle("oldcomm")?, new: values.handle("newcomm")? }
        }
        "Comm_split" => Action::Split {
            old: values.handle("oldcomm")?,
            color: values.number("color")?,
            key: values.number("key")?,
            new: values.handle("newcomm")?,
        },
        "Comm_group" => Action::GroupOf { comm: values.handle("comm")?, group: values.handle("group")? },
        "Group_incl" => {
            let ranks = values.list("ranks")?.iter().filter_map(|rank| u32::try_from(*rank).ok()).collect();
            Action::Include { group: values.handle("group")?, ranks, new: values.handle("newgroup")? }
        }
        "Comm_create" => Action::Create { old: values.handle("oldcomm")?, group: values.handle("group")?, new: values.handle("newcomm")? },
        "Init" | "Init_thread" | "Finalize" => Action::Enter,
        _ => match Operation::named(short) {
            Some(operation) => collective(operation, short, values, &mut measure)?,
            None => Action::Nothing,
        },
    })
}

fn envelope(values: &Values<'_>, peer: &'static str, measure: &mut Measure<'_>) -> Result<Envelope, &'static str> {
    let bytes = measure.bytes(values.number("count")?, values.number("datatype")?);
    Ok(Envelope { bytes, peer: values.number(peer)?, tag: values.number("tag")?, comm: values.handle("comm")? })
}

/// A collective; its length is the longest buffer of a rank. Lengths that need the number of ranks are those of one, times them, at
/// [`scale`].
fn collective(operation: Operation, name: &str, values: &Values<'_>, measure: &mut Measure<'_>) -> Result<Action, &'static str> {
    use Operation as O;
    let (count, datatype) = match (operation, name) {
        (O::Barrier, _) => (0, 5),
        (O::AllReduce | O::Reduce | O::Broadcast | O::Scan | O::ExScan, _) => (values.number("count")?, values.number("datatype")?),
        (O::AllGather | O::AllToAll, _) => (values.number("sendcount")?, values.number("sendtype")?),
        (O::Gather | O::GatherV, _) => (values.number("sendcount")?, values.number("sendtype")?),
        (O::Scatter | O::ScatterV, _) => (values.number("recvcount")?, values.number("recvtype")?),
        (O::AllGatherV, _) => (values.sum("recvcounts")?, values.number("recvtype")?),
        (O::AllToAllV, "Alltoallw") => (values.sum("sendcounts")?, 5),
        (O::AllToAllV, _) => (values.sum("sendcounts")?, values.number("sendtype")?),
        (O::ReduceScatter | O::ReduceScatterV, _) => (values.sum("recvcounts")?, values.number("datatype")?),
    };
    let element = if operation == O::Barrier { None } else { measure.element(datatype) };
    let bytes = measure.bytes(count, datatype);
    let root = values.number("root").ok().and_then(|root| u32::try_from(root).ok());
    Ok(Action::Collective { operation, bytes, element, root, comm: values.handle("comm")? })
}

/// How often the length of one rank stands in the longest buffer: the number of ranks, of operations whose calls count what one rank has.
pub(super) const fn scale(operation: Operation, ranks: u64) -> u64 {
    match operation {
        Operation::AllGather | Operation::AllToAll | Operation::Gather | Operation::Scatter => ranks,
        _ => 1,
    }
}
