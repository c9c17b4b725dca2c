//! The adapter of a node: the RDMA NIC, the kernel's interface on its port, and the contexts of PSM2, as one thing to the engine.
//!
//! Modelled: packets go to whom they are for; what leaves is taken from queue pairs first, then from PSM2, then from the kernel;
//! what each writes for its programs is told by queues whose numbers tell them apart.
//! Not modelled: time, as in `fabriscope_verbs`; the engine calls what it calls there.

mod hfi;
mod kernel;

use fabriscope_psm2 as psm2;
use fabriscope_tcp::kernel as sockets;
use fabriscope_units::Time;
use fabriscope_verbs::{Body, CqId, ExtHeaders, Nic, NicConfig, Packet, QpNum, Received, Transmit, Wc, WqeIndex};

use hfi::{Hfi, is_foreign_queue};
pub use hfi::{cq_of, is_adapter_queue, queue_pair_of};
use kernel::{DESCRIPTORS, Kernel};

/// What an adapter is made with.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct AdapterConfig {
    /// Its RDMA NIC.
    pub rnic: NicConfig,
    /// The kernel's interface on its port, where programs open sockets.
    pub ip: Option<sockets::Settings>,
    /// Its contexts and engines for PSM2, if it is a host fabric interface.
    pub hfi: Option<psm2::AdapterSettings>,
}

/// An adapter.
pub struct Adapter {
    /// Its queue pairs.
    pub rnic: Nic,
    kernel: Kernel,
    hfi: Hfi,
}

impl Adapter {
    /// An adapter without objects.
    #[must_use]
    pub fn new(config: AdapterConfig) -> Adapter {
        let lid = config.rnic.lid;
        Adapter { rnic: Nic::new(config.rnic), kernel: Kernel::new(lid, config.ip), hfi: Hfi::new(lid, config.hfi) }
    }

    /// The kernel's interface on the port, made when it is first asked for; `None` where the port carries no IP.
    pub fn sockets(&mut self) -> Option<&mut sockets::Interface> {
        self.kernel.open()
    }
    /// The same, if it is in use.
    #[must_use]
    pub fn sockets_in_use(&self) -> Option<&sockets::Interface> {
        self.kernel.used()
    }
    /// The contexts and engines for PSM2; `None` where the adapter has none.
    pub fn psm2(&mut self) -> Option<&mut psm2::Adapter> {
        self.hfi.adapter()
    }
    /// When what a program waits for at a queue becomes visible, if it was delivered.
    #[must_use]
    pub fn cq_next_visible(&self, cq: CqId) -> Option<Time> {
        if is_foreign_queue(cq) { self.hfi.next_visible(cq) } else { self.rnic.cq_next_visible(cq) }
    }
}

/// Called by the engine.
impl Adapter {
    /// Requests up to and including `through` may be sent: the adapter saw the doorbell, or the store, and has them.
    pub fn doorbell(&mut self, now: Time, qp: QpNum, through: WqeIndex) {
        if is_adapter_queue(qp) {
            self.hfi.arrived(qp, through);
        } else if qp == QpNum::TRIGGERED {
            self.rnic.arm(now, through);
        } else {
            self.rnic.doorbell(now, qp, through);
        }
    }
    /// The next packet to build and send; `None` when there is none or windows are closed.
    #[inline]
    pub fn poll_transmit(&mut self, now: Time, ext_headers: &mut ExtHeaders) -> Option<Transmit> {
        let transmit = self.rnic.poll_transmit(now, ext_headers);
        if transmit.is_some() { transmit } else { self.poll_foreign(now, ext_headers) }
    }
    /// The same where packets of some service levels, the bits of `closed`, may not be built now.
    pub fn poll_transmit_among(&mut self, now: Time, ext_headers: &mut ExtHeaders, closed: u16) -> Option<Transmit> {
        let transmit = self.rnic.poll_transmit_among(now, ext_headers, closed);
        if transmit.is_some() { transmit } else { self.poll_foreign(now, ext_headers) }
    }
    #[inline]
    fn poll_foreign(&mut self, now: Time, ext_headers: &mut ExtHeaders) -> Option<Transmit> {
        if self.hfi.is_there()
            && let Some(transmit) = self.hfi.poll(&mut self.rnic, ext_headers)
        {
            return Some(transmit);
        }
        if self.kernel.used().is_some() { self.kernel.poll(now, ext_headers) } else { None }
    }
    /// A packet arrived. Its extension headers are taken from `ext_headers`.
    #[inline]
    pub fn handle_packet(&mut self, now: Time, packet: &Packet, ext_headers: &mut ExtHeaders) -> Received {
        match packet.body() {
            Body::Tcp { .. } => self.kernel.handle(packet, ext_headers),
            Body::Psm2 { .. } => self.hfi.handle(packet, ext_headers),
            Body::Ib { .. } | Body::Iwarp { .. } => self.rnic.handle_packet(now, packet, ext_headers),
        }
    }
    /// The entry is in its queue and visible from `visible` on. True if it raises a completion event.
    #[inline]
    pub fn deliver(&mut self, visible: Time, cq: CqId, wc: Wc) -> bool {
        if !is_foreign_queue(cq) {
            return self.rnic.deliver(visible, cq, wc);
        }
        match self.kernel.used_mut().filter(|_| cq == DESCRIPTORS) {
            Some(interface) => interface.landed(visible),
            None => self.hfi.landed(visible, cq),
        }
        false
    }
    /// A time not later than the next timeout; an early `handle_timeout` is harmless.
    #[inline]
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Time> {
        let kernel = self.kernel.used().and_then(sockets::Interface::poll_timeout);
        self.rnic.poll_timeout().into_iter().chain(kernel).min()
    }
    /// Handles the timeouts due by `now`.
    pub fn handle_timeout(&mut self, now: Time) {
        if let Some(interface) = self.kernel.used_mut() {
            interface.handle_timeout(now);
        }
        self.rnic.handle_timeout(now);
    }
    /// A time at which a socket became ready that a program may wait for.
    pub fn poll_wake(&mut self) -> Option<Time> {
        self.kernel.used_mut()?.poll_wake()
    }
}
