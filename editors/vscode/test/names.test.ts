import assert from "node:assert/strict";
import { test } from "node:test";
import { documentSelector, isLogPath } from "../src/names";

test("log names", () => {
  for (const path of [
    "/runs/train.log",
    "/runs/TRAIN.LOG",
    "/runs/train.log.1",
    "/runs/slurm-1234_7.out",
    "C:\\runs\\job.err",
    "/runs/attempt_0/0/stderr.txt",
    "/runs/rank12.txt",
    "/runs/rank_3.txt",
  ]) {
    assert.ok(isLogPath(path), path);
  }
});

test("names that are not logs", () => {
  for (const path of [
    "/runs.log/notes.txt",
    "/runs/logits.py",
    "/runs/train.log.gz",
    "/runs/catalog",
    "/runs/outline.md",
    "/runs/franktxt",
  ]) {
    assert.ok(!isLogPath(path), path);
  }
});

test("the selector leaves other schemes and other JSON alone", () => {
  const selector = documentSelector();
  assert.ok(selector.every((filter) => filter.scheme === "file" || filter.scheme === "untitled"));
  const patterns = selector.map((filter) => filter.pattern);
  assert.ok(patterns.includes("**/config.json"));
  assert.ok(!patterns.some((pattern) => pattern?.endsWith("*config.json") && !/[-_]config\.json$/.test(pattern)));
});
