//! How client and server of a tool find each other: out of band, as a user types the server's address.

use std::collections::BTreeMap;

use fabriscope_node::{Process, ProgramError, Record, Socket};
use fabriscope_tcp::kernel::SocketOptions;
use fabriscope_verbs::Lid;

/// What the ranks of a job share; clones are the same.
#[derive(Debug, Clone, Default)]
pub(super) struct Rendezvous(Record<BTreeMap<u16, Lid>>);

impl Rendezvous {
    /// The server's end of a connection to `port`.
    pub async fn serve(&self, process: &Process, port: u16, options: SocketOptions) -> Result<Socket, ProgramError> {
        process.listen(0, port, options)?;
        self.0.lock().insert(port, process.lid(0));
        process.barrier().await;
        let socket = process.accept(0, port).await?;
        process.barrier().await;
        Ok(socket)
    }
    /// Where the server of `port` is, for sockets without connections.
    pub async fn find(&self, process: &Process, port: u16, client: bool) -> Result<Lid, ProgramError> {
        if !client {
            self.0.lock().insert(port, process.lid(0));
        }
        process.barrier().await;
        self.server(port)
    }
    fn server(&self, port: u16) -> Result<Lid, ProgramError> {
        self.0.lock().get(&port).copied().ok_or_else(|| ProgramError(format!("no server listens on port {port}")))
    }
    /// The client's end.
    pub async fn call(&self, process: &Process, port: u16, options: SocketOptions) -> Result<Socket, ProgramError> {
        process.barrier().await;
        let server = self.server(port)?;
        let socket = process.connect(0, server, port, options).await?;
        process.barrier().await;
        Ok(socket)
    }
}
