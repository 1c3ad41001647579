/**
 * Reads from the first bytes of a program which system it was built for.
 * Needed because a failed start does not tell: on Linux a program of another
 * platform is handed to the shell, which complains about a syntax error.
 */

import { closeSync, openSync, readSync } from "node:fs";

/** Bytes needed: the machine field of an ELF header ends at 20. */
const HEADER = 20;

/** The platform as Node names it ("linux arm64", "darwin"), if the header tells. */
export function builtFor(header: Uint8Array): string | undefined {
  const bytes = Buffer.from(header);
  if (bytes.length >= HEADER && bytes.readUInt32BE(0) === 0x7f454c46) {
    const machine = bytes[5] === 2 ? bytes.readUInt16BE(18) : bytes.readUInt16LE(18);
    const names: Record<number, string> = { 3: "ia32", 40: "arm", 62: "x64", 183: "arm64", 243: "riscv64" };
    return `linux ${names[machine] ?? `machine ${machine}`}`;
  }
  if (bytes.length >= 4 && [0xcffaedfe, 0xcafebabe].includes(bytes.readUInt32BE(0))) {
    return "darwin";
  }
  if (bytes.length >= 2 && bytes.readUInt16BE(0) === 0x4d5a) {
    return "win32";
  }
  return undefined;
}

/** The platform of `file` when it is another one than this machine's. */
export function otherPlatform(file: string, platform: string, arch: string): string | undefined {
  const built = builtFor(readHeader(file));
  return built === undefined || `${platform} ${arch}`.startsWith(built) ? undefined : built;
}

function readHeader(file: string): Uint8Array {
  const bytes = new Uint8Array(HEADER);
  try {
    const handle = openSync(file, "r");
    try {
      return bytes.subarray(0, readSync(handle, bytes, 0, HEADER, 0));
    } finally {
      closeSync(handle);
    }
  } catch {
    return bytes.subarray(0, 0); // not readable: the header tells nothing
  }
}
