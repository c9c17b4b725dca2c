//! Traffic patterns by the names that labs give them, as pairs of endpoints.

use fabriscope_fabric::{EndpointId, Fabric};
use fabriscope_traffic::{Draw, Pattern};
use fabriscope_units::Remedy;

use crate::error::Failure;
use fabriscope_lab::traffic::{dims, group};

/// Who sends to whom.
pub struct Traffic {
    /// The name, with its parameter.
    pub name: String,
    pub pairs: Pairs,
    /// Messages of each endpoint that sends.
    pub messages: u32,
    /// What a person should know of it.
    pub note: Option<String>,
}

/// Pairs of a sender and a receiver.
pub enum Pairs {
    /// Each with each other, once.
    All,
    /// These.
    Some(Vec<(EndpointId, EndpointId)>),
}

impl Traffic {
    /// The pattern of a name on a fabric; the default without one.
    pub fn of(name: Option<&str>, fabric: &Fabric, seed: u64) -> Result<Traffic, Failure> {
        let endpoints = fabric.graph.endpoint_count();
        let name = name.unwrap_or(if endpoints > MOST_ALL { "permutation" } else { "uniform" });
        // One message for each, unless said otherwise.
        let of = |pairs, messages, note| Ok(Traffic { name: name.to_owned(), pairs, messages, note });
        let one = |pattern| drawn(name, pattern, endpoints, seed).map(Pairs::Some);
        if let Some(("shift", distance)) = name.split_once(':') {
            return of(one(Pattern::Shift { distance: distance_of(distance, endpoints)? })?, 1, None);
        }
        match name {
            "uniform" | "all_to_all" if endpoints <= MOST_ALL && endpoints > 1 => of(Pairs::All, endpoints - 1, None),
            "uniform" | "all_to_all" => {
                // Permutations, so that every endpoint receives as much as every other.
                let rounds = (PAIRS / endpoints.max(1)).max(8);
                let mut pairs = Vec::new();
                for round in 0..u64::from(rounds) {
                    pairs.extend(drawn(name, Pattern::Permutation, endpoints, seed.wrapping_add(round))?);
                }
                let note = format!("{rounds} permutations, drawn from seed {seed} on: the busiest link of a sample reads high");
                of(Pairs::Some(pairs), rounds, Some(note))
            }
            "permutation" => of(one(Pattern::Permutation)?, 1, Some(format!("one permutation, drawn with seed {seed}"))),
            "ring" => of(one(Pattern::Shift { distance: 1 })?, 1, None),
            "tornado" => of(one(Pattern::Tornado { dims: dims(fabric, endpoints) })?, 1, None),
            "transpose" => of(one(Pattern::Transpose)?, 1, None),
            "bit_complement" => of(one(Pattern::BitComplement)?, 1, None),
            "adversarial" => {
                let group = group(fabric);
                // Whether there is a next group is for the pattern to say.
                one(Pattern::Adversarial { group })?;
                let (pairs, receivers) = next_group(endpoints, group);
                let all = if receivers == group { "all".to_owned() } else { format!("{receivers}, evenly chosen,") };
                of(Pairs::Some(pairs), receivers, Some(format!("groups of {group} endpoints, each sends to {all} of the next")))
            }
            "shift" => Err(Failure::told("a shift needs a distance", "write for example shift:1")),
            _ => Err(Failure::told(
                format!("there is no pattern `{name}`"),
                "use uniform, permutation, shift:N, ring, tornado, transpose, bit_complement or adversarial",
            )),
        }
    }
}

/// One message of each endpoint.
fn drawn(name: &str, pattern: Pattern, endpoints: u32, seed: u64) -> Result<Vec<(EndpointId, EndpointId)>, Failure> {
    let mut draw = Draw::new(pattern, endpoints, seed).map_err(|error| {
        let (message, help) = error.halves("choose another pattern");
        Failure::told(format!("`{name}`: {message}"), help)
    })?;
    let (mut pairs, mut to) = (Vec::new(), Vec::new());
    for rank in 0..endpoints {
        to.clear();
        draw.receivers(rank, &mut to);
        pairs.extend(to.iter().map(|&to| (EndpointId(rank), EndpointId(to))));
    }
    Ok(pairs)
}

/// Every endpoint to those of the next group, or where that were too many to some, all of which receive alike; and how many.
fn next_group(endpoints: u32, group: u32) -> (Vec<(EndpointId, EndpointId)>, u32) {
    let groups = endpoints / group;
    let receivers = (PAIRS / endpoints.max(1)).clamp(8, group.max(8)).min(group);
    let turn = |round: u32| (u64::from(round) * u64::from(group) / u64::from(receivers)) as u32;
    let to = |src: u32, round: u32| (src / group + 1) % groups * group + (src % group + turn(round)) % group;
    let pair = |src: u32| (0..receivers).map(move |round| (EndpointId(src), EndpointId(to(src, round))));
    ((0..groups * group).flat_map(pair).collect(), receivers)
}

fn distance_of(text: &str, endpoints: u32) -> Result<u32, Failure> {
    let distance: u32 =
        text.parse().map_err(|_| Failure::told(format!("`{text}` is no distance of a shift"), "write a whole number: shift:1"))?;
    if distance.is_multiple_of(endpoints.max(1)) {
        let message = format!("a shift by {distance} makes every one of {endpoints} endpoints send to itself");
        return Err(Failure::told(message, format!("use at least 1 and at most {}", endpoints.saturating_sub(1).max(1))));
    }
    Ok(distance)
}

/// Endpoints of which all pairs are followed.
const MOST_ALL: u32 = 4096;
/// Pairs that are drawn where there are more endpoints, about.
const PAIRS: u32 = 1 << 23;
