//! The words used everywhere: kinds, causes, roles. The same word in code, JSON, hover and docs.

use serde::{Deserialize, Serialize};

macro_rules! words {
    ($(#[$meta:meta])* $name:ident { $($(#[$doc:meta])* $variant:ident = $word:literal),+ $(,)? }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        pub enum $name { $($(#[$doc])* #[serde(rename = $word)] $variant),+ }

        impl $name {
            /// Every word, in order.
            pub const ALL: &'static [$name] = &[$($name::$variant),+];

            /// The word as it is written in pages, JSON and docs.
            pub fn as_str(self) -> &'static str {
                match self { $($name::$variant => $word),+ }
            }

            /// The value of a word.
            pub fn parse(word: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|value| value.as_str() == word)
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.as_str())
            }
        }
    };
}

words! {
    /// What sort of event a finding is.
    Kind {
        /// Device memory, any framework.
        Oom = "oom",
        /// System RAM, cgroup, oom-killer, shared memory.
        HostOom = "host-oom",
        /// Collectives and their plumbing.
        Nccl = "nccl",
        /// Non-finite numbers, overflow, divergence.
        Nan = "nan",
        /// Run-time errors of the device API.
        CudaError = "cuda-error",
        /// Xid, ECC, NVLink, thermal.
        Hardware = "hardware",
        /// Segfault, bus error, abnormal exit.
        Crash = "crash",
        /// Launchers, schedulers, driver mismatch, ports.
        Launch = "launch",
        /// Growth and imbalance of memory.
        Leak = "leak",
        /// Tables and series: information.
        Report = "report",
    }
}

words! {
    /// How bad a finding is.
    Severity {
        /// It killed or poisoned the run.
        Error = "error",
        /// It needs attention and may be survived.
        Warning = "warning",
        /// A reading aid.
        Info = "info",
    }
}

words! {
    /// How sure the finding is.
    Confidence {
        /// The text says it.
        High = "high",
        /// The text implies it.
        Medium = "medium",
        /// A guess that says so.
        Low = "low",
    }
}

words! {
    /// The part a finding plays in the story of the run.
    Role {
        /// The line that explains the others.
        RootCause = "root-cause",
        /// It only followed.
        Consequence = "consequence",
        /// The same event once more.
        Repeat = "repeat",
        /// It corroborates another finding.
        Confirmation = "confirmation",
        /// Worth knowing; the run went on, or it ended nothing.
        Context = "context",
    }
}

words! {
    /// What became of the run after an event.
    #[derive(Default)]
    Outcome {
        /// It ended the run, or went down with it.
        Terminal = "terminal",
        /// It was handled, retried or skipped, or the run was started again.
        Recovered = "recovered",
        /// Step lines with finite losses follow.
        WentOn = "went-on",
        /// The text does not tell.
        #[default]
        Unresolved = "unresolved",
    }
}

words! {
    /// Why: one word a cause.
    #[derive(Default)]
    Cause {
        /// One allocation too large for this card.
        SingleHugeAllocation = "single-huge-allocation",
        /// Unused reserve could hold the request, but not in one piece.
        Fragmentation = "fragmentation",
        /// The card is honestly full.
        DeviceFull = "device-full",
        /// Memory of the card is held by others.
        OtherProcess = "other-process",
        /// A limit below the card.
        MemoryLimit = "memory-limit",
        /// The KV cache does not fit.
        KvCache = "kv-cache",
        /// System memory ran out.
        HostRam = "host-ram",
        /// `/dev/shm` is full or too small.
        SharedMemory = "shared-memory",
        /// A file system is full, or a quota is used up.
        DiskFull = "disk-full",
        /// Page-locked host memory.
        PinnedMemory = "pinned-memory",
        /// Waited too long.
        Timeout = "timeout",
        /// Ranks ran different collectives.
        Desync = "desync",
        /// A connection failed.
        Connection = "connection",
        /// A peer process ended first.
        PeerDied = "peer-died",
        /// Sizes, versions or shapes disagree.
        Mismatch = "mismatch",
        /// The first non-finite number.
        NanOnset = "nan-onset",
        /// Non-finite from the first line that is seen.
        NanOngoing = "nan-ongoing",
        /// Gradients overflowed.
        Overflow = "overflow",
        /// Loss or gradient left its band.
        Divergence = "divergence",
        /// A kernel touched memory that is not its own.
        IllegalAccess = "illegal-access",
        /// A device-side assertion.
        Assert = "assert",
        /// A misaligned address.
        Misaligned = "misaligned",
        /// A kernel failed without saying why.
        LaunchFailure = "launch-failure",
        /// The build has no code for this GPU.
        NoKernelImage = "no-kernel-image",
        /// Memory error of the device.
        Ecc = "ecc",
        /// NVLink or NVSwitch.
        Nvlink = "nvlink",
        /// PCIe: the device is gone.
        Bus = "bus",
        /// Too hot.
        Thermal = "thermal",
        /// Power supply or cap.
        Power = "power",
        /// Firmware of the device.
        Firmware = "firmware",
        /// The driver.
        Driver = "driver",
        /// Driver and library versions do not go together.
        DriverMismatch = "driver-mismatch",
        /// SIGSEGV.
        Segfault = "segfault",
        /// SIGBUS.
        BusError = "bus-error",
        /// SIGABRT.
        Abort = "abort",
        /// SIGILL.
        IllegalInstruction = "illegal-instruction",
        /// The heap was damaged.
        HeapCorruption = "heap-corruption",
        /// Ended by another signal.
        Signal = "signal",
        /// SIGKILL, sender unknown.
        Killed = "killed",
        /// A Python exception.
        Exception = "exception",
        /// The port is taken.
        PortInUse = "port-in-use",
        /// Ranks did not find each other.
        Rendezvous = "rendezvous",
        /// Settings that cannot work.
        Misconfiguration = "misconfiguration",
        /// An internal error of a library.
        Internal = "internal",
        /// A monitor heard nothing from a thread.
        Heartbeat = "heartbeat",
        /// The scheduler's time limit.
        TimeLimit = "time-limit",
        /// Preempted by the scheduler.
        Preemption = "preemption",
        /// Cancelled by a person.
        Cancelled = "cancelled",
        /// A node failed.
        NodeFailure = "node-failure",
        /// Memory climbs and never falls.
        MemoryGrowth = "memory-growth",
        /// Memory is much larger behind one part of a step than before it.
        MemoryJump = "memory-jump",
        /// One card far above the others.
        Imbalance = "imbalance",
        /// Alive, but not working.
        Stalled = "stalled",
        /// No such device.
        MissingDevice = "missing-device",
        /// A feature is not in this build.
        NotCompiled = "not-compiled",
        /// Cleaning up after a failure.
        Teardown = "teardown",
        /// Tried again and went on.
        Retry = "retry",
        /// The text does not tell.
        #[default]
        Unknown = "unknown",
    }
}
