/**
 * Shortens the list of related places of a finding. VS Code shows that list in
 * the hover, above the explanation, in a box of some ten rows: the consequences
 * of a root cause would fill it. They stay in the Problems list as findings of
 * their own, and in the Outline.
 */

interface Finding {
  relatedInformation?: { message: string }[];
}

/** Keeps the first related place of each finding, and says how many more there are. */
export function shortenRelated(findings: readonly Finding[]): void {
  for (const finding of findings) {
    const [first, ...more] = finding.relatedInformation ?? [];
    if (first !== undefined && more.length > 0) {
      first.message = `${first.message} (${more.length} more: see the Outline)`;
      finding.relatedInformation = [first];
    }
  }
}
