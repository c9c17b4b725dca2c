//! Convolutional nets: the table of their layers, what each costs in both directions, and a step of data-parallel training.
//!
//! Source: Chetlur et al., cuDNN (arXiv 1410.0759), §3: a convolution as a multiplication whose operand is read through windows; Lavin, Gray
//! (arXiv 1509.09308), §4: windows of 3 × 3 by tiles of 2 × 2 take 16 multiplications for 36, by tiles of 4 × 4 36 for 144; NVIDIA, cuDNN 5.1,
//! user guide: the first in one kernel, the second with transforms through memory, and for windows of 5 × 5, too; He et al., CVPR 2016 (bottlenecks); Li et al.,
//! PyTorch Distributed (VLDB 2020, arXiv 2006.15704), §4: gradients leave in buckets, in the order in which the backward pass makes them.
//! Modelled: implicit multiplications with their memory, forward, gradient of the input, gradient of the weights; in 32 bits the fastest of that
//! and of Winograd's; normalisation, bias, activation, pools and shortcuts as kernels that stream through memory.
//! Not modelled: transforms by FFT, the additions of Winograd's transforms, kernels that frameworks fuse, reading of images.

use fabriscope_catalog::{Convolution, Convolutional, NetLayer};
use fabriscope_units::{Bytes, Span};

use crate::layout::Precision;
use crate::roofline::Roofline;
use crate::times::{CommunicationTimes, Group, Operation};

/// Channels, and rows and columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Volume {
    /// Channels.
    pub channels: u64,
    /// Rows, and columns.
    pub size: u64,
}

impl Volume {
    /// Numbers of an image.
    #[must_use]
    pub const fn elements(self) -> u64 {
        self.channels * self.size * self.size
    }
}

/// What a row of the table does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RowKind {
    /// A convolution, or a full layer as one over all that it sees.
    Product {
        /// Rows of a window.
        kernel: u64,
        /// From one window to the next.
        stride: u64,
        /// Groups.
        groups: u64,
        /// Normalised over the batch.
        normalised: bool,
        /// With an activation behind it.
        activated: bool,
    },
    /// The largest, or the mean, of windows.
    Pool,
    /// Responses divided by those of neighbours.
    Response,
    /// The shortcut is added, with an activation.
    Add,
}

/// A row of the table of layers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// `conv1`, `block2.1 b`.
    pub name: String,
    /// What it does.
    pub kind: RowKind,
    /// What goes in.
    pub input: Volume,
    /// What comes out.
    pub output: Volume,
}

impl Row {
    /// Its parameters: weights, and a bias or scale and shift for each channel.
    #[must_use]
    pub fn parameters(&self) -> u64 {
        match self.kind {
            RowKind::Product { kernel, groups, normalised, .. } => {
                let beside = if normalised { 2 } else { 1 };
                self.output.channels * (kernel * kernel * self.input.channels / groups + beside)
            }
            _ => 0,
        }
    }
    /// Multiplications with their additions, of an image in the forward pass.
    #[must_use]
    pub fn multiplications(&self) -> u64 {
        match self.kind {
            RowKind::Product { kernel, groups, .. } => self.output.elements() * kernel * kernel * self.input.channels / groups,
            _ => 0,
        }
    }
}

/// The table of a net, bottlenecks row by row.
#[must_use]
pub fn table(net: &Convolutional) -> Vec<Row> {
    let mut rows = Table { rows: Vec::new(), at: Volume { channels: net.channels.into(), size: net.size.into() } };
    let last = net.layers.len();
    let (mut convolutions, mut full, mut stages) = (0, 0, 0);
    for (number, layer) in (1..).zip(&net.layers) {
        match *layer {
            NetLayer::Convolution(of) => {
                convolutions += 1;
                rows.convolution(format!("conv{convolutions}"), of, true);
            }
            NetLayer::Pool(of) => {
                let size = (rows.at.size + 2 * u64::from(of.padding) - u64::from(of.kernel)) / u64::from(of.stride) + 1;
                rows.plain("pool", RowKind::Pool, size);
            }
            NetLayer::Average {} => rows.plain("average", RowKind::Pool, 1),
            NetLayer::ResponseNormalisation {} => rows.plain("response", RowKind::Response, rows.at.size),
            NetLayer::Bottleneck(of) => {
                stages += 1;
                for block in 0..of.blocks {
                    let stride = if block == 0 { of.stride } else { 1 };
                    let (outer, inner) = if of.strided_first { (stride, 1) } else { (1, stride) };
                    let name = |part: &str| format!("block{stages}.{} {part}", block + 1);
                    let of_one = |channels, kernel, stride| Convolution {
                        channels,
                        kernel,
                        stride,
                        padding: kernel / 2,
                        groups: 1,
                        normalised: true,
                    };
                    let input = rows.at;
                    rows.convolution(name("a"), of_one(of.width, 1, outer), true);
                    rows.convolution(name("b"), of_one(of.width, 3, inner), true);
                    rows.convolution(name("c"), of_one(of.channels, 1, 1), false);
                    let output = rows.at;
                    if block == 0 {
                        rows.at = input;
                        rows.convolution(name("shortcut"), of_one(of.channels, 1, stride), false);
                    }
                    rows.rows.push(Row { name: name("add"), kind: RowKind::Add, input: output, output });
                }
            }
            NetLayer::Linear(of) => {
                full += 1;
                // Over everything that comes in: a window as large as the image.
                let of =
                    Convolution { channels: of.outputs, kernel: rows.at.size as u32, stride: 1, padding: 0, groups: 1, normalised: false };
                rows.convolution(format!("full{full}"), of, number < last);
            }
        }
    }
    rows.rows
}

struct Table {
    rows: Vec<Row>,
    at: Volume,
}

impl Table {
    fn convolution(&mut self, name: String, of: Convolution, activated: bool) {
        let [kernel, stride, padding, groups] = [of.kernel, of.stride, of.padding, of.groups].map(u64::from);
        let size = (self.at.size + 2 * padding - kernel) / stride + 1;
        let output = Volume { channels: of.channels.into(), size };
        let kind = RowKind::Product { kernel, stride, groups, normalised: of.normalised, activated };
        self.rows.push(Row { name, kind, input: self.at, output });
        self.at = output;
    }
    fn plain(&mut self, name: &str, kind: RowKind, size: u64) {
        let output = Volume { size, ..self.at };
        self.rows.push(Row { name: name.to_owned(), kind, input: self.at, output });
        self.at = output;
    }
}

/// Parameters of a net.
#[must_use]
pub fn parameters(net: &Convolutional) -> u64 {
    table(net).iter().map(Row::parameters).sum()
}

/// Floating-point operations of an image: forward, and twice as many backward, less the gradient of the image that nobody asks for.
#[must_use]
pub fn operations(net: &Convolutional) -> f64 {
    let rows = table(net);
    let forward: u64 = rows.iter().map(Row::multiplications).sum();
    let first = rows.iter().map(Row::multiplications).find(|of| *of > 0).unwrap_or_default();
    2.0 * (3 * forward - first) as f64
}

/// What a row takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RowTimes {
    /// Multiplications forward.
    pub product: Span,
    /// Kernels that stream through memory, forward.
    pub memory: Span,
    /// Multiplications backward.
    pub product_back: Span,
    /// Kernels that stream through memory, backward.
    pub memory_back: Span,
}

/// What each row takes for `batch` images.
#[must_use]
pub fn times(rows: &[Row], batch: u64, precision: Precision, roofline: &Roofline) -> Vec<RowTimes> {
    let first = rows.iter().position(|row| row.multiplications() > 0);
    (0..).zip(rows).map(|(number, row)| row_times(row, batch, precision, roofline, first == Some(number))).collect()
}

fn row_times(row: &Row, batch: u64, precision: Precision, roofline: &Roofline, first: bool) -> RowTimes {
    let width = precision.width();
    let (input, output) = (batch * row.input.elements() * width, batch * row.output.elements() * width);
    // Kernels one behind the other, by the bytes of each.
    let streams = |bytes: &[u64]| -> Span { bytes.iter().map(|bytes| roofline.stream(Bytes(*bytes))).sum() };
    let mut of = RowTimes::default();
    match row.kind {
        RowKind::Product { normalised, activated, .. } => {
            let [forward, back, weights] = products(row, batch, precision, roofline);
            of.product = forward;
            of.product_back = weights + if first { Span::ZERO } else { back };
            // Statistics and the normalised values; backward two sums of input and gradient, then the gradient. A bias is added, its gradient summed.
            let (there, again) = if normalised { (3 * output, 5 * output) } else { (2 * output, output) };
            of.memory = streams(&[there]);
            of.memory_back = streams(&[again]);
            if activated {
                of.memory += streams(&[2 * output]);
                of.memory_back += streams(&[3 * output]);
            }
        }
        RowKind::Pool => {
            of.memory = streams(&[input + output]);
            of.memory_back = streams(&[2 * input + 2 * output]);
        }
        // Output and the divisor; backward input, output, divisor and gradient for one gradient.
        RowKind::Response => {
            of.memory = streams(&[3 * output]);
            of.memory_back = streams(&[5 * output]);
        }
        // Sum and activation; backward the activation, and the sum of both gradients where the ways part.
        RowKind::Add => {
            of.memory = streams(&[3 * output, 2 * output]);
            of.memory_back = streams(&[3 * output, 3 * output]);
        }
    }
    of
}

/// Forward, gradient of the input, gradient of the weights.
fn products(row: &Row, batch: u64, precision: Precision, roofline: &Roofline) -> [Span; 3] {
    let RowKind::Product { kernel, stride, groups, .. } = row.kind else { return [Span::ZERO; 3] };
    let (from, to, window) = (row.input.channels / groups, row.output.channels / groups, kernel * kernel);
    let (inputs, outputs) = (batch * row.input.size * row.input.size, batch * row.output.size * row.output.size);
    let width = precision.width();
    let moved = (batch * (row.input.elements() + row.output.elements()) + groups * from * to * window) * width;
    let product = |m: u64, n: u64, k: u64, batch: u64| roofline.product((m, n, k.max(1), batch), Bytes(moved), precision);
    let back = if row.output.size == 1 {
        product(batch, from * window, to, groups)
    } else {
        // Each number of the input is in as many windows as the stride leaves.
        product(inputs, from, (to * window).div_ceil(stride * stride), groups)
    };
    let plain = [product(outputs, to, from * window, groups), back, product(from * window, to, outputs, groups)];
    if precision != Precision::Bits32 || ![3, 5].contains(&kernel) || stride != 1 {
        return plain;
    }
    let candidates = [vec![plain], quick(row, batch, precision, roofline)].concat();
    [0, 1, 2].map(|which| candidates.iter().map(|each| each[which]).min().unwrap_or_default())
}

/// The same by Winograd's transforms: for tiles of 2 × 2 in one kernel, for tiles of 4 × 4 through memory.
fn quick(row: &Row, batch: u64, precision: Precision, roofline: &Roofline) -> Vec<[Span; 3]> {
    let RowKind::Product { kernel, groups, .. } = row.kind else { return Vec::new() };
    let (from, to, width) = (row.input.channels / groups, row.output.channels / groups, precision.width());
    let of = |side: u64, through_memory: bool| {
        let points = (side + kernel - 1) * (side + kernel - 1);
        let tiles = batch * row.output.size.div_ceil(side) * row.output.size.div_ceil(side);
        let (plain, turned) = (batch * (row.input.elements() + row.output.elements()), tiles * points * (from + to) * groups);
        let weights = groups * from * to * points;
        let moved = Bytes((weights + if through_memory { turned } else { plain }) * width);
        let turns = if through_memory { roofline.stream(Bytes((plain + turned) * width)) + roofline.stream(Bytes(0)) } else { Span::ZERO };
        let product = |m: u64, n: u64, k: u64| roofline.product((m, n, k, points * groups), moved, precision) + turns;
        [product(tiles, to, from), product(tiles, from, to), product(from, to, tiles)]
    };
    match kernel {
        3 => vec![of(2, false), of(4, true)],
        _ => vec![of(4, true)],
    }
}

/// How gradients of copies come together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exchange {
    /// An all-reduce of each bucket, while the backward pass goes on.
    Overlapped {
        /// Gradients of a bucket at least.
        bucket: Bytes,
    },
    /// An all-reduce of each layer behind the backward pass.
    Behind,
    /// So long, behind the backward pass.
    Known(Span),
}

/// A step's parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct NetStep {
    /// Multiplications forward.
    pub forward: Span,
    /// Multiplications backward.
    pub backward: Span,
    /// Kernels that stream through memory, both ways.
    pub memory: Span,
    /// Gradients, as far as nothing hides them.
    pub exposed: Span,
    /// What computing takes longer while collectives have some of the processors.
    pub slowed: Span,
    /// The optimizer.
    pub optimizer: Span,
    /// All operations of the exchange, one behind the other.
    pub exchange: Span,
}

impl NetStep {
    /// All parts with their names.
    #[must_use]
    pub fn parts(&self) -> [(&'static str, Span); 6] {
        [
            ("multiplications, forward", self.forward),
            ("multiplications, backward", self.backward),
            ("memory-bound kernels", self.memory),
            ("gradients, exposed", self.exposed),
            ("slowed by collectives", self.slowed),
            ("optimizer", self.optimizer),
        ]
    }
    /// The step.
    #[must_use]
    pub fn total(&self) -> Span {
        self.parts().into_iter().map(|(_, span)| span).sum()
    }
}

/// A step of `copies` with `batch` images each.
///
/// # Errors
/// What the cluster cannot do.
pub fn step<T: CommunicationTimes>(
    net: &Convolutional,
    (batch, copies): (u64, u32),
    precision: Precision,
    roofline: &Roofline,
    exchange: Exchange,
    communication: &mut T,
) -> Result<NetStep, T::Error> {
    let rows = table(net);
    let each = times(&rows, batch, precision, roofline);
    let mut step = NetStep { optimizer: roofline.stream(Bytes(MOMENTUM_BYTES * parameters(net))), ..NetStep::default() };
    for of in &each {
        step.forward += of.product;
        step.backward += of.product_back;
        step.memory += of.memory + of.memory_back;
    }
    if let Exchange::Known(span) = exchange {
        (step.exposed, step.exchange) = (span, span);
        return Ok(step);
    }
    let group = Group { size: copies, stride: 1 };
    if copies <= 1 {
        return Ok(step);
    }
    let whole: Span = each.iter().map(|of| of.product_back + of.memory_back).sum();
    let least = if let Exchange::Overlapped { bucket } = exchange { bucket } else { Bytes(1) };
    let (mut computed, mut free, mut full, mut taken) = (Span::ZERO, Span::ZERO, Bytes::ZERO, 0);
    for (number, (row, of)) in rows.iter().zip(&each).enumerate().rev() {
        computed += of.product_back + of.memory_back;
        full += Bytes(row.parameters() * precision.width());
        if full == Bytes::ZERO || (full < least && number > 0) {
            continue;
        }
        let span = communication.time(Operation::AllReduce, full, group)?;
        taken = taken.max(communication.processors(Operation::AllReduce, full, group)?);
        let ready = if exchange == Exchange::Behind { whole } else { computed };
        free = free.max(ready) + span;
        step.exchange += span;
        full = Bytes::ZERO;
    }
    step.exposed = free.saturating_sub(whole);
    let hidden = step.exchange.saturating_sub(step.exposed);
    step.slowed = roofline.slowed(hidden, taken);
    Ok(step)
}

/// Bytes of a parameter that gradient descent with momentum reads and writes: parameter, momentum and gradient in 32 bits, the first two there
/// and back.
const MOMENTUM_BYTES: u64 = 20;
