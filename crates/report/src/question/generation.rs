//! Figures of a vendor's generations of an adapter, and of a service against another on the same adapter.
//!
//! A generation's latency is that of a short send over SRD between two instances with the adapter, its bandwidth the best of the sweep of
//! sends: whether the published latency is one of verbs or of MPI, and which percentile, is not said. A row may name an adapter of the
//! catalogue instead of a cluster: whoever answers looks for one with it.

use super::names::{bandwidth, time};
use super::{Comparison, Question, Relation, Requested, SMALL_MESSAGE};
use crate::measured::Row;

/// The run that answers such a row; none for other rows.
pub(super) fn ask(row: &Row) -> Option<Requested> {
    match row.benchmark.trim().to_ascii_lowercase().as_str() {
        "efa generation table" => Some(generation(row)),
        "verbs srd vs ud latency" => Some(service(row)),
        _ => None,
    }
}

fn generation(row: &Row) -> Requested {
    let variant = row.variant.to_ascii_lowercase();
    let adapter = [("1st", "efa-1"), ("2nd", "efa-2"), ("3rd", "efa-3")].into_iter().find(|(word, _)| variant.contains(word));
    let Some((_, adapter)) = adapter else { return Requested::Skip(format!("which generation `{}` is is not known", row.variant)) };
    let (tool, bytes, quantity) = match row.metric.to_ascii_lowercase().as_str() {
        "latency" => ("ib_send_lat", Some(SMALL_MESSAGE), time(&row.unit)),
        "bandwidth" => ("ib_send_bw", None, bandwidth(&row.unit)),
        _ => ("ib_send_lat", None, None),
    };
    match quantity {
        Some(quantity) => Requested::Run(question(adapter, tool, "SRD", bytes), quantity),
        None => Requested::Skip(format!("a generation has no metric `{}` in `{}` here", row.metric, row.unit)),
    }
}

/// How much longer a send over SRD takes than one of a datagram.
fn service(row: &Row) -> Requested {
    if !row.metric.to_ascii_lowercase().starts_with("overhead") || row.unit != "%" {
        return Requested::Skip(format!("a comparison of services has no metric `{}` in `{}` here", row.metric, row.unit));
    }
    let of = |service| question("efa-1", "ib_send_lat", service, Some(SMALL_MESSAGE));
    let quantity = super::Quantity::Latency { us: 1.0 };
    Requested::Compare(Comparison { of: of("SRD"), against: of("UD"), quantity, relation: Relation::Longer })
}

fn question(adapter: &str, tool: &'static str, service: &str, message_bytes: Option<u64>) -> Question {
    let options = ["-c", service].map(str::to_owned).into();
    Question { cluster: adapter.to_owned(), tool, options, nodes: 2, ranks: 2, message_bytes, ..Question::default() }
}
