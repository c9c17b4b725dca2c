//! Each format by small files whose records are known, and what is written read back.

use fabriscope_traces::{
    After, Element, Format, Kind, Operation, Part, Record, RecordId, Trace, detect, goal_binary, goal_text, lower, read, read_parts,
    write_chakra, write_simai,
};
use fabriscope_traces::{Collective, LowerOptions, Members, Unlowered, choices};
use fabriscope_units::{Bytes, Span};

use crate::samples;

fn one(name: &str, text: &str) -> Trace {
    let mut traces = read_parts(vec![Part::new(name, text.as_bytes().to_vec())]).unwrap();
    assert_eq!(traces.len(), 1);
    traces.remove(0)
}

fn error(name: &str, text: &str) -> String {
    read_parts(vec![Part::new(name, text.as_bytes().to_vec())]).unwrap_err().to_string()
}

fn collective(record: &Record) -> Collective {
    match record.kind {
        Kind::Collective(collective) => collective,
        ref other => panic!("{other:?}"),
    }
}

/// The example of the format's description: two ranks, each sends one message to the other.
const GOAL: &str = "num_ranks 2\n\nrank 0 {\nl1: calc 1000 cpu 0\nl2: send 4096b to 1 tag 7 cpu 0 nic 0\nl3: recv 4096b from 1 tag 8 cpu 0 nic 0\n\
                    l2 requires l1\nl3 irequires l2\n}\n\nrank 1 {\nl1: recv 4096b from 0 tag 7 cpu 0 nic 0\nl2: send 4096b to 0 tag 8 cpu 0 nic 0\nl2 requires l1\n}\n";

#[test]
fn goal_is_read_and_what_is_written_reads_back_equal() {
    let trace = one("two.goal", GOAL);
    assert_eq!((trace.format, trace.world, trace.reading.used), (Format::Goal, 2, 5));
    assert_eq!(trace.records(0)[0].duration, Some(Span::from_ns(1000)));
    assert_eq!(trace.records(0)[2].after, [After::Start(RecordId(1))]);
    let schedule = lower(&trace, &LowerOptions::default(), &mut Unlowered).unwrap().schedule;
    let text = goal_text(&schedule).unwrap();
    let again = lower(&one("again.goal", &text), &LowerOptions::default(), &mut Unlowered).unwrap().schedule;
    assert_eq!(again, schedule);
    let binary = goal_binary(&schedule).unwrap();
    // Magic number, ranks, highest cpu and nic, then where rank 0 lies from the ninth byte on: 6 bytes and two pairs of numbers.
    assert_eq!(binary[..8], 4223_u64.to_le_bytes());
    assert_eq!(binary[8..14], [2, 0, 0, 0, 0, 0]);
    assert_eq!(binary[14..22], 38_u64.to_le_bytes());
    let traces = read_parts(vec![Part::new("two.bin", binary)]).unwrap();
    assert_eq!(traces[0].format, Format::GoalBinary);
    assert_eq!(lower(&traces[0], &LowerOptions::default(), &mut Unlowered).unwrap().schedule, schedule);
}

#[test]
fn goal_keeps_receives_of_anybody_and_tells_mistakes() {
    let any = "num_ranks 2 // two\nrank 0 {\nsend 8b to 1 tag 3\n}\n/* the other\nrank */\nrank 1 {\nrecv 8b from -1 tag -1\n}\n";
    let lowered = lower(&one("any.goal", any), &LowerOptions::default(), &mut Unlowered).unwrap();
    assert_eq!((lowered.any_source, lowered.schedule.stats().messages), (1, 1));
    assert_eq!(error("a.goal", "num_ranks 1\nrank 0 {\nl1: calc x\n}\n"), "a.goal, line 3: found `x`");
    assert_eq!(error("a.goal", "num_ranks 1\nrank 0 {\nl1: calc 1\nl1 requires l2\n}\n"), "a.goal, line 4: found `l2`");
    assert_eq!(error("a.goal", "num_ranks 1\nrank 0 {\nl1: send 8b to 1\n}\n"), "a.goal, line 3: found `l1: send 8b to 1`");
    assert_eq!(error("a.goal", "num_ranks 1\nrank 0 {\nl1: calc 1\n"), "a.goal, line 3: the file ends within the block of a rank");
}

#[test]
fn chakra_is_written_as_it_is_read() {
    let text = "num_ranks 2\nrank 0 {\na: calc 2000\nb: send 64b to 1 tag 5\nb requires a\n}\nrank 1 {\na: recv 64b from 0 tag 5\n}\n";
    let mut trace = one("pair.goal", text);
    let group = trace.groups.add(fabriscope_traces::Group::of("tp", vec![0, 1]));
    for of in &mut trace.ranks {
        let collective = Collective {
            operation: Operation::Broadcast,
            bytes: Some(Bytes(1 << 33)),
            element: Element::named("float32"),
            group: Some(group),
            root: Some(1),
        };
        let last = of.records.last().unwrap().id;
        of.records.push(Record::new(9, "bcast", Kind::Collective(collective)).after([After::End(last)]).lasting(Span::from_us(12)).on(4));
    }
    let files = write_chakra(&trace);
    // The metadata as ASTRA-sim's own examples begin.
    assert!(files.ranks[0].1.starts_with(b"\x07\x0a\x050.0.4"));
    let mut parts: Vec<Part> = files.ranks.iter().map(|(rank, bytes)| Part::new(format!("pair.{rank}.et"), bytes.clone())).collect();
    parts.push(Part::new("comm_group.json", files.groups.into_bytes()));
    let traces = read_parts(parts).unwrap();
    assert_eq!((traces.len(), traces[0].format, traces[0].world), (1, Format::Chakra, 2));
    for (mine, theirs) in trace.ranks.iter().zip(&traces[0].ranks) {
        // Lanes of GOAL are cpu 0, so that all fields are those that were written.
        assert_eq!(mine.records, theirs.records);
    }
    assert_eq!(traces[0].check().unwrap().collectives, 1);
}

#[test]
fn the_chakra_file_of_astra_sim_says_what_its_name_does() {
    let trace =
        &read(&[samples::file("astra-sim__astra-sim/examples_workload_microbenchmarks_all_reduce_16npus_1MB_all_reduce.0.et")]).unwrap()[0];
    assert_eq!(trace.ranks[0].rank, 0);
    let collective = collective(&trace.records(0)[0]);
    assert_eq!((collective.operation, collective.bytes), (Operation::AllReduce, Some(Bytes::from_mib(1))));
    assert_eq!(
        write_chakra(trace).ranks[0].1[..8],
        std::fs::read(samples::file(&format!("astra-sim__astra-sim/{}", trace.ranks[0].file.rsplit('/').next().unwrap()))).unwrap()[..8]
    );
}

#[test]
fn spellings_of_chakra_json_mean_the_same() {
    let node = |keys: &str| {
        one("a.0.json", &format!("{{\"workload_graph\": [{{\"Id\": 1, \"NodeType\": 4}}, {{{keys}}}]}}")).records(0)[1].clone()
    };
    let record =
        node("\"Id\": 2, \"Name\": \"x\", \"NodeType\": 7, \"data_deps\": [1], \"runtime\": 5, \"comm_type\": 5, \"comm_size\": 64");
    let proto = node(
        "\"id\": \"2\", \"name\": \"x\", \"type\": \"COMM_COLL_NODE\", \"dataDeps\": [\"1\"], \"durationMicros\": \"5\", \
         \"attr\": [{\"name\": \"comm_type\", \"int64Val\": \"5\"}, {\"name\": \"comm_size\", \"int64Val\": \"64\"}]",
    );
    assert_eq!(record, proto);
    assert_eq!(collective(&record).operation, Operation::Broadcast);
    assert_eq!(error("a.json", "{\"workload_graph\": [{\"Id\": 1}]}"), "a.json, record 1: found node type 0");
    assert_eq!(error("a.json", "{\"workload_graph\": [{\"NodeType\": 4}]}"), "a.json, record 1: found a node without id");
}

#[test]
fn kernels_of_kineto_wait_for_their_stream_and_for_what_had_ended() {
    let kernel = |name: &str, stream: u32, ts: u32, dur: u32, more: &str| {
        format!(
            "{{\"ph\": \"X\", \"cat\": \"kernel\", \"name\": \"{name}\", \"ts\": {ts}, \"dur\": {dur}, \"args\": {{\"stream\": {stream}{more}}}}}"
        )
    };
    let nccl = ", \"Collective name\": \"allreduce\", \"In msg nelems\": 1000, \"Out msg nelems\": 1000, \"dtype\": \"BFloat16\", \
                \"Process Group Name\": \"1\", \"Process Group Ranks\": \"[2, 6]\"";
    let events = [
        kernel("a", 7, 100, 10, ""),
        kernel("b", 7, 110, 20, ""),
        // Starts when `a` is over, overlaps `b`.
        kernel("ncclDevKernel_AllReduce", 20, 112, 40, nccl),
        // Starts after `b` and after the collective.
        kernel("c", 7, 160, 10, ""),
    ];
    let file = format!("{{\"distributedInfo\": {{\"rank\": 2, \"world_size\": 8}}, \"traceEvents\": [{}]}}", events.join(","));
    let trace = one("x.json", &file);
    assert_eq!((trace.world, trace.ranks[0].rank), (8, 2));
    let records = trace.records(2);
    assert_eq!(records[1].after, [After::End(RecordId(0))]);
    assert_eq!(records[2].after, [After::End(RecordId(0))]);
    assert_eq!(records[3].after, [After::End(RecordId(1)), After::End(RecordId(2))]);
    // 112 - 110 µs after `a`; 160 - 152 µs after the collective.
    assert_eq!((records[2].gap, records[3].gap), (Span::from_us(2), Span::from_us(8)));
    let collective = collective(&records[2]);
    assert_eq!((collective.operation, collective.bytes), (Operation::AllReduce, Some(Bytes(2000))));
    assert_eq!(trace.groups.get(collective.group.unwrap()).unwrap().members, Members::Listed(vec![2, 6]));
}

#[test]
fn pytorch_traces_of_each_schema_tell_their_collectives() {
    let attributes = "{\"name\": \"collective_name\", \"value\": \"all_gather\"}, {\"name\": \"dtype\", \"value\": \"Float\"}, \
                      {\"name\": \"in_msg_nelems\", \"value\": 8}, {\"name\": \"out_msg_nelems\", \"value\": 16}, \
                      {\"name\": \"pg_name\", \"value\": \"0\"}, {\"name\": \"pg_size\", \"value\": 2}";
    let newer = format!(
        "{{\"schema\": \"1.1.1-chakra.0.0.4\", \"nodes\": [{{\"id\": 3, \"name\": \"record_param_comms\", \"ctrl_deps\": 2, \"inputs\": {{\"values\": []}}, \
         \"outputs\": {{\"values\": []}}, \"attrs\": [{attributes}]}}]}}"
    );
    let trace = one("rank1.json", &newer);
    assert_eq!((trace.version.as_deref(), trace.ranks[0].rank), (Some("1.1.1-chakra.0.0.4"), 1));
    let found = collective(&trace.records(1)[0]);
    // 16 elements of 4 bytes are received.
    assert_eq!((found.operation, found.bytes), (Operation::AllGather, Some(Bytes(64))));
    let older = &read(&[samples::file("mlcommons__chakra/tests_data_1.0.2-chakra.0.0.4.tgz")]).unwrap()[0];
    let records = older.records(0);
    // One float of each of two ranks; the wait names the collective by its number.
    assert_eq!(collective(&records[0]).bytes, Some(Bytes(8)));
    assert_eq!((records[1].kind.clone(), records[1].after.contains(&After::End(records[0].id))), (Kind::Wait, true));
}

#[test]
fn a_log_of_nccl_tells_calls_of_each_rank() {
    let log = "gpu01:100:100 [0] NCCL INFO comm 0xa1 rank 0 nranks 2 cudaDev 0 nvmlDev 0 busId 18000 commId 0x77 - Init COMPLETE\n\
               gpu01:100:101 [1] NCCL INFO comm 0xb1 rank 1 nranks 2 cudaDev 1 nvmlDev 1 busId 2a000 commId 0x77 - Init COMPLETE\n\
               gpu01:100:100 [0] NCCL INFO Using network IB\n\
               epoch 1 of the program\n\
               gpu01:100:100 [0] NCCL INFO AllReduce: opCount 0 sendbuff 0x1 recvbuff 0x2 count 1024 datatype 7 op 0 root 0 comm 0xa1 [nranks=2] stream 0x5\n\
               gpu01:100:101 [1] NCCL INFO AllReduce: opCount 0 sendbuff 0x1 recvbuff 0x2 count 1024 datatype 7 op 0 root 0 comm 0xb1 [nranks=2] stream 0x6\n\
               gpu01:100:100 [0] NCCL INFO AllGather: opCount 1 sendbuff 0x1 recvbuff 0x2 count 512 datatype 9 op 0 root 0 comm 0xa1 [nranks=2] stream 0x5\n\
               gpu01:100:101 [1] NCCL INFO AllGather: opCount 1 sendbuff 0x1 recvbuff 0x2 count 512 datatype 9 op 0 root 0 comm 0xb1 [nranks=2] stream 0x6\n\
               gpu01:100:100 [0] NCCL INFO Send: opCount 2 sendbuff 0x1 recvbuff (nil) count 16 datatype 0 op 0 root 1 comm 0xa1 [nranks=2] stream 0x5\n\
               gpu01:100:101 [1] NCCL INFO Recv: opCount 2 sendbuff (nil) recvbuff 0x1 count 16 datatype 0 op 0 root 0 comm 0xb1 [nranks=2] stream 0x6\n";
    let trace = one("nccl.log", log);
    assert_eq!((trace.format, trace.world, trace.ranks.len()), (Format::NcclLog, 2, 2));
    assert_eq!((trace.reading.records, trace.reading.used), (9, 8));
    let records = trace.records(0);
    assert_eq!(collective(&records[0]).bytes, Some(Bytes(4096)));
    // 512 elements of bfloat16 of each of two ranks.
    assert_eq!(collective(&records[1]).bytes, Some(Bytes(2048)));
    assert_eq!(records[1].after, [After::End(RecordId(0))]);
    assert_eq!(trace.groups.get(collective(&records[0]).group.unwrap()).unwrap().members, Members::Listed(vec![0, 1]));
    let checked = trace.check().unwrap();
    assert_eq!((checked.messages, checked.collectives), (1, 2));
    let bad = "h:1:1 [0] NCCL INFO AllReduce: opCount 0 sendbuff 0x1 recvbuff 0x2 count 1024 datatype 99 op 0 root 0 comm 0xa1 [nranks=2] stream 0x5\n";
    assert!(error("nccl.log", bad).starts_with("nccl.log, line 1: found"));
}

#[test]
fn lines_of_nccl_inspector_are_in_the_order_of_their_numbers() {
    let line = |rank: u32, number: u32, coll: &str, bytes: u32| {
        format!(
            "{{\"header\":{{\"id\":\"0xc0\",\"rank\":{rank},\"n_ranks\":2,\"nnodes\":1}},\"metadata\":{{\"inspector_output_format_version\":\"v4.2\"}},\
             \"coll_perf\":{{\"coll\":\"{coll}\",\"coll_sn\":{number},\"coll_msg_size_bytes\":{bytes},\"coll_exec_time_us\":61}}}}\n"
        )
    };
    let text = line(0, 2, "AllGather", 100) + &line(0, 1, "AllReduce", 64) + &line(1, 1, "AllReduce", 64) + &line(1, 2, "AllGather", 100);
    let trace = one("x.log", &text);
    assert_eq!((trace.format, trace.version.as_deref(), trace.world), (Format::NcclInspector, Some("v4.2"), 2));
    let records = trace.records(0);
    assert_eq!((collective(&records[0]).operation, records[0].duration), (Operation::AllReduce, Some(Span::from_us(61))));
    assert_eq!((collective(&records[1]).bytes, trace.check().unwrap().collectives), (Some(Bytes(200)), 2));
    let differ = line(0, 1, "AllReduce", 64) + &line(1, 1, "AllReduce", 32);
    let error = one("x.log", &differ).check().unwrap_err().to_string();
    assert_eq!(error, "operation 1 of 0xc0: rank 1 has all_reduce of 32 B, rank 0 all_reduce of 64 B");
}

#[test]
fn the_two_forms_of_dumpi_say_the_same() {
    let of = |name: &str| read(&[samples::file(&format!("sstsimulator__sst-dumpi/tests_traces_testtrace{name}"))]).unwrap().remove(0);
    let (binary, text) = (of("-0000.bin"), of("-0000.txt"));
    assert_eq!(binary.records(0), text.records(0));
    let records = binary.records(0);
    let names: Vec<&str> = records.iter().map(|record| record.name.as_str()).collect();
    assert_eq!(names, ["MPI_Barrier", "MPI_Isend", "MPI_Recv", "MPI_Wait", "MPI_Allreduce"]);
    assert_eq!(records[2].after, [After::Start(RecordId(1))]);
    assert_eq!(records[3].after, [After::End(RecordId(2)), After::End(RecordId(1))]);
    // Barrier from …737712 to …739659, then the call at …739674: 15 µs between.
    assert_eq!((records[0].duration, records[1].gap), (Some(Span::from_us(1947)), Span::from_us(15)));
    let all = of(".meta");
    let lowered = lower(&all, &LowerOptions::default(), &mut crate::lowering::Ring).unwrap();
    assert_eq!((all.ranks.len(), lowered.messages, lowered.collectives), (4, 4, 2));
}

/// The text of `dumpi2ascii` for calls with their arguments, each one microsecond long and ten apart.
fn ascii(calls: &[(&str, String)]) -> String {
    let mut text = "version=1.0.0\n".to_owned();
    for ((name, arguments), at) in calls.iter().zip(0..) {
        let (start, end) = (at * 11_000, at * 11_000 + 1_000);
        let lines: String = arguments.split(';').filter(|line| !line.is_empty()).map(|line| format!("{line}\n")).collect();
        let time = |ns: u32| format!("12.{ns:09}, cputime 0.000000000 seconds in thread 0.");
        text += &format!("MPI_{name} entering at walltime {}\n{lines}MPI_{name} returning at walltime {}\n", time(start), time(end));
    }
    text
}

#[test]
fn mpi_requests_and_communicators_are_followed() {
    // Even and odd ranks of four split; in each half rank 0 and 1 exchange by every kind of call.
    let rank = |rank: u32| {
        let (color, inner) = (rank % 2, rank / 2);
        let peer = 1 - inner;
        let half = "MPI_Comm comm=4 (user-defined-comm)";
        let message = |peer: &str, tag: u32| format!("int count=2;MPI_Datatype datatype=14 (MPI_DOUBLE);int {peer};int tag={tag};{half}");
        let (dest, source) = (format!("dest={peer}"), format!("source={peer}"));
        ascii(&[
            ("Init", "int argc=1;string argv[1]=[\"./a\"]".to_owned()),
            ("Comm_rank", format!("MPI_Comm comm=2 (MPI_COMM_WORLD);int rank={rank}")),
            ("Comm_size", "MPI_Comm comm=2 (MPI_COMM_WORLD);int size=4".to_owned()),
            (
                "Comm_split",
                format!("MPI_Comm oldcomm=2 (MPI_COMM_WORLD);int color={color};int key=0;MPI_Comm newcomm=4 (user-defined-comm)"),
            ),
            ("Irecv", format!("{};MPI_Request request=[2]", message("source=-1", 5))),
            ("Isend", format!("{};MPI_Request request=[3]", message(&dest, 5))),
            (
                "Waitall",
                format!(
                    "int count=2;MPI_Request requests=[2, 3];MPI_Status statuses=[{{bytes=16, cancelled=0, source={peer}, tag=5, error=0}}, \
                     {{bytes=0, cancelled=0, source=0, tag=0, error=0}}]"
                ),
            ),
            ("Send_init", format!("{};MPI_Request request=[7]", message(&dest, 6))),
            ("Start", "MPI_Request request=[7]".to_owned()),
            ("Recv", format!("{};MPI_Status status=<IGNORED>", message(&source, 6))),
            ("Test", "MPI_Request request=[7];int flag=0;MPI_Status status=<IGNORED>".to_owned()),
            ("Wait", "MPI_Request request=[7];MPI_Status status=<IGNORED>".to_owned()),
            (
                "Sendrecv",
                format!(
                    "int sendcount=4;MPI_Datatype sendtype=9 (MPI_INT);int dest={peer};int sendtag=1;int recvcount=4;MPI_Datatype recvtype=9 (MPI_INT);\
                     int source={peer};int recvtag=1;{half};MPI_Status status=<IGNORED>"
                ),
            ),
            ("Waitall", "int count=0;MPI_Request requests=[];MPI_Status statuses=<IGNORED>".to_owned()),
            (
                "Allgather",
                format!("int sendcount=3;MPI_Datatype sendtype=9 (MPI_INT);int recvcount=3;MPI_Datatype recvtype=9 (MPI_INT);{half}"),
            ),
            ("Finalize", String::new()),
        ])
    };
    let parts = (0..4).map(|at| Part::new(format!("job-000{at}.txt"), rank(at).into_bytes())).collect();
    let trace = &read_parts(parts).unwrap()[0];
    let reading = &trace.reading;
    assert_eq!((trace.world, reading.records, reading.used), (4, 4 * 16, 4 * 11), "{reading:?}");
    // Rank 1 is first of the odd ones, whose second is rank 3.
    let records = trace.records(1);
    let Kind::Recv(received) = &records[0].kind else { panic!("{:?}", records[0]) };
    assert_eq!((received.peer, received.tag, received.bytes), (Some(3), Some(5), Bytes(16)));
    assert_eq!(trace.groups.get(received.group.unwrap()).unwrap().members, Members::Listed(vec![1, 3]));
    assert_eq!(records[2].after, [After::Start(RecordId(1)), After::End(RecordId(0)), After::End(RecordId(1))]);
    assert_eq!(records[2].gap, Span::from_us(10));
    // Three integers of each of two ranks.
    assert_eq!(collective(records.last().unwrap()).bytes, Some(Bytes(24)));
    let checked = trace.check().unwrap();
    assert_eq!((checked.messages, checked.open_messages, checked.collectives), (12, 0, 2));
    let lowered = lower(trace, &LowerOptions::default(), &mut crate::lowering::Ring).unwrap();
    assert_eq!((lowered.messages, lowered.collectives), (12, 2));
}

#[test]
fn otf2_is_read_once_it_is_converted() {
    let trace = &read(&[samples::file("hpcgroup__pipit/ping-pong.jsonl")]).unwrap()[0];
    assert_eq!((trace.format, trace.world, trace.ranks.len()), (Format::Otf2Json, 2, 2));
    let checked = trace.check().unwrap();
    assert_eq!((checked.messages, checked.open_messages), (16, 0));
    let lowered = lower(trace, &LowerOptions::default(), &mut Unlowered).unwrap();
    // Ping and pong of 16 KiB, doubled seven times.
    assert_eq!(lowered.schedule.stats().bytes, Bytes(2 * 255 * 16384));
    let archive = read(&[samples::file("hpcgroup__pipit/ping-pong-otf2")]).unwrap_err();
    assert!(archive.problem.to_string().contains("an OTF2 archive cannot be read here"), "{archive}");
}

#[test]
fn liballprof_requests_of_an_array_are_found() {
    let rank = |rank: u32, peer: u32| {
        format!(
            "# htor's PMPI Tracer 0.1 Output File\n\nMPI_Init:10:1:2:20\nMPI_Comm_size:21:9,{rank},2:77:22\n\
             MPI_Isend:30:1000:4:5,8,8:{peer}:7:9,{rank},2:5000:31\nMPI_Irecv:32:1000:4:5,8,8:{peer}:7:9,{rank},2:5008:33\n\
             MPI_Waitall:40:2:5000:0:50\nMPI_Allreduce:60:1:2:1:5,8,8:3:9,{rank},2:70\nMPI_Finalize:80:90\n"
        )
    };
    let parts = (0..2).map(|at| Part::new(format!("pmpi-trace-rank-{at}.txt"), rank(at, 1 - at).into_bytes())).collect();
    let trace = &read_parts(parts).unwrap()[0];
    assert_eq!((trace.format, trace.world, trace.reading.records), (Format::AllProf, 2, 14));
    let records = trace.records(1);
    assert_eq!(records[2].after, [After::Start(RecordId(1)), After::End(RecordId(0)), After::End(RecordId(1))]);
    assert_eq!((records[2].gap, collective(&records[3]).bytes), (Span::from_us(7), Some(Bytes(8))));
    assert_eq!(trace.check().unwrap().messages, 2);
}

#[test]
fn simai_workloads_run_forwards_and_back_and_are_written() {
    let text = "HYBRID_TRANSFORMER_FWD_IN_BCKWD model_parallel_NPU_group: 2 ep: 2 pp: 1 vpp: 1 ga: 1 all_gpus: 8 checkpoints: 0 checkpoint_initiates: 0\n2\n\
                a -1 100 ALLREDUCE 64 10 NONE 0 20 ALLREDUCE_DP 128 5\nb -1 200 ALLTOALL_EP 32 30 ALLGATHER 16 1 NONE 0 5\n";
    let trace = one("w.txt", text);
    let names: Vec<&str> = trace.records(0).iter().map(|record| record.name.as_str()).collect();
    let expected = [
        "a forward",
        "a forward",
        "b forward",
        "b forward",
        "b input gradient",
        "b input gradient",
        "b weight gradient",
        "a input gradient",
        "a weight gradient",
        "a weight gradient",
        "weight gradients",
    ];
    assert_eq!(names, expected);
    let groups: Vec<_> = trace.groups.iter().map(|(_, group)| (group.name.as_str(), group.ranks(8).unwrap())).collect();
    assert_eq!(groups, [("TP", vec![0, 1]), ("EP", vec![0, 2]), ("DP", vec![0, 2, 4, 6])]);
    // Extended to all: rank 5 is second in its tensor group and third in its data group.
    let all = trace.spread(8).unwrap();
    assert_eq!((all.ranks.len(), all.check().unwrap().partial_collectives), (8, 0));
    let group = collective(&all.records(5)[1]).group.unwrap();
    assert_eq!(all.groups.get(group).unwrap().ranks(8).unwrap(), [4, 5]);
    let written = one("w.txt", &write_simai(&trace).unwrap());
    let kinds = |trace: &Trace| {
        trace
            .records(0)
            .iter()
            .filter(|record| matches!(record.kind, Kind::Collective(_)))
            .map(collective)
            .map(|one| (one.operation, one.bytes))
            .collect::<Vec<_>>()
    };
    assert_eq!(kinds(&written), kinds(&trace));
    assert_eq!(error("w.txt", "HYBRID_TRANSFORMER x\n1\na -1 1 WHAT 1 1 NONE 0 1 NONE 0 1\n"), "w.txt, line 3: found `WHAT`");
}

#[test]
fn aicb_rows_are_collectives_of_all() {
    let trace = &read(&[samples::file("aliyun__aicb/workload_physical_model_workload_L7B-D1-C02_Llama7B_zero3_mbs1.csv")]).unwrap()[0];
    let first = collective(&trace.records(0)[0]);
    assert_eq!((first.operation, first.bytes, first.root), (Operation::Broadcast, Some(Bytes(262_144_000)), Some(0)));
    assert_eq!((trace.world, trace.every_rank), (128, true));
    assert_eq!(trace.spread(128).unwrap().ranks.len(), 128);
}

#[test]
fn rows_of_the_tuner_keep_algorithm_and_protocol() {
    let bytes = std::fs::read(samples::file("NVIDIA__nccl/plugins_tuner_example_scripts_sample_performance_data.csv")).unwrap();
    let choices = choices("sample.csv", &bytes).unwrap();
    assert_eq!(
        (choices.len(), choices[0].algorithm.as_str(), choices[22].protocol.as_str(), choices[22].ranks),
        (23, "tree", "simple", 16)
    );
    assert_eq!(choices[0].latency, Some(Span::from_ps(12_500_000)));
}

#[test]
fn formats_are_told_by_content() {
    let folder = tempfile::tempdir().unwrap();
    let cases: [(&str, &[u8], Format); 4] = [
        ("a", b"num_ranks 1\n", Format::Goal),
        ("b", b"\xff\xaa\xdd\x44DUMPI", Format::Dumpi),
        ("c", b"{\"deviceProperties\": [], \"traceEvents\": []}", Format::Kineto),
        ("d", b"collective,size_bytes,algorithm\n", Format::NcclTuner),
    ];
    for (name, bytes, format) in cases {
        let path = folder.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        assert_eq!(detect(&path).unwrap(), format);
    }
    let path = folder.path().join("e");
    std::fs::write(&path, "a letter to a friend\n").unwrap();
    let error = detect(&path).unwrap_err().to_string();
    assert!(error.ends_with("is none of the formats known here (it begins with `a letter to a friend\\n`)"), "{error}");
    assert!(detect(&folder.path().join("missing")).unwrap_err().to_string().contains("cannot be read"));
}
