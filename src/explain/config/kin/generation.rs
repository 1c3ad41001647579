//! `generation_config.json`: the cache at the length it allows.

use super::{Base, Kin, Said, hint};
use crate::explain::config::{LANGUAGE, keys, plain, sequence, size};
use crate::explain::texts::fill;
use crate::log::units::grouped;

/// Lengths, the one that counts first.
const LENGTHS: &str = "max_length|max_new_tokens";

pub(super) fn say(kin: &Kin, base: Option<&Base>) -> Said {
    let mut said = Said::default();
    let (Some(base), Some(member)) = (base, kin.member(LENGTHS)) else {
        return said;
    };
    let Some(length) = keys::number(&member.node).filter(|&length| length > 0) else {
        return said;
    };
    if base.model.kv_bytes_per_token(2) == 0 {
        return said;
    }
    let values = [("bytes", size(sequence(&base.model, length))), ("tokens", grouped(length)), ("place", plain(&base.place))];
    said.hints.push(hint(member, fill(LANGUAGE, "kin.generation", &values)));
    said
}
