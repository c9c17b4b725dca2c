//! The messages of Perfetto's trace format that a timeline needs, with the numbers of their fields.
//!
//! Source: Perfetto, protos/perfetto/trace: trace.proto, trace_packet.proto, track_event/*.proto, interned_data/interned_data.proto.
//! A file is a sequence of packets, each behind the tag of `Trace.packet`, so that packets are appended as they come.
//! Not modelled: all other kinds of packets.

/// A file.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Trace {
    /// Its packets.
    #[prost(message, repeated, tag = "1")]
    pub packet: Vec<TracePacket>,
}

/// One packet: a track is described, or something happens on one.
#[derive(Clone, PartialEq, prost::Message)]
pub struct TracePacket {
    /// When (ns).
    #[prost(uint64, optional, tag = "8")]
    pub timestamp: Option<u64>,
    /// Whose state of interned strings it uses.
    #[prost(uint32, optional, tag = "10")]
    pub trusted_packet_sequence_id: Option<u32>,
    /// What happens.
    #[prost(message, optional, tag = "11")]
    pub track_event: Option<TrackEvent>,
    /// Strings that later packets name by number.
    #[prost(message, optional, tag = "12")]
    pub interned_data: Option<InternedData>,
    /// 1: no strings are known before this packet; 2: it needs those that are.
    #[prost(uint32, optional, tag = "13")]
    pub sequence_flags: Option<u32>,
    /// A track.
    #[prost(message, optional, tag = "60")]
    pub track_descriptor: Option<TrackDescriptor>,
}

/// A track.
#[derive(Clone, PartialEq, prost::Message)]
pub struct TrackDescriptor {
    /// Its number in the file.
    #[prost(uint64, optional, tag = "1")]
    pub uuid: Option<u64>,
    /// What it is called.
    #[prost(string, optional, tag = "2")]
    pub name: Option<String>,
    /// It is a process, under which others stand.
    #[prost(message, optional, tag = "3")]
    pub process: Option<ProcessDescriptor>,
    /// The track under which it stands.
    #[prost(uint64, optional, tag = "5")]
    pub parent_uuid: Option<u64>,
    /// It has values, no slices.
    #[prost(message, optional, tag = "8")]
    pub counter: Option<CounterDescriptor>,
}

/// A process: here a node, or the fabric.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ProcessDescriptor {
    /// Its number.
    #[prost(int32, optional, tag = "1")]
    pub pid: Option<i32>,
    /// Its name.
    #[prost(string, optional, tag = "6")]
    pub process_name: Option<String>,
}

/// What a counter counts.
#[derive(Clone, PartialEq, prost::Message)]
pub struct CounterDescriptor {
    /// The unit: 2 is a plain count, 3 are bytes.
    #[prost(int32, optional, tag = "3")]
    pub unit: Option<i32>,
    /// The unit in words, where it is none of these.
    #[prost(string, optional, tag = "6")]
    pub unit_name: Option<String>,
}

/// Something on a track.
#[derive(Clone, PartialEq, prost::Message)]
pub struct TrackEvent {
    /// What is known of it.
    #[prost(message, repeated, tag = "4")]
    pub debug_annotations: Vec<DebugAnnotation>,
    /// 1: a slice begins, 2: it ends, 3: an instant, 4: a value.
    #[prost(int32, optional, tag = "9")]
    pub r#type: Option<i32>,
    /// Its name, by number.
    #[prost(uint64, optional, tag = "10")]
    pub name_iid: Option<u64>,
    /// The track.
    #[prost(uint64, optional, tag = "11")]
    pub track_uuid: Option<u64>,
    /// Its name, where that is not interned.
    #[prost(string, optional, tag = "23")]
    pub name: Option<String>,
    /// The value of a counter.
    #[prost(int64, optional, tag = "30")]
    pub counter_value: Option<i64>,
    /// Flows that it belongs to.
    #[prost(fixed64, repeated, packed = "false", tag = "47")]
    pub flow_ids: Vec<u64>,
    /// Flows that end with it.
    #[prost(fixed64, repeated, packed = "false", tag = "48")]
    pub terminating_flow_ids: Vec<u64>,
}

/// A named value of a slice.
#[derive(Clone, PartialEq, prost::Message)]
pub struct DebugAnnotation {
    /// Its name, by number.
    #[prost(uint64, optional, tag = "1")]
    pub name_iid: Option<u64>,
    /// A number.
    #[prost(uint64, optional, tag = "3")]
    pub uint_value: Option<u64>,
    /// Words.
    #[prost(string, optional, tag = "6")]
    pub string_value: Option<String>,
}

/// Strings with the numbers by which packets name them.
#[derive(Clone, PartialEq, prost::Message)]
pub struct InternedData {
    /// Names of slices.
    #[prost(message, repeated, tag = "2")]
    pub event_names: Vec<InternedString>,
    /// Names of values.
    #[prost(message, repeated, tag = "3")]
    pub debug_annotation_names: Vec<InternedString>,
}

/// A string with its number.
#[derive(Clone, PartialEq, prost::Message)]
pub struct InternedString {
    /// The number, from 1.
    #[prost(uint64, optional, tag = "1")]
    pub iid: Option<u64>,
    /// The string.
    #[prost(string, optional, tag = "2")]
    pub name: Option<String>,
}

#[cfg(test)]
mod tests {
    use prost::Message;

    use super::*;

    /// A process, a counter and one value of it as the reader of the Python package `perfetto` decodes them.
    #[test]
    fn bytes_are_those_of_the_format() {
        let hex = "0a0fe2030c0801120666616272696358030a21e2031e0802120f6c65616630313a333320717565756528014207320562797465730a0f40dc0b50015a08\
                   48045802f0018020";
        let bytes: Vec<u8> = (0..hex.len() / 2).map(|at| u8::from_str_radix(&hex[2 * at..2 * at + 2], 16).unwrap()).collect();
        let trace = Trace::decode(bytes.as_slice()).unwrap();
        let [process, counter, value] = &trace.packet[..] else { panic!("three packets") };
        assert_eq!(process.track_descriptor.as_ref().unwrap().name(), "fabric");
        let described = counter.track_descriptor.as_ref().unwrap();
        assert_eq!((described.name(), described.uuid(), described.parent_uuid()), ("leaf01:33 queue", 2, 1));
        assert_eq!(described.counter.as_ref().unwrap().unit_name(), "bytes");
        let event = value.track_event.as_ref().unwrap();
        assert_eq!((value.timestamp(), event.counter_value(), event.track_uuid(), event.r#type()), (1500, 4096, 2, 4));
        // What is here of it is written back with the same bytes; the field `child_ordering` of the first packet is none of ours.
        assert_eq!([counter.encode_to_vec(), value.encode_to_vec()].concat(), [&bytes[19..52], &bytes[54..]].concat());
    }
}
