// Trees of counts. Nodes are numbered level by level, from the top.

import { refuse } from "../errors.js";
import { wholes, type Instructions, type Meaning, type Message } from "./randomizer.js";

export interface Tree {
  readonly sizes: readonly number[]; // the number of nodes of each level
  readonly cells: number;
  readonly nodes: number;
}

export function treeOf(from: Instructions): Tree {
  const sizes: number[] = [];
  for (const fanout of wholes(from, "fanouts", 20, 2 ** 20)) {
    sizes.push((sizes.at(-1) ?? 1) * fanout);
    if (fanout < 1 || sizes.at(-1)! > 2 ** 20) refuse("must have trees of at most 2^20 cells");
  }
  return { sizes, cells: sizes.at(-1)!, nodes: sizes.reduce((sum, size) => sum + size, 0) };
}

/** The messages of a cell: its node on each level. */
export function path(tree: Tree, cell: number): Message[] {
  let start = 0;
  return tree.sizes.map((size) => {
    const node = start + Math.floor(cell / (tree.cells / size));
    start += size;
    return [node];
  });
}

/** The cells of a node. */
export function cellsOf(tree: Tree, message: Message): Meaning {
  let node = Number(message[0]);
  for (const size of tree.sizes) {
    const width = tree.cells / size;
    if (node < size) return { kind: "cells", first: node * width, last: (node + 1) * width - 1 };
    node -= size;
  }
  return { kind: "report", numbers: message };
}
