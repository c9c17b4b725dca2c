//! Messages in the memory of a GPU that go through host memory, window by window.
//!
//! Source: opa-psm2 with PSM_CUDA, `ips_proto_expected.c` and `ips_proto_mq.c`: without GPUDirect every message of a GPU is a rendezvous;
//! windows are copied to host buffers before they are granted (PSM2_CUDA_PREFETCH_LIMIT), and from host buffers when they are placed.
//! Modelled: copies ahead of the grants, grants that wait for their copies, requests that are done when the last window is copied;
//! eager messages that are moved into the memory of a GPU at the end.
//! Not modelled: a limit on host buffers at the receiver beyond its TID flows.
//!
//! Who drives the library carries copies out: [`Endpoint::poll_copy`] asks for one, [`Endpoint::copied`] says that it has ended. Copies
//! of a request end in the order in which they were asked for.

use crate::adapter::Adapter;
use crate::cpu::Cpu;
use crate::request::Buffer;
use crate::state::{Copy, Endpoint, Step, Unacknowledged};
use fabriscope_wire::psm2::RequestId;

impl Endpoint {
    /// The next copy to carry out.
    pub fn poll_copy(&mut self) -> Option<Copy> {
        self.copies.pop_front()
    }

    /// `copy` has ended.
    pub fn copied(&mut self, adapter: &mut Adapter, cpu: &mut dyn Cpu, copy: Copy) {
        match copy.step {
            Step::Out => {
                let request = self.requests.at(copy.request);
                let index = request.copied;
                request.copied += 1;
                if let Some((peer, id)) = self.parked.remove(&(copy.request, index)) {
                    self.flush(adapter, cpu, Unacknowledged::Grant(peer, id));
                }
            }
            Step::In => self.requests.moved(copy.request, copy.length),
            Step::Eager => self.requests.at(copy.request).done = true,
        }
    }

    /// Asks for the copies of the first windows of a send, before anybody has granted them.
    pub(crate) fn prefetch(&mut self, id: RequestId) {
        self.ask(id, self.library.prefetch);
    }

    /// Whether a window of a send that has been granted must wait for its copy: then its index.
    pub(crate) fn must_wait(&mut self, id: RequestId, offset: u32) -> Option<u32> {
        let index = offset / self.library.parameters.window.max(1);
        self.ask(id, index + 1);
        let request = self.requests.at(id);
        (request.buffer == Buffer::Staged && index >= request.copied).then_some(index)
    }

    /// Asks for the copies of the first `windows` windows.
    fn ask(&mut self, id: RequestId, windows: u32) {
        let window = self.library.parameters.window.max(1);
        let request = self.requests.at(id);
        if request.buffer != Buffer::Staged {
            return;
        }
        while request.asked < request.size.div_ceil(window).min(windows) {
            let length = window.min(request.size - request.asked * window);
            request.asked += 1;
            self.copies.push_back(Copy { request: id, length, step: Step::Out });
        }
    }
}
