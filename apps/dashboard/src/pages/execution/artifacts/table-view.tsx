import { plainText } from '../../../words/plain.ts'
import { MOST_ROWS } from './table-text.ts'

/** The first rows of a table. Its first row names the columns. */
export function TableView({ rows, name }: { rows: readonly (readonly string[])[]; name: string }) {
  const [head = [], ...body] = rows
  return (
    <>
      <div class="scroll-x table-preview" tabIndex={0} role="region" aria-label={`Rows of ${name}`}>
        <table class="rows">
          <thead>
            <tr>
              {head.map((cell, index) => (
                <th key={index}>{plainText(cell)}</th>
              ))}
            </tr>
          </thead>
          <tbody>
            {body.map((row, index) => (
              <tr key={index}>
                {row.map((cell, column) => (
                  <td key={column}>{plainText(cell)}</td>
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {rows.length >= MOST_ROWS && <p class="muted small">The first {MOST_ROWS} rows are shown.</p>}
    </>
  )
}
