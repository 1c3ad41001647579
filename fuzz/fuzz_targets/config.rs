//! Any text is a model or a mistake at a key; a model has numbers that hold together.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    match trainwreck::model::read(text) {
        Ok(model) => {
            assert!(model.low() <= model.total() && model.total() <= model.high());
            assert!(model.active() <= model.total());
            let _ = (model.weights_bytes(), model.kv_bytes_per_token(2));
        }
        Err(mistake) => {
            assert!(mistake.span.start <= mistake.span.end && mistake.span.end <= text.len());
            assert!(!mistake.message.is_empty());
        }
    }
});
