//! What a layer of experts waits for its tokens: dispatch and combine of a library, for models of training and inference.
//!
//! Source: `fabriscope-experts` for the exchange itself.
//! Modelled: up to so many GPUs the library's program, packet by packet, as `bench` runs it. For more, fluids: what leaves a GPU by its adapter
//! and by the links of its node, of an average rank, at max-min fair rates with everybody else; times what the packets of a job of a few nodes
//! take longer than its fluids.
//! Not modelled: kernels that compute beside it.

use std::sync::Arc;

use fabriscope_catalog::{Catalog, ResolvedCluster};
use fabriscope_engine::Cluster;
use fabriscope_engine_flow::{Fluid, rates};
use fabriscope_platform::links_of_gpu;
use fabriscope_tools::experts::{Routing, Shape};
use fabriscope_units::{Bytes, Rate, Span};

use crate::ask::bench;
use crate::error::Error;

/// An exchange of tokens among experts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenExchange {
    /// GPUs that share the experts; they fill the first nodes.
    pub gpus: u32,
    /// Tokens of each.
    pub tokens: u32,
    /// Elements of a token.
    pub hidden: u32,
    /// Experts of a token.
    pub topk: u32,
    /// Nodes that it goes to at most.
    pub groups: u32,
    /// Experts of all.
    pub experts: u32,
    /// Bytes of an element on its way to the experts: 1 or 2; 2 on the way back.
    pub element: u32,
    /// The library, a part with a table `[experts]`.
    pub library: String,
    /// Each token by itself, as for few tokens, instead of once to each node.
    pub low_latency: bool,
}

/// What it takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExchangeTimes {
    /// To the experts.
    pub dispatch: Span,
    /// Back.
    pub combine: Span,
    /// By how much packets took longer than fluids where both were asked, in thousandths; nothing where all was done by packets.
    pub packets_to_fluids: Option<u64>,
}

/// Times of an exchange on a cluster.
///
/// # Errors
/// GPUs or experts that do not fit, a library that is not there, clusters whose routes are not fixed where there are many GPUs.
pub fn exchange(catalog: &Catalog, parts: &ResolvedCluster, of: &TokenExchange) -> Result<ExchangeTimes, Error> {
    let per_node = parts.uniform().map_or(1, |group| group.node.gpus).max(1);
    let nodes = of.gpus.div_ceil(per_node);
    let most = if of.low_latency { MOST_SCATTERED } else { MOST_FORWARDED };
    if nodes <= most {
        let (dispatch, combine) = by_packets(catalog, parts, of, (nodes, of.gpus.min(per_node)))?;
        return Ok(ExchangeTimes { dispatch, combine, packets_to_fluids: None });
    }
    // The same experts on each GPU, on fewer nodes.
    let few = TokenExchange { gpus: most * per_node, experts: of.experts / nodes * most, groups: of.groups.min(most), ..of.clone() };
    let (dispatch, combine) = by_packets(catalog, parts, &few, (most, per_node))?;
    let (to, back) = by_fluids(parts, &few, (most, per_node))?;
    let (many_to, many_back) = by_fluids(parts, of, (nodes, per_node))?;
    let scaled = |many: Span, packets: Span, fluids: Span| {
        Span::from_ps((u128::from(many.as_ps()) * u128::from(packets.as_ps()) / u128::from(fluids.as_ps().max(1))) as u64)
    };
    let ratio = (dispatch + combine).as_ps() * 1000 / (to + back).as_ps().max(1);
    Ok(ExchangeTimes { dispatch: scaled(many_to, dispatch, to), combine: scaled(many_back, combine, back), packets_to_fluids: Some(ratio) })
}

/// As the library's program prints it.
fn by_packets(catalog: &Catalog, parts: &ResolvedCluster, of: &TokenExchange, (nodes, each): (u32, u32)) -> Result<(Span, Span), Error> {
    let tool = if of.low_latency { "deepep_low_latency" } else { "deepep_normal" };
    let mut words = vec!["--library".to_owned(), of.library.clone()];
    for (name, value) in [("--num-tokens", of.tokens), ("--hidden", of.hidden), ("--num-topk", of.topk), ("--num-experts", of.experts)] {
        words.extend([name.to_owned(), value.to_string()]);
    }
    if !of.low_latency {
        words.extend(["--num-topk-groups".to_owned(), of.groups.to_string()]);
        words.extend((of.element > 1).then(|| "--bf16".to_owned()));
    }
    let outcome = bench(tool, parts).catalog(catalog).nodes(nodes).ranks_per_node(each).args(words).outcome()?;
    let points = outcome.get("points").and_then(|points| points.as_array()).cloned().unwrap_or_default();
    let time = |metric: &str| -> Result<Span, Error> {
        let found = points.iter().find(|point| point["metric"] == metric).and_then(|point| point["value"].as_f64());
        let us = found.ok_or_else(|| Error::Training {
            message: format!("`{tool}` gave no {metric} on `{}`", parts.name),
            help: format!("run it by itself: fabriscope bench {tool}"),
        })?;
        Ok(Span::from_ps((us * 1e6) as u64))
    };
    let there = if of.element > 1 && !of.low_latency { "dispatch BF16 latency" } else { "dispatch latency" };
    Ok((time(there)?, time("combine latency")?))
}

/// What the slower of adapters and links takes for an average rank.
fn by_fluids(parts: &ResolvedCluster, of: &TokenExchange, (nodes, per_node): (u32, u32)) -> Result<(Span, Span), Error> {
    let refused = |message: String, help: &str| Error::Training { message, help: help.to_owned() };
    let ranks = nodes * per_node;
    if of.experts == 0 || of.experts / ranks == 0 || of.groups == 0 || of.topk == 0 || of.topk > of.experts {
        return Err(refused(format!("{} experts on {ranks} GPUs, {} of them for a token", of.experts, of.topk), "give as many as divide"));
    }
    let sample = of.tokens.clamp(1, SAMPLE);
    let shape = Shape {
        nodes,
        per_node,
        tokens: sample,
        topk: of.topk,
        groups: of.groups.min(nodes),
        experts: of.experts / ranks * ranks,
        hidden: of.hidden,
        seed: 0,
    };
    let routing = Routing::draw(shape);
    let scale = f64::from(of.tokens) / f64::from(sample);
    // Rank 0 of a node stands for all: what leaves its node, and what comes to it over the links.
    let own = routing.nodes_of(0) as f64 * scale * f64::from(nodes - 1) / f64::from(nodes);
    let each = f64::from(of.tokens) * f64::from(of.topk) * f64::from(nodes - 1) / f64::from(nodes);
    let leave = if of.low_latency { each } else { own };
    let within = routing.received(0) as f64 * scale * f64::from(per_node - 1) / f64::from(per_node);
    let cluster = Cluster::new(parts.clone()).map_err(|error| refused(error.to_string(), "look at the topology: fabriscope topo check"))?;
    let cluster = Arc::new(cluster);
    let fluids: Vec<Fluid> = (0..ranks)
        .map(|from| {
            let other = |to: &u32| to / per_node != from / per_node && (of.low_latency || to % per_node == from % per_node);
            let peers: Vec<u32> = (0..ranks).filter(other).collect();
            let share = 1.0 / peers.len().max(1) as f64;
            Fluid { ways: peers.into_iter().map(|to| (from, to, share)).collect(), most: Rate::from_bps(u64::MAX) }
        })
        .collect();
    let found = rates(&cluster, ranks, per_node, &fluids)
        .map_err(|error| refused(format!("tokens as fluids: {error}"), "use a cluster whose routes are fixed, with room for the job"))?;
    let network = found.rates.into_iter().min().unwrap_or_default();
    let links = links_of_gpu(parts).unwrap_or(Rate::from_bps(u64::MAX));
    let time = |bytes: f64| {
        let network = network.time(Bytes((leave * bytes) as u64));
        let links = if of.low_latency { Span::ZERO } else { links.time(Bytes((within * bytes) as u64)) };
        network.max(links) + found.latency * 2
    };
    let hidden = f64::from(of.hidden);
    Ok((time(hidden * f64::from(of.element)), time(hidden * 2.0)))
}

/// Nodes whose exchange is simulated packet by packet: long ones, and those of few tokens. Basis: assumed; seconds.
const MOST_FORWARDED: u32 = 4;
const MOST_SCATTERED: u32 = 8;
/// Tokens of a rank that are drawn for fluids. Basis: assumed; 1 % of their mean.
const SAMPLE: u32 = 256;

#[cfg(test)]
mod tests {
    use super::*;

    fn low_latency(gpus: u32) -> TokenExchange {
        TokenExchange {
            gpus,
            tokens: 16,
            hidden: 7168,
            topk: 8,
            groups: gpus,
            experts: 256,
            element: 1,
            library: "deepep-v1".to_owned(),
            low_latency: true,
        }
    }

    #[test]
    fn the_time_is_at_least_that_of_the_wire() {
        let catalog = Catalog::embedded().unwrap();
        let parts = catalog.resolve(catalog.cluster("deepseek-h800-cx7").unwrap(), None).unwrap();
        let times = exchange(&catalog, &parts, &low_latency(16)).unwrap();
        // 15 of 16 of 16 · 8 messages of 7408 B leave by 400 Gb/s: 17.8 us; twice the bytes back.
        assert!(times.dispatch > Span::from_ns(17_800) && times.dispatch < Span::from_us(60), "{times:?}");
        assert!(times.combine > Span::from_ns(34_000) && times.combine > times.dispatch, "{times:?}");
        assert_eq!(times.packets_to_fluids, None);
    }

    /// Half of 16 · 8 messages of 7408 B leave by 200 Gb/s: 19.0 us.
    #[test]
    fn slingshot_has_proxies_and_no_posts_by_gpus() {
        let catalog = Catalog::embedded().unwrap();
        let parts = catalog.resolve(catalog.cluster("alps").unwrap(), None).unwrap();
        let of = |library: &str| TokenExchange { library: library.to_owned(), ..low_latency(8) };
        let times = exchange(&catalog, &parts, &of("uccl-ep-cxi")).unwrap();
        assert!(times.dispatch > Span::from_us(19) && times.combine > times.dispatch && times.combine < Span::from_us(200), "{times:?}");
        assert!(exchange(&catalog, &parts, &of("deepep-v1")).unwrap_err().to_string().contains("IBGDA"));
    }

    #[test]
    fn a_library_that_is_not_there_is_refused() {
        let catalog = Catalog::embedded().unwrap();
        let parts = catalog.resolve(catalog.cluster("deepseek-h800-cx7").unwrap(), None).unwrap();
        let unknown = TokenExchange { library: "deepep-v9".to_owned(), ..low_latency(8) };
        assert!(exchange(&catalog, &parts, &unknown).is_err());
    }
}
