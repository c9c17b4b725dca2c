//! `dpdk-test-compress-perf`: engine and cores, their memories, what is refused.

use fabriscope_platform::{Binding, Layout, Target};
use fabriscope_tools::{Tool, ToolOutput};

use crate::machine;

fn target(cluster: &str) -> Target {
    Target::of(&machine::parts(cluster), Layout { nodes: 1, per_node: 1 }, Binding::default())
}

fn prepare(target: &Target, options: &str) -> Result<ToolOutput, String> {
    let words: Vec<String> = options.split_whitespace().map(str::to_owned).collect();
    let prepared = Tool::by_name("dpdk-test-compress-perf").unwrap().prepare(&words, target).map_err(|error| error.to_string())?;
    Ok((prepared.finish)())
}

/// Gb/s of a direction, by core.
fn rates(output: &ToolOutput, metric: &str) -> Vec<f64> {
    output.points.iter().filter(|point| point.metric == metric).map(|point| point.value).collect()
}

/// The text of this file, repeated up to 1 MiB: it is there wherever the tests are.
const DATA: &str = "--input-file tests/suite/compress.rs --extended-input-sz 1048576 --compress-level 6";

#[test]
fn a_long_operation_is_bound_by_the_engine_and_a_short_one_by_what_it_takes_beside_its_bytes() {
    let target = target("lab-bluefield-2");
    let engine = target.compression.clone().unwrap();
    let rate = engine.compress.unwrap();
    for size in [64_u64, 512, 2048, 32_768] {
        let output = prepare(&target, &format!("{DATA} --seg-sz {size} --operation comp")).unwrap();
        let bytes = fabriscope_units::Bytes(size);
        // What is further apart than the engine needs waits for a read that could not be asked for before.
        let apart = (engine.interval + rate.time(bytes)).max(engine.dpu.memory.read_latency);
        let expected = size as f64 * 8.0 / apart.as_s_f64() / 1e9;
        let measured = rates(&output, "compression")[0];
        assert!(measured <= expected * 1.001 && measured > expected * 0.97, "{size}: {measured} {expected}");
    }
}

#[test]
fn cores_share_one_engine_and_compress_each_for_itself_without_it() {
    let target = target("lab-bluefield-2");
    let sum =
        |options: &str| rates(&prepare(&target, &format!("{DATA} --operation comp {options}")).unwrap(), "compression").iter().sum::<f64>();
    let [one, four] = ["-l 0,1", "-l 0-4"].map(sum);
    assert!((four / one - 1.0).abs() < 0.02, "{one} {four}");
    let [alone, all] = ["-l 0,1 --driver-name compress_zlib", "-l 0-7 --driver-name compress_zlib"].map(sum);
    assert!((all / alone - 7.0).abs() < 0.01, "{alone} {all}");
    // Published: 71 times as fast as one core with the same floats.
    let long = sum("--seg-sz 65407");
    assert!((60.0..75.0).contains(&(long / alone)), "{}", long / alone);
}

#[test]
fn data_of_the_host_come_over_its_slot() {
    let mut target = target("lab-ipu-e2000");
    let engine = target.compression.as_mut().unwrap();
    // A slot slower than the engine bounds what it takes in.
    engine.host.memory.read = fabriscope_units::Rate::from_bps(16_000_000_000);
    let both = ["dpu", "host"].map(|at| {
        let output = prepare(&target, &format!("{DATA} --seg-sz 65407 --operation comp --at {at}")).unwrap();
        rates(&output, "compression")[0]
    });
    assert!(both[0] > 80.0 && both[1] < 16.0 && both[1] > 15.0, "{both:?}");
}

#[test]
fn what_is_not_there_is_refused() {
    let two = target("lab-bluefield-2");
    let refused = |target: &Target, options: &str| prepare(target, options).unwrap_err();
    assert!(refused(&target("ri2"), DATA).contains("no engine"));
    assert!(refused(&target("lab-bluefield-3"), DATA).contains("does not compress"));
    assert!(refused(&two, "").contains("nothing to compress"));
    assert!(refused(&two, "--input-file no-such-file").contains("no-such-file"));
    assert!(refused(&two, "--input-file tests").contains("no file of"));
    assert!(refused(&two, &format!("{DATA} -l 3")).contains("one core starts"));
    assert!(refused(&two, &format!("{DATA} -l 0-8")).contains("no core 8"));
    assert!(refused(&two, &format!("{DATA} --driver-name compress_zlib")).contains("decompress"));
    assert!(refused(&two, &format!("{DATA} --driver-name compress_isal")).contains("compress_isal"));
    assert!(refused(&two, &format!("{DATA} --huffman-enc fixed")).contains("fixed"));
    assert!(refused(&two, &format!("{DATA} --compress-level 0")).contains("--compress-level 0"));
}
