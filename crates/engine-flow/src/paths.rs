//! The links that a message uses, and with which share of itself.
//!
//! Oblivious routings with one path per flow: the path of an idle network. Routings that spread the packets of a flow over
//! several paths: all of them, every choice as likely as the others. Routings that look at queues have no fluid
//! counterpart and are refused.

use std::collections::BTreeMap;

use fabriscope_engine::{EngineError, Feature};
use fabriscope_fabric::{EndpointId, Fabric, Head, Hop, Idle, Node, Route, Router, Routing};
use fabriscope_units::Remedy;

use crate::support::refusal;

/// The routing as the flow engine asks for it.
pub(crate) struct Paths<'a> {
    fabric: &'a Fabric,
    router: Router,
    spread: bool,
    /// Most links that a message uses.
    pub stride: u32,
}

impl<'a> Paths<'a> {
    pub fn new(fabric: &'a Fabric, routing: Routing) -> Result<Paths<'a>, EngineError> {
        let router = Router::new(fabric, routing).map_err(|error| EngineError::Setup(error.in_full()))?;
        if !router.oblivious() {
            let what = format!("the routing `{routing}`, which looks at queues");
            return Err(refusal(Feature::Routing, what, "use the packet engine, or a routing such as ecmp or spray").into());
        }
        Paths::of(fabric, router, routing)
    }

    /// The same of any routing: one that looks at queues takes the path that it takes where all are empty.
    pub fn idle(fabric: &'a Fabric, routing: Routing) -> Result<Paths<'a>, EngineError> {
        let router = Router::new(fabric, routing).map_err(|error| EngineError::Setup(error.in_full()))?;
        Paths::of(fabric, router, routing)
    }

    fn of(fabric: &'a Fabric, router: Router, routing: Routing) -> Result<Paths<'a>, EngineError> {
        let spread = routing.reorders() && router.oblivious();
        let mut paths = Paths { fabric, router, spread, stride: 0 };
        paths.stride = if paths.spread { paths.widest()? } else { paths.router.longest() };
        Ok(paths)
    }

    /// The most links that any of a sample of spread messages uses, with some room.
    fn widest(&self) -> Result<u32, EngineError> {
        let endpoints = self.fabric.graph.endpoint_count();
        let sample = [1, endpoints / 2, endpoints.saturating_sub(1), endpoints / 3];
        let mut path = Vec::new();
        let mut most = 0;
        for dest in sample {
            self.spread_over(0, dest.min(endpoints - 1), &mut path);
            most = most.max(path.len() as u32);
        }
        if most > MOST_LINKS {
            let what = format!("messages spread over {most} links each");
            return Err(refusal(Feature::Routing, what, "use a routing with one path, such as ecmp, or the packet engine").into());
        }
        Ok((most * 2).min(self.fabric.graph.link_count()))
    }

    /// The path of a message; `entropy` tells its flow from others between the same two.
    #[inline]
    pub fn path(&self, src: u32, dest: u32, entropy: u32, path: &mut Vec<(u32, f64)>) {
        if self.spread {
            self.spread_over(src, dest, path);
            return;
        }
        path.clear();
        let graph = &self.fabric.graph;
        let dest = EndpointId(dest);
        let mut hop = Hop { link: graph.uplink(EndpointId(src)), vl: 0, via: 0 };
        loop {
            path.push((hop.link.0, 1.0));
            let Node::Switch(at) = graph.node(graph.link(hop.link).to) else { break };
            if path.len() >= self.stride as usize {
                break;
            }
            let head = Head { dest, entropy, input: hop.link, vl: hop.vl, via: hop.via };
            hop = self.router.output(at, head, &mut Idle::new());
        }
    }

    fn spread_over(&self, src: u32, dest: u32, path: &mut Vec<(u32, f64)>) {
        let graph = &self.fabric.graph;
        let dest = EndpointId(dest);
        let mut shares: BTreeMap<u32, f64> = BTreeMap::new();
        let mut open: BTreeMap<Hop, f64> = BTreeMap::from([(Hop { link: graph.uplink(EndpointId(src)), vl: 0, via: 0 }, 1.0)]);
        for _ in 0..self.router.longest() {
            let mut next: BTreeMap<Hop, f64> = BTreeMap::new();
            for (hop, share) in open {
                *shares.entry(hop.link.0).or_default() += share;
                let Node::Switch(at) = graph.node(graph.link(hop.link).to) else { continue };
                let head = Head { dest, entropy: 0, input: hop.link, vl: hop.vl, via: hop.via };
                let mut options = Vec::new();
                self.router.options(at, head, &mut |option| options.push(option));
                options.sort_unstable();
                options.dedup();
                for option in &options {
                    *next.entry(*option).or_default() += share / options.len() as f64;
                }
            }
            open = next;
        }
        path.clear();
        path.extend(shares);
    }
}

/// Links of a spread message beyond which the fluid would be slower than packets. Basis: assumed.
const MOST_LINKS: u32 = 2048;
