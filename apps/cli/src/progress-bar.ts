/** How far a program says that it is, as one line. */

const CELLS = 24

/** `[#########···············]  40 %  fitting` */
export function progressBar(fraction: number, message: string): string {
  const full = Math.round(Math.min(1, Math.max(0, fraction)) * CELLS)
  const percent = String(Math.floor(fraction * 100)).padStart(3)
  return `[${'#'.repeat(full)}${'·'.repeat(CELLS - full)}] ${percent} %  ${message}`.trimEnd()
}
