/** Errors of calls to one of several cells. */
import { CofferdamError, isCofferdamError } from '@cofferdam/contract'
import { isRedisAway } from '../connect.ts'

/**
 * Runs a call to a cell. Throws `cell_unavailable`, which names the cell, where the queue does not answer.
 */
export async function inCell<T>(cell: number, call: () => Promise<T>): Promise<T> {
  try {
    return await call()
  } catch (error) {
    throw cellError(cell, error)
  }
}

/** The error of a call to a cell: `cell_unavailable` where the queue did not answer. */
export function cellError(cell: number, error: unknown): unknown {
  const isTold = isCofferdamError(error) && error.code === 'queue_unavailable'
  if (!isTold && !isRedisAway(error)) return error
  return new CofferdamError('cell_unavailable', `Cell ${cell} does not answer.`, {
    details: { ...(isTold ? error.details : {}), cell },
    cause: error,
  })
}

/**
 * The entry of a cell in this process's map. Throws `cell_unavailable` if the process does not know the cell.
 */
export function knownCell<T>(cells: ReadonlyMap<number, T>, cell: number): T {
  const known = cells.get(cell)
  if (known !== undefined) return known
  throw new CofferdamError(
    'cell_unavailable',
    `This process knows no cell ${cell}; its cells are ${[...cells.keys()].join(', ')}.`,
    { details: { cell } },
  )
}

/**
 * Asks all cells. `away` names those that do not answer. If none answers, throws the error of the first.
 * Throws any other error of a cell.
 */
export async function askCells<T, R>(
  cells: ReadonlyMap<number, T>,
  ask: (one: T, cell: number) => Promise<R>,
): Promise<{ answers: { cell: number; answer: R }[]; away: number[] }> {
  const asked = await Promise.all(
    [...cells].map(([cell, one]) =>
      inCell(cell, () => ask(one, cell)).then(
        (answer) => ({ cell, answer }),
        (error: unknown) => ({ cell, error }),
      ),
    ),
  )
  const answers = asked.flatMap((one) => ('error' in one ? [] : [one]))
  const failed = asked.flatMap((one) => ('error' in one ? [one] : []))
  const fault =
    failed.find(({ error }) => !isCellAway(error)) ?? (answers.length === 0 ? failed[0] : undefined)
  if (fault !== undefined) throw fault.error
  return { answers, away: failed.map(({ cell }) => cell) }
}

/** Whether an error says that a cell cannot be asked now. */
export const isCellAway = (error: unknown): boolean =>
  isCofferdamError(error) && error.code === 'cell_unavailable'
