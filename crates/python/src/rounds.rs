//! Collectives and traffic that are functions of Python: their rounds become those of the library.

use fabriscope::own::{Own, Program, provable, proved};
use fabriscope_collectives::{Action, Buffer, Call, Kind, Message, Move, Piece, Round};
use fabriscope_lab::EngineChoice;
use fabriscope_units::Bytes;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::cluster::Cluster;
use crate::errors::{exception, raised};
use crate::outcome::Outcome;
use crate::waiting::answer;

/// Buffer, offset and length of a piece.
type PieceWords = (String, u64, u64);
/// What a rank does in a round: moves, receives, sends, moves.
type RoundWords =
    (Vec<(String, PieceWords, PieceWords)>, Vec<(u32, PieceWords)>, Vec<(u32, PieceWords)>, Vec<(String, PieceWords, PieceWords)>);

/// What is called, as keyword arguments.
#[derive(FromPyObject)]
pub struct CallRequest {
    #[pyo3(item)]
    name: String,
    #[pyo3(item)]
    operation: Option<String>,
    #[pyo3(item)]
    ranks: u32,
    #[pyo3(item)]
    ranks_per_node: u32,
    #[pyo3(item)]
    size: u64,
    #[pyo3(item)]
    width: u64,
    #[pyo3(item)]
    root: u32,
    #[pyo3(item)]
    engine: String,
    #[pyo3(item)]
    seed: u64,
}

/// Proves and runs a program. `rounds` gives what all ranks do in a call of so many ranks and bytes.
#[pyfunction]
pub fn rounds(py: Python<'_>, cluster: &Bound<'_, Cluster>, asked: CallRequest, rounds: &Bound<'_, PyAny>) -> PyResult<Outcome> {
    let operation = asked.operation.as_deref().map(kind).transpose()?;
    let call = Call {
        // Of traffic nothing is asked.
        operation: operation.unwrap_or(Kind::Alltoall),
        ranks: asked.ranks,
        per_node: asked.ranks_per_node,
        root: asked.root,
        size: Bytes(asked.size),
        width: Bytes(asked.width.max(1)),
    };
    let program = |call: &Call| -> PyResult<Program> {
        let said: Vec<Vec<RoundWords>> = rounds.call1((call.ranks, call.size.0))?.extract()?;
        said.into_iter().map(|rank| rank.into_iter().map(round).collect()).collect()
    };
    let proved = match operation {
        None => None,
        Some(_) => {
            let small = provable(&call);
            let proof = proved(&small, &program(&small)?).map_err(|flaw| exception(py, "FlawError", &flaw))?;
            Some((small, proof))
        }
    };
    let own = Own { name: asked.name, call, proved, rounds: program(&call)? };
    let engine = match asked.engine.as_str() {
        "packet" => EngineChoice::Packet,
        "flow" => EngineChoice::Flow,
        other => return Err(PyValueError::new_err(format!("there is no engine `{other}`; use packet or flow"))),
    };
    let (parts, ending) = cluster.get().ended();
    let done = answer(py, None, ending, move |_| own.outcome(&parts, engine, asked.seed))?;
    done.map(Outcome).map_err(|error| raised(py, &error))
}

fn kind(word: &str) -> PyResult<Kind> {
    Kind::of_word(word).ok_or_else(|| {
        let known = Kind::ALL.map(|kind| kind.word()).join(", ");
        PyValueError::new_err(format!("there is no operation `{word}`; use one of {known}"))
    })
}

fn round((before, receives, sends, after): RoundWords) -> PyResult<Round> {
    let message = |(peer, place): (u32, PieceWords)| Ok(Message { peer, piece: piece(place)?, slot: false });
    Ok(Round {
        before: before.into_iter().map(moved).collect::<PyResult<_>>()?,
        receives: receives.into_iter().map(message).collect::<PyResult<_>>()?,
        sends: sends.into_iter().map(message).collect::<PyResult<_>>()?,
        joint: None,
        after: after.into_iter().map(moved).collect::<PyResult<_>>()?,
    })
}

fn moved((action, from, to): (String, PieceWords, PieceWords)) -> PyResult<Move> {
    let action = match action.as_str() {
        "copy" => Action::Copy,
        "reduce_before" => Action::ReduceBefore,
        "reduce_after" => Action::ReduceAfter,
        other => return Err(PyValueError::new_err(format!("there is no move `{other}`; use copy, reduce_before or reduce_after"))),
    };
    let (from, to) = (piece(from)?, piece(to)?);
    if from.bytes != to.bytes {
        return Err(PyValueError::new_err(format!("a move from {} to {}: both have to be as long", from.bytes, to.bytes)));
    }
    Ok(Move { action, from, to })
}

fn piece((buffer, offset, bytes): PieceWords) -> PyResult<Piece> {
    let buffer = match buffer.as_str() {
        "send" => Buffer::Send,
        "recv" => Buffer::Recv,
        other => match other.strip_prefix("scratch").map(str::parse::<u8>) {
            Some(Ok(number)) => Buffer::Scratch(number),
            _ => return Err(PyValueError::new_err(format!("there is no buffer `{other}`; use send, recv or scratch0 to scratch255"))),
        },
    };
    Ok(buffer.piece(Bytes(offset), Bytes(bytes)))
}
