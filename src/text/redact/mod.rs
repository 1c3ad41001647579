//! Masks what should not leave a machine: user names, host names, home paths, addresses, tokens.
//!
//! Works on whole texts before they are analysed, so that nothing that is drawn from them can carry what was masked. Line
//! numbers stay; columns are those of the masked text, and terminal colours are taken out, since they can split a name.
//! Names are learned from the places that show them (home folders, shell prompts, launcher summaries, NCCL's prefixes) and
//! masked wherever they stand as a word; the same name gets the same stand-in. What is not recognisable as a secret is not
//! masked: read the result before it is published.

mod names;
mod secrets;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::net::Ipv6Addr;
use std::ops::Range;
use std::sync::OnceLock;

use aho_corasick::{AhoCorasick, MatchKind};
use regex::{Captures, Regex};

use names::{PATTERNS, Patterns};

/// Names learned of one kind at most.
const MOST_NAMES: usize = 65_536;
/// Nodes in one short form of Slurm that are learned.
const MOST_NODES: usize = 4096;

/// Names of accounts and folders that are nobody's.
const NOBODY: [&str; 28] = [
    "user",
    "users",
    "root",
    "ubuntu",
    "runner",
    "jovyan",
    "admin",
    "shared",
    "work",
    "data",
    "public",
    "default",
    "home",
    "node",
    "models",
    "datasets",
    "projects",
    "project",
    "scratch",
    "common",
    "team",
    "software",
    "apps",
    "opt",
    "tmp",
    "cache",
    "checkpoints",
    "null",
];

/// Words of the messages themselves: a user of this name is masked in paths only, or no message would be known again.
const WORDS: [&str; 60] = [
    "runs",
    "logs",
    "train",
    "model",
    "test",
    "rank",
    "step",
    "loss",
    "cuda",
    "python",
    "conda",
    "envs",
    "none",
    "true",
    "false",
    "memory",
    "out",
    "error",
    "killed",
    "process",
    "device",
    "host",
    "nccl",
    "hip",
    "timeout",
    "nan",
    "inf",
    "grad",
    "norm",
    "gpu",
    "cpu",
    "total",
    "capacity",
    "free",
    "allocated",
    "reserved",
    "tried",
    "allocate",
    "torch",
    "runtime",
    "runtimeerror",
    "watchdog",
    "caught",
    "collective",
    "operation",
    "signal",
    "signals",
    "exit",
    "code",
    "worker",
    "warning",
    "info",
    "warn",
    "kernel",
    "slurm",
    "job",
    "the",
    "and",
    "was",
    "for",
];

/// Hosts that tell nothing about a machine.
const PUBLIC_HOSTS: [&str; 17] = [
    "localhost",
    "localhost.localdomain",
    "127.0.0.1",
    "0.0.0.0",
    "255.255.255.255",
    "huggingface.co",
    "github.com",
    "api.wandb.ai",
    "wandb.ai",
    "download.pytorch.org",
    "pytorch.org",
    "hostname",
    "unknown",
    "none",
    "null",
    "true",
    "false",
];

/// What was learned from the texts so far: the same name gets the same stand-in in all of them.
#[derive(Clone, Debug, Default)]
pub struct Redactor {
    hosts: BTreeMap<String, String>,
    users: BTreeMap<String, String>,
    addresses: BTreeMap<String, String>,
    /// More names were shown than are learned.
    is_full: bool,
    /// Finds the names; made anew after more were learned.
    finder: OnceLock<Option<Finder>>,
}

/// An automaton over all names, and the stand-in of each.
#[derive(Clone, Debug)]
struct Finder {
    automaton: AhoCorasick,
    stand_ins: Vec<String>,
}

impl Redactor {
    /// Learns the names that a text shows.
    pub fn learn(&mut self, text: &str) {
        let Some(patterns) = PATTERNS.as_ref() else { return };
        self.finder = OnceLock::new();
        let text = patterns.escapes.replace_all(text, "");
        for pattern in &patterns.hosts {
            for found in pattern.captures_iter(&text).filter_map(|c| c.get(1)) {
                self.host(found.as_str());
            }
        }
        let likely = patterns.likely_hosts.iter().flat_map(|pattern| pattern.captures_iter(&text)).filter_map(|c| c.get(1));
        for found in likely.filter(|found| !is_device(found.as_str())) {
            self.host(found.as_str());
        }
        for list in patterns.node_list.captures_iter(&text) {
            for name in expanded(&list["stem"], &list["numbers"]) {
                self.host(&name);
            }
        }
        let homes = patterns.home.captures_iter(&text).filter_map(|c| c.name("user"));
        let shown = patterns.users.iter().flat_map(|pattern| pattern.captures_iter(&text)).filter_map(|c| c.get(1));
        for found in homes.chain(shown) {
            self.user(found.as_str());
        }
        for range in addresses(&text, patterns) {
            self.is_full |= !learn(&mut self.addresses, &text[range], "ip");
        }
    }

    /// Were there more names than are learned, so that some are masked only in the paths that show them?
    pub fn is_full(&self) -> bool {
        self.is_full
    }

    /// Learns a host that stands in front of its lines.
    pub fn learn_host(&mut self, name: &str) {
        // Names of classes and processes are no hosts.
        if !name.contains(|c: char| c.is_uppercase()) && !is_device(name) {
            self.finder = OnceLock::new();
            self.host(name);
        }
    }

    fn user(&mut self, name: &str) {
        let name = trimmed(name);
        let lower = name.to_lowercase();
        if name.chars().count() > 2 && !NOBODY.contains(&lower.as_str()) && !WORDS.contains(&lower.as_str()) {
            self.is_full |= !learn(&mut self.users, name, "user");
        }
    }

    fn host(&mut self, name: &str) {
        let name = name.trim_end_matches(['.', '-']);
        let is_word = WORDS.contains(&name.to_lowercase().as_str());
        if PUBLIC_HOSTS.contains(&name) || name.len() < 3 || is_word || self.hosts.contains_key(name) {
            return;
        }
        self.is_full |= !learn(&mut self.hosts, name, "host");
        // The short name of `node1.cluster.example` is the same host.
        let short = name.split_once('.').map(|(short, _)| short).filter(|short| short.len() > 2);
        if let Some(short) = short.filter(|short| short.contains(|c: char| c.is_ascii_alphabetic()) && !self.hosts.contains_key(*short))
            && let Some(stand_in) = self.hosts.get(name).cloned()
        {
            self.hosts.insert(short.to_owned(), stand_in);
        }
    }

    /// The text with everything masked that is recognised.
    pub fn apply(&self, text: &str) -> String {
        let Some(patterns) = PATTERNS.as_ref() else { return String::new() };
        let text = patterns.escapes.replace_all(text, "");
        let Some(out) = secrets::mask(&text) else { return String::new() };
        let mut out = self.mask_folders(&patterns.home, out);
        for pattern in &patterns.folders {
            out = self.mask_folders(pattern, out);
        }
        self.replace_names(&self.mask_addresses(&out, patterns))
    }

    /// Masks the name of a user's folder where it stands, known or not.
    fn mask_folders<'t>(&self, pattern: &Regex, text: Cow<'t, str>) -> Cow<'t, str> {
        let masked = pattern.replace_all(&text, |found: &Captures<'_>| {
            let whole = &found["user"];
            let user = trimmed(whole);
            if NOBODY.contains(&user.to_lowercase().as_str()) {
                return found[0].to_owned();
            }
            let name = self.users.get(user).map_or("someone", String::as_str);
            format!("{}{name}{}", &found["keep"], &whole[user.len()..])
        });
        match masked {
            Cow::Owned(masked) => Cow::Owned(masked),
            Cow::Borrowed(_) => text,
        }
    }

    fn mask_addresses(&self, text: &str, patterns: &Patterns) -> String {
        let mut out = String::with_capacity(text.len());
        let mut at = 0;
        for range in addresses(text, patterns) {
            if range.start < at {
                continue;
            }
            out.push_str(&text[at..range.start]);
            out.push_str(self.addresses.get(&text[range.clone()]).map_or("ip", String::as_str));
            at = range.end;
        }
        out.push_str(&text[at..]);
        out
    }

    fn made_finder(&self) -> Option<Finder> {
        let (names, stand_ins): (Vec<&String>, Vec<String>) =
            self.hosts.iter().chain(&self.users).map(|(name, stand_in)| (name, stand_in.clone())).unzip();
        let automaton = AhoCorasick::builder().match_kind(MatchKind::LeftmostLongest).build(names).ok()?;
        Some(Finder { automaton, stand_ins })
    }

    /// Replaces the learned names where they stand as words.
    fn replace_names(&self, text: &str) -> String {
        let Some(finder) = self.finder.get_or_init(|| self.made_finder()) else { return String::new() };
        let mut out = String::with_capacity(text.len());
        let mut at = 0;
        for found in finder.automaton.find_iter(text) {
            if found.start() < at || !is_word(text, found.start(), found.end()) {
                continue;
            }
            out.push_str(&text[at..found.start()]);
            out.push_str(&finder.stand_ins[found.pattern().as_usize()]);
            at = found.end();
        }
        out.push_str(&text[at..]);
        out
    }
}

/// Gives a name the next stand-in of its kind; `false` when there are too many.
fn learn(known: &mut BTreeMap<String, String>, name: &str, kind: &str) -> bool {
    if known.contains_key(name) {
        return true;
    }
    if known.len() >= MOST_NAMES {
        return false;
    }
    known.insert(name.to_owned(), format!("{kind}{}", known.len() + 1));
    true
}

/// A user's name as a path shows it: without what a sentence or the next folder adds.
fn trimmed(name: &str) -> &str {
    name.trim_end_matches(['.', '-', '/', '\\'])
}

/// `gpu0`, `rank3`, `cuda1`: parts of a machine, which a log cannot do without.
fn is_device(name: &str) -> bool {
    const PARTS: [&str; 14] =
        ["gpu", "rank", "cuda", "cpu", "npu", "xpu", "worker", "step", "stage", "layer", "ib", "eth", "mlx5_", "nvme"];
    PARTS.iter().any(|part| name.strip_prefix(part).is_some_and(|rest| rest.len() < 3 && rest.bytes().all(|b| b.is_ascii_digit())))
}

/// The nodes of Slurm's short form: `node`, `01-03,7` are `node01`, `node02`, `node03`, `node7`.
fn expanded(stem: &str, numbers: &str) -> Vec<String> {
    let mut out = Vec::new();
    for part in numbers.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (Ok(from), Ok(to)) = (first.parse::<usize>(), last.parse::<usize>()) else { continue };
        let width = first.len();
        out.extend((from..=to).take(MOST_NODES).map(|number| format!("{stem}{number:0width$}")));
    }
    out
}

/// Is this range a word of its own? Parts of identifiers stay.
fn is_word(text: &str, start: usize, end: usize) -> bool {
    let part = |c: char| c.is_alphanumeric() || c == '_';
    !text[..start].ends_with(part) && !text[end..].starts_with(part)
}

/// Where network addresses stand. Version numbers of four parts below 256 cannot be told apart from them.
fn addresses(text: &str, patterns: &Patterns) -> Vec<Range<usize>> {
    let valid = |address: &str| address.split('.').all(|part| part.parse::<u8>().is_ok()) && !PUBLIC_HOSTS.contains(&address);
    let four = patterns.address.captures_iter(text).filter_map(|c| c.get(1)).filter(|m| valid(m.as_str())).map(|m| m.range());
    let six = patterns.address6.find_iter(text).map(|m| m.range()).filter(|range| is_address6(text, range));
    let mut ranges: Vec<Range<usize>> = four.chain(six).collect();
    ranges.sort_by_key(|range| range.start);
    ranges
}

/// An IPv6 address that names a machine: `::1` and a time of day are none.
fn is_address6(text: &str, range: &Range<usize>) -> bool {
    let address = &text[range.clone()];
    is_word(text, range.start, range.end)
        && address.len() > 4
        && address.parse::<Ipv6Addr>().is_ok_and(|address| !address.is_loopback() && !address.is_unspecified())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn redacted(text: &str) -> String {
        let mut redactor = Redactor::default();
        redactor.learn(text);
        redactor.apply(text)
    }

    #[test]
    fn names_paths_and_secrets() {
        let cases = [
            ("File \"/home/mmiller/src/train.py\", line 3", "File \"/home/user1/src/train.py\", line 3"),
            ("File \"C:\\Users\\Mia\\train.py\" by Mia", "File \"C:\\Users\\user1\\train.py\" by user1"),
            (
                "gpu17:1234:5678 [0] NCCL INFO Bootstrap : Using ib0:10.1.2.3<0> on gpu17",
                "host1:1234:5678 [0] NCCL INFO Bootstrap : Using ib0:ip1<0> on host1",
            ),
            ("  host      : gpu17.cluster.example\nat gpu17", "  host      : host1\nat host1"),
            ("(base) mia@box:~/x$ HF_TOKEN=hf_abcdefghijKLMNOP python t.py", "(base) user1@host1:~/x$ HF_TOKEN=<token> python t.py"),
            ("WANDB_API_KEY=0123456789abcdef0123456789abcdef01234567", "WANDB_API_KEY=<hex 40>"),
            ("https://mia:pa55word@git.example/x", "https://<credentials>@host1/x"),
            ("mail mia@example.org now", "mail <email> now"),
            ("/home/user/x 127.0.0.1:29500 torch 2.1.0 localhost", "/home/user/x 127.0.0.1:29500 torch 2.1.0 localhost"),
            ("token id 151643, loss scale: 65536, tokens: 128000", "token id 151643, loss scale: 65536, tokens: 128000"),
        ];
        for (text, expected) in cases {
            assert_eq!(redacted(text), expected, "{text}");
        }
    }

    #[test]
    fn what_shows_a_name_or_a_secret_is_masked() {
        let cases = [
            ("li", "/home/li/train.py"),
            ("mia miller", r"C:\Users\mia miller\x.py not found"),
            ("mia", "/lustre/users/mia/run"),
            ("mia", "/scratch/mia/run"),
            ("mia", "%2Fhome%2Fmia%2Frun"),
            ("mia", "/home/\u{1b}[31mmia\u{1b}[0m/run"),
            ("mia", r#"{"user": "mia"}"#),
            ("mia", "uid=1003(mia) gid=1003(mia)"),
            ("mia", "ssh mia@10.2.3.4"),
            ("box12", "slurmstepd: error: *** STEP 779.0 ON box12 CANCELLED AT 2026-03-01T02:11:09 DUE TO TIME LIMIT ***"),
            ("cn1234", "srun: error: Node failure on cn1234"),
            ("box07", "SLURM_NODELIST=box[01-08] box07"),
            ("head", "MASTER_ADDR=head"),
            ("gpu-17.lab.example.com", "trying to connect to (gpu-17.lab.example.com, 29500)"),
            ("2001:db8::1", "addr 2001:db8::1 up"),
            ("10.7.6.5", "ip=10.7.6.5_x"),
            ("hunter22", "curl -u svc:hunter22 https://x"),
            ("hunter22", "postgres://svc:p@ss/hunter22@db/x"),
            ("hunter22", "--password hunter22"),
            ("hunter22", r#"{"msg":"{\"api_key\": \"hunter22\"}"}"#),
            ("AbCd0123", "https://a.example/x?sv=2022&sig=AbCd0123%3D"),
            ("c2VjcmV0", "-----BEGIN PRIVATE KEY----- c2VjcmV0 -----END PRIVATE KEY-----"),
            ("mia%40firm", "mail mia%40firm.example"),
        ];
        for (secret, text) in cases {
            let masked = redacted(text);
            assert!(!masked.contains(secret), "{text} -> {masked}");
        }
    }

    #[test]
    fn a_user_named_like_a_word_of_a_message_leaves_the_message() {
        let text = "/home/cuda/x.py\nRuntimeError: CUDA out of memory. cuda:0";
        assert_eq!(redacted(text), "/home/someone/x.py\nRuntimeError: CUDA out of memory. cuda:0");
    }

    #[test]
    fn what_a_log_needs_stays() {
        let cases = [
            "GPU 0 on rank3, node 0, cuda:1, gpu1, worker2",
            "eos_token: '<|endoftext|>' max_new_token=128000 tokens/s: 1834.2",
            "acc@1 0.71 acc@5 0.90 top@1 10:41:12 std::vector::at",
            "site-packages/users/models.py and a password authentication failure",
            "[[Node: conv1_2/Relu = Relu[T=DT_FLOAT]]]",
        ];
        for text in cases {
            assert_eq!(redacted(text), text);
        }
    }

    #[test]
    fn lines_and_numbers_stay() {
        let text =
            "[rank3]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 546.00 MiB. GPU 0 has a total capacity of 23.64 GiB\n";
        assert_eq!(redacted(text), text);
    }
}
