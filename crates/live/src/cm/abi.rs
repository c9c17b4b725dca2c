//! What librdmacm writes to `/dev/infiniband/rdma_cm`, and what it reads from there.
//!
//! Source: the kernel's `rdma_user_cm.h`, version 4 of that interface. Commands begin with their number and the sizes of what follows and of
//! the answer. Modelled: the commands for IP addresses, which librdmacm uses where the kernel does not know `AF_IB`.

use std::net::Ipv4Addr;

/// Of that interface.
pub(crate) const VERSION: u32 = 4;
/// Bytes in front of every command.
const HEAD: usize = 8;
/// Private data of connection parameters.
const PRIVATE: usize = 256;
/// A socket address in a command.
const ADDRESS: usize = 28;
/// Connection parameters.
const TERMS: usize = 16 + PRIVATE;

/// A command by its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Call {
    CreateId,
    DestroyId,
    BindIp,
    ResolveIp,
    ResolveRoute,
    QueryRoute,
    Connect,
    Listen,
    Accept,
    Reject,
    Disconnect,
    InitQpAttr,
    GetEvent,
    SetOption,
    Notify,
    JoinIpMulticast,
    LeaveMulticast,
    MigrateId,
}

impl Call {
    fn of(number: u32) -> Option<Call> {
        use Call::{
            Accept, BindIp, Connect, CreateId, DestroyId, Disconnect, GetEvent, InitQpAttr, JoinIpMulticast, LeaveMulticast, Listen,
            MigrateId, Notify, QueryRoute, Reject, ResolveIp, ResolveRoute, SetOption,
        };
        let numbered = [
            (0, CreateId),
            (1, DestroyId),
            (2, BindIp),
            (3, ResolveIp),
            (4, ResolveRoute),
            (5, QueryRoute),
            (6, Connect),
            (7, Listen),
            (8, Accept),
            (9, Reject),
            (10, Disconnect),
            (11, InitQpAttr),
            (12, GetEvent),
            (14, SetOption),
            (15, Notify),
            (16, JoinIpMulticast),
            (17, LeaveMulticast),
            (18, MigrateId),
        ];
        numbered.iter().find(|(of, _)| *of == number).map(|(_, call)| *call)
    }
}

/// A command, read by offsets behind its head.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Command<'a> {
    pub call: Call,
    body: &'a [u8],
}

impl<'a> Command<'a> {
    /// The command in these bytes; an error number where there is none.
    pub fn read(bytes: &'a [u8]) -> Result<Command<'a>, i32> {
        let head = Command { call: Call::Notify, body: bytes };
        if bytes.len() < HEAD {
            return Err(libc::EINVAL);
        }
        let call = Call::of(head.u32(0)).ok_or(libc::ENOSYS)?;
        Ok(Command { call, body: &bytes[HEAD..] })
    }

    fn field<const N: usize>(&self, at: usize) -> [u8; N] {
        self.body.get(at..at + N).and_then(|bytes| bytes.try_into().ok()).unwrap_or([0; N])
    }
    pub fn u8(&self, at: usize) -> u8 {
        self.field::<1>(at)[0]
    }
    pub fn u16(&self, at: usize) -> u16 {
        u16::from_ne_bytes(self.field(at))
    }
    pub fn u32(&self, at: usize) -> u32 {
        u32::from_ne_bytes(self.field(at))
    }
    pub fn u64(&self, at: usize) -> u64 {
        u64::from_ne_bytes(self.field(at))
    }
    /// So many bytes, as far as they are there.
    pub fn bytes(&self, at: usize, length: usize) -> Vec<u8> {
        self.body.get(at..).unwrap_or_default().iter().copied().take(length).collect()
    }

    /// Where the answer goes.
    pub fn response(&self) -> u64 {
        match self.call {
            Call::CreateId => self.u64(8),
            Call::DestroyId
            | Call::BindIp
            | Call::QueryRoute
            | Call::InitQpAttr
            | Call::GetEvent
            | Call::JoinIpMulticast
            | Call::LeaveMulticast
            | Call::MigrateId => self.u64(0),
            _ => 0,
        }
    }

    /// The identifier that the command is about.
    pub fn id(&self) -> u32 {
        match self.call {
            Call::CreateId | Call::GetEvent => 0,
            Call::DestroyId | Call::QueryRoute | Call::InitQpAttr | Call::SetOption | Call::MigrateId | Call::LeaveMulticast => self.u32(8),
            Call::BindIp => self.u32(36),
            Call::ResolveIp => self.u32(56),
            Call::Connect => self.u32(TERMS),
            Call::Accept => self.u32(8 + TERMS),
            Call::JoinIpMulticast => self.u32(44),
            Call::ResolveRoute | Call::Listen | Call::Reject | Call::Disconnect | Call::Notify => self.u32(0),
        }
    }

    /// A socket address: host and port; nothing for what is neither IPv4 nor stands for it.
    pub fn address(&self, at: usize) -> Option<(u32, u16)> {
        let port = u16::from_be_bytes(self.field(at + 2));
        match i32::from(self.u16(at)) {
            libc::AF_INET => Some((u32::from_be_bytes(self.field(at + 4)), port)),
            libc::AF_INET6 => {
                let six = std::net::Ipv6Addr::from(self.field::<16>(at + 8));
                let four = if six.is_loopback() { Some(Ipv4Addr::LOCALHOST) } else { six.to_ipv4_mapped() };
                let four = if six.is_unspecified() { Some(Ipv4Addr::UNSPECIFIED) } else { four };
                Some((four?.into(), port))
            }
            _ => None,
        }
    }

    /// Connection parameters, and whether they are meant.
    pub fn terms(&self, at: usize) -> (Terms, bool) {
        let after = at + 8 + PRIVATE;
        let terms = Terms {
            qp_num: self.u32(at),
            qkey: self.u32(at + 4),
            private: self.bytes(at + 8, usize::from(self.u8(after))),
            srq: self.u8(after + 1),
            responder_resources: self.u8(after + 2),
            initiator_depth: self.u8(after + 3),
            flow_control: self.u8(after + 4),
            retry_count: self.u8(after + 5),
            rnr_retry_count: self.u8(after + 6),
            psn: 0,
        };
        (terms, self.u8(after + 7) != 0)
    }
}

/// What one end of a connection says of itself.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Terms {
    pub qp_num: u32,
    pub qkey: u32,
    pub psn: u32,
    pub srq: u8,
    pub responder_resources: u8,
    pub initiator_depth: u8,
    pub flow_control: u8,
    pub retry_count: u8,
    pub rnr_retry_count: u8,
    pub private: Vec<u8>,
}

/// Where datagrams go: `struct ib_uverbs_ah_attr`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct AddressVector {
    pub gid: [u8; 16],
    pub dlid: u16,
    pub sgid_index: u8,
    /// A GRH is sent along.
    pub global: bool,
}

impl AddressVector {
    pub fn bytes(&self) -> [u8; 32] {
        let mut bytes = [0; 32];
        bytes[..16].copy_from_slice(&self.gid);
        bytes[20] = self.sgid_index;
        bytes[21] = 64;
        bytes[24..26].copy_from_slice(&self.dlid.to_ne_bytes());
        (bytes[29], bytes[30]) = (u8::from(self.global), 1);
        bytes
    }
}

/// What an event carries.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) enum Param {
    #[default]
    Nothing,
    Connection(Terms),
    Datagram(Terms, AddressVector),
}

/// Private data as it arrives: what there was, filled up to what the message has room for.
fn private(of: &Terms, room: usize) -> ([u8; PRIVATE], u8) {
    let mut bytes = [0; PRIVATE];
    let length = of.private.len().min(PRIVATE);
    bytes[..length].copy_from_slice(&of.private[..length]);
    (bytes, room.max(length).min(PRIVATE - 1) as u8)
}

/// An event: `struct rdma_ucm_event_resp`. `room` is that for private data in the message that brought it.
pub(crate) fn event((uid, id): (u64, u32), (kind, status): (u32, i32), (param, room): (&Param, usize)) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(336);
    bytes.extend(uid.to_ne_bytes());
    bytes.extend([id, kind, status as u32].iter().flat_map(|word| word.to_ne_bytes()));
    match param {
        Param::Nothing => {}
        Param::Connection(terms) => {
            let (data, length) = private(terms, room);
            bytes.extend([terms.qp_num, terms.qkey].iter().flat_map(|word| word.to_ne_bytes()));
            bytes.extend(data);
            bytes.extend([
                length,
                terms.srq,
                terms.responder_resources,
                terms.initiator_depth,
                terms.flow_control,
                terms.retry_count,
                terms.rnr_retry_count,
                1,
            ]);
        }
        Param::Datagram(terms, vector) => {
            let (data, length) = private(terms, room);
            bytes.extend([terms.qp_num, terms.qkey].iter().flat_map(|word| word.to_ne_bytes()));
            bytes.extend(vector.bytes());
            bytes.extend(data);
            bytes.push(length);
        }
    }
    bytes.resize(336, 0);
    bytes
}

fn socket_address((host, port): (u32, u16)) -> [u8; ADDRESS] {
    let mut bytes = [0; ADDRESS];
    bytes[..2].copy_from_slice(&(libc::AF_INET as u16).to_ne_bytes());
    bytes[2..4].copy_from_slice(&port.to_be_bytes());
    bytes[4..8].copy_from_slice(&host.to_be_bytes());
    bytes
}

/// A path between two ports: `struct ib_user_path_rec`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Path {
    pub from: ([u8; 16], u16),
    pub to: ([u8; 16], u16),
    /// The code of the MTU.
    pub mtu: u32,
    pub life_time: u8,
}

impl Path {
    fn bytes(&self) -> [u8; 64] {
        let mut bytes = [0; 64];
        bytes[..16].copy_from_slice(&self.to.0);
        bytes[16..32].copy_from_slice(&self.from.0);
        bytes[32..34].copy_from_slice(&self.to.1.to_be_bytes());
        bytes[34..36].copy_from_slice(&self.from.1.to_be_bytes());
        bytes[44..48].copy_from_slice(&1_u32.to_ne_bytes());
        bytes[48..52].copy_from_slice(&self.mtu.to_ne_bytes());
        bytes[52..54].copy_from_slice(&0xffff_u16.to_be_bytes());
        (bytes[54], bytes[56]) = (64, 1);
        // Exactly this MTU, rate and life time.
        (bytes[58], bytes[59], bytes[60], bytes[61], bytes[62]) = (2, 2, 0, 2, self.life_time);
        bytes
    }
}

/// What an identifier knows of its addresses: `struct rdma_ucm_query_route_resp`.
pub(crate) fn route(guid: Option<u64>, path: Option<Path>, from: (u32, u16), to: (u32, u16)) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(208);
    bytes.extend(guid.unwrap_or(0).to_be_bytes());
    bytes.extend(path.map_or([0; 64], |path| path.bytes()));
    bytes.extend([0; 64]);
    bytes.extend(socket_address(from));
    bytes.extend(socket_address(to));
    bytes.extend(u32::from(path.is_some()).to_ne_bytes());
    bytes.extend([u8::from(guid.is_some()), 0, 0, 0]);
    // Which adapter it is, its GUID says.
    bytes.extend(u32::MAX.to_ne_bytes());
    bytes.extend([0; 4]);
    bytes
}

/// Attributes for a queue pair: `struct ib_uverbs_qp_attr`.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct QpAttributes {
    pub mask: u32,
    pub state: u32,
    pub mtu: u32,
    pub qkey: u32,
    pub rq_psn: u32,
    pub sq_psn: u32,
    pub dest_qp_num: u32,
    pub access: u32,
    pub vector: AddressVector,
    pub max_rd_atomic: u8,
    pub max_dest_rd_atomic: u8,
    pub timeout: u8,
    pub retry_cnt: u8,
    pub rnr_retry: u8,
}

impl QpAttributes {
    pub fn bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(144);
        let words = [self.mask, self.state, 0, self.mtu, 0, self.qkey, self.rq_psn, self.sq_psn, self.dest_qp_num, self.access];
        bytes.extend(words.iter().flat_map(|word| word.to_ne_bytes()));
        bytes.extend(self.vector.bytes());
        // No other path, no capacities, no keys of partitions but the first.
        bytes.extend([0; 32 + 5 * 4 + 4 + 2]);
        bytes.extend([self.max_rd_atomic, self.max_dest_rd_atomic, 0, 1, self.timeout, self.retry_cnt, self.rnr_retry]);
        bytes.resize(144, 0);
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_read_where_the_kernel_reads_it() {
        let mut connect = vec![6, 0, 0, 0, 32, 1, 0, 0];
        connect.extend(7_u32.to_ne_bytes());
        connect.extend([0; 4]);
        connect.extend([9; 4]);
        connect.extend([0; PRIVATE - 4]);
        connect.extend([4, 0, 16, 8, 0, 7, 6, 1]);
        connect.extend(3_u32.to_ne_bytes());
        let command = Command::read(&connect).expect("a command");
        let (terms, valid) = command.terms(0);
        assert_eq!((command.call, command.id(), valid), (Call::Connect, 3, true));
        assert_eq!((terms.qp_num, terms.private.as_slice()), (7, &[9, 9, 9, 9][..]));
        assert_eq!((terms.responder_resources, terms.initiator_depth, terms.retry_count, terms.rnr_retry_count), (16, 8, 7, 6));
        assert_eq!(Command::read(&[20, 0, 0, 0, 0, 0, 0, 0]).err(), Some(libc::ENOSYS));
        assert_eq!(Command::read(&[1, 2]).err(), Some(libc::EINVAL));
    }

    #[test]
    fn answers_have_the_size_of_the_kernels() {
        assert_eq!(event((1, 2), (9, 0), (&Param::Nothing, 0)).len(), 336);
        assert_eq!(route(None, None, (0, 0), (0, 0)).len(), 208);
        assert_eq!(QpAttributes::default().bytes().len(), 144);
    }
}
