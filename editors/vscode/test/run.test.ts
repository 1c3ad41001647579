import assert from "node:assert/strict";
import { test } from "node:test";
import { OUTPUT_LIMIT, reportText, run } from "../src/run";

const node = (code: string, signal = AbortSignal.timeout(30_000)) =>
  run(process.execPath, ["-e", code], undefined, signal);

test("output, errors and exit code", async () => {
  const outcome = await node('console.log("out é"); console.error("err"); process.exitCode = 1');
  assert.deepEqual(outcome, { code: 1, stdout: "out é\n", stderr: "err\n", cut: false });
});

test("output is bounded", async () => {
  const outcome = await node(`process.stdout.write("x".repeat(${OUTPUT_LIMIT} * 2))`);
  assert.equal(outcome.code, 0);
  assert.ok(outcome.cut);
  assert.ok(outcome.stdout.length < OUTPUT_LIMIT + 1024 * 1024);
});

test("cancelling ends the process", async () => {
  const abort = new AbortController();
  const running = node("setInterval(() => {}, 1000)", abort.signal);
  setTimeout(() => abort.abort(), 50);
  await assert.rejects(running);
});

test("a program that is not there", async () => {
  await assert.rejects(run("/none/trainwreck", [], undefined, AbortSignal.timeout(1_000)), /ENOENT/);
});

test("report", () => {
  const report = (code: number, stdout: string, stderr = "", cut = false) =>
    reportText("/runs/a.log", { code, stdout, stderr, cut });
  assert.match(report(0, ""), /^trainwreck check \/runs\/a\.log\n\nNothing found\.\n$/);
  assert.match(report(1, "finding\n"), /\n\nfinding\n$/);
  assert.match(report(2, "", "cannot read\n"), /did not finish \(exit code 2\)\.\ncannot read\n$/);
  assert.match(report(1, "many\n", "", true), /The report is longer/);
});
