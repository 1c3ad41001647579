import assert from "node:assert/strict";
import { test } from "node:test";
import { builtFor, otherPlatform } from "../src/platform";

const elf = (machine: number) => {
  const header = Buffer.alloc(20);
  header.write("\x7fELF\x02\x01\x01", "latin1");
  header.writeUInt16LE(machine, 18);
  return header;
};

test("headers", () => {
  assert.equal(builtFor(elf(62)), "linux x64");
  assert.equal(builtFor(elf(183)), "linux arm64");
  assert.equal(builtFor(elf(9999)), "linux machine 9999");
  assert.equal(builtFor(Buffer.from([0xcf, 0xfa, 0xed, 0xfe])), "darwin");
  assert.equal(builtFor(Buffer.from("MZ\x90\x00")), "win32");
  assert.equal(builtFor(Buffer.from("#!/bin/sh\n")), undefined);
  assert.equal(builtFor(Buffer.alloc(0)), undefined);
});

test("this machine's own node is not of another platform", () => {
  assert.equal(otherPlatform(process.execPath, process.platform, process.arch), undefined);
  assert.equal(otherPlatform("/none", process.platform, process.arch), undefined);
});
