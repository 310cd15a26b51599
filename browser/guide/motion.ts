// Steps that a reader can watch, unless the reader asked for less motion.

const still = matchMedia("(prefers-reduced-motion: reduce)");

/** Calls `step` with 1, …, `count`, over about `seconds`. For readers who want no motion it calls
 * `step` with `count` alone. The result stops the steps. */
export function steps(count: number, seconds: number, step: (done: number) => void): () => void {
  if (still.matches) {
    step(count);
    return () => undefined;
  }
  const begin = performance.now();
  let shown = 0;
  let frame = requestAnimationFrame(function next(now) {
    const done = Math.max(1, Math.min(count, Math.ceil(((now - begin) / 1000 / seconds) * count)));
    if (done > shown) step((shown = done));
    if (shown < count) frame = requestAnimationFrame(next);
  });
  return () => cancelAnimationFrame(frame);
}
