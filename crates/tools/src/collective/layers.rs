//! Networks of image classification as lists of their layers' parameters.
//!
//! Source: A. Krizhevsky, I. Sutskever, G. Hinton, NIPS 2012 (AlexNet, two groups in layers 2, 4 and 5); K. Simonyan, A. Zisserman, ICLR 2015 (VGG-16);
//! K. He et al., CVPR 2016 (ResNet-50). Parameters follow from the shapes: weights and biases; of ResNet-50 weights, and scale and shift of the normalisation.
//! Modelled: a number of single precision for each parameter; layers in the order of the network.
//! Not modelled: parameters that are sent in fewer bits (CNTK's 1-bit SGD), what an optimiser keeps beside them.

use fabriscope_units::{Bytes, Span};

/// A network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Model {
    AlexNet,
    Vgg16,
    ResNet50,
}

impl Model {
    pub const ALL: [Model; 3] = [Model::AlexNet, Model::Vgg16, Model::ResNet50];
    pub const NAMES: &'static str = "alexnet, vgg16, resnet50";

    pub fn named(word: &str) -> Option<Model> {
        Model::ALL.into_iter().find(|model| model.name() == word)
    }
    pub fn name(self) -> &'static str {
        match self {
            Model::AlexNet => "alexnet",
            Model::Vgg16 => "vgg16",
            Model::ResNet50 => "resnet50",
        }
    }

    /// Forward and backward of one image on a die of a K80. Basis: published, TensorFlow's benchmarks of 2017 on one GPU of a K80 (656, 35.4 and 51.9
    /// images a second); quoted from memory and not read again.
    pub fn image(self) -> Span {
        match self {
            Model::AlexNet => Span::from_us(1524),
            Model::Vgg16 => Span::from_us(28_249),
            Model::ResNet50 => Span::from_us(19_268),
        }
    }

    /// Bytes of the parameters of each layer.
    pub fn layers(self) -> Vec<Bytes> {
        let plain = |(inputs, outputs): (u64, u64)| (inputs + 1) * outputs;
        let parameters: Vec<u64> = match self {
            Model::AlexNet => {
                let (convolutions, full) =
                    ([(363, 96), (1200, 256), (2304, 384), (1728, 384), (1728, 256)], [(9216, 4096), (4096, 4096), (4096, 1000)]);
                convolutions.into_iter().chain(full).map(plain).collect()
            }
            Model::Vgg16 => {
                let channels = [3, 64, 64, 128, 128, 256, 256, 256, 512, 512, 512, 512, 512, 512];
                let convolutions = channels.windows(2).map(|pair| (9 * pair[0], pair[1]));
                convolutions.chain([(25_088, 4096), (4096, 4096), (4096, 1000)]).map(plain).collect()
            }
            Model::ResNet50 => resnet50(),
        };
        parameters.into_iter().map(|count| Bytes(count * NUMBER)).collect()
    }
}

/// A convolution with its normalisation.
fn normalised(inputs: u64, outputs: u64, window: u64) -> u64 {
    (inputs * window * window + 2) * outputs
}

fn resnet50() -> Vec<u64> {
    let mut layers = vec![normalised(3, 64, 7)];
    let mut inputs = 64;
    for (blocks, width) in [(3, 64), (4, 128), (6, 256), (3, 512)] {
        for block in 0..blocks {
            layers.extend([normalised(inputs, width, 1), normalised(width, width, 3), normalised(width, 4 * width, 1)]);
            if block == 0 {
                layers.push(normalised(inputs, 4 * width, 1));
            }
            inputs = 4 * width;
        }
    }
    layers.push((inputs + 1) * 1000);
    layers
}

/// Single precision, in bytes.
const NUMBER: u64 = 4;

#[cfg(test)]
mod tests {
    use super::*;

    /// The totals that are published with the networks.
    #[test]
    fn the_networks_have_their_parameters() {
        let total = |model: Model| (model.layers().len(), model.layers().into_iter().sum::<Bytes>().0 / NUMBER);
        assert_eq!(Model::ALL.map(total), [(8, 60_965_224), (16, 138_357_544), (54, 25_557_032)]);
        assert_eq!(Model::named("vgg16"), Some(Model::Vgg16));
    }
}
