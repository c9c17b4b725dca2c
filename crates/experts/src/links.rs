//! The links between the GPUs of a node.
//!
//! Modelled: links and their directions as serial resources, in the order of asking, cut through from one to the next.

use std::collections::BTreeMap;
use std::sync::Arc;

use fabriscope_machine::{Access, Use};
use fabriscope_node::{Devices, Memory, ProgramError};
use fabriscope_units::{Bytes, Rate, Span, Time};

type Path = (Arc<[(u32, Rate)]>, Span);

/// When the links of a node are free.
#[derive(Debug, Default)]
pub struct Links {
    free: Vec<Time>,
    paths: BTreeMap<(u32, u32), Path>,
}

impl Links {
    /// When bytes that leave a GPU at `now` are at another one.
    ///
    /// # Errors
    /// GPUs that are not there, or that no link joins.
    pub fn carry(&mut self, devices: &Devices, now: Time, (from, to): (u32, u32), bytes: Bytes) -> Result<Time, ProgramError> {
        if from == to {
            return Ok(now);
        }
        let (path, latency) = match self.paths.get(&(from, to)) {
            Some(known) => known.clone(),
            None => {
                let (source, target) = (devices.vertex(Memory::Device(from))?, devices.vertex(Memory::Device(to))?);
                let (uses, latency) = devices.way(source, target, Access::Write)?;
                let machine = devices.machine();
                let links =
                    uses.iter().filter_map(|Use { resource, weight }| Some((resource.0, weight.payload_of(machine.capacity(*resource)?))));
                let path: Path = (links.collect(), latency);
                self.paths.insert((from, to), path.clone());
                path
            }
        };
        let mut end = now;
        for (resource, rate) in &*path {
            let place = *resource as usize;
            if self.free.len() <= place {
                self.free.resize(place + 1, Time::ZERO);
            }
            self.free[place] = now.max(self.free[place]) + rate.time(bytes);
            end = end.max(self.free[place]);
        }
        Ok(end + latency)
    }
}
