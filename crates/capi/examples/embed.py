"""What another simulator asks, by ctypes: a message, an all-reduce over sizes, an incast. See docs/embed.md.

python3 embed.py LIBRARY, such as target/release/libfabriscope_c.so.
"""

import ctypes
import sys
from ctypes import POINTER, Structure, byref, c_char_p, c_int, c_size_t, c_uint32, c_uint64, c_void_p

WRITE, SEND, READ = range(3)
ALLREDUCE, MPI = 0, 0
AUTO, PACKET, FLOW = range(3)
ADAPTER_ORDER = 0


class Flow(Structure):
    _fields_ = [
        ("source", c_uint32),
        ("target", c_uint32),
        ("source_adapter", c_uint32),
        ("target_adapter", c_uint32),
        ("bytes", c_uint64),
        ("start_ps", c_uint64),
    ]


library = ctypes.CDLL(sys.argv[1])


def declare(name, result, *arguments):
    function = getattr(library, name)
    function.restype, function.argtypes = result, arguments
    return function


# The text of an error is given back: it is a pointer here, not the bytes that ctypes would copy.
abi_version = declare("fabriscope_abi_version", c_uint32)
cluster_open = declare("fabriscope_cluster_open", c_int, c_char_p, POINTER(c_void_p), POINTER(c_void_p))
cluster_free = declare("fabriscope_cluster_free", None, c_void_p)
nodes = declare("fabriscope_nodes", c_uint32, c_void_p)
cores_per_node = declare("fabriscope_cores_per_node", c_uint32, c_void_p)
message_ps = declare(
    "fabriscope_message_ps", c_int, c_void_p, c_uint32, c_uint32, c_uint64, c_int, POINTER(c_uint64), POINTER(c_void_p)
)
collective_ps = declare(
    "fabriscope_collective_ps",
    c_int, c_void_p, c_int, c_int, c_uint32, c_uint32, c_uint64, c_int, POINTER(c_uint64), POINTER(c_void_p),
)  # fmt: skip
flows_run = declare(
    "fabriscope_flows_run",
    c_int, c_void_p, POINTER(Flow), c_size_t, c_int, c_int, c_uint64, POINTER(c_uint64), POINTER(c_void_p),
)  # fmt: skip
text_free = declare("fabriscope_text_free", None, c_void_p)


def call(function, *arguments):
    """Calls a function whose last argument receives the text of an error."""
    error = c_void_p()
    if function(*arguments, byref(error)) != 0:
        text = ctypes.string_at(error.value).decode()
        text_free(error)
        raise RuntimeError(text)


def opened(target):
    cluster = c_void_p()
    call(cluster_open, target.encode(), byref(cluster))
    print(f"{target}: {nodes(cluster)} nodes of {cores_per_node(cluster)} cores")
    return cluster


def time(function, *arguments):
    picoseconds = c_uint64()
    call(function, *arguments, byref(picoseconds))
    return picoseconds.value


def completions(cluster, flows, engine):
    done = (c_uint64 * len(flows))()
    call(flows_run, cluster, flows, len(flows), engine, ADAPTER_ORDER, 1, done)
    return done


assert abi_version() == 1, "the library has another interface than this program"

cluster = opened("azure-hc44rs")
for operation, name in [(WRITE, "write"), (SEND, "send"), (READ, "read")]:
    took = time(message_ps, cluster, 0, 9, 4096, operation)
    print(f"{name:5} of 4096 B from node 0 to node 9 {took:12} ps")
for size in [8, 128, 2048, 32768]:
    took = time(collective_ps, cluster, ALLREDUCE, MPI, 8, 2, size, AUTO)
    print(f"all-reduce of {size:5} B among 8 x 2 ranks {took:12} ps")

flows = (Flow * 8)(*(Flow(sender + 1, 0, 0, 0, 65536, sender * 1_000_000) for sender in range(8)))
packets, rates = completions(cluster, flows, PACKET), completions(cluster, flows, FLOW)
print("incast of 65536 B each: from, start, done by packets, done by rates (ps)")
for flow, packet, rate in zip(flows, packets, rates):
    print(f"{flow.source:4} {flow.start_ps:12} {packet:12} {rate:12}")
cluster_free(cluster)
