//! A log that grows line by line, and one whose lines are edited, tell what the same text tells when it is opened.

#![allow(clippy::unwrap_used, clippy::expect_used)] // a test may fail that way

use std::sync::Arc;

use proptest::prelude::*;
use ropey::Rope;
use trainwreck::log::rules::Rules;
use trainwreck::log::{LogDocument, analyze};

/// What a rank prints between two step lines, at most; `{step}` and `{rank}` are filled in.
fn event() -> impl Strategy<Value = String> {
    prop::sample::select(vec![
        "",
        "[rank{rank}]: Traceback (most recent call last):\n[rank{rank}]:   File \"/home/user/train.py\", line 42, in train_step\n[rank{rank}]:     loss.backward()\n[rank{rank}]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.96 GiB. GPU {rank} has a total capacity of 79.15 GiB of which 1.12 GiB is free.\n",
        "[rank{rank}]: Traceback (most recent call last):\n[rank{other}]: Traceback (most recent call last):\n[rank{rank}]:   File \"/home/user/train.py\", line 7, in main\n[rank{other}]:   File \"/home/user/data.py\", line 9, in read\n[rank{rank}]: ValueError: bad shape\n[rank{other}]: OSError: [Errno 5] Input/output error\n",
        "[rank{rank}]:[E1129 10:11:12.123456789 ProcessGroupNCCL.cpp:616] [Rank {rank}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum={step}, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for 600015 milliseconds before timing out.\n",
        "step {step} loss nan\n",
        "INFO:torch.distributed.elastic.agent.server.api:[default] Worker group FAILED. {rank}/3 attempts left; will restart worker group\n",
        "Resuming from checkpoint /home/user/ckpt-{step}\n",
        "OOM in batch, skipping it\n",
        "Killed\n",
    ])
    .prop_map(str::to_owned)
}

/// A run of one to three attempts on a few ranks.
fn log() -> impl Strategy<Value = String> {
    (prop::collection::vec((event(), 0u32..4, 0usize..6, prop::bool::weighted(0.2)), 1..10), 0u32..3).prop_map(|(parts, growth)| {
        let mut step = 100;
        let mut text = String::new();
        for (event, rank, steps, falls) in parts {
            if falls {
                step -= 20;
            }
            for _ in 0..steps {
                step += 1;
                text.push_str(&format!("step {step} loss 2.{step} mem {}.5GB\n", step * growth));
            }
            let filled = event.replace("{rank}", &rank.to_string()).replace("{other}", &(rank + 1).to_string());
            text.push_str(&filled.replace("{step}", &step.to_string()));
        }
        text
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, max_shrink_iters: 100, ..ProptestConfig::default() })]

    #[test]
    fn a_log_that_grows_tells_what_it_tells_at_once(text in log()) {
        let rules = Rules::builtin();
        let mut document = LogDocument::new(Arc::clone(&rules));
        let mut rope = Rope::new();
        document.open(&rope, &|| true).unwrap();
        for line in text.split_inclusive('\n') {
            let last = rope.len_lines() - 1;
            rope.insert(rope.len_chars(), line);
            document.edit(&rope, last, 1, 2, &|| true).unwrap();
        }
        prop_assert_eq!(&*document.analysis(), &analyze(&text, &rules));
    }

    #[test]
    fn a_line_taken_out_is_as_if_it_never_stood_there(text in log(), at in 0usize..40) {
        let rules = Rules::builtin();
        let mut document = LogDocument::new(Arc::clone(&rules));
        let mut rope = Rope::from_str(&text);
        document.open(&rope, &|| true).unwrap();
        let line = at % rope.len_lines();
        if line + 1 < rope.len_lines() {
            rope.remove(rope.line_to_char(line)..rope.line_to_char(line + 1));
            document.edit(&rope, line, 2, 1, &|| true).unwrap();
        }
        prop_assert_eq!(&*document.analysis(), &analyze(&rope.to_string(), &rules));
    }
}
