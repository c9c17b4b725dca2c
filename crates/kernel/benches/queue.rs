//! Hold model: take the next event, push it again up to 500 ns later; the number of pending events stays.
//!
//! One operation is one pop with one push, payload 32 bytes. The bucket width is chosen for the density.

#![allow(missing_docs, reason = "the macro of the bench harness makes public functions")]

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::hint::black_box;

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use fabriscope_kernel::EventQueue;
use fabriscope_streams::Streams;
use fabriscope_units::{Span, Time};

type Payload = [u64; 4];
const INCREMENT: u64 = 500_000;
const OPERATIONS: u64 = 1_000_000;

/// A cheap generator, so that the queue is measured and not the random numbers.
struct Xorshift(u64);
impl Xorshift {
    fn increment(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        ((self.0 >> 32) * INCREMENT) >> 32
    }
}

fn hold(c: &mut Criterion) {
    for (pending, bucket_ps) in [(1_000u64, 1u64 << 13), (100_000, 1 << 8), (1_000_000, 1 << 8), (100_000, 1 << 16)] {
        let mut group = c.benchmark_group(format!("hold {pending}, bucket {bucket_ps} ps"));
        group.throughput(Throughput::Elements(OPERATIONS)).sample_size(10);
        let mut stream = Streams::new(1).stream("bench", pending);
        let times: Vec<u64> = (0..pending).map(|_| stream.below(INCREMENT)).collect();

        let mut queue = EventQueue::<Payload>::new(Span::from_ps(bucket_ps), 4096);
        times.iter().for_each(|ps| queue.push(Time::from_ps(*ps), [*ps; 4]));
        let mut random = Xorshift(88172645463325252);
        group.bench_function("bucket queue", |b| {
            b.iter_batched(
                || (),
                |()| {
                    for _ in 0..OPERATIONS {
                        if let Some((time, event)) = queue.pop() {
                            queue.push(time + Span::from_ps(random.increment()), black_box(event));
                        }
                    }
                },
                BatchSize::PerIteration,
            );
        });

        let mut heap: BinaryHeap<Reverse<(u64, u64, Payload)>> = times.iter().map(|ps| Reverse((*ps, 0, [*ps; 4]))).collect();
        let mut sequence = 0;
        group.bench_function("binary heap", |b| {
            b.iter_batched(
                || (),
                |()| {
                    for _ in 0..OPERATIONS {
                        if let Some(Reverse((ps, _, event))) = heap.pop() {
                            sequence += 1;
                            heap.push(Reverse((ps + random.increment(), sequence, black_box(event))));
                        }
                    }
                },
                BatchSize::PerIteration,
            );
        });
        group.finish();
    }
}

criterion_group!(benches, hold);
criterion_main!(benches);
