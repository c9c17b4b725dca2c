//! The folder of a run: what programs load, and the files that tell them of the machine they are on. It goes with the run.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use fabriscope_catalog::ResolvedCluster;
use fabriscope_engine::Cluster;
use fabriscope_platform::Target;
use fabriscope_verbs::Lid;

use crate::cm::abi;
use crate::device::Device;
use crate::error::LiveError;
use crate::process;
use crate::{Clock, STAND_IN};

/// A folder with the stand-in in it.
pub(crate) struct Folder {
    of: tempfile::TempDir,
    stand_in: PathBuf,
    libraries: PathBuf,
}

impl Folder {
    /// Makes it, in memory where there is a place for that.
    pub fn create() -> Result<Folder, LiveError> {
        let of = folder()?;
        let stand_in = of.path().join("libfabriscope_live.so");
        fs::write(&stand_in, STAND_IN).map_err(|error| LiveError::Folder { path: stand_in.clone(), error })?;
        let libraries = libraries(&of.path().join("lib"), &stand_in)?;
        Ok(Folder { of, stand_in, libraries })
    }
    pub fn path(&self) -> &Path {
        self.of.path()
    }
    /// Of a file or folder in it.
    pub fn at(&self, name: &str) -> PathBuf {
        self.of.path().join(name)
    }
    /// Of the files that programs on a host find instead of the machine's.
    pub fn of_host(&self, host: &str) -> PathBuf {
        self.at("hosts").join(host)
    }
    /// Variables of every program on `host`.
    pub fn variables(&self, host: &str) -> [(&'static str, OsString); 3] {
        [
            ("LD_PRELOAD", before("LD_PRELOAD", &self.stand_in)),
            ("LD_LIBRARY_PATH", before("LD_LIBRARY_PATH", &self.libraries)),
            ("FABRISCOPE_LIVE_HOST", self.of_host(host).into()),
        ]
    }
    /// Lays down the files that tell programs of their machine, and gives the adapters of each host; `address` says where a host is found.
    pub fn hosts(
        &self,
        clock: Clock,
        (cluster, target): (&Cluster, &Target),
        (names, seats): (&[String], &[u32]),
        address: impl Fn(u32) -> u32,
    ) -> Result<Vec<Vec<Device>>, LiveError> {
        let everybody: String =
            (0..).zip(names).map(|(node, name)| format!("{}\t{name}\n", std::net::Ipv4Addr::from(address(node)))).collect();
        let machine = [("proc/cpuinfo", cpuinfo(&cluster.parts)), ("etc/hosts", format!("127.0.0.1\tlocalhost\n{everybody}"))];
        let of_host = |(seat, name): (&u32, &String)| {
            let lids = cluster.parts.endpoints_of(*seat).unwrap_or_default().map(Lid);
            let devices = Device::of_node((&cluster.parts, name), target, lids);
            let files = HostFiles(self.of_host(name));
            machine.iter().try_for_each(|(file, text)| files.write(file, text))?;
            files.write("etc/hostname", &format!("{name}\n"))?;
            files.devices(clock, &devices)?;
            Ok(devices)
        };
        seats.iter().zip(names).map(of_host).collect()
    }
    /// Until `ended` is called, whoever tells the program to end calls `end`.
    pub fn begin(&self, end: impl Fn() + Send + 'static) {
        *CURRENT.lock().unwrap_or_else(PoisonError::into_inner) = Some((self.path().to_owned(), Box::new(end)));
    }
    /// All programs of the run have ended. Where that was because somebody told this program to end, it is about to.
    pub fn ended(&self) {
        CURRENT.lock().unwrap_or_else(PoisonError::into_inner).take();
        while ABANDONED.load(Ordering::SeqCst) {
            std::thread::park();
        }
    }
}

/// The files of one host.
struct HostFiles(PathBuf);

impl HostFiles {
    fn write(&self, file: &str, text: &str) -> Result<(), LiveError> {
        self.make(file, |path| fs::write(path, text))
    }
    /// A device that anybody may open: nothing is asked of it.
    fn link(&self, name: &str) -> Result<(), LiveError> {
        self.make(&format!("dev/infiniband/{name}"), |path| std::os::unix::fs::symlink("/dev/null", path))
    }
    fn make(&self, file: &str, make: impl Fn(&Path) -> std::io::Result<()>) -> Result<(), LiveError> {
        let path = self.0.join(file);
        let folder = path.parent().map_or(Ok(()), fs::create_dir_all);
        folder.and_then(|()| make(&path)).map_err(|error| LiveError::Folder { path, error })
    }
    /// What tells of adapters. The managers of connections and of the subnet are there in virtual time only.
    fn devices(&self, clock: Clock, devices: &[Device]) -> Result<(), LiveError> {
        let managed = clock == Clock::Virtual;
        if managed {
            self.write("sys/class/infiniband_mad/abi_version", "5\n")?;
            self.write("sys/class/misc/rdma_cm/abi_version", &format!("{}\n", abi::VERSION))?;
            self.link("rdma_cm")?;
            self.make("var/cache/opensm", |path| fs::create_dir_all(path))?;
        }
        for (number, device) in devices.iter().enumerate() {
            device.files().iter().try_for_each(|(file, text)| self.write(file, text))?;
            self.link(&format!("uverbs{number}"))?;
            if managed {
                for file in [format!("umad{number}"), format!("issm{number}")] {
                    self.link(&file)?;
                    self.write(&format!("sys/class/infiniband_mad/{file}/ibdev"), &format!("{}\n", device.name()))?;
                    self.write(&format!("sys/class/infiniband_mad/{file}/port"), "1\n")?;
                }
            }
        }
        Ok(())
    }
}

/// The folder of a run, and how its programs are ended.
type Current = (PathBuf, Box<dyn Fn() + Send>);

/// The run that is on, for [`abandon`].
static CURRENT: Mutex<Option<Current>> = Mutex::new(None);

/// Somebody ended it.
static ABANDONED: AtomicBool = AtomicBool::new(false);

/// Ends the programs of the run that is on, and removes its folder: for whoever is told to end in the middle of it.
pub fn abandon() {
    let run = CURRENT.lock().unwrap_or_else(PoisonError::into_inner).take();
    let Some((folder, end)) = run else { return };
    ABANDONED.store(true, Ordering::SeqCst);
    end();
    drop(fs::remove_dir_all(folder));
}

/// Names under which programs need libraries that may not be installed, and that the stand-in is as well.
const LIBRARIES: [&str; 2] = ["libnccl.so.2", "libcudart.so.12"];

/// A folder in which the stand-in has those names.
fn libraries(folder: &Path, stand_in: &Path) -> Result<PathBuf, LiveError> {
    let make = || {
        fs::create_dir_all(folder)?;
        LIBRARIES.iter().try_for_each(|name| std::os::unix::fs::symlink(stand_in, folder.join(name)))
    };
    make().map_err(|error| LiveError::Folder { path: folder.to_owned(), error })?;
    Ok(folder.to_owned())
}

/// A list of the environment with this in front.
#[expect(clippy::disallowed_methods, reason = "what the caller has loaded into programs stays")]
fn before(name: &str, first: &Path) -> OsString {
    let mut list = first.as_os_str().to_owned();
    if let Some(others) = std::env::var_os(name).filter(|others| !others.is_empty()) {
        list.push(":");
        list.push(others);
    }
    list
}

/// A folder of the run, in memory where there is one for that; it goes with the run.
fn folder() -> Result<tempfile::TempDir, LiveError> {
    let prefix = format!("{FOLDER}{}-", std::process::id());
    let make = |at: &Path| {
        clear_after_others(at);
        tempfile::Builder::new().prefix(&prefix).tempdir_in(at)
    };
    let (memory, files) = (Path::new("/dev/shm"), std::env::temp_dir());
    make(memory).or_else(|_| make(&files)).map_err(|error| LiveError::Folder { path: files, error })
}

/// Names of folders of runs begin so, with the number of their process behind it.
const FOLDER: &str = "fabriscope-";

/// Removes what runs left that were killed.
fn clear_after_others(at: &Path) {
    for entry in fs::read_dir(at).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let pid = name.strip_prefix(FOLDER).and_then(|rest| rest.split('-').next()).and_then(|pid| pid.parse::<u32>().ok());
        if pid.is_some_and(process::is_gone) {
            drop(fs::remove_dir_all(entry.path()));
        }
    }
}

/// What a shell makes of the status of a process.
pub(crate) fn shell_status(status: i32) -> i32 {
    if libc::WIFSIGNALED(status) { 128 + libc::WTERMSIG(status) } else { libc::WEXITSTATUS(status) }
}

/// Rate of the time stamp counter of a cluster's nodes, in kHz.
pub(crate) fn tsc(parts: &ResolvedCluster) -> u64 {
    parts.sole().node.cpu.clock.as_hz() / 1000
}

fn cpuinfo(parts: &ResolvedCluster) -> String {
    let (node, khz) = (&parts.sole().node, tsc(parts));
    let core = |number: u32| {
        let (whole, part) = (khz / 1000, khz % 1000);
        format!(
            "processor\t: {number}\nvendor_id\t: GenuineIntel\nmodel name\t: {}\ncpu MHz\t\t: {whole}.{part:03}\nflags\t\t: tsc constant_tsc nonstop_tsc rdtscp\n\n",
            node.cpu.title
        )
    };
    (0..node.cpu.cores.saturating_mul(node.sockets)).map(core).collect()
}
