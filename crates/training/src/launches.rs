//! Kernels that the host launches for a layer, and how long GPUs wait for it.
//!
//! A framework that runs kernel by kernel needs as long for each launch whatever the kernel does; where kernels are short, it is late. It runs
//! ahead while they are long, but not past the counts of tokens that experts get, which it waits for.
//!
//! Source: Megatron-LM, docs/discussions/deepseek-v3-gb200-optimization (host boundedness; kernels of the router: 31, with a dispatcher of its
//! own kernels 17; a multiplication of each expert by itself); megatron/core/transformer, `cuda_graph_scope` for the modules.
//! Modelled: launches of a layer by module, of experts one for each of a GPU; the host ahead of the GPU within a layer, behind the counts from
//! none.
//! Not modelled: a host that runs ahead from layer to layer, what it does besides (data, logging, the optimizer).

use fabriscope_units::Span;

use crate::layer::{Entry, Modules, Work};
use crate::layout::{Dispatcher, Layout, Precision};
use crate::roofline::{Kernel, Roofline};

/// Kernels of the router and of what comes before tokens leave: by the collective library, by kernels of their own. Basis: published, forward.
const ROUTER: [u64; 2] = [31, 17];

/// Launches forward and backward.
type Launches = [u64; 2];

/// How long the GPU waits for the host in both passes of a layer, of which these are the entries; `again` is computed a second time.
pub(crate) fn waits((modules, again): (&Modules, &[Work]), layout: &Layout, roofline: &Roofline, entries: [&[Entry]; 2]) -> [Span; 2] {
    let Some(launch) = roofline.launch().filter(|_| !layout.graphs.iteration) else { return [Span::ZERO; 2] };
    let (before, behind) = launches(modules, layout);
    let repeated: u64 = again.iter().map(|work| counted(work)[0]).sum();
    let busy = |entries: &[Entry]| -> Span { entries.iter().map(|entry| entry.exposed).sum() };
    let host = |launches: u64| launch * launches;
    // The GPU until the counts are there, and behind them.
    let split = modules.attention.len() + modules.second.len();
    let (first, experts) = entries[0].split_at(split.min(entries[0].len()));
    let (first, experts) = (busy(first), busy(experts));
    let longest = (first + experts).max(host(before[0] + behind[0])).max(host(behind[0]) + first);
    [longest - (first + experts), host(before[1] + behind[1] + repeated).saturating_sub(busy(entries[1]))]
}

/// Launches until the counts of tokens are there, and behind them.
fn launches(modules: &Modules, layout: &Layout) -> (Launches, Launches) {
    let graphs = layout.graphs;
    let routed = !modules.experts.is_empty();
    let router = if !routed { 0 } else { ROUTER[usize::from(layout.dispatcher == Dispatcher::Flex)] };
    let module = |work: &[Work], graph: bool, more: u64| match graph {
        true => [1, 1],
        false => work.iter().map(counted).fold([more, more / 2], |sum, of| [sum[0] + of[0], sum[1] + of[1]]),
    };
    let attention = module(&modules.attention, graphs.attention, 0);
    let second = module(&modules.second, if routed { graphs.router } else { graphs.feed_forward }, router);
    ([attention[0] + second[0], attention[1] + second[1]], of_experts(&modules.experts, layout.precision))
}

/// Launches of one piece of work forward and backward, where a multiplication has both gradients.
fn counted(work: &Work) -> Launches {
    match *work {
        Work::Matrix(_) | Work::Adapter(_) => [1, 2],
        Work::Memory(there, back) => [u64::from(there > 0), u64::from(back > 0)],
        Work::Attention(_) | Work::Together(..) => [1, 1],
    }
}

/// The same of experts: a launch for each of those of a GPU, and one for what narrows its operand.
fn of_experts(work: &[Work], precision: Precision) -> Launches {
    let of = |(at, each): (usize, &Work)| {
        let multiplied = work.get(at + 1).filter(|_| precision == Precision::Bits8 && matches!(each, Work::Memory(..)));
        let times = match (each, multiplied) {
            (Work::Matrix(Kernel::Matrix { batch, .. }), _) | (_, Some(Work::Matrix(Kernel::Matrix { batch, .. }))) => *batch,
            _ => 1,
        };
        counted(each).map(|launches| launches * times)
    };
    work.iter().enumerate().map(of).fold([0, 0], |sum, of| [sum[0] + of[0], sum[1] + of[1]])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layer;
    use crate::layout::Graphs;
    use fabriscope_catalog::Catalog;

    fn of(name: &str, layout: &Layout) -> (Launches, Launches) {
        let catalog = Catalog::embedded().unwrap();
        let model = catalog.model(name).unwrap().transformer.as_ref().unwrap();
        launches(&layer::modules(model, layout, model.experts.is_some()), layout)
    }

    /// A layer of Llama: norm, product, attention, product, residual; norm, product, activation, product, residual. Backward two for a product.
    /// 16 experts of Qwen3 on a GPU: router with norm, product and order; 16 for each product and activation, tokens there, back and in order,
    /// residual; in 8 bits 16 more for each of what narrows both operands.
    #[test]
    fn kernels_are_counted_by_module() {
        assert_eq!(of("llama3-8b", &Layout::default()), ([10, 14], [0, 0]));
        let experts = Layout { data: 8, expert: 8, ..Layout::default() };
        assert_eq!(of("qwen3-30b-a3b", &experts), ([5 + 3 + 31, 7 + 4 + 15], [2 * 16 + 5, 4 * 16 + 5]));
        let narrow = Layout { precision: Precision::Bits8, dispatcher: Dispatcher::Flex, ..experts };
        let (_, behind) = of("qwen3-30b-a3b", &narrow);
        assert_eq!(behind, [4 * 16 + 5, 6 * 16 + 5]);
        let graphs = Graphs { attention: true, router: true, ..Graphs::default() };
        assert_eq!(of("qwen3-30b-a3b", &Layout { graphs, ..narrow }).0, [2, 2]);
    }
}
