//! What all threads of clients and servers know, and where each of them is.

use fabriscope_catalog::RpcLibrary;
use fabriscope_node::Record;
use fabriscope_units::{Span, Time};

use crate::channel::{Contacts, Over, Terms};
use crate::message::Cost;
use crate::options::Settings;
use crate::pool::Pool;
use crate::stages::Moments;

/// A transport with the library that uses it.
#[derive(Debug, Clone)]
pub struct Stack {
    pub over: Over,
    pub library: RpcLibrary,
    pub terms: Terms,
    pub request: Cost,
    pub reply: Cost,
}

/// What a client's thread measured at one load.
#[derive(Debug, Clone, Default)]
pub struct Measured {
    /// Times of its calls.
    pub calls: Vec<Span>,
    /// Of all calls, by stage.
    pub stages: [Span; 7],
    /// When the first was due, and the last was over.
    pub begin: Option<Time>,
    pub end: Time,
}

/// What a program of the job is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// A thread of a server that reads and writes messages.
    Server { server: u32, thread: u32 },
    /// A thread of a client, by its number among all.
    Client { client: u32 },
    /// A core without a thread.
    Nobody,
}

/// The job.
#[derive(Debug)]
pub struct Job {
    pub settings: Settings,
    pub stacks: Vec<Stack>,
    pub nodes: u32,
    pub contacts: Contacts,
    /// The workers of each server.
    pub pools: Vec<Record<Pool>>,
    /// Moments of the requests of each client, by call and server.
    pub moments: Vec<Record<Vec<Moments>>>,
    /// What each client measured, by stack and load.
    pub measured: Vec<Record<Vec<Measured>>>,
}

impl Job {
    /// Programs of a node.
    #[must_use]
    pub fn per_node(settings: &Settings) -> u32 {
        settings.threads.max(settings.io_threads)
    }
    /// Threads of all clients.
    #[must_use]
    pub fn clients(settings: &Settings, nodes: u32) -> u32 {
        nodes.saturating_sub(settings.servers) * settings.threads
    }
    /// What the program of this number is.
    #[must_use]
    pub fn role(&self, rank: u32) -> Role {
        let s = &self.settings;
        let (node, thread) = (rank / Job::per_node(s), rank % Job::per_node(s));
        match node.checked_sub(s.servers) {
            None if thread < s.io_threads => Role::Server { server: node, thread },
            Some(node) if thread < s.threads => Role::Client { client: node * s.threads + thread },
            _ => Role::Nobody,
        }
    }
    /// The thread of a server that has the connection of a client.
    #[must_use]
    pub fn rank_of_server(&self, server: u32, client: u32) -> u32 {
        server * Job::per_node(&self.settings) + client % self.settings.io_threads
    }
    /// The program of a client's thread.
    #[must_use]
    pub fn rank_of_client(&self, client: u32) -> u32 {
        let s = &self.settings;
        (s.servers + client / s.threads) * Job::per_node(s) + client % s.threads
    }
    /// The clients of a server's thread.
    pub fn clients_of(&self, thread: u32) -> impl Iterator<Item = u32> {
        let step = self.settings.io_threads as usize;
        (thread..Job::clients(&self.settings, self.nodes)).step_by(step)
    }
}

/// A request or a reply; the client makes no more calls for now.
pub const REQUEST: u32 = 1;
pub const REPLY: u32 = 2;
pub const END: u32 = 3;
