//! Every config of `tests/configs` against the figures of `expected.tsv`, exact to the unit.

#![allow(clippy::unwrap_used, clippy::expect_used)] // a test may fail that way

use std::path::Path;

use trainwreck::model;

/// Counts that are right and called uncertain: files that do not say which head they store, and models of which
/// checkpoint and class hold different tensors.
const UNCERTAIN: [&str; 5] = ["deberta-base", "deberta-v2-xlarge-pretrain", "roberta-base", "gemma-3n-e4b-it", "longcat-flash-chat"];

#[test]
fn counts_bytes_and_cache_of_known_models_are_exact() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/configs");
    let table = std::fs::read_to_string(folder.join("expected.tsv")).unwrap();
    let mut misses = Vec::new();
    let mut rows = 0;
    for row in table.lines().filter(|line| !line.starts_with('#')).skip(1) {
        let cells: Vec<&str> = row.split('\t').collect();
        let name = cells[0];
        let text = std::fs::read_to_string(folder.join(format!("{name}.json"))).unwrap();
        rows += 1;
        let model = match model::read(&text) {
            Ok(model) => model,
            Err(error) => {
                misses.push(format!("{name}: {error}"));
                continue;
            }
        };
        let figures = [
            ("parameters", Some(model.total())),
            ("active", Some(model.active())),
            ("embedding", Some(model.embedding())),
            ("head", Some(model.head())),
            ("weights_bytes", model.weights_bytes()),
            ("kv_bytes_per_token", Some(model.kv_bytes_per_token(2))),
        ];
        for ((what, got), want) in figures.iter().zip(&cells[1..]) {
            if *want != "-" && got.map(|got| got.to_string()).as_deref() != Some(*want) {
                misses.push(format!("{name}: {what}: expected {want}, got {got:?}"));
            }
        }
        if model.is_exact() == UNCERTAIN.contains(&name) {
            misses.push(format!("{name}: exact is {}: {:?}", model.is_exact(), model.inexact));
        }
    }
    assert!(rows > 100, "only {rows} rows");
    assert!(misses.is_empty(), "{} misses:\n{}", misses.len(), misses.join("\n"));
}

#[test]
fn configs_of_real_models_have_nothing_wrong() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/configs");
    let mut found = Vec::new();
    for entry in std::fs::read_dir(&folder).unwrap() {
        let path = entry.unwrap().path();
        let text = std::fs::read_to_string(&path).unwrap();
        if path.extension().is_none_or(|end| end != "json") {
            continue;
        }
        let root = model::json::parse(&text).unwrap();
        let Ok(read) = model::from_section(model::config::Section::new(&root)) else { continue };
        let checks = model::checks::checks(&root, &read, &model::checks::Around::default());
        found.extend(checks.into_iter().map(|check| format!("{}: {:?}", path.display(), check.problem)));
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn every_config_of_the_folder_is_in_the_table() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/configs");
    let table = std::fs::read_to_string(folder.join("expected.tsv")).unwrap();
    for entry in std::fs::read_dir(&folder).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        if let Some(stem) = name.strip_suffix(".json") {
            assert!(table.lines().any(|line| line.split('\t').next() == Some(stem)), "{stem} has no row");
        }
    }
}

#[test]
fn original_params_files_give_the_same_counts() {
    let llama3 = r#"{"dim": 4096, "ffn_dim_multiplier": 1.3, "multiple_of": 1024, "n_heads": 32, "n_kv_heads": 8, "n_layers": 32, "norm_eps": 1e-05, "vocab_size": 128256}"#;
    let model = model::read(llama3).unwrap();
    assert_eq!(model.total(), 8_030_261_248);
    assert!(model.is_exact());
    // consolidated.00.pth of this model has 16.06 GB.
    assert_eq!(model.weights_bytes(), Some(16_060_522_496));
    let llama2 = r#"{"dim": 4096, "multiple_of": 256, "n_heads": 32, "n_layers": 32, "norm_eps": 1e-06, "vocab_size": -1}"#;
    let model = model::read(llama2).unwrap();
    assert_eq!(model.total(), 6_738_415_616);
    assert!(!model.is_exact());
    let mixtral = r#"{"dim": 4096, "n_layers": 32, "head_dim": 128, "hidden_dim": 14336, "n_heads": 32, "n_kv_heads": 8, "norm_eps": 1e-05, "vocab_size": 32000,
        "moe": {"num_experts_per_tok": 2, "num_experts": 8}}"#;
    let model = model::read(mixtral).unwrap();
    assert_eq!((model.total(), model.active()), (46_702_792_704, 12_879_925_248));
}

#[test]
fn every_family_agrees_with_its_class_also_where_keys_are_left_out() {
    let table = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/families.tsv")).unwrap();
    let mut misses = Vec::new();
    for row in table.lines().filter(|line| !line.starts_with('#')) {
        let cells: Vec<&str> = row.split('\t').collect();
        let model = model::read(cells[3]).unwrap_or_else(|error| panic!("{}: {error}", cells[3]));
        let cache = model.kv_bytes_per_token(2).to_string();
        let exact = if model.is_exact() { "exact" } else { "about" };
        if model.total().to_string() != cells[0] || (cells[1] != "-" && cells[1] != cache) || cells[2] != exact {
            misses.push(format!("{} {cache} {exact}: {row}", model.total()));
        }
    }
    assert!(misses.is_empty(), "{} misses:\n{}", misses.len(), misses.join("\n"));
}
