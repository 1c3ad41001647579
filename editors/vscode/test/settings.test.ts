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
  });
});

test("set values arrive under the same names", () => {
  const values = {
    maxFindings: 20,
    "rules.disabled": ["cuda-oom"],
    "inlayHints.enabled": false,
    gpu: "rtx-4090",
    task: "lora",
  };
  assert.deepEqual(from(values), {
    maxFindings: 20,
    rules: { disabled: ["cuda-oom"] },
    inlayHints: { enabled: false },
    gpu: "rtx-4090",
    task: "lora",
  });
});

test("a value of the wrong type counts as not set", () => {
  const values = { maxFindings: "many", "rules.disabled": ["a", 3], "inlayHints.enabled": "yes", gpu: 4090, task: null };
  assert.deepEqual(from(values), {
    maxFindings: 200,
    rules: { disabled: ["a"] },
    inlayHints: { enabled: true },
    gpu: "",
    task: "all",
  });
});
