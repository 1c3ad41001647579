import assert from "node:assert/strict";
import { test } from "node:test";
import { choices } from "../src/cards";

test("no GPU comes first, then the catalogue with usable memory", () => {
  const cards = [{ id: "rtx-4090", name: "NVIDIA GeForce RTX 4090", vendor: "nvidia", memory_bytes: 25_254_756_352 }];
  const lines = choices(cards);
  assert.deepEqual(lines.map((line) => line.id), ["none", "rtx-4090"]);
  assert.equal(lines[1]?.description, "23.52 GiB usable");
  assert.equal(lines[1]?.detail, "NVIDIA GeForce RTX 4090");
});
