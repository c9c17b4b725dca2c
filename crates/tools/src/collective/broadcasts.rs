//! Broadcasts by several algorithms in one job, one after the other, of any sizes and from any ranks.

use std::collections::{BTreeMap, BTreeSet};

use fabriscope_collectives::Kind;
use fabriscope_mpi::{Buffer, Casting, Multicast, MulticastSettings, Outcome, Packing, Rank, Unable, World};
use fabriscope_node::{Process, ProgramError};
use fabriscope_platform::Target;
use fabriscope_tool::arguments::{Given, Meaning::Usual, Opt, Takes, opt};
use fabriscope_tool::{UsageError, mpi_for};

use super::plan::{Implementation, Implementations, Plan};
use crate::omb::Buffers;

/// One algorithm.
pub(super) struct Cast {
    /// As it was asked for.
    pub asked: String,
    multicast: Option<MulticastSettings>,
    unable: Option<Unable>,
    plan: Plan,
    ways: BTreeMap<u32, Implementation>,
    casting: Casting,
}

/// What a job of broadcasts is made of.
pub(super) struct Casts {
    pub casts: Vec<Cast>,
    pub buffers: Buffers,
    pub target: Target,
    world: World,
    packing: Packing,
}

impl Casts {
    /// The algorithms `asked` for broadcasts of `sizes` bytes, from rank `root` at least.
    pub fn new(
        tool: &str,
        asked: &[String],
        sizes: &BTreeSet<u32>,
        (root, buffers): (u32, Buffers),
        target: &Target,
    ) -> Result<Casts, UsageError> {
        let mpi = mpi_for(tool, target)?;
        if asked.len() > MOST {
            let what = format!("{} algorithms to compare", asked.len());
            return Err(UsageError::Conflict { what, remedy: format!("name at most {MOST}") });
        }
        let cast = |(number, asked): (u8, &String)| {
            let plan = Plan { root, buffers, algorithm: Some(asked.clone()), ..Plan::new(Kind::Bcast, Vec::new(), true) };
            plan.check(target)?;
            let Implementations { multicast, unable, each } = plan.ways(tool, sizes.iter().copied(), mpi, target)?;
            let ways = sizes.iter().copied().zip(each).collect();
            Ok(Cast { asked: asked.clone(), multicast, unable, plan, ways, casting: Casting::numbered(number) })
        };
        let casts = (0u8..).zip(asked).map(cast).collect::<Result<Vec<Cast>, UsageError>>()?;
        let (world, packing) = (buffers.world(mpi, target, target.layout.ranks()), Packing::from(mpi));
        Ok(Casts { casts, buffers, target: target.clone(), world, packing })
    }

    /// A rank that broadcasts to and from all others, and its part in each algorithm; any of `sources` may be the root.
    pub async fn join(&self, process: Process, sources: &[u32]) -> Result<(Rank, Vec<Option<Multicast>>), ProgramError> {
        let me = process.rank();
        let mut peers = BTreeSet::new();
        for cast in &self.casts {
            for (size, way) in &cast.ways {
                let Implementation::Rounds(algorithm) = way else { continue };
                for root in sources {
                    let call = Plan { root: *root, ..cast.plan.clone() }.call(*size, &self.target);
                    peers.extend(algorithm.peers(&call, me));
                }
            }
        }
        let rank = Rank::init(process, self.world.clone(), &peers.into_iter().collect::<Vec<u32>>()).await?;
        let mut multicasts = Vec::new();
        for cast in &self.casts {
            multicasts.push(match cast.multicast {
                Some(settings) => Some(Multicast::open(&rank, settings, &cast.casting, sources).await?),
                None => None,
            });
        }
        Ok((rank, multicasts))
    }

    /// One broadcast of `size` bytes from `root` by an algorithm.
    pub async fn broadcast(
        &self,
        rank: &Rank,
        (cast, multicast): (&Cast, &Option<Multicast>),
        (root, size): (u32, u32),
        buffer: Buffer,
    ) -> Result<(), ProgramError> {
        match (cast.ways.get(&size), multicast) {
            (Some(Implementation::Multicast(_)), Some(multicast)) => multicast.broadcast(rank, root, buffer, size).await,
            (Some(Implementation::Rounds(algorithm)), _) => {
                let call = Plan { root, ..cast.plan.clone() }.call(size, &self.target);
                let under_way = rank.begin(algorithm.outlines(&call, rank.rank()), self.packing, buffer)?;
                rank.complete(under_way).await
            }
            _ => Ok(()),
        }
    }

    /// What a reader has to know of each algorithm.
    pub fn remarks(&self) -> Vec<String> {
        let line = |cast: &Cast| {
            let by: BTreeSet<String> = cast.ways.values().map(Implementation::to_string).collect();
            let by = by.into_iter().collect::<Vec<_>>().join(", ");
            match &cast.unable {
                Some(unable) => format!("{} was asked for, but {unable}; the library's own choice instead: {by}", cast.asked),
                None => format!("{}: {by}", cast.asked),
            }
        };
        self.casts.iter().map(line).collect()
    }
}

impl Cast {
    /// What was lost and fetched in all its broadcasts so far.
    pub fn outcome(&self) -> Outcome {
        self.casting.outcome()
    }
}

/// The option that [`asked`] reads.
pub(super) const ALGORITHMS: Opt = opt(
    '\0',
    "algorithm",
    Takes::Value("name"),
    Usual,
    "once for each to compare with the first (default multicast_gdr, k_nomial_gdr and ring_gdr)",
);

/// The algorithms that are named, or those that are usually compared.
pub(super) fn asked(given: &[Given]) -> Vec<String> {
    let named: Vec<String> = given.iter().filter(|given| given.name == "algorithm").filter_map(|given| given.value.clone()).collect();
    if named.is_empty() { USUAL.map(str::to_owned).into() } else { named }
}

/// Algorithms of a job, each with groups and memory of its own. Basis: assumed.
const MOST: usize = 16;
/// What is compared unless algorithms are named.
const USUAL: [&str; 3] = ["multicast_gdr", "k_nomial_gdr", "ring_gdr"];
