/** The server's catalogue of GPUs as the lines of a list. */

/** A card, as the server's command `trainwreck.gpus` lists it. */
export interface Card {
  id: string;
  name: string;
  vendor: string;
  memory_bytes: number;
}

export interface Choice {
  label: string;
  description: string;
  detail?: string;
  /** The argument of the server's command. */
  id: string;
}

const GIB = 2 ** 30;

/** The lines: first "none", then the cards as the catalogue orders them. */
export function choices(cards: Card[]): Choice[] {
  const none = { label: "No GPU", description: "name the smallest usual size that fits", id: "none" };
  const lines = cards.map((card) => ({
    label: card.id,
    description: `${(card.memory_bytes / GIB).toFixed(2)} GiB usable`,
    detail: card.name,
    id: card.id,
  }));
  return [none, ...lines];
}
