//! What threads ask: the numbers of `shim/channel.h`.

use fabriscope_units::Time;

/// One question, with the posts in front of it.
#[derive(Debug, Clone)]
pub(crate) struct Question {
    pub op: Option<Op>,
    pub args: [i64; 8],
    /// Work since the last answer or post, in ps.
    pub spent: u64,
    pub posts: Vec<u64>,
    pub data: Vec<u8>,
}

macro_rules! ops {
    ($($name:ident = $number:literal,)*) => {
        /// What is asked.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(crate) enum Op { $($name,)* }

        impl Op {
            /// The one with this number.
            pub fn of(number: u32) -> Option<Op> {
                match number {
                    $($number => Some(Op::$name),)*
                    _ => None,
                }
            }
        }
    };
}

ops! {
    Hello = 1,
    Yield = 2,
    Sleep = 3,
    ExitThread = 4,
    ExitProcess = 5,
    NewThread = 6,
    NewProcess = 7,
    WaitTask = 8,
    WaitWord = 9,
    WakeWord = 10,
    WaitChild = 11,
    RealPid = 12,
    NotBegun = 13,
    Look = 14,
    Interrupt = 15,
    Kill = 16,
    Socket = 32,
    Bind = 33,
    Listen = 34,
    Connect = 35,
    Accept = 36,
    Send = 37,
    Recv = 38,
    Shutdown = 39,
    Close = 40,
    Dup = 41,
    Poll = 42,
    Name = 43,
    SocketError = 45,
    Resolve = 46,
    Devices = 64,
    Port = 65,
    AllocPd = 66,
    DeallocPd = 67,
    RegMr = 68,
    DeregMr = 69,
    CreateCq = 70,
    DestroyCq = 71,
    NotifyCq = 72,
    CreateChannel = 73,
    DestroyChannel = 74,
    CqEvent = 75,
    CreateSrq = 76,
    ModifySrq = 77,
    DestroySrq = 78,
    CreateQp = 79,
    ModifyQp = 80,
    QueryQp = 81,
    DestroyQp = 82,
    CreateAh = 83,
    DestroyAh = 84,
    Attach = 85,
    Detach = 86,
    OpenXrcd = 87,
    PollCq = 88,
    AsyncEvent = 89,
    Post = 90,
    CmOpen = 91,
    CmCall = 92,
    ReregMr = 93,
    Gpu = 94,
    MadOpen = 95,
    MadSend = 96,
    MadReceive = 97,
    MadRegister = 98,
    MadUnregister = 99,
    DatagramSocket = 100,
    CloseXrcd = 110,
    OpenQp = 111,
    PollSet = 112,
}

/// An answer.
#[derive(Debug, Clone, Default)]
pub(crate) struct Answer {
    /// Below zero an error number.
    pub result: i64,
    pub args: Vec<i64>,
    pub data: Vec<u8>,
}

impl Answer {
    /// A number.
    pub fn number(result: i64) -> Answer {
        Answer { result, ..Answer::default() }
    }
    /// An error number of the operating system.
    pub fn error(errno: i32) -> Answer {
        Answer::number(-i64::from(errno))
    }
}

impl From<Result<i64, i32>> for Answer {
    fn from(result: Result<i64, i32>) -> Answer {
        match result {
            Ok(number) => Answer::number(number),
            Err(errno) => Answer::error(errno),
        }
    }
}

/// What a call gives that may have to wait.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Outcome<T> {
    /// It is done.
    Done(T),
    /// Not before that, or not before somebody does something.
    Wait(Option<Time>),
    /// An error number.
    Failed(i32),
}

/// What `modify_qp` takes, by the bits of `enum ibv_qp_attr_mask`.
pub(crate) mod mask {
    pub const STATE: u32 = 1;
    pub const ACCESS: u32 = 1 << 3;
    pub const PKEY: u32 = 1 << 4;
    pub const PORT: u32 = 1 << 5;
    pub const QKEY: u32 = 1 << 6;
    pub const AV: u32 = 1 << 7;
    pub const MTU: u32 = 1 << 8;
    pub const TIMEOUT: u32 = 1 << 9;
    pub const RETRY: u32 = 1 << 10;
    pub const RNR_RETRY: u32 = 1 << 11;
    pub const RQ_PSN: u32 = 1 << 12;
    pub const READS: u32 = 1 << 13;
    pub const ALT_PATH: u32 = 1 << 14;
    pub const RNR_TIMER: u32 = 1 << 15;
    pub const SQ_PSN: u32 = 1 << 16;
    pub const DEST_READS: u32 = 1 << 17;
    pub const MIGRATION: u32 = 1 << 18;
    pub const DEST_QPN: u32 = 1 << 20;
    pub const RATE: u32 = 1 << 25;
}
