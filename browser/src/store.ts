// What this device remembers about each survey: which questions it has drawn, the sealed bytes until
// they are accepted, and that somebody has answered. There are neither answers nor times.

import { HeadcountError } from "./errors.js";
import type { Selection } from "./response.js";

export interface Kept {
  readonly digest: string;
  readonly sealed: Uint8Array<ArrayBuffer> | null; // null before sealing, and once they are accepted
  readonly accepted: boolean; // whether the shuffler has confirmed the sealed bytes
  readonly epsilon: number; // what the survey promises
  readonly selection?: Selection; // what the device has drawn, until it has sealed
}

export interface Store {
  all(): Promise<Kept[]>;
  /** Change what is kept about a survey, in one transaction, and return it. If `change` throws an
   * error, nothing changes. */
  update(digest: string, change: (found: Kept | undefined) => Kept): Promise<Kept>;
}

const DATABASE = "headcount";
const TABLE = "responses";

/** The store of a browser. Its database is made by the first update. */
export class BrowserStore implements Store {
  async all(): Promise<Kept[]> {
    const names = await indexedDB.databases();
    if (!names.some((one) => one.name === DATABASE)) return [];
    return this.run<Kept[]>("readonly", (table, done) => {
      const request = table.getAll() as IDBRequest<Kept[]>;
      request.onsuccess = () => done(request.result);
    });
  }

  async update(digest: string, change: (found: Kept | undefined) => Kept): Promise<Kept> {
    return this.run<Kept>("readwrite", (table, done, fail) => {
      const request = table.get(digest) as IDBRequest<Kept | undefined>;
      request.onsuccess = () => {
        try {
          const kept = change(request.result);
          table.put(kept);
          done(kept);
        } catch (error) {
          fail(error);
        }
      };
    });
  }

  /** Run a transaction. Its result counts when the transaction is complete. */
  private async run<T>(
    mode: IDBTransactionMode,
    ask: (table: IDBObjectStore, done: (result: T) => void, fail: (error: unknown) => void) => void,
  ): Promise<T> {
    const database = await new Promise<IDBDatabase>((resolve, reject) => {
      const request = indexedDB.open(DATABASE, 1);
      request.onupgradeneeded = () => request.result.createObjectStore(TABLE, { keyPath: "digest" });
      request.onsuccess = () => resolve(request.result);
      request.onerror = () => reject(request.error);
    });
    try {
      return await new Promise<T>((resolve, reject) => {
        const transaction = database.transaction(TABLE, mode, { durability: "strict" });
        const fail = (error: unknown) => {
          reject(error);
          transaction.abort();
        };
        transaction.onabort = () => reject(transaction.error);
        ask(transaction.objectStore(TABLE), (result) => (transaction.oncomplete = () => resolve(result)), fail);
      });
    } finally {
      database.close();
    }
  }
}

/** Whether answers were sealed. */
export function isAnswered(kept: Kept): boolean {
  return kept.accepted || kept.sealed !== null;
}

export function answered(): HeadcountError {
  return new HeadcountError("answered", "this device has already answered the survey");
}
