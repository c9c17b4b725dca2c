//! The page of Fabriscope: choose a cluster, a tool and parts; see curves, stages and links, and share the address.
//!
//! A question is the query of an address ([`question`]). The server ([`server`]) has each answered by a process of its own ([`worker`]),
//! under limits of memory and time ([`limits`]), as many at once as allowed ([`children`]); the answer ([`answer`]) is made of the outcomes that the
//! command line prints. Nothing here writes files or keeps state beyond answers at hand.
//! Modelled: one reader or a group on one machine, without accounts. Not modelled: a service for strangers.

pub mod answer;
pub mod change;
pub mod children;
mod kept;
pub mod limits;
pub mod page;
pub mod question;
pub mod refused;
pub mod server;
pub mod worker;
