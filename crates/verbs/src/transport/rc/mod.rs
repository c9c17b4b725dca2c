//! Reliable connections: what a requester sends and hears, what a responder takes and answers.
//!
//! Source: IBA vol. 1 §9.7 (reliable service). XRC, DC and RD are the same with an object that their requests name.

pub(crate) mod requester;
pub(crate) mod responder;
