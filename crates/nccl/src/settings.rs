//! What users set by environment variables.
//!
//! Source: NCCL's documentation, "Environment variables"; src/graph/tuning.cc for lists with `^`.

use std::sync::Arc;

use fabriscope_units::Bytes;

use crate::algorithm::{Algorithm, Protocol};
use crate::error::NcclError;
use crate::path_type::PathType;
use crate::tables;
use crate::tuner::Rules;

/// Whether something may be used: as the library thinks best, or as said.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Set {
    /// As the library decides.
    #[default]
    Auto,
    /// Not.
    Off,
    /// Always.
    On,
}

/// A release of NCCL, as far as its constants and rules differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Release {
    /// 2.18, before Blackwell.
    V2_18,
    /// 2.22, and 2.27 for Blackwell.
    #[default]
    Usual,
}

/// The variables that matter for channels, choice and plans.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The release itself, which nobody sets by a variable.
    pub release: Release,
    /// `NCCL_ALGO`: algorithms that may be used, in the order of [`Algorithm::ALL`].
    pub algorithms: [bool; 6],
    /// `NCCL_PROTO`: protocols that may be used; of LL128 the library decides where nobody says so.
    pub protocols: [Set; 3],
    /// `NCCL_MIN_NCHANNELS`.
    pub least_channels: usize,
    /// `NCCL_MAX_NCHANNELS`; as many as the release has where not said.
    pub most_channels: Option<usize>,
    /// `NCCL_BUFFSIZE`, `NCCL_LL_BUFFSIZE`, `NCCL_LL128_BUFFSIZE`, in the order of [`Protocol::ALL`]; as the library has them where not said.
    pub buffers: [Option<Bytes>; 3],
    /// `NCCL_NTHREADS` of Ring and Tree with LL and Simple.
    pub threads: Option<u32>,
    /// `NCCL_P2P_LEVEL`, `NCCL_P2P_DISABLE`: how near GPUs must be to copy directly; `Some(Loc)` is never.
    pub p2p_level: Option<PathType>,
    /// `NCCL_SHM_DISABLE`.
    pub shared_memory: bool,
    /// `NCCL_NET_GDR_LEVEL`: how near an adapter must be to read and write a GPU.
    pub gdr_level: Option<PathType>,
    /// `NCCL_NET_GDR_READ`: whether adapters also read GPUs.
    pub gdr_read: Set,
    /// `NCCL_CROSS_NIC`: whether a ring may leave a node by another adapter than it came.
    pub cross_nic: Set,
    /// `NCCL_PXN_DISABLE` = 0: another GPU may send for one that is farther from the adapter. NCCL does, RCCL does not.
    pub pxn: Set,
    /// `NCCL_NVLS_ENABLE`.
    pub nvls: bool,
    /// `NCCL_COLLNET_ENABLE`.
    pub collnet: bool,
    /// `NCCL_COLLNET_NODE_THRESHOLD`.
    pub collnet_nodes: usize,
    /// `NCCL_NVB_DISABLE` = 0: a third GPU may pass on what two others have no link for.
    pub nvb: bool,
    /// `NCCL_NET_OVERHEAD` in ns.
    pub net_overhead: Option<u32>,
    /// `NCCL_P2P_NET_CHUNKSIZE`, `NCCL_P2P_NVL_CHUNKSIZE`, `NCCL_P2P_PCI_CHUNKSIZE`.
    pub p2p_chunks: [Bytes; 3],
    /// `NCCL_NCHANNELS_PER_NET_PEER`.
    pub channels_per_net_peer: Option<usize>,
    /// `NCCL_NVLS_NCHANNELS`; as many as the release has where not said.
    pub nvls_channels: Option<usize>,
    /// `NCCL_NVLS_CHUNKSIZE`, and of its tree `NCCL_NVLSTREE_MAX_CHUNKSIZE`.
    pub nvls_chunk: Bytes,
    /// The latter; by nodes where not said.
    pub nvls_tree_chunk: Option<Bytes>,
    /// What a tuner's file says (`NCCL_TUNER_CONFIG_FILE`); whoever sets the variable reads the file.
    pub rules: Option<Arc<Rules>>,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            release: Release::default(),
            algorithms: [true; 6],
            protocols: [Set::Auto; 3],
            least_channels: 0,
            most_channels: None,
            buffers: [None; 3],
            threads: None,
            p2p_level: None,
            shared_memory: true,
            gdr_level: None,
            gdr_read: Set::Auto,
            cross_nic: Set::Auto,
            pxn: Set::Auto,
            nvls: true,
            collnet: false,
            collnet_nodes: 2,
            nvb: true,
            net_overhead: None,
            p2p_chunks: tables::P2P_CHUNKS,
            channels_per_net_peer: None,
            nvls_channels: None,
            nvls_chunk: tables::NVLS_CHUNK,
            nvls_tree_chunk: None,
            rules: None,
        }
    }
}

impl Settings {
    /// Sets a variable as the environment does. `false` where it is none that matters here.
    ///
    /// # Errors
    /// A value that cannot be read.
    pub fn set(&mut self, name: &str, value: &str) -> Result<bool, NcclError> {
        let bad = |what: &str| NcclError::Variable { name: name.to_owned(), value: value.to_owned(), what: what.to_owned() };
        let number = || value.parse::<u32>().map_err(|_| bad("use a whole number"));
        let flag = || Ok::<bool, NcclError>(number()? != 0);
        let count = || Ok::<usize, NcclError>((number()? as usize).clamp(1, 128));
        let bytes = |least: u32| match number()? {
            size if size < least => Err(bad(&format!("use at least {least} bytes"))),
            size => Ok(Bytes(u64::from(size))),
        };
        match name {
            "NCCL_ALGO" => {
                let names = Algorithm::ALL.map(Algorithm::name);
                let listed = list(value, &names).ok_or_else(|| bad(&format!("use names of {} with commas between", names.join(", "))))?;
                self.algorithms = [0, 1, 2, 3, 4, 5].map(|place| listed[place]);
            }
            "NCCL_PROTO" => {
                let names = Protocol::ALL.map(Protocol::name);
                let listed = list(value, &names).ok_or_else(|| bad(&format!("use names of {} with commas between", names.join(", "))))?;
                self.protocols = [0, 1, 2].map(|place| if listed[place] { Set::On } else { Set::Off });
            }
            "NCCL_MIN_NCHANNELS" | "NCCL_MIN_NRINGS" | "NCCL_MIN_CTAS" => self.least_channels = count()?,
            "NCCL_MAX_NCHANNELS" | "NCCL_MAX_NRINGS" | "NCCL_MAX_CTAS" => self.most_channels = Some(count()?),
            "NCCL_LL_BUFFSIZE" => self.buffers[0] = Some(bytes(4096)?),
            "NCCL_LL128_BUFFSIZE" => self.buffers[1] = Some(bytes(16384)?),
            "NCCL_BUFFSIZE" => self.buffers[2] = Some(bytes(16384)?),
            "NCCL_NTHREADS" => {
                let threads = number()?;
                if !threads.is_multiple_of(tables::WARP) {
                    return Err(bad("use a multiple of 32"));
                }
                self.threads = Some(threads.clamp(2 * tables::WARP, tables::SIMPLE_THREADS));
            }
            "NCCL_P2P_LEVEL" => self.p2p_level = Some(level(value).ok_or_else(|| bad(LEVELS))?),
            "NCCL_P2P_DISABLE" => self.p2p_level = if flag()? { Some(PathType::Loc) } else { self.p2p_level },
            "NCCL_SHM_DISABLE" => self.shared_memory = !flag()?,
            "NCCL_NET_GDR_LEVEL" => self.gdr_level = Some(level(value).ok_or_else(|| bad(LEVELS))?),
            "NCCL_NET_GDR_READ" => self.gdr_read = if flag()? { Set::On } else { Set::Off },
            "NCCL_CROSS_NIC" => {
                self.cross_nic = match number()? {
                    0 => Set::Off,
                    1 => Set::On,
                    2 => Set::Auto,
                    _ => return Err(bad("use 0, 1 or 2")),
                }
            }
            "NCCL_PXN_DISABLE" => self.pxn = if flag()? { Set::Off } else { Set::On },
            "NCCL_NVLS_ENABLE" => self.nvls = flag()?,
            "NCCL_COLLNET_ENABLE" => self.collnet = flag()?,
            "NCCL_COLLNET_NODE_THRESHOLD" => self.collnet_nodes = number()? as usize,
            "NCCL_NVB_DISABLE" => self.nvb = !flag()?,
            "NCCL_NET_OVERHEAD" => self.net_overhead = Some(number()?),
            "NCCL_P2P_NVL_CHUNKSIZE" => self.p2p_chunks[0] = bytes(4096)?,
            "NCCL_P2P_PCI_CHUNKSIZE" => self.p2p_chunks[1] = bytes(4096)?,
            "NCCL_P2P_NET_CHUNKSIZE" => self.p2p_chunks[2] = bytes(4096)?,
            "NCCL_NCHANNELS_PER_NET_PEER" => self.channels_per_net_peer = Some(count()?),
            "NCCL_NVLS_CHUNKSIZE" => self.nvls_chunk = bytes(4096)?,
            "NCCL_NVLSTREE_MAX_CHUNKSIZE" => self.nvls_tree_chunk = Some(bytes(4096)?),
            "NCCL_NVLS_NCHANNELS" => self.nvls_channels = Some(count()?),
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Channels at the most, of a release that has `most`.
    pub(crate) fn most_channels_of(&self, most: usize) -> usize {
        self.most_channels.unwrap_or(most).min(most)
    }

    /// Whether other GPUs send for those that are farther from an adapter.
    pub(crate) fn relays(&self, amd: bool) -> bool {
        match self.pxn {
            Set::Auto => !amd,
            Set::Off => false,
            Set::On => true,
        }
    }

    /// Buffer of a connection with a protocol.
    pub(crate) fn buffer(&self, protocol: Protocol, amd: bool) -> u64 {
        let usual = if amd { tables::BUFFERS_AMD } else { tables::BUFFERS };
        self.buffers[protocol as usize].unwrap_or(usual[protocol as usize]).0
    }
}

/// A list of names, those that are meant; after `^` those that are not. The case does not matter.
fn list(text: &str, names: &[&str]) -> Option<Vec<bool>> {
    let (named, rest) = text.strip_prefix('^').map_or((true, text), |rest| (false, rest));
    let mut listed = vec![!named; names.len()];
    for word in rest.split(',') {
        let place = names.iter().position(|name| name.eq_ignore_ascii_case(word))?;
        listed[place] = named;
    }
    Some(listed)
}

const LEVELS: &str = "use LOC, NVL, NVB, PIX, PXB, PXN, PHB or SYS, or a number from 0 to 5";

/// A level by name, or by the numbers of old releases (paths.cc, levelsOldToNew).
fn level(text: &str) -> Option<PathType> {
    let old = [PathType::Loc, PathType::Pix, PathType::Pxb, PathType::Phb, PathType::Sys, PathType::Sys];
    let by_number = || text.parse::<usize>().ok().map(|number| old[number.min(old.len() - 1)]);
    PathType::ALL.into_iter().take(8).find(|class| class.name() == text).or_else(by_number)
}
