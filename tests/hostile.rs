//! What a hostile log, file name, page or input can do to who reads it: nothing.
#![allow(clippy::unwrap_used, clippy::expect_used)] // a test may fail that way

use std::io::{BufRead as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use pulldown_cmark::{Event, Options, Parser, Tag};
use trainwreck::explain::{self, post_mortem};
use trainwreck::log::analyze;
use trainwreck::log::rules::{Rules, excerpts};
use trainwreck::text::is_unseen;

const OOM: &str = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 23.52 GiB of which 1.12 GiB is free.";

/// A folder of its own that goes with the test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("trainwreck-hostile-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    fn write(&self, name: &str, text: impl AsRef<[u8]>) -> PathBuf {
        let file = self.0.join(name);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(&file, text).unwrap();
        file
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn trainwreck(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_trainwreck")).args(args).stdin(Stdio::null()).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// HTML, images and links, and words that an issue tracker would link, in a text.
fn live(markdown: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut words = String::new();
    for event in Parser::new_ext(markdown, Options::ENABLE_TABLES) {
        match event {
            // The line break in a cell is ours.
            Event::InlineHtml(tag) if &*tag == "<br>" => words.push(' '),
            Event::Html(_) | Event::InlineHtml(_) | Event::Start(Tag::Image { .. } | Tag::Link { .. }) => found.push(format!("{event:?}")),
            Event::Text(text) => words.push_str(&text),
            _ => words.push(' '),
        }
    }
    let is_live = |word: &&str| ["@ops", "//e.f", "a@b", "#12"].iter().any(|live| word.contains(live));
    found.extend(words.split_whitespace().filter(is_live).map(str::to_owned));
    found
}

/// A log whose every free place holds what a renderer acts on.
fn log() -> String {
    let live = "```<img src=x>` [x](command:y) @ops https://e.f a@b.c #12 \u{202e}\u{9b}31m |";
    format!(
        "Traceback (most recent call last):\n  File \"/w/{live}.py\", line 3, in <module>\n    main()\n  File \"/w/a{live}.py\", line 7, in step{live}\n    \
         loss()\nValueError: {live}\n\nTraceback (most recent call last):\n  File \"/w/b\u{202e}x.py\", line 1, in f\n    g()\n{OOM}\n"
    )
}

#[test]
fn no_hover_and_no_post_mortem_is_live() {
    let rules = Rules::builtin();
    let log = log();
    let analysis = analyze(&log, &rules);
    assert!(analysis.findings.len() > 1);
    for finding in &analysis.findings {
        let hover = explain::hover(&analysis, &rules, finding.span.line, finding.span.start, &|_| None).unwrap().markdown;
        assert_eq!(live(&hover), Vec::<String>::new(), "{hover}");
        assert!(!hover.chars().any(|c| is_unseen(c) && c != '\n'), "{hover:?}");
    }
    let folder = Folder::new("markdown");
    let file = folder.write("run #12 @ops.log", &log);
    let found = trainwreck(&["check", "--format", "jsonl", file.to_str().unwrap()]);
    let lines = folder.write("found.jsonl", found.stdout);
    for args in [["check", "--format", "markdown", file.to_str().unwrap()], ["story", "--format", "markdown", lines.to_str().unwrap()]] {
        let out = trainwreck(&args);
        let markdown = text(&out.stdout);
        assert!(out.status.code() == Some(1) && markdown.contains("ValueError"), "{out:?}");
        // The version of the tool that wrote it is no word of the log.
        assert_eq!(live(&markdown), Vec::<String>::new(), "{markdown}");
    }
}

#[cfg(unix)]
#[test]
fn no_output_holds_what_a_terminal_acts_on() {
    let folder = Folder::new("terminal");
    let bad = "a\u{1b}]0;t\u{7}\u{9b}31m\u{202e}\u{2066}\n";
    let file = folder.write(&format!("{bad}.log"), log());
    let file = file.to_str().unwrap();
    let quiet = |out: &Output| {
        for stream in [&out.stdout, &out.stderr] {
            let text = text(stream);
            assert!(!text.chars().any(|c| is_unseen(c) && c != '\n'), "{text:?}");
        }
    };
    for format in ["text", "json", "jsonl", "markdown", "sarif", "github"] {
        let out = trainwreck(&["check", "--format", format, file]);
        assert_eq!(out.status.code(), Some(1), "{out:?}");
        quiet(&out);
    }
    let found = folder.write("found.jsonl", trainwreck(&["check", "--format", "jsonl", file]).stdout);
    let object: serde_json::Value = serde_json::from_str(std::fs::read_to_string(&found).unwrap().lines().next().unwrap()).unwrap();
    assert_eq!(object["file"], file, "what is escaped is read again");
    for format in ["text", "json", "markdown"] {
        quiet(&trainwreck(&["story", "--format", format, found.to_str().unwrap()]));
    }
    folder.write(&format!("{bad}/.trainwreck/rules/x.md"), "+++\nid = \"\u{1b}[31m\u{9b}\"\n+++\n");
    let workspace = folder.0.join(bad);
    for args in [["rules", "--test", "--workspace"], ["explain", "x\u{9b}", "--workspace"]] {
        quiet(&trainwreck(&[args[0], args[1], args[2], workspace.to_str().unwrap()]));
    }
    let missing = format!("{}{bad}", "d/".repeat(3000));
    for args in [["check", missing.as_str()], ["fit", missing.as_str()], ["story", missing.as_str()]] {
        let out = trainwreck(&args);
        quiet(&out);
        assert!(out.status.code() == Some(2) && out.stderr.len() < 1200, "{}", out.stderr.len());
    }
}

/// A text whose words behind a mark, up to one of these ends, are put in place by `new`; no change where there are none.
fn replaced(text: &str, mark: &str, ends: &[char], new: &str) -> Option<String> {
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find(mark) {
        let start = at + mark.len();
        let end = rest[start..].find(ends).map_or(rest.len(), |end| start + end);
        out.push_str(&rest[..start]);
        let is_word = rest[start..].starts_with(|c: char| c.is_ascii_alphabetic() || c == '/') && !rest[start..end].contains('\n');
        if is_word {
            out.push_str(new);
            rest = &rest[end..];
        } else {
            rest = &rest[start..];
        }
    }
    (!out.is_empty()).then(|| out + rest)
}

#[test]
fn no_free_place_of_any_message_is_live_in_a_hover() {
    let rules = Rules::builtin();
    let marks: [(&str, &[char]); 7] = [
        ("'", &['\'']),
        ("\"", &['"']),
        ("=", &[' ', ',', '\n', ')']),
        (": ", &['\n', ',']),
        ("(", &[')']),
        ("/", &['\n', ' ', '"']),
        ("<", &['>']),
    ];
    let hostile = ["`<img src=x>``@ops", "<img src=x>", "[a](command:b)\u{202e}", "![i](https://e.f/g)"];
    let mut seen = 0;
    for page in rules.pages() {
        for excerpt in excerpts::excerpts(page, "Flagged") {
            for (mark, ends) in marks {
                for new in hostile {
                    let Some(text) = replaced(&excerpt.text, mark, ends, new) else { continue };
                    let analysis = analyze(&text, &rules);
                    for (index, finding) in analysis.findings.iter().enumerate() {
                        assert!(!explain::diagnostic_message(&analysis, index).contains(is_unseen), "{text}");
                        let numbers = finding.numbers.iter().filter_map(|number| number.span);
                        for span in numbers.chain([finding.span]) {
                            let Some(hover) = explain::hover(&analysis, &rules, span.line, span.start, &|_| None) else { continue };
                            seen += 1;
                            assert_eq!(live(&hover.markdown), Vec::<String>::new(), "{text}\n{}", hover.markdown);
                            assert!(!hover.markdown.contains('\u{202e}'), "{}", hover.markdown);
                        }
                        let rows = post_mortem::rows(
                            &[post_mortem::Part { name: None, rank: None, analysis: &analysis, lines: None }],
                            Some((0, index)),
                            &rules,
                        );
                        let markdown = post_mortem::markdown(&rows, &[]);
                        assert_eq!(live(&markdown), Vec::<String>::new(), "{text}\n{markdown}");
                    }
                }
            }
        }
    }
    assert!(seen > 1000, "{seen}");
}

fn page(id: &str, patterns: &str, prose: &str) -> String {
    format!(
        "+++\nid = \"{id}\"\ntitle = \"A <b>fault</b>\"\nkind = \"crash\"\ncause = \"unknown\"\nrole = \"root-cause\"\nseverity = \"error\"\nconfidence = \"high\"\n\
         precedence = 6\nanchors = [\"flux lost\"]\npatterns = [{patterns}]\nmessage = \"Flux\"\n+++\n\n## What it means\n\n{prose}\n\n## What to do\n\n1. {prose}\n\n\
         ## What does not help\n\n- {prose}\n\n## Flagged\n\n```text\nflux lost <b>\n```\n\n## Not flagged\n\n```text\nflux kept\n```\n"
    )
}

#[test]
fn prose_of_a_workspace_is_not_live() {
    let prose = "First `x`. See [docs](https://e.f/g), ![p](https://h/i.png), [run](command:j), [r][s] <img src=x> <a href=\"command:k\">l</a>\n\n[s]: command:m\n```\na. <img src=y>\n```";
    let (rules, problems) = Rules::with_user_pages(vec![("flux.md".to_owned(), page("flux", "'flux lost'", prose))]);
    assert!(problems.is_empty(), "{problems:?}");
    let analysis = analyze("flux lost <b>\n", &rules);
    let hover = explain::hover(&analysis, &rules, 0, 0, &|_| None).unwrap().markdown;
    let whole = explain::page_markdown(&rules, "flux").unwrap();
    for markdown in [hover, whole] {
        let mut links = 0;
        for event in Parser::new(&markdown) {
            match event {
                Event::Html(_) | Event::InlineHtml(_) | Event::Start(Tag::Image { .. }) => panic!("{event:?} in {markdown}"),
                Event::Start(Tag::Link { dest_url, .. }) => {
                    links += 1;
                    assert!(dest_url.starts_with("https://"), "{dest_url} in {markdown}");
                }
                _ => {}
            }
        }
        assert!(links > 0, "{markdown}");
    }
}

#[test]
fn patterns_of_a_workspace_are_bounded_together() {
    let large: Vec<String> = (0..40).map(|n| format!("'''flux lost {n} (\\w{{1,30}}) (\\w{{1,30}}x){{1,3}}'''")).collect();
    let files: Vec<(String, String)> =
        (0..128).map(|n| (format!("flux-{n:03}.md"), page(&format!("flux-{n:03}"), &large.join(", "), "It is so."))).collect();
    let good = ("a-good.md".to_owned(), page("a-good", "'flux lost'", "It is so."));
    let began = Instant::now();
    let (rules, problems) = Rules::with_user_pages(std::iter::once(good).chain(files).collect());
    // The debug build of the patterns' parser takes some twenty times as long.
    assert!(began.elapsed() < Duration::from_secs(40), "{:?}", began.elapsed());
    assert!(rules.page("a-good").is_some(), "{problems:?}");
    assert!(problems.iter().any(|problem| problem.message.contains("this page is left out")), "{problems:?}");
    assert!(problems.len() < 400, "{}", problems.len());
    let own = rules.pages().iter().filter(|page| page.own).count();
    assert!(own < 40, "{own}");
}

#[cfg(unix)]
#[test]
fn what_never_ends_is_refused() {
    let folder = Folder::new("endless");
    let pipe = folder.0.join("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let pipe = pipe.to_str().unwrap();
    let log = folder.write("run.log", format!("{OOM}\n"));
    let log = log.to_str().unwrap();
    let cases: [(&[&str], &str); 9] = [
        (&["fit", pipe], "regular file"),
        (&["fit", "/dev/zero"], "regular file"),
        (&["fit", log, "--deepspeed", pipe], "regular file"),
        (&["check", log, "--config", pipe], "regular file"),
        (&["check", log, "--config", "/dev/zero"], "regular file"),
        (&["check", "/dev/zero"], "device"),
        (&["story", "/dev/zero"], "device"),
        (&["check", "/dev/urandom", "--redact"], "device"),
        (&["fit", log, "--log", "/dev/zero"], "device"),
    ];
    for (args, why) in cases {
        let began = Instant::now();
        let out = trainwreck(args);
        assert!(began.elapsed() < Duration::from_secs(20), "{args:?}");
        assert!(out.status.code() == Some(2) && text(&out.stderr).contains(why), "{args:?} {out:?}");
    }
}

#[cfg(unix)]
#[test]
fn a_pipe_without_another_end_is_told_and_read_when_it_has_one() {
    let folder = Folder::new("pipe");
    let pipe = folder.0.join("run.log");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let mut command = Command::new(env!("CARGO_BIN_EXE_trainwreck"));
    let mut child =
        command.args(["check", pipe.to_str().unwrap()]).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut said = String::new();
    std::io::BufReader::new(child.stderr.take().unwrap()).read_line(&mut said).unwrap();
    assert!(said.contains("run.log: nobody writes into this pipe yet"), "{said}");
    std::fs::write(&pipe, format!("{OOM}\n")).unwrap();
    let out = child.wait_with_output().unwrap();
    assert!(out.status.code() == Some(1) && text(&out.stdout).contains("cuda-oom"), "{out:?}");
}

#[test]
fn a_binary_stream_is_refused_before_its_end() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_trainwreck"))
        .args(["check", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    // It goes away while we still write: the pipe breaks.
    let mut written = 0;
    while input.write_all(&[0; 4096]).is_ok() {
        written += 4096;
        assert!(written < 64 << 20, "it reads on");
    }
    drop(input);
    let out = child.wait_with_output().unwrap();
    assert!(out.status.code() == Some(2) && text(&out.stderr).contains("not a text file"), "{out:?}");
}

#[test]
fn one_message_on_a_long_line_hides_no_other() {
    let rules = Rules::builtin();
    let bar = |piece: &str| (0..3000).map(|n| format!("\r{n}/3000 [00:01<00:02] {piece}")).collect::<String>();
    let split = OOM.replace("out of memory", "out \u{1b}[1mof mem\u{1b}[0mory");
    for piece in ["loss=nan, lr=1e-4", "\u{1b}[31mloss=nan\u{1b}[0m, lr=1e-4", "\u{1b}[32mloss=2.0\u{1b}[0m"] {
        for kill in [OOM, &split] {
            let line = format!("{}\r{kill}\n", bar(piece));
            assert!(line.len() > 64 << 10);
            let analysis = analyze(&line, &rules);
            let found = analysis.findings.iter().find(|finding| &*finding.rule == "cuda-oom").expect("the kill is found");
            assert!(line[found.span.start..].starts_with("torch.OutOfMemoryError") || line[found.span.start..].starts_with("CUDA"));
            assert!(analysis.findings.len() < 200, "{}", analysis.findings.len());
        }
    }
}

#[test]
fn a_missing_page_names_its_file() {
    let out = trainwreck(&["check", Path::new("no such file.log").to_str().unwrap()]);
    assert!(out.status.code() == Some(2) && text(&out.stderr).contains("no such file.log: cannot be read"), "{out:?}");
}
