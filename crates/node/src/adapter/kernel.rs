//! The kernel's interface on the port of an adapter: packets of sockets beside those of queue pairs.
//!
//! Modelled: packets of TCP and UDP built and received by the adapter like any others; each one that is in memory is told to the kernel
//! (`fabriscope_tcp::kernel`).
//! Not modelled: what else the kernel sends (ARP, management).

use fabriscope_tcp::kernel::{Carried, Interface, Settings};
use fabriscope_units::{Bytes, Time};
use fabriscope_verbs::{
    Body, CqId, Ext, ExtHeaders, ExtId, Foreign, Lid, MemoryId, Packet, PacketFlags, QpNum, Received, Transmit, Wc, WcOpcode, WcStatus,
    WqeIndex,
};

/// The interface of a port, made when it is first used.
#[derive(Debug)]
pub(crate) struct Kernel {
    address: u32,
    settings: Option<Box<Settings>>,
    interface: Option<Box<Interface>>,
}

impl Kernel {
    pub(crate) fn new(lid: Lid, settings: Option<Settings>) -> Kernel {
        Kernel { address: lid.0, settings: settings.map(Box::new), interface: None }
    }
    /// The interface, if the port carries IP.
    pub(crate) fn open(&mut self) -> Option<&mut Interface> {
        let settings = self.settings.as_deref()?;
        Some(self.interface.get_or_insert_with(|| Box::new(Interface::new(self.address, settings.clone()))))
    }
    /// The interface, if it is in use.
    #[inline]
    pub(crate) fn used(&self) -> Option<&Interface> {
        self.interface.as_deref()
    }
    #[inline]
    pub(crate) fn used_mut(&mut self) -> Option<&mut Interface> {
        self.interface.as_deref_mut()
    }

    /// The next packet.
    #[cold]
    pub(crate) fn poll(&mut self, now: Time, ext_headers: &mut ExtHeaders) -> Option<Transmit> {
        let address = self.address;
        let out = self.interface.as_mut()?.poll_packet(now)?;
        let foreign = out.carried.map(|carried| match carried {
            Carried::Tcp(segment) if out.words.is_empty() => Foreign::Tcp(Box::new(segment)),
            Carried::Tcp(segment) => Foreign::TcpSaying(Box::new((segment, out.words))),
            Carried::Udp(datagram) => Foreign::Udp(Box::new(datagram)),
        });
        let ext = match foreign {
            Some(foreign) => ext_headers.alloc(Ext { slid: Lid(address), foreign, ..Ext::default() }),
            None => ExtId::NONE,
        };
        let port = out.carried.map_or(0, |carried| carried.ports().1);
        let retransmission = matches!(&out.carried, Some(Carried::Tcp(segment)) if segment.retransmission);
        let packet = Packet {
            dest: Lid(out.remote),
            ext,
            wire_bytes: out.wire as u16,
            payload: out.fetch as u16,
            entropy: out.entropy,
            ..Packet::of(Body::Tcp { port })
        };
        Some(Transmit {
            packet,
            qp: QpNum(0),
            fetch: Bytes(out.fetch.into()),
            place: MemoryId::HOST,
            responder: false,
            read_response: false,
            starts_message: out.first,
            ends_message: out.last,
            inline: false,
            retransmission,
            wqe: WqeIndex(0),
            wr_id: 0,
            message_bytes: out.fetch,
        })
    }

    /// A packet came; the completion it asks for tells when it is in memory.
    #[cold]
    pub(crate) fn handle(&mut self, packet: &Packet, ext_headers: &mut ExtHeaders) -> Received {
        let mut received = Received { write: Bytes(packet.payload.into()), ..Received::default() };
        let Some(ext) = ext_headers.take(packet.ext) else { return received };
        let carried = match &ext.foreign {
            Foreign::Udp(datagram) => Some(Carried::Udp(**datagram)),
            _ => ext.segment().map(|segment| Carried::Tcp(*segment)),
        };
        let (Some(interface), Some(carried)) = (self.open(), carried) else {
            return Received { dropped: true, ..Received::default() };
        };
        if let Foreign::TcpSaying(saying) = &ext.foreign {
            interface.handle_words(ext.slid.0, &saying.0, &saying.1);
        }
        interface.handle_packet(ext.slid.0, carried, packet.flags.contains(PacketFlags::ECN_CE));
        received.completion = Some((DESCRIPTORS, descriptor(packet)));
        received
    }
}

/// The adapter's descriptor of a packet, which it writes behind it.
fn descriptor(packet: &Packet) -> Wc {
    let wc = Wc::of(QpNum(0), 0, WcStatus::Success, WcOpcode::Recv, WqeIndex(0));
    Wc { byte_len: packet.payload.into(), ..wc }
}

/// The receive queue of the kernel's driver: no completion queue of verbs has this number.
pub(crate) const DESCRIPTORS: CqId = CqId(u32::MAX);
