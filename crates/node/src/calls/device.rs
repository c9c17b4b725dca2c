//! Calls of a program to its GPUs: copies, their order, and stores and loads of its core.

use crate::copies::CopyId;
use crate::device::{Devices, Mapped, Memory, Mover, PAGE};
use crate::process::Process;
use crate::program_error::ProgramError;
use crate::work::CALLING;
use fabriscope_units::{Bytes, Time};

impl Process {
    /// The GPUs of the node.
    ///
    /// # Errors
    /// It has none.
    pub fn devices(&self) -> Result<&Devices, ProgramError> {
        self.shared_devices().ok_or_else(|| ProgramError(format!("node {} has no GPUs", self.node())))
    }

    /// Copies `bytes` and waits for the end (cudaMemcpy): the call, then the engine's way through the machine.
    ///
    /// # Errors
    /// As [`Devices::start`].
    pub async fn memcpy(&self, from: Memory, to: Memory, bytes: Bytes) -> Result<(), ProgramError> {
        let (begun, call) = (self.now(), self.devices()?.costs().calls.copy);
        self.compute(call);
        self.catch_up().await;
        let id = self.devices()?.start(self.now(), from, to, bytes)?;
        self.wait_copy(id).await?;
        self.note_work(begun, &[(CALLING, call)], || self.describe_copy(from, to));
        Ok(())
    }

    /// The same where the host memory is not pinned: the core copies chunks into pinned memory, or out of it, while an engine copies the
    /// neighbours; pages of longer copies are pinned first.
    ///
    /// # Errors
    /// As [`Devices::start`].
    pub async fn memcpy_pageable(&self, from: Memory, to: Memory, bytes: Bytes) -> Result<(), ProgramError> {
        let (begun, costs) = (self.now(), *self.devices()?.costs());
        let Some(pageable) = costs.pageable else { return self.memcpy(from, to, bytes).await };
        if pageable.staged_limit.is_some_and(|limit| bytes > limit) {
            self.compute(pageable.page * bytes.0.div_ceil(PAGE));
            return self.memcpy(from, to, bytes).await;
        }
        self.compute(costs.calls.copy);
        let up = matches!(from, Memory::Host(_));
        let (mut left, mut before) = (bytes, None);
        while left > Bytes::ZERO {
            let part = Bytes(left.0.min(pageable.chunk.0));
            left = Bytes(left.0 - part.0);
            if up {
                self.copy(part, Bytes(u64::MAX));
            }
            self.catch_up().await;
            let id = self.devices()?.start(self.now(), from, to, part)?;
            if let Some((earlier, length)) = before.replace((id, part)) {
                self.wait_copy(earlier).await?;
                if !up {
                    self.copy(length, Bytes(u64::MAX));
                }
            }
        }
        if let Some((last, length)) = before {
            self.wait_copy(last).await?;
            if !up {
                self.copy(length, Bytes(u64::MAX));
            }
        }
        self.note_work(begun, &[(CALLING, costs.calls.copy)], || format!("{}, through pinned memory", self.describe_copy(from, to)));
        Ok(())
    }

    /// The same as [`memcpy`](Self::memcpy) within a call that does not give the core away: what other cores ask for later does not slow it down.
    ///
    /// # Errors
    /// As [`Devices::start`].
    pub fn memcpy_at_once(&self, from: Memory, to: Memory, bytes: Bytes) -> Result<(), ProgramError> {
        let devices = self.devices()?;
        let (begun, call) = (self.now(), devices.costs().calls.copy);
        self.compute(call);
        let id = devices.start(self.now(), from, to, bytes)?;
        let end = devices.end(self.engine_time(), id).ok_or_else(|| ProgramError("a copy that never ends".to_owned()))?;
        devices.forget(id);
        self.compute(end.since(self.now()));
        self.note_work(begun, &[(CALLING, call)], || self.describe_copy(from, to));
        Ok(())
    }

    /// A kernel goes through as many bytes of the memory of a GPU as a copy of `bytes` would, while the core waits.
    ///
    /// # Errors
    /// As [`Devices::start_on`]; memory of the host.
    pub fn kernel_at_once(&self, memory: Memory, bytes: Bytes) -> Result<(), ProgramError> {
        let Memory::Device(gpu) = memory else {
            return Err(ProgramError("a kernel was asked to work in host memory; a core does that".to_owned()));
        };
        let devices = self.devices()?;
        self.compute(devices.costs().calls.kernel());
        let id = devices.start_on(self.now(), Mover::Kernel(gpu), memory, memory, bytes)?;
        let end = devices.end(self.engine_time(), id).ok_or_else(|| ProgramError("a kernel that never ends".to_owned()))?;
        devices.forget(id);
        self.compute(end.since(self.now()));
        Ok(())
    }

    /// As [`memcpy_async`](Self::memcpy_async), within a call that does not give the core away.
    ///
    /// # Errors
    /// As [`Devices::start`].
    pub fn begin_copy(&self, from: Memory, to: Memory, bytes: Bytes) -> Result<CopyId, ProgramError> {
        self.begin_copy_by(None, from, to, bytes)
    }

    /// The same by `mover` instead of the engine that [`Devices::start`] takes.
    ///
    /// # Errors
    /// As [`Devices::start`].
    pub fn begin_copy_by(&self, mover: Option<Mover>, from: Memory, to: Memory, bytes: Bytes) -> Result<CopyId, ProgramError> {
        let devices = self.devices()?;
        let (begun, calls) = (self.now(), &devices.costs().calls);
        self.compute(calls.copy_async);
        let asked = self.now();
        let at = asked + calls.copy_start;
        let id = match mover {
            None => devices.start(at, from, to, bytes)?,
            Some(mover) => devices.start_on(at, mover, from, to, bytes)?,
        };
        self.note_begun(id, (begun, asked, at), || self.describe_copy(from, to));
        self.compute(calls.event_record);
        self.expect_copy(id);
        Ok(id)
    }

    /// Has `bytes` copied and goes on (cudaMemcpyAsync). The copy can be waited for, and ends [`wait_any`](Self::wait_any).
    ///
    /// # Errors
    /// As [`Devices::start`].
    pub async fn memcpy_async(&self, from: Memory, to: Memory, bytes: Bytes) -> Result<CopyId, ProgramError> {
        self.catch_up().await;
        self.begin_copy(from, to, bytes)
    }

    /// Waits for a copy (cudaEventSynchronize).
    ///
    /// # Errors
    /// It never ends: something on its way carries nothing.
    pub async fn wait_copy(&self, id: CopyId) -> Result<(), ProgramError> {
        self.catch_up().await;
        loop {
            let end = self.devices()?.end(self.now(), id).ok_or_else(|| ProgramError("a copy that never ends".to_owned()))?;
            if end <= self.now() {
                self.note_ended(id, end);
                self.forget_copy(id);
                self.devices()?.forget(id);
                return Ok(());
            }
            self.sleep_until(end).await;
        }
    }

    /// Asks for every copy that was begun without waiting whether it has ended (cudaEventQuery); names those that have, once.
    pub async fn take_copies(&self) -> Vec<CopyId> {
        self.catch_up().await;
        let Some(devices) = self.shared_devices() else { return Vec::new() };
        let open = self.expected_copies();
        self.compute(devices.costs().calls.event_query * open.len() as u64);
        let now = self.now();
        let notice = devices.costs().calls.stream_synchronize;
        let ended = devices.ended(now, &open);
        for (id, end) in &ended {
            self.note_ended(*id, *end);
            self.compute(notice);
            self.forget_copy(*id);
            devices.forget(*id);
        }
        ended.into_iter().map(|(id, _)| id).collect()
    }

    /// When the first copy that was begun without waiting ends, as far as is known.
    #[must_use]
    pub fn next_copy(&self) -> Option<Time> {
        let devices = self.shared_devices()?;
        // Not beyond what the engine knows: later times are promises.
        devices.first_end(self.engine_time(), &self.expected_copies())
    }

    /// Stores `bytes` into a GPU's memory through the core's window (GDRCopy).
    ///
    /// # Errors
    /// There are no GPUs, or no core has a window on their memory.
    pub fn store_to_device(&self, bytes: Bytes) -> Result<(), ProgramError> {
        let begun = self.now();
        self.compute(self.window()?.store(bytes));
        self.note_work(begun, &[], || "stores of a core into the GPU (GDRCopy)".to_owned());
        Ok(())
    }

    /// Loads `bytes` from a GPU's memory through the core's window (GDRCopy).
    ///
    /// # Errors
    /// There are no GPUs, or no core has a window on their memory.
    pub fn load_from_device(&self, bytes: Bytes) -> Result<(), ProgramError> {
        let begun = self.now();
        self.compute(self.window()?.load(bytes));
        self.note_work(begun, &[], || "loads of a core from the GPU (GDRCopy)".to_owned());
        Ok(())
    }

    fn window(&self) -> Result<Mapped, ProgramError> {
        self.devices()?.costs().mapped.ok_or_else(|| ProgramError("no core has a window on the memory of the GPUs".to_owned()))
    }
}
