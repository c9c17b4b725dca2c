//! Two NIC ports and one cable: how NICs are measured without a switch.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Coordinates, Fabric, Family, Links, TopologyError};
use crate::graph::{Builder, Socket};

/// Two endpoints and one cable, no switch.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct BackToBack {}

impl Family for BackToBack {
    fn build(&self, links: &Links, _: u32) -> Result<Fabric, TopologyError> {
        let mut builder = Builder::new(2, [])?;
        builder.cable(Socket::endpoint(0), Socket::endpoint(1), &links.host)?;
        Ok(Fabric { graph: builder.build()?, coordinates: Coordinates::Direct, radix: 0 })
    }
}
