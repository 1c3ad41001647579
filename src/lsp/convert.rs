//! Protocol types for our own, and back.
//!
//! Besides the handlers and the features this is the only module that names protocol types: the crate that defines
//! them changes more often than the protocol does.

use std::path::PathBuf;

use ropey::Rope;
use tower_lsp_server::ls_types::{ClientCapabilities, Diagnostic, DiagnosticTag, MarkupKind, Position, PositionEncodingKind, Range, Uri};

use crate::log::Span;
use crate::text::document::{self, Encoding, Place};

/// What is shown of a document's findings.
pub type Diagnostics = Vec<Diagnostic>;

/// The address of a document, as the client writes it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DocumentUri(pub Uri);

impl DocumentUri {
    /// The address of this text, if it is one.
    pub fn parse(text: &str) -> Option<DocumentUri> {
        text.parse().ok().map(DocumentUri)
    }

    /// The address of a file.
    pub fn of_file(path: &std::path::Path) -> Option<DocumentUri> {
        Uri::from_file_path(path).map(DocumentUri)
    }

    /// The address as text; the same for every message about the document.
    pub fn key(&self) -> String {
        self.0.as_str().to_owned()
    }

    /// The last part of its path.
    pub fn name(&self) -> String {
        let path = self.0.path().decode().to_string_lossy();
        path.rsplit('/').next().unwrap_or_default().to_owned()
    }

    /// Its path, readable.
    pub fn path(&self) -> String {
        self.0.path().decode().to_string_lossy().into_owned()
    }

    /// The file it names, when it names one.
    pub fn file(&self) -> Option<PathBuf> {
        if !self.0.scheme().as_str().eq_ignore_ascii_case("file") {
            return None;
        }
        // A file of another machine is none of ours, though its path may exist here.
        let host = self.0.authority().map_or("", |authority| authority.host());
        if !(host.is_empty() || host.eq_ignore_ascii_case("localhost")) {
            return None;
        }
        self.0.to_file_path().map(|path| path.into_owned())
    }
}

/// What the client can do, as far as it matters here.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ClientFacts {
    /// What its columns count.
    pub encoding: Encoding,
    /// It asks for diagnostics, so none are sent unasked: it would show them twice.
    pub pulls: bool,
    /// It shows places related to a diagnostic.
    pub related: bool,
    /// It follows a diagnostic's code to a page.
    pub code_links: bool,
    /// It can show what is unimportant as faded text.
    pub fades: bool,
    /// It reads the version a diagnostic belongs to.
    pub versions: bool,
    /// It shows Markdown in hovers.
    pub markdown: bool,
    /// It shows an outline as a tree.
    pub tree: bool,
    /// It can be told to ask for diagnostics again.
    pub refreshes_diagnostics: bool,
    /// It can be told to ask for inlay hints again.
    pub refreshes_hints: bool,
    /// It can be told to ask for code lenses again.
    pub refreshes_lenses: bool,
    /// It answers questions about settings.
    pub configuration: bool,
    /// It can be asked to tell about changes of settings.
    pub registers_configuration: bool,
    /// It can be asked to tell about changes of files.
    pub registers_watchers: bool,
}

impl ClientFacts {
    /// Reads the client's capabilities. Of the encodings it offers the first known one is taken; they are in its order
    /// of preference.
    pub fn of(client: &ClientCapabilities) -> ClientFacts {
        let general = client.general.as_ref();
        let offered = general.and_then(|g| g.position_encodings.as_deref()).unwrap_or_default();
        let text = client.text_document.as_ref();
        let push = text.and_then(|t| t.publish_diagnostics.as_ref());
        let pull = text.and_then(|t| t.diagnostic.as_ref());
        let workspace = client.workspace.as_ref();
        let yes = |flag: Option<bool>| flag == Some(true);
        let tags = push.and_then(|p| p.tag_support.as_ref());
        let hover = text.and_then(|t| t.hover.as_ref()).and_then(|h| h.content_format.as_ref());
        let symbols = text.and_then(|t| t.document_symbol.as_ref());
        let watched = workspace.and_then(|w| w.did_change_watched_files.as_ref());
        let config = workspace.and_then(|w| w.did_change_configuration.as_ref());
        ClientFacts {
            encoding: offered.iter().find_map(encoding_of).unwrap_or_default(),
            pulls: pull.is_some(),
            related: yes(push.and_then(|p| p.related_information)) || yes(pull.and_then(|p| p.related_information)),
            code_links: yes(push.and_then(|p| p.code_description_support)) || yes(pull.and_then(|p| p.code_description_support)),
            fades: tags.is_some_and(|t| t.value_set.contains(&DiagnosticTag::UNNECESSARY)),
            versions: yes(push.and_then(|p| p.version_support)),
            markdown: hover.is_none_or(|formats| formats.contains(&MarkupKind::Markdown)),
            tree: yes(symbols.and_then(|s| s.hierarchical_document_symbol_support)),
            refreshes_diagnostics: yes(workspace.and_then(|w| w.diagnostics.as_ref()).and_then(|d| d.refresh_support)),
            refreshes_hints: yes(workspace.and_then(|w| w.inlay_hint.as_ref()).and_then(|h| h.refresh_support)),
            refreshes_lenses: yes(workspace.and_then(|w| w.code_lens.as_ref()).and_then(|l| l.refresh_support)),
            configuration: yes(workspace.and_then(|w| w.configuration)),
            registers_configuration: yes(config.and_then(|c| c.dynamic_registration)),
            registers_watchers: yes(watched.and_then(|w| w.dynamic_registration)),
        }
    }
}

fn encoding_of(kind: &PositionEncodingKind) -> Option<Encoding> {
    [Encoding::Utf8, Encoding::Utf16, Encoding::Utf32].into_iter().find(|e| kind_of(*e) == *kind)
}

/// The protocol's word for an encoding.
pub fn kind_of(encoding: Encoding) -> PositionEncodingKind {
    match encoding {
        Encoding::Utf8 => PositionEncodingKind::UTF8,
        Encoding::Utf16 => PositionEncodingKind::UTF16,
        Encoding::Utf32 => PositionEncodingKind::UTF32,
    }
}

/// A position as a place.
pub fn place(position: Position) -> Place {
    Place { line: position.line as usize, column: position.character as usize }
}

/// The position of a byte column of a line.
pub fn position(rope: &Rope, encoding: Encoding, line: usize, byte: usize) -> Position {
    let column = document::from_byte_column(rope, encoding, line, byte);
    Position::new(number(line), number(column))
}

/// The range of a span.
pub fn range(rope: &Rope, encoding: Encoding, span: Span) -> Range {
    Range::new(position(rope, encoding, span.line, span.start), position(rope, encoding, span.end_line, span.end))
}

/// A number of the protocol, which has 31 bits for it.
pub fn number(value: usize) -> u32 {
    u32::try_from(value).unwrap_or(u32::MAX).min(i32::MAX as u32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn facts(capabilities: serde_json::Value) -> ClientFacts {
        ClientFacts::of(&serde_json::from_value(capabilities).unwrap())
    }

    #[test]
    fn the_first_known_encoding_is_taken() {
        let offers = |list: &[&str]| facts(json!({"general": {"positionEncodings": list}})).encoding;
        assert_eq!(offers(&[]), Encoding::Utf16);
        assert_eq!(offers(&["utf-7", "utf-32", "utf-8"]), Encoding::Utf32);
        assert_eq!(offers(&["utf-8", "utf-16"]), Encoding::Utf8);
        assert_eq!(facts(json!({})).encoding, Encoding::Utf16);
    }

    #[test]
    fn a_client_that_says_nothing_gets_plain_things() {
        let plain = facts(json!({}));
        assert!(!plain.pulls && !plain.related && !plain.code_links && !plain.tree && !plain.configuration);
        assert!(plain.markdown, "a client that names no format shows what it gets");
        let plain = facts(json!({"textDocument": {"hover": {"contentFormat": ["plaintext"]}, "diagnostic": {}}}));
        assert!(!plain.markdown && plain.pulls);
    }

    #[test]
    fn only_file_addresses_name_files() {
        let name = |text: &str| DocumentUri::parse(text).unwrap().name();
        assert_eq!(name("file:///a/slurm-12%20x.out"), "slurm-12 x.out");
        assert_eq!(name("untitled:Untitled-1"), "Untitled-1");
        assert_eq!(DocumentUri::parse("untitled:Untitled-1").unwrap().file(), None);
        assert_eq!(DocumentUri::parse("file:///a/b").unwrap().file(), Some(PathBuf::from("/a/b")));
        assert_eq!(DocumentUri::parse("file://localhost/a/b").unwrap().file(), Some(PathBuf::from("/a/b")));
        assert_eq!(DocumentUri::parse("file://elsewhere/etc/passwd").unwrap().file(), None);
    }
}
