//! The transports: how requests become packets and packets become completions.
//!
//! Source: IBA vol. 1 §9.2 (headers), §9.4 (operations), §9.7 (reliable), §9.8 (unreliable).
//! Modelled: RC, UC, UD, raw packets, and what XRC, DC and RD add to RC; segmentation is shared here, reassembly in `inbound`.
//! SRD and UET are in `rud`, iWARP is in `iwarp`.
//! Not modelled: –

pub(crate) mod dc;
pub(crate) mod inbound;
pub(crate) mod iwarp;
pub(crate) mod outbound;
pub(crate) mod raw;
pub(crate) mod rc;
pub(crate) mod rud;
pub(crate) mod uc;
pub(crate) mod ud;
