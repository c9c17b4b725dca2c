//! How client and server of `netperf` exchange messages: a connection, or two sockets of UDP.

use fabriscope_node::{DatagramSocket, Process, ProgramError, Socket};
use fabriscope_tcp::kernel::SocketOptions;
use fabriscope_units::{Span, Time};
use fabriscope_verbs::Lid;

use super::super::rendezvous::Rendezvous;
use super::{PORT, Test};

/// One end.
#[derive(Debug, Clone, Copy)]
pub(super) enum Link {
    Stream(Socket),
    Datagrams { socket: DatagramSocket, peer: Option<(Lid, u16)> },
}

impl Link {
    /// Opens it; both ends return at the same time.
    pub async fn open(
        process: &Process,
        meeting: &Rendezvous,
        options: SocketOptions,
        test: Test,
        client: bool,
    ) -> Result<Link, ProgramError> {
        if test == Test::TcpRequests {
            return Ok(Link::Stream(match client {
                true => meeting.call(process, PORT, options).await?,
                false => meeting.serve(process, PORT, options).await?,
            }));
        }
        let server = meeting.find(process, PORT, client).await?;
        let socket = process.bind(0, if client { None } else { Some(PORT) }, options.buffers)?;
        process.barrier().await;
        Ok(Link::Datagrams { socket, peer: client.then_some((server, PORT)) })
    }
    /// Sends a message to the other end; of UDP the server knows it from what came.
    pub async fn send(&self, process: &Process, bytes: u64) -> Result<(), ProgramError> {
        match *self {
            Link::Stream(socket) => Ok(process.write(socket, bytes).await?),
            Link::Datagrams { socket, peer: Some(peer) } => Ok(process.send_to(socket, peer, bytes as u32, None).await?),
            Link::Datagrams { peer: None, .. } => Err(ProgramError("nobody to answer".to_owned())),
        }
    }
    /// Waits for a message, of UDP until `until`: whether it came.
    pub async fn receive(&mut self, process: &Process, bytes: u64, until: Time) -> Result<bool, ProgramError> {
        match self {
            Link::Stream(socket) => {
                process.read_exactly(*socket, bytes).await?;
                Ok(true)
            }
            Link::Datagrams { socket, peer } => match process.receive_from(*socket, until).await? {
                Some(message) => {
                    *peer = Some((Lid(message.from), message.port));
                    Ok(true)
                }
                None => Ok(false),
            },
        }
    }
    /// Room in the send buffer of a socket of UDP.
    pub fn send_buffer(&self, process: &Process) -> Result<u64, ProgramError> {
        match *self {
            Link::Stream(_) => Ok(0),
            Link::Datagrams { socket, .. } => Ok(process.datagram_buffer(socket)?.0),
        }
    }
    /// What the program and interrupts for it have taken of cores so far.
    pub fn core_time(&self, process: &Process) -> Result<Span, ProgramError> {
        let interrupts = match *self {
            Link::Stream(socket) => process.interrupt_time(socket)?,
            Link::Datagrams { socket, .. } => process.datagram_interrupt_time(socket)?,
        };
        Ok(process.core_time() + interrupts)
    }
}
