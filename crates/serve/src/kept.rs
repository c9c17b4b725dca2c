//! Answers at hand: the same question has the same answer, so that it need not be asked twice.

use std::sync::Arc;

use indexmap::IndexMap;

/// Answers by question, the one that was asked for longest ago first.
#[derive(Debug, Default)]
pub(crate) struct Kept {
    answers: IndexMap<String, Arc<[u8]>>,
    bytes: usize,
}

impl Kept {
    /// The answer to a question.
    pub(crate) fn get(&mut self, question: &str) -> Option<Arc<[u8]>> {
        let (place, _, answer) = self.answers.get_full(question)?;
        let answer = Arc::clone(answer);
        let last = self.answers.len() - 1;
        self.answers.move_index(place, last);
        Some(answer)
    }

    /// Keeps an answer; those that were not asked for make room.
    pub(crate) fn insert(&mut self, question: String, answer: Arc<[u8]>) {
        let size = |question: &str, answer: &[u8]| question.len() + answer.len();
        let own = size(&question, &answer);
        if own > MOST_BYTES / 4 {
            return;
        }
        self.bytes += own;
        if let Some((question, before)) = self.answers.shift_remove_entry(&question) {
            self.bytes = self.bytes.saturating_sub(size(&question, &before));
        }
        self.answers.insert(question, answer);
        while self.bytes > MOST_BYTES
            && let Some((question, answer)) = self.answers.shift_remove_index(0)
        {
            self.bytes = self.bytes.saturating_sub(size(&question, &answer));
        }
    }
}

/// Bytes of all answers. Basis: assumed; some thousand answers.
const MOST_BYTES: usize = 64 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_asked_for_makes_room() {
        let mut kept = Kept::default();
        let large: Arc<[u8]> = vec![0; MOST_BYTES / 5].into();
        for number in 0..4 {
            kept.insert(number.to_string(), Arc::clone(&large));
        }
        assert!(kept.get("0").is_some());
        kept.insert("4".to_owned(), Arc::clone(&large));
        kept.insert("5".to_owned(), large);
        assert!(kept.get("1").is_none() && kept.get("0").is_some() && kept.get("5").is_some());
        // One that would put out all others is not kept.
        kept.insert("huge".to_owned(), vec![0; MOST_BYTES].into());
        assert!(kept.get("huge").is_none() && kept.get("0").is_some());
    }
}
