//! A number that each host has: one for all where nodes are alike, which costs no look-up.

/// A value of each host.
#[derive(Debug, Clone)]
pub(crate) enum PerHost<T> {
    /// The same for all.
    Same(T),
    /// By host.
    Each(Box<[T]>),
}

impl<T: Copy> PerHost<T> {
    /// That of a host.
    #[inline(always)]
    pub fn of(&self, host: u32) -> T {
        match self {
            PerHost::Same(value) => *value,
            PerHost::Each(values) => values[host as usize],
        }
    }
}
