import assert from "node:assert/strict";
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import * as path from "node:path";
import { test } from "node:test";
import { askVersion, candidates, locate, nothingStarts, whyNot, type Place } from "../src/binary";

const place = (files: string[], more: Partial<Place> = {}): Place => ({
  setting: "",
  extensionFolder: "/ext",
  platform: "linux",
  env: { PATH: "/usr/bin:bin:/home/user/.cargo/bin" },
  home: "/home/user",
  isExecutable: (file) => files.includes(file),
  ...more,
});

test("bundled before PATH", () => {
  const files = ["/ext/server/trainwreck", "/home/user/.cargo/bin/trainwreck"];
  assert.deepEqual(candidates(place(files)), [
    { source: "bundled", file: files[0] },
    { source: "path", file: files[1] },
  ]);
});

test("a relative folder in PATH is not looked into", () => {
  assert.deepEqual(candidates(place(["bin/trainwreck"])), []);
});

test("the setting is the only candidate", () => {
  const files = ["/ext/server/trainwreck", "/usr/bin/other"];
  const only = (setting: string) => candidates(place(files, { setting })).map(({ file }) => file);
  assert.deepEqual(only("/opt/trainwreck"), ["/opt/trainwreck"]);
  assert.deepEqual(only("~/bin/trainwreck"), ["/home/user/bin/trainwreck"]);
  assert.deepEqual(only("other"), ["/usr/bin/other"]);
  assert.deepEqual(only("  "), ["/ext/server/trainwreck"]);
});

test("Windows names", () => {
  const bundled = path.join("/ext", "server", "trainwreck.exe");
  assert.deepEqual(candidates(place([bundled], { platform: "win32" })), [{ source: "bundled", file: bundled }]);
});

test("the first that answers wins, and failures are kept", async () => {
  const list = candidates(place(["/ext/server/trainwreck", "/usr/bin/trainwreck"]));
  const { found, failures } = await locate(list, async (file) => {
    if (file.startsWith("/ext")) {
      throw new Error("it was built for another platform");
    }
    return "1.2.3";
  });
  assert.deepEqual(found, { source: "path", file: "/usr/bin/trainwreck", version: "1.2.3" });
  assert.equal(failures[0]?.why, "it was built for another platform");
});

test("messages name the way out", () => {
  assert.match(nothingStarts([], "linux x64"), /not found.*cargo install --locked --path trainwreck/);
  const why = "it was built for another platform";
  const bundled = nothingStarts([{ source: "bundled", file: "/ext/server/trainwreck", why }], "linux arm64");
  assert.match(bundled, /inside the extension does not start on this machine \(linux arm64\).*cargo install/);
  const setting = nothingStarts([{ source: "setting", file: "/opt/tw", why }], "linux x64");
  assert.match(setting, /trainwreck\.server\.path is \/opt\/tw/);
});

test("failures in plain words", () => {
  assert.match(whyNot({ code: "ENOENT", message: "" }, ""), /no such file/);
  assert.match(whyNot({ code: null, killed: true, message: "" }, ""), /in time/);
  assert.match(whyNot({ code: 127, message: "" }, "GLIBC_2.34 not found\nmore"), /exit code 127: GLIBC_2.34 not found$/);
});

test("real programs", async (t) => {
  const folder = mkdtempSync(path.join(tmpdir(), "trainwreck-test-"));
  t.after(() => rmSync(folder, { recursive: true }));
  const program = (name: string, text: string | Buffer, mode = 0o755) => {
    const file = path.join(folder, name);
    writeFileSync(file, text);
    chmodSync(file, mode);
    return file;
  };
  assert.equal(await askVersion(program("good", "#!/bin/sh\necho trainwreck 0.1.0\n")), "0.1.0");
  await assert.rejects(askVersion(program("other", "#!/bin/sh\necho GNU ls 9\n")), /another program/);
  await assert.rejects(askVersion(program("fails", "#!/bin/sh\necho no libc >&2\nexit 3\n")), /exit code 3: no libc/);
  const elf = Buffer.alloc(64);
  elf.write("\x7fELF\x02\x01\x01", "latin1");
  elf.writeUInt16LE(process.arch === "arm64" ? 62 : 183, 18);
  await assert.rejects(askVersion(program("alien", elf)), /built for linux (arm64|x64)/);
  await assert.rejects(askVersion(path.join(folder, "none")), /no such file/);
});
