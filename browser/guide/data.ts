// The numbers that the library computed for this page. `make guide` writes data.json.

import type Numbers from "./data.json";

export const data = JSON.parse(document.getElementById("data")!.textContent) as typeof Numbers;
