//! Traffic patterns by the names that labs give them, as pairs of endpoints.

use fabriscope_fabric::{EndpointId, Fabric};
use fabriscope_workloads::pattern::{Draw, Pattern};

use crate::error::Failure;
use crate::traffic::{dims, group};

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
        let (pattern, messages) = match name.split_once(':') {
            Some(("shift", distance)) => (Pattern::Shift { distance: distance_of(distance, endpoints)? }, 1),
            None => match name {
                "uniform" | "all_to_all" if endpoints <= MOST_ALL && endpoints > 1 => {
                    return Ok(Traffic { name: name.to_owned(), pairs: Pairs::All, messages: endpoints - 1, note: None });
                }
                "uniform" | "all_to_all" => (Pattern::Uniform, (PAIRS / endpoints.max(1)).max(8)),
                "permutation" => (Pattern::Permutation, 1),
                "ring" => (Pattern::Shift { distance: 1 }, 1),
                "tornado" => (Pattern::Tornado { dims: dims(fabric, endpoints) }, 1),
                "transpose" => (Pattern::Transpose, 1),
                "bit_complement" => (Pattern::BitComplement, 1),
                "adversarial" => {
                    let group = group(fabric);
                    if let Some(traffic) = next_group(endpoints, group) {
                        return Ok(traffic);
                    }
                    (Pattern::Adversarial { group }, (PAIRS / endpoints.max(1)).max(8))
                }
                "shift" => return Err(Failure::told("a shift needs a distance", "write for example shift:1")),
                _ => return Err(unknown(name)),
            },
            Some(_) => return Err(unknown(name)),
        };
        let note = match pattern {
            Pattern::Uniform => Some(format!("{messages} receivers drawn for each endpoint: the busiest link of a sample reads high")),
            Pattern::Adversarial { group } => {
                Some(format!("groups of {group} endpoints, each sends to the next; {messages} receivers drawn for each"))
            }
            Pattern::Permutation => Some(format!("one permutation, drawn with seed {seed}")),
            _ => None,
        };
        let mut draw = Draw::new(pattern, endpoints, seed).map_err(|error| {
            let text = error.to_string();
            let (message, help) = text.split_once("; ").unwrap_or((&text, "choose another pattern"));
            Failure::told(format!("`{name}`: {message}"), help)
        })?;
        let (mut pairs, mut to) = (Vec::new(), Vec::new());
        for rank in 0..endpoints {
            to.clear();
            (0..messages).for_each(|_| draw.receivers(rank, &mut to));
            pairs.extend(to.iter().map(|&to| (EndpointId(rank), EndpointId(to))));
        }
        Ok(Traffic { name: name.to_owned(), pairs: Pairs::Some(pairs), messages, note })
    }
}

/// Every endpoint to each of the next group; `None` where these are too many, or there is no next group.
fn next_group(endpoints: u32, group: u32) -> Option<Traffic> {
    let groups = endpoints / group;
    if groups < 2 || u64::from(groups) * u64::from(group) * u64::from(group) > u64::from(PAIRS) {
        return None;
    }
    let receivers = |src: u32| (0..group).map(move |member| (EndpointId(src), EndpointId((src / group + 1) % groups * group + member)));
    let pairs = (0..groups * group).flat_map(receivers).collect();
    let note = Some(format!("groups of {group} endpoints, each sends to all of the next"));
    Some(Traffic { name: "adversarial".to_owned(), pairs: Pairs::Some(pairs), messages: group, note })
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

fn unknown(name: &str) -> Failure {
    Failure::told(
        format!("there is no pattern `{name}`"),
        "use uniform, permutation, shift:N, ring, tornado, transpose, bit_complement or adversarial",
    )
}

/// Endpoints of which all pairs are followed.
const MOST_ALL: u32 = 4096;
/// Pairs that are drawn where there are more endpoints, about.
const PAIRS: u32 = 1 << 23;
