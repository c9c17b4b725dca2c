//! One step by dimension order: which port, which lane.
//!
//! In a ring the shorter way is taken, upwards where both are as long. The lanes of a ring are those of W. Dally and C. Seitz,
//! "Deadlock-free message routing in multiprocessor interconnection networks", IEEE Trans. Computers 36(5), 1987: lane 0
//! while the closing link of the ring (the dateline) is still ahead, lane 1 from there on. On lane 0 links are waited for in
//! the order of the ring up to the dateline, on lane 1 from there on, and no packet goes back to lane 0 within the ring; the
//! dimensions are visited in one order: no cycle. Lines and full meshes take one lane.

use crate::divisor::Divisor;
use crate::graph::{EndpointId, LinkId, PortId, SwitchId};
use crate::topology::Fabric;
use crate::topology::grid::{DOWN, Grid, Row, UP};

/// A dimension as routing sees it.
#[derive(Clone, Copy, Debug)]
struct Axis {
    stride: Divisor,
    size: Divisor,
    row: Row,
    ring: bool,
    cables: Divisor,
    /// The first port for it.
    port: u32,
}

impl Axis {
    #[inline]
    fn coordinate(&self, switch: SwitchId) -> u32 {
        self.size.remainder(self.stride.quotient(switch.0))
    }

    /// The block of ports and the lane of a step in this dimension; `None` where there is none to take.
    #[inline]
    fn step(&self, at: SwitchId, target: SwitchId) -> Option<(u32, u8)> {
        let (here, there) = (self.coordinate(at), self.coordinate(target));
        if here == there {
            return None;
        }
        Some(match self.row {
            Row::Full => (if there > here { there - 1 } else { there }, 0),
            _ if self.ring => {
                let ahead = self.size.remainder(there + self.size.get() - here);
                let up = 2 * ahead <= self.size.get();
                // The closing link is ahead where the target has to be reached around the end.
                let around = if up { here > there } else { here < there };
                (if up { UP } else { DOWN }, u8::from(!around))
            }
            _ => (if there > here { UP } else { DOWN }, 0),
        })
    }

    /// Links from the row's one switch to the other, by the shorter way.
    fn distance(&self, from: SwitchId, to: SwitchId) -> u32 {
        let between = self.coordinate(from).abs_diff(self.coordinate(to));
        match self.row {
            Row::Full => between.min(1),
            _ if self.ring => between.min(self.size.get() - between),
            _ => between,
        }
    }

    /// The block of ports at `stop` by which a way from `from` arrives; `None` where it does not move in this dimension.
    fn arrival(&self, from: SwitchId, stop: SwitchId) -> Option<u32> {
        let (block, _) = self.step(from, stop)?;
        Some(match self.row {
            Row::Full => {
                let (here, there) = (self.coordinate(stop), self.coordinate(from));
                if there > here { there - 1 } else { there }
            }
            _ if block == UP => DOWN,
            _ => UP,
        })
    }
}

/// Dimension order on one fabric.
#[derive(Clone, Debug)]
pub(in crate::routing) struct Walk {
    axes: Vec<Axis>,
    hosts: Divisor,
    ports: u32,
    /// The link out of each port of each switch.
    outputs: Vec<u32>,
    pub lanes: u8,
    pub diameter: u32,
    pub switches: u32,
}

/// In which order dimensions are visited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::routing) enum Sequence {
    /// The first dimension first.
    Forward,
    /// The last dimension first.
    Backward,
}

impl Walk {
    pub fn new(fabric: &Fabric, grid: &Grid) -> Walk {
        let mut axes = Vec::new();
        let (mut stride, mut port) = (1, grid.hosts());
        for dimension in grid.dimensions() {
            axes.push(Axis {
                stride: Divisor::new(stride),
                size: Divisor::new(dimension.size),
                row: dimension.wiring(),
                ring: dimension.is_ring(),
                cables: Divisor::new(dimension.cables),
                port,
            });
            stride *= dimension.size;
            port += dimension.ports() as u32;
        }
        let graph = &fabric.graph;
        let link = |(switch, port): (SwitchId, u32)| graph.out_link(switch, PortId(port as u16)).map_or(u32::MAX, |link| link.0);
        let outputs = graph.switches().flat_map(|switch| (0..port).map(move |port| (switch, port))).map(link).collect();
        let lanes = if axes.iter().any(|axis| axis.ring) { 2 } else { 1 };
        Walk {
            axes,
            hosts: Divisor::new(grid.hosts()),
            ports: port,
            outputs,
            lanes,
            diameter: grid.diameter().max(2),
            switches: grid.switches(),
        }
    }

    /// The most parallel cables of any dimension.
    pub fn most_cables(&self) -> u32 {
        self.axes.iter().map(|axis| axis.cables.get()).max().unwrap_or(1)
    }

    /// The switch of an endpoint.
    #[inline]
    pub fn switch_of(&self, endpoint: EndpointId) -> SwitchId {
        SwitchId(self.hosts.quotient(endpoint.0))
    }

    /// The link that delivers to an endpoint of switch `at`.
    #[inline]
    pub fn deliver(&self, at: SwitchId, endpoint: EndpointId) -> LinkId {
        LinkId(self.outputs[(at.0 * self.ports + self.hosts.remainder(endpoint.0)) as usize])
    }

    /// The dimension and the block of ports of the next step from `at` to `target`, and its lane; `None` when it is there.
    #[inline]
    fn step(&self, at: SwitchId, target: SwitchId, sequence: Sequence) -> Option<(&Axis, u32, u8)> {
        let found = |axis: &'_ Axis| axis.step(at, target);
        let (axis, (block, lane)) = match sequence {
            Sequence::Forward => self.axes.iter().find_map(|axis| Some((axis, found(axis)?)))?,
            Sequence::Backward => self.axes.iter().rev().find_map(|axis| Some((axis, found(axis)?)))?,
        };
        Some((axis, block, lane))
    }

    /// The next link towards `target` and its lane, by the parallel cable that `flow` selects; `None` when it is there.
    #[inline]
    pub fn next(&self, at: SwitchId, target: SwitchId, flow: u32, sequence: Sequence) -> Option<(LinkId, u8)> {
        let (axis, block, lane) = self.step(at, target, sequence)?;
        let port = axis.port + block * axis.cables.get() + axis.cables.remainder(flow);
        Some((LinkId(self.outputs[(at.0 * self.ports + port) as usize]), lane))
    }

    /// Links of a shortest path between two switches.
    #[inline]
    pub fn distance(&self, from: SwitchId, to: SwitchId) -> u32 {
        self.axes.iter().map(|axis| axis.distance(from, to)).sum()
    }

    /// Whether the way from `from` by `stop` to `to` leaves the stop by where it came.
    pub fn turns_back(&self, from: SwitchId, stop: SwitchId, to: SwitchId) -> bool {
        let back = self.axes.iter().rev().find_map(|axis| Some((axis.port, axis.arrival(from, stop)?)));
        let on = self.step(stop, to, Sequence::Forward).map(|(axis, block, _)| (axis.port, block));
        back.is_some() && back == on
    }
}
