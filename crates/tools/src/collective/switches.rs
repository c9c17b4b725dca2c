//! Algorithms that switches carry out: whether they can, the group of the job, and what is taken instead.

use fabriscope_catalog::Mpi;
use fabriscope_collectives::{Algorithm, Call};
use fabriscope_mpi::{Buffer, Rank};
use fabriscope_node::aggregation::{Member, Rules};
use fabriscope_node::{ProgramError, Record};
use fabriscope_platform::{Target, path_mtu};
use fabriscope_tool::UsageError;
use fabriscope_verbs::Denied;
use fabriscope_wire::{Collective, Element};

use super::plan::{Implementation, Plan};

/// What a job has of the switches.
pub(super) struct Switches {
    /// By size: what the hosts do where the switches should; nothing where they have no part in it.
    instead: Vec<Option<Implementation>>,
    rules: Option<Rules>,
    element: Element,
    /// Why the hosts do it.
    refused: Record<Option<String>>,
}

impl Switches {
    /// Looks at what `choices` ask of them.
    pub fn new(plan: &Plan, choices: &[(Call, Implementation)], tool: &str, mpi: &Mpi, target: &Target) -> Result<Switches, UsageError> {
        let instead = |(call, way): &(Call, Implementation)| {
            let Implementation::Rounds(algorithm) = way else { return Ok(None) };
            if !algorithm.is_in_network() {
                return Ok(None);
            }
            let by_hosts = |algorithm: Option<&str>| Plan { algorithm: algorithm.map(str::to_owned), ..plan.clone() };
            let size = call.size.saturating_u32();
            let usual = by_hosts(None).choose(tool, size, mpi, target);
            // A library whose rules do not say goes through its nodes' leaders as well.
            usual
                .or_else(|_| by_hosts(Some("two_level")).choose(tool, size, mpi, target))
                .map(|algorithm| Some(Implementation::Rounds(algorithm)))
        };
        let instead = choices.iter().map(instead).collect::<Result<_, UsageError>>()?;
        let part = target.aggregation.as_ref();
        let rules = part.map(|(_, part)| part.rules(path_mtu(target.mtu), target.max_inline));
        Ok(Switches { instead, rules, element: plan.element, refused: Record::new(refusal(plan, target)) })
    }

    /// Whether they have a part in any size.
    pub fn are_there(&self) -> bool {
        self.instead.iter().any(Option::is_some)
    }

    /// What the hosts may have to do: calls and algorithms.
    pub fn by_hosts<'a>(&'a self, choices: &'a [(Call, Implementation)]) -> impl Iterator<Item = (&'a Call, &'a Algorithm)> {
        choices.iter().zip(&self.instead).filter_map(|((call, _), way)| match way {
            Some(Implementation::Rounds(algorithm)) => Some((call, algorithm)),
            _ => None,
        })
    }

    /// What is done for the size at this place, of which `way` was chosen.
    pub fn taken<'a>(&'a self, at: usize, way: &'a Implementation) -> &'a Implementation {
        self.instead[at].as_ref().filter(|_| self.refused.lock().is_some()).unwrap_or(way)
    }

    /// Joins the group of the switches, where an algorithm asks for one; afterwards all ranks know what became of it.
    pub async fn join(&self, rank: &Rank, choices: &[(Call, Implementation)]) -> Result<(), ProgramError> {
        let asked = |((call, way), instead): (&(Call, Implementation), &Option<Implementation>)| match way {
            Implementation::Rounds(algorithm) if instead.is_some() => algorithm.rounds(call, rank.rank()).find_map(|round| round.joint),
            _ => None,
        };
        let joint = choices.iter().zip(&self.instead).find_map(asked);
        let open = self.refused.lock().is_none();
        if let (Some(joint), Some(rules), true) = (joint, self.rules, open) {
            let member = Member { job: WORLD, member: joint.member, members: joint.members };
            if let Err(denied) = rank.join_network(member, rules, self.element).await? {
                *self.refused.lock() = Some(denied.to_string());
            }
        }
        if self.instead.iter().any(Option::is_some) { rank.synchronise().await } else { Ok(()) }
    }

    /// Why the hosts do it, where the switches were asked for.
    pub fn remark(&self) -> Option<String> {
        let why = self.refused.lock().clone().filter(|_| self.instead.iter().any(Option::is_some));
        why.map(|why| format!("not in the network, as {why}; the hosts do it"))
    }
}

/// Why switches do not carry out what a plan asks for, as far as is known before.
fn refusal(plan: &Plan, target: &Target) -> Option<String> {
    let collective = Collective::ALL.into_iter().find(|collective| collective.word() == plan.operation.word())?;
    let Some((name, part)) = &target.aggregation else { return Some(Denied::NoUnit.to_string()) };
    let (protocol, word) = (&part.protocol, plan.element.word());
    if !part.does(collective, plan.element) {
        let typed = part.does(collective, Element::F32);
        let what = if typed { format!("{word} in it; another -T may do") } else { collective.word().to_owned() };
        return Some(format!("{protocol} of {name} has no {what}"));
    }
    (plan.buffers.sender != Buffer::Host).then(|| "the library reduces vectors of GPUs itself".to_owned())
}

/// The job that members of a group name; there is one communicator. Basis: assumed.
const WORLD: u64 = 0;
