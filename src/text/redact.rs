//! Masks what should not leave a machine: user names, host names, home paths, addresses, tokens.
//!
//! Works on whole texts before they are analysed, so that nothing that is drawn from them can carry what was masked. Line
//! numbers stay; columns are those of the masked text. Names are learned from the places that show them (home folders,
//! shell prompts, launcher summaries, NCCL's prefixes) and masked wherever they stand as a word; the same host gets the
//! same stand-in. What is not recognisable as a secret is not masked: read the result before it is published.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::LazyLock;

use aho_corasick::{AhoCorasick, MatchKind};
use regex::{Captures, Regex};

/// Names learned of one kind at most.
const MOST_NAMES: usize = 4096;

/// Folders of this name under `/home` are nobody's.
const COMMON_USERS: [&str; 14] =
    ["user", "root", "ubuntu", "runner", "jovyan", "admin", "shared", "work", "data", "Public", "Shared", "default", "home", "node"];

struct Patterns {
    /// A home folder; the name is the group `user`.
    home: Regex,
    /// Places that show a host's name.
    hosts: Vec<Regex>,
    /// Places that show a user's name.
    users: Vec<Regex>,
    /// Secrets and what stands for them.
    secrets: Vec<(Regex, &'static str)>,
}

static PATTERNS: LazyLock<Option<Patterns>> = LazyLock::new(|| {
    let all = |patterns: &[&str]| patterns.iter().map(|p| Regex::new(p).ok()).collect::<Option<Vec<_>>>();
    let secrets = [
        (r"\bhf_[A-Za-z0-9]{10,}", "<token>"),
        (r"\b(?:gh[pousr]_[A-Za-z0-9]{20,}|github_pat_[A-Za-z0-9_]{20,}|glpat-[\w-]{16,})", "<token>"),
        (r"\b(?:sk|pk|rk)-(?:proj-|ant-)?[A-Za-z0-9_-]{16,}", "<token>"),
        (r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b", "<token>"),
        (r"\bxox[abprs]-[A-Za-z0-9-]{10,}", "<token>"),
        (r"\bAIza[\w-]{30,}", "<token>"),
        (r"\beyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*", "<token>"),
        (r"(?i)\b(?P<keep>(?:bearer|basic)\s+)[A-Za-z0-9+/._~=-]{12,}", "${keep}<token>"),
        (
            r#"(?i)(?P<keep>(?:[\w.-]*(?:api[_-]?key|secret|passwd|password|access[_-]?key|auth[_-]?token|[_-]token)|\btoken)["']?\s*[=:]\s*["']?)[^\s"',;&<]{6,}"#,
            "${keep}<secret>",
        ),
        (r"(?i)(?P<keep>\bwandb\b.{0,40}?\b)[0-9a-f]{40}\b", "${keep}<token>"),
        (r"(?P<keep>\b[a-z][a-z0-9+.-]*://)[^\s/@:]+:[^\s/@]+@", "${keep}<credentials>@"),
        (r"-----BEGIN [A-Z ]*PRIVATE KEY-----", "<private key>"),
        (r"\b[\w.+-]+@[\w-]+(?:\.[\w-]+)*\.[A-Za-z]{2,}\b", "<email>"),
        (r"\b(?:[0-9a-fA-F]{2}:){5}[0-9a-fA-F]{2}\b", "<mac>"),
        (
            r"\b[0-9a-fA-F]{1,4}(?::[0-9a-fA-F]{1,4}){7}\b|\b(?:fe80|fd[0-9a-f]{2}|2[0-9a-f]{3}):(?:[0-9a-fA-F]{0,4}:){1,6}[0-9a-fA-F]{1,4}\b",
            "<ip>",
        ),
    ];
    Some(Patterns {
        home: Regex::new(r"(?P<keep>(?:/home|/Users|/export/home|/data/home|/mnt/home|[A-Za-z]:\\+Users)[/\\]+)(?P<user>[A-Za-z0-9._-]+)")
            .ok()?,
        hosts: all(&[
            // NCCL: node017:1234:5678 [0] NCCL INFO
            r"(?m)^(?:\S+ )?([A-Za-z0-9][\w.-]*):\d+:\d+ \[\d+\] NCCL ",
            // torchrun's summary, Slurm and Kubernetes
            r"(?m)^\s*(?:\[\d+\]:\s*)?host\s+: ([A-Za-z0-9][\w.-]+)",
            r"(?i)\b(?:hostname|nodelist|node_?name|node|on host)\s*[=:]\s*([A-Za-z][\w.-]*\d[\w.-]*)",
            r"\bslurmstepd-([A-Za-z0-9][\w.-]*):",
            r"\bsrun: error: ([A-Za-z0-9][\w.-]*): task",
            r"(?m)^\w{3} [ \d]\d \d\d:\d\d:\d\d ([A-Za-z0-9][\w.-]*) (?:kernel|systemd|slurm|dockerd|containerd)",
            // user@host:~$
            r"(?m)^(?:\([\w.-]+\) )?\[?[a-z_][\w-]*@([A-Za-z0-9][\w.-]*)[: ][^\n]{0,80}[$#] ",
            r"\[c10d\][^\n]{0,80}?\[([A-Za-z0-9][\w.-]*[A-Za-z][\w.-]*)\]:\d+",
        ])?,
        users: all(&[
            r"(?m)^(?:\([\w.-]+\) )?\[?([a-z_][\w-]*)@[A-Za-z0-9][\w.-]*[: ][^\n]{0,80}[$#] ",
            r"(?i)\b(?:user(?:name)?|logname)\s*[=:]\s*['\x22]?([A-Za-z_][\w.-]{2,})",
            r"wandb: Currently logged in as: ([A-Za-z_][\w.-]*)",
        ])?,
        secrets: secrets.into_iter().map(|(pattern, with)| Some((Regex::new(pattern).ok()?, with))).collect::<Option<Vec<_>>>()?,
    })
});

static ADDRESS: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"(?:^|[^\d.])(\d{1,3}\.\d{1,3}\.\d{1,3}\.\d{1,3})(?:[^\d.]|\.(?:\D|$)|$)").ok());

/// What was learned from the texts so far: the same name gets the same stand-in in all of them.
#[derive(Clone, Debug, Default)]
pub struct Redactor {
    hosts: BTreeMap<String, String>,
    users: BTreeMap<String, String>,
}

impl Redactor {
    /// Learns the names that a text shows.
    pub fn learn(&mut self, text: &str) {
        let Some(patterns) = PATTERNS.as_ref() else { return };
        for pattern in &patterns.hosts {
            for found in pattern.captures_iter(text).filter_map(|c| c.get(1)) {
                self.host(found.as_str());
            }
        }
        let homes = patterns.home.captures_iter(text).filter_map(|c| c.name("user"));
        let shown = patterns.users.iter().flat_map(|pattern| pattern.captures_iter(text)).filter_map(|c| c.get(1));
        for found in homes.chain(shown) {
            let name = found.as_str().trim_end_matches(['.', '-']);
            if self.users.len() < MOST_NAMES && name.len() > 2 && !COMMON_USERS.contains(&name) {
                let next = self.users.len() + 1;
                self.users.entry(name.to_owned()).or_insert_with(|| format!("user{next}"));
            }
        }
        for address in addresses(text) {
            self.host(&text[address]);
        }
    }

    fn host(&mut self, name: &str) {
        let name = name.trim_end_matches('.');
        let known = matches!(name, "localhost" | "127.0.0.1" | "0.0.0.0" | "255.255.255.255") || name.len() < 3;
        if known || self.hosts.len() >= MOST_NAMES || self.hosts.contains_key(name) {
            return;
        }
        let next = self.hosts.len() + 1;
        self.hosts.insert(name.to_owned(), format!("host{next}"));
        // The short name of `node1.cluster.example` is the same host.
        if let Some((short, _)) =
            name.split_once('.').filter(|(short, _)| short.len() > 2 && short.contains(|c: char| c.is_ascii_alphabetic()))
        {
            self.hosts.entry(short.to_owned()).or_insert_with(|| format!("host{next}"));
        }
    }

    /// The text with everything masked that is recognised.
    pub fn apply(&self, text: &str) -> String {
        let Some(patterns) = PATTERNS.as_ref() else { return String::new() };
        let mut out = Cow::Borrowed(text);
        for (pattern, with) in &patterns.secrets {
            if let Cow::Owned(masked) = pattern.replace_all(&out, *with) {
                out = Cow::Owned(masked);
            }
        }
        let named = patterns.home.replace_all(&out, |found: &Captures<'_>| {
            let user = &found["user"];
            let name = self.users.get(user).map_or(user, String::as_str);
            format!("{}{name}", &found["keep"])
        });
        self.replace_names(&named)
    }

    /// Replaces the learned names where they stand as words.
    fn replace_names(&self, text: &str) -> String {
        let names: Vec<(&String, &String)> = self.hosts.iter().chain(&self.users).collect();
        let finder = AhoCorasick::builder().match_kind(MatchKind::LeftmostLongest).build(names.iter().map(|(name, _)| name.as_str()));
        let Ok(finder) = finder else { return String::new() };
        let mut out = String::with_capacity(text.len());
        let mut at = 0;
        for found in finder.find_iter(text) {
            if found.start() < at || !is_word(text, found.start(), found.end()) {
                continue;
            }
            out.push_str(&text[at..found.start()]);
            out.push_str(names[found.pattern().as_usize()].1);
            at = found.end();
        }
        out.push_str(&text[at..]);
        out
    }
}

/// Is this range a word of its own? Parts of identifiers stay.
fn is_word(text: &str, start: usize, end: usize) -> bool {
    let part = |c: char| c.is_alphanumeric() || c == '_';
    !text[..start].ends_with(part) && !text[end..].starts_with(part)
}

/// IPv4 addresses; version numbers of four parts below 256 cannot be told apart and are masked too.
fn addresses(text: &str) -> Vec<std::ops::Range<usize>> {
    let Some(pattern) = ADDRESS.as_ref() else { return Vec::new() };
    let valid = |address: &str| address.split('.').all(|part| part.parse::<u8>().is_ok());
    pattern.captures_iter(text).filter_map(|c| c.get(1)).filter(|m| valid(m.as_str())).map(|m| m.range()).collect()
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
                "host1:1234:5678 [0] NCCL INFO Bootstrap : Using ib0:host2<0> on host1",
            ),
            ("  host      : gpu17.cluster.example\nat gpu17", "  host      : host1\nat host1"),
            ("(base) mia@box:~/x$ HF_TOKEN=hf_abcdefghijKLMNOP python t.py", "(base) user1@host1:~/x$ HF_TOKEN=<token> python t.py"),
            ("WANDB_API_KEY=0123456789abcdef0123456789abcdef01234567", "WANDB_API_KEY=<secret>"),
            ("https://mia:pa55word@git.example/x", "https://<credentials>@git.example/x"),
            ("mail mia@example.org now", "mail <email> now"),
            ("/home/user/x 127.0.0.1:29500 torch 2.1.0 localhost", "/home/user/x 127.0.0.1:29500 torch 2.1.0 localhost"),
            ("token id 151643, loss scale: 65536, tokens: 128000", "token id 151643, loss scale: 65536, tokens: 128000"),
        ];
        for (text, expected) in cases {
            assert_eq!(redacted(text), expected, "{text}");
        }
    }

    #[test]
    fn lines_and_numbers_stay() {
        let text =
            "[rank3]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 546.00 MiB. GPU 0 has a total capacity of 23.64 GiB\n";
        assert_eq!(redacted(text), text);
    }
}
