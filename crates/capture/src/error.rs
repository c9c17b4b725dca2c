//! What can be wrong with a capture file, and with traffic made of it.

use fabriscope_schedule::ScheduleError;

/// Why a file cannot be read as a capture of RoCE version 2. Places are bytes from the beginning of the file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, miette::Diagnostic)]
#[non_exhaustive]
pub enum CaptureError {
    /// The first bytes are those of another kind of file.
    #[error("offset 0: it begins with {found}, which is no capture")]
    #[diagnostic(help("write one with tcpdump -w, dumpcap -w or --pcap"))]
    NotACapture {
        /// The first bytes in hexadecimal, or what they are known to be.
        found: String,
    },
    /// The file ends in the middle of something.
    #[error("offset {offset}: {what} needs {needed} bytes and {present} are left")]
    #[diagnostic(help("the file was cut, copy it again"))]
    Cut {
        /// Where it begins.
        offset: usize,
        /// What is cut.
        what: &'static str,
        /// Bytes it needs.
        needed: usize,
        /// Bytes there are.
        present: usize,
    },
    /// A length that cannot be.
    #[error("offset {offset}: {what} of {length} bytes")]
    #[diagnostic(help("the file is damaged from here on"))]
    Length {
        /// Where it stands.
        offset: usize,
        /// What it is the length of.
        what: &'static str,
        /// The length.
        length: u64,
    },
    /// A packet of an interface that was not described.
    #[error("offset {offset}: a packet of interface {interface}, but {known} are described")]
    #[diagnostic(help("the file is damaged from here on"))]
    NoSuchInterface {
        /// Where the packet stands.
        offset: usize,
        /// Its interface.
        interface: u32,
        /// Interfaces described before it.
        known: usize,
    },
    /// Frames of another kind than Ethernet.
    #[error("offset {offset}: the frames are {found}, not Ethernet")]
    #[diagnostic(help("only captures of RoCE version 2 can be read as traffic"))]
    NotEthernet {
        /// Where that is said.
        offset: usize,
        /// Name or number of the link type.
        found: String,
    },
    /// A packet for the port of RoCE that is not RoCE.
    #[error("offset {offset}: a packet for UDP port 4791 that is not RoCE version 2: {cause}")]
    #[diagnostic(forward(cause))]
    NotRoce {
        /// Where the packet stands.
        offset: usize,
        /// What is wrong with it.
        cause: fabriscope_wire::WireError,
    },
    /// Nothing to read.
    #[error("{packets} packets, none of them RoCE version 2")]
    #[diagnostic(help("capture with the filter `udp port 4791`, on a port that sees RDMA traffic"))]
    Nothing {
        /// Packets of other kinds.
        packets: usize,
    },
}

/// Why the messages of a capture do not make a workload.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, miette::Diagnostic)]
#[non_exhaustive]
pub enum ReplayError {
    /// An address that the table of hosts does not have.
    #[error("{address} sends or receives, but `hosts` does not name it")]
    #[diagnostic(help("add it, or leave `hosts` out to count addresses as they appear"))]
    UnknownHost {
        /// The address.
        address: String,
    },
    /// More hosts than adapters.
    #[error("the capture has {hosts} hosts and the cluster {ranks} adapters")]
    #[diagnostic(help("use a larger cluster, or filter the capture"))]
    TooManyHosts {
        /// Hosts of the capture.
        hosts: usize,
        /// Adapters of the cluster.
        ranks: u32,
    },
    /// Too long for the clock.
    #[error("the capture goes on for {seconds} s, and {most} s can be run")]
    #[diagnostic(help("cut it: editcap -B TIME"))]
    TooLong {
        /// Its length.
        seconds: u64,
        /// The most.
        most: u64,
    },
    /// No message is complete.
    #[error("the capture holds {packets} RoCE packets but no message from its beginning to its end")]
    #[diagnostic(help("capture longer, or at the sender's port"))]
    NoMessage {
        /// Packets there are.
        packets: usize,
    },
    /// The schedule of the messages cannot be built.
    #[error(transparent)]
    #[diagnostic(transparent)]
    Schedule(#[from] ScheduleError),
}
