//! Tables of layers have the totals that are published; steps of nets, of models that recommend and of wafers follow their formulas.

use fabriscope_catalog::{Catalog, Convolutional, Model, NetLayer, Recommendation};
use fabriscope_training::convolution::{self, Exchange, Row};
use fabriscope_training::roofline::Roofline;
use fabriscope_training::streaming::{self, Streaming};
use fabriscope_training::{Layout, Precision, recommendation};
use fabriscope_units::{Bytes, Rate, Span};

use crate::plain::Plain;

fn model(name: &str) -> Model {
    Model::clone(Catalog::embedded().unwrap().model(name).unwrap())
}

fn net(name: &str) -> Convolutional {
    model(name).convolutional.unwrap()
}

fn recommends(name: &str) -> Recommendation {
    model(name).recommendation.unwrap()
}

fn gpu(name: &str) -> Roofline {
    Roofline::of(Catalog::embedded().unwrap().gpu(name).unwrap()).unwrap()
}

/// Parameters: those of the published files of weights. Multiplications of an image in 10⁹: AlexNet 0.724 (Caffe's two groups), in one column
/// 0.714, VGG-16 15.47, ResNet-50 4.09 (strides in the second convolutions).
#[test]
fn tables_have_the_published_totals() {
    let published = [
        ("alexnet", 60_965_224, 0.724),
        ("alexnet-owt", 61_100_840, 0.7142),
        ("vgg-16", 138_357_544, 15.470),
        ("resnet-50", 25_557_032, 4.089),
    ];
    for (name, parameters, billions) in published {
        let rows = convolution::table(&net(name));
        assert_eq!(convolution::parameters(&net(name)), parameters, "{name}");
        let counted = rows.iter().map(Row::multiplications).sum::<u64>() as f64 / 1e9;
        assert!((counted / billions - 1.0).abs() < 0.001, "{name}: {counted:.4} for {billions}");
    }
    let rows = convolution::table(&net("resnet-50"));
    assert_eq!(rows.iter().filter(|row| row.parameters() > 0).count(), 54);
    assert_eq!((rows[0].output.size, rows[1].output.size), (112, 56));
}

/// He et al., table 1: 3.8 · 10⁹ multiplications with additions, where the first convolution of a block has its stride.
#[test]
fn strides_of_the_paper_take_fewer_multiplications() {
    let mut paper = net("resnet-50");
    for layer in &mut paper.layers {
        if let NetLayer::Bottleneck(of) = layer {
            of.strided_first = true;
        }
    }
    let counted = convolution::table(&paper).iter().map(Row::multiplications).sum::<u64>() as f64 / 1e9;
    assert!((3.8..3.9).contains(&counted), "{counted}");
    assert_eq!(convolution::parameters(&paper), 25_557_032);
}

/// Images per second of one GPU: TensorFlow, docs_src/performance/benchmarks.md (May 2017, synthetic images): Google Compute Engine for the K80
/// (one die), a DGX-1 for the P100. `sustained` of both GPUs comes from their row of VGG-16, 32 and 64 images.
const TENSORFLOW: [(&str, &str, u64, f64); 8] = [
    ("k80-die", "vgg-16", 32, 35.4),
    ("k80-die", "alexnet-owt", 512, 656.0),
    ("k80-die", "resnet-50", 64, 51.9),
    ("k80-die", "resnet-50", 32, 49.5),
    ("p100-sxm2-16", "vgg-16", 64, 154.0),
    ("p100-sxm2-16", "alexnet-owt", 512, 2987.0),
    ("p100-sxm2-16", "resnet-50", 64, 219.0),
    ("p100-sxm2-16", "resnet-50", 32, 195.0),
];

#[test]
fn one_gpu_trains_as_fast_as_published() {
    let mut told = Vec::new();
    for (name, of, batch, published) in TENSORFLOW {
        let known = Plain { rate: Rate::from_gbps(100), processors: 0 };
        let step = convolution::step(&net(of), (batch, 1), Precision::Bits32, &gpu(name), Exchange::Behind, &mut { known }).unwrap();
        let rate = batch as f64 / step.total().as_s_f64();
        told.push((rate / published - 1.0).abs());
    }
    assert!(told[0] < 0.03 && told[4] < 0.03, "the rows that were fitted: {told:?}");
    told.sort_by(f64::total_cmp);
    assert!(told[told.len() / 2] < 0.10 && told.iter().all(|off| *off < 0.15), "{told:?}");
}

/// A bucket leaves when its last gradient is there: what is left behind the backward pass is at least the last bucket, at most all.
#[test]
fn buckets_hide_behind_the_backward_pass() {
    let (of, roofline) = (net("vgg-16"), gpu("p100-sxm2-16"));
    let step = |exchange| {
        convolution::step(&of, (64, 8), Precision::Bits32, &roofline, exchange, &mut Plain { rate: Rate::from_gbps(100), processors: 0 })
            .unwrap()
    };
    let behind = step(Exchange::Behind);
    let overlapped = step(Exchange::Overlapped { bucket: Bytes::from_mib(25) });
    let whole = Rate::from_gbps(100).time(Bytes(4 * 138_357_544));
    let off = |one: Span, other: Span| (one.as_s_f64() / other.as_s_f64() - 1.0).abs();
    assert!(off(behind.exposed, whole) < 1e-6 && off(overlapped.exchange, whole) < 1e-6);
    assert!(overlapped.exposed < whole / 10 && overlapped.exposed > Span::ZERO, "{:?}", overlapped.exposed);
    assert_eq!(step(Exchange::Known(whole)).exposed, whole);
}

/// 24 billion parameters of tables (Criteo's rows, 128 numbers each), 2.4 million of layers; v2 has 26 and 16.1 (MLCommons).
#[test]
fn tables_of_embeddings_have_their_parameters() {
    let (tables, layers) = recommendation::parameters(&recommends("dlrm-mlperf"));
    assert!((tables as f64 / 24.03e9 - 1.0).abs() < 0.01, "{tables}");
    // 13·512 + 512·256 + 256·128 with a bias each, and 479·1024 + 1024·1024 + 1024·512 + 512·256 + 256·1.
    assert_eq!(layers, (7168 + 131_328 + 32_896) + (491_520 + 1_049_600 + 524_800 + 131_328 + 257));
    let (tables, layers) = recommendation::parameters(&recommends("dlrm-v2"));
    assert!((tables as f64 / 26.1e9 - 1.0).abs() < 0.02, "{tables}");
    assert!((15.9e6..16.4e6).contains(&(layers as f64)), "{layers}");
}

#[test]
fn every_table_is_dealt_and_shares_shrink() {
    let of = recommends("dlrm-v2");
    let (tables, _) = recommendation::parameters(&of);
    assert_eq!(recommendation::fullest(&of, 1).kept, tables);
    assert_eq!(recommendation::fullest(&of, 1).read, 214 * 128);
    let shares = [1, 2, 4, 8, 16, 64].map(|gpus| recommendation::fullest(&of, gpus));
    assert!(shares.windows(2).all(|pair| pair[1].kept <= pair[0].kept && pair[1].read <= pair[0].read), "{shares:?}");
    assert!(shares.iter().zip([1, 2, 4, 8, 16, 64]).all(|(share, gpus)| share.kept * gpus >= tables), "{shares:?}");
}

/// The embeddings of a sample cross the network twice; a network that is slow enough is all of the step.
#[test]
fn a_slow_network_is_all_of_a_recommendation() {
    let (of, roofline) = (recommends("dlrm-mlperf"), gpu("a100-sxm4-80"));
    let step = |gbps| {
        recommendation::step(&of, (4096, 8), Precision::Bits16, &roofline, &mut Plain { rate: Rate::from_gbps(gbps), processors: 0 })
            .unwrap()
    };
    let share = recommendation::fullest(&of, 8);
    assert_eq!(step(1).exchanged, Rate::from_gbps(1).time(Bytes(4096 * 8 * share.given * 2)) * 2);
    assert!(step(1).all_to_all > step(1).total() / 2);
    assert!(step(40_000).all_to_all < step(40_000).total() / 20);
}

/// A layer takes as long as the slower of its weights and its products; two streams of weights and one of gradients hide where a batch is large.
#[test]
fn streams_hide_behind_large_batches() {
    let of = model("gpt3-xl").transformer.unwrap();
    let rate = fabriscope_units::OperationRate::parse("400 TFLOP/s").unwrap();
    let system = Streaming { rate, dies: 1, link: Rate::from_gbps(1200), latency: Span::from_us(5), room: Bytes(40_000_000_000) };
    let step = |micro_batch| {
        let layout = Layout { data: 4, micro_batch, global_batch: 4 * micro_batch, ..Layout::default() };
        streaming::step(&of, &layout, &system)
    };
    assert_eq!(step(16).streams, Span::ZERO);
    assert_eq!(step(16).turn, Span::from_us(10));
    // 1.3 billion weights of 2 bytes at 150 GB/s, twice; one sequence of 2,048 tokens computes 2,048 · 8 · 10⁹ operations at most.
    let one = step(1);
    assert!(one.streamed > Span::from_us(34_000) && one.streamed < Span::from_us(37_000), "{:?}", one.streamed);
    assert!(one.total() >= one.streamed && one.streams > Span::ZERO);
}
