//! What the engine of a lab does not model is refused when the file is read, at the key that asks for it, with what to do instead.

use crate::labs::catalog;

use fabriscope_catalog::CatalogError;
use fabriscope_lab::parse;
use miette::Diagnostic;

fn refused(text: &str) -> CatalogError {
    parse(catalog(), "lab.toml", text).map(|lab| lab.name().to_owned()).expect_err(text)
}

/// A lab whose third line is `line`.
fn lab(engine: &str, line: &str) -> String {
    // InfiniBand never drops.
    let cluster = if line.contains("lossy") { "lab-roce-128" } else { "lab-16" };
    let (key, table) = if line.starts_with('[') { ("", line) } else { (line, "") };
    format!("cluster = \"{cluster}\"\nengine = \"{engine}\"\n{key}\n{table}\n[workload.shift]\nby = 1\nsize = \"1 KiB\"\n")
}

#[test]
fn what_flows_do_not_know() {
    // Flows have rates and no packets: nothing of buffers, losses, classes or control loops.
    let lines = [
        "congestion = \"dcqcn\"",
        "flow_control = \"lossy\"",
        "service_level = 3",
        "rate_limit = \"10 Gb/s\"",
        "recovery = { timeout = 10 }",
        "[[fault]]\nat = \"1 us\"\nkind.loss = { share = 0.1 }",
    ];
    for line in lines {
        let error = refused(&lab("flow", line));
        let text = error.to_string();
        assert!(text.contains("the flow engine does not model"), "{line}: {text}");
        assert!(error.help().is_some_and(|help| help.to_string().len() > 10), "{line}: no remedy");
        // The place is the line that asks: the third, or where the table begins.
        let place = text.strip_prefix("lab.toml:").and_then(|rest| rest.split(':').next()).and_then(|line| line.parse::<u32>().ok());
        assert!(place.is_some_and(|place| (3..=6).contains(&place)), "{line}: {text}");
        // The packet engine takes it.
        let packet = lab("packet", line);
        assert!(parse(catalog(), "lab.toml", &packet).is_ok(), "{line}: {:?}", parse(catalog(), "lab.toml", &packet).err());
    }
}

#[test]
fn workloads_that_cannot_happen() {
    let on = |cluster: &str, workload: &str| format!("cluster = \"{cluster}\"\n[workload.{workload}\n");
    // Sixteen hosts: what is asked for, and a word of the remedy.
    let table = [
        ("incast]\nsenders = 16\nsize = \"1 KiB\"", "16 senders and a receiver do not fit into 16 hosts", "at most 15"),
        ("incast]\nsenders = 0\nsize = \"1 KiB\"", "0 senders and a receiver do not fit into 16 hosts", "at least 1"),
        ("shift]\nby = 32\nsize = \"1 KiB\"", "a shift by 32 makes every one of 16 hosts send to itself", "at most 15"),
        ("shift]\nby = 1\nsize = \"0 B\"", "a message of 0 B cannot be sent", "another size"),
        ("shift]\nby = 1\nsize = \"4 GiB\"", "a message of 4 GiB cannot be sent", "another size"),
        ("hot_spot]\ntargets = 1\nshare = 1.5\nmessages = 1\nsize = \"1 B\"", "`share` must be in [0, 1], got 1.5", "0 to 1"),
        ("hot_spot]\ntargets = 16\nshare = 0.5\nmessages = 1\nsize = \"1 B\"", "16 hot hosts of 16", "at most 15"),
        ("halo]\ngrid = [5, 4]\nsize = \"1 B\"", "a grid of 20 processes on 16 hosts", "product of 2 to 16"),
        ("uniform]\nmessages = 0\nsize = \"1 B\"", "no message is sent", "at least 1"),
        (
            "open_loop]\npattern = \"uniform\"\nloads = [1.2]\nsize = \"1 B\"\nwarm_up = \"0 us\"\nwindow = \"1 us\"",
            "a load of 1.2",
            "up to 1",
        ),
        ("open_loop]\npattern = \"uniform\"\nloads = []\nsize = \"1 B\"\nwarm_up = \"0 us\"\nwindow = \"1 us\"", "0 loads", "1 to 1000"),
        (
            "closed_loop]\npattern = \"uniform\"\noutstanding = [0]\nmessages = 1\nsize = \"1 B\"",
            "no message is ever outstanding",
            "from 1",
        ),
        ("collective]\noperation = \"allreduce\"\nalgorithm = \"rnig\"\nsize = \"1 KiB\"", "rnig", "ring"),
        ("collective]\noperation = \"alreduce\"\nalgorithm = \"ring\"\nsize = \"1 KiB\"", "there is no operation `alreduce`", "allreduce"),
        ("collective]\noperation = \"allreduce\"\nalgorithm = \"ring\"\nsize = \"1 KiB\"\nranks = 17", "17 ranks", "2 to 16 ranks"),
        (
            "collective]\noperation = \"allreduce\"\nalgorithm = \"ring\"\nsize = \"6 B\"",
            "6 B are no whole number of elements of 4 B",
            "multiple",
        ),
        (
            "collective]\noperation = \"bcast\"\nalgorithm = \"binomial\"\nsize = \"1 B\"\nroot = 16",
            "there is no rank 16 among 16",
            "0 to 15",
        ),
        ("collective]\noperation = \"allreduce\"\nalgorithm = \"ring\"\nsize = \"4 B\"\nroot = 1", "has no root", "remove `root`"),
        ("bench]\ntool = \"\"", "the benchmark has no name", "ib_write_lat"),
        ("bench]\ntool = \"osu_latency\"\nnodes = 17", "17 nodes of 16", "1 to 16"),
        ("bench]\ntool = \"osu_alltoall\"\nper_node = 65", "65 ranks on 64 cores", "1 to 64"),
    ];
    for (workload, says, remedy) in table {
        let error = refused(&on("lab-16", workload));
        let help = error.help().map(|help| help.to_string()).unwrap_or_default();
        assert!(error.to_string().contains(says), "{workload}: {error}");
        assert!(help.contains(remedy), "{workload}: {help}");
    }
}

#[test]
fn unknown_keys_and_choices() {
    let table = [
        ("cluster = \"lab-16\"\nsede = 1\n[workload.shift]\nby = 1\nsize = \"1 B\"\n", "unknown key `sede`", "`seed`"),
        ("cluster = \"lab-16\"\n[workload.shfit]\nby = 1\nsize = \"1 B\"\n", "shfit", "`shift`"),
        ("cluster = \"lab-16\"\nengine = \"flows\"\n[workload.shift]\nby = 1\nsize = \"1 B\"\n", "flows", "`flow`"),
        ("cluster = \"lab-16\"\n[workload.shift]\nby = 1\nsize = \"1\"\n", "no unit", "unit"),
        ("cluster = \"lab-17\"\n[workload.shift]\nby = 1\nsize = \"1 B\"\n", "lab-17", "`lab-16`"),
        ("cluster = \"lab-16\"\n", "workload", "workload"),
    ];
    for (text, says, remedy) in table {
        let error = refused(text);
        let help = error.help().map(|help| help.to_string()).unwrap_or_default();
        assert!(error.to_string().contains(says), "{text}: {error}");
        assert!(format!("{error} {help}").contains(remedy), "{text}: {error}; {help}");
    }
}
