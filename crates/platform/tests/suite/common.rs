//! What a job finds on nodes that may be unlike: the lesser of both where the two ends of a message have to agree, and who is named where they
//! cannot.

use std::sync::OnceLock;

use fabriscope_catalog::{AnyPart, Catalog, ResolvedCluster};
use fabriscope_nccl::Settings;
use fabriscope_platform::nccl::{JobLibrary, Library};
use fabriscope_platform::{Binding, Layout, Target};

const PAIR: Layout = Layout { nodes: 2, per_node: 1 };

fn catalog() -> &'static Catalog {
    static CATALOG: OnceLock<Catalog> = OnceLock::new();
    CATALOG.get_or_init(|| Catalog::embedded().unwrap())
}

fn clusters() -> impl Iterator<Item = ResolvedCluster> {
    let named = |part: &'static AnyPart| if let AnyPart::Cluster(cluster) = part { Some(&cluster.name) } else { None };
    catalog().parts().filter_map(named).map(|name| catalog().target(name).unwrap())
}

fn common(parts: &ResolvedCluster) -> Result<Target, String> {
    Target::common(parts, PAIR, Binding::default()).map_err(|error| error.to_string())
}

#[test]
fn the_lesser_of_both_ends_holds() {
    // For every cluster of the catalogue: payload in a request, reads outstanding, datagrams and adapters are the least of all groups; messages may
    // come in any order if they may at one of them. A cluster of alike nodes has just its own.
    let mut unlike = 0;
    for parts in clusters() {
        let found = common(&parts).unwrap_or_else(|error| panic!("{}: {error}", parts.name));
        let views = (0..parts.groups.len()).map(|group| parts.narrowed(group).unwrap());
        let each: Vec<Target> = views.map(|view| Target::of(&view, PAIR, Binding::default())).collect();
        let name = &parts.name;
        assert_eq!(Some(found.max_inline), each.iter().map(|target| target.max_inline).min(), "{name}");
        assert_eq!(Some(found.max_outstanding_reads), each.iter().map(|target| target.max_outstanding_reads).min(), "{name}");
        assert_eq!(Some(found.devices.len()), each.iter().map(|target| target.devices.len()).min(), "{name}");
        assert_eq!(found.unordered, each.iter().any(|target| target.unordered), "{name}");
        assert_eq!(found.nodes, parts.groups.iter().map(|group| group.nodes).sum::<u32>(), "{name}");
        let datagrams: Option<Vec<u32>> = each.iter().map(|target| target.datagram).collect();
        assert_eq!(found.datagram, datagrams.and_then(|all| all.into_iter().min()), "{name}");
        // Their GPUs are those of all nodes, or of none.
        assert!(found.gpu.is_none() || each.iter().all(|target| target.gpu == found.gpu), "{name}");
        unlike += u32::from(each.len() > 1);
    }
    assert!(unlike >= 3, "{unlike} clusters of unlike nodes");
}

#[test]
fn a_job_of_gpus_names_the_nodes_that_have_none() {
    // Nodes 0 to 15 have eight GPUs each, 16 to 23 none.
    let parts = catalog().target("lab-gpu-storage").unwrap();
    let library = JobLibrary::on_nodes(&parts, &[0, 15, 3]).unwrap();
    assert_eq!((library.gpus(), library.capability(), library.first().name), (8, Some(80), "NCCL"));
    for nodes in [&[0, 16][..], &[23, 1]] {
        let error = JobLibrary::on_nodes(&parts, nodes).unwrap_err().to_string();
        assert_eq!(error, "the nodes of `storage` have no GPUs, and the job has some of them");
    }
    assert_eq!(JobLibrary::on_nodes(&parts, &[]).unwrap_err().to_string(), "a job without nodes");
    // The target of the job carries the answer.
    let target = common(&parts).unwrap();
    assert!(target.nccl.is_none() && target.nccl_between.is_none());
    assert!(target.clone().joined(&parts, &[0, 1]).nccl_between.is_some_and(|library| library.is_ok()));
    assert!(target.joined(&parts, &[0, 20]).nccl_between.is_some_and(|library| library.is_err()));
}

#[test]
fn a_communicator_has_a_rank_for_each_gpu_of_its_job() {
    // For each model of GPU one cluster with a library: nodes times GPUs, in rings that every rank is in once, whatever part of the node is used.
    let mut seen = std::collections::BTreeSet::new();
    for parts in clusters().filter(|parts| parts.uniform().is_some()) {
        let Some(library) = Library::of(&parts).filter(|library| seen.insert(library.gpu.clone())) else { continue };
        for (nodes, per_node) in [(1, library.gpus()), (2, 1), (2, library.gpus())] {
            let joined = library.join(nodes, per_node, &Settings::default()).unwrap_or_else(|error| panic!("{}: {error}", parts.name));
            assert_eq!((joined.ranks(), joined.nodes()), (nodes * per_node, nodes), "{}", parts.name);
            if joined.ranks() < 2 {
                continue;
            }
            let (mut rank, mut steps) = (0, 0);
            while steps == 0 || rank != 0 {
                rank = joined.ring(0, rank).next;
                steps += 1;
                assert!(steps <= joined.ranks(), "{}: a ring that does not close", parts.name);
            }
            assert_eq!(steps, joined.ranks(), "{}", parts.name);
        }
    }
    assert!(seen.len() >= 4, "GPUs with NCCL or RCCL: {seen:?}");
}

#[test]
fn memory_of_the_catalogue_s_processors() {
    // One core moves at most what all of them do; all cores of a node move what its memories do, or are held back by themselves; twice the ranks have
    // half each where memory binds.
    let large = fabriscope_units::Bytes(1 << 34);
    let mut seen = 0;
    for parts in clusters().filter(|parts| parts.uniform().is_some()) {
        let Some(node) = Target::of(&parts, PAIR, Binding::default()).processor else { continue };
        let all = node.all_cores();
        let (one, together) = (node.pace(1, 1, large).rate.as_bps(), node.pace(1, all, large).rate.as_bps());
        let memories = node.memory.as_bps() * u64::from(node.sockets);
        assert!(one <= together && together <= memories, "{}: {one}, {together} of {memories}", parts.name);
        if together == memories {
            assert_eq!(node.pace(2, all, large).rate.as_bps(), memories / 2, "{}", parts.name);
        }
        seen += 1;
    }
    assert!(seen >= 5, "{seen} clusters whose memory is known");
}
