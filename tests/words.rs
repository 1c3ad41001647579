//! What is said of a log: the hover and the post-mortem must be true, agree with each other and name what matters first.

#![allow(clippy::unwrap_used, clippy::expect_used)] // a test may fail that way

use trainwreck::explain::{self, post_mortem};
use trainwreck::log::rules::Rules;
use trainwreck::log::vocabulary::Severity;
use trainwreck::log::{Analysis, analyze};
use trainwreck::text::StrLines;

/// The hover of the root cause.
fn root_hover(log: &str) -> String {
    let rules = Rules::builtin();
    let analysis = analyze(log, &rules);
    let span = analysis.findings[analysis.story.root.expect("a root cause")].span;
    explain::hover(&analysis, &rules, span.line, span.start, &|_| None).expect("a hover").markdown
}

/// The items of a row of the post-mortem, joined; empty without such a row.
fn row(log: &str, label: &str) -> String {
    let rules = Rules::builtin();
    let analysis = analyze(log, &rules);
    let rows = rows_of(log, &analysis, &rules);
    rows.into_iter().find(|row| row.label == label).map(|row| row.items.join("\n")).unwrap_or_default()
}

fn rows_of(log: &str, analysis: &Analysis, rules: &Rules) -> Vec<post_mortem::Row> {
    let lines = StrLines::new(log);
    let part = post_mortem::Part { name: None, rank: None, analysis, lines: Some(&lines) };
    post_mortem::rows(&[part], analysis.story.root.map(|root| (0, root)), rules)
}

/// Does anything stand as an error or warning?
fn is_loud(log: &str) -> bool {
    analyze(log, &Rules::builtin()).findings.iter().any(|finding| finding.severity != Severity::Info)
}

/// Numbered items below a heading of a hover.
fn items<'h>(hover: &'h str, heading: &str) -> Vec<&'h str> {
    let section = hover.split_once(&format!("**{heading}**\n\n")).map_or("", |(_, rest)| rest);
    section.lines().take_while(|line| !line.is_empty()).collect()
}

fn oom(tried: &str, free: &str, process: &str, allocated: &str, idle: &str) -> String {
    format!(
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate {tried}. GPU 0 has a total capacity of 79.15 GiB of which {free} \
         is free. Including non-PyTorch memory, this process has {process} memory in use. Of the allocated memory {allocated} is \
         allocated by PyTorch, and {idle} is reserved by PyTorch but unallocated.\n"
    )
}

#[test]
fn idle_memory_is_spoken_of_in_one_way() {
    let idle = root_hover(&oom("3.91 GiB", "2.88 GiB", "76.27 GiB", "70.14 GiB", "4.40 GiB"));
    assert!(items(&idle, "What to do")[0].contains("expandable_segments:True"), "{idle}");
    assert!(!items(&idle, "What does not help").iter().any(|item| item.contains("expandable_segments")), "{idle}");
    let packed = root_hover(&oom("3.91 GiB", "2.88 GiB", "76.27 GiB", "74.14 GiB", "400.00 MiB"));
    assert!(!items(&packed, "What to do").iter().any(|item| item.contains("expandable_segments")), "{packed}");
    assert!(items(&packed, "What does not help").iter().any(|item| item.contains("expandable_segments")), "{packed}");
    assert_eq!(packed.matches("expandable_segments").count(), 1, "{packed}");
}

#[test]
fn a_release_without_expandable_segments_is_not_told_to_use_them() {
    let old = |allocated: &str, reserved: &str| {
        root_hover(&format!(
            "RuntimeError: CUDA out of memory. Tried to allocate 20.00 MiB (GPU 0; 10.76 GiB total capacity; {allocated} GiB already allocated; \
             6.44 MiB free; {reserved} GiB reserved in total by PyTorch)\n"
        ))
    };
    for hover in [old("9.63", "9.74"), old("7.00", "9.74")] {
        assert!(items(&hover, "What to do")[0].contains("max_split_size_mb:128"), "{hover}");
        assert!(!hover.contains("export PYTORCH_CUDA_ALLOC_CONF=expandable_segments"), "{hover}");
    }
}

#[test]
fn a_trainer_is_not_told_how_to_serve() {
    let error = oom("3.91 GiB", "2.88 GiB", "76.27 GiB", "74.14 GiB", "400.00 MiB");
    assert!(root_hover(&error).contains("When serving"), "nothing says who wrote it");
    assert!(!root_hover(&format!("step 3 loss 2.1\nstep 4 loss 2.0\n{error}")).contains("When serving"));
    let server = root_hover(&format!("INFO vLLM API server version 0.9.2\n{error}"));
    assert!(items(&server, "What to do")[0].contains("When serving"), "{server}");
}

#[test]
fn a_leak_leads_over_the_full_card() {
    let error = oom("1.96 GiB", "1.21 GiB", "77.93 GiB", "76.00 GiB", "942.18 MiB");
    let grown: String = (0..40).map(|i| format!("step {i} loss 2.1 allocated={}.50GiB reserved=78.00GiB\n", 36 + i)).collect();
    let level: String = (0..40).map(|i| format!("step {i} loss 2.1 allocated=75.50GiB reserved=78.00GiB {i}\n")).collect();
    let hover = root_hover(&format!("{grown}{error}"));
    assert!(hover.starts_with("**A leak: live tensors grew from step to step, to 75.50 GiB"), "{hover}");
    assert!(hover.contains("The card is full") && items(&hover, "What to do")[0].contains("loss.item()"), "{hover}");
    assert!(row(&format!("{grown}{error}"), "Cause").starts_with("Out of GPU memory (a leak, 75.50 GiB live)"));
    assert!(!root_hover(&format!("{level}{error}")).contains("leak"));
    // A limit below the card explains the error, whatever grew.
    let limited = "RuntimeError: CUDA out of memory. Tried to allocate 128.00 MiB (GPU 0; 15.77 GiB total capacity; 7.31 GiB already \
                   allocated; 7.90 GiB free; 7.40 GiB allowed; 7.38 GiB reserved in total by PyTorch)\n";
    assert!(!root_hover(&format!("{grown}{limited}")).contains("leak"));
}

fn losses(bad_from: usize, count: usize) -> String {
    let loss = |i: usize| if i < bad_from { 1.6 + (i % 5) as f64 / 100.0 } else { 2.1 * 1.4f64.powi((i - bad_from) as i32) };
    (0..count).map(|i| format!("step {i}/2000 | loss {:.4} | grad_norm 0.9\n", loss(i))).collect()
}

#[test]
fn after_a_divergence_the_way_back_is_before_it() {
    let nan = "step 60/2000 | loss nan | grad_norm nan\nstep 61/2000 | loss nan | grad_norm nan\n";
    let hover = root_hover(&format!("{}{nan}", losses(52, 60)));
    let remedies = items(&hover, "What to do");
    assert!(remedies[0].contains("before step 52") && remedies[1].contains("learning rate"), "{hover}");
    assert!(!remedies.iter().any(|remedy| remedy.contains("before the first NaN. Later")), "{hover}");
    let sudden = root_hover(&format!("{}{nan}", losses(60, 60)));
    assert!(items(&sudden, "What to do")[0].contains("before the first NaN"), "{sudden}");
}

fn timeout(rank: u32) -> String {
    format!(
        "[rank{rank}]:[E1129 10:41:12.10{rank}000 ProcessGroupNCCL.cpp:616] [Rank {rank}] Watchdog caught collective operation timeout: \
         WorkNCCL(SeqNum=55, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for 600000 milliseconds before timing out.\n"
    )
}

#[test]
fn a_timeout_is_told_by_who_did_not_come() {
    let log: String = [0, 1, 3].map(timeout).concat();
    let said = "Rank 2 never joined ALLREDUCE number 55; ranks 0-1, 3 waited 10 min";
    assert_eq!(row(&log, "Cause"), format!("{said} (line 1)"));
    let hover = root_hover(&log);
    assert!(hover.starts_with(&format!("**{said}.**")) && items(&hover, "What to do")[0].contains("last lines of rank 2"), "{hover}");
    // Nobody is named where nobody is known to be missing.
    let all: String = [0, 1, 2].map(timeout).concat();
    assert!(row(&all, "Cause").starts_with("Rank 0 waited 10 min"), "{}", row(&all, "Cause"));
    assert!(!row(&all, "Cause").contains("· rank 0"), "the message names its rank");
    assert!(items(&root_hover(&all), "What to do")[0].contains("ranks that are missing"));
}

#[test]
fn the_page_of_a_symptom_does_not_call_it_a_root_cause() {
    let rules = Rules::builtin();
    let heading = |id| explain::page_markdown(&rules, id).unwrap().lines().nth(2).unwrap().to_owned();
    assert!(heading("nccl-watchdog-timeout").ends_with("mostly a symptom, root cause only where the log shows nothing nearer"));
    assert!(heading("cuda-oom").ends_with("Root cause"));
}

#[test]
fn what_stands_above_the_root_cause_did_not_follow_from_it() {
    let overflow =
        |scale: u32| format!("[deepspeed] OVERFLOW! Rank 0 Skipping step. Attempted loss scale: {}, reducing to {scale}\n", 2 * scale);
    let log: String = (1..14).rev().map(|i| overflow(1 << i)).collect();
    let log = format!("{log}Exception: Current loss scale already at minimum - cannot decrease scale anymore. Exiting run.\n");
    assert_eq!(row(&log, "Followed"), "");
    assert!(row(&log, "Before").contains("overflow"), "{}", row(&log, "Before"));
    let rules = Rules::builtin();
    let analysis = analyze(&log, &rules);
    assert!(explain::diagnostic_message(&analysis, 0).ends_with("belongs to line 14"), "{}", explain::diagnostic_message(&analysis, 0));
    // The timeouts of other ranks are printed above an error that they follow from.
    let late = format!("{}{}[rank2]: {}", timeout(0), timeout(1), oom("1.96 GiB", "1.21 GiB", "77.93 GiB", "76.00 GiB", "942.18 MiB"));
    assert!(row(&late, "Followed").contains("timed out"), "{}", row(&late, "Followed"));
    assert!(!row(&late, "Before").contains("timed out"));
}

#[test]
fn a_program_that_says_it_finished_did_not_die() {
    let error = oom("1.96 GiB", "1.21 GiB", "77.93 GiB", "76.00 GiB", "942.18 MiB");
    let steps: String = (0..30).map(|i| format!("step {i} loss 2.1\n")).collect();
    let done = "Falling back to smaller eval batch\nEvaluation finished: acc 0.71\nTraining completed. Model saved to out/final\n";
    assert!(!is_loud(&format!("{steps}{error}{done}")));
    assert!(is_loud(&format!("{steps}{error}")));
    // What a script prints behind a program that died says nothing of it.
    let raised = format!("Traceback (most recent call last):\n  File \"train.py\", line 8, in <module>\n    main()\n{error}");
    assert!(is_loud(&format!("{steps}{raised}Training completed\n")));
    let sample =
        "Sample: 'The process was Killed because CUDA out of memory. Tried to allocate 20.00 MiB (GPU 0; 10.76 GiB total capacity)'\n";
    assert!(!is_loud(&format!("{steps}{sample}")));
}

#[test]
fn a_card_is_not_called_full_without_a_number_that_says_so() {
    let hover = root_hover("RuntimeError: CUDA out of memory. Tried to allocate 20.00 MiB (GPU 0; 10.76 GiB total capacity\n");
    assert!(hover.starts_with("**The message does not say how full the card was"), "{hover}");
    assert!(!hover.contains("More was free than was asked for") && hover.contains("Smaller batch"), "{hover}");
    let hint = |log: &str| {
        let analysis = analyze(log, &Rules::builtin());
        explain::hint(&analysis, analysis.story.root.unwrap()).unwrap()
    };
    assert!(hint("RuntimeError: CUDA error: out of memory\n").ends_with("out of memory"));
    assert!(hint(&oom("1.96 GiB", "1.21 GiB", "77.93 GiB", "76.00 GiB", "942.18 MiB")).contains("card full"));
}

#[test]
fn a_survived_failure_says_where_the_run_went_on() {
    let error = oom("1.96 GiB", "1.21 GiB", "77.93 GiB", "76.00 GiB", "942.18 MiB");
    let steps = |from: usize| -> String { (from..from + 9).map(|i| format!("step {i} loss 2.1\n")).collect() };
    let log = format!("{}{error}{}Training finished\n", steps(0), steps(9));
    let analysis = analyze(&log, &Rules::builtin());
    let hover = explain::hover(&analysis, &Rules::builtin(), 9, 3, &|_| None).unwrap().markdown;
    assert!(hover.contains("The run went on at step 9 (line 11). It finished (line 20)."), "{hover}");
}

#[test]
fn when_it_died_is_read_wherever_it_stands() {
    let error = oom("1.96 GiB", "1.21 GiB", "77.93 GiB", "76.00 GiB", "942.18 MiB");
    let bar = "  1%|▏         | 127/9750 [04:12<5:19:22,  1.99s/it]\n";
    assert_eq!(row(&format!("{error}{bar}"), "Died"), "about step 127 (line 2)");
    let worker = "Epoch 1:   3%|▎         | 31/1000 [00:12<06:27,  2.50it/s]ERROR: Unexpected bus error encountered in worker. This might be \
                  caused by insufficient shared memory (shm).\n";
    assert_eq!(row(worker, "Died"), "about step 31 (line 1)");
    let nan = |epoch: f64| format!("{{'loss': 0.0, 'grad_norm': nan, 'learning_rate': 2e-04, 'epoch': {epoch:.2}}}\n");
    assert_eq!(row(&format!("{}{}", nan(0.3), nan(0.31)), "Went bad"), "in epoch 0.30 (line 1)");
    let limit = "slurmstepd: error: *** JOB 779 ON node12 CANCELLED AT 2026-11-29T02:11:09 DUE TO TIME LIMIT ***\n";
    assert_eq!(row(limit, "Died"), "2026-11-29T02:11:09");
    // The watchdogs of the others speak ten minutes later.
    let late = format!("[rank2]: {error}{}{}", timeout(0), timeout(1));
    assert_eq!(row(&late, "Died"), "before 11-29 10:41:12.100000 (line 2)");
    assert!(row(&[timeout(0), timeout(1)].concat(), "Died").starts_with("11-29 10:41:12.100000"));
}

#[test]
fn a_named_holder_of_the_card_is_asked_about_by_its_pid() {
    let error = "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 224.00 MiB. GPU 0 has a total capacity of 23.64 GiB of \
                 which 18.88 MiB is free. Process 4411 has 20.10 GiB memory in use. Process 9921 has 3.50 GiB memory in use. Of the \
                 allocated memory 3.01 GiB is allocated by PyTorch, and 60.10 MiB is reserved by PyTorch but unallocated.\n";
    let hover = root_hover(error);
    assert!(hover.starts_with("**Process 4411 holds 20.10 GiB of this card's 23.64 GiB; this process has 3.50 GiB.**"), "{hover}");
    assert!(items(&hover, "What to do")[0].contains("-p 4411`") && hover.contains("CUDA_VISIBLE_DEVICES=1"), "{hover}");
    let ranks = root_hover(&error.replace("torch.cuda.Out", "[rank1]: torch.cuda.Out"));
    assert!(!ranks.contains("CUDA_VISIBLE_DEVICES=1"), "one rank of many cannot take another card: {ranks}");
    // A small second entry that is not this process: two holders, neither named as the one.
    let two = root_hover(&error.replace("3.50 GiB memory", "3.50 GiB memory in use. Process 77 has 0.10 GiB memory"));
    assert!(two.starts_with("**Others hold 20.12 GiB"), "{two}");
}

#[test]
fn a_batch_is_traded_from_the_runs_own() {
    let error = oom("1.96 GiB", "1.21 GiB", "77.93 GiB", "76.00 GiB", "942.18 MiB");
    let told = |batch: u32, steps: u32| {
        root_hover(&format!("  Instantaneous batch size per device = {batch}\n  Gradient Accumulation steps = {steps}\n{error}"))
    };
    assert!(told(4, 4).contains("batch 2 × 8 in place of 4 × 4"), "{}", told(4, 4));
    assert!(told(3, 2).contains("batch 1 × 6 in place of 3 × 2"));
    assert!(!told(1, 16).contains("Smaller batch per device"));
    assert!(root_hover(&error).contains("batch 4 × 8 in place of 8 × 4"));
}

#[test]
fn one_event_on_two_lines_is_not_two_events() {
    let limit = |what: &str| format!("slurmstepd: error: *** {what} ON node12 CANCELLED AT 2026-11-29T02:11:09 DUE TO TIME LIMIT ***\n");
    let log = format!("{}{}", limit("JOB 779"), limit("STEP 779.0"));
    assert!(row(&log, "Cause").contains("2 lines report it"), "{}", row(&log, "Cause"));
    let far = format!("{}{}{}", limit("JOB 779"), "waiting\n".repeat(60), limit("JOB 780"));
    assert!(row(&far, "Cause").contains("2 times in this log"), "{}", row(&far, "Cause"));
    let nan: String = (0..5).map(|i| format!("step {i} | loss nan\n")).collect();
    assert!(row(&nan, "Cause").contains("5 times in this log"));
    // Two details of one kill that say different things are two.
    let kernel = "memory: usage 125829120kB, limit 125829120kB, failcnt 90211\n\
                  oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=step_0,mems_allowed=0-1,oom_memcg=/slurm/uid_1001/job_90311,\
                  task_memcg=/slurm/uid_1001/job_90311/step_0/task_0,task=python3,pid=31877,uid=1001\n\
                  Memory cgroup out of memory: Killed process 31877 (python3) total-vm:88452392kB, anon-rss:60712340kB, file-rss:163836kB, \
                  shmem-rss:0kB, UID:1001 pgtables:131072kB oom_score_adj:0\n";
    let analysis = analyze(kernel, &Rules::builtin());
    assert_eq!(analysis.story.groups.len(), 3, "{:?}", analysis.story.groups);
}

#[test]
fn the_stack_of_a_fatal_signal_is_read_and_not_asked_for() {
    let stack = "Fatal Python error: Segmentation fault\n\nCurrent thread 0x00007f9d8b7fe700 (most recent call first):\n  \
                 File \"/opt/venv/lib/python3.11/site-packages/x/y.py\", line 90 in forward\n  File \"/home/user/a/train.py\", line 12 in forward\n";
    assert_eq!(row(stack, "Raised at"), "a/train.py:12 in forward");
    assert!(!root_hover(stack).contains("-X faulthandler"));
    assert!(root_hover("Segmentation fault (core dumped)\n").contains("-X faulthandler"));
    let assertion = "/opt/pytorch/aten/src/ATen/native/cuda/Indexing.cu:1308: indexSelectLargeIndex: block: [211,0,0], thread: [32,0,0] \
                     Assertion `srcIndex < srcSelectDimSize` failed.\nTraceback (most recent call last):\n  File \"/home/user/a/train.py\", line 44, \
                     in <module>\n    out = model(ids)\nRuntimeError: CUDA error: device-side assert triggered\n";
    assert_eq!(row(assertion, "Raised at"), "a/train.py:44 in <module>");
}

#[test]
fn hardware_advice_uses_what_the_log_names() {
    let xid = |number: u32, text: &str| {
        format!("Nov 29 04:00:11 node03 kernel: NVRM: Xid (PCI:0000:3b:00): {number}, pid=51877, name=python3, {text}\n")
    };
    let first =
        xid(48, "An uncorrectable double bit error (DBE) has been detected on GPU in the framebuffer at partition 4, subpartition 0.");
    let alone = root_hover(&first);
    assert!(alone.contains("nvidia-smi -i 0000:3b:00.0 -r") && alone.contains("Look at the Xids next to it"), "{alone}");
    let both = root_hover(&format!("{first}{}", xid(94, "Contained: SM (0x1). RST: No, D-RST: No")));
    assert!(!both.contains("Look at the Xids next to it"), "{both}");
    let ecc = "RuntimeError: CUDA error: uncorrectable ECC error encountered\n";
    assert!(root_hover(ecc).contains("CUDA_VISIBLE_DEVICES=1"));
    let ranked = root_hover(&format!("[rank3]: {ecc}"));
    assert!(!ranked.contains("CUDA_VISIBLE_DEVICES=1") && ranked.contains("--exclude=NODE"), "{ranked}");
}

#[test]
fn a_share_that_could_not_hold_the_weights_is_not_recommended() {
    let start =
        "ValueError: Free memory on device (9.81/23.64 GiB) on startup is less than desired GPU memory utilization (0.9, 21.28 GiB).\n";
    assert!(root_hover(start).contains("--gpu-memory-utilization 0.40"));
    let loaded = format!("INFO 11-29 09:12:29 [gpu_model_runner.py:1801] Model loading took 14.9889 GiB and 8.101238 seconds\n{start}");
    let hover = root_hover(&loaded);
    assert!(!hover.contains("--gpu-memory-utilization 0.4") && hover.contains("the weights alone take 14.99 GiB"), "{hover}");
}

#[test]
fn sizes_are_readable() {
    let message = |log: &str| analyze(log, &Rules::builtin()).findings[0].message.clone();
    assert!(
        message("INFO 11-29 09:12:29 [gpu_model_runner.py:1801] Model loading took 14.9889 GiB and 8.1 seconds\n").contains("14.99 GiB")
    );
    let jax = "jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to allocate 17179869184 bytes.\n";
    assert!(message(jax).contains("16.00 GiB"), "{}", message(jax));
    let ollama = "time=2026-11-29T10:00:00.000Z level=WARN source=server.go:133 msg=\"model request too large for system\" requested=\"40.1 GiB\" \
                  available=33554432000 total=\"31.2 GiB\" free=\"29.9 GiB\" swap=\"1.0 GiB\"\n";
    assert!(message(ollama).contains("31.25 GiB is available"), "{}", message(ollama));
    let killed = "Memory cgroup out of memory: Killed process 31877 (python3) total-vm:88452392kB, anon-rss:60712340kB, file-rss:163836kB, \
                  shmem-rss:0kB, UID:1001 pgtables:131072kB oom_score_adj:0\n";
    let rules = Rules::builtin();
    let hover = explain::hover(&analyze(killed, &rules), &rules, 0, killed.find("60712340").unwrap() + 1, &|_| None).unwrap().markdown;
    assert!(hover.contains("62,169,436,160 bytes · 57.90 GiB"), "{hover}");
}

#[test]
fn the_first_remedy_ends_with_a_sentence() {
    for page in Rules::builtin().pages() {
        for excerpt in page.section("Flagged").split("```").skip(1).step_by(2) {
            let log: String = excerpt.lines().skip(1).filter(|line| !line.starts_with("#~")).map(|line| format!("{line}\n")).collect();
            let remedy = row(&log, "Do first");
            assert!(remedy.chars().count() <= 240 && remedy.matches('`').count().is_multiple_of(2), "{}: {remedy}", page.id);
        }
    }
}

#[test]
fn a_restarted_or_caught_failure_says_how_it_went_on() {
    let message = |log: &str| explain::diagnostic_message(&analyze(log, &Rules::builtin()), 0);
    let caught = "step 1 loss 2.1\nWARNING: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 23.64 GiB of which \
                  1.21 GiB is free. Skipping batch 30.\nstep 31 loss 2.0\nstep 32 loss 2.0\n";
    assert!(message(caught).ends_with("caught: Skipping batch · the run went on at step 31"), "{}", message(caught));
    let error = oom("1.96 GiB", "1.21 GiB", "77.93 GiB", "76.00 GiB", "942.18 MiB");
    let steps = |from: usize| -> String { (from..from + 9).map(|i| format!("step {i} loss 2.1\n")).collect() };
    let again = format!("{}{error}Resuming training from out/checkpoint-5\n{}Training finished\n", steps(0), steps(5));
    assert!(message(&again).ends_with("started again at step 5, and finished"), "{}", message(&again));
}

#[test]
fn what_was_caught_is_told_as_the_program_told_it() {
    let log = "WARNING: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 23.64 GiB of which 1.21 GiB is free. \
               Skipping batch 30.\n";
    assert_eq!(analyze(log, &Rules::builtin()).findings[0].message, "Out of GPU memory (2.00 GiB asked for), caught: Skipping batch");
    let ray = "ray.exceptions.OutOfMemoryError: Task was killed due to the node running low on memory.\nMemory on the node (IP: 10.0.0.4, ID: abc) \
               where the task (task ID: xyz, name=train, pid=4411, memory used=51.20GB) was running was 118.51GB / 123.70GB (0.958), which exceeds \
               the memory usage threshold of 0.95.\n";
    assert!(
        row(ray, "Cause")
            .starts_with("Ray killed worker 4411, which held 51.20GB: host memory of 10.0.0.4 at 118.51GB of 123.70GB (line 1)")
    );
}

#[test]
fn memory_that_ran_out_in_evaluation_is_not_saved_by_accumulation() {
    let error = oom("1.96 GiB", "1.21 GiB", "77.93 GiB", "76.00 GiB", "942.18 MiB");
    let within = |function: &str| {
        let frame = "Traceback (most recent call last):\n  File \"/app/train.py\", line 140, in ";
        format!("step 19 loss 2.31\n{frame}{function}\n    logits = model(x).logits\n{error}")
    };
    let evaluation = row(&within("evaluate"), "Do first");
    assert!(evaluation.contains("per_device_eval_batch_size"), "{evaluation}");
    let hover = root_hover(&within("validation_step"));
    assert!(
        hover.contains("inference_mode") && !hover.contains("accumulation steps") && !hover.contains("Gradient checkpointing"),
        "{hover}"
    );
    let training = row(&within("training_step"), "Do first");
    assert!(training.contains("accumulation") && !training.contains("eval"), "{training}");
}

#[test]
fn a_run_that_had_made_steps_had_the_right_interface() {
    let error = "node1:22:23 [0] misc/socket.cc:484 NCCL WARN socketStartConnect: Connect to 10.0.0.4<52211> failed : Connection refused\n";
    assert!(row(error, "Do first").starts_with("Choose the interface"), "{}", row(error, "Do first"));
    let late = format!("step 1 | loss 2.40 | lr 1.0e-05\nstep 2 | loss 2.39 | lr 1.0e-05\n{error}");
    assert!(row(&late, "Do first").contains("the peer died"), "{}", row(&late, "Do first"));
    assert!(!root_hover(&late).contains("NCCL_SOCKET_IFNAME=eth0"));
}

#[test]
fn remedies_name_the_node_of_the_log() {
    let failed = |node: &str| {
        let log = format!("slurmstepd: error: *** STEP 9.0 ON {node} CANCELLED AT 2026-11-29T03:00:00 DUE TO NODE FAILURE ***\n");
        row(&log, "Do first")
    };
    assert!(failed("gpu17").contains("`--exclude=gpu17`"), "{}", failed("gpu17"));
    // A list is not one node.
    assert!(failed("gpu[3-5]").contains("`--exclude=NODE`"), "{}", failed("gpu[3-5]"));
}
