import assert from "node:assert/strict";
import { test } from "node:test";
import { shortenRelated } from "../src/related";

test("one related place stays, the others are counted", () => {
  const related = (...messages: string[]) => ({ relatedInformation: messages.map((message) => ({ message })) });
  const findings = [related("a", "b", "c"), related("a"), related(), {}];
  shortenRelated(findings);
  assert.deepEqual(findings, [related("a (2 more: see the Outline)"), related("a"), related(), {}]);
});
