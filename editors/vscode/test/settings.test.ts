import assert from "node:assert/strict";
import { test } from "node:test";
import { serverSettings } from "../src/settings";

const from = (values: Record<string, unknown>) => serverSettings((name) => values[name]);

test("defaults", () => {
  assert.deepEqual(from({}), {
    maxFindings: 200,
    rules: { disabled: [] },
    inlayHints: { enabled: true },
    gpu: "",
    task: "all",
    gpus: 0,
    sequenceLength: 0,
  });
});

test("set values arrive under the same names", () => {
  const values = {
    maxFindings: 20,
    "rules.disabled": ["cuda-oom"],
    "inlayHints.enabled": false,
    gpu: "rtx-4090",
    task: "lora",
    gpus: 16,
    sequenceLength: 4096,
  };
  assert.deepEqual(from(values), {
    maxFindings: 20,
    rules: { disabled: ["cuda-oom"] },
    inlayHints: { enabled: false },
    gpu: "rtx-4090",
    task: "lora",
    gpus: 16,
    sequenceLength: 4096,
  });
});

test("a value of the wrong type counts as not set", () => {
  const values = { maxFindings: "many", "rules.disabled": ["a", 3], "inlayHints.enabled": "yes", gpu: 4090, task: null, gpus: "8", sequenceLength: -1 };
  assert.deepEqual(from(values), {
    maxFindings: 200,
    rules: { disabled: ["a"] },
    inlayHints: { enabled: true },
    gpu: "",
    task: "all",
    gpus: 0,
    sequenceLength: 0,
  });
});
