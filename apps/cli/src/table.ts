/** Columns for people. */

/** Aligns rows under their headings; `-` stands for nothing. */
export function table(
  headings: readonly string[],
  rows: readonly (readonly (string | number | null)[])[],
): string[] {
  const cells = [headings, ...rows].map((row) => row.map((cell) => (cell === null ? '-' : String(cell))))
  const widths = headings.map((_, column) => Math.max(...cells.map((row) => row[column]?.length ?? 0)))
  return cells.map((row) =>
    row
      .map((cell, column) => cell.padEnd(widths[column] ?? 0))
      .join('  ')
      .trimEnd(),
  )
}
