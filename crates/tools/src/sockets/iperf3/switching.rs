//! What virtual switches took of cores while streams ran: a line that the program does not print, under the one about its own cores.
//!
//! Modelled: cores of the host and of the adapter, in per cent of one core, new flows and dropped packets of each side.
//! Not modelled: on a real host one reads this of `mpstat`, `ovs-appctl upcall/show` and the adapter's own tools.

use fabriscope_tcp::kernel::SwitchingUsage;
use fabriscope_units::Span;

use super::{Settings, Stream};

/// Of a stream: before and after, for sender and receiver.
pub(super) type Switched = [Option<(SwitchingUsage, SwitchingUsage)>; 2];

/// Per cent of a core that switching took at the sender's and the receiver's node, of the hosts' cores and of the adapters', and the line
/// that says so; `None` where nobody switches.
pub(super) fn utilisation(s: &Settings, streams: &[Stream]) -> Option<([f64; 2], [f64; 2], String)> {
    let mut loads = ([0.0; 2], [0.0; 2]);
    let mut sides = Vec::new();
    for side in 0..2 {
        // The switch is the node's: what it had taken before the first stream and after the last.
        let seen = || streams.iter().filter_map(|own| own.switching[side]);
        let longest = streams.iter().map(|own| own.cores[side].1).max().unwrap_or(Span::ZERO).as_s_f64().max(f64::MIN_POSITIVE);
        let of = |part: fn(&SwitchingUsage) -> Span| -> Option<f64> {
            let (before, after) = (seen().map(|(before, _)| part(&before)).min()?, seen().map(|(_, after)| part(&after)).max()?);
            Some(100.0 * after.saturating_sub(before).as_s_f64() / longest)
        };
        (loads.0[side], loads.1[side]) = (of(|usage| usage.host)?, of(|usage| usage.adapter)?);
        let flows = seen().map(|(_, after)| after.upcalls).max()?;
        let dropped = seen().map(|(_, after)| after.dropped).max()?;
        let place = if (side == 0) == s.reverse { "remote" } else { "local" };
        let role = if side == 0 { "sender" } else { "receiver" };
        sides.push(format!(
            "{place}/{role} host {:.1}%, adapter {:.1}%, {flows} new flows, {dropped} dropped",
            loads.0[side], loads.1[side]
        ));
    }
    if s.reverse {
        sides.reverse();
    }
    Some((loads.0, loads.1, format!("Virtual switch: {}\n", sides.join("; "))))
}
