//! An operating system as TCP sees it: what the core pays, how packets wait for interrupts, the defaults of sockets.
//!
//! The mechanisms are those of `fabriscope_tcp::kernel`; here are the numbers, with their sources.

use fabriscope_tcp::kernel::KernelParameters;
use fabriscope_tcp::{Algorithm, kernel_parameters};
use fabriscope_units::{Bytes, Rate, Span};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::spliced::part;
use super::{Kind, Part, SwitchingCosts};
use crate::error::Problem;

kernel_parameters! {
    part {
        /// One kernel with its settings.
        pub struct Kernel {
            /// The name others refer to it by; equals the name of its file.
            pub name: String,
            /// One line that tells a person what it is.
            pub title: String,
            /// What a reader should know besides.
            #[serde(default, skip_serializing_if = "String::is_empty")]
            pub notes: String,
            /// What its cores pay that switch packets of virtual machines.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            pub virtual_switch: Option<SwitchingCosts>,
        } parameters -> KernelParameters
    }
}

impl Part for Kernel {
    const KIND: Kind = Kind::Kernel;
    fn name(&self) -> &str {
        &self.name
    }
    fn title(&self) -> &str {
        &self.title
    }
    fn check(&self) -> Result<(), Problem> {
        for (key, bytes) in
            [("send_buffer", *self.send_buffer), ("receive_buffer", *self.receive_buffer), ("datagram_buffer", *self.datagram_buffer)]
        {
            if bytes < LEAST_BUFFER {
                let message = format!("a `{key}` of {bytes} closes the window: nothing could be sent");
                return Err(Problem::at(&[key, "value"], message, format!("use at least \"{LEAST_BUFFER}\"")));
            }
        }
        for (key, count) in [("interrupt_frames", *self.interrupt_frames), ("initial_window", *self.initial_window)] {
            if count == 0 {
                return Err(Problem::at(&[key, "value"], format!("`{key}` is zero"), "use at least 1"));
            }
        }
        if let Some(costs) = &self.virtual_switch {
            costs.check(&["virtual_switch"])?;
        }
        if self.checksum_rate.as_bps() == 0 {
            return Err(Problem::at(
                &["checksum_rate", "value"],
                "`checksum_rate` is zero: a checksum would never end",
                "use the rate of one core",
            ));
        }
        if self.congestion == Algorithm::Dctcp && !self.ecn {
            return Err(Problem::at(&["congestion"], "DCTCP without marks", "add ecn = true, or choose \"cubic\""));
        }
        Ok(())
    }
}

/// Two of the largest packets of IP over InfiniBand.
const LEAST_BUFFER: Bytes = Bytes::from_kib(128);
