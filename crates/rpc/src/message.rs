//! What a call has to carry and to compute at each end, by the library's numbers.
//!
//! Source: gRPC over HTTP/2 (a HEADERS frame and DATA frames of a request; HEADERS, DATA and trailers of a reply), RFC 9113.
//! Modelled: bytes and frames of each message, core time of marshalling and frames.
//! Not modelled: SETTINGS, PING and WINDOW_UPDATE frames, padding.

use fabriscope_catalog::RpcLibrary;
use fabriscope_units::{Bytes, Span};

/// Which message of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Message {
    /// From the client.
    Request,
    /// From the server.
    Reply,
}

/// A message on its way through a core.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cost {
    /// Bytes that go to the transport.
    pub bytes: Bytes,
    /// Core time of frames, or of the message where there are none, at each end.
    pub framing: Span,
    /// Core time of writing its fields.
    pub serialise: Span,
    /// Core time of reading them.
    pub parse: Span,
}

impl Cost {
    /// What a message with `payload` bytes costs.
    #[must_use]
    pub fn of(library: &RpcLibrary, message: Message, payload: Bytes) -> Cost {
        let serialise = *library.marshal + library.serialise_rate.time(payload);
        let parse = *library.marshal + library.parse_rate.time(payload);
        let (bytes, framing) = match (&library.streams, &library.rdma) {
            (Some(streams), _) => {
                let data = payload + *streams.message_prefix;
                let frames = data.0.div_ceil(streams.frame_limit.0.max(1));
                let (others, fields) = match message {
                    Message::Request => (1, *streams.request_fields),
                    Message::Reply => (2, *streams.reply_fields + *streams.trailer_fields),
                };
                (data + fields + *streams.frame_header * (frames + others), *streams.frame * (frames + others))
            }
            // The transport adds its own header.
            (None, rdma) => (payload, rdma.as_ref().map_or(Span::ZERO, |rdma| *rdma.message)),
        };
        Cost { bytes, framing, serialise, parse }
    }
}

#[cfg(test)]
mod tests {
    use fabriscope_catalog::Catalog;

    use super::*;

    #[test]
    fn frames_are_those_of_http_2() {
        let catalog = Catalog::embedded().unwrap();
        let library = catalog.software("grpc").unwrap().rpc.clone().unwrap();
        // HEADERS 9 + 24, DATA 9 + 5 + 64.
        assert_eq!(Cost::of(&library, Message::Request, Bytes(64)).bytes, Bytes(111));
        // HEADERS 9 + 3, DATA 9 + 5 + 64, trailers 9 + 2.
        assert_eq!(Cost::of(&library, Message::Reply, Bytes(64)).bytes, Bytes(101));
        // 64 KiB and its prefix are five frames of 16 KiB at most.
        let long = Cost::of(&library, Message::Request, Bytes::from_kib(64));
        assert_eq!((long.bytes, long.framing), (Bytes(65_536 + 5 + 24 + 6 * 9), Span::from_ns(150) * 6));
    }
}
