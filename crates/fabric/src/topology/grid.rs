//! Grids: the coordinates that torus, mesh, hypercube, HyperX and full mesh share.
//!
//! Switches stand at the points of a grid of any number of dimensions. In each dimension the switches of a row form a ring,
//! a line, or a full mesh, with one or several cables between neighbours. A ring of two is a line: one set of cables.
//!
//! ```text
//!  ring   s0 ─ s1 ─ s2 ─ s3 ─┐     line   s0 ─ s1 ─ s2 ─ s3     full   each with each
//!          └─────────────────┘
//! ```
//!
//! Numbers: switch (x₀, x₁, …) is x₀ + k₀ (x₁ + k₁ (…)); endpoint e is plugged into switch ⌊e / h⌋. Ports of a switch: h for
//! endpoints, then dimension by dimension those up and those down (ring, line), or those to each other coordinate in
//! order (full, and any row of two). Ports at the edges of lines are unused.
//!
//! Source: W. Dally and B. Towles, "Principles and Practices of Interconnection Networks", 2004, §5; J. Ahn et al.,
//! "HyperX: topology, routing, and packaging of efficient large-scale networks", SC 2009.
//! Not modelled: dimensions of different speed, express links.

use std::fmt;

use super::{Coordinates, Counts, Fabric, Links, TopologyError, check_ports};
use crate::graph::{Builder, MOST_PORTS, Socket, SwitchId};

/// How the switches of a row are joined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Row {
    /// Each with the next, the last with the first.
    Ring,
    /// Each with the next.
    Line,
    /// Each with each.
    Full,
}

/// One dimension.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dimension {
    /// Switches in a row.
    pub size: u32,
    /// How they are joined.
    pub row: Row,
    /// Cables between two that are joined.
    pub cables: u32,
}

impl Dimension {
    /// Whether the row is a ring, which takes three.
    pub fn is_ring(&self) -> bool {
        self.row == Row::Ring && self.size > 2
    }
    /// How the ports of its switches are joined: two in a row have one neighbour each, however the row is called.
    pub(crate) fn wiring(&self) -> Row {
        if self.size == 2 { Row::Full } else { self.row }
    }
    /// Pairs of switches that are joined, in one row.
    fn pairs(&self) -> u64 {
        let size = u64::from(self.size);
        match self.row {
            Row::Full => size * (size - 1) / 2,
            Row::Ring if self.is_ring() => size,
            _ => size - 1,
        }
    }
    /// Ports that a switch has for this dimension.
    pub(crate) fn ports(&self) -> u64 {
        let neighbours = match self.wiring() {
            Row::Full => u64::from(self.size) - 1,
            _ if self.size > 1 => 2,
            _ => 0,
        };
        neighbours * u64::from(self.cables)
    }
    /// The most steps between two coordinates.
    fn farthest(&self) -> u32 {
        match self.row {
            Row::Full => u32::from(self.size > 1),
            Row::Ring if self.is_ring() => self.size / 2,
            _ => self.size - 1,
        }
    }
}

/// Switches at the points of a grid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grid {
    dimensions: Vec<Dimension>,
    /// h: endpoints of each switch.
    hosts: u32,
    switches: u32,
}

impl Grid {
    /// A grid with `hosts` endpoints at each switch.
    ///
    /// # Errors
    /// No dimension, one of size zero, or without cables; more ports than can be numbered.
    pub fn new(dimensions: Vec<Dimension>, hosts: u32) -> Result<Grid, TopologyError> {
        if hosts == 0 || dimensions.is_empty() || dimensions.iter().any(|dimension| dimension.size == 0 || dimension.cables == 0) {
            return Err(TopologyError::Empty);
        }
        let switches = dimensions.iter().fold(1u64, |all, dimension| all.saturating_mul(u64::from(dimension.size)));
        let ports = dimensions.iter().fold(u64::from(hosts), |all, dimension| all.saturating_add(dimension.ports()));
        let all = switches.saturating_mul(ports);
        if all > u64::from(MOST_PORTS) {
            return Err(TopologyError::TooLarge { ports: all, most: MOST_PORTS });
        }
        Ok(Grid { dimensions, hosts, switches: switches as u32 })
    }

    /// The dimensions, the fastest first.
    pub fn dimensions(&self) -> &[Dimension] {
        &self.dimensions
    }
    /// h: endpoints of each switch.
    pub fn hosts(&self) -> u32 {
        self.hosts
    }
    /// How many switches there are.
    pub fn switches(&self) -> u32 {
        self.switches
    }
    /// The coordinate of a switch in a dimension.
    pub fn coordinate(&self, switch: SwitchId, axis: usize) -> u32 {
        let stride: u32 = self.dimensions[..axis].iter().map(|dimension| dimension.size).product();
        switch.0 / stride % self.dimensions[axis].size
    }
    /// Ports that a switch needs.
    pub(crate) fn ports(&self) -> u64 {
        u64::from(self.hosts) + self.dimensions.iter().map(Dimension::ports).sum::<u64>()
    }

    /// How many endpoints, switches and cables there are, from the shape alone.
    pub fn counts(&self) -> Counts {
        // Of each dimension with k switches in a row there are S / k rows.
        let cables = |dimension: &Dimension| u64::from(self.switches / dimension.size) * dimension.pairs() * u64::from(dimension.cables);
        let trunks: u64 = self.dimensions.iter().map(cables).sum();
        let endpoints = self.switches * self.hosts;
        Counts { endpoints, switches: self.switches, cables: endpoints + trunks as u32 }
    }
    /// Links on the longest of the shortest paths between two endpoints.
    pub fn diameter(&self) -> u32 {
        let steps: u32 = self.dimensions.iter().map(Dimension::farthest).sum();
        if self.switches * self.hosts < 2 { 0 } else { steps + 2 }
    }
    pub(super) fn name(&self, switch: SwitchId) -> String {
        let at: Vec<String> = (0..self.dimensions.len()).map(|axis| self.coordinate(switch, axis).to_string()).collect();
        format!("switch ({})", at.join(","))
    }

    /// Plugs all cables.
    ///
    /// # Errors
    /// A switch that needs more than `radix` ports; a link without a rate.
    pub(super) fn build(self, links: &Links, radix: u32) -> Result<Fabric, TopologyError> {
        let inside = self.ports() - u64::from(self.hosts);
        let remedy = "lower the endpoints of a switch, the dimensions or the cables, or choose a larger switch";
        check_ports("a switch of the grid", (u64::from(self.hosts), inside), radix.min(u32::from(u16::MAX)), remedy)?;
        let counts = self.counts();
        let mut builder = Builder::new(counts.endpoints, std::iter::repeat_n(self.ports() as u16, self.switches as usize))?;
        builder.reserve(counts.cables);
        for endpoint in 0..counts.endpoints {
            builder.cable(
                Socket::endpoint(endpoint),
                Socket::switch(endpoint / self.hosts, (endpoint % self.hosts) as u16),
                &links.host,
            )?;
        }
        let (mut first, mut stride) = (self.hosts, 1);
        for dimension in &self.dimensions {
            let &Dimension { size, cables, .. } = dimension;
            for switch in 0..self.switches {
                let at = switch / stride % size;
                let partner = |other: u32| switch - at * stride + other * stride;
                // The ports here and there, and who is there.
                let mut plug = |other: u32, here: u32, there: u32| -> Result<(), TopologyError> {
                    for cable in 0..cables {
                        let from = Socket::switch(switch, (first + here * cables + cable) as u16);
                        let to = Socket::switch(partner(other), (first + there * cables + cable) as u16);
                        builder.cable(from, to, &links.trunk)?;
                    }
                    Ok(())
                };
                match dimension.wiring() {
                    // Ports in the order of the other coordinates, one's own left out.
                    Row::Full => (at + 1..size).try_for_each(|other| plug(other, other - 1, at))?,
                    _ if at + 1 < size => plug(at + 1, UP, DOWN)?,
                    Row::Ring if dimension.is_ring() => plug(0, UP, DOWN)?,
                    _ => {}
                }
            }
            first += dimension.ports() as u32;
            stride *= size;
        }
        Ok(Fabric { graph: builder.build()?, coordinates: Coordinates::Grid(self), radix })
    }
}

/// The dimensions of these sizes; `cables` holds one number for each, or one for all.
pub(super) fn rows(sizes: &[u32], cables: Option<&[u32]>, row: Row) -> Result<Vec<Dimension>, TopologyError> {
    let expected = |what: &str| format!("write {what}, for example sizes = [4, 4, 4]");
    if sizes.is_empty() || sizes.len() > MOST_DIMENSIONS {
        let value = sizes.len() as u64;
        return Err(TopologyError::OutOfRange { name: "sizes", value, expected: expected("1 to 20 sizes") });
    }
    if let Some(&size) = sizes.iter().find(|&&size| size == 0) {
        return Err(TopologyError::OutOfRange { name: "sizes", value: u64::from(size), expected: expected("sizes of at least 1") });
    }
    let cables = cables.unwrap_or(&[1]);
    if (cables.len() != 1 && cables.len() != sizes.len()) || cables.contains(&0) {
        let expected = "write one number of cables for all dimensions, or one for each, all of at least 1".to_owned();
        return Err(TopologyError::OutOfRange { name: "cables", value: cables.len() as u64, expected });
    }
    Ok(sizes.iter().enumerate().map(|(axis, &size)| Dimension { size, row, cables: cables[axis % cables.len()] }).collect())
}

/// Dimensions there may be.
const MOST_DIMENSIONS: usize = 20;

/// Blocks of ports of a ring or a line: to the next coordinate, and to the one before.
pub(crate) const UP: u32 = 0;
pub(crate) const DOWN: u32 = 1;

impl fmt::Display for Grid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sizes: Vec<String> = self.dimensions.iter().map(|dimension| dimension.size.to_string()).collect();
        let rows = |row| self.dimensions.iter().all(|dimension| dimension.row == row);
        let name = match self.dimensions.len() {
            1 if rows(Row::Full) => "full mesh",
            _ if rows(Row::Full) => "HyperX",
            _ if self.dimensions.iter().all(|dimension| dimension.size == 2) => "hypercube",
            _ if rows(Row::Ring) => "torus",
            _ if rows(Row::Line) => "mesh",
            _ => "grid",
        };
        write!(f, "{name} of {}", sizes.join(" × "))
    }
}
