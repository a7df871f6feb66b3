/** Reads the beginning of a text of separated values (RFC 4180). */

/** Rows and columns that are shown. */
export const MOST_ROWS = 200
const MOST_COLUMNS = 50
const MOST_CELL = 200

/** The first rows. A quote that never closes takes the rest of the text as its cell. */
export function tableOf(text: string, separator: ',' | '\t'): readonly (readonly string[])[] {
  const rows: string[][] = []
  let row: string[] = []
  let cell = ''
  let isQuoted = false
  const endCell = (): void => {
    if (row.length < MOST_COLUMNS) row.push(cell.slice(0, MOST_CELL))
    cell = ''
  }
  const endRow = (): void => {
    endCell()
    rows.push(row)
    row = []
  }
  for (let at = 0; at < text.length && rows.length < MOST_ROWS; at += 1) {
    const sign = text[at] ?? ''
    if (isQuoted) {
      if (sign !== '"') cell += sign
      else if (text[at + 1] === '"') {
        cell += '"'
        at += 1
      } else isQuoted = false
    } else if (sign === '"' && cell === '') isQuoted = true
    else if (sign === separator) endCell()
    else if (sign === '\n') endRow()
    else if (sign !== '\r') cell += sign
  }
  if ((cell !== '' || row.length > 0) && rows.length < MOST_ROWS) endRow()
  return rows
}
