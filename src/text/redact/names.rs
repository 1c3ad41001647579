//! Where a log shows the names of users and hosts.

use std::sync::LazyLock;

use regex::Regex;

/// A separator of a path: of Unix and Windows, in a URL, in JSON.
macro_rules! separator {
    () => {
        r"(?:/+|\\+|%2[Ff]|\\u002[Ff])"
    };
}

/// A folder that holds a folder for each user.
///
/// `home` and `users` at most three folders below the root: deeper ones belong to packages.
const HOMES: &str = concat!(
    r"(?P<keep>(?:^|[^\w.~/\\-])(?:[A-Za-z]:|\\\\\w+)?(?:",
    separator!(),
    r"[\w.-]+){0,3}?",
    separator!(),
    r"(?:home|homes|[Uu]sers|u|Documents and Settings|Dokumente und Einstellungen)",
    separator!(),
    r")(?P<user>[^\s/\\%:\x22'`,;<>()|\[\]]+(?: [^\s/\\%:\x22'`,;<>()|\[\]]+[/\\])?)"
);

/// A file system for all users, whose folders are mostly named after them.
const SCRATCHES: &str =
    r"(?P<keep>(?:^|[^\w./-])/(?:mnt/)?(?:scratch|netscratch|fsx|lustre|gpfs|beegfs|ceph|weka|work)\d*/)(?P<user>[\w.-]+)";

/// `~name/`.
const TILDE: &str = r"(?P<keep>(?:^|[\s=:\x22'(])~)(?P<user>[A-Za-z_][\w.-]*)";

/// Places that show a host's name.
const HOSTS: [&str; 18] = [
    // NCCL: node017:1234:5678 [0] NCCL INFO
    r"(?m)^(?:\[[^\]\n]*\] |\S+ )?([A-Za-z0-9][\w.-]*):\d+:\d+ \[\d+\] (?:\S+ )?NCCL ",
    // torchrun's summary
    r"(?m)^\s*(?:\[\d+\]:\s*)?host\s+: ([A-Za-z0-9][\w.-]+)",
    r#"(?i)\b(?:host_?name|node_?list|node_?name|on host|master_addr|master_host|rdzv_?host)["']?\s*[=:]\s*["']?([A-Za-z][\w.-]+)"#,
    r#""host"\s*:\s*"([A-Za-z][\w.-]+)""#,
    r"(?i)\brdzv[_-](?:endpoint|conf)[=: ]+([A-Za-z][\w.-]+):\d",
    r"\b(?:tcp|rdma|ucx|grpc|ray|nccl)://([A-Za-z0-9][\w.-]*)",
    // Slurm
    r"\bslurmstepd-([A-Za-z0-9][\w.-]*):",
    r"\bsrun: error: ([A-Za-z0-9][\w.-]*)(?:,\S*)?: task",
    r"\bsrun: error: \S*,([A-Za-z0-9][\w.-]*): task",
    r"\b(?:STEP|JOB) \S+ ON ([A-Za-z0-9][\w.-]*) (?:CANCELLED|FAILED|EXITED)",
    r"(?i)\bnode failure on ([A-Za-z0-9][\w.-]*)",
    // syslog
    r"(?m)^(?:\w{3} [ \d]\d \d\d:\d\d:\d\d|\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\S*) ([A-Za-z0-9][\w.-]*) [\w./-]+(?:\[\d+\])?:",
    // user@host:~$ and ssh user@host
    r"(?m)^(?:\([\w.-]+\) )?\[?[a-z_][\w-]*@([A-Za-z0-9][\w.-]*)[: ][^\n]{0,80}[$#] ",
    r"\b(?:ssh|scp|rsync)\b[^\n]{0,120}?\s[\w.-]+@([A-Za-z0-9][\w.-]*)",
    // Ray and NCCL's sockets
    r"\bpid=\d+, ip=([A-Za-z][\w.-]*)",
    r"\b(?:peer|to|from) ([A-Za-z][\w.-]*)<\d+>",
    // [host]:29500 and (host, 29500)
    r"\[([A-Za-z0-9][\w.-]*[A-Za-z][\w.-]*)\]:\d{2,5}\b",
    r"\(['\x22]?([A-Za-z][\w-]*(?:\d|\.[A-Za-z])[\w.-]*)['\x22]?, \d{2,5}\)",
];

/// Places that show a host's name, or a part of a machine.
const LIKELY_HOSTS: [&str; 4] = [
    r#"(?i)(?:^|[^\[\w])(?:node|host|server|peer)["']?\s*[=:]\s*["']?([A-Za-z][\w.-]*\d[\w.-]*)"#,
    // Names that are mostly given to nodes
    r"(?i)\b(?:on|from|to|at|by|with|node|host|peer) ((?:[a-z]+-)*(?:node|nid|compute|dgx|hgx|ip-)[\w-]*\d[\w.-]*)",
    // Inside a domain of its own
    r"\b([A-Za-z0-9][\w-]*(?:\.[\w-]+)*\.(?:internal|local|localdomain|lan|corp|cluster|compute|intra|edu|gov|mil|example(?:\.com|\.org|\.net)?))\b",
    r"\b([A-Za-z][\w-]*(?:\.[\w-]+){2,}):\d{2,5}\b",
];

/// Places that show a user's name.
const USERS: [&str; 9] = [
    r"(?m)^(?:\([\w.-]+\) )?\[?([a-z_][\w-]*)@[A-Za-z0-9][\w.-]*[: ][^\n]{0,80}[$#] ",
    r#"(?i)\b(?:user|username|user_name|logname|slurm_job_user|owner)["']?\s*[=:]\s*['"]?([A-Za-z_][\w.-]{2,})"#,
    r#"(?i)\buser(?:name)? ['"]([A-Za-z_][\w.-]{2,})['"]"#,
    r"wandb: Currently logged in as: ([A-Za-z_][\w.-]*)",
    r"\bwandb\.ai/([\w.-]+)/",
    r"\bhuggingface\.co/(?:datasets/|spaces/)?([\w.-]+)/",
    r"\b(?:uid|gid|groups)=\d+\(([A-Za-z_][\w.-]*)\)",
    r"\b(?:ssh|scp|rsync)\b[^\n]{0,120}?\s([\w.-]+)@[A-Za-z0-9]",
    r"(?m)^[dl-][rwxsStT-]{9}[.+@]?\s+\d+\s+([A-Za-z_][\w.-]*)\s",
];

/// The patterns, compiled.
pub(super) struct Patterns {
    /// A home folder: what stays is the group `keep`, the name is the group `user`.
    pub home: Regex,
    /// Folders that are mostly named after a user, and masked only where they stand.
    pub folders: Vec<Regex>,
    /// The name is group 1.
    pub hosts: Vec<Regex>,
    /// The name is group 1, unless it is one of a part of a machine.
    pub likely_hosts: Vec<Regex>,
    /// The name is group 1.
    pub users: Vec<Regex>,
    /// Slurm's short form of many nodes: stem and numbers.
    pub node_list: Regex,
    /// What may be an IPv4 address; group 1.
    pub address: Regex,
    /// What may be a shortened IPv6 address.
    pub address6: Regex,
    /// Colours and titles for a terminal, raw or as JSON writes them.
    pub escapes: Regex,
}

/// The patterns; `None` when one does not compile.
pub(super) static PATTERNS: LazyLock<Option<Patterns>> = LazyLock::new(|| {
    let all = |patterns: &mut dyn Iterator<Item = &&str>| patterns.map(|p| Regex::new(p).ok()).collect::<Option<Vec<_>>>();
    Some(Patterns {
        home: Regex::new(HOMES).ok()?,
        folders: all(&mut [SCRATCHES, TILDE].iter())?,
        hosts: all(&mut HOSTS.iter())?,
        likely_hosts: all(&mut LIKELY_HOSTS.iter())?,
        users: all(&mut USERS.iter())?,
        node_list: Regex::new(r"(?P<stem>[A-Za-z][\w.-]*)\[(?P<numbers>[\d,-]+)\]").ok()?,
        address: Regex::new(r"(?:^|[^\d.])(\d{1,3}\.\d{1,3}\.\d{1,3}\.\d{1,3})(?:[^\d.]|\.(?:\D|$)|$)").ok()?,
        address6: Regex::new(r"[0-9A-Fa-f]{0,4}(?::[0-9A-Fa-f]{0,4}){2,7}").ok()?,
        escapes: Regex::new(r"(?:\x1b|\\u001[bB]|\\x1b|\\033)\[[0-9;?]*[A-Za-z]|\x1b\][^\x07\x1b\n]*(?:\x07|\x1b\\)?").ok()?,
    })
});
