//! Secrets by their form: tokens of known services, values beside a word for a secret, keys, addresses of people.

use std::borrow::Cow;
use std::sync::LazyLock;

use regex::{Captures, Regex};

/// Forms that are a secret wherever they stand, and what stands for them.
const FORMS: [(&str, &str); 25] = [
    (
        r"(?P<keep>-----BEGIN [A-Z ]*PRIVATE KEY-----)[ ]?(?:[A-Za-z0-9+/=]{8,}|\\n)*[ ]?(?:-----END [A-Z ]*PRIVATE KEY-----)?",
        "<private key>",
    ),
    (r"hf_[A-Za-z0-9]{10,}|api_org_[A-Za-z0-9]{16,}", "<token>"),
    (r"\b(?:gh[pousr]_[A-Za-z0-9]{20,}|github_pat_[A-Za-z0-9_]{20,}|glpat-[\w-]{16,})", "<token>"),
    (r"\b(?:sk|pk|rk)[-_](?:proj-|ant-|live_|test_)?[A-Za-z0-9_-]{16,}", "<token>"),
    (r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b", "<token>"),
    (r"\bxox[abprs]-[A-Za-z0-9-]{10,}", "<token>"),
    (r"(?P<keep>hooks\.slack\.com/services/)[\w/-]+", "${keep}<token>"),
    (r"(?P<keep>api\.telegram\.org/bot)[\w:-]+", "${keep}<token>"),
    (r"\bAIza[\w-]{30,}", "<token>"),
    (
        r"\b(?:npm_[A-Za-z0-9]{30,}|pypi-[A-Za-z0-9_-]{16,}|nvapi-[\w-]{16,}|r8_[A-Za-z0-9]{30,}|dckr_pat_[\w-]{16,}|hv[sb]\.[\w-]{16,})",
        "<token>",
    ),
    (r"\beyJ[\w-]{8,}\.[\w-]{2,}(?:\.[\w-]*)?", "<token>"),
    (r"\bAAAA[BCE][A-Za-z0-9+/]{8,}={0,2}", "<public key>"),
    (r"(?i)(?P<keep>\b(?:authorization|proxy-authorization)\b\W{1,4}(?:\w+\s+)?)[A-Za-z0-9+/._~=-]{8,}", "${keep}<token>"),
    (r"(?i)(?P<keep>\b(?:bearer|basic)\s+)[A-Za-z0-9+/._~=-]{12,}", "${keep}<token>"),
    (
        r"(?i)(?P<keep>[?&;](?:sig|signature|x-amz-signature|x-amz-credential|x-amz-security-token|x-goog-signature)=)[^\s&;<]+",
        "${keep}<secret>",
    ),
    (r"(?i)(?P<keep>\blogin\s+)\S+(?P<mid>\s+password\s+)\S+", "${keep}<user>${mid}<secret>"),
    (r"(?P<keep>\bcurl\b[^\n]{0,200}?\s(?:-u|--user)[ =]?)\S+", "${keep}<credentials>"),
    (r"(?P<keep>\b(?:https?|git|ssh|s?ftp)://)[^\s/@]+@", "${keep}<credentials>@"),
    (r#"(?P<keep>\b[a-z][a-z0-9+.-]*://)[^\s@"'<>]*:[^\s"'<>]*@"#, "${keep}<credentials>@"),
    // WandB's keys and the names of commits have one form.
    (r"\b[0-9a-f]{40}\b", "<hex 40>"),
    (r"(?i)(?P<keep>secret[\w-]*\W{1,4})[A-Za-z0-9+/]{40}\b", "${keep}<secret>"),
    (r"[^\s<>()\x22',;:@/=]+(?:@|%40)[\pL\pN][\pL\pN-]*(?:\.[\pL\pN-]+)*\.\pL{2,}", "<email>"),
    (r"\b(?:[0-9a-fA-F]{2}:){5}[0-9a-fA-F]{2}\b|\b(?:[0-9a-fA-F]{2}-){5}[0-9a-fA-F]{2}\b", "<mac>"),
    // A list of nodes in Slurm's short form; the nodes themselves are learned as hosts.
    (r"(?i)(?P<keep>\b\w*nodelist\s*[=:]\s*)\S*\[[\d,-]+\]\S*", "${keep}<hosts>"),
    (r"(?i)\b\d+\.\d+\.\d+\.\d+\.(?:in-addr|ip6)\.arpa\b", "<ip>"),
];

/// Words whose value is a secret: `HF_TOKEN=…`, `"api_key": "…"`, `--password …`.
const NAMED: &str = r#"(?i)(?P<keep>(?P<name>[\w.-]*(?:api[_-]?key|secret[\w-]*|passwd|passw(?:or)?d|passphrase|\bpwd|credentials?|(?:access|account|private|auth)[_-]?key(?:[_-]id)?|token))[\\"']*(?:\s*[=:]\s*|(?P<blank>\s+))[\\"']*)(?P<value>[^\s"'<>]{5,})"#;

/// Tokens that are no secrets: those of a tokenizer, and counts of them.
const TOKENS_OF_TEXT: [&str; 22] = [
    "bos", "eos", "pad", "unk", "sep", "cls", "mask", "image", "audio", "video", "special", "stop", "new", "next", "per", "last", "first",
    "start", "end", "any", "each", "every",
];

struct Patterns {
    forms: Vec<(Regex, &'static str)>,
    named: Regex,
}

static PATTERNS: LazyLock<Option<Patterns>> = LazyLock::new(|| {
    let forms = FORMS.into_iter().map(|(pattern, with)| Some((Regex::new(pattern).ok()?, with))).collect::<Option<Vec<_>>>()?;
    Some(Patterns { forms, named: Regex::new(NAMED).ok()? })
});

/// The text without the secrets that have a known form or a telling name; `None` when the patterns do not compile.
pub(super) fn mask(text: &str) -> Option<Cow<'_, str>> {
    let patterns = PATTERNS.as_ref()?;
    let mut out = Cow::Borrowed(text);
    for (pattern, with) in &patterns.forms {
        if let Cow::Owned(masked) = pattern.replace_all(&out, *with) {
            out = Cow::Owned(masked);
        }
    }
    let masked =
        patterns.named.replace_all(
            &out,
            |found: &Captures<'_>| {
                if is_secret(found) { format!("{}<secret>", &found["keep"]) } else { found[0].to_owned() }
            },
        );
    if let Cow::Owned(masked) = masked {
        out = Cow::Owned(masked);
    }
    Some(out)
}

/// Is the value beside such a word a secret, and no count, word of prose or token of a text?
fn is_secret(found: &Captures<'_>) -> bool {
    let (name, value) = (&found["name"], &found["value"]);
    let lower = name.to_ascii_lowercase();
    let of_text = lower.strip_suffix("token").is_some_and(|rest| {
        let last = rest.trim_end_matches(['_', '-']).rsplit(['_', '-', '.']).next().unwrap_or_default();
        TOKENS_OF_TEXT.contains(&last)
    });
    if of_text || (lower.ends_with("token") && !value.contains(|c: char| c.is_ascii_alphabetic())) {
        return false;
    }
    // After a blank only what is written like a variable or a flag has a value; `password authentication` is prose.
    found.name("blank").is_none() || name.starts_with("--") || !name.contains(|c: char| c.is_ascii_lowercase())
}
