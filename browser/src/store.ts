// What this device remembers: for each survey, the sealed bytes until they are accepted, and that
// somebody has answered. There are neither answers nor times. Nothing is stored before `add`.

import { HeadcountError } from "./errors.js";

export interface Kept {
  readonly digest: string;
  readonly sealed: Uint8Array<ArrayBuffer> | null; // null once the shuffler has confirmed them
  readonly accepted: boolean;
  readonly epsilon: number; // what the survey promises
}

export interface Store {
  get(digest: string): Promise<Kept | undefined>;
  /** Keep a response. It fails if there is one already. */
  add(kept: Kept): Promise<void>;
  replace(kept: Kept): Promise<void>;
  all(): Promise<Kept[]>;
}

const DATABASE = "headcount";
const TABLE = "responses";

/** The store of a browser. Its database is made when the first response is kept. */
export class BrowserStore implements Store {
  async get(digest: string): Promise<Kept | undefined> {
    return (await this.all()).find((one) => one.digest === digest);
  }

  async all(): Promise<Kept[]> {
    const names = await indexedDB.databases();
    if (!names.some((one) => one.name === DATABASE)) return [];
    return this.run("readonly", (table) => table.getAll() as IDBRequest<Kept[]>);
  }

  async add(kept: Kept): Promise<void> {
    try {
      await this.run("readwrite", (table) => table.add(kept));
    } catch (error) {
      if (error instanceof DOMException && error.name === "ConstraintError") throw answered();
      throw error;
    }
  }

  async replace(kept: Kept): Promise<void> {
    await this.run("readwrite", (table) => table.put(kept));
  }

  private async run<T>(mode: IDBTransactionMode, ask: (table: IDBObjectStore) => IDBRequest<T>): Promise<T> {
    const database = await new Promise<IDBDatabase>((resolve, reject) => {
      const request = indexedDB.open(DATABASE, 1);
      request.onupgradeneeded = () => request.result.createObjectStore(TABLE, { keyPath: "digest" });
      request.onsuccess = () => resolve(request.result);
      request.onerror = () => reject(request.error);
    });
    try {
      return await new Promise<T>((resolve, reject) => {
        const transaction = database.transaction(TABLE, mode, { durability: "strict" });
        const request = ask(transaction.objectStore(TABLE));
        transaction.oncomplete = () => resolve(request.result);
        transaction.onabort = () => reject(transaction.error ?? request.error);
      });
    } finally {
      database.close();
    }
  }
}

export function answered(): HeadcountError {
  return new HeadcountError("answered", "this device has already answered the survey");
}
