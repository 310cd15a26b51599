// Steps that a reader can watch, unless the reader asked for less motion.

const still = matchMedia("(prefers-reduced-motion: reduce)");
const LEAST_FRAMES = 20; // in a second, even if the machine is slow: then the steps take longer

/** Calls `step` with growing numbers up to `count`, over about `seconds`. For readers who want no motion
 * it calls `step` with `count` alone. The result stops the steps. */
export function steps(count: number, seconds: number, step: (done: number) => void): () => void {
  if (still.matches) {
    step(count);
    return () => undefined;
  }
  const most = Math.max(1, Math.ceil(count / (seconds * LEAST_FRAMES)));
  const begin = performance.now();
  let shown = 0;
  let frame = requestAnimationFrame(function next(now) {
    const due = Math.ceil(((now - begin) / 1000 / seconds) * count);
    const done = Math.min(count, shown + most, Math.max(1, due));
    if (done > shown) step((shown = done));
    if (shown < count) frame = requestAnimationFrame(next);
  });
  return () => cancelAnimationFrame(frame);
}
