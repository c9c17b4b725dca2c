//! A set of hosts, written as `"0-7, 12"`.

use std::fmt;

use schemars::JsonSchema;
use serde::de::{self, Deserializer};
use serde::{Deserialize, Serialize, Serializer};

/// Hosts by number, in the order written: adapter *a* of node *n* is host *n* · adapters of a node + *a*.
#[derive(Clone, Debug, Default, PartialEq, Eq, JsonSchema)]
#[schemars(transparent)]
pub struct HostSet(#[schemars(with = "String")] Vec<(u32, u32)>);

impl HostSet {
    /// Reads numbers and ranges; `"all"` is every host.
    ///
    /// # Errors
    /// What is wrong with the text, and the remedy after a semicolon.
    pub fn parse(text: &str) -> Result<HostSet, String> {
        if text.trim() == "all" {
            return Ok(HostSet(vec![(0, u32::MAX)]));
        }
        let range = |part: &str| -> Option<(u32, u32)> {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let (first, last) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
            (first <= last).then_some((first, last))
        };
        let told = |part: &str| {
            range(part).ok_or_else(|| format!("`{}` is no host or range of hosts; write for example \"0-7, 12\", or \"all\"", part.trim()))
        };
        text.split(',').filter(|part| !part.trim().is_empty()).map(told).collect::<Result<_, _>>().map(HostSet)
    }

    /// The hosts below `count`, in the order written.
    pub fn among(&self, count: u32) -> impl Iterator<Item = u32> + '_ {
        self.0.iter().flat_map(move |&(first, last)| first..last.saturating_add(1).min(count))
    }
    /// Whether a host is in it.
    pub fn contains(&self, host: u32) -> bool {
        self.0.iter().any(|&(first, last)| (first..=last).contains(&host))
    }
    /// A host named that is not below `count`.
    pub fn beyond(&self, count: u32) -> Option<u32> {
        self.0.iter().map(|&(_, last)| last).find(|&last| last != u32::MAX && last >= count)
    }
    /// Whether it names nobody.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Display for HostSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, &(first, last)) in self.0.iter().enumerate() {
            f.write_str(if number > 0 { ", " } else { "" })?;
            match (first, last) {
                (0, u32::MAX) => f.write_str("all")?,
                (first, last) if first == last => write!(f, "{first}")?,
                (first, last) => write!(f, "{first}-{last}")?,
            }
        }
        Ok(())
    }
}

impl Serialize for HostSet {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for HostSet {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<HostSet, D::Error> {
        let text = String::deserialize(deserializer)?;
        HostSet::parse(&text).map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_of_hosts() {
        let set = HostSet::parse("8, 0-2,2").unwrap();
        assert_eq!(set.among(9).collect::<Vec<_>>(), [8, 0, 1, 2, 2]);
        assert_eq!((set.to_string().as_str(), set.contains(3), set.beyond(8), set.beyond(9)), ("8, 0-2, 2", false, Some(8), None));
        let all = HostSet::parse("all").unwrap();
        assert_eq!((all.among(3).collect::<Vec<_>>(), all.beyond(3), all.to_string()), (vec![0, 1, 2], None, "all".to_owned()));
        assert!(HostSet::parse("3-1").is_err() && HostSet::parse("a").is_err());
    }
}
