//! The queue against the plain heap that it has to agree with.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use fabriscope_kernel::EventQueue;
use fabriscope_units::{Span, Time};
use proptest::prelude::*;

/// A heap of (time, insertion): slow and evidently right.
#[derive(Default)]
struct Reference {
    heap: BinaryHeap<Reverse<(Time, u32)>>,
    inserted: u32,
}

impl Reference {
    fn push(&mut self, time: Time) -> u32 {
        self.heap.push(Reverse((time, self.inserted)));
        self.inserted += 1;
        self.inserted - 1
    }
    fn pop(&mut self) -> Option<(Time, u32)> {
        self.heap.pop().map(|Reverse(event)| event)
    }
}

#[derive(Debug, Clone)]
enum Step {
    Push(u64),
    Again,
    Pop(u16),
    Window(u64),
    Peek,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        2 => Just(Step::Push(0)),
        4 => (0u64..20).prop_map(Step::Push),
        6 => (0u64..600).prop_map(Step::Push),
        3 => (0u64..100_000).prop_map(Step::Push),
        1 => (0u64..1 << 45).prop_map(Step::Push),
        4 => Just(Step::Again),
        9 => Just(Step::Pop(1)),
        1 => (0u16..60).prop_map(Step::Pop),
        2 => (0u64..2_000).prop_map(Step::Window),
        2 => Just(Step::Peek),
    ];
    prop::collection::vec(step, 0..600)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn hands_out_events_like_a_heap(bucket in prop::sample::select(vec![1u64, 3, 16, 64, 1000, 1 << 20]), buckets in prop::sample::select(vec![1usize, 2, 8, 64, 300, 8192]), start in prop::sample::select(vec![0u64, 12_345, u64::MAX / 4]), steps in steps()) {
        let mut queue = EventQueue::new(Span::from_ps(bucket), buckets);
        let mut reference = Reference::default();
        let mut last = Time::from_ps(start);
        // After a window nothing is pushed before its end.
        let mut floor = Time::ZERO;
        queue.push(last, reference.push(last));
        for step in steps {
            match step {
                Step::Push(ahead) => {
                    last = queue.now().max(floor) + Span::from_ps(ahead);
                    queue.push(last, reference.push(last));
                }
                // The same time as the push before, from another moment: ties across ring and overflow.
                Step::Again => {
                    last = last.max(queue.now()).max(floor);
                    queue.push(last, reference.push(last));
                }
                Step::Pop(times) => for _ in 0..times {
                    let ahead = queue.peek_ahead(0).copied();
                    let popped = queue.pop();
                    prop_assert_eq!(popped, reference.pop());
                    if let (Some(ahead), Some((time, event))) = (ahead, popped) {
                        prop_assert_eq!((ahead, time), (event, queue.now()));
                    }
                },
                Step::Window(length) => {
                    floor = queue.now().max(floor) + Span::from_ps(length);
                    while let Some(event) = queue.pop_before(floor) {
                        prop_assert_eq!(Some(event), reference.pop());
                    }
                    prop_assert!(reference.heap.peek().is_none_or(|Reverse((time, _))| *time >= floor));
                }
                Step::Peek => prop_assert_eq!(queue.peek_time(), reference.heap.peek().map(|Reverse((time, _))| *time)),
            }
            prop_assert_eq!(queue.len(), reference.heap.len());
            prop_assert_eq!(queue.is_empty(), reference.heap.is_empty());
        }
        while let Some(event) = reference.pop() {
            prop_assert_eq!(queue.pop(), Some(event));
        }
        prop_assert_eq!(queue.pop(), None);
        prop_assert_eq!(queue.peek_time(), None);
    }

    /// Thousands of events in one bucket that feeds itself: the compaction keeps the order.
    #[test]
    fn a_bucket_that_feeds_itself_keeps_the_order(increments in prop::collection::vec(0u64..40, 1..50)) {
        let mut queue = EventQueue::new(Span::from_us(1000), 4);
        let mut reference = Reference::default();
        for n in 0..20_000 {
            let time = queue.now() + Span::from_ps(increments[n % increments.len()]);
            queue.push(time, reference.push(time));
            if n % 8 != 0 || n > 2_000 {
                prop_assert_eq!(queue.pop(), reference.pop());
            }
        }
    }
}

#[test]
fn a_tie_between_overflow_and_ring_keeps_the_order_of_insertion() {
    // Reach 4 × 16 ps. The first event at 100 ps waits in the overflow, the second is pushed when 100 ps is in reach.
    let mut queue = EventQueue::new(Span::from_ps(16), 4);
    queue.push(Time::from_ps(100), "first, from afar");
    queue.push(Time::from_ps(60), "clock");
    assert_eq!(queue.pop(), Some((Time::from_ps(60), "clock")));
    queue.push(Time::from_ps(100), "second, from near");
    assert_eq!(queue.pop(), Some((Time::from_ps(100), "first, from afar")));
    queue.push(Time::from_ps(100), "third, into the open bucket");
    assert_eq!(queue.pop(), Some((Time::from_ps(100), "second, from near")));
    assert_eq!(queue.pop(), Some((Time::from_ps(100), "third, into the open bucket")));
    assert_eq!(queue.now(), Time::from_ps(100));
}

#[test]
fn the_end_of_time_can_be_scheduled() {
    let mut queue = EventQueue::new(Span::from_ps(1), 2);
    queue.push(Time::MAX, 'z');
    queue.push(Time::ZERO, 'a');
    queue.push(Time::MAX, 'y');
    let order: Vec<char> = std::iter::from_fn(|| queue.pop()).map(|(_, event)| event).collect();
    assert_eq!(order, ['a', 'z', 'y']);
}

#[test]
fn looking_ahead_sees_the_open_bucket_only() {
    let mut queue = EventQueue::new(Span::from_ps(16), 4);
    for (ps, event) in [(3, 'c'), (1, 'a'), (2, 'b'), (20, 'd')] {
        queue.push(Time::from_ps(ps), event);
    }
    assert_eq!(queue.pop().map(|(_, event)| event), Some('a'));
    assert_eq!((queue.peek_ahead(0), queue.peek_ahead(1), queue.peek_ahead(2)), (Some(&'b'), Some(&'c'), None));
    assert_eq!(queue.peek_time(), Some(Time::from_ps(2)));
}

#[test]
#[cfg(debug_assertions)]
#[should_panic(expected = "the past cannot change")]
fn the_past_cannot_change() {
    let mut queue = EventQueue::new(Span::from_ps(16), 4);
    queue.push(Time::from_ps(100), ());
    queue.pop();
    queue.push(Time::from_ps(99), ());
}

#[test]
#[cfg(not(debug_assertions))]
fn a_late_event_comes_at_once_and_the_clock_stays() {
    let mut queue = EventQueue::new(Span::from_ps(16), 4);
    queue.push(Time::from_ps(100), 'a');
    queue.pop();
    queue.push(Time::from_ps(99), 'b');
    assert_eq!(queue.pop(), Some((Time::from_ps(100), 'b')));
}
