//! What a program calls, by what it calls: GPUs, managed memory, sockets.

mod datagram;
mod device;
mod managed;
mod socket;
mod work;
