/** Rows as CSV (RFC 4180), for spreadsheets. */

/**
 * The first row has the names. A value with a comma, quote or line break is quoted. A text that a spreadsheet
 * would take for a formula gets an apostrophe before it.
 */
export function csvOf(names: readonly string[], rows: readonly (readonly (string | number)[])[]): string {
  const cell = (value: string | number): string => {
    const text = typeof value === 'string' && /^[=+\-@\t\r]/.test(value) ? `'${value}` : String(value)
    return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text
  }
  return [names, ...rows].map((row) => `${row.map(cell).join(',')}\r\n`).join('')
}
