//! Why a file is not a fabric.

/// Why a file cannot be read as a fabric.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, miette::Diagnostic)]
#[non_exhaustive]
pub enum ImportError {
    /// Not text.
    #[error("the file is not text: byte {offset} is no part of a character")]
    #[diagnostic(help("give the text that ibnetdiscover prints, or the same compressed by gzip"))]
    Binary {
        /// Where the text ends.
        offset: usize,
    },
    /// Damaged compression.
    #[error("the file is compressed by gzip and damaged ({what})")]
    #[diagnostic(help("copy it again"))]
    Damaged {
        /// What the decompression says.
        what: String,
    },
    /// None of the formats.
    #[error("the file is none of the formats known here")]
    #[diagnostic(help(
        "give the output of ibnetdiscover, a file of ibsim, opensm-subnet.lst, topology.conf or topology.yaml of Slurm, a cabling plan in dot, a topology of htsim, HPCC or SimAI, or an edge list of lines `a b [rate] [delay]`"
    ))]
    Unknown,
    /// Forwarding tables without a fabric.
    #[error("the file holds forwarding tables, not a fabric")]
    #[diagnostic(help("give the fabric itself, and the tables with it"))]
    ForwardingTables,
    /// Nothing in it.
    #[error("the file describes no switch and no adapter")]
    #[diagnostic(help("is it complete?"))]
    Empty,
    /// A line that contradicts the rest.
    #[error("line {line}: {mistake}")]
    #[diagnostic(forward(mistake))]
    Line {
        /// Counted from 1.
        line: u32,
        /// What is wrong.
        mistake: Mistake,
    },
    /// The cables do not make a fabric.
    #[error(transparent)]
    #[diagnostic(transparent)]
    Graph(#[from] crate::GraphError),
    /// No endpoint to send from.
    #[error("no host is connected")]
    #[diagnostic(help("a fabric needs at least one adapter with a cable"))]
    NoHosts,
    /// Parts that do not see each other.
    #[error("the fabric falls apart: {name} and {others} more cannot be reached from {from}")]
    #[diagnostic(help("import the parts one by one, or add the missing cables"))]
    Disconnected {
        /// One that cannot be reached.
        name: String,
        /// How many more there are.
        others: u32,
        /// From where.
        from: String,
    },
}

/// What is wrong with a line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, miette::Diagnostic)]
#[non_exhaustive]
pub enum Mistake {
    /// The same GUID or name twice.
    #[error("`{id}` was described before, in line {before}")]
    #[diagnostic(help("each device has one block: remove one of them"))]
    Twice {
        /// GUID or name.
        id: String,
        /// Line of the first block.
        before: u32,
    },
    /// A port with two cables.
    #[error("port {port} of `{id}` has a cable already, in line {before}")]
    #[diagnostic(help("a port takes one cable"))]
    PortTwice {
        /// Whose port.
        id: String,
        /// Which port.
        port: u16,
        /// Line of the first cable.
        before: u32,
    },
    /// A port beyond those of the device.
    #[error("`{id}` has {ports} ports, there is no port {port}")]
    #[diagnostic(help("correct the port or the number of ports"))]
    NoSuchPort {
        /// Whose port.
        id: String,
        /// Ports it has.
        ports: u16,
        /// Which port.
        port: u16,
    },
    /// The far end is not described.
    #[error("the cable leads to `{id}`, which the file does not describe")]
    #[diagnostic(help("is the file cut off?"))]
    NoSuchDevice {
        /// The far end.
        id: String,
    },
    /// Two ends that do not agree.
    #[error("port {port} of `{id}` is plugged into port {far_port} of `{far}`, but line {before} says that port leads elsewhere")]
    Disagree {
        /// This end.
        id: String,
        /// Its port.
        port: u16,
        /// The far end.
        far: String,
        /// Its port.
        far_port: u16,
        /// The line of the far end.
        before: u32,
    },
    /// A cable before any device.
    #[error("a cable before the first switch or adapter")]
    #[diagnostic(help("is the beginning of the file missing?"))]
    Homeless,
    /// A number that is none.
    #[error("`{text}` is no {what}")]
    #[diagnostic(help("{expected}"))]
    Number {
        /// What stands there.
        text: String,
        /// What should.
        what: &'static str,
        /// What would be accepted.
        expected: &'static str,
    },
    /// A statement of ibsim that is not read.
    #[error("`{word}` of ibsim is not read")]
    #[diagnostic(help("expand the file with ibsim and ibnetdiscover first"))]
    Unsupported {
        /// The statement.
        word: String,
    },
    /// A list of hosts that cannot be read.
    #[error("the list `{list}` is no list of hosts: {why}")]
    Hostlist {
        /// Its beginning.
        list: String,
        /// Why not.
        why: &'static str,
    },
    /// A file of another plugin of Slurm.
    #[error("this is for Slurm's topology/{plugin}, which names groups of nodes but no switches")]
    #[diagnostic(help("give the file of topology/tree"))]
    NoTree {
        /// The plugin.
        plugin: &'static str,
    },
    /// Something that the format does not allow.
    #[error("{what} cannot be read")]
    #[diagnostic(help("{remedy}"))]
    Malformed {
        /// What stands there.
        what: String,
        /// What to do.
        remedy: &'static str,
    },
    /// A switch that is not described.
    #[error("`{child}` is below `{switch}`, but no line describes it")]
    #[diagnostic(help("add a line for `{child}`, or correct the name"))]
    NoSuchChild {
        /// The switch above.
        switch: String,
        /// The one that is missing.
        child: String,
    },
    /// The same switch twice below another.
    #[error("`{switch}` has one of its switches below it twice")]
    #[diagnostic(help("name each once: the format has no place for parallel cables"))]
    BelowTwice {
        /// The switch above.
        switch: String,
    },
    /// Nodes listed for a switch that are not those of the switches below it.
    #[error("the nodes of `{switch}` are not those of the switches below it: `{node}` is {}", if *below { "below it and not listed" } else { "listed and not below it" })]
    #[diagnostic(help("print all of the topology: `scontrol show topology` without a name, and without SLURM_TOPO_LEN"))]
    NodesDiffer {
        /// The switch.
        switch: String,
        /// The first node that is in one of the two lists alone.
        node: String,
        /// Whether it is one of a switch below.
        below: bool,
    },
    /// Switches above each other.
    #[error("switches are above each other in a cycle: {path}")]
    #[diagnostic(help("remove one of these lines"))]
    Cycle {
        /// Their names; the first is also the last.
        path: String,
    },
    /// A node at two leaves.
    #[error("`{node}` is a node of `{other}` already, in line {before}")]
    #[diagnostic(help("a node has one leaf switch in a tree: keep one, or give the cables with their ports"))]
    TwoLeaves {
        /// The node.
        node: String,
        /// Its first switch.
        other: String,
        /// Where that is described.
        before: u32,
    },
    /// More cables than ports can be numbered.
    #[error("`{id}` has more than {most} cables")]
    #[diagnostic(help("is a range of names mistyped?"))]
    TooManyCables {
        /// Whose.
        id: String,
        /// Ports that can be numbered.
        most: u16,
    },
    /// A port with two cables, where ports have names.
    #[error("port `{port}` of `{id}` has a cable already, in line {before}")]
    #[diagnostic(help("a port takes one cable"))]
    NamedPortTwice {
        /// Whose port.
        id: String,
        /// What it is called.
        port: String,
        /// Line of the first cable.
        before: u32,
    },
}
