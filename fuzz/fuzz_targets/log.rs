//! Any bytes give findings inside the text, on character borders, and words for each of them.

#![no_main]

use std::sync::Arc;

use libfuzzer_sys::fuzz_target;
use trainwreck::explain;
use trainwreck::explain::post_mortem::{self, Part};
use trainwreck::log::analyze;
use trainwreck::log::rules::Rules;
use trainwreck::text::redact::Redactor;
use trainwreck::text::{Lines, StrLines};

fuzz_target!(|bytes: &[u8]| {
    let Ok(text) = trainwreck::files::decode(bytes.to_vec()) else { return };
    let rules: Arc<Rules> = Rules::builtin();
    let analysis = analyze(&text, &rules);
    let lines = StrLines::new(&text);
    for (i, finding) in analysis.findings.iter().enumerate() {
        let span = finding.span;
        let (first, last) = (lines.line(span.line), lines.line(span.end_line));
        assert!(first.is_char_boundary(span.start) && last.is_char_boundary(span.end));
        assert!((span.line, span.start) <= (span.end_line, span.end));
        for number in finding.numbers.iter().filter_map(|number| number.span) {
            assert!(lines.line(number.line).is_char_boundary(number.start));
            let _ = explain::hover(&analysis, &rules, number.line, number.start);
        }
        let _ = explain::hover(&analysis, &rules, span.line, span.start);
        let _ = (explain::diagnostic_message(&analysis, i), explain::mark(finding, &first));
    }
    let part = Part { name: None, rank: None, analysis: &analysis, lines: Some(&lines) };
    let _ = post_mortem::rows(&[part], analysis.story.root.map(|root| (0, root)), &rules);
    let mut redactor = Redactor::default();
    redactor.learn(&text);
    let masked = redactor.apply(&text);
    assert_eq!(masked.matches('\n').count(), text.matches('\n').count());
});
