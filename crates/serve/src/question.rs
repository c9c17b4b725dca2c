//! What the page asks, as the query of its address: `view=benchmark&cluster=ri2&tool=osu_bw&link=fdr`.
//!
//! Modelled: everything that an answer depends on, in one order, so that equal questions have one address and one answer.
//! Not modelled: files. A question names clusters of the catalogue alone; nobody reads or writes files of the server by asking.

use std::fmt::Write;

use fabriscope_tools::amount;

use crate::change::Changes;
use crate::refused::Refused;

/// What the page asks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Question {
    /// What is to be seen.
    pub view: View,
    /// A cluster of the catalogue; of unlike nodes, with `:` and the name of a group.
    pub cluster: String,
    /// Parts in the place of those that the cluster has.
    pub changes: Changes,
    /// Seed of everything random.
    pub seed: u64,
}

/// What is to be seen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum View {
    /// What a tool prints, and its curves.
    Benchmark(Job),
    /// Where the time goes, and what one change would save.
    Explain {
        /// The tool.
        job: Job,
        /// Bytes of the message; the usual ones where nothing is said.
        size: Option<u64>,
    },
    /// The topology with the loads of its links under a pattern of traffic.
    Links {
        /// The name of the pattern in a lab.
        pattern: Pattern,
        /// Bytes of each message.
        bytes: u64,
    },
}

/// A tool with its options, and how many ranks it has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Job {
    /// The tool.
    pub tool: String,
    /// Its own options.
    pub options: Vec<String>,
    /// Nodes of the job.
    pub nodes: Option<u32>,
    /// Ranks on each of them.
    pub ranks: Option<u32>,
}

/// A pattern of traffic between all hosts of a cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pattern {
    /// Its name in a lab, and in a question.
    pub name: &'static str,
    /// What people read.
    pub title: &'static str,
    /// Keys of the lab besides the size.
    pub keys: &'static str,
}

/// The patterns that can be chosen.
pub const PATTERNS: [Pattern; 6] = [
    Pattern { name: "permutation", title: "Permutation: each to one other", keys: "" },
    Pattern { name: "shift", title: "Shift: each to the next but one half of all", keys: "by = {half}\n" },
    Pattern { name: "all_to_all", title: "All to all", keys: "" },
    Pattern { name: "incast", title: "Incast: many to one", keys: "senders = {most}\n" },
    Pattern { name: "ring", title: "Ring: each to the next", keys: "" },
    Pattern { name: "hot_spot", title: "Hot spot: a tenth to one host", keys: "share = 0.1\nmessages = 20\n" },
];

impl Question {
    /// The question that a query asks.
    ///
    /// # Errors
    /// A key that there is not, a number that is none, nothing named.
    pub fn parse(query: &str) -> Result<Question, Refused> {
        if query.len() > LONGEST {
            return Err(Refused::told(format!("a question of {} characters", query.len()), format!("ask in at most {LONGEST}")));
        }
        let mut fields = Fields::default();
        let mut changes = Changes::default();
        for (key, value) in form_urlencoded::parse(query.as_bytes()) {
            let value = value.trim();
            if value.is_empty() {
                continue;
            }
            if value.chars().any(char::is_control) {
                return Err(Refused::told(format!("`{key}` has characters that cannot be seen"), "type it again by hand"));
            }
            if !changes.take(&key, value)? {
                fields.take(&key, value)?;
            }
        }
        fields.question(changes)
    }

    /// The query that asks this.
    #[must_use]
    pub fn query(&self) -> String {
        let mut query = form_urlencoded::Serializer::new(String::new());
        query.append_pair("view", self.view.name()).append_pair("cluster", &self.cluster);
        match &self.view {
            View::Benchmark(job) => job.append(&mut query),
            View::Explain { job, size } => {
                job.append(&mut query);
                if let Some(size) = size {
                    query.append_pair("size", &size.to_string());
                }
            }
            View::Links { pattern, bytes } => {
                query.append_pair("pattern", pattern.name).append_pair("bytes", &bytes.to_string());
            }
        }
        for (change, value) in self.changes.iter() {
            query.append_pair(change.name, value);
        }
        if self.seed != 1 {
            query.append_pair("seed", &self.seed.to_string());
        }
        query.finish()
    }

    /// The same on the cluster as it is.
    #[must_use]
    pub fn unchanged(&self) -> Question {
        Question { changes: Changes::default(), ..self.clone() }
    }
}

impl View {
    /// The name in a query.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            View::Benchmark(_) => "benchmark",
            View::Explain { .. } => "explain",
            View::Links { .. } => "links",
        }
    }
}

impl Job {
    fn append(&self, query: &mut form_urlencoded::Serializer<'_, String>) {
        query.append_pair("tool", &self.tool);
        if !self.options.is_empty() {
            query.append_pair("options", &self.options.join(" "));
        }
        for (name, number) in [("nodes", self.nodes), ("ranks", self.ranks)] {
            if let Some(number) = number {
                query.append_pair(name, &number.to_string());
            }
        }
    }

    /// The command line behind `fabriscope bench` or `explain`, on this cluster.
    #[must_use]
    pub fn words(&self, on: &str) -> String {
        let mut line = format!("{} --on {on}", self.tool);
        for (name, number) in [("--nodes", self.nodes), ("--ppn", self.ranks)] {
            if let Some(number) = number {
                // Writing to a string cannot fail.
                let _ = write!(line, " {name} {number}");
            }
        }
        line
    }
}

/// What was said, by key.
#[derive(Default)]
struct Fields {
    view: Option<String>,
    cluster: Option<String>,
    tool: Option<String>,
    options: Option<String>,
    nodes: Option<u32>,
    ranks: Option<u32>,
    size: Option<u64>,
    pattern: Option<String>,
    bytes: Option<u64>,
    seed: Option<u64>,
}

impl Fields {
    fn take(&mut self, key: &str, value: &str) -> Result<(), Refused> {
        let text = || Some(value.to_owned());
        match key {
            "view" => self.view = text(),
            "cluster" => self.cluster = text(),
            "tool" => self.tool = text(),
            "options" => self.options = text(),
            "pattern" => self.pattern = text(),
            "nodes" => self.nodes = Some(count(key, value)?),
            "ranks" => self.ranks = Some(count(key, value)?),
            "size" => self.size = Some(bytes(key, value)?),
            "bytes" => self.bytes = Some(bytes(key, value)?),
            "seed" => {
                self.seed = Some(value.parse().map_err(|_| Refused::told(format!("the seed is `{value}`"), "write a whole number"))?);
            }
            _ => {
                let known = "view, cluster, tool, options, nodes, ranks, size, pattern, bytes, seed";
                let changes: Vec<&str> = crate::change::CHANGES.iter().map(|change| change.name).collect();
                return Err(Refused::told(format!("a question has no `{key}`"), format!("it has {known}, and {}", changes.join(", "))));
            }
        }
        Ok(())
    }

    fn question(self, changes: Changes) -> Result<Question, Refused> {
        let cluster = self.cluster.ok_or_else(|| Refused::told("no cluster is named", "choose one"))?;
        let whole = cluster.split(':').next().unwrap_or_default();
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        let is_file = [".toml", ".yaml", ".yml"].iter().any(|end| whole.ends_with(end));
        if is_file || !whole.chars().all(plain) {
            return Err(Refused::told(
                format!("`{cluster}` is no cluster of the catalogue"),
                "name one of the list; --catalog FOLDER of the server adds your own",
            ));
        }
        let tool = self.tool;
        let (options, nodes, ranks) = (self.options.unwrap_or_default(), self.nodes, self.ranks);
        // Files of the server are nobody's business.
        if options.contains(fabriscope::TUNER_FILE) {
            let message = format!("{} names a file of the server", fabriscope::TUNER_FILE);
            return Err(Refused::told(message, "give the lines themselves: --tuner-line LINE"));
        }
        let job = || {
            let tool = tool.ok_or_else(|| Refused::told("no tool is named", "choose one"))?;
            Ok(Job { tool, options: options.split_whitespace().map(str::to_owned).collect(), nodes, ranks })
        };
        let view = match self.view.as_deref().unwrap_or("benchmark") {
            "benchmark" => View::Benchmark(job()?),
            "explain" => View::Explain { job: job()?, size: self.size },
            "links" => {
                let name = self.pattern.as_deref().unwrap_or(PATTERNS[0].name);
                let known = || PATTERNS.map(|pattern| pattern.name).join(", ");
                let pattern = PATTERNS.into_iter().find(|pattern| pattern.name == name);
                let pattern =
                    pattern.ok_or_else(|| Refused::told(format!("there is no pattern `{name}`"), format!("choose {}", known())))?;
                View::Links { pattern, bytes: self.bytes.unwrap_or(USUAL_MESSAGE).max(1) }
            }
            other => return Err(Refused::told(format!("there is no view `{other}`"), "ask for benchmark, explain or links")),
        };
        Ok(Question { view, cluster, changes, seed: self.seed.unwrap_or(1) })
    }
}

fn count(key: &str, value: &str) -> Result<u32, Refused> {
    value
        .parse()
        .ok()
        .filter(|count| *count > 0)
        .ok_or_else(|| Refused::told(format!("`{key}` is `{value}`"), "write a whole number from 1 on"))
}

fn bytes(key: &str, value: &str) -> Result<u64, Refused> {
    amount(value).ok_or_else(|| Refused::told(format!("`{key}` is `{value}`"), "write bytes as 65536, 64K (powers of 1024), 64KiB or 64kB"))
}

/// Characters of a question.
const LONGEST: usize = 4096;
/// Bytes of each message of a pattern.
pub const USUAL_MESSAGE: u64 = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(query: &str) -> String {
        Question::parse(query).unwrap_err().to_string()
    }

    #[test]
    fn equal_questions_have_one_query() {
        let asked = Question::parse("nodes=&tool=osu_bw&cluster=ri2&options=-m++8:64K&link=fdr").unwrap();
        assert_eq!(asked.query(), "view=benchmark&cluster=ri2&tool=osu_bw&options=-m+8%3A64K&link=fdr");
        assert_eq!(Question::parse(&asked.query()).unwrap(), asked);
        let asked = Question::parse("view=links&cluster=lab-16&pattern=incast&bytes=64K&seed=2").unwrap();
        assert_eq!(asked.query(), "view=links&cluster=lab-16&pattern=incast&bytes=65536&seed=2");
        let asked = Question::parse("view=explain&cluster=lumi:lumi-c&tool=osu_latency&nodes=2&ranks=1&size=8").unwrap();
        assert_eq!(Question::parse(&asked.query()).unwrap(), asked);
    }

    #[test]
    fn bad_questions_are_refused_by_name() {
        assert_eq!(refused(""), "no cluster is named");
        assert_eq!(refused("cluster=ri2"), "no tool is named");
        assert_eq!(refused("cluster=ri2&tool=osu_bw&nodes=-1"), "`nodes` is `-1`");
        assert_eq!(refused("cluster=ri2&tool=osu_bw&nodes=99999999999"), "`nodes` is `99999999999`");
        assert_eq!(refused("cluster=ri2&tool=osu_bw&bytes=many"), "`bytes` is `many`");
        assert_eq!(refused("cluster=ri2&tool=osu_bw&colour=red"), "a question has no `colour`");
        assert_eq!(refused("cluster=ri2&view=all"), "there is no view `all`");
        assert_eq!(refused("cluster=ri2&view=links&pattern=storm"), "there is no pattern `storm`");
        assert_eq!(refused("cluster=ri2&tool=osu%00bw"), "`tool` has characters that cannot be seen");
        assert!(refused(&"x".repeat(5000)).starts_with("a question of 5000"));
        let tuned = "cluster=ri2&tool=all_reduce_perf&options=--env+NCCL_TUNER_CONFIG_FILE%3D/etc/passwd";
        assert_eq!(refused(tuned), "NCCL_TUNER_CONFIG_FILE names a file of the server");
        // Files of the server are nobody's business.
        for file in ["/etc/passwd", "../ri2.toml", "mine.toml", "mine.toml:4", "mine.yaml", "mine.yml:4"] {
            assert!(refused(&format!("cluster={file}&tool=osu_bw")).ends_with("is no cluster of the catalogue"), "{file}");
        }
    }
}
