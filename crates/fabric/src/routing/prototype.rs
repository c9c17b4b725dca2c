//! A choice among paths that the program around this library brings along, such as a class in a notebook.
//!
//! A prototype chooses among the hops that a routing of the library could answer with ([`Route::options`]): what that one proves,
//! freedom from deadlock above all, holds of it too. What has proved itself becomes a file of its own (docs/research.md).
//!
//! Modelled: any choice by place, packet, time and depth of queues. Not modelled: ways that the routing underneath never takes.

use std::fmt;
use std::sync::Arc;

use fabriscope_units::{Bytes, Time};

use super::{Head, Hop, Route, Router, SwitchView};
use crate::graph::SwitchId;

/// What a choice is made of.
#[derive(Clone, Copy, Debug)]
pub struct Choice<'a> {
    /// The switch.
    pub at: SwitchId,
    /// The packet.
    pub head: Head,
    /// When it came.
    pub now: Time,
    /// Where it may go; never empty, each once, in order.
    pub options: &'a [Hop],
    /// What waits for the link of each of them.
    pub queues: &'a [Bytes],
    /// What the routing underneath would take, by its place in `options`.
    pub usual: usize,
}

type Choose = dyn Fn(&Choice<'_>) -> usize + Send + Sync;

/// A choice from outside. Copies are the same one; two that were made apart are never equal.
#[derive(Clone)]
pub struct RoutePrototype(Arc<Choose>);

impl RoutePrototype {
    /// `choose` gives a place in the options; of a place beyond them the usual one is taken.
    #[must_use]
    pub fn new(choose: impl Fn(&Choice<'_>) -> usize + Send + Sync + 'static) -> RoutePrototype {
        RoutePrototype(Arc::new(choose))
    }
}

impl PartialEq for RoutePrototype {
    fn eq(&self, other: &RoutePrototype) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl fmt::Debug for RoutePrototype {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RoutePrototype").finish_non_exhaustive()
    }
}

/// A prototype over the routing whose ways it chooses among.
#[derive(Clone, Debug)]
pub(super) struct Chosen {
    pub(super) under: Box<Router>,
    pub(super) prototype: RoutePrototype,
}

impl Route for Chosen {
    fn output(&self, at: SwitchId, head: Head, view: &mut impl SwitchView) -> Hop {
        let usual = self.under.output(at, head, view);
        let mut options = vec![usual];
        self.under.options(at, head, &mut |hop| options.push(hop));
        options.sort_unstable();
        options.dedup();
        let queues: Vec<Bytes> = options.iter().map(|hop| view.depth(hop.link)).collect();
        let place = options.iter().position(|hop| *hop == usual).unwrap_or_default();
        let choice = Choice { at, head, now: view.now(), options: &options, queues: &queues, usual: place };
        options.get((self.prototype.0)(&choice)).copied().unwrap_or(usual)
    }
    fn options(&self, at: SwitchId, head: Head, visit: &mut dyn FnMut(Hop)) {
        self.under.options(at, head, visit);
    }
    fn options_by_input(&self) -> bool {
        self.under.options_by_input()
    }
    fn oblivious(&self) -> bool {
        false
    }
    fn lanes(&self) -> u8 {
        self.under.lanes()
    }
    fn longest(&self) -> u32 {
        self.under.longest()
    }
    fn proof(&self) -> Option<&'static str> {
        self.under.proof()
    }
}

#[cfg(test)]
mod tests {
    use fabriscope_units::{Rate, Span};

    use super::*;
    use crate::graph::{EndpointId, LinkSpec};
    use crate::routing::{Routing, path};
    use crate::topology::{FatTree, Links, Topology};

    /// In a fat tree of radix 4 with three levels a packet for the other half goes up by one of two links, twice.
    #[test]
    fn a_prototype_chooses_among_the_ways_of_the_routing_underneath() {
        let topology = Topology::FatTree(FatTree { levels: Some(3), ..FatTree::default() });
        let cable = LinkSpec::new(Rate::from_gbps(100), Span::from_ns(10));
        let fabric = topology.build(&Links::uniform(cable), 4).unwrap();
        let to = |choose: fn(&Choice<'_>) -> usize| {
            let router = Router::new(&fabric, Routing::Ecmp).unwrap().chosen_by(RoutePrototype::new(choose));
            assert!(!router.oblivious());
            path(&fabric, &router, EndpointId(0), EndpointId(15), 7)
        };
        let (first, last, beyond) = (to(|_| 0), to(|choice| choice.options.len() - 1), to(|_| usize::MAX));
        let usual = path(&fabric, &Router::new(&fabric, Routing::Ecmp).unwrap(), EndpointId(0), EndpointId(15), 7);
        assert_ne!(first, last);
        assert_eq!((first.len(), last.len()), (usual.len(), usual.len()));
        assert_eq!(beyond, usual);
    }
}
