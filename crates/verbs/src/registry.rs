//! Every transport: the folder or file, the type in it that is a `Transport`, and the types of its queue pairs.
//!
//! A line here and its folder are all that a transport needs, where `fabriscope_wire` has the service that it carries. What the lines
//! become stands where it is used: [`QpType`](crate::QpType) in `service`, which knows no adapter, and the calls of the NIC in `transport`,
//! where the transports that come first are found first.

/// Hands the lines to the macro `made`. A queue pair's type is an end of a service; those in brackets are made by the NIC,
/// not by programs. Lines of the second block are there in tests only.
macro_rules! transports {
    ($made:ident) => {
        $made! {{
            rc::Rc {
                /// Reliable connection.
                Rc = connected(Service::Rc, Sends::Connection, true);
            }
            xrc::Xrc {
                /// The sending end of an extended reliable connection (`IBV_QPT_XRC_SEND`).
                XrcSend = ServiceEnd { name: Some("XRC_SEND"), ..connected(Service::Xrc, Sends::Everything, true) };
                /// The receiving end of an extended reliable connection, for all processes of a node (`IBV_QPT_XRC_RECV`).
                XrcRecv = ServiceEnd { name: Some("XRC_RECV"), ..connected(Service::Xrc, Sends::Nothing, true) };
            }
            rd::Rd {
                /// Reliable datagram: messages to any queue pair over the end-to-end context of its NIC.
                Rd = addressed(Service::Rd, Sends::Everything);
            } [
                /// An end-to-end context of RD, made by `create_eec`; programs post to RD queue pairs instead.
                Eec = ServiceEnd { name: Some("EEC"), connected: true, carries_all: true, ..connected(Service::Rd, Sends::Nothing, true) };
            ]
            dc::Dc {
                /// Initiator of dynamically connected transport: one connection at a time, to whichever target a request names.
                Dci = ServiceEnd { name: Some("DCI"), connected: false, reliable_connection: true, ..addressed(Service::Dc, Sends::Everything) };
                /// Target of dynamically connected transport.
                Dct = ServiceEnd { name: Some("DCT"), connected: false, ..connected(Service::Dc, Sends::Nothing, true) };
            }
            rud::Rud {
                /// Scalable reliable datagram of EFA.
                Srd = addressed(Service::Srd, Sends::NoAtomics);
                /// Ultra Ethernet transport: reliable, unordered, connectionless (RUD).
                Uet = addressed(Service::Uet, Sends::Everything);
                /// Ultra Ethernet, reliable and ordered (ROD).
                UetRod = addressed(Service::UetRod, Sends::Everything);
                /// Ultra Ethernet, reliable and unordered for idempotent operations (RUDI): the receiver keeps no state.
                UetRudi = addressed(Service::UetRudi, Sends::Idempotent);
            }
            uud::Uud {
                /// Ultra Ethernet, unreliable and unordered (UUD).
                UetUud = addressed(Service::UetUud, Sends::Messages);
            }
            iwarp::Iwarp {
                /// A connection of RDMAP over TCP, in the adapter: what programs get that ask an iWARP adapter for RC.
                Iwarp = connected(Service::Iwarp, Sends::Plain, false);
            }
            uc::Uc {
                /// Unreliable connection.
                Uc = connected(Service::Uc, Sends::Unanswered, false);
            }
            ud::Ud {
                /// Unreliable datagram.
                Ud = addressed(Service::Ud, Sends::Messages);
            }
            raw::Raw {
                /// Packets as they are, without transport (`IBV_QPT_RAW_PACKET`).
                RawPacket = addressed(Service::Raw, Sends::Packets);
            }
        } {
            discard::Discard { Discard = ServiceEnd { name: Some("DISCARD"), ..addressed(Service::Ud, Sends::Messages) }; }
        }}
    };
}
