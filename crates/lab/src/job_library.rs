//! The message-passing libraries of jobs: which one carries the messages of a job, with its costs on each of the job's hosts.
//!
//! Modelled: eager messages over reliable connections, as [`fabriscope_engine::Library`] has them. A job without a library posts to the
//! verbs itself. Not modelled: the rendezvous of longer messages, which benchmark programs have.

use fabriscope_catalog::{Catalog, Interface, NodeGroup, Problem, ResolvedCluster, Software};
use fabriscope_engine::{Library, library_on};
use fabriscope_units::Bytes;

use crate::jobs::{Job, Jobs};

/// The library of a job, with its costs at each host.
#[derive(Clone, Debug, PartialEq)]
pub struct JobLibrary {
    /// The name of its part.
    pub name: String,
    /// Host by host, sorted.
    pub hosts: Vec<(u32, Library)>,
}

/// In place of the name of a library: that of the job's own nodes.
const OWN: &str = "own";

/// The library of each job that has one.
///
/// # Errors
/// No such library, one that does not say what connections take, messages longer than it sends at once, one host with two libraries.
pub(crate) fn libraries(catalog: &Catalog, work: &Jobs, cluster: &ResolvedCluster) -> Result<Vec<Option<JobLibrary>>, Problem> {
    let mut found: Vec<Option<JobLibrary>> = Vec::with_capacity(work.jobs.len());
    for (number, job) in work.jobs.iter().enumerate() {
        let within = |problem: Problem| ["jobs", "jobs", "workload"].iter().fold(problem.under(&number.to_string()), |p, key| p.under(key));
        let library = of(catalog, job, cluster).map_err(within)?;
        for (other, theirs) in work.jobs.iter().zip(&found) {
            let name = |library: &Option<JobLibrary>| library.as_ref().map(|library| library.name.clone());
            let shared = job.hosts.among(cluster.endpoints()).find(|host| other.hosts.among(cluster.endpoints()).any(|o| o == *host));
            if let (Some(host), true) = (shared, name(theirs) != name(&library)) {
                let told = |library: Option<String>| library.unwrap_or_else(|| "the verbs".to_owned());
                let (one, two) = (told(name(theirs)), told(name(&library)));
                let message = format!("host {host} is in `{}` over {one} and in `{}` over {two}", other.name, job.name);
                return Err(within(Problem::at(&["software"], message, "give the jobs other hosts, or the same library")));
            }
        }
        found.push(library);
    }
    Ok(found)
}

fn of(catalog: &Catalog, job: &Job, cluster: &ResolvedCluster) -> Result<Option<JobLibrary>, Problem> {
    let Some(asked) = &job.software else { return Ok(None) };
    let wrong = |key: &str, message: String, help: String| Problem::at(&[key], message, help);
    let named = if asked == OWN { None } else { Some(catalog.software(asked).map_err(|error| unknown(&error))?) };
    let mut hosts: Vec<u32> = job.hosts.among(cluster.endpoints()).collect();
    hosts.sort_unstable();
    let (mut name, mut library) = (None::<&str>, Vec::with_capacity(hosts.len()));
    for host in hosts {
        let Some((group, ..)) = cluster.adapter_at(host) else { continue };
        let group = &cluster.groups[group];
        let software = named.unwrap_or(&group.software);
        if let Some(other) = name.filter(|other| *other != software.name) {
            let message = format!("`{}` has nodes with `{other}` and with `{}`, which cannot talk", job.name, software.name);
            return Err(wrong("software", message, "name one library, or hosts of one group".to_owned()));
        }
        name = Some(&software.name);
        library.push((host, on(software, group, job, cluster.mtu)?));
    }
    Ok(name.map(|name| JobLibrary { name: name.to_owned(), hosts: library }))
}

/// A library on one of the job's hosts.
fn on(software: &Software, group: &NodeGroup, job: &Job, mtu: Bytes) -> Result<Library, Problem> {
    let name = &software.name;
    let driven = group.node.nic.interface;
    if software.interface != Interface::Verbs || driven != Interface::Verbs {
        let message = format!("`{name}` over {} on `{}`, which is driven through {driven}", software.interface, group.node.nic.name);
        return Err(Problem::at(&["software"], message, "use a library and adapters over verbs, or leave `software` out"));
    }
    let Some(library) = software.mpi.as_ref().and_then(|_| library_on(software, group, mtu)) else {
        let help = "use a library with [mpi.connections], for example software = \"mvapich2-2.3.7\" or \"openmpi-ucx\"";
        return Err(Problem::at(&["software"], format!("`{name}` does not say what connections take"), help));
    };
    let eager = software.mpi.as_ref().map_or(Bytes::ZERO, |mpi| *mpi.eager_limit);
    let most = Bytes(eager.as_u64().min(library.queues.buffer.as_u64().saturating_sub(library.header.as_u64())));
    if job.size > most {
        let message = format!("a message of {} is longer than the {most} that `{name}` sends at once", job.size);
        let help = "use shorter messages: the rendezvous of longer ones is not modelled here; or leave `software` out";
        return Err(Problem::at(&["size"], message, help));
    }
    Ok(library)
}

fn unknown(error: &fabriscope_catalog::CatalogError) -> Problem {
    let help = match error {
        fabriscope_catalog::CatalogError::UnknownPart { help, .. } => help.clone(),
        _ => "write the name of a library, or \"own\" for that of the nodes".to_owned(),
    };
    Problem::at(&["software"], error.to_string(), help)
}
